"""Why a gradient is wrong: what the numbers of a claim show beyond the patterns of ``causes``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from minitransformer.arrays import Array
from minitransformer.testing import causes
from minitransformer.testing.claim import Claim
from minitransformer.testing.comparison import compare_all
from minitransformer.testing.dtypes import EPS
from minitransformer.testing.measurement import UNCLEAR
from minitransformer.testing.report import InputReport, Stop

INEXACT = 1e-4
"""Larger relative errors do not come from a solver that stops at a tolerance."""


def outputs_at_fault(claim: Claim, inputs: Sequence[int]) -> str:
    """Return which outputs the wrong gradients of inputs come from, and why; empty if it is all of them."""
    at_fault, others = {}, False
    try:
        claims = list(claim.of_each_output())
    except Stop:  # a backward pass may fail on zeros
        return ""
    for name, alone in claims:
        records = compare_all(alone, inputs)
        wrong = [i for i in inputs if records[i].wrong]
        if not wrong:
            others = True
        elif any(gradient.any() for gradient in alone.gradients.values()):
            at_fault[name] = likely_cause(alone, wrong[0], records)
        else:
            at_fault[name] = "the backward pass ignores its gradient"
    if not at_fault or not others:
        return ""
    cause = next(iter(at_fault.values()))
    return f"what comes from {' and '.join(at_fault)} is wrong{cause and ': '}{cause}"


def likely_cause(claim: Claim, i: int, records: Mapping[int, InputReport]) -> str:
    """Return the likely cause of the wrong gradient of an input, or an empty string."""
    record = records[i]
    if i in claim.none:
        return f"the backward pass returns None for {record.name}, but the value depends on it"
    if claim.ignores_d_output():
        return "the backward pass ignores the gradient of the output: it returns the same for another one"
    found, expected = claim.gradients[i], record.derivatives
    known = np.isfinite(expected)
    others = {r.name: r.differences for j, r in records.items() if j not in claim.case.leaf_of(i)[1]}
    if found.shape == expected.shape and not known.all():
        found, expected = found[known], expected[known]
        others = {name: other[known] for name, other in others.items() if other.shape == known.shape}
    sizes = {
        f"{claim.case.names[j]}.shape[{axis}]": n
        for j in claim.case.moving
        for axis, n in enumerate(claim.case.inputs[j].shape)
        if n not in (0, 1, 2, 4)  # a factor of 2 has other causes
    }
    tolerance = 1e-5 if claim.eps <= EPS else 30 * claim.eps**0.5
    if record.largest and np.isfinite(record.resolution):
        tolerance = min(max(tolerance, record.resolution / record.largest), UNCLEAR)
    complex_cause = _complex_cause(claim, i, records, tolerance)
    subject = claim.case.label(i)
    off = {r.name for r in records.values() if r.wrong or not r.comparisons}
    swapped = {f"{subject} is that of {name}: are they swapped?": others[name] for name in others if name in off}
    cause = complex_cause or causes.likely_cause(found, expected, swapped, sizes, subject, _terms(claim), tolerance)
    twice = (name for name, other in others.items() if causes.fits(found, other, tolerance))
    cause = cause or next((f"{subject} is that of {name}: is it returned twice?" for name in twice), "")
    return cause or _short_type(claim, i, record.worst_error) or _inexact(claim, record)


def _inexact(claim: Claim, record: InputReport) -> str:
    """Return a sentence if an error is so small that the value may be inexact instead of the gradient."""
    if not claim.tolerance < record.worst_error <= INEXACT:
        return ""
    return (
        f"the gradient agrees to {record.worst_error:.1e}; if the value is not exact, as that of a solver that stops "
        f"at a tolerance, pass tolerance={10 ** np.ceil(np.log10(2 * record.worst_error)):.0e}"
    )


def _short_type(claim: Claim, i: int, error: float) -> str:
    """Return a sentence if each entry of a gradient has few digits, and its relative error is no larger than that."""
    found = claim.gradients[i]
    for dtype in (np.float16, np.float32):
        with np.errstate(over="ignore"):  # what is too large for the type is not of it
            rounded = found.astype(dtype)
        if claim.eps < error <= np.finfo(dtype).eps and np.array_equal(found, rounded):
            return f"{claim.case.label(i)} has the precision of {np.dtype(dtype)}, in which it was computed or returned"
    return ""


def _complex_cause(claim: Claim, i: int, records: Mapping[int, InputReport], tolerance: float) -> str:
    """Return a sentence if complex conjugation or a complex factor makes the wrong gradient of an input right."""
    name, places = claim.case.leaf_of(i)
    expected = _complex([records[j].differences for j in places])
    convention = f"d_{name} = dL/dRe({name}) + i dL/dIm({name})"
    found = _complex([claim.gradients[j] for j in places])
    if len(places) > 1:
        factor = _factor(found.conj(), expected, tolerance)
        if factor == 1:
            return (
                f"the gradient of {name} is the complex conjugate of what it should be; return {convention}, as "
                "PyTorch does"
            )
        if factor:
            return f"every entry is {_text(factor)} times the complex conjugate of what it should be, {convention}"
        factor = _factor(found, expected, tolerance)
        if factor.imag:
            return f"every entry is {_text(factor)} times what it should be"
    others = claim.gradients_for_conjugate()
    if not others:
        return ""
    found = _complex([others[j] for j in places])
    if len(places) > 1 and _factor(found.conj(), expected, tolerance) == 1:
        return (
            f"the derivative lacks a complex conjugate: for a complex derivative f', d_{name} = conj(f'({name})) d_y, "
            f"since {convention}"
        )
    if _factor(found, expected, tolerance) == 1:
        return "the gradient would be right for the complex conjugate of d_output"
    return ""


def _factor(found: Array, expected: Array, tolerance: float) -> complex:
    """Return the number by which all expected entries are multiplied, 1 if it is about that; 0 if there is none."""
    known = np.isfinite(expected)
    if found.shape != expected.shape or not expected[known].any() or not np.isfinite(found).all():
        return 0
    found, expected = found[known], expected[known]
    factor = complex(np.vdot(expected, found) / np.vdot(expected, expected))
    size = abs(factor) * float(np.abs(expected).max())
    if not np.allclose(found, factor * expected, rtol=tolerance, atol=0.01 * tolerance * size):
        return 0
    parts = (0.0 if abs(part) < 10 * tolerance * abs(factor) else part for part in (factor.real, factor.imag))
    return 1 if abs(factor - 1) < 10 * tolerance else complex(*parts)


def _text(factor: complex) -> str:
    if not factor.imag:
        return f"{factor.real:.4g}"
    return f"{factor.imag:.4g}j" if not factor.real else f"({factor:.4g})"


def _complex(parts: Sequence[Array]) -> Array:
    return np.asarray(sum(factor * part for factor, part in zip((1, 1j), parts, strict=False)))


def _terms(claim: Claim) -> dict[str, Array]:
    """Return terms that a gradient may lack, by name."""
    arrays = {claim.case.names[j]: claim.case.inputs[j].astype(np.float64) for j in claim.case.moving}
    d_parts = claim.output.pieces(claim.d_output.astype(np.float64))
    d_outputs = {f"d_output{name.removeprefix(claim.output.root)}": d_part for name, d_part in d_parts}
    products = {
        f"{d_name} * {name}": d_part * array
        for d_name, d_part in d_outputs.items()
        for name, array in arrays.items()
        if array.shape == d_part.shape
    }
    return {**d_outputs, **arrays, **products}
