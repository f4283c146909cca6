"""Chapter 3: the backward pass of matrix products and linear layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitransformer.learn.verdict import check_cases, check_gradients


def matmul_backward(backward: Callable[..., Any]) -> None:
    """Check both gradients of a matrix product: first of a square one, in which shapes hide a forgotten transpose."""
    rng = np.random.default_rng(9)
    for T, D, F in ((3, 3, 3), (3, 4, 5), (6, 2, 3)):
        _matmul(backward, rng.normal(size=(T, D)), rng.normal(size=(D, F)))


def _matmul(backward: Callable[..., Any], x: np.ndarray, w: np.ndarray) -> None:
    def mistakes(d_y: np.ndarray) -> Any:
        if x.shape != w.shape:
            return {}
        return {
            "d_x": {
                "w is not transposed: the sum is over the second index of both": d_y @ w,
                "the factors are swapped: d_y comes first": w.T @ d_y,
                "the factors are swapped, and nothing is transposed": w @ d_y,
                "it is transposed: (d_y w^T)^T is w d_y^T, and d_x is d_y w^T": w @ d_y.T,
                "d_y is transposed; transpose w instead": d_y.T @ w,
                "this is d_w; the gradient of x comes first": x.T @ d_y,
            },
            "d_w": {
                "x is not transposed: the sum is over the first index of both": x @ d_y,
                "the factors are swapped: x comes first": d_y @ x.T,
                "the factors are swapped, and nothing is transposed": d_y @ x,
                "it is transposed: (x^T d_y)^T is d_y^T x, and d_w is x^T d_y": d_y.T @ x,
                "d_y is transposed; transpose x instead": x @ d_y.T,
            },
        }

    check_gradients(lambda d_y: backward(x, w, d_y), np.matmul, {"x": x, "w": w}, mistakes=mistakes)


def one_weight_for_a_batch(backward: Callable[..., Any]) -> None:
    """Check both gradients of (B, T, D) @ (D, F): first where all four are equal, and shapes hide a transpose."""
    rng = np.random.default_rng(10)

    def check(B: int, T: int, D: int, F: int) -> None:
        _one_weight(backward, rng.normal(size=(B, T, D)), rng.normal(size=(D, F)))

    check_cases(check, ((2, 2, 2, 2), (3, 2, 4, 5), (1, 3, 4, 5), (3, 1, 4, 5)))


def unlike_rows(x: np.ndarray, d_y: np.ndarray, name: str, d_name: str) -> dict[str, np.ndarray]:
    """Return the gradient of a weight where only one of two arrays was made a matrix of all rows, or none.

    NumPy multiplies these by chance only: if there is one sentence, if it has one position, or if all sizes are equal.
    """
    B, T, D = x.shape
    wrong: dict[str, np.ndarray] = {}
    if B == 1:
        words = f"{name} is one matrix of all rows, and {d_name} is not: reshape it in the same way"
        wrong[words] = x.reshape(-1, D).T @ d_y
    if B == T:
        words = f"{name}.T reverses all three axes; make one matrix of all rows first, then transpose"
        wrong[words] = x.T @ d_y
    if T == D:
        words = f"{name} is not transposed, and a sum is missing: all sentences share the weight"
        wrong[words] = x @ d_y
    if T == 1:
        words = f"{d_name} is one matrix of all rows, and {name} is not: {name}.T reverses all three axes"
        wrong[words] = x.T @ d_y.reshape(-1, d_y.shape[-1])
    return wrong


def _one_weight(backward: Callable[..., Any], x: np.ndarray, w: np.ndarray) -> None:
    (B, T, D), F = x.shape, w.shape[1]

    def mistakes(d_y: np.ndarray) -> Any:
        right = x.reshape(-1, D).T @ d_y.reshape(-1, F)
        d_x: dict[str, np.ndarray] = {}
        d_w = unlike_rows(x, d_y, "x", "d_y") | {
            "it is the gradient from the first sentence alone; add up all of them": x[0].T @ d_y[0],
            "it is the gradient from the last sentence alone; add up all of them": x[-1].T @ d_y[-1],
            "the entries are mixed up: reshape does not move axes; reshape first, then transpose": (
                x.reshape(D, -1) @ d_y.reshape(-1, F)
            ),
            "a sum is missing: there is one product for each sentence; add them up": x.swapaxes(1, 2) @ d_y,
            "it is the mean over the sentences; add them up": right / B,
            "it is the mean over all rows; add them up": right / (B * T),
        }
        if B == T == D == F:
            d_x["w is not transposed: the sum is over f, the second index of w"] = d_y @ w
        return {"d_x": d_x, "d_w": d_w}

    check_gradients(lambda d_y: backward(x, w, d_y), np.matmul, {"x": x, "w": w}, mistakes=mistakes)


def linear_backward(backward: Callable[..., Any]) -> None:
    """Check all three gradients of x w + b: first with a square w, in which shapes hide a forgotten transpose."""
    rng = np.random.default_rng(18)

    def check(B: int, T: int, D: int, F: int) -> None:
        _linear(backward, rng.normal(size=(B, T, D)), rng.normal(size=(D, F)), rng.normal(size=F))

    check_cases(check, ((3, 2, 4, 4), (2, 3, 4, 5), (3, 3, 3, 3), (1, 3, 4, 5), (3, 1, 4, 5)))


def _linear(backward: Callable[..., Any], x: np.ndarray, w: np.ndarray, b: np.ndarray) -> None:
    (B, T, D), F = x.shape, b.size

    def mistakes(d_y: np.ndarray) -> Any:
        rows, d_rows = x.reshape(-1, D), d_y.reshape(-1, F)
        d_x: dict[str, np.ndarray] = {"w is missing: x_bta reaches y_btf with the factor w_af": d_y}
        d_w = unlike_rows(x, d_y, "x", "d_y") | {
            "a sum is missing: there is one gradient for each sentence; add them up": x.swapaxes(1, 2) @ d_y,
            "it is the gradient from the first sentence alone; add up all of them": x[0].T @ d_y[0],
            "the entries are mixed up: reshape does not move axes; reshape first, then transpose": (
                x.reshape(D, -1) @ d_rows
            ),
        }
        if D == F:
            d_x["w is not transposed: the sum is over f, the second index of both"] = d_y @ w
            d_w["it is transposed: x comes first"] = d_rows.T @ rows
        return {
            "d_x": d_x,
            "d_w": d_w,
            "d_b": {
                "a sum is missing: all rows share b, so add them up": d_y,
                "the positions are summed, but not the sentences: all rows share b": d_y.sum(axis=1),
                "the sentences are summed, but not the positions: all rows share b": d_y.sum(axis=0),
                "it is summed over the features; b_f is in every row, so sum over b and t": d_y.sum(axis=-1),
                "everything is summed to one number; each b_f has its own sum, over b and t": d_y.sum(),
            },
        }

    check_gradients(
        lambda d_y: backward(x, w, d_y),
        lambda x, w, b: x @ w + b,
        {"x": x, "w": w, "b": b},
        sizes={"B": B, "T": T, "B T": B * T},
        mistakes=mistakes,
    )
