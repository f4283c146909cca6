"""The three-way proof of an operation.

Three versions of one gradient are compared: the hand-written backward pass, the operation's reference implementation
in elementary operations, differentiated by the autograd core, and finite differences. The first two compute the same
numbers, so they may differ only by rounding; the module `rounding` measures by how much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minitransformer.arrays import Array, asarray, to_numpy, xp
from minitransformer.autograd import Operation, Tensor
from minitransformer.testing.adapters import fresh
from minitransformer.testing.gradcheck import gradcheck
from minitransformer.testing.report import Power, Report
from minitransformer.testing.rounding import change, from_parts, loss_of_float32, sizes_of_terms
from minitransformer.testing.rules import OperationCase, Result, keep_rules
from minitransformer.testing.steps import relative_error

REFERENCE_TOLERANCE = 1e-12
"""For float64: a few thousand roundings."""
FLOAT32_TOLERANCE = 1e-5
"""For float32: a hundred roundings."""
MORE_LOST = 4.0
"""The factor by which the value's float32 error may exceed that of the reference, where that is larger."""
FLOAT32_LARGEST = 100.0
"""Inputs above this are not compared in float32. A score of 1e4 is rounded by 1e-3 there, one of two such factors by
10, and the exponential turns that into a relative error as large or larger: nothing is left to compare."""
MAX_ENTRIES = 64
"""How many entries of each input are moved one by one; larger inputs are also moved in random directions."""

REFERENCE_ENTRIES = 4
"""How many entries of each input are moved in the reference implementation, which is the slowest."""


@dataclass
class Way:
    """The comparison of two versions of an operation."""

    title: str
    errors: dict[str, float] = field(default_factory=dict)
    """The worst relative error of the value and of the gradient of each input."""

    @property
    def worst_error(self) -> float:
        """The largest of the errors."""
        return max(self.errors.values(), default=0.0)


@dataclass
class Proof:
    """What ``prove`` found; printed, it is readable."""

    name: str
    hand_written: Way
    """The comparison of the hand-written backward pass with finite differences."""
    reference: Way | None
    """Hand-written against reference, value and gradients; None if the operation has no reference implementation."""
    reference_numeric: Way | None
    """The reference implementation against finite differences; None if there is none."""
    float32: Way | None
    """float32 against float64; None if the inputs are too large for a comparison."""
    power: Power | None = None
    """The smallest errors of the hand-written gradient that finite differences would have found."""

    @property
    def ways(self) -> list[Way]:
        """The comparisons that were possible."""
        return [w for w in (self.hand_written, self.reference, self.reference_numeric, self.float32) if w is not None]

    def __str__(self) -> str:
        count = "three ways" if self.reference else "two ways only, as it has no reference implementation"
        lines = [f"{self.name}: proved {count}"]
        for way in self.ways:
            lines.append(f"  {way.title:<40} worst relative error {way.worst_error:.1e}")
        if self.float32 is None:
            lines.append("  float32 against float64                  not compared: the inputs are too large")
        return "\n".join(lines + ([f"  {self.power}"] if self.power else []))


def prove(
    operation: Operation,
    inputs: Sequence[Any],
    *,
    names: Sequence[str] | None = None,
    tolerance: float = 1e-7,
    detects: float | None = None,
    seed: int = 0,
    **options: Any,
) -> Proof:
    """Check an operation in three ways, and the rules for operations.

    The ways: hand-written against finite differences; hand-written against reference, to rounding; reference against
    finite differences. The rules: forward and backward do not write into their arguments; backward is repeatable;
    gradients have the shape and type of their inputs and memory of their own; float32 stays float32 and agrees with
    float64.

    Parameters
    ----------
    operation : Operation
        The operation. Without a reference implementation it is checked by finite differences only.
    inputs : sequence of array or other
        The positional inputs. Floating-point arrays are differentiated, in float64; other arguments are passed on
        unchanged. Random generators, here and among the options, are copied for each call, so that all calls draw the
        same numbers.
    names : sequence of str, optional
        The inputs' names, for the report; those of ``forward`` by default.
    tolerance : float
        The relative error allowed between a gradient and finite differences.
    detects : float, optional
        The relative error of the hand-written gradient that finite differences must be able to find, such as 1e-3.
    seed : int
        Seeds the cotangent and the choices of ``gradcheck``.
    **options
        Passed on to the operation.

    Returns
    -------
    Proof
        How well the ways agree.

    Raises
    ------
    AssertionError
        If two ways disagree or a rule is broken; the message says which, where, and by how much.
    TypeError
        If this is not an operation; a plain function of tensors can be tested by ``gradcheck``.
    ValueError
        If no input has a gradient, or the value is not finite. Only -inf is allowed, as the score of a masked key; it
        counts as a constant.

    Examples
    --------
    >>> import numpy as np
    >>> import minitransformer as mt
    >>> proof = prove(mt.ops.softmax, (np.array([[0.5, -1.0, 2.0]]),))
    >>> proof.reference.worst_error < 1e-12
    True
    """
    if not isinstance(operation, Operation):
        raise TypeError(
            f"prove: expected an Operation, found {type(operation).__name__}; make one with Operation(forward, "
            "backward, reference), or test a function of tensors with gradcheck"
        )
    case = OperationCase("prove", operation, inputs, options, names)
    rng = np.random.default_rng(seed)
    result = keep_rules(case, rng)
    checks: dict[str, Any] = {"names": case.names, "tolerance": tolerance, "seed": seed, "max_entries": MAX_ENTRIES}
    found = _check(case, "hand-written", operation, checks | {"detects": detects})
    hand_written = Way("hand-written against finite differences", _errors(found))
    # A few are enough: every entry is also compared with the hand-written gradient, which was checked above.
    checks |= {"max_entries": REFERENCE_ENTRIES, "n_directions": 0}
    reference = reference_numeric = None
    if operation.reference is not None:
        output, theirs = from_parts(case, result)
        reference = Way("hand-written against reference")
        other = Result(output.data, result.d_output, theirs)
        _agree(case, reference, result, other, sizes_of_terms(case, result, rng), REFERENCE_TOLERANCE)
        errors = _errors(_check(case, "reference", operation.reference, checks))
        reference_numeric = Way("reference against finite differences", errors)
    return Proof(
        operation.name, hand_written, reference, reference_numeric, _in_float32(case, result, rng), found.power
    )


_finite = Operation(lambda y: (xp.where(y == -xp.inf, 0, y), None), lambda saved, d_y: (d_y,), name="finite")
"""Replace -inf, a constant, by 0, so that finite differences can be taken; d_output passes unchanged."""


def _errors(report: Report) -> dict[str, float]:
    return {found.name: found.worst_error for found in report.inputs}


def _check(case: OperationCase, form: str, function: Callable[..., Tensor], checks: dict[str, Any]) -> Report:
    """Compare one form of the operation with finite differences."""

    def finite(*tensors: Any) -> Tensor:
        return _finite(function(*tensors, **fresh(case.options)))

    finite.__name__ = f"{case.name}, {form}"
    return gradcheck(finite, case.arrays, **checks)


def _agree(
    case: OperationCase,
    way: Way,
    ours: Result,
    theirs: Result,
    tries: Iterable[list[Array]],
    tolerance: float,
    lost: Callable[[], float] | None = None,
) -> None:
    """Record how far two results differ, relative to the sizes of the terms that were added up.

    If rounding may be ``lost`` from the value, each array is compared with its largest entry: the rounding of an entry
    may come from larger neighbours. An AssertionError says that they differ by more than the tolerance.
    """
    named = [("the value", "value", ours.value, theirs.value)]
    named += [(case.label(i), case.names[i], g, theirs.gradients[i]) for i, g in ours.gradients.items()]
    numbers = [_numbers(to_numpy(a).astype(np.float64), to_numpy(b)) for *_, a, b in named]
    for found in tries:
        sizes = found
        if lost is not None:
            pairs = zip(numbers, found, strict=True)
            sizes = [np.full(b.shape, np.maximum(np.abs(b), size).max(initial=0.0)) for (_, b), size in pairs]
        errors = [relative_error(*both, size) for both, size in zip(numbers, sizes, strict=True)]
        if all(np.max(error, initial=0.0) <= tolerance for error in errors):
            break
    if lost is not None and not np.max(errors[0], initial=0.0) <= tolerance:
        sizes[0] = np.maximum(sizes[0], lost() / tolerance)
        errors[0] = relative_error(*numbers[0], sizes[0])
    for (label, name, *_), (a, b), error, size in zip(named, numbers, errors, sizes, strict=True):
        way.errors[name] = float(np.max(error, initial=0.0))
        if not way.errors[name] <= tolerance:  # NaN is wrong too
            index = np.unravel_index(int(np.argmax(np.nan_to_num(error, nan=np.inf))), error.shape)
            one, other = way.title.split(" against ")
            what = (
                "written by hand differs from the reference implementation"
                if lost is None
                else "in float32 differs from float64"
            )
            raise AssertionError(
                f"{case.title}: {label} {what} at {[int(n) for n in index]}\n"
                f"    {one:<14}  {a[index]: .17g}\n"
                f"    {other:<14}  {b[index]: .17g}\n"
                f"    relative error  {error[index]: .2g}, allowed {tolerance:g} (of terms of size {size[index]:.2g})"
            )


def _numbers(a: Array, b: Array) -> tuple[Array, Array]:
    """Replace values that cannot be subtracted: equal infinities count as equal, all others as wrong."""
    same = change(a, b) == 0
    return np.where(same, 0.0, a), np.where(same, 0.0, b)


def _in_float32(case: OperationCase, result: Result, rng: np.random.Generator) -> Way | None:
    """Check that float32 stays float32 and, for inputs that are not too large, agrees with float64."""
    narrow = [x.astype(np.float32) if i in case.moving else x for i, x in enumerate(case.arrays)]
    d_narrow = result.d_output.astype(np.float32)
    value, saved = case.forward(narrow)
    case.require(value.dtype == np.float32, f"float32 inputs gave a value of type {value.dtype}")
    gradients = {i: g for i, g in enumerate(case.backward(saved, d_narrow)) if i in case.moving and g is not None}
    for i, g in gradients.items():
        case.require(g.dtype == np.float32, f"{case.label(i)} is of type {g.dtype} for inputs of float32")
    moving = [case.inputs[i] for i in case.moving]
    if max(float(np.abs(x[np.isfinite(x)]).max(initial=0.0)) for x in moving) > FLOAT32_LARGEST:
        return None
    # float64 starts from the rounded inputs, so that only the rounding inside the operation is compared.
    wide = OperationCase("prove", case.function, narrow, case.options, case.names)
    d_wide = d_narrow.astype(np.float64)
    wide_value, wide_saved = wide.forward(wide.arrays)
    wide_gradients = {i: g for i, g in enumerate(wide.backward(wide_saved, d_wide)) if i in gradients and g is not None}
    exact = Result(asarray(wide_value), d_wide, wide_gradients)
    way = Way("float32 against float64")

    def lost() -> float:
        # log(1 + 1e-9), for example, is 0 in float32 in any form: the reference implementation's error is allowed
        return MORE_LOST * loss_of_float32(wide, rng) if case.function.reference is not None else 0.0

    ours = Result(value, d_narrow, {i: gradients[i] for i in wide_gradients})
    _agree(case, way, ours, exact, sizes_of_terms(wide, exact, rng), FLOAT32_TOLERANCE, lost)
    return way
