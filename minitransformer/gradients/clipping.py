"""Gradient clipping: scales large gradients down, so that one unusual batch cannot move the weights far."""

from __future__ import annotations

from collections.abc import Callable

from minitransformer.arrays import Array, backend, square_sums, xp
from minitransformer.gradients.sums import Flat, Sum
from minitransformer.optim import Buffer


def clip_gradient(
    gradient: Sum,
    buffer: Buffer,
    longest: float,
    all_gather: Callable[[list[Array]], list[list[Array]]] = lambda squares: [squares],
) -> tuple[Sum, Array]:
    """Return the clipped gradient of all micro-batches, and its norm before clipping.

    With g the sum over the micro-batches, for all parameters together::

        g = g · min(1, longest / |g|)

    The norm of a sum is not the sum of the norms, so the gradients are added here and not by the optimiser.
    Squares are summed for each cache-sized slice of the parameters, and these sums are added in the order of the
    slices: the norm does not depend on which process summed which slice. On a GPU the factor stays on the device, so
    the host does not wait.

    Parameters
    ----------
    gradient : Sum
        The gradients of all micro-batches.
    buffer : Buffer
        The parameters; it defines this process's part of the gradient and its slices.
    longest : float
        The largest norm that is not scaled down.
    all_gather : callable
        Returns the values that all processes pass, in the order of their ranks.

    Returns
    -------
    gradient : Sum
    length : array, shape ()
        In float64.
    """
    start = buffer.own.start
    total = xp.empty_like(buffer.values[buffer.own])

    def add_up(part: slice) -> Array:
        out = total[part.start - start : part.stop - start]
        gradient.write(part, out)
        return square_sums(out)

    parts = all_gather([add_up(part) for part in buffer.slices])
    length = xp.sqrt(xp.concatenate([squares for part in parts for squares in part]).sum())
    whole = Flat(total, buffer)
    if backend() == "numpy" and not length > longest:
        return Sum([whole]), length  # saves a pass; on a GPU reading the norm would cost more than the pass
    factor = xp.where(length > longest, longest / length, 1.0).astype(total.dtype)  # float64 would widen it
    return Sum([whole], factor), length
