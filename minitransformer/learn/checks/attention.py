"""Chapter 7: attention, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import sqrt
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.learn.checks.heads import merge_heads as merge_heads
from minitransformer.learn.checks.heads import split_heads as split_heads
from minitransformer.learn.checks.masks import MASK, NOTHING, B, Dk, Dv, H, Tk, Tq, softmax, weigh
from minitransformer.learn.checks.masks import a_row_that_sees_nothing as a_row_that_sees_nothing
from minitransformer.learn.checks.masks import causal_mask as causal_mask
from minitransformer.learn.checks.masks import mask_before_softmax as mask_before_softmax
from minitransformer.learn.checks.masks import padding_mask as padding_mask
from minitransformer.learn.checks.softmax import squares
from minitransformer.learn.checks.wrong_line import find_the_wrong_attention as find_the_wrong_attention
from minitransformer.learn.verdict import agree, check_gradients

FEW = 1, 2
"""Batch and heads where gradients are measured, entry by entry."""
ROUND = "{} reverses all axes; swapaxes(-1, -2) swaps the last two"


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
        s, Dk, every = q @ transpose(k), q.shape[-1], q.shape == k.shape
        agree(
            "s",
            scores(q, k),
            s / sqrt(Dk),
            mistakes={
                "the division is missing: every score is sqrt(Dk) times too large": s,
                "it is divided by Dk; divide by sqrt(Dk)": s / Dk,
                "it is divided by sqrt(Tk), the number of keys; Dk is the number of features": s / sqrt(k.shape[-2]),
                "it is divided by sqrt(Tq), the number of queries; Dk is the number of features": s / sqrt(q.shape[-2]),
                "it is multiplied by sqrt(Dk); divide by it": s * sqrt(Dk),
                "it is transposed: the queries are the rows, the keys are the columns": transpose(s) / sqrt(Dk),
            }
            | ({"k is not transposed: the sum runs over the last axis of both": q @ k / sqrt(Dk)} if every else {})
            | ({ROUND.format("k.T"): q @ k.T / sqrt(Dk)} if every and q.ndim == 3 else {}),
        )


def attention_forward(attention: Callable[..., Any]) -> None:
    """Check equation (1), with a mask."""
    for q, k, v in draw(75):
        s, Dk = q @ transpose(k), q.shape[-1]
        mask = MASK[: q.shape[-2], : k.shape[-2]]
        equal = q.shape == k.shape == v.shape
        agree(
            "y",
            attention(q, k, v, mask),
            ops.scaled_dot_product_attention.forward(q, k, v, mask=mask)[0],
            mistakes={
                "the scores are not divided by sqrt(Dk)": weigh(s, mask) @ v,
                "the scores are divided by Dk; divide by sqrt(Dk)": weigh(s / Dk, mask) @ v,
                "the scores are divided by sqrt(Dv); Dk is the number of features of q and k": weigh(
                    s / sqrt(v.shape[-1]), mask
                )
                @ v,
                "the mask is not used": softmax(s / sqrt(Dk)) @ v,
                "it is divided by sqrt(Dk) after the softmax; divide the scores": weigh(s, mask) @ v / sqrt(Dk),
                "the mask is applied after the softmax": softmax(s / sqrt(Dk)) * mask @ v,
                "the softmax is missing: these are scores, not weights, times values": s / sqrt(Dk) @ v,
                "these are the weights; multiply them by the values": weigh(s / sqrt(Dk), mask),
            }
            | ({"k is not transposed: the sum runs over features": weigh(q @ k / sqrt(Dk), mask) @ v} if equal else {})
            | ({ROUND.format("k.T"): weigh(q @ k.T / sqrt(Dk), mask) @ v} if equal and q.ndim == 3 else {}),
        )


def weights_and_values_backward(backward: Callable[..., Any]) -> None:
    """Check the gradients of w @ v."""
    for q, k, v in draw(76, FEW):
        _product_gradients(backward, softmax(q @ transpose(k)), v)


def _product_gradients(backward: Callable[..., Any], w: np.ndarray, v: np.ndarray) -> None:
    def mistakes(d_y: np.ndarray) -> Mapping[str, Mapping[str, Any]]:
        d_w, d_v = d_y @ transpose(v), transpose(w) @ d_y
        d_s = ops.softmax.backward((w, -1), d_w)[0]
        of_w = {
            "it is transposed: the queries are the rows": transpose(d_w),
            "this is d_v; the gradient of w comes first": d_v,
            "this is already the gradient of the scores; here w is an input": d_s,
        }
        of_v = {"it is transposed: the keys are the rows": transpose(d_v)}
        if w.shape == v.shape:
            of_w["v is not transposed: the sum is over c, the last axis of both"] = d_y @ v
            of_w[ROUND.format("v.T")] = d_y @ v.T
            of_v["w is not transposed: the sum is over i, the queries"] = w @ d_y
            of_v[ROUND.format("w.T")] = w.T @ d_y
        return {"d_w": of_w, "d_v": of_v}

    check_gradients(lambda d_y: backward(w, v, d_y), np.matmul, {"w": w, "v": v}, mistakes=mistakes)


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
        mistakes=lambda d_w: {
            "d_s": {
                "the row sum is missing: each score also acts on the other weights of its row": w * d_w,
                "the sum runs over the queries; the softmax runs along the keys, the last axis": w
                * (d_w - (d_w * w).sum(axis=-2, keepdims=True)),
                "the factor w_ij in front is missing": d_w - (d_w * w).sum(axis=-1, keepdims=True),
                "the row sum adds up d_w alone; each term has a factor w_il": w
                * (d_w - d_w.sum(axis=-1, keepdims=True)),
                "multiply the row sum by w_ij too": w * d_w - (d_w * w).sum(axis=-1, keepdims=True),
                "only the case i = j of the softmax is there": w * (1 - w) * d_w,
                "it has a mean instead of the sum": w * (d_w - (d_w * w).mean(axis=-1, keepdims=True)),
                "it has the mean of d_w instead of the sum of w_il d_w_il": w
                * (d_w - d_w.mean(axis=-1, keepdims=True)),
                "the row sum is added; subtract it": w * (d_w + (d_w * w).sum(axis=-1, keepdims=True)),
                "this is the gradient of the weights; the softmax needs its own backward pass": d_w,
                **squares(w, d_w, "w"),
            }
        },
    )


def queries_and_keys_backward(backward: Callable[..., Any]) -> None:
    """Check the gradients of the scaled scores."""
    for q, k, _ in draw(78, FEW):
        _scores_gradient(backward, q, k)


def _scores_gradient(backward: Callable[..., Any], q: np.ndarray, k: np.ndarray) -> None:
    Dk, (Tq, Tk) = q.shape[-1], (q.shape[-2], k.shape[-2])

    def mistakes(d_s: np.ndarray) -> Mapping[str, Mapping[str, Any]]:
        d_q, d_k = d_s @ k, transpose(d_s) @ q
        of_q: dict[str, np.ndarray] = {}
        of_k: dict[str, np.ndarray] = {}
        if Tq == Tk == Dk:
            of_q["d_s is transposed, but the sum is over j, the keys: d_s k"] = transpose(d_s) @ k / sqrt(Dk)
            of_q["k is transposed, but the sum is over j, the keys: d_s k"] = d_s @ transpose(k) / sqrt(Dk)
            of_k["d_s is not transposed: the sum is over i, the queries"] = d_s @ q / sqrt(Dk)
            of_k[ROUND.format("d_s.T")] = d_s.T @ q / sqrt(Dk)
        return {
            "d_q": of_q
            | {
                "the division is missing: every entry is sqrt(Dk) times too large": d_q,
                "it is divided by Dk; divide by sqrt(Dk)": d_q / Dk,
                "it is divided by sqrt(Tk); Dk is the number of features, q.shape[-1]": d_q / sqrt(Tk),
                "this is d_k; the gradient of q comes first": d_k / sqrt(Dk),
            },
            "d_k": of_k
            | {
                "the division is missing: every entry is sqrt(Dk) times too large": d_k,
                "it is divided by Dk, or twice by sqrt(Dk); divide once by sqrt(Dk)": d_k / Dk,
                "it is transposed: the keys are the rows": transpose(d_k) / sqrt(Dk),
            },
        }

    check_gradients(
        lambda d_s: backward(q, k, d_s),
        lambda q, k: q @ transpose(k) / sqrt(Dk),
        {"q": q, "k": k},
        sizes={"Dk": Dk},
        mistakes=mistakes,
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
    equal = q.shape == k.shape == v.shape

    def mistakes(d_y: np.ndarray) -> Mapping[str, Mapping[str, Any]]:
        d_w = d_y @ transpose(v)
        row_sum, column_sum = ((d_w * w).sum(axis=axis, keepdims=True) for axis in (-1, -2))
        d_s = w * (d_w - row_sum)
        wrong = {
            "the division by sqrt(Dk) is missing: every entry is sqrt(Dk) times too large": d_s * sqrt(Dk),
            "it is divided by sqrt(Dk) twice": d_s / sqrt(Dk),
            "the row sum of the softmax is missing in d_s": w * d_w,
            "the row sum of the softmax runs over the queries; sum along the keys": w * (d_w - column_sum),
            "d_w is used as d_s: the softmax needs its own backward pass": d_w,
            "the factor w in front of d_s is missing": d_w - row_sum,
            "the row sum of the softmax is missing in d_s, and so is the division by sqrt(Dk)": w * d_w * sqrt(Dk),
            "multiply the row sum by w too": w * d_w - row_sum,
        }
        if equal:
            for words, other in (("v is not transposed in d_w", v), (ROUND.format("v.T"), v.T)):
                wrong[words] = ops.softmax.backward((w, -1), d_y @ other)[0]
        of_q = {words: d_s @ k / sqrt(Dk) for words, d_s in wrong.items()}
        of_k = {words: transpose(d_s) @ q / sqrt(Dk) for words, d_s in wrong.items()}
        of_v = {"it is divided by sqrt(Dk); only queries and keys are": transpose(w) @ d_y / sqrt(Dk)}
        if equal:
            of_q["d_s is transposed; in d_q the sum is over the keys: d_s k"] = transpose(d_s) @ k / sqrt(Dk)
            of_k["d_s is not transposed: in d_k the sum is over the queries"] = d_s @ q / sqrt(Dk)
            of_k[ROUND.format("d_s.T")] = d_s.T @ q / sqrt(Dk)
            of_q["this is d_k; the gradient of q comes first"] = transpose(d_s) @ q / sqrt(Dk)
            of_q["this is d_v; the gradient of q comes first, then those of k and v"] = transpose(w) @ d_y
            of_q["it uses q instead of k: in s a query is multiplied by the keys"] = d_s @ q / sqrt(Dk)
            of_k["it uses k instead of q: in s a key is multiplied by the queries"] = transpose(d_s) @ k / sqrt(Dk)
            of_v["w is not transposed: in d_v the sum is over the queries"] = w @ d_y
            of_v[ROUND.format("w.T")] = w.T @ d_y
        return {"d_q": of_q, "d_k": of_k, "d_v": of_v}

    check_gradients(
        lambda d_y: backward(q, k, v, w, d_y),
        lambda q, k, v: attention(q, k, v, mask),
        {"q": q, "k": k, "v": v},
        sizes={"Dk": Dk},
        mistakes=mistakes,
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

    def mistakes(d_y: np.ndarray) -> Mapping[str, Mapping[str, Any]]:
        q, k, v = (part @ weight.T for part, weight in zip(parts(d_y), w, strict=True))
        square = all(weight.shape[0] == weight.shape[1] for weight in w)
        plain = sum(part @ weight for part, weight in zip(parts(d_y), w, strict=True)) if square else None
        rest = "x is used three times, so add up the gradients of all uses"
        return {
            "d_x": {
                f"only the share of the queries is there: {rest}": q,
                f"only the share of the keys is there: {rest}": k,
                f"only the share of the values is there: {rest}": v,
                f"the share of the values is missing: {rest}": q + k,
                f"the share of the keys is missing: {rest}": q + v,
                f"the share of the queries is missing: {rest}": k + v,
                "it is the mean of the three shares; add them up": (q + k + v) / 3,
            }
            | ({"the weights are not transposed: q = x W_q, and d_q goes back through W_q^T": plain} if square else {})
        }

    check_gradients(
        lambda d_y: backward(*w, *parts(d_y)),
        lambda x: attention(*(x @ weight for weight in w)),
        {"x": x},
        mistakes=mistakes,
    )
