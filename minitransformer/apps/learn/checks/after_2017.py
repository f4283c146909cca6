"""RMSNorm, SwiGLU, grouped heads, rotary positions, top-p and low-rank adaptation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.apps.learn.checks.layer_norm import mean
from minitransformer.apps.learn.comparing import check_backward, check_result
from minitransformer.apps.learn.counterexample import Claim, claims_of, judge_claims, read_answer, read_arrays
from minitransformer.apps.learn.solutions import mistaken, mistaken_parts, solution_of
from minitransformer.apps.learn.verdict import Wrong, agree, check_gradients, take
from minitransformer.decoding import SamplingOptions


def rms_norm_forward(forward: Callable[..., Any]) -> None:
    """Check RMSNorm of rows that are far from centred, with a large and a small eps, and of rows of zeros."""
    rng = np.random.default_rng(101)
    for shape, scale, eps in (((3, 5), 0.8, 0.1), ((2, 3, 4), 1e-3, 1e-5)):
        x, gain = scale * (rng.normal(size=shape) + 1.5), rng.normal(size=shape[-1])
        expected = ops.rms_norm.forward(x, gain, eps=eps)[0]
        check_result("rms-norm-forward", f"y, for eps = {eps},", forward, (x, gain, eps), expected)
    with np.errstate(all="ignore"):
        found = forward(np.zeros((3, 4)), gain, 1e-5)
    agree("y, for rows of zeros,", found, np.zeros((3, 4)))


def rms_norm_backward(backward: Callable[..., Any]) -> None:
    """Check both gradients, with rows that are far from centred."""
    rng = np.random.default_rng(102)
    for shape, eps in (((3, 5), 0.1), ((2, 3, 4), 0.2), ((4,), 0.1)):
        x, gain = rng.normal(size=shape) + 1, rng.normal(size=shape[-1])
        r, inputs = 1 / np.sqrt(mean(x * x) + eps), {"x": x, "gain": gain}
        check_backward("rms-norm-backward", backward, partial(_rms_norm, eps=eps), inputs, (r * x, r, gain))


def _rms_norm(x: np.ndarray, gain: np.ndarray, eps: float) -> Any:
    return ops.rms_norm.forward(x, gain, eps=eps)[0]


def swiglu_backward(backward: Callable[..., Any]) -> None:
    """Check the gradient of gates and values, for gates of both signs."""
    rng = np.random.default_rng(103)
    for shape in ((3, 6), (2, 3, 8), (2,)):
        x = 1.5 * rng.normal(size=shape)
        check_backward("swiglu-backward", backward, lambda x: ops.swiglu.forward(x)[0], {"x": x})


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

    def given(d_o: np.ndarray) -> list[Any]:
        return [*(np.array(d) for d in attention.backward(attend(q, k, v)[1], d_o)[:3]), G]

    inputs = {"q": q, "k": k, "v": v}
    check_backward("grouped-heads-backward", backward, lambda q, k, v: attend(q, k, v)[0], inputs, given, output="o")


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
    kept = nucleus(np.full(4, 0.25), 0.5)  # whichever two
    agree("the probabilities, for top_p = 0.5,", np.sort(kept), [0, 0, 0.5, 0.5], inputs="p = [0.25 0.25 0.25 0.25]")


def _nucleus(nucleus: Callable[..., Any], p: np.ndarray, limit: float) -> None:
    known, high = mistaken("top-p", p, limit), p * (p >= 1 - limit)
    alone = "each probability is compared with top_p by itself; add up those of the most probable tokens"
    known[f"{alone} (here those of at least 1 - top_p)"] = high / high.sum()
    agree(
        f"the probabilities, for top_p = {limit},",
        nucleus(p, limit),
        SamplingOptions(top_p=limit).probabilities(np.log(p)),
        mistakes=known,
        inputs=f"p = {np.array2string(p, precision=4)}",
    )


def rotary_forward(rotate: Callable[..., Any]) -> None:
    """Check the rotation from position 0, and of heads whose first row is further on."""
    rng = np.random.default_rng(106)
    for shape, first in (((3, 4), 0), ((2, 3, 4, 6), 7), ((1, 8), 100)):
        x, positions = rng.normal(size=shape), np.arange(first, first + shape[-2])
        name, expected = f"y, for positions from {first},", ops.rotary.forward(x, first=first)[0]
        check_result("rotary-forward", name, rotate, (x, positions), expected)


def rotary_backward(backward: Callable[..., Any]) -> None:
    """Check the gradient, which turns back."""
    rng = np.random.default_rng(107)
    for shape, first in (((3, 4), 0), ((2, 2, 3, 6), 7)):
        x, positions = rng.normal(size=shape), np.arange(first, first + shape[-2])
        angle = positions[:, None] / 10000 ** (np.arange(0, shape[-1], 2) / shape[-1])  # (T, D/2)
        rotate = lambda x, first=first: ops.rotary.forward(x, first=first)[0]  # noqa: E731
        check_backward("rotary-backward", backward, rotate, {"x": x}, (np.cos(angle), np.sin(angle)))


def find_the_wrong_positions(counterexample: Callable[..., Any]) -> str:
    """Check the queries and keys whose scores change with their positions, at the same distances."""
    names = claims_of("find-the-wrong-positions")
    letter, values = read_answer(counterexample, "abcde", ["q", "k", "first"])
    q, k, first = read_arrays(values, {"q": "T D", "k": "T D", "first": ""}).values()
    if q.shape[1] % 2:
        raise Wrong(f"D should be even, because features are turned in pairs; found D = {q.shape[1]}.")
    at_0 = np.arange(len(q))
    with np.errstate(all="ignore"):
        claims = {
            name: Claim({"scores": names[name](q, k, at_0 + first)}, {"scores": names[name](q, k, at_0)})
            for name in "abcde"
        }
    return judge_claims(letter, "d", claims, "its scores at the positions 0, 1, ...")


def low_rank_adaptation(both_passes: Callable[..., Any]) -> None:
    """Check the output and the gradients of what is not fixed, for a scale above 1 and below."""
    rng = np.random.default_rng(108)
    for rows, D, F, r, alpha in (((2, 3), 5, 4, 2, 3.0), ((4, 1), 3, 2, 1, 0.4)):
        x, w, a, b = (rng.normal(size=size) for size in ((*rows, D), (D, F), (D, r), (r, F)))
        _low_rank(both_passes, x, w, a, b, alpha)


def _low_rank(
    both_passes: Callable[..., Any], x: np.ndarray, w: np.ndarray, a: np.ndarray, b: np.ndarray, alpha: float
) -> None:
    names = ["y", "d_x", "d_a", "d_b"]

    def adapted(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> Any:
        return ops.low_rank_linear.forward(x, w, a, b, alpha=alpha)[0]

    def found(d_y: Any) -> list[Any]:
        return take(names, both_passes(x, w, a, b, alpha, d_y))

    def known(d_y: Any) -> Any:
        return mistaken_parts("low-rank-adaptation", names, x, w, a, b, alpha, d_y)

    y = adapted(x, a, b)
    agree("y", found(y)[0], y, mistakes=known(y)["y"])
    right = lambda d_y: solution_of("low-rank-adaptation")(x, w, a, b, alpha, d_y)[1:]  # noqa: E731
    check_gradients(lambda d: found(d)[1:], adapted, {"x": x, "a": a, "b": b}, mistakes=known, solution=right)
