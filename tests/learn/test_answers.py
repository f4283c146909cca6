"""Wrong answers are refused, and the cause is named; what is right need not look like the solution."""

import copy
import re
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from approved import check_approved
from learn.answers import all_right, all_wrong
from toml_cases import toml_table

from minitransformer.apps.learn import bank, find, verdict
from minitransformer.apps.learn.checks.graph import add_slopes, draw_plans, walk
from minitransformer.apps.learn.referee import judge
from minitransformer.apps.learn.solutions import solution_of

WRONG = list(all_wrong())
VARYING = re.compile(r"\bLine \d+|\b[\d.]+\s+times as fast|(?<=returned L, e, )[abc, ]+")
"""Lines of the tests themselves, measured times, and the order of a set."""


@pytest.mark.parametrize("exercise", bank(), ids=lambda exercise: exercise.name)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_wrong_answers_are_told_why_in_the_words_that_are_approved(exercise):
    texts = []
    for name, words, answer in WRONG:
        if name != exercise.name:
            continue
        verdict = judge(exercise, [answer])
        assert not verdict.right
        assert verdict.solved
        told, text = verdict.words, verdict.format(name)
        if " failed with " in told:  # the line that is shown below is this test's own, with the words in it
            told = told.partition("\n\n")[0]
        if isinstance(words, re.Pattern):
            assert words.search(" ".join(told.split())), told
        else:  # lines end at hyphens too
            assert "".join(words.split()) in "".join(told.split()), told
        # lines of the answer itself may be longer
        assert max(len(line) for line in text.splitlines() if not line.startswith("    ")) <= 80
        texts.append(VARYING.sub("...", text))
    assert len(texts) > 1
    check_approved(Path(__file__).parent / "approved_verdicts" / f"{exercise.name}.txt", "\n\n".join(texts) + "\n")


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


def test_what_is_said_of_results_of_a_wrong_number_is_approved():
    texts = [f"{exercise.name}: {judge(exercise, [lambda *_: (0.5,) * 7]).words}" for exercise in bank()]
    check_approved(Path(__file__).parent / "approved_verdicts" / "of-seven-results.txt", "\n\n".join(texts))


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


CALLS, NAMES = toml_table(__file__, "CALLS"), toml_table(__file__, "NAMES")


def shortened(text):
    return text if len(text) < 150 else f"{text[:100]} ... {crc32(text.encode()):x}"


def described(value):
    """Return a short text for an argument, in which each entry of an array and its place count."""
    if isinstance(value, np.ndarray):
        numbers = np.where(np.isfinite(value), value, 7.5).ravel() * np.arange(1, value.size + 1)
        return f"{value.dtype} {value.shape} {numbers.sum():.4g}"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {described(part)}' for key, part in value.items())}}}"
    if isinstance(value, list | tuple | set):
        return f"[{', '.join(map(described, sorted(value) if isinstance(value, set) else value))}]"
    if isinstance(value, np.random.Generator):
        return f"a generator at {copy.deepcopy(value).integers(1000)}"
    return f"{value:.4g}" if isinstance(value, float) else "a function" if callable(value) else repr(value)


@by_function
def test_a_check_compares_what_is_in_the_table(exercise, monkeypatch):
    """Sizes, seeds, masks and special cases decide which mistakes a check finds; messages name what is compared."""
    solution, calls, names, compared = solution_of(exercise.name), [], [], verdict.Comparison

    def note(name, *rest, **about):
        names.append(shortened(f"{name}, for {about['inputs']}" if about.get("inputs") else name))
        return compared(name, *rest, **about)

    monkeypatch.setattr(verdict, "Comparison", note)

    def follow(given):
        """Note what a function that is an argument returns: its numbers may be random ones."""
        if not callable(given):
            return given

        def followed(*inputs):
            found = given(*inputs)
            if (line := shortened(f"a function of {described(inputs)}: {described(found)}")) not in calls:
                calls.append(line)
            return found

        return followed

    def record(*inputs):
        calls.append(shortened("; ".join(map(described, inputs))))
        return solution(*map(follow, inputs))

    assert judge(exercise, [record]).right
    # Calls are repeated to measure their time.
    assert [*dict.fromkeys(calls)] == CALLS.get(exercise.name)
    assert [*dict.fromkeys(names)] == NAMES.get(exercise.name)


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
