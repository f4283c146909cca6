"""Extrapolation: models that learned to recall, on sentences longer than in training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from minitransformer.apps.bench.machine import describe
from minitransformer.apps.paper.layers import LAYERS
from minitransformer.apps.paper.recall import RATES, train_at_best_rate
from minitransformer.apps.paper.recall_model import RecallModel, RecallSizes, chance

SIZES = RecallSizes(n=32, steps=400)
"""The sizes of the experiment in the benchmarks; ``n`` is the length in training."""


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
        ``"machine"``, ``"sizes"``, ``"distance"``, ``"chance"`` and ``"kinds"``: by kind and kind of positions the
        ``"rate"`` and ``"accuracy"``, a list over the positions from ``distance`` on for each seed.
    """
    result: dict[str, Any] = {"machine": describe(), "sizes": asdict(sizes), "chance": chance(sizes)}
    result |= {"distance": distance, "times": times, "kinds": {}}

    for kind in LAYERS:
        result["kinds"][kind] = {}
        for positions in ("sinusoidal", "learned"):

            def make(seed: int, kind: str = kind, positions: str = positions) -> RecallModel:
                return RecallModel(kind, sizes, seed, positions, times * sizes.n)

            rate, _, found = train_at_best_rate(make, sizes, distance, rates, seeds, times * sizes.n)
            accuracy = [by_position.tolist() for by_position in found]
            result["kinds"][kind][positions] = {"rate": rate, "accuracy": accuracy}
            inside, outside = (part.mean() for part in np.split(np.array(accuracy), [sizes.n - distance], axis=1))
            tell(f"{kind}, {positions} positions: {inside:.3f} as long as in training, {outside:.3f} beyond")
    return result
