"""The error of finite differences over the step size: truncation at one end, rounding at the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitransformer.arrays import Array
from minitransformer.autograd import Tensor
from minitransformer.testing.adapters import Tensors
from minitransformer.testing.case import Case, in_float64
from minitransformer.testing.claim import Claim
from minitransformer.testing.report import Stop
from minitransformer.testing.steps import take_step

ENTRIES = 40
"""How many entries of each input are moved."""


@dataclass(frozen=True)
class Sweep:
    """The largest difference between backward pass and finite differences, for each step.

    Differences are relative to the largest entry of the gradient of the same input.
    """

    steps: Array
    """The steps h, ascending."""
    central: Array
    """For (L(x + h) - L(x - h)) / 2h, whose truncation error grows as h²."""
    extrapolated: Array
    """For Richardson's extrapolation of steps h and h/2, whose truncation error grows as h⁴."""
    worst_name: str
    """The input of the entry that differs most at the best step of the extrapolated ones."""
    worst_index: tuple[int, ...]
    """That entry."""

    @property
    def best_step(self) -> float:
        """The step at which the extrapolated difference is smallest."""
        return float(self.steps[self.extrapolated.argmin()])


def sweep(
    function: Callable[..., Tensor],
    inputs: Sequence[Any],
    *,
    names: Sequence[str] | None = None,
    steps: Sequence[float] | Array | None = None,
    seed: int = 0,
    **options: Any,
) -> Sweep:
    """Compare a backward pass with finite differences of many step sizes.

    Parameters
    ----------
    steps : sequence of float, optional
        The steps; by default three in each power of ten from 1e-12 to 1.
    function, inputs, names, seed, **options
        As in ``gradcheck``; floating-point arrays are moved one entry at a time.

    Returns
    -------
    Sweep
    """
    steps = np.sort(np.asarray(steps)) if steps is not None else np.logspace(-12, 0, 37)
    case = Case("sweep", function, in_float64("sweep", function, inputs), options, names, Tensors())
    rng = np.random.default_rng(seed)
    try:
        claim = Claim(case, rng, quick=True)
    except Stop as stop:
        raise stop.as_error(case.name, case.title) from None
    entries: list[tuple[int, tuple[int, ...]]] = []
    errors = []  # one row for each entry: (2, number of steps)
    for i, gradient in claim.gradients.items():
        largest = np.abs(gradient).max(initial=0.0) or 1.0
        for flat in rng.permutation(gradient.size)[:ENTRIES]:
            index = tuple(int(n) for n in np.unravel_index(flat, gradient.shape))
            direction = np.zeros_like(gradient)
            direction[index] = 1.0
            loss = case.loss({i: direction}, claim.d_output, claim.start)
            taken = [take_step(loss, float(h)) for h in steps]
            found = np.array([[step.central for step in taken], [step.slope for step in taken]])
            errors.append(np.abs(found - gradient[index]) / largest)
            entries.append((i, index))
    if not errors:
        raise ValueError("sweep: no input is a floating-point array with entries, so there is nothing to move")
    table = np.stack(errors)  # (entries, 2, steps)
    worst_of_all = table.max(axis=0)
    best = int(worst_of_all[1].argmin())
    i, index = entries[int(table[:, 1, best].argmax())]
    return Sweep(steps, worst_of_all[0], worst_of_all[1], case.names[i], index)
