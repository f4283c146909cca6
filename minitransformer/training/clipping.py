"""Gradients that are too long are shortened, so that one strange batch cannot throw the weights far away."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from minitransformer.arrays import Array, backend, square_sums, xp
from minitransformer.optim import Adam, Flat, Gradients

__all__ = ["clip_gradients"]


def clip_gradients(
    gradients: Gradients,
    optimiser: Adam,
    longest: float,
    run: Callable[..., Iterable[Any]] = map,
    gather: Callable[[list[Array]], list[list[Array]]] = lambda squares: [squares],
) -> tuple[Gradients, Array]:
    """Return the gradient of all shares, shortened if it is too long, and the length that was found.

    With g the sum over the shares, all parameters together::

        g = g · min(1, longest / |g|)

    The length of a sum is not the sum of lengths, so the shares' gradients are added here and not by the optimiser. The
    squares are added up for each slice of the parameters that fits a cache, and those sums in the order of the slices:
    the length does not depend on who added up which slice. On a GPU nothing is waited for: the factor stays on the
    device.

    Parameters
    ----------
    gradients : Gradients
        The gradients of all shares.
    optimiser : Adam
        It says which part of the gradient is this process's, and how that is cut into slices.
    longest : float
        The largest length that is left as it is.
    run : callable
        Used as ``run(function, slices)``; like ``map``, but it may do several slices at the same time.
    gather : callable
        Returns what every process has passed to it, in their order.

    Returns
    -------
    gradients : Gradients
    length : array, shape ()
        In float64.
    """
    start = optimiser.own.start
    total = xp.empty_like(optimiser.mean)

    def add_up(place: tuple[slice, Any]) -> Array:
        part, pieces = place
        out = total[part.start - start : part.stop - start]
        gradients.write_sum(part, pieces, out)
        return square_sums(out)

    parts = gather(list(run(add_up, optimiser.slices)))
    length = xp.sqrt(xp.concatenate([squares for part in parts for squares in part]).sum())
    whole = Flat(total, start)
    if backend() == "numpy" and not length > longest:
        return Gradients([whole]), length  # one pass less; on a GPU the question would cost more than the pass
    factor = xp.where(length > longest, longest / length, 1.0).astype(total.dtype)  # float64 would widen it
    return Gradients([whole], factor), length
