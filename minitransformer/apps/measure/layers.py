"""The kinds of layer in the paper's Table 1: the paper's formulas for each, how to run it, and its operations.

Floating-point operations are counted while a layer runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minitransformer import ops
from minitransformer.apps.measure.speed.account import Account, accounting
from minitransformer.arrays import Array
from minitransformer.autograd import Operation, Tensor
from minitransformer.files import read_toml


class LayerSizes(NamedTuple):
    """The length of a sentence, the width of a position, the kernel size, and the reach of restricted attention."""

    n: int
    d: int
    k: int
    r: int


@dataclass(frozen=True)
class Layer:
    """A row of the table: the paper's formulas, and how the operation is called."""

    operation: Operation
    arrays: Callable[[LayerSizes, np.random.Generator], tuple[Array, ...]]
    """Draw the operation's arrays; weights have a variance of 1 over the number of their inputs."""
    options: Callable[[LayerSizes], dict[str, Any]] = lambda sizes: {}
    _: KW_ONLY
    theory: Sequence[str]
    """Complexity per layer, sequential operations and maximum path length, in the paper's words."""
    complexity: Mapping[str, float]
    """The exponent of each size in the complexity."""
    sequential: float
    """The exponent of n in the sequential operations."""
    path: Mapping[str, float]
    """The exponent of each size in the path length; for ``log_k n`` its factor."""


def _queries_keys_values(sizes: LayerSizes, rng: np.random.Generator) -> tuple[Array, ...]:
    return tuple(rng.normal(size=(3, sizes.n, sizes.d)))


def _recurrence_arrays(sizes: LayerSizes, rng: np.random.Generator) -> tuple[Array, ...]:
    n, d = sizes.n, sizes.d
    w, u = rng.normal(size=(2, d, d)) / np.sqrt(d)
    return rng.normal(size=(1, n, d)), w, u, np.zeros(d)


def _convolution_arrays(sizes: LayerSizes, rng: np.random.Generator) -> tuple[Array, ...]:
    n, d, k = sizes.n, sizes.d, sizes.k
    return rng.normal(size=(1, n, d)), rng.normal(size=(k, d, d)) / np.sqrt(k * d)


_FORMULAS = read_toml(Path(__file__).with_name("layers.toml"))
_RUN: dict[str, tuple[Any, ...]] = {
    "self-attention": (ops.scaled_dot_product_attention, _queries_keys_values),
    "recurrent": (ops.recurrence, _recurrence_arrays),
    "convolutional": (ops.convolution, _convolution_arrays, lambda sizes: {"causal": True}),
    "restricted self-attention": (ops.local_attention, _queries_keys_values, lambda sizes: {"radius": sizes.r}),
}
LAYERS = {name: Layer(*run, **_FORMULAS[name]) for name, run in _RUN.items()}


def count(function: Callable[..., Any], arrays: Iterable[Array]) -> dict[str, int]:
    """Count the floating-point operations of a function of tensors, in float32.

    Parameters
    ----------
    function : callable
        Called with a tensor for each array. An ``Operation`` is one.
    arrays : iterable of arrays
        Its inputs.

    Returns
    -------
    dict
        ``"products"``, ``"other"`` arithmetic, and ``"operations"``: both together.
    """
    account, inputs = Account(), [Tensor(x.astype(np.float32)) for x in arrays]
    with accounting(account, inputs):
        function(*inputs)
    return {"products": account.flops, "other": account.arithmetic, "operations": account.flops + account.arithmetic}


def time_calls(call: Callable[[], object], enough: float) -> list[float]:
    """Return how long each of several calls takes, in seconds: at least three, until they took long enough together."""
    seconds: list[float] = []
    while len(seconds) < 3 or sum(seconds) < enough:
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return seconds


def count_operations(name: str, sizes: LayerSizes) -> dict[str, int]:
    """Count the floating-point operations of a layer's forward pass as it runs.

    Parameters
    ----------
    name : str
        A layer of Table 1, as in ``LAYERS``.
    sizes : LayerSizes
        Of the layer's input.

    Returns
    -------
    dict
        What ``count`` returns.
    """
    layer = LAYERS[name]
    return count(partial(layer.operation, **layer.options(sizes)), layer.arrays(sizes, np.random.default_rng(0)))
