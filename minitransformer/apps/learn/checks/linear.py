"""The backward pass of matrix products and linear layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitransformer.apps.learn.solutions import mistaken_parts
from minitransformer.apps.learn.verdict import check_cases, check_gradients


def matmul_backward(backward: Callable[..., Any]) -> None:
    """Check both gradients of a matrix product: first of a square one, in which shapes hide a forgotten transpose."""
    rng = np.random.default_rng(9)
    for T, D, F in ((3, 3, 3), (3, 4, 5), (6, 2, 3)):
        _matmul(backward, rng.normal(size=(T, D)), rng.normal(size=(D, F)))


def _matmul(backward: Callable[..., Any], x: np.ndarray, w: np.ndarray) -> None:
    check_gradients(
        lambda d_y: backward(x, w, d_y),
        np.matmul,
        {"x": x, "w": w},
        mistakes=lambda d_y: mistaken_parts("matmul-backward", ["d_x", "d_w"], x, w, d_y),
    )


def one_weight_for_a_batch(backward: Callable[..., Any]) -> None:
    """Check both gradients of (B, T, D) @ (D, F): first where all four are equal, and shapes hide a transpose."""
    rng = np.random.default_rng(10)

    def check(B: int, T: int, D: int, F: int) -> None:
        _one_weight(backward, rng.normal(size=(B, T, D)), rng.normal(size=(D, F)))

    check_cases(check, ((2, 2, 2, 2), (3, 2, 4, 5), (1, 3, 4, 5), (3, 1, 4, 5)))


def _one_weight(backward: Callable[..., Any], x: np.ndarray, w: np.ndarray) -> None:
    check_gradients(
        lambda d_y: backward(x, w, d_y),
        np.matmul,
        {"x": x, "w": w},
        mistakes=lambda d_y: mistaken_parts("one-weight-for-a-batch", ["d_x", "d_w"], x, w, d_y),
    )


def linear_backward(backward: Callable[..., Any]) -> None:
    """Check all three gradients of x w + b: first with a square w, in which shapes hide a forgotten transpose."""
    rng = np.random.default_rng(18)

    def check(B: int, T: int, D: int, F: int) -> None:
        _linear(backward, rng.normal(size=(B, T, D)), rng.normal(size=(D, F)), rng.normal(size=F))

    check_cases(check, ((3, 2, 4, 4), (2, 3, 4, 5), (3, 3, 3, 3), (1, 3, 4, 5), (3, 1, 4, 5)))


def _linear(backward: Callable[..., Any], x: np.ndarray, w: np.ndarray, b: np.ndarray) -> None:
    B, T, _ = x.shape
    check_gradients(
        lambda d_y: backward(x, w, d_y),
        lambda x, w, b: x @ w + b,
        {"x": x, "w": w, "b": b},
        sizes={"B": B, "T": T, "B T": B * T},
        mistakes=lambda d_y: mistaken_parts("linear-backward", ["d_x", "d_w", "d_b"], x, w, d_y),
    )
