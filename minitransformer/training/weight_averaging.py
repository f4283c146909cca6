"""Weight averaging: the mean of the weights over the last steps (section 6.1 averages the last checkpoints)."""

from __future__ import annotations

import numpy as np

from minitransformer.arrays import Array, asarray, to_numpy, xp
from minitransformer.nn import Model
from minitransformer.optim import Adam
from minitransformer.parallel import ProcessGroup


class WeightAverage:
    """The running mean of the weights that this process's optimiser updates.

    Parameters
    ----------
    optimiser : Adam
        It holds the weights.
    values : array, optional
        The mean of all weights so far; default: nothing was averaged yet.
    steps : int, default 0
        The number of steps in it.

    Attributes
    ----------
    steps : int
        The number of steps in the mean.
    values : array
        The mean, of the optimiser's part of the weights.
    """

    def __init__(self, optimiser: Adam, values: Array | None = None, steps: int = 0) -> None:
        self._optimiser, self.steps = optimiser, steps
        self.values: Array = xp.zeros_like(optimiser.mean) if values is None else values[optimiser.buffer.own].copy()

    def add(self) -> None:
        """Add the current weights."""
        self.steps += 1
        self.values += (self._optimiser.values[self._optimiser.buffer.own] - self.values) / self.steps

    def state_dict(self, model: Model, group: ProcessGroup) -> dict[str, Array]:
        """Return the mean as weights of the model, by name; an empty dictionary before the first step."""
        if not self.steps:
            return {}
        mean, ends = whole(self.values, self._optimiser, group), self._optimiser.buffer.ends
        places = {id(p): i for i, p in enumerate(self._optimiser.parameters)}
        return {
            name: np.array(to_numpy(p.data if i is None else mean[ends[i] : ends[i + 1]].reshape(p.shape)))
            for name, p in model.named_parameters()
            for i in [places.get(id(p))]  # None of fixed weights
        }

    def load_state_dict(self, model: Model, state: dict[str, Array], steps: int) -> None:
        """Load a mean from ``state_dict``; the model's own weights must be loaded afterwards."""
        if bool(state) != bool(steps):
            raise ValueError(f"the checkpoint has averaged={steps}, but {len(state)} averaged arrays")
        if state:
            model.load_state_dict(state)
            self.values[...] = self._optimiser.values[self._optimiser.buffer.own]
        self.steps = steps

    def clear(self) -> None:
        """Start again with no steps."""
        self.steps, self.values[...] = 0, 0


def whole(own: Array, optimiser: Adam, group: ProcessGroup) -> Array:
    """Return a whole array from the parts that the processes' optimisers update."""
    if group.size == 1:
        return asarray(own)
    array = xp.empty_like(optimiser.values)
    array[optimiser.buffer.own] = asarray(own)
    group.all_gather_into(array, optimiser.buffer.parts)
    return array
