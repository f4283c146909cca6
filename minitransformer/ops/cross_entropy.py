"""Cross-entropy with label smoothing: how far the predicted distribution is from the target distribution.

For each row r of V scores x (the logits), with target t_r and smoothing ε, p is the predicted distribution and q the
target distribution:

    p_rv = exp(x_rv) / Σ_u exp(x_ru)                 (1)
    q_rv = (1 - ε) [v = t_r] + ε / V                 (2)        [v = t_r] is 1 if v is the target, else 0
    ℓ_r  = - Σ_v q_rv log p_rv                       (3)

The result is the mean over the R' rows whose target is not ``ignore_index``; with χ_r = 1 for these, and 0 for others,

    ℓ = (1/R') Σ_r χ_r ℓ_r                           (4)

If no row counts, ℓ is 0. With log p_rv = x_rv - lse_r and Σ_v q_rv = 1, (3) is

    lse_r = log Σ_u exp(x_ru)                        (6)
    ℓ_r   = lse_r - (1 - ε) x_rt - (ε / V) Σ_v x_rv  (7)

The largest logit of a row is subtracted from its x first. That changes only the rounding: no exponent is above 0, and
the loss keeps its digits for large logits.

A target with logit -inf has p = 0 and an infinite loss. In a row of only -inf every p is 0, as in ``softmax``, so the
loss of every target is infinite. Where q is 0, p may be 0 too: 0 log 0 counts as 0.

Gradient. ∂lse_r/∂x_rv = p_rv (see ``log_softmax``), so the gradient of ℓ_r is p - q. It is multiplied by d_ℓ_r, the
row's share of d_ℓ (d_ℓ is 1 if the loss is the last operation):

    d_ℓ_r  = d_ℓ χ_r / R'                            (11)
    d_x_rv = d_ℓ_r (p_rv - q_rv)
           = d_ℓ_r (p_rv - ε / V - (1 - ε) [v = t_r])           (12)

The algebra in full: docs/derivations/cross-entropy.md.

Source: Attention Is All You Need, section 5.4; Rethinking the Inception Architecture (Szegedy et al., 2015), section 7.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitransformer.arrays import Array, as_indices, asarray, below_largest, check_floats, is_whole, xp
from minitransformer.autograd import Operation, Tensor, where
from minitransformer.ops.linear import rows
from minitransformer.ops.log_softmax import reference as reference_log_softmax


def read_targets(
    logits: Any, targets: Any, label_smoothing: float, ignore_index: int | None
) -> tuple[Array, Array, int]:
    """Return the targets with 0 for ignored ones, which rows count, and how many; reject wrong input."""
    targets = targets if hasattr(targets, "dtype") else np.asarray(targets)
    check_floats("cross_entropy", logits=logits)
    if logits.ndim == 0 or targets.shape != logits.shape[:-1] or logits.shape[-1] == 0:
        raise ValueError(
            f"cross_entropy: logits of shape {logits.shape} and targets of shape {targets.shape} do not match: "
            "expected (..., V) and (...) with V at least 1"
        )
    if isinstance(label_smoothing, bool) or not 0 <= label_smoothing <= 1:
        raise ValueError(f"cross_entropy: label_smoothing must be from 0 to 1, found {label_smoothing}")
    if ignore_index is not None and not is_whole(ignore_index):
        raise TypeError(f"cross_entropy: ignore_index must be a whole number, found {ignore_index!r}")
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
        The target token of each row, from 0 to V - 1, or ``ignore_index``.
    label_smoothing : float
        ε: the probability that the target distribution spreads over all V tokens.
    ignore_index : int, optional
        Rows with this target, such as padding, do not count.

    Returns
    -------
    loss : array, shape ()
        In nats (natural logarithm) per target that counts.
    saved : tuple
        What ``backward`` needs.

    Raises
    ------
    TypeError
        If the logits are not floating-point, or the targets or ignore_index are not integers.
    ValueError
        If the shapes do not match or ε is not from 0 to 1.
    IndexError
        If a target that counts is out of range.

    Examples
    --------
    >>> logits, targets = np.array([[0.0, 1.0, 3.0]]), np.array([2])
    >>> round(mt.ops.cross_entropy(logits, targets).item(), 3)
    0.17
    >>> round(mt.ops.cross_entropy(logits, targets, label_smoothing=0.1).item(), 3)
    0.337
    """
    targets, counts, n_counted = read_targets(logits, targets, label_smoothing, ignore_index)
    label_smoothing = float(label_smoothing)  # a NumPy float64 would widen float32
    x = rows(logits)
    row = xp.arange(len(targets))
    shifted = below_largest(x, -1)
    # (7) ℓ_r = lse_r - (1 - ε) x_rt - (ε / V) Σ_v x_rv; terms with factor 0 are left out: 0 * -inf is NaN
    expected_logit = (1 - label_smoothing) * shifted[row, targets] if label_smoothing < 1 else 0
    if label_smoothing:
        expected_logit += label_smoothing * shifted.mean(axis=-1)
    exponentials = xp.exp(shifted, out=shifted)
    total = exponentials.sum(axis=-1, keepdims=True)
    total = xp.maximum(total, 1)  # it is at least 1, from the largest logit; in a row of only -inf it is 0
    p = xp.divide(exponentials, total, out=exponentials)  # (1)
    losses = xp.log(total)[:, 0] - expected_logit
    loss = xp.where(counts, losses, 0).sum() / max(n_counted, 1)  # (4)
    return loss, (p, targets, counts, n_counted, label_smoothing, logits.shape)


def backward(saved: Any, d_loss: Array) -> tuple[Array, None]:
    """Return the gradient of the logits, and None for the targets."""
    p, targets, counts, n_counted, label_smoothing, shape = saved
    # (4) ℓ = (1/R') Σ_r χ_r ℓ_r
    d_losses = xp.where(counts, d_loss / max(n_counted, 1), 0)  # (11)
    # (7) ℓ_r = lse_r - (1 - ε) x_rt - (ε / V) Σ_v x_rv: (12), term by term
    d_x = p * d_losses[:, None]
    if label_smoothing:
        d_x -= d_losses[:, None] * (label_smoothing / shape[-1])
    d_x[xp.arange(len(targets)), targets] -= (1 - label_smoothing) * d_losses
    if n_counted < len(targets):
        d_x[~counts] = 0  # their logits may be anything, and 0 * NaN is NaN
    return d_x.reshape(shape), None


def reference(logits: Tensor, targets: Array, label_smoothing: float = 0.0, ignore_index: int | None = None) -> Tensor:
    """Return the same function in elementary operations; every row needs a logit above -inf."""
    targets, counts, n_counted = read_targets(logits, targets, label_smoothing, ignore_index)
    log_p = reference_log_softmax(logits.reshape(len(targets), logits.shape[-1]))
    q = xp.full(log_p.shape, label_smoothing / logits.shape[-1], dtype=logits.dtype)  # (2)
    q[xp.arange(len(targets)), targets] += 1 - label_smoothing
    loss = -(q * where(q > 0, log_p, 0.0)).sum(axis=-1)  # (3)
    return (loss * counts.astype(logits.dtype)).sum() / max(n_counted, 1)


cross_entropy = Operation(forward, backward, reference=reference)
