"""Attention, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import sqrt
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.apps.learn.checks.masks import MASK, NOTHING, B, Dk, Dv, H, Tk, Tq, softmax, weigh
from minitransformer.apps.learn.solutions import mistaken, mistaken_parts
from minitransformer.apps.learn.verdict import agree, check_gradients

FEW = 1, 2
"""Batch and heads where gradients are measured, entry by entry."""


def transpose(x: np.ndarray) -> np.ndarray:
    """Exchange the last two axes."""
    return x.swapaxes(-1, -2)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    """Return the outputs."""
    return np.asarray(ops.scaled_dot_product_attention.forward(q, k, v, mask=mask)[0])


def draw(seed: int, leading: tuple[int, int] = (B, H)) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield random queries, keys and values: first those in which equal sizes hide a wrong transpose."""
    rng = np.random.default_rng(seed)
    for first, queries, keys, dk, dv in (((), 3, 3, 3, 3), ((2,), 2, 2, 2, 2), (leading, Tq, Tk, Dk, Dv)):
        q, k, v = ((*first, queries, dk), (*first, keys, dk), (*first, keys, dv))
        yield rng.normal(size=q), rng.normal(size=k), rng.normal(size=v)


def scaled_scores(scores: Callable[..., Any]) -> None:
    """Check the scores, without and with leading axes."""
    for q, k, _ in draw(71):
        expected = q @ transpose(k) / sqrt(q.shape[-1])
        agree("s", scores(q, k), expected, mistakes=mistaken("scaled-scores", q, k))


def attention_forward(attention: Callable[..., Any]) -> None:
    """Check equation (1), with a mask."""
    for q, k, v in draw(75):
        mask = MASK[: q.shape[-2], : k.shape[-2]]
        agree(
            "y",
            attention(q, k, v, mask),
            ops.scaled_dot_product_attention.forward(q, k, v, mask=mask)[0],
            mistakes=mistaken("attention-forward", q, k, v, mask),
        )


def weights_and_values_backward(backward: Callable[..., Any]) -> None:
    """Check the gradients of w @ v."""
    for q, k, v in draw(76, FEW):
        _product_gradients(backward, softmax(q @ transpose(k)), v)


def _product_gradients(backward: Callable[..., Any], w: np.ndarray, v: np.ndarray) -> None:
    check_gradients(
        lambda d_y: backward(w, v, d_y),
        np.matmul,
        {"w": w, "v": v},
        mistakes=lambda d_y: mistaken_parts("weights-and-values-backward", ["d_w", "d_v"], w, v, d_y),
    )


def scores_backward(backward: Callable[..., Any]) -> None:
    """Check the gradient of the masked softmax, with a row that sees nothing."""
    scores = np.random.default_rng(77).normal(size=(B, Tq, Tk))
    for given, mask in ((scores[0, :3, :4], MASK[:3, :4] | True), (scores, NOTHING)):
        _masked_softmax_gradient(backward, given, mask)


def _masked_softmax_gradient(backward: Callable[..., Any], scores: np.ndarray, mask: np.ndarray) -> None:
    w = weigh(scores, mask)
    check_gradients(
        lambda d_w: backward(w, d_w),
        lambda s: weigh(s, mask),
        {"s": scores},
        mistakes=lambda d_w: mistaken_parts("scores-backward", ["d_s"], w, d_w),
    )


def queries_and_keys_backward(backward: Callable[..., Any]) -> None:
    """Check the gradients of the scaled scores."""
    for q, k, _ in draw(78, FEW):
        _scores_gradient(backward, q, k)


def _scores_gradient(backward: Callable[..., Any], q: np.ndarray, k: np.ndarray) -> None:
    Dk = q.shape[-1]
    check_gradients(
        lambda d_s: backward(q, k, d_s),
        lambda q, k: q @ transpose(k) / sqrt(Dk),
        {"q": q, "k": k},
        sizes={"Dk": Dk},
        mistakes=lambda d_s: mistaken_parts("queries-and-keys-backward", ["d_q", "d_k"], q, k, d_s),
    )


def attention_backward(backward: Callable[..., Any]) -> None:
    """Check the gradients of attention: one head, then several with a mask and a query that sees nothing."""
    for (q, k, v), mask in zip(draw(79, FEW), (MASK | True, MASK, NOTHING), strict=True):
        _attention_gradients(backward, q, k, v, mask[: q.shape[-2], : k.shape[-2]])


def _attention_gradients(
    backward: Callable[..., Any], q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray
) -> None:
    Dk = q.shape[-1]
    w = weigh(q @ transpose(k) / sqrt(Dk), mask)
    check_gradients(
        lambda d_y: backward(q, k, v, w, d_y),
        lambda q, k, v: attention(q, k, v, mask),
        {"q": q, "k": k, "v": v},
        sizes={"Dk": Dk},
        mistakes=lambda d_y: mistaken_parts("attention-backward", ["d_q", "d_k", "d_v"], q, k, v, w, d_y),
    )


def self_attention_backward(backward: Callable[..., Any]) -> None:
    """Check the gradient of an x that makes queries, keys and values."""
    rng = np.random.default_rng(82)
    for t, d, dk, dv in ((4, 2, 2, 2), (Tq, 3, Dk, Dv)):
        _three_gradients(backward, rng.normal(size=(t, d)), [rng.normal(size=(d, width)) for width in (dk, dk, dv)])


def _three_gradients(backward: Callable[..., Any], x: np.ndarray, w: list[np.ndarray]) -> None:
    def parts(d_y: np.ndarray) -> tuple[np.ndarray, ...]:
        _, saved = ops.scaled_dot_product_attention.forward(*(x @ weight for weight in w))
        return tuple(ops.scaled_dot_product_attention.backward(saved, d_y))

    check_gradients(
        lambda d_y: backward(*w, *parts(d_y)),
        lambda x: attention(*(x @ weight for weight in w)),
        {"x": x},
        mistakes=lambda d_y: mistaken_parts("self-attention-backward", ["d_x"], *w, *parts(d_y)),
    )
