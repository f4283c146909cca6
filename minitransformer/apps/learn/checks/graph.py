"""The order of a backward pass, and accumulation."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import Any, NoReturn

import numpy as np

from minitransformer.apps.learn.comparing import check_backward
from minitransformer.apps.learn.counterexample import Claim, claims_of, judge_claims, read_answer
from minitransformer.apps.learn.solutions import mistaken
from minitransformer.apps.learn.verdict import Wrong, agree, as_array, refuse_unsolved
from minitransformer.testing import draw_cotangent, fits

Parts = Mapping[str, Sequence[str]]
Plan = list[tuple[str, tuple[str, ...]]]
Steps = list[tuple[str, tuple[str, ...], tuple[float, ...]]]

# u = x * y, v = x + u, L = u * v, with the parts of L and of v both ways round; then one with x * x and a dead end.
GRAPHS: list[dict[str, list[str]]] = [
    {"L": ["u", "v"], "v": ["x", "u"], "u": ["x", "y"], "x": [], "y": []},
    {"L": ["v", "u"], "v": ["u", "x"], "u": ["y", "x"], "x": [], "y": []},
    {"x": [], "a": ["x", "x"], "dead": ["x", "a"], "b": ["a"], "c": ["a", "x"], "e": ["b", "c"], "L": ["a", "e"]},
]
LONG = 5000
NOTHING = np.zeros(0)
"""Fits no number."""


def draw_plans(seed: int) -> Iterator[Plan]:
    """Yield three graphs, each as outputs with what they are made of; the last output is the loss."""
    rng = np.random.default_rng(seed)
    for n in (4, 6, 9):
        names = ["a", "b", "c"]
        plan = []
        for i in range(n):
            output = f"n{i}" if i < n - 1 else "loss"
            plan.append((output, tuple(str(name) for name in rng.choice(names, rng.integers(1, 4)))))
            names.append(output)
        yield plan


def order_of_a_graph(order: Callable[..., Any]) -> None:
    """Check that every node comes once, and after all of its users."""
    for parts in (*GRAPHS, *({output: [*names] for output, names in plan} for plan in draw_plans(21))):
        loss = "L" if "L" in parts else next(reversed(parts))
        parts = parts | {name: [] for used in parts.values() for name in used if name not in parts}
        _in_order(order({node: list(used) for node, used in parts.items()}, loss), parts, loss, _words(parts))
    chain = {"L": ["h0"]} | {f"h{i}": [f"h{i + 1}"] for i in range(LONG)} | {f"h{LONG}": []}
    try:
        found = order({node: list(used) for node, used in chain.items()}, "L")
    except RecursionError:
        raise Wrong(
            f"A chain of {LONG} nodes is too deep for recursion: use a loop, and `ready` as the list of the next nodes."
        ) from None
    _in_order(found, chain, "L", f"a chain of {LONG} nodes")


def _words(parts: Parts) -> str:
    return ", ".join(f"{node} made of {' and '.join(used)}" for node, used in parts.items() if used)


def _in_order(found: Any, parts: Parts, loss: str, graph: str) -> None:
    refuse_unsolved(found)

    def refuse(sentence: str) -> NoReturn:
        shown = f" You returned {', '.join(map(str, found))}." if len(found) < 20 else ""
        raise Wrong(f"The order is not right yet.\n\nIn the graph {graph}.{shown}\n\n{sentence}")

    if not isinstance(found, list | tuple):
        raise Wrong(f"order should return a list of names, but it returns {type(found).__name__}.")
    if odd := [type(name).__name__ for name in found if not isinstance(name, str)]:
        raise Wrong(f"order should return a list of names, but one of them is of type {odd[0]}.")
    reached, stack = {loss}, [loss]
    while stack:
        new = set(parts[stack.pop()]) - reached
        reached |= new
        stack += new
    turns = Counter(found)
    for node, times in turns.items():
        if node not in reached:
            refuse(f"{node} is in the list, but {loss} does not depend on it: leave it out.")
        if times > 1:
            refuse(f"{node} is in the list {times} times. Put it there once, after all its users.")
    for node in sorted(reached - set(turns)):
        refuse(f"{node} is missing in the list.")
    place = {node: i for i, node in enumerate(found)}
    for node in sorted(reached):
        for part in parts[node]:
            if place[part] < place[node]:
                refuse(
                    f"{part} comes before {node}, which was made of it: when {part} passes on its gradient, the share "
                    f"from {node} is still missing."
                )


def add_up_the_shares(backward: Callable[..., Any]) -> None:
    """Check the gradient of x * x + x, for a number and for an array."""
    rng = np.random.default_rng(2)
    for x in (np.array(1.5), np.array(-0.8), rng.normal(size=3)):
        check_backward("add-up-the-shares", backward, lambda x: x * x + x, {"x": x}, output="L")


# One name is used twice in one step, one leads nowhere.
PLAN: Plan = [
    ("u", ("x", "y")),
    ("v", ("x", "u")),
    ("w", ("v",)),
    ("p", ("u", "w")),
    ("q", ("p", "p")),
    ("r", ("q", "z")),
    ("dead", ("w", "y")),
    ("L", ("r", "v")),
]


def add_slopes(plan: Plan, rng: np.random.Generator) -> Steps:
    """Return steps as the learner gets them, with random local derivatives."""
    return [(output, names, tuple(draw_cotangent(rng, [len(names)]).round(1).tolist())) for output, names in plan]


def walk(steps: Steps, d_loss: float, stopped: Collection[str] = ()) -> dict[str, float]:
    """Walk back: return the gradient of every name, 0 for those that are stopped."""
    d = {name: 0.0 for output, names, _ in steps for name in (output, *names)}
    d[steps[-1][0]] = d_loss
    for output, names, slopes in reversed(steps):
        for name, slope in zip(names, slopes, strict=True):
            if name not in stopped:
                d[name] += d[output] * slope
    return d


def _hold_walk(exercise: str, backward: Callable[..., Any], steps: Steps, d_loss: float, *stopped: set[str]) -> None:
    """Compare the learner's dictionary with the right one; mistakes are recognised by all gradients together."""
    found = backward(steps, d_loss, *stopped)
    refuse_unsolved(found)
    if not isinstance(found, dict):
        raise Wrong(f"backward should return d, a dictionary, but it returns {type(found).__name__}.")
    refuse_unsolved(list(found.values()))
    names = sorted(set().union(*stopped))
    expected = walk(steps, d_loss, names)
    if missing := [name for name in expected if name not in found]:
        raise Wrong(f"d has no {', '.join(map(repr, missing))}: it should have every name of the graph.")
    values = as_array([found[name] for name in expected])
    known = mistaken(exercise, steps, d_loss, *stopped)
    fitting = {words: fits(values, [*d.values()]) for words, d in known.items()}
    given = f"steps = {steps}, d_loss = {d_loss}"
    if names:
        given += f", stopped = {{{', '.join(map(repr, names))}}}"
    for name, value in expected.items():
        where = f'd["{name}"]' + (f" with {' and '.join(names)} stopped" if names else "")
        where += ", from which no path leads to the loss," if name == "dead" else ""
        mistakes = {words: found[name] if fit else NOTHING for words, fit in fitting.items()}
        agree(where, found[name], np.array(value), mistakes=mistakes, inputs=given)


def walk_back(backward: Callable[..., Any]) -> None:
    """Check the gradients of all names, in a graph by hand and in others."""
    rng = np.random.default_rng(22)
    for plan, d_loss in ((PLAN, 1.3), *zip(draw_plans(23), (-0.7, 2.5, 1.1), strict=True)):
        _hold_walk("walk-back", backward, add_slopes(plan, rng), d_loss)


def one_input_two_functions(backward: Callable[..., Any]) -> None:
    """Check the gradient of f(x) * g(x), for two pairs of functions."""
    rng = np.random.default_rng(4)
    pairs: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
        (np.tanh, lambda x, d: d * (1 - np.tanh(x) ** 2)),
        (lambda x: 1 / (1 + np.exp(-x)), lambda x, d: d * np.exp(-x) / (1 + np.exp(-x)) ** 2),
        (lambda x: x.cumsum(axis=1), lambda x, d: d[:, ::-1].cumsum(axis=1)[:, ::-1]),
    ]
    for shape, first, second in (((3, 4), 0, 1), ((2, 5), 1, 2)):
        _gate(backward, rng.normal(size=shape), *pairs[first], *pairs[second])


def _gate(backward: Callable[..., Any], x: np.ndarray, f: Any, f_back: Any, g: Any, g_back: Any) -> None:
    def given(d_y: np.ndarray) -> tuple[Any, ...]:
        return x, d_y, f, f_back, g, g_back

    check_backward("one-input-two-functions", backward, lambda x: f(x) * g(x), {"x": x}, given)


def stop_the_gradient(backward: Callable[..., Any]) -> None:
    """Check the gradients if some values count as given: leaves, inner names, several, none."""
    rng = np.random.default_rng(24)
    for letters in ("u", "w", "py", ""):
        _hold_walk("stop-the-gradient", backward, add_slopes(PLAN, rng), -0.6, set(letters))
    for plan, names in zip(draw_plans(25), ({"n0"}, {"a", "n1"}, {"b", "n3"}), strict=True):
        _hold_walk("stop-the-gradient", backward, add_slopes(plan, rng), 1.7, names)


Graph = dict[str, list[tuple[str, float]]]
MOST_NODES, MOST_PARTS = 10, 20
"""Two of the engines follow every path; this limit keeps them to a few thousand."""


def find_the_wrong_engine(counterexample: Callable[..., Any]) -> str:
    """Check the graph on which one engine is seen to be wrong."""
    engines = claims_of("find-the-wrong-engine")
    letter, (given,) = read_answer(counterexample, "abcd", ["a graph"])
    graph = _read_graph(given)
    expected = {"d": np.array([_gain(graph, node) for node in graph])}
    results = {name: engines[name](graph, "L") for name in "abcd"}
    claims = {name: Claim({"d": np.array([d[node] for node in graph], float)}, expected) for name, d in results.items()}
    return judge_claims(letter, "c", claims, "what L gains when a node grows by 1", draw=partial(_table, graph))


def _read_graph(given: Any) -> Graph:
    """Return the learner's graph, if it is one."""
    if not isinstance(given, dict):
        raise Wrong(f"The graph should be a dictionary such as EASY, found {type(given).__name__}.")
    for name in given:
        if not isinstance(name, str) or not name.isidentifier() or len(name) > 8:
            raise Wrong(f"A node's name should be a word of at most 8 letters, found {name!r:.40}.")
    graph = {name: _read_uses(name, uses) for name, uses in given.items()}
    if "L" not in graph:
        raise Wrong('The graph has no node "L": that is the loss.')
    n = sum(map(len, graph.values()))
    if len(graph) > MOST_NODES or n > MOST_PARTS:
        raise Wrong(
            f"The graph has {len(graph)} nodes with {n} parts in all; {MOST_NODES} nodes with {MOST_PARTS} parts are "
            "enough. Try a smaller one."
        )
    _refuse_disorder({name: [part for part, _ in uses] for name, uses in graph.items()})
    return graph


def _read_uses(name: str, uses: Any) -> list[tuple[str, float]]:
    """Return what a node is made of: names and local derivatives."""
    refuse_unsolved(uses)
    pairs = list(uses) if isinstance(uses, tuple | list) else [uses]
    for pair in pairs:
        refuse_unsolved(pair)
        right = isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], str)
        if not right or not isinstance(pair[1], int | float | np.integer | np.floating) or not np.isfinite(pair[1]):
            raise Wrong(f'{name} should have a list of parts such as [("x", 3.0)], found {pair!r:.40} in it.')
    return [(part, float(slope)) for part, slope in pairs]


def _refuse_disorder(parts: Parts) -> None:
    """Refuse a graph with a missing part, with a cycle, or with a part after a node made of it."""
    for node, used in parts.items():
        for part in used:
            if part not in parts:
                raise Wrong(f"{node} is made of {part!r:.40}, but the graph has no such node.")
    try:
        TopologicalSorter(parts).prepare()
    except CycleError as error:
        raise Wrong(f"The graph has a cycle: {' makes '.join(error.args[1])}.") from None
    before: set[str] = set()
    for node, used in parts.items():
        for part in used:
            if part not in before:
                raise Wrong(f"{node} comes before {part}, which it is made of: put every node after its parts.")
        before.add(node)


def _gain(graph: Graph, moved: str) -> float:
    """Return what L gains when a node grows by 1, forwards through the graph."""
    gains: dict[str, float] = {}
    for node, uses in graph.items():
        gains[node] = 1.0 if node == moved else sum(gains[part] * slope for part, slope in uses)
    return gains["L"]


def _table(graph: Graph, claim: Claim) -> str:
    """Draw the graph, each node with its gradient and what it should be."""
    rows = [("node", "made of", "found", "should be", "")]
    for (node, uses), found, expected in zip(graph.items(), claim.found["d"], claim.expected["d"], strict=True):
        made = textwrap.shorten(" + ".join(f"{slope:g} {part}" for part, slope in uses), 34, placeholder=" ...")
        rows.append((node, made, f"{found:.6g}", f"{expected:.6g}", "" if np.isclose(found, expected) else "wrong"))
    wide = max(len(row[1]) for row in rows)
    return "\n".join(
        f"    {node:<8}  {made:<{wide}}  {found:>9}  {right:>9}  {mark}".rstrip()
        for node, made, found, right, mark in rows
    )
