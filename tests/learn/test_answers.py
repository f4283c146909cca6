"""Wrong answers are refused, and the cause is named; what is right need not look like the solution."""

import copy
import inspect
import os
import re
from functools import cache
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from approved import check_approved
from learn.answers import all_right, all_wrong
from learn.verdicts import check_figures, comparisons

from minitransformer.apps.learn import bank, find
from minitransformer.apps.learn.checks.graph import add_slopes, draw_plans, walk
from minitransformer.apps.learn.referee import judge
from minitransformer.apps.learn.solutions import solution_of

WRONG = list(all_wrong())


@pytest.mark.parametrize("exercise", bank(), ids=lambda exercise: exercise.name)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_wrong_answers_are_told_why_and_where(exercise):
    """The words that matter are in the lists; the figures are computed again."""
    answers = [(words, answer) for name, words, answer in WRONG if name == exercise.name]
    assert len(answers) > 1, "add its likely mistakes to mistakes.toml beside the exercise"
    for words, answer in answers:
        with comparisons() as compared:
            verdict = judge(exercise, [answer])
        assert not verdict.right
        assert verdict.solved
        told, text = verdict.words, verdict.format(exercise.name)
        if " failed with " in told:  # the line that is shown below is this test's own, with the words in it
            blocks = told.split("\n\n")
            told = "\n\n".join((blocks[0], *blocks[2:]))
        if isinstance(words, re.Pattern):
            assert words.search(" ".join(told.split())), told
        else:  # lines end at hyphens too
            assert "".join(words.split()) in "".join(told.split()), told
        assert text.startswith(f"{exercise.name}: ")
        # lines of the answer itself may be longer
        assert max(len(line) for line in text.splitlines() if not line.startswith("    ")) <= 80
        first = next((one for one in compared if one.wrong.any()), None)
        if first is not None and verdict.words.startswith(first.name):
            check_figures(text, first)
            assert verdict.share == np.mean([not one.wrong.any() for one in compared])


@pytest.mark.parametrize(("name", "answer"), list(all_right()))
def test_another_right_answer_passes(name, answer):
    verdict = judge(find(name), [answer])
    assert verdict.right, verdict.words


def mapped(change, found):
    if isinstance(found, dict):
        return {name: mapped(change, part) for name, part in found.items()}
    if isinstance(found, list | tuple):
        return type(found)(mapped(change, part) for part in found)
    return change(found)


def narrow(found):
    """Return numbers of half the width, and whole numbers in place of truth values."""
    kind = np.asarray(found).dtype.kind
    return np.float32(found) if kind == "f" else np.int64(found) if kind == "b" else found


def spoil(given):
    if isinstance(given, np.ndarray):
        given[...] = ~given if given.dtype == bool else given + 1
    elif isinstance(given, list):
        given.append(given[0])
    elif isinstance(given, dict):
        given["more"] = []


by_function = pytest.mark.parametrize(
    "exercise",
    [exercise for exercise in bank() if exercise.asks_for != ["counterexample"]],
    ids=lambda exercise: exercise.name,
)


@by_function
def test_a_wrong_number_of_results_is_told_with_the_number_found(exercise):
    """Seven numbers may also be one result."""
    words = judge(exercise, [lambda *_: (0.5,) * 7]).words
    solution, results = solution_of(exercise.name), []
    judge(exercise, [lambda *inputs: results.append(solution(*inputs)) or results[-1]])
    n = len(results[0]) if isinstance(results[0], tuple) else 1
    assert n == 1 or f"expected {n} results, found 7." in words
    assert words


@by_function
def test_a_solution_is_refused_that_is_right_for_the_first_sizes_only(exercise):
    """Where there are no arrays, for the first numbers only."""
    solution = solution_of(exercise.name)
    first = []

    def know_one_case(*inputs):
        case = [x.shape for x in inputs if isinstance(x, np.ndarray)] or inputs
        first[:] = first or [case, solution(*inputs)]
        return solution(*inputs) if case == first[0] else first[1]

    assert not judge(exercise, [know_one_case]).right


@by_function
def test_a_solution_is_refused_that_writes_to_its_inputs_or_narrows_them(exercise):
    solution = solution_of(exercise.name)
    wrote = []

    def write(*inputs):
        found = mapped(np.copy, solution(*inputs))
        for given in inputs:
            wrote.append(isinstance(given, np.ndarray | list | dict))
            spoil(given)
        return found

    words = judge(exercise, [write]).words
    assert "was changed in place" in words or not any(wrote), words
    kinds = set()

    def narrowed(*inputs):
        found = solution(*inputs)
        mapped(lambda part: kinds.add(np.asarray(part).dtype.kind), found)
        return mapped(narrow, found)

    words = judge(exercise, [narrowed]).words
    assert "float32" in words or "f" not in kinds or exercise.name == "a-cotangent-that-shows-it", words
    assert "int64" in words or "b" not in kinds, words


def sizes_of(value):
    """Return what an argument is, in a word or two."""
    if isinstance(value, np.ndarray):
        kind = {"b": " bool", "i": " int"}.get(value.dtype.kind, "")
        return ("x".join(map(str, value.shape)) or "number") + kind
    if isinstance(value, bool | int | float | str):
        return f"{value:.4g}" if isinstance(value, float) else f"{value}"
    if callable(value):
        return "function"
    return type(value).__name__ + (f" {len(value)}" if hasattr(value, "__len__") else "")


def numbers_in(value):
    """Return all numbers in an argument; of a generator, those that it would draw."""
    if isinstance(value, dict | list | tuple):
        return [one for part in (value.values() if isinstance(value, dict) else value) for one in numbers_in(part)]
    if isinstance(value, np.random.Generator):
        return [copy.deepcopy(value).normal()]
    is_number = isinstance(value, np.ndarray | int | float)
    return [one for one in np.ravel(value).astype(float) if np.isfinite(one)] if is_number else []


@cache
def cases_of(exercise):
    """Return a line for each case in which a check calls the answer: the arguments, and a sum of all their numbers."""
    solution, lines = solution_of(exercise.name), {}
    names = inspect.signature(solution).parameters

    def record(*inputs):
        key = str([crc32(one.tobytes()) if isinstance(one, np.ndarray) else one for one in inputs])
        if key not in lines:  # calls are repeated to measure their time
            numbers = numbers_in(inputs)
            total = float(np.dot(numbers, np.cos(np.arange(len(numbers)))))
            told = ", ".join(f"{name} {sizes_of(one)}" for name, one in zip(names, inputs, strict=False))
            lines[key] = f"  {told}: {total:.3g}"
        return solution(*inputs)

    assert judge(exercise, [record]).right
    return [*dict.fromkeys(lines.values())]


def test_the_cases_of_each_exercise_are_those_that_were_read():
    """Sizes, seeds and special cases decide which mistakes a check finds. A new exercise needs no lines here."""
    path = Path(__file__).with_name("approved_cases.txt")
    read = {*re.findall(r"^\S+$", path.read_text(encoding="utf-8"), re.M)} if path.exists() else set()
    by_function = [one for one in bank() if one.asks_for != ["counterexample"]]
    chosen = [one for one in by_function if one.name in read or os.environ.get("APPROVE") == "1"]
    check_approved(path, "\n".join(line for one in chosen for line in (one.name, *cases_of(one))))


@by_function
def test_a_check_has_several_cases_which_are_the_same_each_time(exercise):
    """Some axes have different lengths, so that one taken for another is noticed."""
    first = cases_of(exercise)
    assert first == cases_of.__wrapped__(exercise)
    assert len(first) > 1
    shapes = {tuple(shape.split("x")) for shape in re.findall(r" (\d+(?:x\d+)+)\b", "\n".join(first))}
    assert not shapes or len(shapes) > 1 or any(len({*shape}) > 1 for shape in shapes)


@pytest.mark.parametrize("stopped", [frozenset(), frozenset({"a", "n1"})])
def test_the_walk_that_answers_are_held_against_gives_the_gradients(stopped):
    for plan in draw_plans(3):
        steps = add_slopes(plan, np.random.default_rng(4))
        for name, gradient in walk(steps, 2.0, stopped).items():
            grown = {name: 1.0}  # a graph of sums: by how much does each value grow when this one grows by 1?
            for output, names, slopes in steps:
                if output != name:
                    shares = [
                        0.0 if part in stopped else grown.get(part, 0.0) * slope
                        for part, slope in zip(names, slopes, strict=True)
                    ]
                    grown[output] = sum(shares)
            assert gradient == pytest.approx(0.0 if name in stopped else 2.0 * grown["loss"])


def test_an_error_is_told_where_the_answer_has_it_not_where_numpy_has_it():
    def backward(x, axis, d_y):
        return np.broadcast_to(d_y, (x.size + 1,))

    words = judge(find("sum-along-an-axis"), [backward]).words
    assert re.search(r"Line \d+, in backward, failed with ValueError", words), words
    assert "np.broadcast_to(d_y" in words
