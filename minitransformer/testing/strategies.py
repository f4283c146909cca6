"""Hypothesis strategies: inputs for `check` and `prove`, for your functions and this package's operations.

``inputs`` draws the arrays of a signature, in which the same letter means the same size::

    @given(strategies.inputs("(B, T, D), (D, F)"))
    def test_my_layer(inputs):
        check(my_layer, inputs=inputs)

It also draws an ``Example`` for each operation in ``mt.ops.registry``, and for one of your own that takes
floating-point arrays and states their shapes in the docstring of ``forward`` (see ``minitransformer.testing.shapes``)::

    @given(strategies.inputs(mt.ops.softmax))
    def test_softmax(example):
        prove(mt.ops.softmax, example.inputs, **example.options)

The parts, to build strategies from: ``sizes``, ``arrays``, ``masks``, ``ids`` and ``cotangents``. A strategy for an
operation of your own, which scales the rows of a matrix::

    @st.composite
    def scaled_rows(draw):
        n, d = draw(strategies.sizes(2))
        return draw(strategies.arrays((n, d))), draw(strategies.arrays((n, 1)))

Hypothesis draws the sizes, the flags and a seed; the entries come from a NumPy generator with that seed. A failing
example shrinks to small sizes and few flags, which makes it easy to understand; shrinking each entry too would take far
longer and add little. Special properties of entries (ties, zeros) are therefore flags.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, overload

import numpy as np
from hypothesis import strategies as st

from minitransformer.arrays import Array
from minitransformer.autograd import Operation
from minitransformer.testing.case import draw_cotangent
from minitransformer.testing.examples import Example
from minitransformer.testing.shapes import Inputs, inputs_in, inputs_of

LAYOUTS = ("C", "transposed", "strided", "reversed", "read-only")
MASKS = ("none", "full", "causal", "padding", "per-head", "random")
LARGE = 1e4
BLOCK_SIZES = st.one_of(st.none(), st.integers(1, 9))
"""How many queries are processed at a time: all, or from one to more than exist."""
STRATEGIES: dict[str, Callable[..., st.SearchStrategy[Example]]] = {}
"""By name: for operations that take more than floating-point arrays, or not every size or value of them."""


# ---------------------------------------------------------------------------------------------------------------------
# The parts


@st.composite
def sizes(draw: st.DrawFn, n: int, min: int | Sequence[int] = 0, max: int = 6) -> tuple[int, ...]:
    """Draw the sizes of n axes, all different, so that swapped axes are caught.

    In half of the draws one of the sizes is replaced by 1 or 0, where ``min`` allows it.

    Parameters
    ----------
    n : int
        How many.
    min : int or sequence of int
        The least size, of all axes or of each.
    max : int
        The largest size; raised if there are fewer than n sizes from 2 to it.

    Returns
    -------
    strategy for tuple of int

    Examples
    --------
    >>> batch, length, width = draw(sizes(3, min=(0, 0, 1)))  # doctest: +SKIP
    """
    least = (min,) * n if isinstance(min, int) else tuple(min)
    if len(least) != n:
        raise ValueError(f"sizes: {len(least)} least sizes for {n} axes; give one for each, or one for all")
    smallest = np.max((2, *least))
    pool = range(int(smallest), int(np.max((max, smallest + n - 1))) + 1)
    found = list(draw(st.permutations(pool)))[:n]
    special = draw(st.sampled_from((None, None, 1, 0)))
    places = [i for i in range(n) if special is not None and special >= least[i]]
    if special is not None and places:
        found[draw(st.sampled_from(places))] = special
    return tuple(found)


def generators() -> st.SearchStrategy[np.random.Generator]:
    """Draw a seeded NumPy generator.

    Returns
    -------
    strategy for numpy.random.Generator
    """
    return st.integers(0, 2**32 - 1).map(np.random.default_rng)


@st.composite
def arrays(
    draw: st.DrawFn,
    shape: Sequence[int],
    *,
    low: float = -2.0,
    high: float = 2.0,
    away_from: float | None = None,
    distance: float = 0.05,
    ties: bool = True,
    layouts: Sequence[str] = LAYOUTS,
    extreme: bool = False,
    large: float = LARGE,
    dtype: Any = np.float64,
) -> Array:
    """Draw an array of floating-point numbers.

    Parameters
    ----------
    shape : sequence of int
        Its shape.
    low, high : float
        The range of its entries.
    away_from : float, optional
        A kink: entries nearer to it than ``distance`` are moved away by as much.
    distance : float
        How far.
    ties : bool
        Whether some draws may consist of few distinct values, including zeros. Without, the entries of an array keep
        a distance from each other, so that no maximum is near a tie.
    layouts : sequence of {"C", "transposed", "strided", "reversed", "read-only"}
        The possible memory layouts.
    extreme : bool
        Whether entries may be large; then about half of them are.
    large : float
        The size of large ones, of both signs.
    dtype : dtype
        The type of the entries.

    Returns
    -------
    strategy for array

    Examples
    --------
    >>> x = draw(arrays((3, 4), away_from=0.0))  # doctest: +SKIP
    """
    rng = draw(generators())
    values: Array = rng.uniform(low, high, tuple(shape))
    if not ties:
        places = rng.permutation(values.size).reshape(values.shape) + rng.uniform(0.25, 0.75, values.shape)
        values = low + (high - low) * places / max(values.size, 1)
    elif draw(st.sampled_from((False, False, True))):
        values = np.clip(np.round(2 * values) / 2 + 0.0, low, high)
    if extreme and draw(st.booleans()):
        larger = rng.choice((-large, large), values.shape) if ties else values * (large / max(abs(low), abs(high)))
        values = np.where(rng.random(values.shape) < 0.5, values, larger)
    if away_from is not None:
        near = np.abs(values - away_from) < distance
        values += near * np.where(values < away_from, -distance, distance)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.permutation(values.ravel()).reshape(values.shape)
    return lay_out(values.astype(dtype, copy=False), draw(st.sampled_from(tuple(layouts))))


def lay_out(values: Array, layout: str) -> Array:
    """Return an array with the same entries in another memory layout.

    Parameters
    ----------
    values : array
        The entries.
    layout : {"C", "transposed", "strided", "reversed", "read-only"}
        The usual order; the axes in reverse order; every other entry of a larger array; with steps backwards in
        memory; the usual order, not to be written to.

    Returns
    -------
    array
    """
    values = np.asarray(values)
    if not values.ndim:  # a single number has only one layout
        layout = "read-only" if layout == "read-only" else "C"
    if layout == "transposed":
        return np.asfortranarray(values)
    if layout == "strided":
        every_other = (slice(None, None, 2),) * values.ndim
        larger = np.full([2 * n for n in values.shape], np.nan, values.dtype)  # the entries between must never be read
        larger[every_other] = values
        return larger[every_other]
    if layout == "reversed":
        backwards = (slice(None, None, -1),) * values.ndim
        return np.ascontiguousarray(values[backwards])[backwards]
    result = np.array(values, order="C")
    result.flags.writeable = layout != "read-only"
    return result


@st.composite
def masks(draw: st.DrawFn, shape: Sequence[int], *, kinds: Sequence[str] = MASKS) -> Array | None:
    """Draw a mask for scores, True = may attend; often one of its rows is all False.

    Parameters
    ----------
    shape : sequence of int
        The scores' shape, (..., Tq, Tk).
    kinds : sequence of {"none", "full", "causal", "padding", "per-head", "random"}
        What it may be: None; all True; the causal triangle; one row for each entry of the first axis, the same for
        all queries; one for each head (the axis before Tq), the same in all batches; random entries, with any of the
        axes of length 1 and any number of the leading ones left out. Padding and per-head need scores of three axes or
        more and are random ones where there are fewer.

    Returns
    -------
    strategy for boolean array or None
    """
    shape = tuple(shape)
    kind = draw(st.sampled_from(tuple(kinds)))
    if kind == "none":
        return None
    if kind == "full":
        return np.ones(shape, dtype=bool)
    mask: Array
    if kind == "causal":
        mask = np.tri(shape[-2], shape[-1]) > 0
    elif kind == "padding" and len(shape) > 2:
        lengths = draw(generators()).integers(0, shape[-1] + 1, shape[0])
        mask = (np.arange(shape[-1]) < lengths[:, None]).reshape(shape[0], *(1,) * (len(shape) - 2), shape[-1])
    elif kind == "per-head" and len(shape) > 2:
        mask = draw(generators()).random(shape[-3:]) < 0.6
    else:
        kept = [n if draw(st.booleans()) else 1 for n in shape]
        mask = draw(generators()).random(kept[draw(st.integers(0, len(shape) - 1)) :]) < 0.6
    if mask.ndim > 1 and mask.size and draw(st.booleans()):
        rows = mask.reshape(-1, mask.shape[-1])
        rows[draw(st.integers(0, len(rows) - 1))] = False
        mask = rows.reshape(mask.shape)
    return mask


@st.composite
def ids(draw: st.DrawFn, shape: Sequence[int], n: int) -> Array:
    """Draw token ids; often most of them are repeated.

    Parameters
    ----------
    shape : sequence of int
        The shape.
    n : int
        How many tokens there are: ids are from 0 to n - 1.

    Returns
    -------
    strategy for integer array
    """
    rng = draw(generators())
    few = draw(st.booleans())
    chosen = rng.permutation(n)[: 2 if few else n]
    return rng.choice(chosen, tuple(shape)) if len(chosen) else np.zeros(tuple(shape), dtype=np.int64)


@st.composite
def cotangents(draw: st.DrawFn, shape: Sequence[int]) -> Array:
    """Draw a gradient of an output: random, both signs, all entries different, none near 0.

    Parameters
    ----------
    shape : sequence of int
        The output's shape.

    Returns
    -------
    strategy for array
    """
    values = draw_cotangent(draw(generators()), shape)
    return lay_out(values, draw(st.sampled_from(LAYOUTS)))


# ---------------------------------------------------------------------------------------------------------------------
# Signatures and operations. `inputs` documents the parameter `extreme` of each strategy.


@overload
def inputs(
    of: str, extreme: bool = False, *, ties: bool = False, dtype: Any = np.float64
) -> st.SearchStrategy[list[Array]]: ...


@overload
def inputs(of: Operation, extreme: bool = False) -> st.SearchStrategy[Example]: ...


def inputs(
    of: str | Operation, extreme: bool = False, *, ties: bool | None = None, dtype: Any = None
) -> st.SearchStrategy[Any]:
    """Draw the arrays of a signature, or inputs and options of an operation.

    Parameters
    ----------
    of : str or Operation
        A signature such as ``"(B, T, D), (D, F)"`` (see ``minitransformer.testing.shapes``); the drawn sizes of the
        letters differ, and some are 1 or 0. Or an operation with a strategy of its name below, or one whose inputs are
        floating-point arrays.
    extreme : bool
        Whether inputs may be large: ±1e4, unless the strategy says something else.
    ties : bool
        For a signature: whether some draws may consist of few distinct values, including zeros. By default the entries
        of an array keep a distance from each other, because many functions have no derivative at ties.
    dtype : dtype
        For a signature: the type of the arrays, real or complex; float64 by default.

    Returns
    -------
    strategy for list of array, or for Example

    Raises
    ------
    ValueError
        If a part of the signature cannot be read.
    TypeError
        If the type has no fractions, or the options of a signature are given for an operation.
    LookupError
        If there is no strategy for an operation and the docstring does not state the shapes.

    Examples
    --------
    >>> @given(strategies.inputs("(..., T, D), (D, 3), D >= 1", dtype="float32"))  # doctest: +SKIP
    ... def test_my_layer(inputs):
    ...     check(my_layer, inputs=inputs)
    """
    if isinstance(of, str):
        dtype = np.dtype(np.float64 if dtype is None else dtype)
        if np.asarray(0.5).astype(dtype) != 0.5:
            raise TypeError(f"strategies.inputs: found dtype {dtype}, expected a floating-point or complex type")
        return _from_shapes(inputs_in(of), extreme=extreme, ties=bool(ties), dtype=dtype)
    if ties is not None or dtype is not None:
        raise TypeError(f"strategies.inputs of {of.name}: ties and dtype are for signatures; operations draw their own")
    if of.name in STRATEGIES:
        return STRATEGIES[of.name](extreme)
    return _from_shapes(inputs_of(of), extreme=extreme).map(lambda arrays: Example(tuple(arrays), {}))


Arguments = ParamSpec("Arguments")


def _for_operation(
    function: Callable[Concatenate[st.DrawFn, Arguments], Example],
) -> Callable[Arguments, st.SearchStrategy[Example]]:
    """Register a function as the strategy for the operation of the same name."""
    STRATEGIES[function.__name__] = strategy = st.composite(function)
    return strategy


@st.composite
def _from_shapes(draw: st.DrawFn, /, wanted: Inputs, **kind: Any) -> list[Array | None]:
    """Draw arrays of some kind; optional ones are sometimes left out."""
    n = draw(_leading()) if wanted.any_axes else 0
    lengths = draw(sizes(n + len(wanted.least), min=(*(0,) * n, *wanted.least.values())))
    shapes = wanted.shapes(lengths[:n], lengths[n:])
    kept = {name: name not in wanted.optional or draw(st.booleans()) for name in shapes}
    return [draw(arrays(shapes[name], **kind)) if kept[name] else None for name in shapes]


def _leading(most: int = 2) -> st.SearchStrategy[int]:
    """Draw the number of leading axes."""
    return st.integers(0, most)


@_for_operation
def softmax(draw: st.DrawFn, extreme: bool = False) -> Example:
    """Draw scores of one to four axes and the axis of the softmax; along the last axis sometimes a mask.

    With ``extreme``, scores may be ±1e4, and -inf where others in the row are not, or ±inf where the mask is False.
    """
    n = draw(st.integers(1, 4))
    x = draw(arrays(draw(sizes(n, max=5)), extreme=extreme))
    axis = draw(st.integers(-n, n - 1))
    mask = draw(masks(x.shape)) if n > 1 and axis in (-1, n - 1) else None
    if mask is not None:
        if extreme and draw(st.booleans()):
            x = np.where(mask, x, draw(generators()).choice((-np.inf, np.inf), x.shape))
        return Example((x,), {"axis": axis, "mask": mask})
    if extreme and x.size and draw(st.booleans()):
        hidden = draw(generators()).random(x.shape) < 0.3
        x = np.where(hidden & ~hidden.all(axis=axis, keepdims=True), -np.inf, x)
    return Example((x,), {"axis": axis})


@_for_operation
def log_softmax(draw: st.DrawFn, extreme: bool = False) -> Example:
    """Draw scores of one to four axes and the axis of the log-softmax."""
    n = draw(st.integers(1, 4))
    x = draw(arrays(draw(sizes(n, max=5)), extreme=extreme))
    return Example((x,), {"axis": draw(st.integers(-n, n - 1))})


@_for_operation
def masking(draw: st.DrawFn, extreme: bool = False) -> Example:
    """Draw scores and a mask.

    With ``extreme``, scores may be ±1e4, and ±inf where the mask is False.
    """
    shape = draw(sizes(2 + draw(_leading()), max=5))
    x = draw(arrays(shape, extreme=extreme))
    mask = draw(masks(shape, kinds=MASKS[1:]))
    if extreme and mask is not None and draw(st.booleans()):
        x = np.where(mask, x, draw(generators()).choice((-np.inf, np.inf), shape))
    return Example((x, mask), {})


@_for_operation
def scaled_dot_product_attention(draw: st.DrawFn, extreme: bool = False) -> Example:
    """Draw queries, keys, values, a mask, causal or not, and a block size; sometimes the first three are one array.

    With ``extreme``, queries may be ±1e4, which makes scores as large.
    """
    leading = draw(_leading())
    shape = draw(sizes(leading + 4, min=(0,) * (leading + 2) + (1, 0), max=5 if leading < 2 else 6))
    *batch, t_q, t_k, d_k, d_v = shape
    causal = draw(st.sampled_from((False, False, True)))
    if draw(st.sampled_from((False, False, False, True))):
        q = k = v = draw(arrays((*batch, t_q, d_k)))
        t_k = t_q
    else:
        t_k = t_q if causal else t_k
        q = draw(arrays((*batch, t_q, d_k), extreme=extreme))
        k, v = draw(arrays((*batch, t_k, d_k))), draw(arrays((*batch, t_k, d_v)))
    mask = draw(masks((*batch, t_q, t_k)))
    return Example((q, k, v, mask), {"causal": causal, "block_size": draw(BLOCK_SIZES)})


@_for_operation
def multi_head_attention(draw: st.DrawFn, extreme: bool = False) -> Example:
    """Draw inputs and parameters of self-attention or attention to a memory, with and without biases and mask.

    Attention may be causal, also to a memory that is as long as x, and work in blocks of queries.

    With ``extreme``, inputs may be ±1e2, which makes scores of about 1e4: they are products of two.
    """
    batch, t_q, t_k, d_model, d_k, d_v, n_heads = draw(sizes(7, min=(0, 0, 0, 0, 1, 0, 1), max=7))
    x = draw(arrays((batch, t_q, d_model), extreme=extreme, large=LARGE**0.5))
    kind = draw(st.sampled_from(("self", "memory", "memory is x")))
    causal = draw(st.sampled_from((False, False, True)))
    t_k = t_k if kind == "memory" and not causal else t_q
    memory = {"self": None, "memory is x": x}[kind] if kind != "memory" else draw(arrays((batch, t_k, d_model)))
    width = n_heads * (2 * d_k + d_v)
    w_in, w_out = draw(arrays((d_model, width), low=-1, high=1)), draw(arrays((n_heads * d_v, d_model)))
    b_in = draw(arrays((width,))) if draw(st.booleans()) else None
    b_out = draw(arrays((d_model,))) if draw(st.booleans()) else None
    mask = draw(masks((batch, n_heads, t_q, t_k)))
    options = {"n_heads": n_heads, "causal": causal, "block_size": draw(BLOCK_SIZES)}
    return Example((x, memory, w_in, w_out, b_in, b_out, mask), options)


@_for_operation
def layer_norm(draw: st.DrawFn, extreme: bool = False) -> Example:
    """Draw inputs, gain and bias, sometimes rows of equal features."""
    n = 1 + draw(_leading())
    shape = draw(sizes(n, min=(0,) * (n - 1) + (1,)))
    x = draw(arrays(shape, extreme=extreme))
    options = {"eps": draw(st.sampled_from((1e-5, 1e-3)))} if draw(st.booleans()) else {}
    if draw(st.sampled_from((False, False, False, True))):
        # Around equal features the function bends within sqrt(eps), so a larger eps is one that can be measured.
        x, options = np.broadcast_to(x[..., :1], shape).copy(), {"eps": 0.1}
    return Example((x, draw(arrays(shape[-1:])), draw(arrays(shape[-1:]))), options)


@_for_operation
def feed_forward(draw: st.DrawFn, extreme: bool = False) -> Example:
    """Draw inputs and parameters such that no hidden value is near the kink of the ReLU."""
    *batch, d_in, d_ff, d_out = draw(sizes(3 + draw(_leading(1)), max=5))
    x = draw(arrays((*batch, d_in), extreme=extreme))
    w1, w2 = draw(arrays((d_in, d_ff))), draw(arrays((d_ff, d_out)))
    inside = (x.reshape(int(np.prod(batch)), d_in) @ w1).T  # (F, rows)
    b1 = np.array([-_in_the_widest_gap(values) for values in inside])
    return Example((x, w1, b1, w2, draw(arrays((d_out,)))), {})


def _in_the_widest_gap(values: Array) -> float:
    """Return the middle of the widest gap between numbers, or a little beyond them if they are equal."""
    ordered = np.sort(values)
    if not ordered.size:
        return 0.5
    ordered = np.append(ordered, ordered[-1] + 0.5)
    widest = int(np.argmax(np.diff(ordered)))
    return float(ordered[widest : widest + 2].mean())


@_for_operation
def embedding(draw: st.DrawFn, extreme: bool = False) -> Example:
    """Draw ids, often repeated, and a table.

    With ``extreme``, the table may hold ±1e4.
    """
    *shape, n_tokens, d_model = draw(sizes(2 + draw(_leading())))
    if not n_tokens and not shape:
        shape = [0]  # one id needs one token
    n_tokens = n_tokens or int(np.prod(shape) > 0)
    table = draw(arrays((n_tokens, d_model), extreme=extreme))
    return Example((draw(ids(shape, n_tokens)), table), {})


@_for_operation
def dropout(draw: st.DrawFn, extreme: bool = False) -> Example:
    """Draw inputs, a probability (0 among them) and a seeded generator."""
    shape = draw(sizes(draw(st.integers(0, 3))))
    x = draw(arrays(shape, extreme=extreme))
    residual = draw(arrays(shape, extreme=extreme)) if draw(st.booleans()) else None
    p = draw(st.sampled_from((0.0, 0.1, 0.5, 0.9)))
    return Example((x, p, draw(generators()), residual), {})


@_for_operation
def cross_entropy(draw: st.DrawFn, extreme: bool = False) -> Example:
    """Draw logits and targets, with and without smoothing and ignored targets; sometimes all are ignored."""
    leading = draw(_leading())
    *shape, n_tokens = draw(sizes(1 + leading, min=(0,) * leading + (1,)))
    targets = draw(ids(shape, n_tokens))
    options: dict[str, Any] = {}
    if draw(st.booleans()):
        options["label_smoothing"] = draw(st.sampled_from((0.1, 0.5, 1.0)))
    ignore = draw(st.sampled_from((None, 0, -100)))
    if ignore is not None:
        options["ignore_index"] = ignore
        share = draw(st.sampled_from((0.0, 0.3, 1.0)))
        targets = np.where(draw(generators()).random(tuple(shape)) < share, ignore, targets)
    logits = draw(arrays((*shape, n_tokens), extreme=extreme))
    return Example((logits, targets), options)


@_for_operation
def recurrence(draw: st.DrawFn, extreme: bool = False) -> Example:
    """Draw inputs and parameters, and states to begin with or none.

    With ``extreme``, inputs may be ±1e2, where the tanh has no slope left.
    """
    batch, length, d_in, d_state = draw(sizes(4, max=5))
    x = draw(arrays((batch, length, d_in), extreme=extreme, large=LARGE**0.5))
    w, u = draw(arrays((d_in, d_state), low=-1, high=1)), draw(arrays((d_state, d_state), low=-1, high=1))
    h0 = draw(arrays((batch, d_state))) if draw(st.booleans()) else None
    return Example((x, w, u, draw(arrays((d_state,))), h0), {})


@_for_operation
def convolution(draw: st.DrawFn, extreme: bool = False) -> Example:
    """Draw inputs, a kernel, often longer than the sentence, a bias or none, causal or not, and a dilation."""
    batch, length, d_in, d_out = draw(sizes(4, max=7))
    causal = draw(st.booleans())
    size = draw(st.integers(1, 4)) if causal else draw(st.sampled_from((1, 3, 5)))
    x = draw(arrays((batch, length, d_in), extreme=extreme))
    bias = draw(arrays((d_out,))) if draw(st.booleans()) else None
    options = {"causal": causal, "dilation": draw(st.integers(1, 3))}
    return Example((x, draw(arrays((size, d_in, d_out))), bias), options)


@_for_operation
def local_attention(draw: st.DrawFn, extreme: bool = False) -> Example:
    """Draw queries, keys, values, a mask over keys or none, how far a query sees, and causal or not.

    With ``extreme``, queries may be ±1e4, which makes scores as large.
    """
    leading = draw(_leading())
    *batch, length, d_k, d_v = draw(sizes(leading + 3, min=(0,) * (leading + 1) + (1, 0), max=9))
    q = draw(arrays((*batch, length, d_k), extreme=extreme))
    k, v = draw(arrays((*batch, length, d_k))), draw(arrays((*batch, length, d_v)))
    mask = None
    if draw(st.booleans()):
        kept = [n if draw(st.booleans()) else 1 for n in (*batch, length)]
        mask = draw(generators()).random(kept[draw(st.integers(0, leading)) :]) < draw(st.sampled_from((0.0, 0.4, 0.8)))
    options = {"radius": draw(st.integers(0, 10)), "causal": draw(st.booleans())}
    return Example((q, k, v, mask), options)


@_for_operation
def additive_attention(draw: st.DrawFn, extreme: bool = False) -> Example:
    """Draw queries, keys, values, the parameters of the scores, and a mask.

    With ``extreme``, queries may be ±1e2, where the tanh has no slope left.
    """
    *batch, t_q, t_k, d_q, d_k, d_v, d_hidden = draw(sizes(6 + draw(_leading(1)), max=7))
    q = draw(arrays((*batch, t_q, d_q), extreme=extreme, large=LARGE**0.5))
    k, v = draw(arrays((*batch, t_k, d_k))), draw(arrays((*batch, t_k, d_v)))
    w_q, w_k = draw(arrays((d_q, d_hidden), low=-1, high=1)), draw(arrays((d_k, d_hidden), low=-1, high=1))
    b, w_s = draw(arrays((d_hidden,))), draw(arrays((d_hidden,)))
    mask = draw(masks((*batch, t_q, t_k)))
    return Example((q, k, v, w_q, w_k, b, w_s, mask), {})


__all__ = ["Example", "arrays", "cotangents", "generators", "ids", "inputs", "masks", "sizes", *STRATEGIES]
