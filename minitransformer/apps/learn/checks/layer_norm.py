"""Layer norm, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.apps.learn.comparing import check_backward, check_result
from minitransformer.apps.learn.counterexample import Claim, claims_of, judge_claims, read_answer, read_arrays
from minitransformer.apps.learn.verdict import Wrong, agree

B, T, D = 2, 3, 5


def mean(x: np.ndarray) -> np.ndarray:
    """Return the mean of each row, (..., 1)."""
    return np.asarray(x.mean(axis=-1, keepdims=True))


def layer_norm_forward(forward: Callable[..., Any]) -> None:
    """Check layer norm on random rows, with a large and a small eps, and on rows of equal features."""
    rng = np.random.default_rng(61)
    rows = 0.8 * rng.normal(size=(T, D)) + 2
    for x, eps in ((rows, 0.1), (1e-3 * rng.normal(size=(B, T, 4)), 1e-5)):
        gain, bias = rng.normal(size=(2, x.shape[-1]))
        expected = ops.layer_norm.forward(x, gain, bias, eps=eps)[0]
        check_result("layer-norm-forward", f"y, for eps = {eps},", forward, (x, gain, bias, eps), expected)
    with np.errstate(all="ignore"):
        found = forward(np.full((T, 4), 3.0), gain, bias, 1e-5)
    agree("y, for rows of equal features,", found, np.tile(bias, (T, 1)))


def gain_and_bias_gradients(backward: Callable[..., Any]) -> None:
    """Check the gradients of gain and bias."""
    rng = np.random.default_rng(62)
    for b, t, d in ((B, T, D), (4, 2, 3)):
        x_hat, sizes = rng.normal(size=(b, t, d)), {"B": b, "T": t, "B * T": b * t}
        inputs = {"gain": rng.normal(size=d), "bias": rng.normal(size=d)}
        affine = lambda gain, bias, x_hat=x_hat: gain * x_hat + bias  # noqa: E731
        check_backward("gain-and-bias-gradients", backward, affine, inputs, (x_hat,), sizes=sizes)


def centring_backward(backward: Callable[..., Any]) -> None:
    """Check the gradient of subtracting the mean of each row."""
    rng = np.random.default_rng(63)
    for shape in ((3, 4), (B, T, D)):
        check_backward("centring-backward", backward, lambda x: x - mean(x), {"x": rng.normal(size=shape)}, ())


def layer_norm_backward(backward: Callable[..., Any]) -> None:
    """Check the gradient of x."""
    rng = np.random.default_rng(64)
    for shape, eps in (((T, D), 0.1), ((B, T, 4), 0.2)):
        x, gain = rng.normal(size=shape), rng.normal(size=shape[-1])
        c = x - mean(x)
        r = 1 / np.sqrt(mean(c * c) + eps)
        check_backward("layer-norm-backward", backward, partial(_norm, gain=gain, eps=eps), {"x": x}, (r * c, r, gain))


def _norm(x: np.ndarray, gain: np.ndarray, eps: float) -> Any:
    return ops.layer_norm.forward(x, gain, np.zeros(x.shape[-1]), eps=eps)[0]


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
