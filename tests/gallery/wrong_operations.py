"""Wrong backward passes, and a few wrong forward ones, of the hand-derived operations."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable
from importlib import import_module
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from wrong_entry import VALUE, Entry, Weak, case, example, normal

from minitransformer import Operation
from minitransformer.apps.learn.solutions import edit
from minitransformer.ops import (
    additive_attention,
    convolution,
    cross_entropy,
    dropout,
    embedding,
    feed_forward,
    gelu,
    grouped_query_attention,
    layer_norm,
    linear,
    local_attention,
    log_softmax,
    masking,
    multi_head_attention,
    recurrence,
    rms_norm,
    rotary,
    silu,
    softmax,
    swiglu,
)
from minitransformer.ops import scaled_dot_product_attention as attention
from minitransformer.ops.linear import rows

OPERATIONS: list[Entry] = []
EDITS = tomllib.loads(Path(__file__).with_name("edits.toml").read_text(encoding="utf-8"))


def add(
    right: Operation,
    backward: Callable[..., Any] | None = None,
    forward: Callable[..., Any] | None = None,
    *,
    name: str,
    **texts: Any,
) -> None:
    """Add an operation with a wrong backward pass, or a wrong forward pass as well. Else it is made by its edit."""
    backward = backward or edited(right, **EDITS[name])
    wrong = Operation(forward or right.forward, backward, composed=right.composed, name=right.name)
    OPERATIONS.append(Entry(name=name, operation=right.name, wrong=wrong, right=right, **texts))


def edited(right: Operation, old: str, new: str) -> Callable[..., Any]:
    """Return the backward pass of an operation in whose source file a piece is replaced."""
    module = import_module(f"minitransformer.ops.{right.name}")
    names: dict[str, Any] = {"__name__": module.__name__}
    exec(compile(edit(inspect.getsource(module), old, new, module.__name__), str(module.__file__), "exec"), names)
    backward: Callable[..., Any] = names["backward"]
    return backward


def scaled(right: Operation, place: int, factor: float) -> Callable[..., Any]:
    """Return a backward pass with one gradient multiplied by a factor."""

    def backward(saved: Any, d_y: Any) -> Any:
        gradients = list(right.backward(saved, d_y))
        gradients[place] = gradients[place] * factor
        return gradients

    return backward


# ---------------------------------------------------------------------------------------------------------------------
# Softmax and log-softmax

SCORES = example("softmax", "last axis")

add(
    softmax,
    name="softmax: identically zero",
    example=SCORES,
    weak=Weak(),
)


add(
    softmax,
    name="softmax: divided by the batch size",
    example=SCORES,
    weak=Weak(example=case(normal(1, 5)), cotangent="random"),
)
add(
    softmax,
    name="softmax: no row sum",
    example=SCORES,
    weak=Weak(example=case(0.1 * normal(1, 300)), absolute=1e-2),
)
add(
    softmax,
    name="softmax: along the wrong axis",
    example=SCORES,
    weak=Weak(example=case(normal(5)), cotangent="random"),
)
add(
    softmax,
    name="softmax: passed through",
    example=SCORES,
    weak=Weak(numbers=False),
)


add(
    softmax,
    name="softmax: writes into d_y",
    example=SCORES,
    message="backward wrote into d_output",
    weak=Weak(cotangent="random"),
)
add(
    softmax,
    name="softmax: writes into what was saved",
    example=SCORES,
    message="backward wrote into a saved array",
    weak=Weak(cotangent="random"),
)
add(
    log_softmax,
    name="log-softmax: a cotangent of sum one",
    example=example("log_softmax", "last axis"),
    weak=Weak(cotangent="one-hot"),
)


# ---------------------------------------------------------------------------------------------------------------------
# Masking and attention

SOME = np.array([[True, False, True, True, False], [False] * 5, [True] * 5])

add(
    masking,
    name="masking: the gradient passes the mask",
    example=case(normal(2, 3, 5), SOME),
    weak=Weak(example=example("masking", "all may attend"), cotangent="random"),
)
add(
    masking,
    name="masking: hands on d_y itself",
    example=example("masking", "all may attend"),
    message="shares memory with d_output",
    weak=Weak(cotangent="random"),
)

PLAIN = example("scaled_dot_product_attention", "no mask")
MASKED = example("scaled_dot_product_attention", "masked, one row wholly")
QKV = ("q", "k", "v")


def weights_of(q: Any, k: Any, mask: Any = None, hidden: float = -np.inf) -> Any:
    """Return the attention weights, with a number of one's choice for hidden scores."""
    scores = q @ k.swapaxes(-1, -2) / sqrt(q.shape[-1])
    return softmax.forward(scores if mask is None else np.where(mask, scores, hidden))[0]


def attention_scaled(place: int) -> Callable[..., Any]:
    """Forget 1/sqrt(Dk) in one gradient."""

    def backward(saved: Any, d_y: Any) -> Any:
        return scaled(attention, place, sqrt(saved[0].shape[-1]))(saved, d_y)

    return backward


add(
    attention,
    attention_scaled(0),
    name="attention: no 1/sqrt(Dk) for q",
    example=PLAIN,
    weak=Weak(example=case(normal(2, 3, 1), normal(2, 4, 1), normal(2, 4, 5)), cotangent="random"),
)
add(
    attention,
    attention_scaled(1),
    name="attention: no 1/sqrt(Dk) for k",
    example=PLAIN,
    weak=Weak(example=case(normal(2, 3, 1), normal(2, 4, 1), normal(2, 4, 5)), cotangent="random"),
)


def queries_and_keys_zero(saved: Any, d_y: Any) -> Any:
    """Let the gradient flow through the values only."""
    q, k, *_ = saved
    return np.zeros_like(q), np.zeros_like(k), attention.backward(saved, d_y)[2]


add(
    attention,
    queries_and_keys_zero,
    name="attention: nothing for queries and keys",
    example=PLAIN,
    weak=Weak(example=case(normal(2, 3, 4), normal(2, 1, 4), normal(2, 1, 5)), cotangent="random"),
)


def queries_and_keys_swapped(saved: Any, d_y: Any) -> Any:
    """Return d_q and d_k in the wrong order."""
    d_q, d_k, d_v = attention.backward(saved, d_y)
    return d_k, d_q, d_v


SELF = case(normal(2, 4, 3))
ALIKE = case(normal(2, 4, 3, seed=1), normal(2, 4, 3, seed=2), normal(2, 4, 5))
swapped = Operation(attention.forward, queries_and_keys_swapped)
add(
    attention,
    queries_and_keys_swapped,
    name="attention: q and k swapped",
    example=ALIKE,
    weak=Weak(
        wrong=lambda x: swapped(x, x, x),
        right=lambda x: attention(x, x, x),
        example=SELF,
        cotangent="random",
    ),
)


def values_untransposed(saved: Any, d_y: Any) -> Any:
    """Use w where wᵀ is meant."""
    d_q, d_k, _ = attention.backward(saved, d_y)
    return d_q, d_k, saved[-1] @ d_y


add(
    attention,
    values_untransposed,
    name="attention: weights not transposed",
    example=ALIKE,
    weak=Weak(numbers=False),
)
add(
    attention,
    scaled(attention, 2, -1),
    name="attention: sign of d_v",
    example=PLAIN,
    weak=Weak(numbers=False),
)


def weights_without_the_mask(saved: Any, d_y: Any) -> Any:
    """Compute the weights again, and forget the mask."""
    q, k, v, *_ = saved
    return attention.backward((q, k, v, None, weights_of(q, k)), d_y)


add(
    attention,
    weights_without_the_mask,
    name="attention: backward without the mask",
    example=MASKED,
    weak=Weak(example=PLAIN, cotangent="random"),
)
add(
    attention,
    lambda saved, d_y: attention.backward((*saved[:-1], np.maximum(saved[-1], 1e-6)), d_y),
    name="attention: a small leak through the mask",
    example=MASKED,
    weak=Weak(cotangent="random", absolute=1e-2),
)


def mask_after_softmax(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    """Multiply the weights by the mask: rows no longer sum to one."""
    seen = 1 if mask is None else np.broadcast_to(mask, (*q.shape[:-1], k.shape[-2])).astype(q.dtype)
    weights = weights_of(q, k)
    return (weights * seen) @ v, (q, k, v, weights, seen)


def mask_after_softmax_backward(saved: Any, d_y: Any) -> Any:
    """Differentiate what ``mask_after_softmax`` computes, correctly."""
    q, k, v, weights, seen = saved
    (d_s,) = softmax.backward((weights, -1), d_y @ v.swapaxes(-1, -2) * seen)
    d_s = d_s / sqrt(q.shape[-1])
    return d_s @ k, d_s.swapaxes(-1, -2) @ q, (weights * seen).swapaxes(-1, -2) @ d_y


add(
    attention,
    mask_after_softmax_backward,
    mask_after_softmax,
    name="attention: mask after the softmax",
    example=MASKED,
    message=VALUE,
    weak=Weak(cotangent="random"),
)


def uniform_row(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    """Hide scores by -1e9: a row in which all are hidden has equal scores, not none."""
    weights = weights_of(q, k, mask, hidden=-1e9).astype(q.dtype)
    return weights @ v, (q, k, v, weights, mask)


def uniform_row_backward(saved: Any, d_y: Any) -> Any:
    """Differentiate what ``uniform_row`` computes, correctly."""
    q, k, v, weights, mask = saved
    (d_s,) = softmax.backward((weights, -1), d_y @ v.swapaxes(-1, -2))
    d_s = (d_s if mask is None else np.where(mask, d_s, 0)) / sqrt(q.shape[-1])
    return d_s @ k, d_s.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ d_y


add(
    attention,
    uniform_row_backward,
    uniform_row,
    name="attention: a hidden row looks everywhere",
    example=MASKED,
    message=VALUE,
    weak=Weak(cotangent="random"),
)


def nan_row(saved: Any, d_y: Any) -> Any:
    """Normalise again in the backward pass, without a thought for rows of sum zero."""
    *inputs, weights = saved
    with np.errstate(invalid="ignore"):
        again = weights / weights.sum(axis=-1, keepdims=True)
    return attention.backward((*inputs, again), d_y)


add(
    attention,
    nan_row,
    name="attention: NaN from a hidden row",
    example=MASKED,
    message="not the same when backward runs a second time|the gradient is not finite",
    weak=Weak(example=example("scaled_dot_product_attention", "causal"), cotangent="random"),
)


# ---------------------------------------------------------------------------------------------------------------------
# Multi-head attention

TO_ITSELF = example("multi_head_attention", "self")
TO_MEMORY = example("multi_head_attention", "cross")


def only_these_projections(for_memory: bool, first: int, last: int) -> Callable[..., Any]:
    """Let the gradient of the inputs flow through some of the three projections only: numbers first to last."""

    def backward(saved: Any, d_y: Any) -> Any:
        x, memory, w_in, has_b_in, sizes, *rest = saved
        ends = np.cumsum((0, *sizes[:3]))
        if (memory is not None) == for_memory:
            kept = np.zeros_like(w_in)
            kept[:, ends[first] : ends[last]] = w_in[:, ends[first] : ends[last]]
            w_in = kept
        return multi_head_attention.backward((x, memory, w_in, has_b_in, sizes, *rest), d_y)

    return backward


add(
    multi_head_attention,
    only_these_projections(False, 0, 1),
    name="multi-head: x by its queries only",
    example=TO_ITSELF,
    weak=Weak(example=TO_MEMORY, cotangent="random"),
)
add(
    multi_head_attention,
    only_these_projections(True, 0, 2),
    name="multi-head: memory by its keys only",
    example=TO_MEMORY,
    weak=Weak(example=TO_ITSELF, cotangent="random"),
)


def heads_by_reshape(saved: Any, d_y: Any) -> Any:
    """Go from (B, T, H Dv) to (B, H, T, Dv) by a reshape alone."""
    x, _, w_in, has_b_in, sizes, (concat, w_out, has_b_out), saved_attention = saved
    batch, length, _ = x.shape
    d_concat = rows(d_y) @ w_out.T
    d_heads = d_concat.reshape(batch, sizes.n_heads, length, -1)  # wrong: (B, T, H, Dv), then swap two axes
    parts = attention.backward(saved_attention, d_heads)
    d_in = np.concatenate([d.swapaxes(1, 2).reshape(batch * length, -1) for d in parts], axis=1)
    d_x = (d_in @ w_in.T).reshape(x.shape)
    d_b_in = d_in.sum(axis=0) if has_b_in else None
    d_b_out = rows(d_y).sum(axis=0) if has_b_out else None
    return d_x, None, rows(x).T @ d_in, rows(concat).T @ rows(d_y), d_b_in, d_b_out


add(
    multi_head_attention,
    heads_by_reshape,
    name="multi-head: heads split by a reshape",
    example=TO_ITSELF,
    weak=Weak(
        example=case(normal(2, 3, 5), None, 0.3 * normal(5, 10), 0.3 * normal(4, 5), normal(10), normal(5), n_heads=1),
        cotangent="random",
    ),
)


# ---------------------------------------------------------------------------------------------------------------------
# Grouped-query attention

GROUPS = example("grouped_query_attention", "cross")


def one_head_of_each_group(saved: Any, d_y: Any) -> Any:
    """Take the gradient of the first head that shares keys and values for that of all of them."""
    gradients = list(grouped_query_attention.backward(saved, d_y))
    x, memory, w_in, _, sizes, _, (_, w_out, _), attended = saved
    group = sizes.n_heads // sizes.n_kv_heads
    d_heads = (d_y @ w_out.T).reshape(*x.shape[:2], sizes.n_heads, -1).swapaxes(1, 2)
    _, *copies = attention.backward(attended, d_heads)
    d_kv = np.concatenate([d[:, ::group].swapaxes(1, 2).reshape(*memory.shape[:2], -1) for d in copies], axis=-1)
    gradients[1] = d_kv @ w_in[:, sizes.queries :].T
    return gradients


def other_groups(order: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a forward pass in which other heads share keys and values: heads in another order."""

    def forward(
        x: Any,
        memory: Any,
        w_in: Any,
        w_out: Any,
        b_in: Any,
        b_out: Any,
        mask: Any = None,
        *,
        n_heads: int,
        **options: Any,
    ) -> Any:
        heads = order(np.arange(n_heads))
        n_kv_heads = options["n_kv_heads"]
        d_values = len(w_out) // n_heads
        d_keys = (w_in.shape[1] - n_kv_heads * d_values) // (n_heads + n_kv_heads)
        columns = np.arange(w_in.shape[1])
        columns[: n_heads * d_keys] = columns[: n_heads * d_keys].reshape(n_heads, -1)[heads].reshape(-1)
        places = np.arange(len(w_out)).reshape(n_heads, -1)[heads].reshape(-1)
        inputs = (x, memory, w_in[:, columns], w_out[places], b_in[columns], b_out, mask)
        y, saved = grouped_query_attention.forward(*inputs, n_heads=n_heads, **options)
        return y, (saved, np.argsort(columns), np.argsort(places))

    return forward


def other_groups_backward(saved: Any, d_y: Any) -> Any:
    """Differentiate it rightly."""
    saved, columns, places = saved
    d_x, d_memory, d_w_in, d_w_out, d_b_in, d_b_out = grouped_query_attention.backward(saved, d_y)
    return d_x, d_memory, d_w_in[:, columns], d_w_out[places], d_b_in[columns], d_b_out


add(
    grouped_query_attention,
    one_head_of_each_group,
    name="grouped-query: one head of each group",
    example=GROUPS,
    weak=Weak(
        example=case(normal(2, 3, 4), normal(2, 5, 4), normal(4, 12), normal(4, 4), n_heads=2, n_kv_heads=2),
        cotangent="random",
        absolute=1e-3,
    ),
)
add(
    grouped_query_attention,
    other_groups_backward,
    other_groups(lambda heads: heads.reshape(-1, 2).T.reshape(-1)),
    name="grouped-query: other groups",
    example=GROUPS,
    message=VALUE,
    weak=Weak(cotangent="random"),
)

# ---------------------------------------------------------------------------------------------------------------------
# Layer norm

NORM = example("layer_norm", "random gain")
GAIN_ONE = case(normal(2, 3, 5), np.ones(5), np.zeros(5))


add(
    layer_norm,
    name="layer norm: right for a uniform gain only",
    example=NORM,
    weak=Weak(example=GAIN_ONE, cotangent="random"),
)
add(
    layer_norm,
    name="layer norm: gain forgotten",
    example=NORM,
    weak=Weak(example=GAIN_ONE, cotangent="random"),
)
add(
    layer_norm,
    name="layer norm: no mean term",
    example=NORM,
    weak=Weak(numbers=False),
)
add(
    layer_norm,
    name="layer norm: no x̂ term",
    example=NORM,
    weak=Weak(example=GAIN_ONE),
)
add(
    layer_norm,
    name="layer norm: standard deviation forgotten",
    example=NORM,
    weak=Weak(example=GAIN_ONE),
)
add(
    layer_norm,
    name="layer norm: variance over D - 1",
    example=NORM,
    weak=Weak(example=GAIN_ONE),
)
add(
    layer_norm,
    name="layer norm: epsilon forgotten",
    example=NORM,
    weak=Weak(cotangent="random", absolute=1e-2),
)

ROWS = normal(2, 3, 5)
ROWS_OF_MEAN_0 = case(ROWS - ROWS.mean(axis=-1, keepdims=True), np.ones(5))


add(
    rms_norm,
    name="rms norm: the mean term of layer norm",
    example=example("rms_norm", "random gain"),
    weak=Weak(numbers=False),
)
add(
    rms_norm,
    name="rms norm: no x̂ term",
    example=example("rms_norm", "random gain"),
    weak=Weak(example=ROWS_OF_MEAN_0),
)


def kept_on_the_layer() -> Operation:
    """Return a layer norm that keeps what backward needs in one place, instead of returning it."""
    kept: dict[str, Any] = {}

    def forward(x: Any, gain: Any, bias: Any) -> Any:
        y, kept["saved"] = layer_norm.forward(x, gain, bias)
        return y, None

    return Operation(forward, lambda _, d_y: layer_norm.backward(kept["saved"], d_y), name="layer_norm")


stateful = kept_on_the_layer()
OPERATIONS.append(
    Entry(
        name="layer norm: state kept on the layer",
        operation="layer_norm",
        wrong=lambda x, gain, bias: stateful(stateful(x, gain, bias).tanh(), gain, bias),
        right=lambda x, gain, bias: layer_norm(layer_norm(x, gain, bias).tanh(), gain, bias),
        example=NORM,
        weak=Weak(wrong=stateful, right=layer_norm, cotangent="random"),
    )
)


# ---------------------------------------------------------------------------------------------------------------------
# Linear, feed-forward, SiLU, GELU, embedding, dropout

AFFINE = example("linear", "with bias")
SQUARE = case(normal(2, 3, 4), normal(4, 4), normal(4))


add(
    linear,
    name="linear: weight not transposed",
    example=SQUARE,
    weak=Weak(numbers=False),
)
add(
    linear,
    name="linear: mean for the bias",
    example=AFFINE,
    weak=Weak(example=case(normal(1, 4), normal(4, 5), normal(5)), cotangent="random"),
)
add(
    linear,
    name="linear: bias over the batch axis only",
    example=AFFINE,
    message="the gradient of bias has shape",
    weak=Weak(example=case(normal(3, 4), normal(4, 5), normal(5)), cotangent="random"),
)
add(
    linear,
    name="linear: 123",
    example=AFFINE,
    weak=Weak(numbers=False),
)


add(
    feed_forward,
    name="feed-forward: output >= 0",
    example=example("feed_forward", ""),
    weak=Weak(
        example=case(*(np.abs(normal(*shape)) for shape in ((3, 4), (4, 6), (6,), (6, 5), (5,)))), cotangent="random"
    ),
)

FAR = case(np.array([[40.0, -50.0], [-60.0, 70.0]]))


def gelu_by_another(saved: Any, d_y: Any) -> Any:
    """Differentiate x σ(1.702 x), which some programs call GELU."""
    return silu.backward(silu.forward(saved[0], 1.702)[1], d_y)


add(
    silu,
    name="silu: the sigmoid alone",
    example=example("silu", "β 1"),
    weak=Weak(example=FAR, cotangent="random"),
)
add(
    silu,
    name="silu: beta forgotten",
    example=example("silu", "β 1.702"),
    weak=Weak(example=example("silu", "β 1"), cotangent="random"),
)
add(
    gelu,
    name="gelu: the probability alone",
    example=case(normal(3, 5)),
    weak=Weak(example=FAR, cotangent="random"),
)
add(
    gelu,
    gelu_by_another,
    name="gelu: the derivative of an approximation",
    example=case(normal(3, 5)),
    weak=Weak(cotangent="random", absolute=1e-1),
)

GATES = example("swiglu", "F 4")


def other_half_is_the_gate(x: Any) -> Any:
    """Take the second half as the gates."""
    n = x.shape[-1] // 2
    return swiglu.forward(np.concatenate((x[..., n:], x[..., :n]), axis=-1))


def other_half_backward(saved: Any, d_y: Any) -> Any:
    """Differentiate it rightly."""
    (d_x,) = swiglu.backward(saved, d_y)
    n = d_x.shape[-1] // 2
    return (np.concatenate((d_x[..., n:], d_x[..., :n]), axis=-1),)


add(
    swiglu,
    other_half_backward,
    other_half_is_the_gate,
    name="swiglu: the other half is the gate",
    example=GATES,
    message=VALUE,
    weak=Weak(cotangent="random"),
)
add(
    swiglu,
    name="swiglu: the gate's sigmoid as a constant",
    example=GATES,
    weak=Weak(example=case(np.array([[40.0, -50.0, 1.5, -0.5]])), cotangent="random"),
)

AT_ZERO = example("rotary", "from position 0")


def halves_for_pairs(saved: Any, d_y: Any) -> Any:
    """Take features i and i + D/2 for a pair, as other programs do."""
    n = d_y.shape[-1] // 2
    order = np.arange(2 * n).reshape(2, n).T.reshape(-1)  # 0, n, 1, n + 1, ...
    (d_x,) = rotary.backward(saved, d_y[..., order])
    return (d_x[..., np.argsort(order)],)


add(
    rotary,
    name="rotary: the gradient rotated forwards",
    example=AT_ZERO,
    weak=Weak(example=case(normal(1, 6)), cotangent="random"),
)
add(
    rotary,
    halves_for_pairs,
    name="rotary: halves for pairs",
    example=AT_ZERO,
    weak=Weak(example=case(normal(5, 2)), cotangent="random"),
)

IDS = example("embedding", "repeated ids")
DISTINCT = case(np.array([[1, 3], [0, 4]]), normal(6, 2))


add(
    embedding,
    name="embedding: = for repeated ids",
    example=IDS,
    weak=Weak(example=DISTINCT, cotangent="random"),
)
add(
    embedding,
    name="embedding: divided by the count",
    example=IDS,
    weak=Weak(example=DISTINCT, cotangent="random"),
)

DROPPED = example("dropout", "p 0.3")
NOTHING_DROPPED = case(normal(3, 4), 0.0, np.random.default_rng(1))


def dropout_keeps_the_generator(x: Any, p: float, rng: np.random.Generator) -> Any:
    """Keep the generator instead of the mask."""
    y, _ = dropout.forward(x, p, rng)
    return y, (p, rng)


def dropout_draws_again(saved: Any, d_y: Any) -> Any:
    """Apply the forward pass, with a new mask, to the gradient."""
    return (dropout.forward(d_y, *saved)[0],)


add(
    dropout,
    name="dropout: no factor",
    example=DROPPED,
    weak=Weak(example=NOTHING_DROPPED, cotangent="random"),
)
add(
    dropout,
    dropout_draws_again,
    dropout_keeps_the_generator,
    name="dropout: draws again",
    example=DROPPED,
    message="not the same when backward runs a second time",
    weak=Weak(example=NOTHING_DROPPED, cotangent="random"),
)


# ---------------------------------------------------------------------------------------------------------------------
# Cross-entropy

LOSS = example("cross_entropy", "plain")
PADDED = example("cross_entropy", "smoothed, padded")
TIED = case(np.round(LOSS.inputs[0]), LOSS.inputs[1])


add(
    cross_entropy,
    name="cross-entropy: divided by all tokens",
    example=PADDED,
    weak=Weak(example=LOSS),
)
add(
    cross_entropy,
    name="cross-entropy: padding has a gradient",
    example=PADDED,
    weak=Weak(example=LOSS),
)
add(
    cross_entropy,
    name="cross-entropy: zero on tied logits",
    example=TIED,
    weak=Weak(example=LOSS),
)
add(
    cross_entropy,
    name="cross-entropy: smoothing forgotten",
    example=example("cross_entropy", "tied logits"),
    weak=Weak(example=LOSS),
)
add(
    cross_entropy,
    name="cross-entropy: sum for mean",
    example=LOSS,
    weak=Weak(example=case(normal(1, 5), np.array([2]))),
)
add(
    cross_entropy,
    name="cross-entropy: upstream gradient ignored",
    example=LOSS,
    weak=Weak(),
)


# ---------------------------------------------------------------------------------------------------------------------
# Recurrence

STATES = example("recurrence", "with h0")


add(
    recurrence,
    name="recurrence: no way back",
    example=STATES,
    weak=Weak(example=case(normal(2, 1, 3), normal(3, 5), normal(5, 5), normal(5)), cotangent="random"),
)
add(
    recurrence,
    name="recurrence: U not transposed",
    example=STATES,
    weak=Weak(
        example=case(normal(2, 4, 3), normal(3, 5), 0.5 * np.eye(5), normal(5), normal(2, 5)), cotangent="random"
    ),
)
add(
    recurrence,
    name="recurrence: d_U one position late",
    example=STATES,
    weak=Weak(numbers=False),
)


# ---------------------------------------------------------------------------------------------------------------------
# Convolution

KERNEL = example("convolution", "centred")


def kernel_not_turned(saved: Any, d_y: Any) -> Any:
    """Use the kernel of the forward pass for d_x, as it is."""
    x, weight, _, causal, dilation = saved
    turned = convolution.backward((x, weight[::-1], True, causal, dilation), d_y)
    return turned[0], *convolution.backward(saved, d_y)[1:]


def ends_joined(saved: Any, d_y: Any) -> Any:
    """Move x by ``np.roll``: what leaves the sentence at one end comes back at the other."""
    x, weight, _, causal, dilation = saved
    d_x, d_weight, d_bias = convolution.backward(saved, d_y)
    centre = len(weight) - 1 if causal else len(weight) // 2
    for j in range(len(weight)):
        d_weight[j] = rows(np.roll(x, (centre - j) * dilation, axis=1)).T @ rows(d_y)
    return d_x, d_weight, d_bias


add(
    convolution,
    kernel_not_turned,
    name="convolution: kernel not turned round",
    example=KERNEL,
    weak=Weak(
        example=case(normal(2, 6, 4), np.stack([normal(4, 5), normal(4, 5, seed=1), normal(4, 5)]), normal(5)),
        cotangent="random",
    ),
)
add(
    convolution,
    ends_joined,
    name="convolution: the ends joined",
    example=KERNEL,
    weak=Weak(
        example=case(np.pad(normal(2, 4, 4), ((0, 0), (1, 1), (0, 0))), normal(3, 4, 5), normal(5)),
        cotangent="random",
    ),
)
add(
    convolution,
    lambda saved, d_y: convolution.backward((*saved[:4], 1), d_y),
    name="convolution: dilation forgotten",
    example=example("convolution", "causal, dilation 2"),
    weak=Weak(example=KERNEL, cotangent="random"),
)


# ---------------------------------------------------------------------------------------------------------------------
# Local attention

NEAR = example("local_attention", "radius 2")


def own_block_only(saved: Any, d_y: Any) -> Any:
    """Give keys and values the gradient that comes from the queries of their own block."""
    q, _, _, weights = saved
    length, n = q.shape[-2], weights.shape[-2]
    found = [x.copy() for x in local_attention.backward(saved, d_y)]
    for first in range(0, length, n):
        own = slice(first, first + n)
        block = np.zeros_like(d_y)
        block[..., own, :] = d_y[..., own, :]
        for place, part in enumerate(local_attention.backward(saved, block)[1:], start=1):
            found[place][..., own, :] = part[..., own, :]
    return found


def zeros_are_seen(q: Any, k: Any, v: Any, mask: Any = None, *, radius: int, causal: bool = False) -> Any:
    """Let the queries near the ends see zeros outside of the sentence."""
    q, k, v = (np.pad(x, [(0, 0)] * (x.ndim - 2) + [(radius, radius), (0, 0)]) for x in (q, k, v))
    y, saved = local_attention.forward(q, k, v, radius=radius, causal=causal)
    return y[..., radius : y.shape[-2] - radius, :].copy(), (saved, radius)


def zeros_are_seen_backward(saved: Any, d_y: Any) -> Any:
    """Differentiate what ``zeros_are_seen`` computes, correctly."""
    kept, radius = saved
    padded = np.pad(d_y, [(0, 0)] * (d_y.ndim - 2) + [(radius, radius), (0, 0)])
    gradients = local_attention.backward(kept, padded)
    return [gradient[..., radius : gradient.shape[-2] - radius, :] for gradient in gradients]


add(
    local_attention,
    own_block_only,
    name="local attention: only its own block",
    example=NEAR,
    weak=Weak(example=case(normal(2, 7, 4), normal(2, 7, 4, seed=1), normal(2, 7, 5), radius=0), cotangent="random"),
)
add(
    local_attention,
    zeros_are_seen_backward,
    zeros_are_seen,
    name="local attention: sees beyond the ends",
    example=NEAR,
    message=VALUE,
    weak=Weak(cotangent="random"),
)


# ---------------------------------------------------------------------------------------------------------------------
# Additive attention

ADDITIVE = example("additive_attention", "no mask")


def additive_case(t_q: int, t_k: int, size: float = 1.0) -> Any:
    """Return inputs of additive attention, with hidden units of some size."""
    q, k = size * normal(2, t_q, 4), size * normal(2, t_k, 6)
    return case(q, k, normal(2, t_k, 7), normal(4, 8), normal(6, 8), size * normal(8), normal(8, seed=1))


add(
    additive_attention,
    name="additive attention: no slope of the tanh",
    example=ADDITIVE,
    weak=Weak(example=additive_case(3, 5, 0.003), cotangent="random", absolute=1e-2),
)
add(
    additive_attention,
    name="additive attention: sums exchanged",
    example=additive_case(4, 4),
    weak=Weak(numbers=False),
)
add(
    additive_attention,
    name="additive attention: mean for the bias",
    example=ADDITIVE,
    weak=Weak(example=additive_case(1, 5), cotangent="random"),
)


# ---------------------------------------------------------------------------------------------------------------------
# Operations of one's own that showed what a tolerance is worth

tiny = Operation(lambda x: (1e-7 * np.sin(x), x), lambda x, d_y: (1e-7 * d_y * np.cos(x),), name="1e-7 sin x")
add(
    tiny,
    lambda x, d_y: (0 * d_y,),
    name="a small function: zero",
    example=case(normal(4)),
    weak=Weak(cotangent="random"),
)
far = Operation(lambda x: (np.exp(x - 200), x), lambda x, d_y: (1000 * d_y * np.exp(x - 200),), name="exp(x - 200)")
OPERATIONS.append(
    Entry(
        name="a very small function: 1000 times too large",
        operation=far.name,
        wrong=lambda x: far(x),  # not an operation for `prove`: float32 has no number as small as exp(-200)
        right=lambda x: (x - 200).exp(),
        example=case(normal(4)),
        weak=Weak(absolute=1e-2),
    )
)
