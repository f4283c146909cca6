"""The engine of all checks: from a claim to its report, with the verdict and the likely cause of a wrong gradient.

``find_verdict`` compares the gradients of a claim with finite differences (``comparison``, ``subgradients``), in
float64 if the function also runs there (``low_precision``). If they agree, it looks whether a gradient in a lower
precision survives its rounding, and whether the backward pass is linear in the gradient of the output.

A gradient is wrong only if rounding explains its error neither in the measurement nor in the backward pass. The first
is bounded by ``slopes``. The second is measured: the inputs are changed by about one rounding, and the gradient with
them. If the bound is as large as the gradient itself, nothing is decided.

A ``quick`` claim is judged more readily: a subgradient passes, and so does what rounding hides; a jump is wrong.

Next: ``low_precision.py``, ``explain.py`` and ``report.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from minitransformer.testing.claim import Claim
from minitransformer.testing.comparison import compare_all, errors_over_steps
from minitransformer.testing.dtypes import EPS
from minitransformer.testing.explain import likely_cause, outputs_at_fault
from minitransformer.testing.low_precision import Loss, losses, why_coarse, widen
from minitransformer.testing.measurement import UNCLEAR
from minitransformer.testing.report import Entry, InputReport, Report, Verdict, at
from minitransformer.testing.subgradients import judge_ties


def find_verdict(claim: Claim, max_entries: int, n_directions: int) -> Report:
    """Return the report on a claim, whose gradients are compared in float64 if that stands for its own precision."""

    def compare(one: Claim, why_not_float64: str) -> Report:
        return judge(one, compare_all(one, claim.case.moving, max_entries, n_directions), why_not_float64)

    wide = widen(claim)
    measured, why_not_float64 = (claim, wide) if isinstance(wide, str) else (wide, "")
    report = compare(measured, why_not_float64)
    if measured.eps <= EPS and not claim.quick and report.verdict in ("wrong", "kink", "undecided"):
        why_not_float64 = why_coarse(claim, measured)
        coarse = compare(claim, why_not_float64) if why_not_float64 else report
        # what looks like rounding may be sharp turns
        if coarse.verdict in ("right", "kink") or not report.turns:
            measured, report = (claim if why_not_float64 else measured), coarse
    if measured is not claim and report.verdict in ("right", "kink"):
        judge_rounding(report, claim, losses(claim, measured))
        for record in report.inputs:
            record.allow(claim.tolerance)
    if claim.quick and (report.subgradient or (report.verdict == "undecided" and not report.turns)):
        report.verdict, report.cause = "right", ""
    if report.verdict in ("right", "kink") and (not_linear := claim.why_not_linear()):
        report.verdict, report.subgradient, report.cause = "wrong", False, not_linear
    report.constants = claim.output.constants
    return report


def judge(claim: Claim, compared: Mapping[int, InputReport], why_not_float64: str) -> Report:
    """Return the report with the verdict."""
    case, records = claim.case, list(compared.values())
    for i, record in compared.items():
        if claim.gradients[i].shape != record.shape:
            cause = (
                f"{case.label(i)} has shape {claim.gradients[i].shape}, but the input has shape {record.shape}; "
                f"{likely_cause(claim, i, compared) or 'return a gradient of the shape of the input'}"
            )
            return Report(case.name, "malformed", cause, inputs=[r for r in records if r.comparisons])
    wrong = [r for r in records if r.wrong and not (claim.eps > EPS and _is_unclear(r) and _is_within(r))]
    ties, meeting = judge_ties(claim, compared)
    if wrong:
        record = max(wrong, key=lambda r: r.worst_error)
        if ties:
            return _report(claim, "kink", meeting, record, records)
        i = next(i for i, r in compared.items() if r is record)
        others = [j for j, r in compared.items() if r.wrong and r is not record]
        cause = outputs_at_fault(claim, [i, *others]) or likely_cause(claim, i, compared)
        return _report(claim, "wrong", cause, record, records)
    jumps = [record for record in records if record.jumps]
    if jumps:
        cause = f"the value jumps as {jumps[0].name}{list(jumps[0].jumps[0]) or ''} moves, so there is no gradient"
        return _report(claim, "kink", cause, jumps[0], records)
    if ties:
        report = _report(claim, ties, meeting, next((r for r in records if r.kinks), records[0]), records)
        report.subgradient = ties == "kink" and not any(record.excused for record in records)
        return report
    unclear = [r for r in records if _is_unclear(r)]
    if unclear:
        return _report(claim, "undecided", _why_unclear(claim, unclear[0], why_not_float64), unclear[0], records)
    worst = max(records, key=lambda r: r.worst_error)
    return _report(claim, "right", "", worst, records)


def judge_rounding(report: Report, claim: Claim, found: list[Loss]) -> None:
    """Change the verdict on a gradient that is right in float64, if rounding in the inputs' own precision spoils it."""
    report.measured = f"measured in float64; the gradient in {claim.precision} agrees up to rounding"
    worst = next((loss for verdict in ("wrong", "undecided") for loss in found if loss.verdict == verdict), None)
    if worst is not None:
        report.worst = Entry(claim.case.names[worst.i], worst.index, worst.found, worst.expected)
        report.verdict, report.measure_errors, report.cause = worst.verdict, list, _why_lost(claim, worst)
        report.measured = "measured in float64"


def _why_lost(claim: Claim, loss: Loss) -> str:
    where = f"in {claim.precision} {claim.case.label(loss.i)}{at(loss.index)} is {loss.found:.6g}"
    if loss.verdict == "wrong":
        return f"the formula is right in float64, but {where}, where {loss.expected:.6g} is expected"
    return (
        f"the formula is right in float64; {where} instead of {loss.expected:.6g}, and rounding explains an error of "
        f"{loss.explained:.1e}; compute the backward pass in float64, or give inputs at which less cancels"
    )


def _is_unclear(record: InputReport) -> bool:
    return record.resolution > UNCLEAR * record.largest and (record.largest > 0 or record.resolution == np.inf)


def _is_within(record: InputReport) -> bool:
    """Return whether the worst entry is off by less than the error bound of another entry of the same input."""
    return bool(abs(record.claim - record.measurement) <= record.resolution)


def _why_unclear(claim: Claim, record: InputReport, why_not_float64: str) -> str:
    if record.turns:
        return record.why_hidden
    if record.resolution == np.inf:
        return f"the function is not finite around the input {record.name}; use inputs farther inside its domain"
    text = (
        f"in {claim.precision} the gradient of {record.name} can be measured to {record.resolution:.1e}, and its "
        f"entries are at most {record.largest:.1e}; "
    )
    if claim.eps > EPS and record.resolution * (EPS / claim.eps) ** 0.8 <= UNCLEAR * record.largest:
        return text + f"float64 would do, but {why_not_float64}"
    return text + "give inputs at which the function changes more"


def _report(claim: Claim, verdict: Verdict, cause: str, record: InputReport, records: list[InputReport]) -> Report:
    entry = Entry(record.name, record.worst_index, record.claim, record.measurement)
    report = Report(claim.case.name, verdict, cause, entry, records)
    if record.sides is None and not claim.quick:
        report.measure_errors = partial(errors_over_steps, claim, record)
    return report
