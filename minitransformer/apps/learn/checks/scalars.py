"""Local derivatives and the chain rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minitransformer.apps.learn.comparing import check_backward
from minitransformer.apps.learn.counterexample import (
    Claim,
    claims_of,
    judge_claims,
    measure_gradients,
    read_answer,
    read_arrays,
)
from minitransformer.apps.learn.verdict import agree


def draw(seed: int, *ranges: tuple[float, float]) -> Iterator[list[np.ndarray]]:
    """Yield points: a number from each range, easy to compare, of either sign."""
    rng = np.random.default_rng(seed)
    for _ in range(3):
        yield [np.array((rng.uniform(*one) * rng.choice((-1, 1))).round(2)) for one in ranges]


def product_rule(backward: Callable[..., Any]) -> None:
    """Check the gradients of x * y."""
    for x, y in draw(3, (1.5, 4.0), (0.2, 0.8)):
        check_backward("product-rule", backward, np.multiply, {"x": x, "y": y}, floats=True, output="z")


def chain_rule(backward: Callable[..., Any]) -> None:
    """Check the gradient of sin(x * x)."""
    for (x,) in draw(4, (0.4, 2.0)):
        check_backward("chain-rule", backward, lambda x: np.sin(x * x), {"x": x}, floats=True)


def tanh_from_its_output(backward: Callable[..., Any]) -> None:
    """Check the gradient of tanh, from y."""
    for (drawn,) in draw(5, (0.2, 1.5)):
        x = np.arctanh(np.tanh(drawn).round(3))
        y = np.tanh(x)
        check_backward("tanh-from-its-output", backward, np.tanh, {"x": x}, (y,), floats=True, shown={"y": y})


def relu_and_its_corner(backward: Callable[..., Any]) -> None:
    """Check the gradient of relu, and that it is 0 at 0."""
    rng = np.random.default_rng(1)
    for shape in ((3, 4), (5,)):
        x = rng.normal(size=shape)
        check_backward("relu-and-its-corner", backward, lambda x: np.maximum(x, 0.0), {"x": x})
    x, d_y = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    x[:, 1] = 0.0
    agree("d_x, where x is exactly 0 in places,", backward(x, d_y), np.where(x > 0, d_y, 0.0))


def find_the_wrong_scalar(counterexample: Callable[..., Any]) -> str:
    """Check the x at which one derivative is seen to be wrong."""
    pairs = claims_of("find-the-wrong-scalar")["FUNCTIONS"]
    letter, values = read_answer(counterexample, pairs, ["x"])
    x = read_arrays(values, {"x": ""})["x"]

    def measure(function: Callable[..., float], derivative: Callable[..., float]) -> Claim:
        return measure_gradients(function, lambda: [derivative(float(x))], {"dy/dx": x}, 1.0)

    claims = {name: measure(*pair) for name, pair in pairs.items()}
    return judge_claims(letter, "c", claims, "the difference quotient")
