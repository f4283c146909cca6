"""Recall: which kinds of layer can repeat the symbol that they read L positions ago.

A sentence is n symbols, each drawn alone and evenly from a small alphabet. At position t >= L the target is the symbol
of position t - L; the first L positions have none. Nothing else in the sentence depends on that symbol, so a
model that cannot see it is at chance, 1 / number of symbols, however long the training.

How far back a stack of layers can reach is known before any training (``reach``); whether training uses that reach is
measured. Every step draws new sentences, so the loss of the last steps is that of unseen sentences. For each kind and
distance, the learning rate with the lowest such loss is chosen; accuracy is then measured on other sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from minitransformer import ops
from minitransformer.apps.measure.layers import LAYERS
from minitransformer.apps.measure.position_tasks import NO_TARGET, Recall
from minitransformer.apps.measure.recall_model import RecallModel, RecallSizes, chance, reach
from minitransformer.apps.measure.seeds import over_seeds
from minitransformer.arrays import Array, asarray, to_numpy
from minitransformer.autograd import Tensor, no_grad
from minitransformer.nn import Parameter
from minitransformer.optim import Adam, inverse_square_root

LAST = 20
"""The number of last steps over which a loss is averaged, to choose a learning rate."""
LONGER = RecallSizes(n=32, steps=400)
"""The sizes of the experiment on longer sentences; ``n`` is the length in training."""
DISTANCES = (1, 2, 4, 6, 7, 8, 9, 12, 15, 16, 24, 32, 48)
RATES = (0.003, 0.01, 0.02)


def draw_batch(
    sizes: RecallSizes, distance: int, rng: np.random.Generator, n: int | None = None
) -> tuple[Array, Array]:
    """Draw sentences, by default of length ``sizes.n``, and the target at each position: integer arrays, (B, T).

    ``targets[:, t]`` is ``ids[:, t - distance]``, and ``NO_TARGET`` where there is none.
    """
    ids, targets, _ = Recall(distance, sizes.symbols, start=False).draw(n or sizes.n, sizes.batch, rng)
    return ids, targets


def fit(
    parameters: Sequence[Parameter], loss: Callable[[], Tensor], rate: float, steps: int, warmup: int
) -> list[float]:
    """Minimise a loss, of a fresh batch at every call, with Adam; return the loss of each step.

    The learning rate rises in ``warmup`` steps to ``rate``; then it falls with the square root of the step.
    """
    adam, losses = Adam(parameters), []
    for step in range(1, steps + 1):
        found = loss()
        adam.zero_grad()
        found.backward()
        adam.step(inverse_square_root(step, rate, warmup))
        losses.append(float(found.data))
    return losses


def train(model: RecallModel, sizes: RecallSizes, distance: int, rate: float, seed: int = 0) -> list[float]:
    """Train a model on fresh sentences, which the seed draws; return the loss of each step."""
    rng = np.random.default_rng([seed, distance])

    def loss() -> Tensor:
        ids, targets = draw_batch(sizes, distance, rng)
        return ops.cross_entropy(model(asarray(ids)), asarray(targets), ignore_index=NO_TARGET)

    return fit(model.parameters(), loss, rate, sizes.steps, sizes.warmup)


def accuracy_by_position(
    model: RecallModel, sizes: RecallSizes, distance: int, n: int | None = None, seed: int = 1
) -> Array:
    """Return the accuracy of a model on fresh sentences, by default of length ``sizes.n``, at each position.

    The array is on the host. It begins with the first position that has a target: ``distance``.
    """
    asked = replace(sizes, batch=sizes.fresh)
    # Training never draws from here: its generators begin with two numbers.
    ids, targets = draw_batch(asked, distance, np.random.default_rng([seed, distance, 1]), n)
    with no_grad():
        said = to_numpy(model(asarray(ids)).data).argmax(axis=-1)
    return (said == targets)[:, distance:].mean(axis=0)


class Trial(NamedTuple):
    """A model that was trained with a learning rate."""

    rate: float
    loss: float
    """The mean loss of the last steps."""
    accuracy: Array
    """What ``accuracy_by_position`` returns."""


def at_best_rate(
    make: Callable[..., RecallModel], sizes: RecallSizes, rates: Sequence[float], n: int | None = None
) -> Callable[[tuple[Any, ...], int], Trial]:
    """Return a function that trains a model with a seed, at the learning rate with the least loss in the last steps.

    It tries every rate with the first seed of a model, and takes the best of them for the other seeds. It is called as
    ``measure((*names, distance), seed)``, and makes models by ``make(*names, seed)``; accuracy is measured on sentences
    of length n.
    """
    best: dict[tuple[Any, ...], float] = {}

    def trial(cell: tuple[Any, ...], seed: int, rate: float) -> Trial:
        *names, distance = cell
        model = make(*names, seed)
        loss = float(np.mean(train(model, sizes, distance, rate, seed)[-LAST:]))
        return Trial(rate, loss, accuracy_by_position(model, sizes, distance, n))

    def measure(cell: tuple[Any, ...], seed: int) -> Trial:
        if cell in best:
            return trial(cell, seed, best[cell])
        found = min((trial(cell, seed, rate) for rate in rates), key=lambda one: one.loss)
        best[cell] = found.rate
        return found

    return measure


def measure_recall(
    sizes: RecallSizes,
    tell: Callable[[str], None],
    distances: Sequence[int] = DISTANCES,
    rates: Sequence[float] = RATES,
    seeds: Sequence[int] = (0, 1, 2),
) -> dict[str, Any]:
    """Train every kind of layer at every distance, and measure its accuracy.

    Parameters
    ----------
    sizes : RecallSizes
        The sizes.
    tell : callable
        Called with each result.
    distances, rates, seeds : sequences
        The values to try.

    Returns
    -------
    dict
        Plain values that can be written as JSON: ``"sizes"``, ``"chance"``, ``"distances"`` and
        ``"kinds"`` by name, each with ``"reach"``, ``"parameters"`` and ``"points"``: for each distance the ``"rate"``,
        the ``"losses"`` at the end and the ``"accuracy"`` of each seed.
    """
    result: dict[str, Any] = {"sizes": asdict(sizes), "chance": chance(sizes)}
    result |= {"distances": list(distances), "rates": list(rates), "kinds": {}}

    def make(kind: str, seed: int) -> RecallModel:
        return RecallModel(kind, sizes, seed)

    def words(trial: Trial) -> str:
        return f"{trial.accuracy.mean():.3f} at rate {trial.rate}"

    found = over_seeds(product(LAYERS, distances), seeds, at_best_rate(make, sizes, rates), tell, words)
    for kind in LAYERS:
        points = []
        for distance in distances:
            trials = found[kind, distance]
            accuracy = [float(trial.accuracy.mean()) for trial in trials]
            losses = [trial.loss for trial in trials]
            points.append({"distance": distance, "rate": trials[0].rate, "losses": losses, "accuracy": accuracy})
        parameters = sum(p.size for p in make(kind, 0).parameters())
        result["kinds"][kind] = {"reach": reach(kind, sizes), "parameters": parameters, "points": points}
    return result


def measure_extrapolation(
    sizes: RecallSizes,
    tell: Callable[[str], None],
    distance: int = 4,
    times: int = 4,
    rates: Sequence[float] = RATES,
    seeds: Sequence[int] = (0, 1, 2),
) -> dict[str, Any]:
    """Train on sentences of one length and test on longer ones, with sinusoidal and with learned positions.

    Parameters
    ----------
    sizes : RecallSizes
        The sizes; ``n`` is the length in training.
    tell : callable
        Called with each result.
    distance : int
        L, the distance of the symbol to recall.
    times : int
        The length of the test sentences, in multiples of the training length.
    rates, seeds : sequences
        The values to try; rates as in ``measure_recall``.

    Returns
    -------
    dict
        ``"sizes"``, ``"distance"``, ``"chance"`` and ``"kinds"``: by kind and kind of positions the
        ``"rate"`` and ``"accuracy"``, a list over the positions from ``distance`` on for each seed.
    """
    result: dict[str, Any] = {"sizes": asdict(sizes), "chance": chance(sizes)}
    result |= {"distance": distance, "times": times, "kinds": {}}
    longest = times * sizes.n

    def make(kind: str, positions: str, seed: int) -> RecallModel:
        return RecallModel(kind, sizes, seed, positions, longest)

    def words(trial: Trial) -> str:
        inside, beyond = (part.mean() for part in np.split(trial.accuracy, [sizes.n - distance]))
        return f"{inside:.3f} as long as in training, {beyond:.3f} beyond"

    cells = product(LAYERS, ("sinusoidal", "learned"), [distance])
    measure = at_best_rate(make, sizes, rates, longest)
    for (kind, positions, _), trials in over_seeds(cells, seeds, measure, tell, words).items():
        found = {"rate": trials[0].rate, "accuracy": [trial.accuracy.tolist() for trial in trials]}
        result["kinds"].setdefault(kind, {})[positions] = found
    return result
