"""Rotary positions, and scores that depend on the distance alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.apps.learn.comparing import check_backward, check_result
from minitransformer.apps.learn.counterexample import Claim, claims_of, judge_claims, read_answer, read_arrays
from minitransformer.apps.learn.verdict import Wrong


def _angles(positions: np.ndarray, d: int) -> np.ndarray:
    return np.asarray(positions[:, None] / 10000 ** (np.arange(0, d, 2) / d))  # (T, D/2)


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
        _rotary_gradient(backward, rng.normal(size=shape), first)


def _rotary_gradient(backward: Callable[..., Any], x: np.ndarray, first: int) -> None:
    angle = _angles(np.arange(first, first + x.shape[-2]), x.shape[-1])
    cos, sin = np.cos(angle), np.sin(angle)
    check_backward("rotary-backward", backward, lambda x: ops.rotary.forward(x, first=first)[0], {"x": x}, (cos, sin))


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
