"""Gradients that are too long are shortened, so that one strange batch cannot throw the weights far away."""

from __future__ import annotations

from collections.abc import Sequence

from minitransformer.arrays import Array, backend, xp
from minitransformer.autograd import Tensor

__all__ = ["clip_gradients"]


def clip_gradients(parameters: Sequence[Tensor], replicas: Sequence[Sequence[Tensor]], longest: float) -> Array:
    """Gather the gradient of all workers in the model's parameters, and shorten it if it is too long.

    With g the sum over the workers, all parameters together::

        g = g · min(1, longest / |g|)

    The length of a sum is not the sum of lengths, so the workers' gradients are added here, in order, and not by the
    optimiser; afterwards the replicas have none. On a GPU nothing is waited for: the factor stays on the device.

    Parameters
    ----------
    parameters : sequence of Tensor
        The model's.
    replicas : sequence of sequences of Tensor
        Those of the other workers, in the same order.
    longest : float
        The largest length that is left as it is.

    Returns
    -------
    array, shape ()
        The length that was found, in float64.
    """
    for i, parameter in enumerate(parameters):
        found = [own.grad for own in (parameter, *(replica[i] for replica in replicas)) if own.grad is not None]
        if found:
            parameter.grad = sum(found[1:], start=found[0])
        for replica in replicas:
            replica[i].grad = None
    known = [(parameter, parameter.grad) for parameter in parameters if parameter.grad is not None]
    squares = (xp.square(gradient.reshape(-1), dtype="float64").sum() for _, gradient in known)
    length = xp.sqrt(sum(squares, start=xp.zeros((), dtype="float64")))
    if backend() == "numpy" and not length > longest:
        return length  # one pass less; on a GPU the question would cost more than the pass
    factor = xp.where(length > longest, longest / length, 1.0)
    for parameter, gradient in known:
        parameter.grad = gradient * factor.astype(gradient.dtype)  # float64 would widen it
    return length
