"""Chapter 2: wrong answers, each of which must be refused with the words that help."""

import math
import re

import numpy as np
import pytest

from minitransformer.learn import find
from minitransformer.learn.referee import judge


def breadth_first(parts, loss):
    order = [loss]
    for node in order:
        order += [part for part in dict.fromkeys(parts[node]) if part not in order]
    return order


def depth_first(parts, loss):
    order, stack = [], [loss]
    while stack:
        node = stack.pop()
        if node not in order:
            order.append(node)
            stack += parts[node]
    return order


def once_for_each_path(parts, loss):
    order = [loss]
    for node in order:
        order += parts[node]
    return order


def counted(parts, loss, *, reached_only=True, once=False):
    """Count uses and count down; from all nodes, or each user once, by mistake."""
    inside = set(breadth_first(parts, loss)) if len(parts) < 20 else set(parts)
    waiting = dict.fromkeys(parts, 0)
    for node in inside if reached_only else parts:
        for part in parts[node]:
            waiting[part] += 1
    ready, found = [loss], []
    while ready:
        node = ready.pop()
        found.append(node)
        for part in set(parts[node]) if once else parts[node]:
            waiting[part] -= 1
            if waiting[part] == 0:
                ready.append(part)
    return found


def recursive(parts, loss):
    found = {}

    def visit(node):
        if node not in found:
            for part in parts[node]:
                visit(part)
            found[node] = True

    visit(loss)
    return list(reversed(found))


def receiving(receive):
    """Return what exercise 2 makes of a function that receives shares."""

    def backward(x, d_L):
        d = {"L": d_L}
        d["u"] = receive(d, "u", d["L"])
        d["x"] = receive(d, "x", d["L"])
        d["x"] = receive(d, "x", d["u"] * x)
        d["x"] = receive(d, "x", d["u"] * x)
        return d["x"]

    return backward


def in_place(d, name, share):
    if name not in d:
        return share
    d[name] += share
    return d[name]


def walk(*, turn=reversed, add=True, stop=lambda output, name, stopped: False):
    def backward(steps, d_loss, stopped=frozenset()):
        d = {name: 0.0 for output, inputs, _ in steps for name in (output, *inputs)}
        d[steps[-1][0]] = d_loss
        for output, inputs, slopes in turn(steps):
            for name, slope in zip(inputs, slopes, strict=True):
                if not stop(output, name, stopped):
                    d[name] = d[output] * slope + (d[name] if add else 0.0)
        return d

    return backward


def turned_in_place(steps, d_loss):
    d = walk()(steps, d_loss)
    steps.reverse()
    return d


def no_dead_end(steps, d_loss):
    return {name: value for name, value in walk()(steps, d_loss).items() if name != "dead"}


def gate(mix):
    def backward(x, d_y, f, f_backward, g, g_backward):
        u, v = f(x), g(x)
        return mix(lambda d: f_backward(x, d), lambda d: g_backward(x, d), d_y, u, v)

    return backward


def whole_step(steps, d_loss, stopped):
    return walk(turn=lambda steps: [step for step in reversed(steps) if not stopped & set(step[1])])(steps, d_loss)


WRONG = [
    ("order-of-a-graph", breadth_first, "u has its turn before v, which was made of it"),
    ("order-of-a-graph", depth_first, "has its turn before"),
    ("order-of-a-graph", once_for_each_path, "u has 2 turns"),
    ("order-of-a-graph", lambda parts, loss: counted(parts, loss, reached_only=False), "a never has its turn"),
    ("order-of-a-graph", lambda parts, loss: counted(parts, loss, once=True), "x never has its turn"),
    ("order-of-a-graph", lambda parts, loss: list(parts), "dead is in the list"),
    ("order-of-a-graph", lambda parts, loss: counted(parts, loss)[::-1], "L has its turn|before"),
    ("order-of-a-graph", recursive, "too deep for recursion"),
    ("order-of-a-graph", lambda parts, loss: [*counted(parts, loss), "dead"], "dead is in the list"),
    ("order-of-a-graph", lambda parts, loss: set(parts), "should return a list"),
    ("add-up-the-shares", receiving(lambda d, name, share: share), "only the last share is left"),
    ("add-up-the-shares", receiving(lambda d, name, share: d.get(name, share)), "only the first share"),
    ("add-up-the-shares", receiving(lambda d, name, share: d.get(name, 1.0) + share), "is not right yet"),
    ("add-up-the-shares", receiving(in_place), "changed in place"),
    ("add-up-the-shares", lambda x, d_L: d_L * x + d_L, "one share of x \\* x is missing"),
    ("walk-back", walk(turn=list), "the first step of the forward pass comes first"),
    ("walk-back", walk(add=False), "each share replaces the ones before it"),
    ("walk-back", turned_in_place, "steps was changed"),
    ("walk-back", no_dead_end, "d has no 'dead'"),
    ("walk-back", lambda steps, d_loss: walk()(steps, 1.0), "times what it should be|is not right yet"),
    ("one-input-two-functions", gate(lambda f, g, d, u, v: f(d * v)), "comes back through g is missing"),
    ("one-input-two-functions", gate(lambda f, g, d, u, v: g(d * u)), "comes back through f is missing"),
    ("one-input-two-functions", gate(lambda f, g, d, u, v: f(d * u) + g(d * v)), "u and v are exchanged"),
    ("one-input-two-functions", gate(lambda f, g, d, u, v: f(d) + g(d)), "the product is missing on the way back"),
    ("one-input-two-functions", gate(lambda f, g, d, u, v: f(d * v) * g(d * u)), "two shares are multiplied"),
    ("one-input-two-functions", gate(lambda f, g, d, u, v: f(d * v) - g(d * u)), "is not right yet"),
    ("stop-the-gradient", walk(), "without any stop"),
    ("stop-the-gradient", whole_step, "its other inputs should get their share"),
    ("stop-the-gradient", walk(stop=lambda output, name, stopped: output in stopped), "but it receives"),
    ("stop-the-gradient", walk(stop=lambda output, name, stopped: True), "is not right yet"),
    ("find-the-wrong-engine", "a", "is as it should be"),
    ("find-the-wrong-engine", "C", "should be one of"),
]


@pytest.mark.parametrize(("name", "answer", "cause"), WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_a_wrong_answer_is_refused_with_its_cause(name, answer, cause):
    verdict = judge(find(name), [answer])
    assert not verdict.right
    assert verdict.solved
    assert re.search(cause, " ".join(verdict.words.split())), verdict.words
    assert max(map(len, verdict.told(name).splitlines())) <= 80


def test_other_right_answers_pass():
    """What is right need not look like the solution."""
    assert judge(find("order-of-a-graph"), [counted]).right
    assert judge(find("add-up-the-shares"), [lambda x, d_L: d_L * (2 * x + 1)]).right
    assert judge(find("add-up-the-shares"), [receiving(lambda d, name, share: d.get(name, 0) + share)]).right
    ways = walk(stop=lambda output, name, stopped: name in stopped)
    assert judge(find("stop-the-gradient"), [ways]).right


def test_each_exercise_has_two_wrong_answers():
    names = [name for name, *_ in WRONG]
    chapter = find("walk-back").chapter
    assert all(names.count(exercise) >= 2 for exercise in names)
    assert {find(name).chapter for name in names} == {chapter}
    assert len(set(names)) == 6


def test_one_engine_is_wrong_and_an_easy_graph_hides_it():
    engines = {}
    exec(find("find-the-wrong-engine").text.partition('\nif __name__ == "__main__"')[0], engines)
    x, y = 3.0, 2.0
    hard = {"x": [], "y": [], "u": [("x", y), ("y", x)], "v": [("x", 1.0), ("u", 1.0)], "L": [("u", 9.0), ("v", 6.0)]}
    found = {letter: engines[letter](hard, "L") for letter in "abcd"}
    truth = {"x": 36.0, "y": 45.0, "u": 15.0, "v": 6.0, "L": 1.0}
    assert [letter for letter in "abcd" if found[letter] != truth] == ["c"]
    assert math.isclose(found["c"]["x"], 24.0)
    assert len({repr(engines[letter](engines["EASY"], "L")) for letter in "abcd"}) == 1
    assert np.isclose(engines["a"](engines["EASY"], "L")["x"], 1.5)
