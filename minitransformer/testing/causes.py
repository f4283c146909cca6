"""The likely cause of a wrong result: known mistakes first, then patterns in the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import sqrt
from typing import Any

import numpy as np

from minitransformer.arrays import Array


def likely_cause(
    found: Array,
    expected: Array,
    mistakes: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    subject: str = "it",
    terms: Mapping[str, Array] | None = None,
    tolerance: float = 1e-5,
) -> str:
    """Return a sentence on why a result (the ``subject``) is wrong, or an empty string if no pattern is clear.

    ``mistakes`` holds the results of known mistakes, each under the sentence to return; ``sizes``, by name, are numbers
    by which a result is often too large or too small; ``terms``, by name, are arrays that may have been added or
    forgotten. Numbers within the relative ``tolerance`` count as equal.
    """
    causes = likely_causes(found, expected, mistakes, sizes, subject, tolerance)
    return next(causes, "") or next(_terms(found, expected, terms or {}, subject, tolerance), "")


def likely_causes(
    found: Array,
    expected: Array,
    mistakes: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    subject: str = "it",
    tolerance: float = 1e-5,
) -> Iterator[str]:
    """Yield every sentence on why a result is wrong: known mistakes first, then patterns. See `likely_cause`."""
    if not _same(found, expected, tolerance):
        yield from (sentence for sentence, wrong in (mistakes or {}).items() if fits(found, wrong, tolerance))
    yield from _patterns(found, expected, sizes or {}, subject, tolerance)


def fits(found: Array, wrong: Any, tolerance: float = 1e-5) -> bool:
    """Return whether a result is that of a known mistake."""
    return _same(found, np.asarray(wrong), tolerance)


def _same(a: Array, b: Array, tolerance: float) -> bool:
    if a.shape != b.shape or a.dtype.kind not in "fiub":
        return False
    largest = float(np.abs(b[np.isfinite(b)]).max(initial=0.0)) if b.dtype.kind == "f" else 0.0
    return bool(np.allclose(a, b, rtol=tolerance, atol=0.01 * tolerance * largest, equal_nan=True))


def _patterns(found: Array, expected: Array, sizes: Mapping[str, int], subject: str, tolerance: float) -> Iterator[str]:
    """Yield the causes that fit, the most specific first."""
    if found.shape == expected.shape and found.ndim and expected.dtype.kind == "f" and found.dtype.kind in "iub":
        cut = f"whole numbers: {found.dtype} cuts off what comes after the point"
        yield f"your numbers are {'True and False' if found.dtype.kind == 'b' else cut}"
    if found.dtype.kind == "f" and np.isnan(found).any() and np.isfinite(expected).all():
        yield f"{subject} is not finite: there are NaNs, as 0/0, inf - inf or 0 * inf gives"
    if found.dtype.kind == "f" and np.isinf(found).any() and np.isfinite(expected).all():
        yield f"{subject} is not finite: there are infinities, as an overflow or a division by 0 gives"
    same = _same(found, expected, tolerance)  # up to a slight error that no pattern explains
    turned = [found.swapaxes(-1, -2), found.T] if found.ndim >= 2 and not same else []
    if any(_same(one, expected, tolerance) for one in turned):
        yield f"{subject} is transposed"
    yield from _sums(found, expected, tolerance)
    if found.shape != expected.shape or expected.dtype.kind != "f" or not np.isfinite(found).all():
        return
    found = found.astype(np.result_type(found, np.float32), copy=False)  # -True is no number, -1 of unsigned ones large
    if not found.any() and expected.any() and np.isfinite(expected).all():
        yield f"{subject} is zero everywhere: is the input used, and the result returned?"
    if not same and _same(-found, expected, tolerance):
        yield "the sign is wrong"
    yield from _factors(found, expected, sizes, tolerance)
    missing = (found == 0) & (expected != 0)
    if missing.any() and _same(np.where(missing, 0, expected), found, tolerance):
        n = np.count_nonzero(missing)
        yield f"{n} {'entry is' if n == 1 else 'entries are'} zero that should not be; the others are right"
    extra = (found != 0) & (expected == 0)
    if extra.any() and _same(np.where(extra, 0, found), expected, tolerance):
        n = np.count_nonzero(extra)
        yield f"{n} {'entry' if n == 1 else 'entries'} should be exactly zero; the others are right"
    if not same and found.ndim >= 2 and found.shape[-1] == found.shape[-2]:
        for name, one_triangle in (("lower", np.tril), ("upper", np.triu)):
            both = one_triangle(found + found.swapaxes(-1, -2))
            both[..., range(found.shape[-1]), range(found.shape[-1])] /= 2
            if _same(both, expected, tolerance):
                yield (
                    f"the function reads only the {name} triangle of each matrix, and {subject} is spread over both: "
                    "there, return the sum of both triangles, or check x + x^T in place of x"
                )
    if not same and np.isfinite(expected).all():
        difference = found - expected
        if _same(expected + difference.mean(), found, tolerance):
            return  # that no sum explains
        for axis, size in enumerate(found.shape):
            others = expected + difference.mean(axis=axis, keepdims=True)
            if size > 1 and np.ptp(found, axis=axis).any() and _same(others, found, tolerance):
                yield f"every entry along axis {axis} is off by the same amount: is a sum over that axis missing?"


def _sums(found: Array, expected: Array, tolerance: float) -> Iterator[str]:
    """Yield a cause if a sum over an axis is missing or superfluous."""
    for axis in range(found.ndim):
        for keep in (False, True):
            if found.shape[axis] > 1 and _same(found.sum(axis=axis, keepdims=keep), expected, tolerance):
                kept = ", with keepdims=True" if keep else ""
                yield (
                    f"a sum is missing: the input was broadcast along axis {axis} of your result, so its gradient is "
                    f"the sum over that axis{kept}"
                )
    for axis in range(expected.ndim):
        for keep in (False, True):
            if expected.shape[axis] > 1 and _same(expected.sum(axis=axis, keepdims=keep), found, tolerance):
                yield f"there is a sum over axis {axis} of the expected result that does not belong there"


def _factors(found: Array, expected: Array, sizes: Mapping[str, int], tolerance: float) -> Iterator[str]:
    """Yield a cause if every entry is off by the same factor."""
    big = np.abs(expected) > 1e-6 * np.abs(expected).max(initial=0.0)
    if np.count_nonzero(big) < 1 or expected.size < 2:
        return
    ratio = float(np.median(found[big] / expected[big]))
    if ratio == 0 or abs(ratio - 1) < 10 * tolerance or not _same(found, ratio * expected, tolerance):
        return
    for name, size in sizes.items():
        for factor, word in ((float(size), name), (sqrt(size), f"sqrt({name})")):
            if abs(ratio / factor - 1) < tolerance:
                yield f"every entry is {word} = {factor:.4g} times too large"
            if abs(ratio * factor - 1) < tolerance:
                yield f"every entry is {word} = {factor:.4g} times too small"
    digits = 6 if tolerance <= 1e-5 else 3
    yield f"every entry is {ratio:.{digits}g} times what it should be: a factor is missing, or there is one too many"


def _terms(found: Array, expected: Array, terms: Mapping[str, Array], subject: str, tolerance: float) -> Iterator[str]:
    """Yield a cause if the difference is a multiple of one of the terms."""
    if found.shape != expected.shape or found.size < 2 or found.dtype.kind == "b" or not np.isfinite(found).all():
        return
    difference = expected - found
    if not np.isfinite(difference).all():
        return
    if np.abs(difference).max() <= 10 * tolerance * np.abs(expected).max():
        return  # too small to be told from rounding
    for name, term in terms.items():
        if term.shape != found.shape or not np.isfinite(term).all() or np.ptp(term) == 0:
            continue
        ratio = float((difference * term).sum() / (term * term).sum())
        if ratio and _same(ratio * term, difference, 10 * tolerance):
            times = "" if abs(abs(ratio) - 1) < 10 * tolerance else f"{abs(ratio):.4g} * "
            yield f"{subject} lacks a term: {'-' if ratio < 0 else ''}{times}{name}"
