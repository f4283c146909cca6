"""The gradient checker for functions of any library's arrays: one verdict, with a cause.

``examine`` runs four steps, and the first that finds something ends them:

1. the function: its type, whether it is finite and deterministic, and what it writes into;
2. the backward pass: the same, and the shapes of its gradients;
3. finite differences, in float64 if the function also runs there (see ``slopes`` and ``low_precision``);
4. the verdict; in a lower precision, also whether the gradient survives its rounding.

A gradient is wrong only if rounding explains its error neither in the measurement nor in the backward pass. The first
is bounded by ``slopes``. The second is measured: the inputs are changed by about one rounding, and the gradient with
them. If the bound is as large as the gradient itself, nothing is decided.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal, ParamSpec

import numpy as np

from minitransformer.arrays import Array
from minitransformer.autograd import Operation
from minitransformer.testing.adapters import Malformed, Mutates, find_adapter
from minitransformer.testing.causes import likely_cause
from minitransformer.testing.claim import Claim, Stop
from minitransformer.testing.gradcheck import InputReport
from minitransformer.testing.low_precision import UNCLEAR, Loss, losses, widen
from minitransformer.testing.real_case import RealCase
from minitransformer.testing.report import CheckError, Entry, Report, Verdict
from minitransformer.testing.slopes import EPS, take_step

__all__ = ["check", "examine"]

MAX_ENTRIES, N_DIRECTIONS = 256, 8


def examine(
    function: Callable[..., Any],
    *,
    inputs: Sequence[Any],
    backward: Callable[..., Any] | None = None,
    options: dict[str, Any] | None = None,
    names: Sequence[str] | None = None,
    d_output: Any = None,
    kinks: Literal["report", "accept"] = "report",
    order: int = 1,
    max_entries: int = MAX_ENTRIES,
    n_directions: int = N_DIRECTIONS,
    seed: int = 0,
) -> Report:
    """Return a report on a function's gradient: its verdict, the cause, and the worst entry.

    Parameters
    ----------
    function : callable
        A function of arrays: of NumPy or CuPy arrays together with ``backward``, or of the arrays or tensors of this
        project, PyTorch, JAX, MyGrad or HIPS autograd. The library is recognised by the inputs, or by the value.
        Arguments and output may also be tuples, lists and dicts of arrays.
    inputs : sequence of array or other
        Its arguments. Floating-point arrays have a gradient; in a precision below float64 it is compared with the one
        in float64, and that with finite differences. Other arguments are passed on unchanged, random generators as
        copies, so that all calls draw the same numbers.
    backward : callable, optional
        The backward pass of a function of plain arrays: ``d_x, d_w = backward(x, w, d_y)``, with None for an argument
        on which the output does not depend. ``d_y`` has the structure of the output.
    options : dict, optional
        Other arguments of the function.
    names : sequence of str, optional
        The inputs' names, for the report.
    d_output : array, or tuple, list or dict of arrays, optional
        The gradient of the output, in the structure of the output; random and non-uniform by default.
    kinks : "report" or "accept"
        Whether ``check`` accepts a subgradient where the function has a kink.
    order : int
        Only 1 is supported.
    max_entries : int
        Inputs with at most this many entries are checked entry by entry; of larger ones, this many random entries and
        some random directions, which move all entries at once.
    n_directions : int
        How many directions.
    seed : int
        Seeds the gradient of the output, the choice of entries and the directions.

    Returns
    -------
    Report
        Its verdict is "right", "wrong", "kink", "undecided", "nondeterministic", "mutates", "not finite" or
        "malformed".

    Raises
    ------
    TypeError
        If the inputs are one array instead of a sequence of them.
    ValueError
        If no input has a gradient, or an argument of ``examine`` has no meaning.

    Notes
    -----
    Of several outputs, L = Σ d_output y runs over all of them, and each has a gradient of its own: after
    ``a, b = f(x)``, the backward pass is called as ``backward(x, (d_a, d_b))``. The output y = (a, b) has the names
    ``y[0]`` and ``y[1]`` in messages. Whole numbers, such as the indices of a maximum, and None have no gradient: in
    ``d_y`` they are None, and the report lists them.
    """
    if kinks not in ("report", "accept"):
        raise ValueError(f'check: kinks is {kinks!r}; expected "report" or "accept"')
    if order != 1:
        raise ValueError(f"check: order is {order}; only 1 is supported")
    if names is None and not isinstance(function, Operation):
        names = _parameters(function, inputs)
    adapter = find_adapter(function, inputs, backward, options)
    case = RealCase("check", adapter.prepare(function), inputs, options or {}, names, adapter)
    try:
        claim = Claim(case, np.random.default_rng(seed), d_output)
    except Stop as stop:
        return Report(case.name, stop.verdict, stop.cause)
    except Malformed as error:
        return Report(case.name, "malformed", str(error))
    except Mutates as error:
        return Report(case.name, "mutates", str(error))
    wide = widen(claim)
    measured = claim if isinstance(wide, str) else wide
    records = [_compare(measured, i, max_entries, n_directions) for i in case.moving]
    report = _judge(measured, records, wide if isinstance(wide, str) else "")
    if measured is not claim and report.verdict in ("right", "kink"):
        _judge_rounding(report, claim, losses(claim, measured))
    report.constants = claim.output.constants
    return report


Arguments = ParamSpec("Arguments")


def _with_arguments_of(
    other: Callable[Arguments, Report],
) -> Callable[[Callable[..., Report]], Callable[Arguments, Report]]:
    """Return a decorator that states the arguments of another function, for readers, editors and type checkers."""

    def decorate(function: Callable[..., Report]) -> Callable[Arguments, Report]:
        vars(function)["__signature__"] = inspect.signature(other)
        return function

    return decorate


@_with_arguments_of(examine)
def check(function: Callable[..., Any], **arguments: Any) -> Report:
    """Return the report on a function's gradient; raise an error unless it is right.

    Parameters
    ----------
    function : callable
        The function.
    inputs, backward, options, names, d_output, kinks, order, max_entries, n_directions, seed
        As in ``examine``.

    Returns
    -------
    Report

    Raises
    ------
    CheckError
        An ``AssertionError`` with the ``report``, unless the verdict is "right", or "kink" where ``kinks="accept"`` is
        given and the gradient lies between the slopes on both sides.

    Examples
    --------
    >>> x = np.array([0.5, -1.0, 2.0])
    >>> check(np.sin, backward=lambda x, d_y: np.cos(x) * d_y, inputs=[x]).verdict
    'right'
    >>> check(np.sin, backward=lambda x, d_y: -np.cos(x) * d_y, inputs=[x])
    Traceback (most recent call last):
        ...
    minitransformer.testing.report.CheckError: ...
    """
    report = examine(function, **arguments)
    accepted = report.verdict == "kink" and report.subgradient and arguments.get("kinks") == "accept"
    if report.verdict != "right" and not accepted:
        raise CheckError(report)
    return report


def _parameters(function: Callable[..., Any], inputs: Sequence[Any]) -> list[str] | None:
    """Return the names of a function's positional parameters; None if they are not known or fewer than the inputs."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    known = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return known[: len(inputs)] if len(known) >= len(inputs) else None


def _compare(claim: Claim, i: int, max_entries: int, n_directions: int) -> InputReport:
    """Compare the gradient of one input with finite differences."""
    x, gradient, rng = claim.case.inputs[i], claim.gradients[i], claim.rng
    known = gradient.shape == x.shape  # otherwise only the measurement is of use: it shows the cause
    record = InputReport(claim.case.names[i], x.shape, differences=np.full(x.shape, np.nan))
    movable = np.flatnonzero(np.isfinite(x))
    scales = _scales(x, movable)

    def enter(index: tuple[int, ...]) -> None:
        direction = np.zeros(x.shape)
        direction[index] = 1.0
        slope = claim.slope(i, direction, float(scales[index]))
        record.differences[index] = slope.value
        if np.isinf(slope.value):
            record.jumps.append(index)
        elif known:
            record.enter(float(gradient[index]), slope, claim.tolerance, index)

    few = movable.size <= max_entries
    for flat in movable if few else sorted(rng.choice(movable, max_entries, replace=False)):
        enter(_index(flat, x))
    for _ in range(0 if few or not known else n_directions):
        direction = np.round(16 * rng.standard_normal(x.shape)) / 16 * np.isfinite(x) * scales
        slope = claim.slope(i, direction, 1.0)
        along = float((gradient * direction).sum())
        if np.isinf(slope.value):
            continue
        record.enter(along, slope, claim.tolerance, None)
        if slope.disagreement(along, claim.tolerance) > claim.tolerance and not record.entries_wrong:
            flat = _find_wrong(claim, i, direction)
            if flat is not None:
                enter(_index(flat, x))
    return record


def _index(flat: Any, x: Array) -> tuple[int, ...]:
    return tuple(int(n) for n in np.unravel_index(flat, x.shape))


def _scales(x: Array, movable: Array) -> Array:
    """Return a power of two of the size of each entry, or of a typical entry where that is larger."""
    sizes = np.where(np.isfinite(x), np.abs(x.astype(np.float64)), 0.0)
    sizes = np.maximum(sizes, np.median(sizes.flat[movable]) if movable.size else 0.0)
    return np.asarray(2.0 ** np.round(np.log2(np.where(sizes == 0, 1.0, sizes))))


def _find_wrong(claim: Claim, i: int, direction: Array) -> int | None:
    """Return a wrong entry by halving a direction along which the gradient is wrong; None if no half is wrong alone."""
    entries = np.flatnonzero(direction)
    while entries.size > 1:
        for half in np.array_split(entries, 2):
            part = np.zeros(direction.shape)
            part.flat[half] = direction.flat[half]
            along = float((claim.gradients[i] * part).sum())
            if claim.slope(i, part, 1.0).disagreement(along, claim.tolerance) > claim.tolerance:
                entries = half
                break
        else:
            return None
    return int(entries[0])


def _judge(claim: Claim, records: list[InputReport], why_not_float64: str) -> Report:
    """Return the report with the verdict."""
    case = claim.case
    for i, record in zip(case.moving, records, strict=True):
        if claim.gradients[i].shape != record.shape:
            cause = (
                f"{case.label(i)} has shape {claim.gradients[i].shape}, but the input has shape {record.shape}; "
                f"{_cause(claim, i, record) or 'return a gradient of the shape of the input'}"
            )
            return Report(case.name, "malformed", cause, inputs=[r for r in records if r.comparisons])
    wrong = [r for r in records if r.wrong and not (claim.eps > EPS and _is_unclear(r) and _is_within(r))]
    if wrong:
        record = max(wrong, key=lambda r: r.worst_error)
        i = case.moving[records.index(record)]
        record.guess = _outputs_at_fault(claim, i) or _cause(claim, i, record)
        return _report(claim, "wrong", record.guess, record, records)
    jumps = [record for record in records if record.jumps]
    if jumps:
        cause = f"the value jumps as {jumps[0].name}{list(jumps[0].jumps[0])} moves, so there is no gradient"
        return _report(claim, "kink", cause, jumps[0], records)
    kinks = [record for record in records if record.kinks]
    if kinks:
        cause = (
            f"at {kinks[0].name}{list(kinks[0].kinks[0])} the slopes on both sides differ, and the gradient lies "
            'between them; kinks="accept" accepts that'
        )
        report = _report(claim, "kink", cause, kinks[0], records)
        report.subgradient = True
        return report
    unclear = [r for r in records if _is_unclear(r)]
    if unclear:
        return _report(claim, "undecided", _why_unclear(claim, unclear[0], why_not_float64), unclear[0], records)
    worst = max(records, key=lambda r: r.worst_error)
    return _report(claim, "right", "", worst, records)


def _judge_rounding(report: Report, claim: Claim, found: list[Loss]) -> None:
    """Change the verdict on a gradient that is right in float64, if rounding in the inputs' own precision spoils it."""
    report.measured = f"measured in float64; the gradient in {claim.precision} agrees up to rounding"
    for verdict in ("wrong", "undecided"):
        for loss in found:
            if loss.verdict == verdict:
                report.worst = Entry(claim.case.names[loss.i], loss.index, loss.found, loss.expected)
                report.verdict = loss.verdict
                report.cause = _why_lost(claim, loss)
                report.measured = "measured in float64"
                return


def _why_lost(claim: Claim, loss: Loss) -> str:
    where = f"in {claim.precision} {claim.case.label(loss.i)} at {list(loss.index)} is {loss.found:.6g}"
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
    return Report(claim.case.name, verdict, cause, entry, _errors(claim, record), records)


def _errors(claim: Claim, record: InputReport) -> list[tuple[float, float]]:
    """Return the error of central differences at the worst entry of an input, for steps of all sizes."""
    if record.worst_index is None:
        return []
    i = claim.case.names.index(record.name)
    x = claim.case.inputs[i]
    direction = np.zeros(x.shape)
    direction[record.worst_index] = 1.0
    scale = float(_scales(x, np.flatnonzero(np.isfinite(x)))[record.worst_index])
    loss = claim.case.loss(i, direction, claim.d_output.astype(np.float64), claim.middle, claim.eps)
    steps = [scale * 2.0**-n for n in range(1, round(-0.6 * np.log2(claim.eps)), 2)]
    return [(h, abs(take_step(loss, claim.middle, h, claim.eps).central - record.claim)) for h in steps]


def _outputs_at_fault(claim: Claim, i: int) -> str:
    """Return which outputs a wrong gradient comes from, and the likely cause; empty if that is all of them."""
    causes = {}
    others = False
    for name, alone in claim.of_each_output():
        record = _compare(alone, i, MAX_ENTRIES, N_DIRECTIONS)
        if not record.wrong:
            others = True
        elif any(gradient.any() for gradient in alone.gradients.values()):
            causes[name] = _cause(alone, i, record)
        else:
            causes[name] = "the backward pass ignores its gradient"
    if not causes or not others:
        return ""
    cause = next(iter(causes.values()))
    return f"what comes from {' and '.join(causes)} is wrong{cause and ': '}{cause}"


def _cause(claim: Claim, i: int, record: InputReport) -> str:
    """Return the likely cause of a wrong gradient, or an empty string."""
    if i in claim.none:
        return f"the backward pass returns None for {record.name}, but the value depends on it"
    if claim.ignores_d_output():
        return "the backward pass ignores the gradient of the output: it returns the same for another one"
    found, expected = claim.gradients[i], record.differences
    known = np.isfinite(expected)
    if found.shape == expected.shape and not known.all():
        found, expected = found[known], expected[known]
    sizes = {
        f"{claim.case.names[j]}.shape[{axis}]": n
        for j in claim.case.moving
        for axis, n in enumerate(claim.case.inputs[j].shape)
        if n not in (1, 2, 4)  # a factor of 2 has other causes
    }
    tolerance = 1e-5 if claim.eps <= EPS else 30 * claim.eps**0.5
    if record.largest and np.isfinite(record.resolution):
        tolerance = min(max(tolerance, record.resolution / record.largest), UNCLEAR)
    subject = claim.case.label(i)
    return likely_cause(found, expected, None, sizes, subject, _candidates(claim), tolerance)


def _candidates(claim: Claim) -> dict[str, Array]:
    """Return terms that a gradient may lack, by name."""
    arrays = {claim.case.names[j]: claim.case.inputs[j].astype(np.float64) for j in claim.case.moving}
    d_parts = claim.output.pieces(claim.d_output.astype(np.float64))
    d_outputs = {f"d_output{name.removeprefix('y')}": d_part for name, d_part in d_parts}
    products = {
        f"{d_name} * {name}": d_part * array
        for d_name, d_part in d_outputs.items()
        for name, array in arrays.items()
        if array.shape == d_part.shape
    }
    return {**d_outputs, **arrays, **products}
