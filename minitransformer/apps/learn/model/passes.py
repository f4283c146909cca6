"""Forward and backward passes that call the functions of exercises, in place of the engine's.

Each takes ``f``, which maps the names of exercises to functions, and then the arguments and saved values of the
engine's pass, so one may be the learner's and the other the engine's. What an exercise asks for is called as its text
says; everything else here is bookkeeping: shapes, types, and the order of arguments. ``needs`` is
ignored: an exercise computes all gradients.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from minitransformer import nn, ops
from minitransformer.arrays import Array, as_optional_mask
from minitransformer.autograd import RULES, Tensor, tensor
from minitransformer.nn import Residual, scale_and_place
from minitransformer.ops.cross_entropy import read_targets
from minitransformer.ops.dropout import draw
from minitransformer.ops.grouped_query_attention import sum_groups
from minitransformer.ops.heads import Sizes
from minitransformer.ops.multi_head_attention import check as check_heads
from minitransformer.ops.positions import sinusoidal_positions
from minitransformer.ops.rotary import PAPER, Rotation

# The engine's own, also while it is overridden.
residual_call = Residual.__call__

Functions = Mapping[str, Callable[..., Any]]
Place = tuple[Any, str]
"""An operation, rule, class or module, and the name of what is overridden in it."""
Override = tuple[Callable[..., Any] | tuple[Callable[..., Any], ...], tuple[str, ...]]
"""Functions that take ``f`` before the arguments of the engine's, and the exercises whose functions they call."""


def module_of(function: Callable[..., Any]) -> Any:
    """Return the module that defines a function, also where its package has an operation of the module's name."""
    return sys.modules[function.__module__]


def like(found: Any, other: Array, shape: tuple[int, ...] | None = None) -> Array:
    """Return a result in the type of another array and, if it can be, in a shape."""
    return np.asarray(found, dtype=other.dtype).reshape(other.shape if shape is None else shape)


def repeated(f: Functions, d: Array, shape: tuple[int, ...]) -> Array:
    """Return the gradient of what broadcasting has repeated."""
    return like(f["unbroadcast"](d, shape), d, shape)


def transposed(f: Functions, d: Array, axes: tuple[int, ...]) -> Array:
    """Return the gradient of a transposed array."""
    x = np.empty(d.transpose(np.argsort(axes)).shape)
    return like(f["transpose-and-reshape"](x, axes, d), d, x.shape)


def added(i: int, f: Functions, d: Array) -> Array:
    """Return the gradient of one side of a sum."""
    return like(f["add-with-broadcasting"](np.zeros_like(d), np.zeros_like(d), d)[i], d)


def multiplied(i: int, f: Functions, d: Array, x: Array, y: Array) -> Any:
    """Return the gradient of one side of a product."""
    return f["product-rule"](x, y, d)[i]


def embedding(f: Functions, saved: Any, d_y: Array) -> tuple[None, Array]:
    """Return the gradient of a table of embeddings."""
    ids, shape = saved
    flat, d_rows = ids.reshape(-1), d_y.reshape(-1, d_y.shape[-1])
    return None, like(f["repeated-ids"](flat, shape[0], d_rows), d_y, shape)


def positions(f: Functions, length: int, d_model: int, dtype: Any = "float64", *layout: Any) -> Array:
    """Return sinusoidal positions."""
    if d_model % 2 or layout not in ((), ("interleaved", "d_model", 0)):  # the exercise is the paper's, with an even D
        return sinusoidal_positions(length, d_model, dtype, *layout)
    return np.asarray(f["sinusoidal-positions"](length, d_model), dtype=dtype)


def scale(f: Functions, rows: Any, positions: Any) -> Any:
    """Return an embedding's rows times sqrt(D), plus positions."""
    if not isinstance(rows, Tensor):
        return like(f["embedding-scale"](rows, positions), rows)
    try:
        return f["embedding-scale"](rows, positions)
    except TypeError:  # functions of NumPy take arrays only, as the exercise does: the graph is the engine's then
        y = scale_and_place(rows, positions)
        y.data = scale(f, rows.data, positions.data if isinstance(positions, Tensor) else positions)
        return y


def padding(f: Functions, ids: Any, pad: int = 0) -> Array:
    """Return the mask that hides padding."""
    ids = np.asarray(ids.data if isinstance(ids, Tensor) else ids)
    return np.asarray(f["padding-mask"](ids))


def linear(f: Functions, saved: Any, d_y: Array, needs: Any = ()) -> tuple[Array, Array, Array | None]:
    """Return the gradients of the last linear layer."""
    x, weight, has_bias = saved
    d_x, d_weight, d_bias = f["linear-backward"](x, weight, d_y)
    return like(d_x, x), like(d_weight, weight), like(d_bias, x, weight.shape[1:]) if has_bias else None


def softmax(
    f: Functions, x: Array, axis: int = -1, mask: Array | None = None, out: Array | None = None
) -> tuple[Array, Any]:
    """Return weights from scores, with a mask and without."""
    mask = as_optional_mask(mask, x.shape, "softmax")
    if mask is None:
        found = f["softmax-of-large-scores"](x)
    else:
        found = f["a-row-that-sees-nothing"](x, np.broadcast_to(mask, x.shape))
    y = like(found, x)
    if out is not None:
        out[...] = y
        y = out
    return y, (y, axis)


def softmax_backward(f: Functions, saved: Any, d_y: Array) -> tuple[Array]:
    """Return the gradient of the scores."""
    y, _ = saved
    return (like(f["softmax-backward"](y, d_y), y),)


def attention(
    f: Functions,
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None = None,
    causal: bool = False,
    block_size: int | None = None,
    out: Array | None = None,
    bias: Array | None = None,
) -> tuple[Array, Any]:
    """Return the output of attention, from scores and weights."""
    scores = like(f["scaled-scores"](q, k), q, (*q.shape[:-1], k.shape[-2]))
    scores = scores if bias is None else scores + bias
    if causal:
        seen = np.asarray(f["causal-mask"](q.shape[-2]))
        mask = seen if mask is None else mask & seen
    weights, _ = ops.softmax.forward(scores, mask=mask)
    y = weights @ v
    if out is not None:
        out[...] = y
        y = out
    return y, (q, k, v, None, weights)


def attention_backward(
    f: Functions, saved: Any, d_y: Array, out: tuple[Array | None, ...] = (None, None, None)
) -> tuple[Array, ...]:
    """Return the gradients of the three lines of attention, in reverse order."""
    q, k, v, blocks, weights = saved
    if blocks is not None:  # the weights of several blocks were not kept
        mask, causal, _, bias = blocks
        weights = ops.scaled_dot_product_attention.forward(q, k, v, mask, causal, bias=bias)[1][-1]
    d_weights, d_v = f["weights-and-values-backward"](weights, v, d_y)
    (d_scores,) = ops.softmax.backward((weights, -1), like(d_weights, weights))
    d_q, d_k = f["queries-and-keys-backward"](q, k, d_scores)
    gradients = tuple(like(d, x) for d, x in ((d_q, q), (d_k, k), (d_v, v)))
    for place, gradient in zip(out, gradients, strict=True):
        if place is not None:
            place[...] = gradient
    return gradients


def _projections(x: Array, memory: Array | None, sizes: Sizes) -> list[tuple[Array, slice]]:
    """Return what queries, keys and values are made of: an input, and columns of w_in."""
    source, first, last = x if memory is None else memory, sizes.queries, sizes.queries + sizes.keys
    return [(x, slice(0, first)), (source, slice(first, last)), (source, slice(last, None))]


def multi_head_attention(
    f: Functions,
    x: Array,
    memory: Array | None,
    w_in: Array,
    w_out: Array,
    b_in: Array | None = None,
    b_out: Array | None = None,
    mask: Array | None = None,
    n_heads: int = 8,
    causal: bool = False,
    block_size: int | None = None,
    cache: Any = None,
) -> tuple[Array, Any]:
    """Return the output of projections, heads side by side, and the output projection."""
    sizes = check_heads(x, memory, w_in, w_out, b_in, b_out, n_heads)
    heads = []
    known = memory is not None and cache is not None and cache.keys is not None
    for source, part in _projections(x, memory, sizes)[: 1 if known else 3]:
        projected = source @ w_in[:, part] + (0 if b_in is None else b_in[part])
        shape = (len(source), n_heads, source.shape[1], projected.shape[-1] // n_heads)
        heads.append(like(f["split-heads"](projected, n_heads), x, shape))
    if cache is not None:
        heads[1:] = cache.extend(*heads[1:] or (None, None))
    o, saved = ops.scaled_dot_product_attention.forward(*heads, mask, causal, block_size)
    concat = like(f["merge-heads"](o), x, (*x.shape[:2], w_out.shape[0]))
    y = concat @ w_out + (0 if b_out is None else b_out)
    return y, (x, memory, w_in, b_in is not None, sizes, (concat, w_out, b_out is not None), saved)


def multi_head_backward(f: Functions, saved: Any, d_y: Array, needs: Any = ()) -> tuple[Array | None, ...]:
    """Return the gradients of the projections and the heads."""
    x, memory, w_in, has_b_in, sizes, (concat, w_out, has_b_out), saved_attention = saved
    product = f["one-weight-for-a-batch"]
    d_concat, d_w_out = product(concat, w_out, d_y)
    shape = (*x.shape[:2], sizes.n_heads, w_out.shape[0] // sizes.n_heads)
    d_heads = like(d_concat, x, shape).swapaxes(1, 2)
    d_projected = [
        like(f["merge-heads"](d), x, (len(d), d.shape[2], d.shape[1] * d.shape[3]))
        for d in ops.scaled_dot_product_attention.backward(saved_attention, d_heads)
    ]
    projections = _projections(x, memory, sizes)
    back = [product(source, w_in[:, part], d) for (source, part), d in zip(projections, d_projected, strict=True)]
    d_w_in = np.concatenate(
        [like(d_w, x, w_in[:, part].shape) for (_, d_w), (_, part) in zip(back, projections, strict=True)], axis=1
    )
    if memory is None:
        rows = [d.reshape(-1, d.shape[-1]) for d in d_projected]
        d_x = like(f["self-attention-backward"](*(w_in[:, part] for _, part in projections), *rows), x)
        d_memory = None
    else:
        d_x, d_memory = like(back[0][0], x), like(back[1][0] + back[2][0], memory)
    d_b_in = np.concatenate([d.sum(axis=(0, 1)) for d in d_projected]) if has_b_in else None
    d_b_out = d_y.sum(axis=(0, 1)) if has_b_out else None
    return d_x, d_memory, d_w_in, like(d_w_out, w_out), d_b_in, d_b_out


def layer_norm(f: Functions, x: Array, gain: Array, bias: Array, eps: float = 1e-5) -> tuple[Array, Any]:
    """Return features with mean 0 and variance 1, then gain and bias."""
    y = like(f["layer-norm-forward"](x, gain, bias, eps), x)
    x_hat = like(f["layer-norm-forward"](x, np.ones_like(gain), np.zeros_like(bias), eps), x)
    rstd = 1 / np.sqrt(x.var(axis=-1, keepdims=True) + eps)
    return y, (x_hat, rstd, gain)


def layer_norm_backward(f: Functions, saved: Any, d_y: Array) -> tuple[Array, Array, Array]:
    """Return the gradients of features, gain and bias."""
    x_hat, rstd, gain = saved
    shape = (1,) * (3 - x_hat.ndim) + x_hat.shape
    d_gain, d_bias = f["gain-and-bias-gradients"](x_hat.reshape(shape), d_y.reshape(shape))
    d_x = f["layer-norm-backward"](x_hat, rstd, gain, d_y)
    return like(d_x, x_hat), like(d_gain, gain), like(d_bias, gain)


def rms_norm(f: Functions, x: Array, gain: Array, eps: float = 1e-5) -> tuple[Array, Any]:
    """Return features with mean square 1, then the gain."""
    y = like(f["rms-norm-forward"](x, gain, eps), x)
    x_hat = like(f["rms-norm-forward"](x, np.ones_like(gain), eps), x)
    rrms = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
    return y, (x_hat, rrms, gain)


def rms_norm_backward(f: Functions, saved: Any, d_y: Array) -> tuple[Array, Array]:
    """Return the gradients of features and gain."""
    x_hat, rrms, gain = saved
    d_x, d_gain = f["rms-norm-backward"](x_hat, rrms, gain, d_y)
    return like(d_x, x_hat), like(d_gain, gain)


def feed_forward(f: Functions, saved: Any, d_y: Array, needs: Any = ()) -> tuple[Array, ...]:
    """Return the gradients of two linear layers with a ReLU between them."""
    x, hidden, w1, w2 = saved
    d_x, d_w1, d_b1, d_w2, d_b2 = f["feed-forward-backward"](x, hidden, w1, w2, d_y)
    return (
        like(d_x, x), like(d_w1, w1), like(d_b1, w1, w1.shape[1:]), like(d_w2, w2), like(d_b2, w2, w2.shape[1:])
    )  # fmt: skip


def gates(f: Functions, saved: Any, d_y: Array) -> tuple[Array]:
    """Return the gradient of SwiGLU."""
    b, z, u = saved
    a = np.divide(u, z, out=np.full_like(u, -80), where=z > 0)  # u = a z; where z is 0, a was even lower
    x = np.concatenate((a, b), axis=-1)
    return (like(f["swiglu-backward"](x, d_y), x),)


def rotary(
    f: Functions, x: Array, first: int = 0, out: Array | None = None, rotation: Rotation = PAPER
) -> tuple[Array, Any]:
    """Return queries or keys, turned by their positions; other pairs and frequencies are the engine's."""
    if rotation != PAPER:
        return ops.rotary.written.forward(x, first, out, rotation)
    _, saved = ops.rotary.written.forward(x, first)  # for the cosines and sines
    y = like(f["rotary-forward"](x, np.arange(first, first + x.shape[-2])), x)
    if out is not None:
        out[...] = y
        y = out
    return y, saved


def rotary_backward(f: Functions, saved: Any, d_y: Array, out: tuple[Array | None] = (None,)) -> tuple[Array]:
    """Return the gradient of what was turned."""
    cos, sin, layout = saved
    if layout != PAPER.layout:
        return ops.rotary.written.backward(saved, d_y, out)
    d_x = like(f["rotary-backward"](cos, sin, d_y), d_y)
    if out[0] is not None:
        out[0][...] = d_x
        d_x = out[0]
    return (d_x,)


def grouped_heads(f: Functions, d_k_heads: Array, d_v_heads: Array, n_kv_heads: int) -> tuple[Array, Array]:
    """Return the gradients of keys and values that several heads share."""
    # The gradient of the queries stays as it is; that of the keys stands in for it.
    _, d_k, d_v = f["grouped-heads-backward"](d_k_heads, d_k_heads, d_v_heads, n_kv_heads)
    size = len(d_k_heads), n_kv_heads
    return like(d_k, d_k_heads, (*size, *d_k_heads.shape[2:])), like(d_v, d_v_heads, (*size, *d_v_heads.shape[2:]))


def dropout(f: Functions, x: Array, p: float, rng: Any, residual: Array | None = None) -> tuple[Array, Any]:
    """Return x with entries dropped and the others scaled up; the random numbers are the engine's."""
    keep, factor = draw(x, p, rng)
    y = like(f["dropout-forward"](x, keep, 1 - 1 / factor), x)
    return y if residual is None else y + residual, (keep, factor, residual is not None)


def dropout_backward(f: Functions, saved: Any, d_y: Array) -> tuple[Array | None, ...]:
    """Return the gradient of what was dropped and of what was kept."""
    keep, factor, has_residual = saved
    d_x = like(f["dropout-backward"](keep, 1 - 1 / factor, d_y), d_y)
    return d_x, None, None, d_y.copy() if has_residual else None


def residual(f: Functions, self: Residual, x: Tensor, sublayer: Callable[[Tensor], Tensor], rng: Any = None) -> Tensor:
    """Return the output of the code around a sub-layer; post-norm only."""
    p = self.options.dropout
    if self.options.norm != "post":
        return residual_call(self, x, sublayer, rng)
    inner = sublayer if rng is None or not p else lambda y: ops.dropout(sublayer(y), p, rng)
    surrounded: Tensor = f["residual-connection"](x, inner, self.layer_norm)
    return surrounded if isinstance(x, Tensor) else like(surrounded, x)  # a step of decoding computes on arrays


def cross_entropy(
    f: Functions, logits: Array, targets: Array, label_smoothing: float = 0.0, ignore_index: int | None = None
) -> tuple[Array, Any]:
    """Return the loss of the rows that count, against smoothed targets."""
    targets, counts, n_counted = read_targets(logits, targets, label_smoothing, ignore_index)
    x = logits.reshape(-1, logits.shape[-1])
    p, _ = ops.softmax.forward(x)
    loss = np.zeros((), dtype=x.dtype)
    if n_counted:
        q = f["smoothed-targets"](targets[counts], x.shape[1], label_smoothing)
        loss = like(f["cross-entropy-forward"](x[counts], like(q, x, (n_counted, x.shape[1]))), loss)
    return loss, (p, targets, counts, n_counted, label_smoothing, logits.shape)


def cross_entropy_backward(f: Functions, saved: Any, d_loss: Array) -> tuple[Array, None]:
    """Return the gradient of the logits: 0 in the rows that do not count."""
    p, targets, counts, n_counted, label_smoothing, shape = saved
    d_x = np.zeros_like(p)
    if n_counted:
        q = like(f["smoothed-targets"](targets[counts], shape[-1], label_smoothing), p, (n_counted, shape[-1]))
        with np.errstate(divide="ignore"):
            logits = np.log(p[counts])  # up to a number for each row, which the softmax does not see
        d_x[counts] = f["label-smoothing-backward"](logits, q, d_loss)
    return d_x.reshape(shape), None


PASSES: dict[Place, Override] = {
    (tensor, "unbroadcast"): (repeated, ("unbroadcast",)),
    (RULES["transpose"], "gradients"): ((transposed,), ("transpose-and-reshape",)),
    (RULES["add"], "gradients"): ((partial(added, 0), partial(added, 1)), ("add-with-broadcasting",)),
    (RULES["multiply"], "gradients"): ((partial(multiplied, 0), partial(multiplied, 1)), ("product-rule",)),
    (ops.embedding, "backward"): (embedding, ("repeated-ids",)),
    (ops, "sinusoidal_positions"): (positions, ("sinusoidal-positions",)),
    (nn.embedding, "scale_and_place"): (scale, ("embedding-scale",)),
    (ops, "padding_mask"): (padding, ("padding-mask",)),
    (ops.linear, "backward"): (linear, ("linear-backward",)),
    (ops.softmax, "forward"): (softmax, ("softmax-of-large-scores", "a-row-that-sees-nothing")),
    (ops.softmax, "backward"): (softmax_backward, ("softmax-backward",)),
    (ops.scaled_dot_product_attention, "forward"): (attention, ("scaled-scores", "causal-mask")),
    (ops.scaled_dot_product_attention, "backward"): (
        attention_backward,
        ("weights-and-values-backward", "queries-and-keys-backward"),
    ),
    (ops.multi_head_attention, "forward"): (multi_head_attention, ("split-heads", "merge-heads")),
    (ops.multi_head_attention, "backward"): (
        multi_head_backward,
        ("one-weight-for-a-batch", "self-attention-backward", "merge-heads"),
    ),
    (ops.layer_norm, "forward"): (layer_norm, ("layer-norm-forward",)),
    (ops.layer_norm, "backward"): (layer_norm_backward, ("gain-and-bias-gradients", "layer-norm-backward")),
    (ops.rms_norm, "forward"): (rms_norm, ("rms-norm-forward",)),
    (ops.rms_norm, "backward"): (rms_norm_backward, ("rms-norm-backward",)),
    (ops.feed_forward, "backward"): (feed_forward, ("feed-forward-backward",)),
    (ops.swiglu, "backward"): (gates, ("swiglu-backward",)),
    (ops.rotary, "forward"): (rotary, ("rotary-forward",)),
    (ops.rotary, "backward"): (rotary_backward, ("rotary-backward",)),
    (module_of(sum_groups), "sum_groups"): (grouped_heads, ("grouped-heads-backward",)),
    (ops.dropout, "forward"): (dropout, ("dropout-forward",)),
    (ops.dropout, "backward"): (dropout_backward, ("dropout-backward",)),
    (Residual, "__call__"): (residual, ("residual-connection",)),
    (ops.cross_entropy, "forward"): (cross_entropy, ("cross-entropy-forward", "smoothed-targets")),
    (ops.cross_entropy, "backward"): (cross_entropy_backward, ("label-smoothing-backward", "smoothed-targets")),
}
"""What is overridden, by owner and name; by what, and the exercises whose functions that calls."""
