"""Results of every kind: the check itself never fails, never blames the learner's code for it, and accepts none."""

import warnings
from functools import wraps

import numpy as np
import pytest

from minitransformer.learn import bank
from minitransformer.learn.referee import judge

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
    "masked": lambda value: np.ma.masked_all(np.shape(value)),
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


def in_part(change, key):
    """Change one part of a tuple, a list or a dictionary."""

    def changed(value):
        if isinstance(value, dict):
            keys = list(value)
            return value | {keys[key]: change(value[keys[key]])}
        parts = list(value)
        parts[key] = change(parts[key])
        return type(value)(parts)

    return changed


def same(one, other):
    """Return whether two results are so alike that both are right."""
    if isinstance(one, np.ndarray | np.generic | int | float | bool):
        kinds = [np.asarray(x).dtype.kind for x in (one, other)] if not isinstance(other, Hostile) else [1, 2]
        return kinds[0] == kinds[1] and np.array_equal(one, other, equal_nan=kinds[0] == "f")
    if isinstance(one, list | tuple) and type(one) is type(other):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other


def solution(exercise):
    names = {"__name__": "solution"}
    exec(exercise.solution, names)
    return names[exercise.asks_for[0]]


def judged(exercise, change):
    """Return the verdict on the solution with a changed result, and whether the change was none."""
    answer, alike = solution(exercise), []

    @wraps(answer)
    def changed(*inputs):
        value = answer(*inputs)
        try:
            found = change(value)
        except (TypeError, ValueError, IndexError, KeyError, AttributeError):
            found = "no array"
        alike.append(same(value, found))
        return found

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        verdict = judge(exercise, [changed])
    return verdict, bool(alike) and all(alike)


def ways(exercise):
    """Yield every change to the result, and to the first and the last of its parts."""
    for kind, change in KINDS.items():
        yield kind, change
        yield f"{kind}, first part", in_part(change, 0)
        yield f"{kind}, last part", in_part(change, -1)


@pytest.mark.parametrize("exercise", bank(), ids=lambda exercise: exercise.name)
def test_results_of_every_kind_are_told_by_the_check(exercise):
    problems = []
    for kind, change in ways(exercise):
        verdict, alike = judged(exercise, change)
        if verdict.failed or "Calling your code failed" in verdict.words or verdict.right > alike:
            problems.append(f"{kind}: {verdict.words or 'right'}")
    assert not problems, "\n".join(problems)
