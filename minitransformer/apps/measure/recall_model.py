"""The models of the recall experiment: small encoders, each of one kind of layer.

Embeddings plus positions, two layers of one kind, each with a residual connection and layer normalisation after it, and
a linear output. The kinds are those of Table 1, and all of them look back only:

- self-attention: one head, causal, with the four projections of the paper: 4 D² parameters;
- recurrent: a state of E = (√5 - 1) D features and a projection back to D, so that D E + E² + E D = 4 D², and a bias;
  the matrix from state to state starts orthogonal, so that at first it changes no length;
- convolutional: a kernel of k positions, causal, with dilation k^l in layer l: k D², and a bias;
- restricted self-attention: as self-attention, and a query sees r positions back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from minitransformer import ops
from minitransformer.apps.measure.layers import LAYERS
from minitransformer.arrays import Array, asarray
from minitransformer.autograd import Tensor
from minitransformer.nn import ModelOptions, Module, Parameter, Residual, xavier


@dataclass(frozen=True)
class RecallSizes:
    """The sizes of the experiment; the defaults are those of the benchmarks."""

    symbols: int = 8
    """How many symbols there are."""
    n: int = 64
    """The length of a sentence."""
    d: int = 32
    """D, the features of a position."""
    layers: int = 2
    """N, how many layers are stacked."""
    k: int = 4
    """How many positions a kernel reads."""
    r: int = 4
    """How many positions back a query of restricted self-attention sees."""
    batch: int = 32
    """B, the sentences of a step."""
    steps: int = 600
    """How long training is."""
    warmup: int = 50
    """In how many steps the learning rate rises; then it falls with the square root of the step."""
    fresh: int = 256
    """The number of sentences to measure the accuracy on."""


class _Attention(Module):
    def __init__(self, d: int, rng: np.random.Generator, r: int | None = None) -> None:
        self.w_q, self.w_k, self.w_v, self.w_out = (_parameter(xavier(rng, d, d)) for _ in range(4))
        self.r = r

    def __call__(self, x: Tensor) -> Tensor:
        q, k, v = (ops.linear(x, weight) for weight in (self.w_q, self.w_k, self.w_v))
        if self.r is None:
            y = ops.scaled_dot_product_attention(q, k, v, causal=True)
        else:
            y = ops.local_attention(q, k, v, radius=self.r, causal=True)
        return ops.linear(y, self.w_out)


class _Recurrence(Module):
    def __init__(self, d: int, rng: np.random.Generator) -> None:
        e = round((5**0.5 - 1) * d)
        self.w, self.w_out = _parameter(xavier(rng, d, e)), _parameter(xavier(rng, e, d))
        self.u = _parameter(np.linalg.qr(rng.normal(size=(e, e)))[0])
        self.b = _parameter(np.zeros(e))

    def __call__(self, x: Tensor) -> Tensor:
        return ops.linear(ops.recurrence(x, self.w, self.u, self.b), self.w_out)


class _Convolution(Module):
    def __init__(self, d: int, rng: np.random.Generator, k: int, dilation: int) -> None:
        self.weight = _parameter(xavier(rng, k * d, d).reshape(k, d, d))
        self.bias = _parameter(np.zeros(d))
        self.dilation = dilation

    def __call__(self, x: Tensor) -> Tensor:
        return ops.convolution(x, self.weight, self.bias, causal=True, dilation=self.dilation)


def _parameter(values: Array) -> Parameter:
    return Parameter(asarray(values.astype("float32")))


def _layer(kind: str, sizes: RecallSizes, rng: np.random.Generator, below: int) -> Callable[[Tensor], Tensor]:
    match kind:
        case "self-attention":
            return _Attention(sizes.d, rng)
        case "restricted self-attention":
            return _Attention(sizes.d, rng, sizes.r)
        case "recurrent":
            return _Recurrence(sizes.d, rng)
        case "convolutional":
            return _Convolution(sizes.d, rng, sizes.k, sizes.k**below)
    raise ValueError(f"recall: there is no kind of layer {kind!r}, expected one of {list(LAYERS)}")


class RecallModel(Module):
    """An encoder of one kind of layer that predicts a symbol at each position.

    Parameters
    ----------
    kind : str
        A layer of Table 1, as in ``LAYERS``.
    sizes : RecallSizes
        Its sizes.
    seed : int
        Of the initial weights.
    positions : {"sinusoidal", "learned"}
        What is added to the embeddings. Learned ones start with the mean square of the sinusoids.
    longest : int, optional
        The number of positions; ``sizes.n`` by default.

    Raises
    ------
    ValueError
        If there is no such kind of layer or of positions.
    """

    def __init__(
        self, kind: str, sizes: RecallSizes, seed: int = 0, positions: str = "sinusoidal", longest: int | None = None
    ) -> None:
        if positions not in ("sinusoidal", "learned"):
            raise ValueError(f"recall: positions must be 'sinusoidal' or 'learned', found {positions!r}")
        rng = np.random.default_rng(seed)
        shape = (longest or sizes.n, sizes.d)
        self.table = _parameter(rng.normal(size=(sizes.symbols, sizes.d)))
        self.mixing = [_layer(kind, sizes, rng, below) for below in range(sizes.layers)]
        self.residuals = [Residual(ModelOptions(d_model=sizes.d, n_heads=1)) for _ in range(sizes.layers)]
        self.w_out = _parameter(xavier(rng, sizes.d, sizes.symbols))
        self.positions: Tensor = (
            Tensor(ops.sinusoidal_positions(*shape, dtype="float32"))
            if positions == "sinusoidal"
            else _parameter(rng.normal(size=shape) / 2**0.5)  # sin² and cos² are ½ in the mean
        )

    def embed(self, ids: Array) -> Tensor:
        """Return what the first layer reads: (B, T) -> (B, T, D)."""
        return ops.embedding(ids, self.table) + self.positions[: ids.shape[1]]

    def encode(self, x: Tensor) -> Tensor:
        """Apply the layers and the output: (B, T, D) -> (B, T, symbols)."""
        for layer, residual in zip(self.mixing, self.residuals, strict=True):
            x = residual(x, layer)
        return ops.linear(x, self.w_out)

    def __call__(self, ids: Array) -> Tensor:
        """Return the logits of each position's symbol: (B, T) -> (B, T, symbols)."""
        return self.encode(self.embed(ids))


def reach(kind: str, sizes: RecallSizes) -> int | None:
    """Return how many positions back the last layer can see, from the sizes alone; None means all."""
    if kind == "convolutional":
        return sum((sizes.k - 1) * sizes.k**below for below in range(sizes.layers))
    return sizes.layers * sizes.r if kind == "restricted self-attention" else None


def chance(sizes: RecallSizes) -> float:
    """Return the accuracy of chance."""
    return 1 / sizes.symbols
