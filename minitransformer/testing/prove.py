"""The three-way proof of an operation, and of the rules that every operation keeps.

Three descriptions of one gradient are held against each other: the backward pass written by hand, the operation
composed of elementary ones and differentiated by the autograd core, and finite differences.

Hand-written and composed are two ways to compute the same numbers, so only rounding may part them. How large is that?
A sum of numbers of size S is off by about ε S, also where the numbers cancel and the sum itself is small. So two
results a and b are compared by

    |a - b| / max(|a|, |b|, S)

and S is found by experiment: each input, each saved number and d_output are changed by a random relative δ,
independently of each other, as rounding would change them, and S = |change of the result| / δ, the largest of a few
tries, entry by entry. Where terms cancel that a backward pass computes anew from what it has saved, no change of that
shows their size; so the gradients inside the composed form are changed in the same way too. What remains after
division by S is a small multiple of ε = 2e-16 for float64.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minitransformer.arrays import Array, asarray, operand, to_numpy, xp
from minitransformer.autograd import Operation, Tensor
from minitransformer.autograd.graph import Node
from minitransformer.testing.gradcheck import gradcheck, relative_error

__all__ = ["Proof", "Way", "prove"]

COMPOSED_TOLERANCE = 1e-12
"""For float64: a few thousand roundings."""
FLOAT32_TOLERANCE = 1e-5
"""For float32: a hundred roundings."""
FLOAT32_LARGEST = 100.0
"""Inputs above this are not compared in float32. A score of 1e4 is rounded by 1e-3 there, one of two such factors by
10, and the exponential turns that into a relative error as large or larger: nothing is left to compare."""
DELTA = 2.0**-26  # the square root of ε: changes are seen well, and their squares are not
TRIES = 8
MAX_ENTRIES = 64
"""How many entries of each input are moved one by one; of larger inputs random ones, and all in random directions."""


@dataclass
class Way:
    """Two descriptions of an operation, held against each other."""

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
    """The hand-written backward pass against finite differences."""
    composed: Way | None
    """Hand-written against composed, value and gradients; None if the operation has no composed form."""
    composed_numeric: Way | None
    """The composed form against finite differences; None if there is none."""
    float32: Way | None
    """float32 against float64; None if the inputs are too large for a comparison."""

    @property
    def ways(self) -> list[Way]:
        """Those that were gone."""
        return [w for w in (self.hand_written, self.composed, self.composed_numeric, self.float32) if w is not None]

    def __str__(self) -> str:
        count = "three ways" if self.composed else "two ways only, as it has no composed form"
        lines = [f"{self.name}: proved {count}"]
        for way in self.ways:
            lines.append(f"  {way.title:<40} worst relative error {way.worst_error:.1e}")
        if self.float32 is None:
            lines.append("  float32 against float64                  not compared: the inputs are too large")
        return "\n".join(lines)


def prove(
    operation: Operation,
    inputs: Sequence[Any],
    *,
    names: Sequence[str] | None = None,
    tolerance: float = 1e-7,
    seed: int = 0,
    **options: Any,
) -> Proof:
    """Prove an operation three ways, and that it keeps the rules for operations.

    The ways: hand-written against finite differences; hand-written against composed, to rounding; composed against
    finite differences. The rules: forward and backward write into nothing that they are given; backward gives the
    same again; gradients have the shape and type of their inputs and memory of their own; float32 stays float32 and
    agrees with float64.

    Parameters
    ----------
    operation : Operation
        What is to be proved. Without a composed form it is proved by finite differences alone.
    inputs : sequence of array or other
        The positional inputs. Floating-point arrays are differentiated, in float64; everything else is passed on as
        it is. Random generators, here and among the options, are copied for each call, so that all calls draw alike.
    names : sequence of str, optional
        The inputs' names, for the report; those of ``forward`` by default.
    tolerance : float
        The relative error allowed between a gradient and finite differences.
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
        If there is nothing to prove: no input has a gradient, or the value is not finite. Only -inf is allowed, as
        the score that a mask leaves behind; it counts as constant.

    Examples
    --------
    >>> import numpy as np
    >>> import minitransformer as mt
    >>> proof = prove(mt.ops.softmax, (np.array([[0.5, -1.0, 2.0]]),))
    >>> proof.composed.worst_error < 1e-12
    True
    """
    if not isinstance(operation, Operation):
        raise TypeError(
            f"prove: expected an Operation, found {type(operation).__name__}; make one with Operation(forward, "
            "backward, composed), or test a function of tensors with gradcheck"
        )
    if hasattr(inputs, "dtype"):
        raise TypeError(f"prove of {operation.name}: the inputs are one array; write (x,) for a single input")
    case = _Case(operation, inputs, options, names)
    rng = np.random.default_rng(seed)
    result = _keep_rules(case, rng)
    way = Way("hand-written against finite differences")

    def hand_written(*tensors: Any) -> Tensor:
        return _finite(operation(*_fresh(tensors), **_fresh(options)))

    checks: dict[str, Any] = {"names": case.names, "tolerance": tolerance, "seed": seed, "max_entries": MAX_ENTRIES}
    way.errors = _checked(f"{operation.name}, hand-written", hand_written, case, checks)
    checks |= {"max_entries": 16, "n_directions": 2}  # the composed form is held against all entries by the other ways
    composed = composed_numeric = None
    form = operation.composed
    if form is not None:

        def from_parts(*tensors: Any) -> Tensor:
            return _finite(form(*_fresh(tensors), **_fresh(options)))

        composed = _compare_composed(case, result, rng)
        composed_numeric = Way("composed against finite differences")
        composed_numeric.errors = _checked(f"{operation.name}, composed", from_parts, case, checks)
    return Proof(operation.name, way, composed, composed_numeric, _compare_float32(case, result, rng))


# ---------------------------------------------------------------------------------------------------------------------
# What a run of the operation gives


class _Case:
    """An operation with the inputs at which it is proved."""

    def __init__(
        self, operation: Operation, inputs: Sequence[Any], options: dict[str, Any], names: Sequence[str] | None
    ) -> None:
        self.operation, self.options = operation, options
        self.inputs = [_wide(x) for x in inputs]
        parameters = [str(n) for n in (operation.signature.parameters if names is None else names)]
        self.names = [parameters[i] if i < len(parameters) else str(i) for i in range(len(self.inputs))]
        self.moving = [i for i, x in enumerate(self.inputs) if _is_float(x)]
        """The places of the inputs that have a gradient."""

    def forward(self, inputs: Sequence[Any]) -> tuple[Array, Any]:
        return self.operation.forward(*_fresh(inputs), **_fresh(self.options))

    def backward(self, saved: Any, d_output: Array) -> list[Array | None]:
        """Return a gradient, or None, for each input."""
        gradients = list(self.operation.backward(saved, d_output))
        return gradients[: len(self.inputs)] + [None] * (len(self.inputs) - len(gradients))

    def label(self, i: int) -> str:
        return f"the gradient of {self.names[i]}"

    def require(self, holds: Any, what: str) -> None:
        if not holds:
            raise AssertionError(f"prove of {self.operation.name}: {what}")


@dataclass
class _Result:
    """The value and the gradients in float64, and the cotangent that they belong to."""

    value: Array
    d_output: Array
    gradients: dict[int, Array]


def _is_float(x: Any) -> bool:
    return isinstance(x, xp.ndarray) and x.dtype.kind == "f"


def _wide(x: Any) -> Any:
    """Return floating-point arrays in float64, in the memory layout that they have."""
    x = operand(x.data if isinstance(x, Tensor) else x)
    return x.astype(np.float64, copy=False) if _is_float(x) else x


def _fresh(value: Any) -> Any:
    """Return inputs or options with copies of the random generators, so that each call draws the same."""
    if isinstance(value, dict):
        return {key: _fresh(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return [copy.deepcopy(x) if isinstance(x, np.random.Generator) else x for x in value]
    return copy.deepcopy(value) if isinstance(value, np.random.Generator) else value


_finite = Operation(
    lambda y: (xp.where(y == -xp.inf, 0, y), None),
    lambda saved, d_y: (d_y,),
    name="finite",
)
"""Show -inf, a constant, as 0, so that it can be measured that it is one; d_output passes unchanged."""


def _checked(title: str, function: Any, case: _Case, checks: dict[str, Any]) -> dict[str, float]:
    """Return each input's worst error against finite differences."""
    function.__name__ = title
    report = gradcheck(function, case.inputs, **checks)
    return {found.name: found.worst_error for found in report.inputs}


def _arrays(value: Any) -> Iterator[Array]:
    """Find the arrays in what a forward pass has saved."""
    if isinstance(value, xp.ndarray):
        yield value
    elif isinstance(value, dict):
        yield from _arrays(list(value.values()))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _arrays(part)
    elif hasattr(value, "__dict__") and not callable(value):
        yield from _arrays(vars(value))


def _equal(a: Any, b: Any) -> bool:
    """Tell whether two results are the same, up to the order in which sums are rounded: it depends on the memory."""
    a, b = to_numpy(a), to_numpy(b)
    scale = float(np.abs(a[np.isfinite(a)]).max(initial=0.0))
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-12, atol=1e-12 * scale, equal_nan=True)


def _same(a: Array, b: Array) -> bool:
    """Tell whether two arrays hold the same, bit by bit."""
    a, b = to_numpy(a), to_numpy(b)
    return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


# ---------------------------------------------------------------------------------------------------------------------
# The rules


def _keep_rules(case: _Case, rng: np.random.Generator) -> _Result:
    """Run the operation and see that it keeps the rules."""
    given = [*zip(case.names, case.inputs, strict=True), *case.options.items()]
    before = [(name, x, x.copy()) for name, x in given if hasattr(x, "dtype")]

    def unchanged(when: str) -> None:
        for name, x, old in before:
            case.require(_same(x, old), f"{when} wrote into its input {name}")

    value, saved = case.forward(case.inputs)
    value = value if isinstance(value, xp.ndarray) else asarray(value)
    unchanged("forward")
    case.require(value.dtype == np.float64, f"float64 inputs gave a value of type {value.dtype}")
    # The axes lie in memory in reverse order, as they do after a transpose: backward must not rely on the usual one.
    signs = rng.choice((-1.0, 1.0), value.shape[::-1])
    d_output = asarray((rng.uniform(0.5, 2.0, value.shape[::-1]) * signs).T)
    kept = [x.copy() for x in _arrays(saved)]
    d_kept = d_output.copy()

    gradients = case.backward(saved, d_output)
    unchanged("backward")
    for x, old in zip(_arrays(saved), kept, strict=True):
        case.require(_same(x, old), f"backward wrote into a saved array of shape {x.shape}")
    case.require(_same(d_output, d_kept), "backward wrote into d_output")
    again = case.backward(saved, d_output)
    for i, x in enumerate(case.inputs):
        gradient = gradients[i]
        if gradient is None or not _is_float(x):
            continue
        case.require(
            gradient.shape == x.shape, f"{case.label(i)} has shape {gradient.shape}, but the input has {x.shape}"
        )
        case.require(
            gradient.dtype == x.dtype, f"{case.label(i)} is of type {gradient.dtype}, but the input is of {x.dtype}"
        )
        case.require(
            again[i] is not None and _equal(gradient, again[i]),
            f"{case.label(i)} is not the same when backward runs a second time on the same saved values",
        )
    _share_nothing(case, value, saved, d_output, gradients)
    found = {i: gradients[i] for i in case.moving}
    return _Result(value, d_output, {i: xp.zeros_like(case.inputs[i]) if g is None else g for i, g in found.items()})


def _share_nothing(case: _Case, value: Array, saved: Any, d_output: Array, gradients: Sequence[Array | None]) -> None:
    """See that each gradient has memory of its own, so that whoever receives it may write into it."""
    others = [(f"the input {name}", x) for name, x in zip(case.names, case.inputs, strict=True)]
    others += [(f"a saved array of shape {x.shape}", x) for x in _arrays(saved)]
    others += [("d_output", d_output), ("the value", value)]
    for i, gradient in enumerate(gradients):
        if not isinstance(gradient, xp.ndarray):
            continue
        for name, other in others:
            shared = isinstance(other, xp.ndarray) and xp.shares_memory(gradient, other)
            case.require(not shared, f"{case.label(i)} shares memory with {name}; return a copy")
        others.append((case.label(i), gradient))


# ---------------------------------------------------------------------------------------------------------------------
# The comparisons


def _moved(value: Any, delta: float, rng: np.random.Generator) -> Any:
    """Change every floating-point array in a value by a random relative amount of about delta, entry by entry."""
    if _is_float(value):
        return asarray(value * asarray(1 + delta * rng.standard_normal(value.shape)))
    if isinstance(value, dict):
        return {key: _moved(part, delta, rng) for key, part in value.items()}
    if isinstance(value, list | tuple):
        parts = [_moved(part, delta, rng) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def _sizes_of_terms(case: _Case, result: _Result, rng: np.random.Generator) -> tuple[Array, dict[int, Array]]:
    """Return S (see above) for each entry of the value and of the gradients."""
    value_size = np.zeros(result.value.shape)
    sizes = {i: np.zeros(g.shape) for i, g in result.gradients.items()}
    for _ in range(TRIES):
        value, saved = case.forward(_moved(case.inputs, DELTA, rng))
        gradients = case.backward(_moved(saved, DELTA, rng), _moved(result.d_output, DELTA, rng))
        value_size = np.maximum(value_size, _change(value, result.value) / DELTA)
        for i, old in result.gradients.items():
            if gradients[i] is not None:
                sizes[i] = np.maximum(sizes[i], _change(gradients[i], old) / DELTA)
    inside = _sizes_inside(case, result, rng) if case.operation.composed is not None else {}
    return value_size, {i: np.maximum(size, inside.get(i, 0)) for i, size in sizes.items()}


def _sizes_inside(case: _Case, result: _Result, rng: np.random.Generator) -> dict[int, Array]:
    """Return S for each entry of the gradients, from changes to the gradients inside the composed form."""
    exact = _from_parts(case, result)[1]
    sizes = {i: np.zeros(g.shape) for i, g in exact.items()}
    for _ in range(TRIES):
        for i, gradient in _from_parts(case, result, rng)[1].items():
            sizes[i] = np.maximum(sizes[i], _change(gradient, exact[i]) / DELTA)
    return sizes


def _from_parts(
    case: _Case, result: _Result, rng: np.random.Generator | None = None
) -> tuple[Tensor, dict[int, Array]]:
    """Return the composed form's value and gradients; with a generator, all gradients inside are changed by δ."""
    tensors = [Tensor(x, requires_grad=True) if i in case.moving else x for i, x in enumerate(case.inputs)]
    assert case.operation.composed is not None
    output = case.operation.composed(*_fresh(tensors), **_fresh(case.options))
    case.require(
        output.shape == result.value.shape,
        f"forward returns shape {result.value.shape}, composed returns shape {output.shape}",
    )
    if rng is not None:
        _move_inside(output, rng)
    if output.requires_grad:
        output.backward(result.d_output)
    grads = {i: tensors[i].grad for i in case.moving}
    return output, {i: xp.zeros_like(case.inputs[i]) if g is None else g for i, g in grads.items()}


def _move_inside(output: Tensor, rng: np.random.Generator) -> None:
    """Make every node of a graph change the gradients that it returns by δ."""
    nodes: list[Any] = [output._node]
    for node in nodes:  # grows on the way
        if not isinstance(node, Node) or node.backward is None:
            continue

        def moved(d_output: Array, exact: Any = node.backward) -> Any:
            return _moved(list(exact(d_output)), DELTA, rng)

        node.backward = moved
        for edge in node.edges:
            if edge is not None and edge.target not in nodes:
                nodes.append(edge.target)


def _change(new: Any, old: Any) -> Array:
    """Return |new - old|, 0 where both are the same infinity."""
    new, old = to_numpy(new), to_numpy(old)
    with np.errstate(invalid="ignore"):
        return np.where(new == old, 0.0, np.abs(np.subtract(new, old)))


def _compare_composed(case: _Case, result: _Result, rng: np.random.Generator) -> Way:
    """Hold the hand-written passes against the composed form."""
    way = Way("hand-written against composed")
    output, gradients = _from_parts(case, result)
    value_size, sizes = _sizes_of_terms(case, result, rng)
    pairs = [("the value", "value", result.value, output.data, value_size)]
    for i, gradient in result.gradients.items():
        pairs.append((case.label(i), case.names[i], gradient, gradients[i], sizes[i]))
    for label, name, ours, theirs, size in pairs:
        a, b = to_numpy(ours), to_numpy(theirs)
        errors = np.where(_change(a, b) == 0, 0.0, relative_error(*_numbers(a, b), size))
        way.errors[name] = float(np.max(errors, initial=0.0))
        if not way.errors[name] <= COMPOSED_TOLERANCE:  # NaN is wrong too
            index = np.unravel_index(int(np.argmax(np.nan_to_num(errors, nan=np.inf))), errors.shape)
            raise AssertionError(
                f"prove of {case.operation.name}: {label} written by hand differs from the composed form "
                f"at {[int(n) for n in index]}\n"
                f"    hand-written    {a[index]: .17g}\n"
                f"    composed        {b[index]: .17g}\n"
                f"    relative error  {errors[index]: .2g}, allowed {COMPOSED_TOLERANCE:g} "
                f"(of terms of size {size[index]:.2g})"
            )
    return way


def _numbers(a: Array, b: Array) -> tuple[Array, Array]:
    """Replace what cannot be subtracted: equal infinities are equal, anything else beside a number is wrong."""
    same = _change(a, b) == 0
    return np.where(same, 0.0, a), np.where(same, 0.0, b)


def _compare_float32(case: _Case, result: _Result, rng: np.random.Generator) -> Way | None:
    """See that float32 stays float32 and, where float32 can tell, that it agrees with float64."""
    narrow = [x.astype(np.float32) if i in case.moving else x for i, x in enumerate(case.inputs)]
    d_narrow = result.d_output.astype(np.float32)
    value, saved = case.forward(narrow)
    case.require(value.dtype == np.float32, f"float32 inputs gave a value of type {value.dtype}")
    gradients = case.backward(saved, d_narrow)
    for i in case.moving:
        found = gradients[i]
        case.require(
            found is None or found.dtype == np.float32,
            f"{case.label(i)} is of type {found.dtype if found is not None else None} for inputs of float32",
        )
    largest = max(
        (float(np.abs(x[np.isfinite(x)]).max(initial=0.0)) for x in (to_numpy(case.inputs[i]) for i in case.moving)),
        default=0.0,
    )
    if largest > FLOAT32_LARGEST:
        return None
    # float64 starts from the rounded inputs, so that only the rounding inside the operation is compared.
    wide = _Case(
        case.operation, [x.astype(np.float64) if _is_float(x) else x for x in narrow], case.options, case.names
    )
    d_wide = d_narrow.astype(np.float64)
    wide_value, wide_saved = wide.forward(wide.inputs)
    wide_gradients = wide.backward(wide_saved, d_wide)
    known = {i: wide_gradients[i] for i in case.moving}
    exact = _Result(asarray(wide_value), d_wide, {i: g for i, g in known.items() if g is not None})
    value_size, sizes = _sizes_of_terms(wide, exact, rng)
    way = Way("float32 against float64")
    pairs: list[Any] = [("the value", "value", value, exact.value, value_size)]
    pairs += [(case.label(i), case.names[i], gradients[i], g, sizes[i]) for i, g in exact.gradients.items()]
    for label, name, ours, theirs, size in pairs:
        a, b = _numbers(to_numpy(ours).astype(np.float64), to_numpy(theirs))
        # One scale for the whole array: a single entry may owe its rounding to larger neighbours.
        scale = float(np.max(np.maximum(np.abs(b), size), initial=0.0))
        way.errors[name] = float(np.max(relative_error(a, b, scale), initial=0.0))
        case.require(
            way.errors[name] <= FLOAT32_TOLERANCE,
            f"{label} in float32 differs from float64 by {way.errors[name]:.2g} of its size, "
            f"allowed {FLOAT32_TOLERANCE:g}",
        )
    return way
