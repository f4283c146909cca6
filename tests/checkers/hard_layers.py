"""Right gradients that are hard to see as right: stable softmax, masks, norms at 0, and joined formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
from sample import read_formulas


def softmax(x: Any) -> Any:
    """Return the exponentials of the last axis, divided by their sum."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_backward(x: Any, d_y: Any) -> Any:
    """Return y (d_y - Σ y d_y)."""
    y = softmax(x)
    return (y * (d_y - (y * d_y).sum(axis=-1, keepdims=True)),)


def log_sum_exp(x: Any) -> Any:
    """Return log Σ exp x along the last axis."""
    largest = x.max(axis=-1, keepdims=True)
    return np.log(np.exp(x - largest).sum(axis=-1)) + largest[..., 0]


def log_softmax(x: Any) -> Any:
    """Return x - log Σ exp x."""
    return x - log_sum_exp(x)[..., None]


def hidden_softmax(x: Any, mask: Any) -> Any:
    """Return the softmax of what a mask shows; 0 for a row without anything."""
    with np.errstate(invalid="ignore"):
        e = np.where(mask, np.exp(x - np.where(mask, x, -np.inf).max(axis=-1, keepdims=True)), 0)
    return e / np.maximum(e.sum(axis=-1, keepdims=True), np.finfo(x.dtype).tiny)


def hidden_softmax_backward(x: Any, mask: Any, d_y: Any) -> Any:
    """Return y (d_y - Σ y d_y), 0 where hidden."""
    y = hidden_softmax(x, mask)
    return y * (d_y - (y * d_y).sum(axis=-1, keepdims=True)), None


HIDES = np.array([[True, False, True, True], [False] * 4, [True] * 4])


def length(x: Any) -> Any:
    """Return the length of each row."""
    return np.sqrt((x * x).sum(axis=-1))


def length_backward(x: Any, d_y: Any) -> Any:
    """Return the direction of each row; 0 for a row of zeros."""
    norm = length(x)[..., None]
    return (x / np.where(norm == 0, 1, norm) * d_y[..., None],)


def normalize_backward(x: Any, d_y: Any) -> Any:
    """Differentiate x / (|x| + 1e-6), with the gradient of the first factor alone at 0."""
    norm = length(x)[..., None]
    safe = np.where(norm == 0, 1, norm)
    along = (x * d_y).sum(axis=-1, keepdims=True)
    return (d_y / (norm + 1e-6) - x * along / (safe * (norm + 1e-6) ** 2),)


def sinc(x: Any) -> Any:
    """Return sin x / x, by a series near 0."""
    safe = np.where(np.abs(x) < 1e-2, 1, x)
    return np.where(np.abs(x) < 1e-2, 1 - x**2 / 6 + x**4 / 120, np.sin(safe) / safe)


def sinc_backward(x: Any, d_y: Any) -> Any:
    """Return (cos x - sin x / x) / x, by a series near 0."""
    safe = np.where(np.abs(x) < 1e-2, 1, x)
    near = -x / 3 + x**3 / 30
    return (d_y * np.where(np.abs(x) < 1e-2, near, (np.cos(safe) - np.sin(safe) / safe) / safe),)


def layer_norm_backward(x: Any, d_y: Any) -> Any:
    """Return (d - mean(d) - x̂ mean(d x̂)) / σ."""
    scale = 1 / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)
    x_hat = (x - x.mean(axis=-1, keepdims=True)) * scale
    mean = d_y.mean(axis=-1, keepdims=True)
    return (scale * (d_y - mean - x_hat * (d_y * x_hat).mean(axis=-1, keepdims=True)),)


HARD_LAYERS = read_formulas(__file__, globals())
