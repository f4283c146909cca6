"""Chapter 1: local derivatives and the chain rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitransformer.learn.counterexample import (
    Claim,
    claims_of,
    judge_claims,
    measure_gradients,
    read_answer,
    read_arrays,
)
from minitransformer.learn.verdict import agree, check_gradients


def product_rule(backward: Callable[..., Any]) -> None:
    """Check the gradients of x * y."""
    x, y = np.array(3.0), np.array(-0.5)
    check_gradients(
        lambda d_z: backward(float(x), float(y), float(d_z)),
        np.multiply,
        {"x": x, "y": y},
        mistakes=lambda d_z: {
            "d_x": {
                "x and y are exchanged: if x grows by 1, z grows by y": d_z * x,
                "it is dz/dx alone; the chain rule multiplies it by d_z": y,
            },
            "d_y": {"it is dz/dy alone; the chain rule multiplies it by d_z": x},
        },
    )


def chain_rule(backward: Callable[..., Any]) -> None:
    """Check the gradient of sin(x * x)."""
    x = np.array(1.7)
    check_gradients(
        lambda d_y: backward(float(x), float(d_y)),
        lambda x: np.sin(x * x),
        {"x": x},
        mistakes=lambda d_y: {
            "d_x": {
                "x stands in x * x twice, and both count: its derivative is 2 * x": d_y * np.cos(x * x) * x,
                "it is the local derivative alone; multiply it by d_u": 2 * x,
            }
        },
    )


def tanh_from_its_output(backward: Callable[..., Any]) -> None:
    """Check the gradient of tanh, from y."""
    x = np.array([-1.2, 0.3, 0.9])

    def each(d_y: np.ndarray) -> np.ndarray | None:
        found = [backward(float(y), float(d)) for y, d in zip(np.tanh(x), d_y, strict=True)]
        return None if None in found else np.array(found)

    check_gradients(
        each,
        np.tanh,
        {"x": x},
        mistakes=lambda d_y: {
            "d_x": {
                "the tanh is taken once more: y is tanh(x) already": d_y * (1 - np.tanh(np.tanh(x)) ** 2),
                "it is the local derivative alone; multiply it by d_y": 1 - np.tanh(x) ** 2,
            }
        },
    )


def relu_and_its_corner(backward: Callable[..., Any]) -> None:
    """Check the gradient of relu, and that it is 0 at 0."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3, 4))
    check_gradients(
        lambda d_y: backward(x, d_y),
        lambda x: np.maximum(x, 0.0),
        {"x": x},
        mistakes=lambda d_y: {
            "d_x": {
                "it is 1 where the gradient should go through; multiply it by d_y": (x > 0).astype(float),
                "the sign of d_y decides; that of x should": np.maximum(d_y, 0.0),
            }
        },
    )
    agree("d_x where x is exactly 0", backward(np.array([0.0, 2.0]), np.array([5.0, 3.0])), np.array([0.0, 3.0]))


def find_the_wrong_scalar(counterexample: Callable[..., Any]) -> str:
    """Check the x at which one derivative is seen to be wrong."""
    pairs = claims_of("find-the-wrong-scalar")["FUNCTIONS"]
    letter, values = read_answer(counterexample, pairs, ["x"])
    x = read_arrays(values, {"x": ""})["x"]

    def measure(function: Callable[..., float], derivative: Callable[..., float]) -> Claim:
        return measure_gradients(function, lambda: [derivative(float(x))], {"dy/dx": x}, 1.0)

    claims = {name: measure(*pair) for name, pair in pairs.items()}
    return judge_claims(letter, "c", claims, "the difference quotient")
