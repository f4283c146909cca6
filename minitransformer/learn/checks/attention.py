"""Chapter 7: attention, forwards and backwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.learn.checks.masks import padding_mask as padding_mask
from minitransformer.learn.checks.masks import refuse_numbers
from minitransformer.learn.verdict import agree, check_choice, check_gradients, refuse_writing

B, H, Tq, Tk, Dk, Dv = 2, 3, 4, 6, 5, 7
MASK = np.array(  # (Tq, Tk), each query with at least one key
    [[1, 0, 0, 0, 0, 0], [1, 1, 0, 1, 0, 0], [0, 1, 1, 1, 0, 1], [1, 1, 1, 1, 1, 1]], dtype=bool
)
NOTHING = MASK & np.array([True, False, True, True])[:, None]
"""The same, where query 1 sees nothing."""


def transpose(x: np.ndarray) -> np.ndarray:
    """Exchange the last two axes."""
    return x.swapaxes(-1, -2)


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """Return the weights of a softmax."""
    return np.asarray(ops.softmax.forward(x, axis=axis)[0])


def weigh(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the weights of a masked softmax."""
    return np.asarray(ops.softmax.forward(x, mask=mask)[0])


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    """Return the outputs."""
    return np.asarray(ops.scaled_dot_product_attention.forward(q, k, v, mask=mask)[0])


def draw(seed: int, leading: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return random queries, keys and values."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(*leading, Tq, Dk)), rng.normal(size=(*leading, Tk, Dk)), rng.normal(size=(*leading, Tk, Dv))


def scaled_scores(scores: Callable[..., Any]) -> None:
    """Check the scores, without and with leading axes."""
    for leading in ((), (B, H)):
        q, k, _ = draw(71, leading)
        given = q.copy(), k.copy()
        s = q @ transpose(k)
        agree(
            "s",
            scores(*given),
            s / sqrt(Dk),
            mistakes={
                "the division is missing: every score is sqrt(Dk) times too large": s,
                "it is divided by Dk; by sqrt(Dk) it should be": s / Dk,
                "it is divided by sqrt(Tk), the number of keys; Dk is the number of features": s / sqrt(Tk),
                "it is divided by sqrt(Tq), the number of queries; Dk is the number of features": s / sqrt(Tq),
                "it is multiplied by sqrt(Dk); divide by it": s * sqrt(Dk),
                "it is transposed: the queries are the rows, the keys are the columns": transpose(s) / sqrt(Dk),
            },
        )
        refuse_writing(q=(given[0], q), k=(given[1], k))


def causal_mask(causal_mask: Callable[..., Any]) -> None:
    """Check that it is boolean, and what it hides."""
    for n in (5, 1):
        found, lower = causal_mask(n), np.tri(n, dtype=bool)
        agree(
            "mask",
            found,
            lower,
            mistakes={
                "every query sees the future and not the past: the queries are the rows": lower.T,
                "a query must see its own position too": np.tri(n, k=-1, dtype=bool),
                "True and False are exchanged: True = may attend": ~lower,
                "this is to be added to the scores; a mask is boolean, True = may attend": np.where(lower, 0, -np.inf),
                "only the own position is seen: compare with >=, not ==": np.eye(n, dtype=bool),
            },
        )
        refuse_numbers(found)


def mask_before_softmax(weights: Callable[..., Any]) -> None:
    """Check the weights, for small scores, for hidden ones that are much larger, and beside the lowest there are."""
    small = np.random.default_rng(73).normal(size=(B, Tq, Tk))
    large = np.where(MASK, small - 1e4, 1e4)
    lowest = np.where(MASK, np.finfo(np.float64).min, small)  # no finite number is below these
    for name, scores in (
        ("w", small),
        ("w, where hidden scores are large,", large),
        ("w, where the other scores are the lowest numbers there are,", lowest),
    ):
        given, mask = scores.copy(), MASK.copy()
        with np.errstate(all="ignore"):
            after = softmax(scores) * MASK
            agree(
                name,
                weights(given, mask),
                weigh(scores, MASK),
                mistakes={
                    "the mask is applied after the softmax: hidden keys still have a share in the sum, and the weights "
                    "of a row do not sum to 1": after,
                    "the weights are divided a second time, after the mask: where hidden scores are large, nothing is "
                    "left to divide": after / after.sum(axis=-1, keepdims=True),
                    "hidden scores become a low number, but the others may be as low: only -inf is low enough": softmax(
                        np.where(MASK, scores, -1e4)
                    ),
                    "hidden scores become 0, and exp(0) is 1: they need -inf": softmax(scores * MASK),
                    "the mask is the wrong way round: True = may attend": np.where(
                        MASK.all(axis=-1, keepdims=True), np.nan, weigh(scores, ~MASK)
                    ),
                    "True is added as a 1, which hides nothing": softmax(scores + MASK),
                    "the mask is not used yet": softmax(scores),
                    "hidden scores become as low as the lowest: only -inf is low enough": softmax(
                        np.where(MASK, scores, scores.min())
                    ),
                },
            )
        refuse_writing(scores=(given, scores), mask=(mask, MASK))


def a_row_that_sees_nothing(weights: Callable[..., Any]) -> None:
    """Check the weights where one query sees nothing, and that no NaN occurs on the way."""
    scores = np.random.default_rng(74).normal(size=(B, Tq, Tk))
    given, mask = scores.copy(), NOTHING.copy()
    right = weigh(scores, NOTHING)
    blind = ~NOTHING.any(axis=-1, keepdims=True)
    with np.errstate(all="ignore"):
        agree(
            "w",
            weights(given, mask),
            right,
            mistakes={
                "the row that sees nothing is NaN: put 0 for a largest of -inf, and 1 for a sum of 0": np.where(
                    blind, np.nan, right
                ),
                "the row that sees nothing looks everywhere; its weights should be 0": np.where(blind, 1 / Tk, right),
                "the row that sees nothing has weights of 1; they should be 0": np.where(blind, 1, right),
                "the row that sees nothing attends as if there were no mask; its weights should be 0": np.where(
                    blind, softmax(scores), right
                ),
            },
        )
    with np.errstate(invalid="raise", divide="raise"):
        weights(given, mask)
        agree("w, for scores of 10000,", weights(given + 1e4, mask), weigh(scores + 1e4, NOTHING))
    refuse_writing(scores=(given, scores), mask=(mask, NOTHING))


def attention_forward(attention: Callable[..., Any]) -> None:
    """Check equation (1), with a mask."""
    for leading in ((), (B, H)):
        q, k, v = draw(75, leading)
        given = q.copy(), k.copy(), v.copy()
        s = q @ transpose(k)
        agree(
            "y",
            attention(*given, MASK.copy()),
            ops.scaled_dot_product_attention.forward(q, k, v, mask=MASK)[0],
            mistakes={
                "the scores are not divided by sqrt(Dk)": weigh(s, MASK) @ v,
                "the scores are divided by Dk; by sqrt(Dk) they should be": weigh(s / Dk, MASK) @ v,
                "the mask is not used": softmax(s / sqrt(Dk)) @ v,
                "it is divided by sqrt(Dk) after the softmax; divide the scores": weigh(s, MASK) @ v / sqrt(Dk),
                "the mask is applied after the softmax": softmax(s / sqrt(Dk)) * MASK @ v,
                "the softmax is missing: these are scores, not weights, times values": s / sqrt(Dk) @ v,
                "these are the weights; multiply them by the values": weigh(s / sqrt(Dk), MASK),
            },
        )
        refuse_writing(q=(given[0], q), k=(given[1], k), v=(given[2], v))


def weights_and_values_backward(backward: Callable[..., Any]) -> None:
    """Check the gradients of w @ v."""
    for leading in ((), (B, H)):
        q, k, v = draw(76, leading)
        _product_gradients(backward, softmax(q @ transpose(k)), v)


def _product_gradients(backward: Callable[..., Any], w: np.ndarray, v: np.ndarray) -> None:
    given = w.copy(), v.copy()

    def mistakes(d_y: np.ndarray) -> Mapping[str, Mapping[str, Any]]:
        d_w, d_v = d_y @ transpose(v), transpose(w) @ d_y
        return {
            "d_w": {
                "it is transposed: the queries are the rows": transpose(d_w),
                "this is d_v; the gradient of w comes first": d_v,
                "this is the gradient of the scores already; here w is still by itself": ops.softmax.backward(
                    (w, -1), d_w
                )[0],
            },
            "d_v": {"it is transposed: the keys are the rows": transpose(d_v)},
        }

    check_gradients(lambda d_y: backward(*given, d_y), np.matmul, {"w": w, "v": v}, mistakes=mistakes)
    refuse_writing(w=(given[0], w), v=(given[1], v))


def scores_backward(backward: Callable[..., Any]) -> None:
    """Check the gradient of the masked softmax, with a row that sees nothing."""
    scores = np.random.default_rng(77).normal(size=(B, Tq, Tk))
    for name, mask in (("no mask", MASK | True), ("a mask", NOTHING)):
        _masked_softmax_gradient(backward, scores if name == "a mask" else scores[0], mask)


def _masked_softmax_gradient(backward: Callable[..., Any], scores: np.ndarray, mask: np.ndarray) -> None:
    w = weigh(scores, mask)
    given = w.copy()
    hidden = "" if mask.all() else ": hidden scores get a gradient"
    check_gradients(
        lambda d_w: backward(given, d_w),
        lambda s: weigh(s, mask),
        {"s": scores},
        mistakes=lambda d_w: {
            "d_s": {
                "the row sum is missing: each score also acts on the other weights of its row": w * d_w,
                "the sum runs over the queries; the softmax runs along the keys, the last axis": w
                * (d_w - (d_w * w).sum(axis=-2, keepdims=True)),
                f"the factor w_ij in front is missing{hidden}": d_w - (d_w * w).sum(axis=-1, keepdims=True),
                "the row sum adds up d_w alone; each term has a factor w_il": w
                * (d_w - d_w.sum(axis=-1, keepdims=True)),
                f"the row sum has to be multiplied by w_ij as well{hidden}": w * d_w
                - (d_w * w).sum(axis=-1, keepdims=True),
                "only the case i = j of the softmax is there": w * (1 - w) * d_w,
                "the gradient of the weights is not yet that of the scores": d_w,
            }
        },
    )
    refuse_writing(w=(given, w))


def queries_and_keys_backward(backward: Callable[..., Any]) -> None:
    """Check the gradients of the scaled scores."""
    for leading in ((), (B, H)):
        q, k, _ = draw(78, leading)
        _scores_gradient(backward, q, k)


def _scores_gradient(backward: Callable[..., Any], q: np.ndarray, k: np.ndarray) -> None:
    given = q.copy(), k.copy()

    def mistakes(d_s: np.ndarray) -> Mapping[str, Mapping[str, Any]]:
        d_q, d_k = d_s @ k, transpose(d_s) @ q
        return {
            "d_q": {
                "the division is missing: every entry is sqrt(Dk) times too large": d_q,
                "it is divided by Dk; by sqrt(Dk) it should be": d_q / Dk,
                "it is divided by sqrt(Tk); Dk is the number of features, q.shape[-1]": d_q / sqrt(Tk),
                "this is d_k; the gradient of q comes first": d_k / sqrt(Dk),
            },
            "d_k": {
                "the division is missing: every entry is sqrt(Dk) times too large": d_k,
                "it is divided by Dk, or twice by sqrt(Dk); once by sqrt(Dk) it should be": d_k / Dk,
                "it is transposed: the keys are the rows": transpose(d_k) / sqrt(Dk),
            },
        }

    check_gradients(
        lambda d_s: backward(*given, d_s),
        lambda q, k: q @ transpose(k) / sqrt(Dk),
        {"q": q, "k": k},
        sizes={"Dk": Dk},
        mistakes=mistakes,
    )
    refuse_writing(q=(given[0], q), k=(given[1], k))


def attention_backward(backward: Callable[..., Any]) -> None:
    """Check the gradients of attention: one head, then several with a mask and a query that sees nothing."""
    for leading, mask in (((), MASK | True), ((B, H), NOTHING)):
        q, k, v = draw(79, leading)
        _attention_gradients(backward, q, k, v, mask)


def _attention_gradients(
    backward: Callable[..., Any], q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray
) -> None:
    w = weigh(q @ transpose(k) / sqrt(Dk), mask)
    given = q.copy(), k.copy(), v.copy(), w.copy()

    def mistakes(d_y: np.ndarray) -> Mapping[str, Mapping[str, Any]]:
        d_w = d_y @ transpose(v)
        row_sum, column_sum = ((d_w * w).sum(axis=axis, keepdims=True) for axis in (-1, -2))
        d_s = w * (d_w - row_sum)
        wrong = {
            "the division by sqrt(Dk) is missing: every entry is sqrt(Dk) times too large": d_s * sqrt(Dk),
            "it is divided by sqrt(Dk) twice": d_s / sqrt(Dk),
            "the row sum of the softmax is missing in d_s": w * d_w,
            "the row sum of the softmax runs over the queries; it runs along the keys": w * (d_w - column_sum),
            "d_w is taken for d_s: the softmax has a backward pass of its own": d_w,
            "the factor w in front of d_s is missing": d_w - row_sum,
            "the row sum of the softmax is missing in d_s, and so is the division by sqrt(Dk)": w * d_w * sqrt(Dk),
            "the row sum has to be multiplied by w as well": w * d_w - row_sum,
        }
        return {
            "d_q": {words: d_s @ k / sqrt(Dk) for words, d_s in wrong.items()},
            "d_k": {words: transpose(d_s) @ q / sqrt(Dk) for words, d_s in wrong.items()},
            "d_v": {"it is divided by sqrt(Dk); only queries and keys are": transpose(w) @ d_y / sqrt(Dk)},
        }

    check_gradients(
        lambda d_y: backward(*given, d_y),
        lambda q, k, v: attention(q, k, v, mask),
        {"q": q, "k": k, "v": v},
        sizes={"Dk": Dk, "B": B, "H": H},
        mistakes=mistakes,
    )
    refuse_writing(q=(given[0], q), k=(given[1], k), v=(given[2], v), w=(given[3], w))


def split_heads(split: Callable[..., Any]) -> None:
    """Check the heads of an array."""
    x = np.random.default_rng(80).normal(size=(B, Tq, H * Dk))
    given = x.copy()
    heads = np.stack([x[..., h * Dk : (h + 1) * Dk] for h in range(H)], axis=1)
    woven = x.reshape(B, Tq, Dk, H)
    agree(
        "heads",
        split(given, H),
        heads,
        mistakes={
            "reshape alone mixes positions and heads: cut the last axis first, (B, T, H, Dk), then move an "
            "axis": x.reshape(B, H, Tq, Dk),
            "the axes are still (B, T, H, Dk): exchange the positions and the heads": heads.swapaxes(1, 2),
            "a head has every H-th feature; its features should lie side by side: (H, Dk), not (Dk, H)": np.moveaxis(
                woven, 3, 1
            ),
            "the head is the last axis; cut D into (H, Dk), then move the heads beside the batch": woven,
            "the last two axes are exchanged: (B, H, Dk, T)": transpose(heads),
            "the heads come before the batch: (H, B, T, Dk)": heads.swapaxes(0, 1),
        },
    )
    refuse_writing(x=(given, x))


def merge_heads(merge: Callable[..., Any]) -> None:
    """Check the heads laid side by side."""
    heads = np.random.default_rng(81).normal(size=(B, H, Tq, Dv))
    given = heads.copy()
    agree(
        "merged",
        merge(given),
        np.concatenate([heads[:, h] for h in range(H)], axis=-1),
        mistakes={
            "reshape alone mixes positions and heads: first make H and Dv neighbours, (B, T, H, Dv)": heads.reshape(
                B, Tq, H * Dv
            ),
            "the features of the heads are woven into each other; those of a head should lie side by side": np.moveaxis(
                heads, 1, 3
            ).reshape(B, Tq, H * Dv),
            "the heads and their features are still two axes": heads.swapaxes(1, 2),
            "the heads are added up; they should lie side by side": heads.sum(axis=1),
        },
    )
    refuse_writing(heads=(given, heads))


def self_attention_backward(backward: Callable[..., Any]) -> None:
    """Check the gradient of an x that makes queries, keys and values."""
    rng = np.random.default_rng(82)
    d = 3
    x = rng.normal(size=(Tq, d))
    w = [rng.normal(size=(d, width)) for width in (Dk, Dk, Dv)]
    given = [weight.copy() for weight in w]

    def parts(d_y: np.ndarray) -> tuple[np.ndarray, ...]:
        _, saved = ops.scaled_dot_product_attention.forward(*(x @ weight for weight in w))
        return tuple(ops.scaled_dot_product_attention.backward(saved, d_y))

    def mistakes(d_y: np.ndarray) -> Mapping[str, Mapping[str, Any]]:
        q, k, v = (part @ weight.T for part, weight in zip(parts(d_y), w, strict=True))
        rest = "x is used three times, and the gradients of all uses are added"
        return {
            "d_x": {
                f"only the share of the queries is there: {rest}": q,
                f"only the share of the keys is there: {rest}": k,
                f"only the share of the values is there: {rest}": v,
                f"the share of the values is missing: {rest}": q + k,
                f"the share of the keys is missing: {rest}": q + v,
                f"the share of the queries is missing: {rest}": k + v,
                "it is the mean of the three shares; they are added": (q + k + v) / 3,
            }
        }

    check_gradients(
        lambda d_y: backward(*given, *parts(d_y)),
        lambda x: attention(*(x @ weight for weight in w)),
        {"x": x},
        mistakes=mistakes,
    )
    refuse_writing(w_q=(given[0], w[0]), w_k=(given[1], w[1]), w_v=(given[2], w[2]))


def find_the_wrong_attention(WRONG: Any) -> None:
    """Check which line was found to be wrong."""
    check_choice("WRONG", WRONG, "d", "abcde")
