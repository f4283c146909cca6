"""Gradients that are too long are shortened, so that one strange batch cannot throw the weights far away."""

from __future__ import annotations

from collections.abc import Sequence

from minitransformer.arrays import xp
from minitransformer.autograd import Tensor

__all__ = ["clip_gradients"]


def clip_gradients(parameters: Sequence[Tensor], replicas: Sequence[Sequence[Tensor]], longest: float) -> float:
    """Gather the gradient of all workers in the model's parameters, and shorten it if it is too long.

    With g the sum over the workers, all parameters together,

        g = g · min(1, longest / |g|)

    The length of a sum is not the sum of lengths, so the workers' gradients are added here, in order, and not by the
    optimiser; afterwards the replicas have none.

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
    float
        The length that was found.
    """
    for i, parameter in enumerate(parameters):
        found = [own.grad for own in (parameter, *(replica[i] for replica in replicas)) if own.grad is not None]
        if found:
            parameter.grad = sum(found[1:], start=found[0])
        for replica in replicas:
            replica[i].grad = None
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    squares = [xp.square(gradient.reshape(-1), dtype="float64").sum() for gradient in gradients]
    length = float(sum(squares)) ** 0.5  # read back once, not for each parameter
    if length > longest:
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad = parameter.grad * (longest / length)  # a float does not widen the array
    return length
