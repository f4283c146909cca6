"""Attention, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import sqrt
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.apps.learn.checks.masks import MASK, NOTHING, B, Dk, Dv, H, Tk, Tq, softmax, weigh
from minitransformer.apps.learn.comparing import check_backward, check_result
from minitransformer.apps.learn.counterexample import (
    Claim,
    claims_of,
    judge_claims,
    measure_gradients,
    read_answer,
    read_arrays,
)

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


def score(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Return the scaled scores."""
    return np.asarray(q @ transpose(k) / sqrt(q.shape[-1]))


def scaled_scores(scores: Callable[..., Any]) -> None:
    """Check the scores, without and with leading axes."""
    for q, k, _ in draw(71):
        check_result("scaled-scores", "s", scores, (q, k), score(q, k))


def attention_forward(attention: Callable[..., Any]) -> None:
    """Check equation (1), with a mask."""
    for q, k, v in draw(75):
        mask = MASK[: q.shape[-2], : k.shape[-2]]
        expected, _ = ops.scaled_dot_product_attention.forward(q, k, v, mask=mask)
        check_result("attention-forward", "y", attention, (q, k, v, mask), expected)


def weights_and_values_backward(backward: Callable[..., Any]) -> None:
    """Check the gradients of w @ v."""
    for q, k, v in draw(76, FEW):
        inputs = {"w": softmax(q @ transpose(k)), "v": v}
        check_backward("weights-and-values-backward", backward, np.matmul, inputs)


def scores_backward(backward: Callable[..., Any]) -> None:
    """Check the gradient of the masked softmax, with a row that sees nothing."""
    scores = np.random.default_rng(77).normal(size=(B, Tq, Tk))
    for s, mask in ((scores[0, :3, :4], MASK[:3, :4] | True), (scores, NOTHING)):
        check_backward("scores-backward", backward, partial(weigh, mask=mask), {"s": s}, (weigh(s, mask),))


def queries_and_keys_backward(backward: Callable[..., Any]) -> None:
    """Check the gradients of the scaled scores."""
    for q, k, _ in draw(78, FEW):
        check_backward("queries-and-keys-backward", backward, score, {"q": q, "k": k}, sizes={"Dk": q.shape[-1]})


def attention_backward(backward: Callable[..., Any]) -> None:
    """Check the gradients of attention: one head, then several with a mask and a query that sees nothing."""
    for (q, k, v), whole in zip(draw(79, FEW), (MASK | True, MASK, NOTHING), strict=True):
        mask, inputs = whole[: q.shape[-2], : k.shape[-2]], {"q": q, "k": k, "v": v}
        given, function = (q, k, v, weigh(score(q, k), mask)), partial(attention, mask=mask)
        check_backward("attention-backward", backward, function, inputs, given, sizes={"Dk": q.shape[-1]})


def self_attention_backward(backward: Callable[..., Any]) -> None:
    """Check the gradient of an x that makes queries, keys and values."""
    rng = np.random.default_rng(82)
    for t, d, dk, dv in ((4, 2, 2, 2), (Tq, 3, Dk, Dv)):
        _three_gradients(backward, rng.normal(size=(t, d)), [rng.normal(size=(d, width)) for width in (dk, dk, dv)])


def _three_gradients(backward: Callable[..., Any], x: np.ndarray, w: list[np.ndarray]) -> None:
    def project(x: np.ndarray) -> list[np.ndarray]:
        return [x @ weight for weight in w]

    def given(d_y: np.ndarray) -> list[np.ndarray]:
        _, saved = ops.scaled_dot_product_attention.forward(*project(x))
        return [*w, *ops.scaled_dot_product_attention.backward(saved, d_y)]

    check_backward("self-attention-backward", backward, lambda x: attention(*project(x)), {"x": x}, given)


def find_the_wrong_attention(counterexample: Callable[..., Any]) -> str:
    """Check the input on which one line of a backward pass is seen to be wrong."""
    names = claims_of("find-the-wrong-attention")
    letter, values = read_answer(counterexample, "abcde", ["q", "k", "v", "d_y"])
    q, k, v, d_y = read_arrays(values, dict.fromkeys(("q", "k", "v", "d_y"), "T D")).values()
    nothing = np.zeros((len(q), len(q)))

    def output(w: Any, v: Any, s: Any, q: Any, k: Any) -> np.ndarray:
        """Return y; w and s are what weights and scores are moved by."""
        scores = q @ k.T / sqrt(q.shape[-1]) + s
        return np.asarray((ops.softmax.forward(scores)[0] + w) @ v)

    inputs = {"d_w": nothing, "d_v": v, "d_s": nothing, "d_q": q, "d_k": k}
    lines = measure_gradients(output, lambda: names["backward"](q, k, v, names["weights"](q, k), d_y), inputs, d_y)
    claims = {
        line: Claim({name: lines.found[name]}, {name: lines.expected[name]})
        for line, name in zip("abcde", inputs, strict=True)
    }
    return judge_claims(letter, "d", claims, "finite differences")
