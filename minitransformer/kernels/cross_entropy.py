"""Label-smoothed cross-entropy on a GPU: one kernel forward, and the sum of its losses; one backward."""

from __future__ import annotations

from typing import Any

from minitransformer.arrays import Array, xp
from minitransformer.kernels.source import TYPES, Source, threads_for
from minitransformer.ops.cross_entropy import cross_entropy, read_targets

source = Source("cross_entropy.cu", "cross_entropy_forward", "cross_entropy_backward")


def forward(
    logits: Array, targets: Array, label_smoothing: float = 0.0, ignore_index: int | None = None
) -> tuple[Array, Any]:
    """Return the mean cross-entropy of the targets that count; see the operation."""
    if logits.dtype.name not in TYPES or logits.size == 0:
        return cross_entropy.written.forward(logits, targets, label_smoothing, ignore_index)
    targets, counts, n_counted = read_targets(logits, targets, label_smoothing, ignore_index)
    targets, counts = targets.astype("int64"), xp.ascontiguousarray(counts)
    label_smoothing = float(label_smoothing)
    x, n = xp.ascontiguousarray(logits), logits.shape[-1]
    p, loss = xp.empty((len(targets), n), dtype=x.dtype), xp.empty(len(targets), dtype=x.dtype)
    source.start(
        "cross_entropy_forward", x.dtype, len(targets), threads_for(n),
        x, targets, counts, label_smoothing, n, p, loss,
    )  # fmt: skip
    return loss.sum() / max(n_counted, 1), (p, targets, counts, n_counted, label_smoothing, logits.shape)


def backward(saved: Any, d_loss: Array) -> Any:
    """Return the gradient of the logits, and None for the targets; see the operation."""
    p, targets, counts, n_counted, label_smoothing, shape = saved
    if p.dtype.name not in TYPES or p.size == 0 or d_loss.dtype != p.dtype or targets.dtype.name != "int64":
        return cross_entropy.written.backward(saved, d_loss)
    d_x = xp.empty(shape, dtype=p.dtype)
    source.start(
        "cross_entropy_backward", p.dtype, len(targets), threads_for(shape[-1]),
        p, targets, counts, d_loss, n_counted, label_smoothing, shape[-1], d_x,
    )  # fmt: skip
    return d_x, None
