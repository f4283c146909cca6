"""Cross-entropy with label smoothing: how far the predicted distribution is from the target.

For each row of V scores x (the logits), with target t and smoothing ε, the model's distribution p and the wanted one q:

    p_v = exp(x_v) / Σ_u exp(x_u)
    q_v = (1 - ε) [v = t] + ε / V           ([v = t] is 1 if v is the target, else 0)

    loss = - Σ_v q_v log p_v

With log p_v = x_v - s, s = log Σ_u exp(x_u), and Σ_v q_v = 1 this is

    loss = s - (1 - ε) x_t - (ε / V) Σ_v x_v

Subtracting the largest logit from every x first changes nothing but the rounding: no exponent is above 0, and large
logits leave the loss its digits.

Gradient. ∂s/∂x_v = p_v, so

    d_x_v = p_v - q_v

for the loss of one row. The result is the mean over the n rows whose target is not ``ignore_index``; they share 1/n,
and ignored rows have neither loss nor gradient. If no row counts, the loss is 0.

Source: Attention Is All You Need, section 5.4; Rethinking the Inception Architecture (Szegedy et al., 2015), section 7.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitransformer.arrays import Array, as_indices, asarray, check_floats, xp
from minitransformer.autograd import Operation, Tensor
from minitransformer.ops.linear import rows
from minitransformer.ops.log_softmax import composed as composed_log_softmax

__all__ = ["backward", "composed", "cross_entropy", "forward"]


def counted(logits: Any, targets: Any, label_smoothing: float, ignore_index: int | None) -> tuple[Array, Array, int]:
    """Check the input; return the targets with 0 in place of ignored ones, which rows count, and how many do."""
    targets = targets if hasattr(targets, "dtype") else np.asarray(targets)
    check_floats("cross_entropy", logits=logits)
    if logits.ndim == 0 or targets.shape != logits.shape[:-1] or logits.shape[-1] == 0:
        raise ValueError(
            f"cross_entropy: logits of shape {logits.shape} and targets of shape {targets.shape} do not match: "
            "expected (..., V) and (...) with V at least 1"
        )
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"cross_entropy: label_smoothing must be from 0 to 1, found {label_smoothing}")
    targets = targets.reshape(-1)
    counts = targets != ignore_index if ignore_index is not None else targets == targets
    targets = as_indices(targets * counts, logits.shape[-1], "cross_entropy")
    return targets, asarray(counts), int(counts.sum())


def forward(
    logits: Array, targets: Array, label_smoothing: float = 0.0, ignore_index: int | None = None
) -> tuple[Array, Any]:
    """Return the mean cross-entropy of the targets that count.

    Parameters
    ----------
    logits : array, shape (..., V)
        Scores of the V tokens.
    targets : integer array, shape (...)
        The right token of each row, from 0 to V - 1, or ``ignore_index``.
    label_smoothing : float
        ε: the share of the wanted probability that is spread over all V tokens.
    ignore_index : int, optional
        Rows with this target (padding, say) do not count.

    Returns
    -------
    loss : array, shape ()
        In nats (natural logarithm) per target that counts.
    saved : tuple
        What ``backward`` needs.

    Raises
    ------
    TypeError
        If the logits are not floating-point, or the targets not whole numbers.
    ValueError
        If the shapes do not match or ε is not from 0 to 1.
    IndexError
        If a target that counts is out of range.
    """
    targets, counts, n = counted(logits, targets, label_smoothing, ignore_index)
    label_smoothing = float(label_smoothing)  # a NumPy float64 would widen float32
    x = rows(logits)
    row = xp.arange(len(targets))
    largest = x.max(axis=-1, keepdims=True)
    p = x - largest  # the shifted logits, until they become probabilities
    wanted = (1 - label_smoothing) * p[row, targets]
    if label_smoothing:  # 0 times a logit of -inf would be NaN
        wanted += label_smoothing * p.mean(axis=-1)
    xp.exp(p, out=p)
    total = p.sum(axis=-1, keepdims=True)
    p /= total
    loss = xp.log(total)[:, 0] - wanted
    mean = xp.where(counts, loss, 0).sum() / max(n, 1)
    return mean, (p, targets, counts, n, label_smoothing, logits.shape)


def backward(saved: Any, d_loss: Array) -> tuple[Array, None]:
    """Return the gradient of the logits, and None for the targets."""
    p, targets, counts, n, label_smoothing, shape = saved
    # loss = mean over the rows that count of (s - (1 - ε) x_t - (ε / V) Σ_v x_v)
    d_row = xp.where(counts, d_loss / max(n, 1), 0)[:, None]  # each row's share of d_loss
    d_x = p * d_row
    if label_smoothing:
        d_x -= d_row * (label_smoothing / shape[-1])
    d_x[xp.arange(len(targets)), targets] -= (1 - label_smoothing) * d_row[:, 0]
    if n < len(targets):
        d_x[~counts] = 0  # whatever their logits were: 0 times NaN would be NaN
    return d_x.reshape(shape), None


def composed(logits: Tensor, targets: Array, label_smoothing: float = 0.0, ignore_index: int | None = None) -> Tensor:
    """Return the same function in elementary operations."""
    targets, counts, n = counted(logits, targets, label_smoothing, ignore_index)
    log_p = composed_log_softmax(logits.reshape(len(targets), logits.shape[-1]))
    of_target = log_p[xp.arange(len(targets)), targets]
    loss = -((1 - label_smoothing) * of_target + label_smoothing * log_p.mean(axis=-1))
    return (loss * counts.astype(logits.dtype)).sum() / max(n, 1)


cross_entropy = Operation(forward, backward, composed=composed)
