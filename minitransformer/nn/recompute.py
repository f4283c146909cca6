"""Recomputation: layers run again in the backward pass, so that their activations need not be kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from minitransformer.arrays import Array
from minitransformer.autograd import Operation, Tensor, is_recording, no_grad


def recompute(
    function: Callable[..., Tensor], *inputs: Tensor | None, rng: np.random.Generator | None = None
) -> Tensor:
    """Return ``function(*inputs)`` and keep only the inputs for the backward pass.

    The function runs without a graph. The backward pass runs it again, this time with one, and carries the gradient
    through that graph to the inputs and to the parameters that the function uses. A stack of N layers then keeps the
    inputs of all layers, but the activations of only one at a time, at the cost of a second forward pass.

    Parameters
    ----------
    function : callable
        A function of tensors that returns a tensor, a layer for example. It must be deterministic. It may use
        parameters of its own; every other tensor that needs a gradient must be among the inputs.
    *inputs : Tensor or None
        What it is called with.
    rng : numpy.random.Generator, optional
        The generator that the function draws from: the second run draws the same numbers as the first and restores the
        generator's state.

    Returns
    -------
    Tensor
        The result of the function.

    Raises
    ------
    RuntimeError
        From ``backward``, if that runs under ``no_grad``: the second run would record no graph.

    Notes
    -----
    The parameters must not change between the two passes.

    Source: Training Deep Nets with Sublinear Memory Cost (Chen et al., 2016).

    Examples
    --------
    >>> x = Tensor([0.5, 1.0], requires_grad=True)
    >>> recompute(lambda x: x.exp().log(), x).sum().backward()
    >>> x.grad
    array([1., 1.])
    """
    wanted = [is_recording() and x is not None and x.requires_grad for x in inputs]
    # If no input requires a gradient, the backward pass never arrives here and the function is not run again.
    if not any(wanted):
        return function(*inputs)
    state = None if rng is None else rng.bit_generator.state

    def forward(*arrays: Array | None) -> tuple[Array, Any]:
        with no_grad():
            return function(*_tensors(arrays)).data, arrays

    def backward(saved: Any, d_output: Array) -> list[Array | None]:
        if not is_recording():
            raise RuntimeError("recompute: the backward pass needs a graph; call backward outside of no_grad()")
        tensors = _tensors(saved, wanted)
        with _at_state(rng, state):
            output = function(*tensors)
        if output.requires_grad:
            output.backward(d_output, release=True)
        return [None if x is None else x.grad for x in tensors]

    return Operation(forward, backward, name="recompute")(*inputs)


def _tensors(arrays: Any, wanted: list[bool] | None = None) -> list[Tensor | None]:
    """Return detached tensors, with which a new graph begins."""
    wanted = wanted or [False] * len(arrays)
    return [None if x is None else Tensor(x, requires_grad=w) for x, w in zip(arrays, wanted, strict=True)]


@contextmanager
def _at_state(rng: np.random.Generator | None, state: Any) -> Iterator[None]:
    """Set a generator back to an earlier state, and restore its present state afterwards."""
    if rng is None:
        yield
        return
    now = rng.bit_generator.state
    rng.bit_generator.state = state
    try:
        yield
    finally:
        rng.bit_generator.state = now
