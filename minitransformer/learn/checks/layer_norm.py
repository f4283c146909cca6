"""Chapter 6: layer norm, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.learn.counterexample import Claim, claims_of, judge_claims, read_answer, read_arrays
from minitransformer.learn.verdict import Wrong, agree, check_gradients

B, T, D = 2, 3, 5
SHARED = "all B * T rows use the same D numbers"


def mean(x: np.ndarray) -> np.ndarray:
    """Return the mean of each row, (..., 1)."""
    return np.asarray(x.mean(axis=-1, keepdims=True))


def layer_norm_forward(forward: Callable[..., Any]) -> None:
    """Check layer norm on random rows, with a large and a small eps, and on rows of equal features."""
    rng = np.random.default_rng(61)
    rows = 0.8 * rng.normal(size=(T, D)) + 2
    for x, eps in ((rows, 0.1), (1e-3 * rng.normal(size=(B, T, 4)), 1e-5)):
        gain, bias = rng.normal(size=(2, x.shape[-1]))
        agree(
            f"y, for eps = {eps},",
            forward(x, gain, bias, eps),
            ops.layer_norm.forward(x, gain, bias, eps=eps)[0],
            mistakes=_wrong_forward(x, gain, bias, eps),
        )
    with np.errstate(all="ignore"):
        found = forward(np.full((T, 4), 3.0), gain, bias, 1e-5)
    agree("y, for rows of equal features,", found, np.tile(bias, (T, 1)))


def _wrong_forward(x: np.ndarray, gain: np.ndarray, bias: np.ndarray, eps: float) -> dict[str, np.ndarray]:
    c = x - mean(x)
    var = mean(c * c)
    std, sample_std = np.sqrt(var), x.std(axis=-1, keepdims=True, ddof=1)
    sigma, first_sigma = np.sqrt(var + eps), np.sqrt(x.var(axis=0) + eps)
    x_hat = c / sigma
    wrong_x_hat = {
        "eps is added to the standard deviation; it belongs inside the root, to the variance": c / (std + eps),
        "the variance is divided by D - 1; here it is a mean, divided by D": c / np.sqrt(sample_std**2 + eps),
        "the standard deviation is divided by D - 1 inside, and eps is added outside the root": c / (sample_std + eps),
        "eps is missing: a row of equal features would divide by 0": c / std,
        "it is divided by the variance; take its square root": c / (var + eps),
        "the statistics run over the first axis; every row, along the last axis, has its own": (
            (x - x.mean(axis=0)) / first_sigma
        ),
        "the variance is that of the first axis; every row, along the last axis, has its own": c / first_sigma,
        "the variance runs along axis 1; every row, along the last axis, has its own": (
            c / np.sqrt(x.var(axis=1, keepdims=True) + eps)
        ),
        "the statistics run along axis 1; every row, along the last axis, has its own": (
            (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + eps)
        ),
        "the variance is that of the whole array; every row has its own": c / np.sqrt(x.var() + eps),
        "the mean of the squares of x is used; the variance is that of the centred features": (
            c / np.sqrt(mean(x * x) + eps)
        ),
        "x itself is divided; divide the centred features": x / sigma,
    }
    return {words: gain * wrong + bias for words, wrong in wrong_x_hat.items()} | {
        "this is x_hat: gain and bias are missing": x_hat,
        "the bias is missing": gain * x_hat,
        "the gain multiplies the bias too; the bias is added last": gain * (x_hat + bias),
    }


def gain_and_bias_gradients(backward: Callable[..., Any]) -> None:
    """Check the gradients of gain and bias."""
    rng = np.random.default_rng(62)
    for shape in ((B, T, D), (4, 2, 3)):
        _gain_and_bias(backward, rng.normal(size=shape), rng.normal(size=shape[-1]), rng.normal(size=shape[-1]))


def _gain_and_bias(backward: Callable[..., Any], x_hat: np.ndarray, gain: np.ndarray, bias: np.ndarray) -> None:
    B, T, _ = x_hat.shape
    check_gradients(
        lambda d_y: backward(x_hat, d_y),
        lambda gain, bias: gain * x_hat + bias,
        {"gain": gain, "bias": bias},
        sizes={"B": B, "T": T, "B * T": B * T},
        mistakes=lambda d_y: {
            "d_gain": {
                f"there are no sums yet: {SHARED}": d_y * x_hat,
                f"only the first axis is summed over: {SHARED}": (d_y * x_hat).sum(axis=0),
                f"only the axis of positions is summed over: {SHARED}": (d_y * x_hat).sum(axis=1),
                "it is the mean over the rows; add up all uses of the gain": (d_y * x_hat).mean(axis=(0, 1)),
                "it is the gradient of the bias: the local derivative of gain * x_hat is x_hat": d_y.sum(axis=(0, 1)),
                "both are summed before they are multiplied; multiply first, then sum": d_y.sum(axis=(0, 1))
                * x_hat.sum(axis=(0, 1)),
                "d_y is missing: x_hat is the local derivative, and the chain rule multiplies it": x_hat.sum(
                    axis=(0, 1)
                ),
                "the features are summed as well: each has its own gain": (d_y * x_hat).sum(),
                "it is summed over the features; sum over the rows": (d_y * x_hat).sum(axis=-1),
            },
            "d_bias": {
                f"there are no sums yet: {SHARED}": d_y,
                f"only the first axis is summed over: {SHARED}": d_y.sum(axis=0),
                f"only the axis of positions is summed over: {SHARED}": d_y.sum(axis=1),
                "it is the mean over the rows; add up all uses of the bias": d_y.mean(axis=(0, 1)),
                "the features are summed as well: each has its own bias": d_y.sum(),
                "it is summed over the features; sum over the rows": d_y.sum(axis=-1),
            },
        },
    )


def centring_backward(backward: Callable[..., Any]) -> None:
    """Check the gradient of subtracting the mean of each row."""
    rng = np.random.default_rng(63)
    for shape in ((3, 4), (B, T, D)):
        check_gradients(
            backward,
            lambda x: x - mean(x),
            {"x": rng.normal(size=shape)},
            mistakes=lambda d_c: {
                "d_x": {
                    "only x_j's own c_j is counted; x_j is also a part of the mean, and so of every c_i": d_c,
                    "the mean runs along the first axis; the features of a row lie along the last": d_c
                    - d_c.mean(axis=0),
                    "the mean runs along axis 1; the features of a row lie along the last axis": d_c
                    - d_c.mean(axis=1, keepdims=True),
                    "the mean is that of the whole array; each row has its own": d_c - d_c.mean(),
                    "the sum of the row is subtracted; x_j has a share of 1/D in the mean": d_c
                    - d_c.sum(axis=-1, keepdims=True),
                    "only its own share is subtracted from each entry; sum over all i of the row": d_c
                    * (1 - 1 / d_c.shape[-1]),
                    "the sign of the second term is wrong: mu is subtracted": d_c + mean(d_c),
                }
            },
        )


def layer_norm_backward(backward: Callable[..., Any]) -> None:
    """Check the gradient of x."""
    rng = np.random.default_rng(64)
    for shape, eps in (((T, D), 0.1), ((B, T, 4), 0.2)):
        x, gain = rng.normal(size=shape), rng.normal(size=shape[-1])
        c = x - mean(x)
        r = 1 / np.sqrt(mean(c * c) + eps)
        _layer_norm_gradient(backward, x, r * c, r, gain, eps)


def _layer_norm_gradient(
    backward: Callable[..., Any], x: np.ndarray, x_hat: np.ndarray, r: np.ndarray, gain: np.ndarray, eps: float
) -> None:
    D = gain.size

    def mistakes(d_y: np.ndarray) -> dict[str, dict[str, np.ndarray]]:
        d = d_y * gain
        first, second = mean(d), x_hat * mean(d * x_hat)  # the terms that are subtracted
        of_d_y = mean(d_y) + x_hat * mean(d_y * x_hat)
        first_axis = d.mean(axis=0) + x_hat * (d * x_hat).mean(axis=0)
        whole = d.mean() + x_hat * (d * x_hat).mean()
        wrong_bracket = {
            "the term mean(d_x_hat) is missing: x_j acts on mu too": d - second,
            "the term with x_hat is missing, or it is 0: x_j acts on the variance too, and so on r. It has the mean of "
            "a product; a product of two means is 0 there, since the mean of x_hat is 0": d - first,
            "both means are missing: mu and r are not constants, they depend on x": d,
            "the gain is forgotten: d_x_hat is d_y * gain": d_y - of_d_y,
            "the gain multiplies the whole bracket; it belongs in d_x_hat, inside the means": gain * (d_y - of_d_y),
            "the means are taken of d_y; take them of d_x_hat, with the gain inside": d - of_d_y,
            "it has sums instead of means: a factor 1/D is missing in both": d - D * first - D * second,
            "the second term has a sum instead of a mean": d - first - D * second,
            "the second mean is divided by D - 1; the variance was divided by D": d - first - D / (D - 1) * second,
            "the second mean is not multiplied by x_hat_j": d - first - mean(d * x_hat),
            "the means run along the first axis; the features of a row lie along the last": d - first_axis,
            "the means are those of the whole array; each row has its own": d - whole,
            "the second term has the wrong sign: both are subtracted": d - first + second,
            "both terms are added; subtract them": d + first + second,
        }
        return {
            "d_x": {words: r * bracket for words, bracket in wrong_bracket.items()}
            | {
                "the factor r in front is missing": d - first - second,
                "it is divided by r; r is already 1 over the standard deviation": (d - first - second) / r,
                "r multiplies only the first term, not the whole bracket": r * d - first - second,
            }
        }

    check_gradients(
        lambda d_y: backward(x_hat, r, gain, d_y),
        lambda x: ops.layer_norm.forward(x, gain, np.zeros(D), eps=eps)[0],
        {"x": x},
        mistakes=mistakes,
    )


def find_the_wrong_layer_norm(counterexample: Callable[..., Any]) -> str:
    """Check the rows and the eps on which one layer norm is seen to be another function."""
    names = claims_of("find-the-wrong-layer-norm")
    letter, values = read_answer(counterexample, "abcde", ["x", "eps"])
    x, eps = read_arrays(values, {"x": "T D", "eps": ""}).values()
    if eps <= 0:
        raise Wrong(f"eps should be greater than 0, found {eps:g}.")
    with np.errstate(all="ignore"):
        expected = {"y": ops.layer_norm.forward(x, np.ones(x.shape[-1]), np.zeros(x.shape[-1]), eps=float(eps))[0]}
        claims = {name: Claim({"y": names[name](x, float(eps))}, expected) for name in "abcde"}
    return judge_claims(letter, "b", claims, "layer norm")
