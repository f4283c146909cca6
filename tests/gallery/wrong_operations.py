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
from wrong_entry import CARDS, VALUE, Entry, Weak, case, example, normal

from minitransformer import Operation, ops
from minitransformer.apps.learn.solutions import edit
from minitransformer.ops import dropout, grouped_query_attention, layer_norm, local_attention, softmax, swiglu
from minitransformer.ops import scaled_dot_product_attention as attention
from minitransformer.testing.examples import Example

OPERATIONS: list[Entry] = []
EDITS = tomllib.loads(Path(__file__).with_name("edits.toml").read_text(encoding="utf-8"))


def add(
    right: Operation,
    backward: Callable[..., Any],
    forward: Callable[..., Any] | None = None,
    *,
    name: str,
    **texts: Any,
) -> None:
    """Add an operation with a wrong backward pass, or a wrong forward pass as well."""
    wrong = Operation(forward or right.forward, backward, reference=right.reference, name=right.name)
    OPERATIONS.append(Entry(name=name, operation=right.name, wrong=wrong, right=right, **texts))


def add_value(
    right: Operation, backward: Callable[..., Any], forward: Callable[..., Any], at: Any, *, name: str
) -> None:
    """Add an operation with a wrong forward pass and the backward pass that fits it."""
    add(right, backward, forward, name=name, example=at, message=VALUE, weak=Weak(cotangent="random"))


# ---------------------------------------------------------------------------------------------------------------------
# Mistakes that are edits


def additive_case(t_q: int, t_k: int, size: float = 1.0) -> Example:
    """Return inputs of additive attention, with hidden units of some size."""
    q, k = size * normal(2, t_q, 4), size * normal(2, t_k, 6)
    return case(q, k, normal(2, t_k, 7), normal(4, 8), normal(6, 8), size * normal(8), normal(8, seed=1))


ROWS = normal(2, 3, 5)
KERNEL = np.stack([normal(4, 5), normal(4, 5, seed=1), normal(4, 5)])
LOGITS, TARGETS = example("cross_entropy", "plain").inputs
EXAMPLES = {
    "one long row": case(0.1 * normal(1, 300)),
    "some masked": case(ROWS, np.array([[True, False, True, True, False], [False] * 5, [True] * 5])),
    "queries and keys of one shape": case(normal(2, 4, 3, seed=1), normal(2, 4, 3, seed=2), normal(2, 4, 5)),
    "one head": case(ROWS, None, 0.3 * normal(5, 10), 0.3 * normal(4, 5), normal(10), normal(5), n_heads=1),
    "groups of one head": case(normal(2, 3, 4), normal(2, 5, 4), normal(4, 12), normal(4, 4), n_heads=2, n_kv_heads=2),
    "gain 1, bias 0": case(ROWS, np.ones(5), np.zeros(5)),
    "rows of mean 0": case(ROWS - ROWS.mean(axis=-1, keepdims=True), np.ones(5)),
    "factors at the first step": case(normal(2, 3, 4), normal(4, 5), normal(4, 3), np.zeros((3, 5))),
    "square weight": case(normal(2, 3, 4), normal(4, 4), normal(4)),
    "positive numbers": case(*(np.abs(normal(*shape)) for shape in ((3, 4), (4, 6), (6,), (6, 5), (5,)))),
    "far from 0": case(np.array([[40.0, -50.0], [-60.0, 70.0]])),
    "near 0": case(1e-4 * normal(3, 5)),
    "gates far from 0": case(np.array([[40.0, -50.0, 1.5, -0.5]])),
    "distinct ids": case(np.array([[1, 3], [0, 4]]), normal(6, 2)),
    "nothing dropped": case(normal(3, 4), 0.0, np.random.default_rng(1)),
    "rounded logits": case(np.round(LOGITS), TARGETS),
    "one target": case(normal(1, 5), np.array([2])),
    "symmetric U": case(normal(2, 4, 3), normal(3, 5), 0.5 * np.eye(5), normal(5), normal(2, 5)),
    "symmetric kernel": case(normal(2, 6, 4), KERNEL, normal(5)),
    "zeros at the ends": case(np.pad(normal(2, 4, 4), ((0, 0), (1, 1), (0, 0))), normal(3, 4, 5), normal(5)),
    "small hidden units": additive_case(3, 5, 0.003),
    "as many queries as keys": additive_case(4, 4),
    "one query": additive_case(1, 5),
}
"""Examples that the public list lacks."""


def chosen(operation: str, at: Any) -> Example:
    """Return the example of an edit."""
    if isinstance(at, list):
        return case(*(normal(*shape) for shape in at))
    return EXAMPLES.get(at) or example(operation, at)


def edited(right: Operation, old: str, new: str) -> Callable[..., Any]:
    """Return the backward pass of an operation in whose source file a piece is replaced."""
    module = import_module(f"minitransformer.ops.{right.name}")
    names: dict[str, Any] = {"__name__": module.__name__}
    exec(compile(edit(inspect.getsource(module), old, new, module.__name__), str(module.__file__), "exec"), names)
    backward: Callable[..., Any] = names["backward"]
    return backward


def add_edit(name: str, operation: str, old: str, new: str, example: Any, weak: dict[str, Any], **texts: Any) -> None:
    """Add an operation that an edit makes wrong."""
    right = ops.registry[operation]
    if "example" in weak:
        weak = weak | {"example": chosen(operation, weak["example"])}
    texts |= {"example": chosen(operation, example), "weak": Weak(**weak)}
    add(right, edited(right, old, new), name=name, **texts)


for name, fields in EDITS.items():
    add_edit(name, **fields)


# ---------------------------------------------------------------------------------------------------------------------
# Attention

MASKED = example("scaled_dot_product_attention", "masked, one row wholly")


def weights_of(q: Any, k: Any, mask: Any = None, hidden: float = -np.inf) -> Any:
    """Return the attention weights, with a number of one's choice for hidden scores."""
    scores = q @ k.swapaxes(-1, -2) / sqrt(q.shape[-1])
    return softmax.forward(scores if mask is None else np.where(mask, scores, hidden))[0]


def queries_and_keys_swapped(saved: Any, d_y: Any) -> Any:
    """Return d_q and d_k in the wrong order."""
    d_q, d_k, d_v = attention.backward(saved, d_y)
    return d_k, d_q, d_v


swapped = Operation(attention.forward, queries_and_keys_swapped)
add(
    attention,
    queries_and_keys_swapped,
    name="attention: q and k swapped",
    example=EXAMPLES["queries and keys of one shape"],
    weak=Weak(
        wrong=lambda x: swapped(x, x, x),
        right=lambda x: attention(x, x, x),
        example=case(normal(2, 4, 3)),
        cotangent="random",
    ),
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


add_value(attention, mask_after_softmax_backward, mask_after_softmax, MASKED, name="attention: mask after the softmax")


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


add_value(attention, uniform_row_backward, uniform_row, MASKED, name="attention: a hidden row looks everywhere")


# ---------------------------------------------------------------------------------------------------------------------
# Grouped-query attention


def other_groups(order: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a forward pass in which other heads share keys and values: heads in another order."""

    def forward(*inputs: Any, n_heads: int, **options: Any) -> Any:
        x, memory, w_in, w_out, b_in, b_out, *mask = inputs
        heads = order(np.arange(n_heads))
        n_kv_heads = options["n_kv_heads"]
        d_values = len(w_out) // n_heads
        d_keys = (w_in.shape[1] - n_kv_heads * d_values) // (n_heads + n_kv_heads)
        columns = np.arange(w_in.shape[1])
        columns[: n_heads * d_keys] = columns[: n_heads * d_keys].reshape(n_heads, -1)[heads].reshape(-1)
        places = np.arange(len(w_out)).reshape(n_heads, -1)[heads].reshape(-1)
        moved = (x, memory, w_in[:, columns], w_out[places], b_in[columns], b_out, *mask)
        y, saved = grouped_query_attention.forward(*moved, n_heads=n_heads, **options)
        return y, (saved, np.argsort(columns), np.argsort(places))

    return forward


def other_groups_backward(saved: Any, d_y: Any) -> Any:
    """Differentiate it rightly."""
    saved, columns, places = saved
    d_x, d_memory, d_w_in, d_w_out, d_b_in, d_b_out = grouped_query_attention.backward(saved, d_y)
    return d_x, d_memory, d_w_in[:, columns], d_w_out[places], d_b_in[columns], d_b_out


add_value(
    grouped_query_attention,
    other_groups_backward,
    other_groups(lambda heads: heads.reshape(-1, 2).T.reshape(-1)),
    example("grouped_query_attention", "cross"),
    name="grouped-query: other groups",
)

# ---------------------------------------------------------------------------------------------------------------------
# Layer norm


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
        example=example("layer_norm", "random gain"),
        weak=Weak(wrong=stateful, right=layer_norm, cotangent="random"),
    )
)


# ---------------------------------------------------------------------------------------------------------------------
# SwiGLU, dropout


def other_half_is_the_gate(x: Any) -> Any:
    """Take the second half as the gates."""
    n = x.shape[-1] // 2
    return swiglu.forward(np.concatenate((x[..., n:], x[..., :n]), axis=-1))


def other_half_backward(saved: Any, d_y: Any) -> Any:
    """Differentiate it rightly."""
    (d_x,) = swiglu.backward(saved, d_y)
    n = d_x.shape[-1] // 2
    return (np.concatenate((d_x[..., n:], d_x[..., :n]), axis=-1),)


add_value(
    swiglu,
    other_half_backward,
    other_half_is_the_gate,
    example("swiglu", "F 4"),
    name="swiglu: the other half is the gate",
)


def dropout_keeps_the_generator(x: Any, p: float, rng: np.random.Generator) -> Any:
    """Keep the generator instead of the mask."""
    y, _ = dropout.forward(x, p, rng)
    return y, (p, rng)


def dropout_draws_again(saved: Any, d_y: Any) -> Any:
    """Apply the forward pass, with a new mask, to the gradient."""
    return (dropout.forward(d_y, *saved)[0],)


add(
    dropout,
    dropout_draws_again,
    dropout_keeps_the_generator,
    name="dropout: draws again",
    example=example("dropout", "p 0.3"),
    message="not the same when backward runs a second time",
    weak=Weak(example=EXAMPLES["nothing dropped"], cotangent="random"),
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
add_value(local_attention, zeros_are_seen_backward, zeros_are_seen, NEAR, name="local attention: sees beyond the ends")


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

OPERATIONS.sort(key=lambda entry: [*CARDS].index(entry.name))
