"""Chapter 9: rotary positions, and scores that depend on the distance alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.learn.counterexample import Claim, claims_of, judge_claims, read_answer, read_arrays
from minitransformer.learn.verdict import Wrong, agree, check_gradients


def _angles(positions: np.ndarray, d: int) -> np.ndarray:
    return np.asarray(positions[:, None] / 10000 ** (np.arange(0, d, 2) / d))  # (T, D/2)


def _weave(even: np.ndarray, odd: np.ndarray) -> np.ndarray:
    """Return the features in turns: (..., D/2) twice -> (..., D)."""
    return np.stack((even, odd), axis=-1).reshape(*even.shape[:-1], -1)


def _turn(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    even, odd = x[..., 0::2], x[..., 1::2]
    return _weave(even * cos - odd * sin, even * sin + odd * cos)


def _other_turns(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> dict[str, np.ndarray]:
    """Return rotations with one mistake each that can be made forwards and backwards."""
    even, odd = x[..., 0::2], x[..., 1::2]
    left, right = np.split(x, 2, axis=-1)
    first, second = even * cos - odd * sin, even * sin + odd * cos
    return {
        "the features i and i + D/2 are paired; here neighbours are a pair, 2i and 2i + 1": np.concatenate(
            (left * cos - right * sin, left * sin + right * cos), axis=-1
        ),
        "the results are right, but all first features come before all second ones; put each where it belongs": (
            np.concatenate((first, second), axis=-1)
        ),
        "the second feature of a pair is computed from the new value of the first; it needs the old one": _weave(
            first, first * sin + odd * cos
        ),
        "the first feature of a pair is computed from the new value of the second; it needs the old one": _weave(
            even * cos - second * sin, second
        ),
        "the terms with the sine are missing": _weave(even * cos, odd * cos),
        "sine and cosine are swapped": _turn(x, sin, cos),
        "one term has the wrong sign: exactly one of the two sines has a minus": _weave(
            even * cos + odd * sin, even * sin + odd * cos
        ),
        "one term has the wrong sign: exactly one of the two sines has a minus, here both have one": _weave(
            even * cos - odd * sin, odd * cos - even * sin
        ),
        "a pair is reflected, not turned: both cosines have a plus": _weave(first, even * sin - odd * cos),
        "the two features of each pair are swapped": _weave(second, first),
    }


def rotary_forward(rotate: Callable[..., Any]) -> None:
    """Check the rotation from position 0, and of heads whose first row is further on."""
    rng = np.random.default_rng(106)
    for shape, first in (((3, 4), 0), ((2, 3, 4, 6), 7), ((1, 8), 100)):
        x, positions = rng.normal(size=shape), np.arange(first, first + shape[-2])
        angle = _angles(positions, shape[-1])
        cos, sin = np.cos(angle), np.sin(angle)
        from_0 = _angles(np.arange(shape[-2]), shape[-1])
        agree(
            f"y, for positions from {first},",
            rotate(x, positions),
            ops.rotary.forward(x, first=first)[0],
            mistakes={
                "it turns the other way: the sine has its minus in y_2i": _turn(x, cos, -sin),
                **_other_turns(x, cos, sin),
                "the rows are counted from 0; row n stands at positions[n]": _turn(x, np.cos(from_0), np.sin(from_0)),
                "the waves are added, as sinusoidal positions; here they multiply": x + _weave(sin, cos),
                "the positions are not used: nothing is turned": x,
            },
        )


def rotary_backward(backward: Callable[..., Any]) -> None:
    """Check the gradient, which turns back."""
    rng = np.random.default_rng(107)
    for shape, first in (((3, 4), 0), ((2, 2, 3, 6), 7)):
        _rotary_gradient(backward, rng.normal(size=shape), first)


def _rotary_gradient(backward: Callable[..., Any], x: np.ndarray, first: int) -> None:
    angle = _angles(np.arange(first, first + x.shape[-2]), x.shape[-1])
    cos, sin = np.cos(angle), np.sin(angle)
    check_gradients(
        lambda d_y: backward(cos, sin, d_y),
        lambda x: ops.rotary.forward(x, first=first)[0],
        {"x": x},
        mistakes=lambda d_y: {
            "d_x": {
                "it is turned forwards: the transpose of a rotation turns back": _turn(d_y, cos, sin),
                **_other_turns(d_y, cos, -sin),
                "nothing is turned: x_2i is in y_2i and in y_2i+1": d_y,
            }
        },
    )


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
