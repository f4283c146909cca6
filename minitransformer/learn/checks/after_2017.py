"""Chapter 9: RMSNorm, SwiGLU, grouped heads and top-p."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.decoding import SamplingOptions
from minitransformer.learn.checks.layer_norm import mean
from minitransformer.learn.checks.rotary import find_the_wrong_positions as find_the_wrong_positions
from minitransformer.learn.checks.rotary import rotary_backward as rotary_backward
from minitransformer.learn.checks.rotary import rotary_forward as rotary_forward
from minitransformer.learn.verdict import agree, check_gradients


def rms_norm_forward(forward: Callable[..., Any]) -> None:
    """Check RMSNorm of rows that are far from centred, with a large and a small eps, and of rows of zeros."""
    rng = np.random.default_rng(101)
    for shape, scale, eps in (((3, 5), 0.8, 0.1), ((2, 3, 4), 1e-3, 1e-5)):
        x, gain = scale * (rng.normal(size=shape) + 1.5), rng.normal(size=shape[-1])
        agree(
            f"y, for eps = {eps},",
            forward(x, gain, eps),
            ops.rms_norm.forward(x, gain, eps=eps)[0],
            mistakes={words: gain * wrong for words, wrong in _wrong_rms(x, eps).items()}
            | {
                "this is x_hat: the gain is missing": x / np.sqrt(mean(x * x) + eps),
                "it is divided by the gain; multiply by it": x / np.sqrt(mean(x * x) + eps) / gain,
            },
        )
    with np.errstate(all="ignore"):
        found = forward(np.zeros((3, 4)), gain, 1e-5)
    agree("y, for rows of zeros,", found, np.zeros((3, 4)))


def _wrong_rms(x: np.ndarray, eps: float) -> dict[str, np.ndarray]:
    c, rms = x - mean(x), np.sqrt(mean(x * x))
    total = (x * x).sum(axis=-1, keepdims=True)
    return {
        "this is layer norm: RMSNorm subtracts no mean": c / np.sqrt(mean(c * c) + eps),
        "it is divided by the standard deviation; take the mean of x * x, without centring": (
            x / np.sqrt(mean(c * c) + eps)
        ),
        "the mean is subtracted from x; RMSNorm does not centre": c / np.sqrt(mean(x * x) + eps),
        "it is divided by the length of the row: the sum of the squares needs a division by D": x
        / np.sqrt(total + eps),
        "eps is added to the root mean square; it belongs inside the root, to the mean square": x / (rms + eps),
        "eps is missing: a row of zeros would divide by 0": x / rms,
        "it is divided by the mean square; take its square root": x / (mean(x * x) + eps),
        "it is divided by the mean of the absolute values; take the root of the mean square": x
        / (mean(np.abs(x)) + eps),
        "the mean square is that of the first axis; every row, along the last axis, has its own": x
        / np.sqrt((x * x).mean(axis=0) + eps),
        "the mean square runs along axis 1; every row, along the last axis, has its own": x
        / np.sqrt((x * x).mean(axis=1, keepdims=True) + eps),
        "the mean square is that of the whole array; every row has its own": x / np.sqrt((x * x).mean() + eps),
    }


def rms_norm_backward(backward: Callable[..., Any]) -> None:
    """Check both gradients, with rows that are far from centred."""
    rng = np.random.default_rng(102)
    for shape, eps in (((3, 5), 0.1), ((2, 3, 4), 0.2), ((4,), 0.1)):
        x, gain = rng.normal(size=shape) + 1, rng.normal(size=shape[-1])
        _rms_norm_gradients(backward, x, gain, eps)


def _rms_norm_gradients(backward: Callable[..., Any], x: np.ndarray, gain: np.ndarray, eps: float) -> None:
    D, rows = gain.size, tuple(range(x.ndim - 1))
    r = 1 / np.sqrt(mean(x * x) + eps)
    x_hat = r * x

    def mistakes(d_y: np.ndarray) -> dict[str, dict[str, np.ndarray]]:
        d = d_y * gain
        along = x_hat * mean(d * x_hat)
        of_d_y = x_hat * mean(d_y * x_hat)
        wrong_bracket = {
            "the mean of d_x_hat is subtracted too, as in layer norm; nothing was centred here": d - mean(d) - along,
            "the term with x_hat is missing: x_j acts on r too": d,
            "it is centred, but the term with x_hat is missing: there is no mean in RMSNorm, and x_j acts on r": (
                d - mean(d)
            ),
            "the gain is forgotten: d_x_hat is d_y * gain": d_y - of_d_y,
            "the gain multiplies the whole bracket; it belongs in d_x_hat, inside the mean": gain * (d_y - of_d_y),
            "the mean is taken of d_y * x_hat; take it of d_x_hat * x_hat, with the gain inside": d - of_d_y,
            "it has a sum instead of a mean: a factor 1/D is missing": d - D * along,
            "the term with x_hat has the wrong sign: if x_j grows, r falls": d + along,
            "the mean is not multiplied by x_hat_j": d - mean(d * x_hat),
            "the mean runs along the first axis; the features of a row lie along the last": (
                d - x_hat * (d * x_hat).mean(axis=0)
            ),
            "the mean is that of the whole array; each row has its own": d - x_hat * (d * x_hat).mean(),
            "a factor 1/2 is left: the derivative of the root has 1/2, that of the square 2": d - along / 2,
            "a factor 2 is left: the derivative of the square has 2, that of the root 1/2": d - 2 * along,
        }
        return {
            "d_x": {words: r * bracket for words, bracket in wrong_bracket.items()}
            | {
                "the factor r in front is missing": d - along,
                "it is divided by r; r is already 1 over the root mean square": (d - along) / r,
                "r multiplies only the first term, not the whole bracket": r * d - along,
                "the second term has x instead of x_hat": r * (d - x_hat / r * mean(d * x_hat / r)),
            },
            "d_gain": {
                "there are no sums yet: all rows use the same gain": d_y * x_hat,
                "it is the gradient of a bias; if the gain grows by 1, y grows by x_hat": d_y.sum(axis=rows),
                "it is the mean over the rows; add up all uses of the gain": (d_y * x_hat).mean(axis=rows),
                "only the first axis is summed over: all rows use the same gain": (d_y * x_hat).sum(axis=rows[:1]),
                "x is used instead of x_hat": (d_y * x).sum(axis=rows),
            },
        }

    check_gradients(
        lambda d_y: backward(x_hat, r, gain, d_y),
        lambda x, gain: ops.rms_norm.forward(x, gain, eps=eps)[0],
        {"x": x, "gain": gain},
        mistakes=mistakes,
    )


def swiglu_backward(backward: Callable[..., Any]) -> None:
    """Check the gradient of gates and values, for gates of both signs."""
    rng = np.random.default_rng(103)
    for shape in ((3, 6), (2, 3, 8), (2,)):
        _swiglu_gradient(backward, 1.5 * rng.normal(size=shape))


def _swiglu_gradient(backward: Callable[..., Any], x: np.ndarray) -> None:
    a, b = np.split(x, 2, axis=-1)
    z = 1 / (1 + np.exp(-a))
    u = a * z

    def mistakes(d_y: np.ndarray) -> dict[str, dict[str, np.ndarray]]:
        d_b = d_y * u
        d_a = d_y * b * (z + u * (1 - z))
        slopes = {
            "the derivative of u is z alone: a is also in z": z,
            "the derivative of u is that of the sigmoid alone: a is also the other factor": z * (1 - z),
            "the derivative of u lacks the factor a in its second term: it is z + a z (1 - z)": z + z * (1 - z),
            "the derivative of u is a z (1 - z) alone: the first factor has a derivative too": u * (1 - z),
            "the second term of du/da has the wrong sign": z - u * (1 - z),
            "the gate passes as if it were a ReLU: u is smooth": (a > 0).astype(float),
            "dz/da is z (1 + z) there; it is z (1 - z)": z + u * (1 + z),
            "dz/da is z there; it is z (1 - z)": z + u,
        }
        return {
            "d_x": {words: np.concatenate((d_y * b * slope, d_b), axis=-1) for words, slope in slopes.items()}
            | {
                "the halves are swapped: the gates come first": np.concatenate((d_b, d_a), axis=-1),
                "the gates' gradient lacks the factor b": np.concatenate((d_y * (z + u * (1 - z)), d_b), axis=-1),
                "u itself is in place of its derivative in d_a": np.concatenate((d_y * b * u, d_b), axis=-1),
                "d_b has the factor z; the value is multiplied by u = a z": np.concatenate((d_a, d_y * z), axis=-1),
                "d_b has the factor a; the value is multiplied by u = a z": np.concatenate((d_a, d_y * a), axis=-1),
                "d_b has the factor b; if b grows by 1, y grows by u": np.concatenate((d_a, d_y * b), axis=-1),
                "d_b is d_y; if b grows by 1, y grows by u": np.concatenate((d_a, d_y), axis=-1),
                "gates and values alternate; the gates are the first half": np.stack((d_a, d_b), -1).reshape(x.shape),
                "this is d_a alone; d_b follows it": d_a,
                "the two gradients are added; they belong side by side": d_a + d_b,
            }
        }

    check_gradients(lambda d_y: backward(x, d_y), lambda x: ops.swiglu.forward(x)[0], {"x": x}, mistakes=mistakes)


def grouped_heads_backward(backward: Callable[..., Any]) -> None:
    """Check which gradients are summed over a group: for two groups of two, two of three, one of three, two of one."""
    rng = np.random.default_rng(104)
    for B, H, G, Tq, Tk, Dk, Dv in (
        (1, 4, 2, 2, 2, 2, 2),
        (1, 6, 2, 1, 3, 2, 1),
        (2, 3, 1, 1, 2, 1, 2),
        (1, 2, 2, 1, 3, 1, 2),
    ):
        q, k, v = (rng.normal(size=shape) for shape in ((B, H, Tq, Dk), (B, G, Tk, Dk), (B, G, Tk, Dv)))
        _grouped_gradients(backward, q, k, v)


def _grouped_gradients(backward: Callable[..., Any], q: np.ndarray, k: np.ndarray, v: np.ndarray) -> None:
    G, n = k.shape[1], q.shape[1] // k.shape[1]
    attention = ops.scaled_dot_product_attention

    def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> Any:
        return attention.forward(q, np.repeat(k, n, axis=1), np.repeat(v, n, axis=1))

    def given(d_o: np.ndarray) -> list[np.ndarray]:
        return [np.array(d) for d in attention.backward(attend(q, k, v)[1], d_o)[:3]]

    def mistakes(d_o: np.ndarray) -> dict[str, dict[str, np.ndarray]]:
        d_q, d_k, d_v = given(d_o)
        return {
            "d_q": {
                "the queries are not shared: each head has its own, and its own gradient": np.repeat(
                    _add_up(d_q, G), n, axis=1
                ),
                "the queries are not shared: there are H heads of them, and none is summed": _add_up(d_q, G),
                "it is divided by the size of a group; each head of queries is used once": d_q / n,
            },
            "d_k": _wrong_groups(d_k, G, "keys"),
            "d_v": _wrong_groups(d_v, G, "values"),
        }

    check_gradients(
        lambda d_o: backward(*given(d_o), G),
        lambda q, k, v: attend(q, k, v)[0],
        {"q": q, "k": k, "v": v},
        output="o",
        mistakes=mistakes,
    )


def _add_up(d: np.ndarray, G: int) -> np.ndarray:
    """Return the sums over groups of neighbours: (B, H, T, D) -> (B, G, T, D)."""
    B, H, T, D = d.shape
    return np.asarray(d.reshape(B, G, H // G, T, D).sum(axis=2))


def _wrong_groups(d: np.ndarray, G: int, what: str) -> dict[str, np.ndarray]:
    B, H, T, D = d.shape
    n = H // G
    one = "one head of queries is taken for each group; add up all that use the same " + what
    return {
        f"nothing is summed yet: there are G heads of {what}, each used by H / G heads of queries": d,
        one: d[:, ::n],
        f"the first G heads are taken; add up all heads of queries that use the same {what}": d[:, :G],
        f"{one} (here the last one)": d[:, n - 1 :: n],
        "it is the mean over a group; add up all uses": _add_up(d, G) / n,
        f"the wrong heads are added: the {what} are shared by neighbours, h // (H / G), not h % G": (
            d.reshape(B, n, G, T, D).sum(axis=1)
        ),
        f"all heads are added up; each head of {what} has its own group": np.repeat(
            d.sum(axis=1, keepdims=True), G, axis=1
        ),
        "all heads are added up; there are G groups": d.sum(axis=1, keepdims=True),
        "the sums are repeated for each head of queries; return G heads": np.repeat(_add_up(d, G), n, axis=1),
        "the axis of the group is still there: sum over it": d.reshape(B, G, n, T, D),
    }


def top_p(nucleus: Callable[..., Any]) -> None:
    """Check which tokens are kept: below, at and above a sum, where one token is enough, and where all are needed."""
    sixteenths = np.array([1, 8, 1, 4, 2]) / 16
    nine = np.array([5, 35, 2, 21, 1, 14, 3, 11, 8]) / 100
    certain = np.array([0.0, 0.0, 1.0, 0.0])
    for p, limit in (
        (nine, 0.6),
        (sixteenths, 0.6),
        (sixteenths, 0.3),
        (sixteenths, 0.75),
        (sixteenths, 1.0),
        (nine, 0.93),
        (certain, 0.9),
    ):
        with np.errstate(all="ignore"):
            _nucleus(nucleus, p, limit)


def _nucleus(nucleus: Callable[..., Any], p: np.ndarray, limit: float) -> None:
    order = np.argsort(-p)
    n = min(1 + int(np.searchsorted(np.cumsum(p[order]), limit)), p.size)

    def keep(tokens: Any) -> np.ndarray:
        kept = np.zeros_like(p)
        kept[tokens] = p[tokens]
        return kept

    def share(tokens: Any) -> np.ndarray:
        return np.asarray(keep(tokens) / keep(tokens).sum())

    right = keep(order[:n])
    alone = "each probability is compared with top_p by itself; add up those of the most probable tokens"
    agree(
        f"the probabilities, for top_p = {limit},",
        nucleus(p, limit),
        SamplingOptions(top_p=limit).probabilities(np.log(p)),
        mistakes={
            "the token with which the sum reaches top_p is missing; it is kept": share(order[: n - 1]),
            "one token too many is kept: the sum had reached top_p before it": share(order[: n + 1]),
            "the rest is not divided by its sum": right,
            "the rest is divided by top_p; divide it by its sum": right / limit,
            alone: share(p >= limit),
            f"{alone} (here those of at least 1 - top_p)": share(p >= 1 - limit),
            "the least probable tokens are kept: sort the most probable first": share(
                order[::-1][: 1 + int(np.searchsorted(np.cumsum(p[order[::-1]]), limit))]
            ),
            "the sums run in the order of the vocabulary: sort the tokens first": share(
                np.arange(p.size) < 1 + np.searchsorted(np.cumsum(p), limit)
            ),
            "the probabilities are sorted; put them back where their tokens are": right[order] / right.sum(),
            "the share top_p of the tokens is kept, however probable they are": share(
                order[: int(np.ceil(limit * p.size))]
            ),
            "the softmax of the rest is taken; divide it by its sum": np.where(right > 0, np.exp(right), 0.0)
            / np.exp(right[right > 0]).sum(),
            "nothing is cut off: the improbable tokens may still be written": p,
        },
        inputs=f"p = {np.array2string(p, precision=4)}",
    )
