"""Forward and backward passes that call the functions of exercises, as stand-ins for the engine's.

Each has the arguments and saved values of the engine's pass, so one may be the learner's and the other the engine's.
``f`` maps the names of exercises to functions. What an exercise asks for is called as its text says; everything else
here is bookkeeping: shapes, types, and the order of arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.arrays import Array, as_optional_mask
from minitransformer.autograd import RULES, Tensor, unbroadcast
from minitransformer.nn import Residual, scale_and_place
from minitransformer.ops.cross_entropy import read_targets
from minitransformer.ops.dropout import draw
from minitransformer.ops.grouped_query_attention import sum_groups
from minitransformer.ops.heads import Sizes
from minitransformer.ops.multi_head_attention import check as check_heads
from minitransformer.stand_ins import reference

Functions = Mapping[str, Callable[..., Any]]
StandIns = dict[Callable[..., Any], Callable[..., Any]]


def like(found: Any, other: Array, shape: tuple[int, ...] | None = None) -> Array:
    """Return a result in the type of another array and, if it can be, in a shape."""
    return np.asarray(found, dtype=other.dtype).reshape(other.shape if shape is None else shape)


def elementary_rules(f: Functions) -> StandIns:
    """Make stand-ins for sums, products and transpositions, backwards."""
    gradients: dict[str, list[Any]] = {name: list(RULES[name].gradients) for name in ("add", "multiply", "transpose")}

    def transposed(d: Array, axes: tuple[int, ...]) -> Array:
        x = np.empty(d.transpose(np.argsort(axes)).shape)
        return like(f["transpose-and-reshape"](x, axes, d), d, x.shape)

    others: StandIns = {
        unbroadcast: lambda d, shape: like(f["unbroadcast"](d, shape), d, shape),
        gradients["transpose"][0]: transposed,
    }
    for i, rule in enumerate(gradients["add"]):
        others[rule] = lambda d, i=i: like(f["add-with-broadcasting"](np.zeros_like(d), np.zeros_like(d), d)[i], d)
    for i, rule in enumerate(gradients["multiply"]):
        others[rule] = lambda d, x, y, i=i: f["product-rule"](x, y, d)[i]
    return others


def embedding(f: Functions) -> StandIns:
    """Make stand-ins for the gradient of a table of embeddings."""

    def backward(saved: Any, d_y: Array) -> tuple[None, Array]:
        ids, shape = saved
        flat, d_rows = ids.reshape(-1), d_y.reshape(-1, d_y.shape[-1])
        return None, like(f["repeated-ids"](flat, shape[0], d_rows), d_y, shape)

    return {ops.embedding.backward: backward}


def positions(f: Functions) -> StandIns:
    """Make stand-ins for sinusoidal positions."""

    def waves(length: int, d_model: int, dtype: Any = "float64", *layout: Any) -> Array:
        if layout and layout != ("interleaved", "d_model", 0):  # the exercise is the paper's
            return reference(ops.sinusoidal_positions)(length, d_model, dtype, *layout)
        return np.asarray(f["sinusoidal-positions"](length, d_model), dtype=dtype)

    return {ops.sinusoidal_positions: waves}


def scale(f: Functions) -> StandIns:
    """Make stand-ins for an embedding's rows times sqrt(D), plus positions."""

    def placed(rows: Any, positions: Any) -> Any:
        if not isinstance(rows, Tensor):
            return like(f["embedding-scale"](rows, positions), rows)
        try:
            return f["embedding-scale"](rows, positions)
        except TypeError:  # functions of NumPy take arrays only, as the exercise does: the graph is the engine's then
            y = reference(scale_and_place)(rows, positions)
            y.data = placed(rows.data, positions.data if isinstance(positions, Tensor) else positions)
            return y

    return {scale_and_place: placed}


def padding(f: Functions) -> StandIns:
    """Make stand-ins for the mask that hides padding."""

    def mask(ids: Any, pad: int = 0) -> Array:
        ids = np.asarray(ids.data if isinstance(ids, Tensor) else ids)
        return np.asarray(f["padding-mask"](ids))

    return {ops.padding_mask: mask}


def linear(f: Functions) -> StandIns:
    """Make stand-ins for the last linear layer, backwards."""

    def backward(saved: Any, d_y: Array) -> tuple[Array, Array, Array | None]:
        x, weight, has_bias = saved
        d_x, d_weight, d_bias = f["linear-backward"](x, weight, d_y)
        return like(d_x, x), like(d_weight, weight), like(d_bias, x, weight.shape[1:]) if has_bias else None

    return {ops.linear.backward: backward}


def softmax(f: Functions) -> StandIns:
    """Make stand-ins for weights from scores, with a mask and without, and backwards."""

    def forward(x: Array, axis: int = -1, mask: Array | None = None, out: Array | None = None) -> tuple[Array, Any]:
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

    return {ops.softmax.forward: forward}


def softmax_backward(f: Functions) -> StandIns:
    """Make stand-ins for the gradient of the scores."""

    def backward(saved: Any, d_y: Array) -> tuple[Array]:
        y, _ = saved
        return (like(f["softmax-backward"](y, d_y), y),)

    return {ops.softmax.backward: backward}


def attention(f: Functions) -> StandIns:
    """Make stand-ins for scores, weights and output of attention."""

    def forward(
        q: Array,
        k: Array,
        v: Array,
        mask: Array | None = None,
        causal: bool = False,
        block_size: int | None = None,
        out: Array | None = None,
        bias: Array | None = None,
    ) -> tuple[Array, Any]:
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

    return {ops.scaled_dot_product_attention.forward: forward}


def attention_backward(f: Functions) -> StandIns:
    """Make stand-ins for the three lines of attention, in reverse order."""

    def backward(saved: Any, d_y: Array, out: tuple[Array | None, ...] = (None, None, None)) -> tuple[Array, ...]:
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

    return {ops.scaled_dot_product_attention.backward: backward}


def _projections(x: Array, memory: Array | None, sizes: Sizes) -> list[tuple[Array, slice]]:
    """Return what queries, keys and values are made of: an input, and columns of w_in."""
    source, first, last = x if memory is None else memory, sizes.queries, sizes.queries + sizes.keys
    return [(x, slice(0, first)), (source, slice(first, last)), (source, slice(last, None))]


def multi_head_attention(f: Functions) -> StandIns:
    """Make stand-ins for projections, heads side by side, and the output projection."""

    def forward(
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
    ) -> tuple[Array, Any]:
        sizes = check_heads(x, memory, w_in, w_out, b_in, b_out, n_heads)
        heads = []
        for source, part in _projections(x, memory, sizes):
            projected = source @ w_in[:, part] + (0 if b_in is None else b_in[part])
            shape = (len(source), n_heads, source.shape[1], projected.shape[-1] // n_heads)
            heads.append(like(f["split-heads"](projected, n_heads), x, shape))
        o, saved = ops.scaled_dot_product_attention.forward(*heads, mask, causal, block_size)
        concat = like(f["merge-heads"](o), x, (*x.shape[:2], w_out.shape[0]))
        y = concat @ w_out + (0 if b_out is None else b_out)
        return y, (x, memory, w_in, b_in is not None, sizes, (concat, w_out, b_out is not None), saved)

    return {ops.multi_head_attention.forward: forward}


def multi_head_backward(f: Functions) -> StandIns:
    """Make stand-ins for the projections and the heads, backwards."""

    def backward(saved: Any, d_y: Array) -> tuple[Array | None, ...]:
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

    return {ops.multi_head_attention.backward: backward}


def layer_norm(f: Functions) -> StandIns:
    """Make stand-ins for features with mean 0 and variance 1, then gain and bias."""

    def forward(x: Array, gain: Array, bias: Array, eps: float = 1e-5) -> tuple[Array, Any]:
        y = like(f["layer-norm-forward"](x, gain, bias, eps), x)
        x_hat = like(f["layer-norm-forward"](x, np.ones_like(gain), np.zeros_like(bias), eps), x)
        rstd = 1 / np.sqrt(x.var(axis=-1, keepdims=True) + eps)
        return y, (x_hat, rstd, gain)

    return {ops.layer_norm.forward: forward}


def layer_norm_backward(f: Functions) -> StandIns:
    """Make stand-ins for the gradients of features, gain and bias."""

    def backward(saved: Any, d_y: Array) -> tuple[Array, Array, Array]:
        x_hat, rstd, gain = saved
        shape = (1,) * (3 - x_hat.ndim) + x_hat.shape
        d_gain, d_bias = f["gain-and-bias-gradients"](x_hat.reshape(shape), d_y.reshape(shape))
        d_x = f["layer-norm-backward"](x_hat, rstd, gain, d_y)
        return like(d_x, x_hat), like(d_gain, gain), like(d_bias, gain)

    return {ops.layer_norm.backward: backward}


def rms_norm(f: Functions) -> StandIns:
    """Make stand-ins for features with mean square 1, then the gain."""

    def forward(x: Array, gain: Array, eps: float = 1e-5) -> tuple[Array, Any]:
        y = like(f["rms-norm-forward"](x, gain, eps), x)
        x_hat = like(f["rms-norm-forward"](x, np.ones_like(gain), eps), x)
        rrms = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
        return y, (x_hat, rrms, gain)

    return {ops.rms_norm.forward: forward}


def rms_norm_backward(f: Functions) -> StandIns:
    """Make stand-ins for the gradients of features and gain."""

    def backward(saved: Any, d_y: Array) -> tuple[Array, Array]:
        x_hat, rrms, gain = saved
        d_x, d_gain = f["rms-norm-backward"](x_hat, rrms, gain, d_y)
        return like(d_x, x_hat), like(d_gain, gain)

    return {ops.rms_norm.backward: backward}


def feed_forward(f: Functions) -> StandIns:
    """Make stand-ins for two linear layers with a ReLU between them, backwards."""

    def backward(saved: Any, d_y: Array) -> tuple[Array, ...]:
        x, hidden, w1, w2 = saved
        d_x, d_w1, d_b1, d_w2, d_b2 = f["feed-forward-backward"](x, hidden, w1, w2, d_y)
        return (
            like(d_x, x), like(d_w1, w1), like(d_b1, w1, w1.shape[1:]), like(d_w2, w2), like(d_b2, w2, w2.shape[1:])
        )  # fmt: skip

    return {ops.feed_forward.backward: backward}


def gates(f: Functions) -> StandIns:
    """Make stand-ins for SwiGLU, backwards."""

    def backward(saved: Any, d_y: Array) -> tuple[Array]:
        b, z, u = saved
        a = np.divide(u, z, out=np.full_like(u, -80), where=z > 0)  # u = a z; where z is 0, a was even lower
        x = np.concatenate((a, b), axis=-1)
        return (like(f["swiglu-backward"](x, d_y), x),)

    return {ops.swiglu.backward: backward}


def rotary(f: Functions) -> StandIns:
    """Make stand-ins for queries and keys that are turned by their positions."""

    def forward(x: Array, first: int = 0, out: Array | None = None) -> tuple[Array, Any]:
        _, saved = reference(ops.rotary.forward)(x, first)  # for the cosines and sines
        y = like(f["rotary-forward"](x, np.arange(first, first + x.shape[-2])), x)
        if out is not None:
            out[...] = y
            y = out
        return y, saved

    return {ops.rotary.forward: forward}


def rotary_backward(f: Functions) -> StandIns:
    """Make stand-ins for the gradient of what was turned."""

    def backward(saved: Any, d_y: Array, out: tuple[Array | None] = (None,)) -> tuple[Array]:
        cos, sin = saved
        d_x = like(f["rotary-backward"](cos, sin, d_y), d_y)
        if out[0] is not None:
            out[0][...] = d_x
            d_x = out[0]
        return (d_x,)

    return {ops.rotary.backward: backward}


def grouped_heads(f: Functions) -> StandIns:
    """Make stand-ins for the gradients of keys and values that several heads share."""

    def summed(d_k_heads: Array, d_v_heads: Array, n_kv_heads: int) -> tuple[Array, Array]:
        # The gradient of the queries stays as it is; that of the keys stands in for it.
        _, d_k, d_v = f["grouped-heads-backward"](d_k_heads, d_k_heads, d_v_heads, n_kv_heads)
        size = len(d_k_heads), n_kv_heads
        return like(d_k, d_k_heads, (*size, *d_k_heads.shape[2:])), like(d_v, d_v_heads, (*size, *d_v_heads.shape[2:]))

    return {sum_groups: summed}


def dropout(f: Functions) -> StandIns:
    """Make stand-ins for entries dropped, and the others scaled up; the random numbers are the engine's."""

    def forward(x: Array, p: float, rng: Any, residual: Array | None = None) -> tuple[Array, Any]:
        keep, factor = draw(x, p, rng)
        y = like(f["dropout-forward"](x, keep, 1 - 1 / factor), x)
        return y if residual is None else y + residual, (keep, factor, residual is not None)

    return {ops.dropout.forward: forward}


def dropout_backward(f: Functions) -> StandIns:
    """Make stand-ins for the gradient of what was dropped and of what was kept."""

    def backward(saved: Any, d_y: Array) -> tuple[Array | None, ...]:
        keep, factor, has_residual = saved
        d_x = like(f["dropout-backward"](keep, 1 - 1 / factor, d_y), d_y)
        return d_x, None, None, d_y.copy() if has_residual else None

    return {ops.dropout.backward: backward}


def residual(f: Functions) -> StandIns:
    """Make stand-ins for the code around a sub-layer, on tensors and on arrays; post-norm only."""
    engine = Residual.__call__.__wrapped__, Residual.step.__wrapped__  # type: ignore[attr-defined]

    def call(self: Residual, x: Tensor, sublayer: Callable[[Tensor], Tensor], rng: Any = None) -> Tensor:
        p = self.options.dropout
        if self.options.norm != "post":
            found: Tensor = engine[0](self, x, sublayer, rng)
            return found
        inner = sublayer if rng is None or not p else lambda y: ops.dropout(sublayer(y), p, rng)
        surrounded: Tensor = f["residual-connection"](x, inner, self.layer_norm)
        return surrounded

    def step(self: Residual, x: Array, sublayer: Callable[[Array], Array]) -> Array:
        if self.options.norm != "post":
            found: Array = engine[1](self, x, sublayer)
            return found
        return like(f["residual-connection"](x, sublayer, self.layer_norm.step), x)

    return {Residual.__call__: call, Residual.step: step}


def cross_entropy(f: Functions) -> StandIns:
    """Make stand-ins for the loss of the rows that count, against smoothed targets."""

    def forward(
        logits: Array, targets: Array, label_smoothing: float = 0.0, ignore_index: int | None = None
    ) -> tuple[Array, Any]:
        targets, counts, n_counted = read_targets(logits, targets, label_smoothing, ignore_index)
        x = logits.reshape(-1, logits.shape[-1])
        p, _ = ops.softmax.forward(x)
        loss = np.zeros((), dtype=x.dtype)
        if n_counted:
            q = f["smoothed-targets"](targets[counts], x.shape[1], label_smoothing)
            loss = like(f["cross-entropy-forward"](x[counts], like(q, x, (n_counted, x.shape[1]))), loss)
        return loss, (p, targets, counts, n_counted, label_smoothing, logits.shape)

    return {ops.cross_entropy.forward: forward}


def cross_entropy_backward(f: Functions) -> StandIns:
    """Make stand-ins for the gradient of the logits: 0 in the rows that do not count."""

    def backward(saved: Any, d_loss: Array) -> tuple[Array, None]:
        p, targets, counts, n_counted, label_smoothing, shape = saved
        d_x = np.zeros_like(p)
        if n_counted:
            q = like(f["smoothed-targets"](targets[counts], shape[-1], label_smoothing), p, (n_counted, shape[-1]))
            with np.errstate(divide="ignore"):
                logits = np.log(p[counts])  # up to a number for each row, which the softmax does not see
            d_x[counts] = f["label-smoothing-backward"](logits, q, d_loss)
        return d_x.reshape(shape), None

    return {ops.cross_entropy.backward: backward}


PASSES: dict[Callable[[Functions], StandIns], tuple[str, ...]] = {
    elementary_rules: ("add-with-broadcasting", "product-rule", "transpose-and-reshape", "unbroadcast"),
    embedding: ("repeated-ids",),
    positions: ("sinusoidal-positions",),
    scale: ("embedding-scale",),
    padding: ("padding-mask",),
    linear: ("linear-backward",),
    softmax: ("softmax-of-large-scores", "a-row-that-sees-nothing"),
    softmax_backward: ("softmax-backward",),
    attention: ("scaled-scores", "causal-mask"),
    attention_backward: ("weights-and-values-backward", "queries-and-keys-backward"),
    multi_head_attention: ("split-heads", "merge-heads"),
    multi_head_backward: ("one-weight-for-a-batch", "self-attention-backward", "merge-heads"),
    layer_norm: ("layer-norm-forward",),
    layer_norm_backward: ("gain-and-bias-gradients", "layer-norm-backward"),
    rms_norm: ("rms-norm-forward",),
    rms_norm_backward: ("rms-norm-backward",),
    feed_forward: ("feed-forward-backward",),
    gates: ("swiglu-backward",),
    rotary: ("rotary-forward",),
    rotary_backward: ("rotary-backward",),
    grouped_heads: ("grouped-heads-backward",),
    dropout: ("dropout-forward",),
    dropout_backward: ("dropout-backward",),
    residual: ("residual-connection",),
    cross_entropy: ("cross-entropy-forward", "smoothed-targets"),
    cross_entropy_backward: ("label-smoothing-backward", "smoothed-targets"),
}
"""Each maker of stand-ins with the exercises whose functions it calls."""
