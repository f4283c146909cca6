"""Results of every kind: the check itself never fails, never blames the learner's code for it, and accepts none."""

import warnings
from functools import wraps

import numpy as np
import pytest
from learn.verdicts import check_figures, comparisons

from minitransformer.apps.learn import bank
from minitransformer.apps.learn.referee import judge
from minitransformer.apps.learn.solutions import solution_of

pytestmark = pytest.mark.numpy_only("exercises are in NumPy")


class Hostile:
    """An object whose every method fails."""

    def _fail(self, *_):
        raise RuntimeError("hostile")

    __array__ = __eq__ = __len__ = __bool__ = __iter__ = __float__ = __repr__ = __str__ = __hash__ = _fail


def endless():
    found = []
    found.append(found)
    return found


def like(fill):
    return lambda value: np.full_like(np.asarray(value, dtype=float), fill)


KINDS = {
    "an extra leading axis": lambda value: np.asarray(value)[None],
    "an extra last axis": lambda value: np.asarray(value)[..., None],
    "a row too many": lambda value: np.concatenate([np.atleast_1d(value)] * 2),
    "flat": lambda value: np.append(np.ravel(value), 0.5),
    "empty": lambda value: np.zeros((0, 3)),
    "turned": lambda value: np.asarray(value, dtype=float).T * 1.5,
    "transposed": lambda value: np.asarray(value).T,
    "doubled": lambda value: 2 * np.asarray(value, dtype=float),
    "negative": lambda value: -np.asarray(value, dtype=float),
    "a list": lambda value: np.asarray(value).tolist(),
    "NaN": like(np.nan),
    "infinite": like(np.inf),
    "minus infinity": like(-np.inf),
    "ones": like(1.0),
    "zeros": like(0.0),
    "huge": like(1e308),
    "one NaN": lambda value: np.where(np.arange(np.size(value)).reshape(np.shape(value)) == 0, np.nan, value),
    "objects": lambda value: np.asarray(value, dtype=object),
    "objects that are None": lambda value: np.full(np.shape(value), None),
    "True": lambda value: np.ones(np.shape(value), dtype=bool),
    "other numbers": lambda value: np.logical_not(value),
    "integers": lambda value: np.ones(np.shape(value), dtype=np.int8),
    "unsigned": lambda value: np.ones(np.shape(value), dtype=np.uint8),
    "half": lambda value: np.asarray(value, dtype=np.float16) + np.float16(1),
    "complex": lambda value: np.asarray(value) + 1j,
    "text in an array": lambda value: np.full(np.shape(value), "1.0"),
    "dates": lambda value: np.full(np.shape(value), "2017-06-12", dtype="M8[D]"),
    "records": lambda value: np.zeros(np.shape(value), dtype=[("a", float)]),
    "masked": lambda value: np.ma.array(value, mask=np.ones(np.shape(value), dtype=bool)),
    "text": lambda value: "0.5",
    "bytes": lambda value: b"0.5",
    "None": lambda value: None,
    "True alone": lambda value: True,
    "a number": lambda value: 1234.5,
    "a huge integer": lambda value: 10**400,
    "a complex number": lambda value: 2j,
    "a tuple of two": lambda value: (value, value),
    "an empty tuple": lambda value: (),
    "an empty list": lambda value: [],
    "a list of lists": lambda value: [[1.0], [2.0, 3.0]],
    "a list that contains itself": lambda value: endless(),
    "a dictionary": lambda value: {"a": value},
    "keys of numbers": lambda value: {1: 2.0, (3,): None},
    "a set": lambda value: {1, 2},
    "a generator": lambda value: (part for part in [value]),
    "an endless range": lambda value: range(10**15),
    "a function": lambda value: len,
    "a class": lambda value: dict,
    "an exception": lambda value: ValueError("returned"),
    "not implemented": lambda value: NotImplemented,
    "an object": lambda value: object(),
    "a hostile object": lambda value: Hostile(),
}


SEVERAL_ANSWERS = ("find-the-wrong", "a-cotangent-that-shows-it")
"""Exercises to which other results may be right too begin with these."""
WHOLE = ("adam-step", "causal-mask", "greedy-decoding", "matmul-backward", "order-of-a-graph", "softmax-forward")
"""One exercise of each kind of result meets all kinds; the others a third of the kinds each."""


def in_part(change, key):
    """Change one part of a tuple, a list or a dictionary."""

    def changed(value):
        if isinstance(value, dict):
            name = list(value)[key]
            return value | {name: change(value[name])}
        parts = list(value)
        parts[key] = change(parts[key])
        return type(value)(parts)

    return changed


def alike(one, other):
    """Return whether two results are the same numbers, so that both are right."""
    if type(one) is type(other) and isinstance(one, list | tuple | dict):
        pairs = zip(*(x.values() if isinstance(x, dict) else x for x in (one, other)), strict=False)
        return len(one) == len(other) and all(alike(*pair) for pair in pairs)
    try:
        return np.array_equal(np.asarray(one), np.asarray(other))
    except (ArithmeticError, AttributeError, MemoryError, RuntimeError, TypeError, ValueError):  # the second: NumPy 2.0
        return False


def judged(exercise, change):
    """Return the verdict on the solution with changed results, and these with the right ones."""
    solution, pairs = solution_of(exercise.name), []

    @wraps(solution)
    def changed(*inputs):
        value = solution(*inputs)
        try:
            found = change(value)
        except (TypeError, ValueError, IndexError):
            found = "no array"
        pairs.append((value, found))
        return found

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return judge(exercise, [changed]), pairs


def parts_of(value):
    """Return the arrays in a result."""
    if isinstance(value, dict | list | tuple):
        return [part for one in (value.values() if isinstance(value, dict) else value) for part in parts_of(one)]
    return [np.asarray(value)]


def is_one_of(one, parts):
    """Return whether numbers are some of a result."""
    same = [part for part in parts if part.shape == one.shape and part.dtype.kind in "fiub"]
    return any(np.allclose(one, part, rtol=1e-5, atol=1e-6, equal_nan=True) for part in same)


@pytest.mark.parametrize(("number", "exercise"), list(enumerate(bank())), ids=lambda one: getattr(one, "name", None))
def test_results_of_every_kind_are_told_by_the_check(number, exercise):
    """None is accepted, and the expected numbers are those of the solution."""
    with comparisons() as compared:
        right, pairs = judged(exercise, lambda value: value)
    assert right.right
    value, expected = pairs[0][0], [part for one, _ in pairs for part in parts_of(one)]
    compares_results = all(is_one_of(one.expected, expected) for one in compared)  # not what follows from them
    ways = dict(KINDS)
    if isinstance(value, tuple | list | dict) and value:
        for kind, change in KINDS.items():
            ways[f"{kind}, last part"] = in_part(change, -1)
    chosen = list(ways.items()) if exercise.name in WHOLE else list(ways.items())[number % 3 :: 3]
    problems = []
    for kind, change in chosen:
        with comparisons() as compared:
            verdict, pairs = judged(exercise, change)
        several = exercise.name.startswith(SEVERAL_ANSWERS) or all(alike(*pair) for pair in pairs)
        if verdict.failed or "Calling your code failed" in verdict.words or verdict.right > several:
            problems.append(f"{kind}: {verdict.words or 'right'}")
        first = next((one for one in compared if one.wrong.any()), None)
        if first is not None and verdict.words.startswith(first.name):
            check_figures(verdict.format(exercise.name), first)
            if compares_results and not is_one_of(first.expected, expected):
                problems.append(f"{kind}: expected {first.expected} of {first.name}")
    assert not problems, "\n".join(problems)
