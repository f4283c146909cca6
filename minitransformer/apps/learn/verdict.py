"""Helpful messages on wrong answers: which result, where, both numbers, and the likely cause.

A check calls these functions one after another, and the first that finds a fault raises ``Wrong``. Expected values come
from this package's operations, whose gradients are tested. Gradients are compared with finite differences, by
``mt.testing.gradcheck``, so a right formula in another form is accepted. Only gradients that differ clearly from those
of the solution, which passes the same check, are refused without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import cache, partial
from typing import Any
from zlib import crc32

import numpy as np

from minitransformer.apps.learn.description import Comparison, Mistakes
from minitransformer.autograd import Operation
from minitransformer.testing import GradientError, GradientReport, draw_cotangent, gradcheck


class Wrong(Exception):
    """An answer is not right yet; the message says what is wrong."""

    share = 0.0
    """The share of the check's cases that are right."""


class Unsolved(Wrong):
    """Nothing has been written at the TODO yet."""


def refuse_unsolved(value: Any) -> None:
    """Raise ``Unsolved`` if a value, or a part of it, is still the ``...`` of the exercise."""
    parts = value if isinstance(value, tuple | list) else (value,)
    objects = (part for part in parts if isinstance(part, np.ndarray) and part.dtype == object)
    if any(part is ... for part in (*parts, *(entry for part in objects for entry in part.flat))):
        raise Unsolved("The TODO is not done yet: its place is marked.")


NEAR = 1e-7
"""Gradients that differ by less from the expected ones, relative to the largest entry, are not obviously wrong."""
TINY = 1e-10
"""Smaller gradients are rounding errors of 0, and shown as 0."""
COMPARISONS: ContextVar[list[Comparison] | None] = ContextVar("COMPARISONS", default=None)
"""The comparisons of the check that is running, if it goes on after a wrong one."""


def judge_all_cases(check: Callable[[], str | None]) -> str | None:
    """Run a check, past wrong results to its last case; return what it returns.

    So the cause of a wrong result is known to explain the other cases as well. An error that follows a wrong result is
    not raised.

    Raises
    ------
    Wrong
        If a result is wrong: on the first.
    """
    comparisons: list[Comparison] = []
    token = COMPARISONS.set(comparisons)
    try:
        words = check()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or not any(one.wrong.any() for one in comparisons):
            raise
    finally:
        COMPARISONS.reset(token)
    for first in comparisons:
        if first.wrong.any():
            first.others = [one for one in comparisons if one is not first and one.result == first.result]
            wrong = Wrong(first.describe())
            wrong.share = sum(not one.wrong.any() for one in comparisons) / len(comparisons)
            raise wrong
    return words


def agree(
    name: str,
    found: Any,
    expected: Any,
    *,
    mistakes: Mistakes | None = None,
    sizes: Mapping[str, int] | None = None,
    tolerance: float = 1e-9,
    inputs: str = "",
    advice: Sequence[str] = (),
) -> None:
    """Raise ``Wrong`` if a result differs from the expected one; the message says where and, if clear, why.

    ``mistakes`` holds results of known mistakes, each under the sentence that names it; ``sizes`` numbers by which a
    result is often too large or too small, such as ``{"Dk": 4}``. The tolerance is relative to the largest expected
    entry. ``inputs`` are shown unchanged, and so are paragraphs of ``advice``.
    """
    expected = np.asarray(expected)
    values = _read(name, found, expected)
    known, sizes = mistakes or {}, sizes or {}
    if _compare(name, values, expected, tolerance, mistakes=known, sizes=sizes, inputs=inputs, advice=advice):
        _refuse_other_numbers(name, values, expected)


def _read(name: str, found: Any, expected: np.ndarray) -> np.ndarray:
    """Return a result as an array of numbers."""
    refuse_unsolved(found)
    if found is None:
        raise Wrong(f"{name} is None: is there a `return`?")
    values = as_array(found)
    if values.dtype.kind not in "fiub":
        what = type(found).__name__
        if isinstance(found, np.ndarray) or values.dtype.kind == "c":
            what = f"array of type {values.dtype}" if values.ndim else str(values.dtype)
        raise Wrong(f"{name} should be {_kind(expected)}, but it is {_article(what)}.")
    return values


def as_array(found: Any) -> np.ndarray:
    """Return a result as an array; one of type object if it is no array, such as rows of different lengths."""
    try:
        return np.asarray(found)
    except Exception:  # whatever the conversion of an object raises
        return np.asarray(None)


def _refuse_other_numbers(name: str, values: np.ndarray, expected: np.ndarray) -> None:
    """Raise ``Wrong`` if right numbers have a different type from the inputs."""
    if expected.dtype.kind == "f" and values.dtype.kind == "b":
        raise Wrong(f"{name} is True and False; it should be {_kind(expected)} of {expected.dtype}.")
    if expected.dtype.kind == "f" and values.dtype.kind == "f" and values.dtype != expected.dtype:
        raise Wrong(f"{name} is {values.dtype}, but the inputs are {expected.dtype}, and so should the result be.")
    if expected.dtype.kind == "i" and expected.ndim and values.dtype.kind == "f" and values.size:
        raise Wrong(f"{name} should be whole numbers, but its numbers are {values.dtype}: indices are integers.")


def _compare(name: str, values: np.ndarray, expected: np.ndarray, tolerance: float, **about: Any) -> bool:
    """Return whether shape and numbers are right, up to the rounding of their type; the rest is for the message.

    Raises
    ------
    Wrong
        If they are not, unless the check goes on.
    """
    if values.dtype.kind == "f" and values.dtype.itemsize < 8:
        tolerance = max(tolerance, float(np.finfo(values.dtype).eps) ** 0.5)
    right = _close(values, expected, tolerance) if values.shape == expected.shape else np.array(False)
    comparison = Comparison(name, values.copy(), expected, ~right, **about)
    comparisons = COMPARISONS.get()
    if comparisons is not None:
        comparisons.append(comparison)
    elif not right.all():
        raise Wrong(comparison.describe())
    return bool(right.all())


def _kind(expected: np.ndarray) -> str:
    return f"an array of shape {expected.shape}" if expected.ndim else "a number"


def _list(numbers: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {float(number):.6g}" for name, number in numbers.items())


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _close(values: np.ndarray, expected: np.ndarray, tolerance: float) -> np.ndarray:
    if expected.dtype.kind != "f":
        return np.asarray(values == expected)
    finite = np.isfinite(expected)
    largest = float(np.abs(expected[finite]).max(initial=0.0)) or 1.0
    with np.errstate(invalid="ignore"):
        near = np.abs(values - expected) <= tolerance * largest
    return np.where(finite, near, values == expected)


def check_bits(name: str, found: Any, expected: Any) -> None:
    """Compare a result with the expected one, to the last bit."""
    agree(name, found, expected, tolerance=1e-6)
    if not np.array_equal(found, expected, equal_nan=True):
        n = np.count_nonzero(np.asarray(found) != expected)
        raise Wrong(
            f"{name} is nearly right: {n} of {np.size(expected)} entries differ in their last bits. Add "
            "up the numbers in the same order, or with the same function, as before."
        )


def refuse_writing(**inputs: tuple[Any, Any]) -> None:
    """Raise ``Wrong`` if an input was written to; each is given by name, as it is now and as it was before."""
    for name, (now, before) in inputs.items():
        if isinstance(before, dict) and list(now) == list(before):
            refuse_writing(**{f'{name}["{part}"]': (now[part], before[part]) for part in before})
        elif not _same(now, before):
            kind = "array" if isinstance(now, np.ndarray) else type(now).__name__
            raise Wrong(f"{name} was changed in place: it belongs to the caller. Make a new {kind} instead.")


def _same(now: Any, before: Any) -> bool:
    if isinstance(before, np.ndarray):
        return now.shape == before.shape and np.array_equal(now, before, equal_nan=before.dtype.kind == "f")
    if isinstance(before, list | tuple):
        return len(now) == len(before) and all(map(_same, now, before))
    return now is before or bool(now == before)


def take(names: Sequence[str], found: Any, shapes: Sequence[tuple[int, ...]] | None = None) -> list[Any]:
    """Return results, one for each name; they may also be the rows of an array, if these have the given shapes."""
    refuse_unsolved(found)
    rows = isinstance(found, np.ndarray) and found.ndim and len(names) > 1
    if rows and shapes is not None and [np.shape(row) for row in found] == list(shapes):
        return list(found)
    if isinstance(found, tuple | list) and len(found) == len(names):
        return list(found)
    if len(names) == 1 and not (isinstance(found, tuple) and any(np.ndim(part) for part in found)):
        return [found]
    if isinstance(found, tuple | list):
        what = f"{len(found)}."
    elif isinstance(found, np.ndarray):
        what = f"an array of shape {found.shape}."
    else:
        what = "None: is there a `return`?" if found is None else f"{_article(type(found).__name__)}."
    names = [name.rstrip(",") for name in names]  # such as "q, for epsilon = 0.1,"
    wanted = f"{names[0]}: expected one result"
    if len(names) > 1:
        wanted = f"{', '.join(names)}, in this order: expected {len(names)} results"
    raise Wrong(f"Return {wanted}, found {what}")


def check_gradients(
    backward: Callable[..., Any],
    function: Callable[..., Any],
    inputs: Mapping[str, np.ndarray],
    *,
    mistakes: Callable[[Any], Mapping[str, Mapping[str, Any]]] | None = None,
    solution: Callable[[Any], Sequence[Any]] | None = None,
    sizes: Mapping[str, int] | None = None,
    names: Sequence[str] | None = None,
    output: str = "y",
    shown: Mapping[str, Any] | None = None,
) -> None:
    """Raise ``Wrong`` if a gradient differs from finite differences of its function.

    ``backward`` is called with a random ``d_output`` and returns a gradient for each input; ``function`` is called with
    the inputs and returns the value. A gradient is called ``d_`` and the input's name, unless ``names`` says otherwise.
    ``mistakes`` is a function of ``d_output`` that returns for each gradient's name what ``agree`` takes.
    Gradients that are near those of the ``solution``, a function of ``d_output``, are compared with finite differences.
    Others are compared with the solution's, because many calls of the function would be needed to refute them.
    Inputs that are numbers are shown, with the gradient of the ``output``; or what is to be ``shown`` in their place.
    """
    value = np.asarray(function(*inputs.values()))
    # Each case has its own; last digits differ between processors, and so does the sign of 0.
    rng = np.random.default_rng(crc32(b"".join((np.round(x, 6) + 0.0).tobytes() for x in inputs.values())))
    d_output = np.round(draw_cotangent(rng, value.shape), 2)  # numbers easy to compare
    names = [f"d_{name}" for name in inputs] if names is None else names
    parts = take(names, backward(d_output), [x.shape for x in inputs.values()])
    numbers = {**(shown or inputs), f"d_{output}": d_output}
    words = "" if any(map(np.ndim, numbers.values())) else _list(numbers)
    expected = [np.where(np.abs(x) < TINY, 0.0, x) for x in solution(d_output)] if solution else None
    if expected is None or all(map(_is_near, parts, expected)):
        expected = _differences(function, inputs, d_output, parts)
    right, known = [], cache(partial(mistakes, d_output)) if mistakes else dict
    for name, part, gradient in zip(names, parts, expected or map(np.asarray, parts), strict=True):
        about = {
            "mistakes": lambda name=name: known().get(name, {}),
            "sizes": sizes or {},
            "inputs": words,
            "advice": (),
        }
        right.append(_compare(name, _read(name, part, gradient), gradient, NEAR, **about))
    if all(right):
        for name, part, x in zip(names, parts, inputs.values(), strict=True):
            _refuse_other_numbers(name, np.asarray(part), x)
        if expected:
            raise Wrong(f"{', '.join(names)}: the error is so small that only finite differences show it.")


def _differences(
    function: Callable[..., Any], inputs: Mapping[str, np.ndarray], d_output: np.ndarray, found: Sequence[Any]
) -> list[np.ndarray] | None:
    """Return the finite differences for each input; None if the gradients that were found agree with them."""
    fit = [_fits(part, x) for part, x in zip(found, inputs.values(), strict=True)]
    claimed = [
        np.asarray(part, dtype=float) if fits else np.zeros_like(x)
        for part, fits, x in zip(found, fit, inputs.values(), strict=True)
    ]
    report = compare(function, inputs, d_output, claimed, smooth=True)
    if report.passed and all(fit):
        return None
    return [np.where(np.abs(each.differences) < TINY, 0.0, each.differences) for each in report.inputs]


def check_cases(check: Callable[..., None], cases: Iterable[Sequence[Any]]) -> None:
    """Check an answer in several cases.

    In most cases NumPy rejects shapes that do not fit, with a short message. That error is raised only if no other
    case, in which the shapes fit by chance, identifies the mistake.
    """
    errors = []
    for case in cases:
        try:
            check(*case)
        except ValueError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def compare(
    function: Callable[..., Any],
    inputs: Mapping[str, np.ndarray],
    d_output: np.ndarray,
    claimed: Sequence[np.ndarray],
    *,
    smooth: bool = False,
) -> GradientReport:
    """Compare a claimed gradient for each input with finite differences; faster where the function is ``smooth``."""
    largest = np.abs(d_output).argmax()

    def backward(saved: Any, d: np.ndarray) -> list[np.ndarray]:
        # the gradients are known for d_output only, which may be 0
        scale = np.ravel(d)[largest] / (np.ravel(d_output)[largest] or 1.0)
        return [scale * gradient for gradient in claimed]

    operation = Operation(lambda *arrays: (np.array(function(*arrays)), None), backward, name="exercise")
    try:
        return gradcheck(operation, list(inputs.values()), names=list(inputs), d_output=d_output, smooth=smooth)
    except GradientError as error:
        return error.report


def _is_near(part: Any, right: np.ndarray) -> bool:
    return _fits(part, right) and bool(_close(np.asarray(part), right, NEAR).all())


def _fits(part: Any, x: np.ndarray) -> bool:
    array = as_array(part)
    return array.dtype.kind in "fiu" and array.shape == x.shape and bool(np.isfinite(array).all())
