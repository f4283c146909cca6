"""Recall: which kinds of layer can say again what they read L positions ago.

A sentence is n symbols, each drawn alone and evenly from a small alphabet. At position t >= L the target is the symbol
of position t - L; the first L positions have none. Nothing else in the sentence tells that symbol, so whoever cannot
see it is right once in as many times as there are symbols, however long the training.

The model is a small encoder: embeddings plus positions, two layers of one kind, each with a residual connection and
layer normalisation after it, and a linear output. The kinds are those of Table 1, and all of them look back only:

- self-attention: one head, causal, with the four projections of the paper: 4 D² parameters;
- recurrent: a state of E = (√5 - 1) D features and a projection back to D, so that D E + E² + E D = 4 D², and a bias;
  the matrix from state to state starts orthogonal, so that at first it changes no length;
- convolutional: a kernel of k positions, causal, with dilation k^l in layer l: k D², and a bias;
- restricted self-attention: as self-attention, and a query sees r positions back.

How far a stack of them can reach back is known before any training (``reach``); whether training gets there is
measured. Sentences are drawn anew for every step, so the loss of the last steps is one of sentences never seen before.
Of several learning rates a kind gets, at each distance, the one with which that loss is least; accuracy is taken
afterwards, on other sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.arrays import Array, asarray, to_numpy
from minitransformer.autograd import Tensor, no_grad
from minitransformer.bench.machine import describe
from minitransformer.bench.table1 import LAYERS
from minitransformer.nn.layers import Residual
from minitransformer.nn.module import Module, Parameter, xavier
from minitransformer.nn.options import ModelOptions
from minitransformer.optim import Adam, inverse_square_root

__all__ = [
    "NO_TARGET",
    "Recall",
    "RecallModel",
    "chance",
    "correct",
    "draw",
    "measure_extrapolation",
    "measure_recall",
    "reach",
    "train",
]

NO_TARGET = -1
"""Stands where nothing is asked; ``cross_entropy`` leaves it out."""
LAST = 20
"""Over how many last steps a loss is averaged, to choose a learning rate."""
DISTANCES = (1, 2, 4, 6, 7, 8, 9, 12, 15, 16, 24, 32, 48)
RATES = (0.003, 0.01, 0.02)


@dataclass(frozen=True)
class Recall:
    """The sizes of the experiment; those given here are of the one that is recorded in the benchmarks."""

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
    """How many sentences are asked afterwards."""


class _Attention(Module):
    def __init__(self, d: int, rng: np.random.Generator, r: int | None = None) -> None:
        self.w_q, self.w_k, self.w_v, self.w_out = (_parameter(xavier(rng, d, d)) for _ in range(4))
        self.r = r

    def __call__(self, x: Tensor) -> Tensor:
        q, k, v = (ops.linear(x, weight) for weight in (self.w_q, self.w_k, self.w_v))
        if self.r is None:
            y = ops.scaled_dot_product_attention(q, k, v, causal=True)
        else:
            y = ops.local_attention(q, k, v, r=self.r, causal=True)
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


def _layer(kind: str, sizes: Recall, rng: np.random.Generator, below: int) -> Callable[[Tensor], Tensor]:
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
    """An encoder of one kind of layer that names a symbol at each position.

    Parameters
    ----------
    kind : str
        A layer of Table 1, as in ``LAYERS``.
    sizes : Recall
        Its sizes.
    seed : int
        Of the initial weights.
    positions : {"sinusoidal", "learned"}
        What is added to the embeddings. Learned ones start with the mean square of the sinusoids.
    longest : int, optional
        For how many positions there is something to add; ``sizes.n`` by default.

    Raises
    ------
    ValueError
        If there is no such kind of layer or of positions.
    """

    def __init__(
        self, kind: str, sizes: Recall, seed: int = 0, positions: str = "sinusoidal", longest: int | None = None
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
            x = residual(x, layer, None)
        return ops.linear(x, self.w_out)

    def __call__(self, ids: Array) -> Tensor:
        """Return the logits of each position's symbol: (B, T) -> (B, T, symbols)."""
        return self.encode(self.embed(ids))


def reach(kind: str, sizes: Recall) -> int | None:
    """Return how many positions back the last layer can see, from the sizes alone; None is as far as there are any."""
    if kind == "convolutional":
        return sum((sizes.k - 1) * sizes.k**below for below in range(sizes.layers))
    return sizes.layers * sizes.r if kind == "restricted self-attention" else None


def chance(sizes: Recall) -> float:
    """Return how often one is right who cannot see the symbol that is asked for."""
    return 1 / sizes.symbols


def draw(sizes: Recall, distance: int, rng: np.random.Generator, n: int | None = None) -> tuple[Array, Array]:
    """Draw a batch of sentences and what is to be said at each position.

    Parameters
    ----------
    sizes : Recall
        How many symbols and sentences, and how long.
    distance : int
        L: how far back the symbol is that is asked for.
    rng : numpy.random.Generator
        Draws the symbols.
    n : int, optional
        Another length.

    Returns
    -------
    ids, targets : integer arrays, shape (B, T)
        ``targets[:, t]`` is ``ids[:, t - distance]``, and ``NO_TARGET`` where there is none.

    Raises
    ------
    ValueError
        If no position has a target.
    """
    n = n or sizes.n
    if not 0 <= distance < n:
        raise ValueError(f"recall: expected a distance from 0 up to but without the length {n}, found {distance}")
    ids = rng.integers(0, sizes.symbols, (sizes.batch, n))
    targets = np.full_like(ids, NO_TARGET)
    targets[:, distance:] = ids[:, : n - distance]
    return ids, targets


def train(model: RecallModel, sizes: Recall, distance: int, rate: float, seed: int = 0) -> list[float]:
    """Train a model on fresh sentences.

    Parameters
    ----------
    model : RecallModel
        What is trained.
    sizes : Recall
        The sentences and the steps.
    distance : int
        L: how far back the symbol is that is asked for.
    rate : float
        The highest learning rate.
    seed : int
        Of the sentences.

    Returns
    -------
    list of float
        The loss of each step.
    """
    rng, adam = np.random.default_rng([seed, distance]), Adam(model.parameters())
    losses = []
    for step in range(1, sizes.steps + 1):
        ids, targets = draw(sizes, distance, rng)
        loss = ops.cross_entropy(model(asarray(ids)), asarray(targets), ignore_index=NO_TARGET)
        adam.zero_grad()
        loss.backward()
        adam.step(inverse_square_root(step, rate, sizes.warmup))
        losses.append(float(loss.data))
    return losses


def correct(model: RecallModel, sizes: Recall, distance: int, n: int | None = None, seed: int = 1) -> Array:
    """Return how often a model is right, at each position that has a target.

    Parameters
    ----------
    model : RecallModel
        What is asked.
    sizes : Recall
        ``fresh`` is the number of sentences.
    distance : int
        L: how far back the symbol is that is asked for.
    n : int, optional
        The length of the sentences; that of training by default.
    seed : int
        Of the sentences.

    Returns
    -------
    array, shape (n - distance,)
        The accuracy at the positions ``distance`` ... ``n - 1``, on the host.
    """
    asked = Recall(**asdict(sizes) | {"batch": sizes.fresh})
    # Training never draws from here: its generators begin with two numbers.
    ids, targets = draw(asked, distance, np.random.default_rng([seed, distance, 1]), n)
    with no_grad():
        said = to_numpy(model(asarray(ids)).data).argmax(axis=-1)
    return (said == targets)[:, distance:].mean(axis=0)


def measure_recall(
    sizes: Recall,
    tell: Callable[[str], None],
    distances: Sequence[int] = DISTANCES,
    rates: Sequence[float] = RATES,
    seeds: Sequence[int] = (0, 1, 2),
) -> dict[str, Any]:
    """Train every kind of layer at every distance, and ask each what it has learnt.

    With the first seed a kind is trained at each of the learning rates, for each distance; that with the least loss in
    the last steps is used with the other seeds.

    Parameters
    ----------
    sizes : Recall
        The sizes.
    tell : callable
        Called with what was found.
    distances, rates, seeds : sequences
        What to try.

    Returns
    -------
    dict
        Plain values that can be written as JSON: ``"machine"``, ``"sizes"``, ``"chance"``, ``"distances"`` and
        ``"kinds"`` by name, each with ``"reach"``, ``"parameters"`` and ``"points"``: for each distance the ``"rate"``,
        the ``"losses"`` at the end and the ``"accuracy"`` of each seed.
    """
    result: dict[str, Any] = {"machine": describe(), "sizes": asdict(sizes), "chance": chance(sizes)}
    result |= {"distances": list(distances), "rates": list(rates), "kinds": {}}

    def trial(kind: str, distance: int, rate: float, seed: int) -> tuple[float, float]:
        model = RecallModel(kind, sizes, seed)
        loss = float(np.mean(train(model, sizes, distance, rate, seed)[-LAST:]))
        return loss, float(correct(model, sizes, distance).mean())

    for kind in LAYERS:
        n_parameters = sum(p.size for p in RecallModel(kind, sizes).parameters())
        points = []
        for distance in distances:
            first = {rate: trial(kind, distance, rate, seeds[0]) for rate in rates}
            rate = min(first, key=lambda rate: first[rate][0])
            found = [first[rate], *(trial(kind, distance, rate, seed) for seed in seeds[1:])]
            losses, accuracy = map(list, zip(*found, strict=True))
            points.append({"distance": distance, "rate": rate, "losses": losses, "accuracy": accuracy})
            tell(f"{kind}, {distance} back: {', '.join(f'{a:.3f}' for a in accuracy)} at rate {rate}")
        result["kinds"][kind] = {"reach": reach(kind, sizes), "parameters": n_parameters, "points": points}
    return result


def measure_extrapolation(
    sizes: Recall,
    tell: Callable[[str], None],
    distance: int = 4,
    times: int = 4,
    rates: Sequence[float] = RATES,
    seeds: Sequence[int] = (0, 1, 2),
) -> dict[str, Any]:
    """Train on sentences of one length and ask in longer ones, with sinusoidal and with learned positions.

    Parameters
    ----------
    sizes : Recall
        The sizes; ``n`` is the length in training.
    tell : callable
        Called with what was found.
    distance : int
        L: how far back the symbol is that is asked for.
    times : int
        How many times as long the sentences are in which is asked.
    rates, seeds : sequences
        What to try; rates as in ``measure_recall``.

    Returns
    -------
    dict
        ``"machine"``, ``"sizes"``, ``"distance"``, ``"chance"`` and ``"kinds"``: by kind and kind of positions the
        ``"rate"`` and ``"accuracy"``, a list over the positions from ``distance`` on for each seed.
    """
    result: dict[str, Any] = {"machine": describe(), "sizes": asdict(sizes), "chance": chance(sizes)}
    result |= {"distance": distance, "times": times, "kinds": {}}

    def trial(kind: str, positions: str, rate: float, seed: int) -> tuple[float, list[float]]:
        model = RecallModel(kind, sizes, seed, positions, times * sizes.n)
        loss = float(np.mean(train(model, sizes, distance, rate, seed)[-LAST:]))
        return loss, correct(model, sizes, distance, times * sizes.n).tolist()

    for kind in LAYERS:
        result["kinds"][kind] = {}
        for positions in ("sinusoidal", "learned"):
            first = {rate: trial(kind, positions, rate, seeds[0]) for rate in rates}
            rate = min(first, key=lambda rate: first[rate][0])
            found = [first[rate], *(trial(kind, positions, rate, seed) for seed in seeds[1:])]
            accuracy = [by_position for _, by_position in found]
            result["kinds"][kind][positions] = {"rate": rate, "accuracy": accuracy}
            inside, outside = (part.mean() for part in np.split(np.array(accuracy), [sizes.n - distance], axis=1))
            tell(f"{kind}, {positions} positions: {inside:.3f} as long as in training, {outside:.3f} beyond")
    return result
