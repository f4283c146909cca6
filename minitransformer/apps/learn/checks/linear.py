"""The backward pass of matrix products and linear layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitransformer.apps.learn.comparing import check_backward
from minitransformer.apps.learn.verdict import check_cases


def matmul_backward(backward: Callable[..., Any]) -> None:
    """Check both gradients of a matrix product: first of a square one, in which shapes hide a forgotten transpose."""
    rng = np.random.default_rng(9)
    for T, D, F in ((3, 3, 3), (3, 4, 5), (6, 2, 3)):
        inputs = {"x": rng.normal(size=(T, D)), "w": rng.normal(size=(D, F))}
        check_backward("matmul-backward", backward, np.matmul, inputs)


def one_weight_for_a_batch(backward: Callable[..., Any]) -> None:
    """Check both gradients of (B, T, D) @ (D, F): first where all four are equal, and shapes hide a transpose."""
    rng = np.random.default_rng(10)

    def check(B: int, T: int, D: int, F: int) -> None:
        inputs = {"x": rng.normal(size=(B, T, D)), "w": rng.normal(size=(D, F))}
        check_backward("one-weight-for-a-batch", backward, np.matmul, inputs)

    check_cases(check, ((2, 2, 2, 2), (3, 2, 4, 5), (1, 3, 4, 5), (3, 1, 4, 5)))


def linear_backward(backward: Callable[..., Any]) -> None:
    """Check all three gradients of x w + b: first with a square w, in which shapes hide a forgotten transpose."""
    rng = np.random.default_rng(18)

    def check(B: int, T: int, D: int, F: int) -> None:
        x, w, b = rng.normal(size=(B, T, D)), rng.normal(size=(D, F)), rng.normal(size=F)
        inputs, sizes = {"x": x, "w": w, "b": b}, {"B": B, "T": T, "B T": B * T}
        check_backward("linear-backward", backward, lambda x, w, b: x @ w + b, inputs, (x, w), sizes=sizes)

    check_cases(check, ((3, 2, 4, 4), (2, 3, 4, 5), (3, 3, 3, 3), (1, 3, 4, 5), (3, 1, 4, 5)))
