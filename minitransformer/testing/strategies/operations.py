"""Inputs and options for this package's operations; ``inputs`` documents the parameter ``extreme`` of each strategy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec

import numpy as np
from hypothesis import strategies as st

from minitransformer.arrays import Array
from minitransformer.ops.rotary import Rotation
from minitransformer.testing.examples import Example
from minitransformer.testing.strategies.parts import LARGE, MASKS, arrays, generators, ids, leading_axes, masks, sizes

BLOCK_SIZES = st.one_of(st.none(), st.integers(1, 9))
"""How many queries are processed at a time: all, or from one to more than exist."""
ROTATIONS = (Rotation("halves", 500.0), Rotation("interleaved", 50.0, 4.0, 0.5, 6.0, 40.0))
"""Pairs and frequencies other than the paper's."""
STRATEGIES: dict[str, Callable[..., st.SearchStrategy[Example]]] = {}
"""By name: for operations that take more than floating-point arrays, or not every size or value of them."""

Arguments = ParamSpec("Arguments")


def _for_operation(
    function: Callable[Concatenate[st.DrawFn, Arguments], Example],
) -> Callable[Arguments, st.SearchStrategy[Example]]:
    """Register a function as the strategy for the operation of the same name."""
    STRATEGIES[function.__name__] = strategy = st.composite(function)
    return strategy


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
    shape = draw(sizes(2 + draw(leading_axes()), max=5))
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
    leading = draw(leading_axes())
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
def grouped_query_attention(draw: st.DrawFn, extreme: bool = False) -> Example:
    """Draw inputs and parameters of self-attention or attention to a memory, with heads that share keys and values.

    Self-attention may have rotated queries and keys; both may have a bias, or work in blocks of queries. With
    ``extreme``, inputs may be ±1e2.
    """
    batch, t_q, t_k, d_model, pairs, d_v, n_kv = draw(sizes(7, min=(0, 0, 0, 0, 1, 0, 1), max=5))
    n_heads, d_k = n_kv * draw(st.integers(1, 3)), 2 * pairs
    x = draw(arrays((batch, t_q, d_model), extreme=extreme, large=LARGE**0.5))
    own = draw(st.booleans())
    t_k = t_q if own else t_k
    memory = None if own else draw(arrays((batch, t_k, d_model)))
    width = n_heads * d_k + n_kv * (d_k + d_v)
    w_in, w_out = draw(arrays((d_model, width), low=-1, high=1)), draw(arrays((n_heads * d_v, d_model)))
    b_in = draw(arrays((width,))) if draw(st.booleans()) else None
    b_out = draw(arrays((d_model,))) if draw(st.booleans()) else None
    options: dict[str, Any] = {"n_heads": n_heads, "n_kv_heads": n_kv, "block_size": draw(BLOCK_SIZES)}
    if own:
        options |= {"causal": draw(st.booleans()), "rotate": draw(st.sampled_from((False, True, *ROTATIONS)))}
    if draw(st.booleans()):
        options["bias"] = draw(arrays((n_heads, t_q, t_k)))
    return Example((x, memory, w_in, w_out, b_in, b_out, draw(masks((batch, n_heads, t_q, t_k)))), options)


@_for_operation
def layer_norm(draw: st.DrawFn, extreme: bool = False) -> Example:
    """Draw inputs, gain and bias, sometimes rows of equal features."""
    n = 1 + draw(leading_axes())
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
    *batch, d_in, d_ff, d_out = draw(sizes(3 + draw(leading_axes(1)), max=5))
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
    *shape, n_tokens, d_model = draw(sizes(2 + draw(leading_axes())))
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
    leading = draw(leading_axes())
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
def silu(draw: st.DrawFn, extreme: bool = False) -> Example:
    """Draw inputs of any shape, and β or its default."""
    x = draw(arrays(draw(sizes(draw(leading_axes()))), extreme=extreme))
    return Example((x,), {"beta": draw(st.sampled_from((0.5, 1.702)))} if draw(st.booleans()) else {})


@_for_operation
def rms_norm(draw: st.DrawFn, extreme: bool = False) -> Example:
    """Draw inputs and a gain, sometimes rows of zeros, and ε or its default."""
    n = 1 + draw(leading_axes())
    shape = draw(sizes(n, min=(0,) * (n - 1) + (1,)))
    x = draw(arrays(shape, extreme=extreme))
    options = {"eps": draw(st.sampled_from((1e-5, 1e-3)))} if draw(st.booleans()) else {}
    if draw(st.sampled_from((False, False, False, True))):
        # Around 0 the function bends within sqrt(eps), so a larger eps is one that can be measured.
        x, options = x * (draw(generators()).random((*shape[:-1], 1)) < 0.5), {"eps": 0.1}
    return Example((x, draw(arrays(shape[-1:]))), options)


@_for_operation
def swiglu(draw: st.DrawFn, extreme: bool = False) -> Example:
    """Draw gates and values, side by side."""
    *batch, d_ff = draw(sizes(1 + draw(leading_axes())))
    return Example((draw(arrays((*batch, 2 * d_ff), extreme=extreme)),), {})


@_for_operation
def rotary(draw: st.DrawFn, extreme: bool = False) -> Example:
    """Draw queries or keys, and the position of the first."""
    *batch, length, pairs = draw(sizes(2 + draw(leading_axes())))
    x = draw(arrays((*batch, length, 2 * pairs), extreme=extreme))
    options: dict[str, Any] = {"first": draw(st.sampled_from((1, 7, 1000)))} if draw(st.booleans()) else {}
    if draw(st.booleans()):
        options["rotation"] = draw(st.sampled_from(ROTATIONS))
    return Example((x,), options)


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
    leading = draw(leading_axes())
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
    *batch, t_q, t_k, d_q, d_k, d_v, d_hidden = draw(sizes(6 + draw(leading_axes(1)), max=7))
    q = draw(arrays((*batch, t_q, d_q), extreme=extreme, large=LARGE**0.5))
    k, v = draw(arrays((*batch, t_k, d_k))), draw(arrays((*batch, t_k, d_v)))
    w_q, w_k = draw(arrays((d_q, d_hidden), low=-1, high=1)), draw(arrays((d_k, d_hidden), low=-1, high=1))
    b, w_s = draw(arrays((d_hidden,))), draw(arrays((d_hidden,)))
    mask = draw(masks((*batch, t_q, t_k)))
    return Example((q, k, v, w_q, w_k, b, w_s, mask), {})


__all__ = [*STRATEGIES]
