"""The gradients of the micro-batches of a batch; their sum is computed a slice at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from minitransformer.arrays import Array
from minitransformer.optim import Buffer, Gradient


class Flat(Gradient):
    """The gradient of one micro-batch, or of all, in one array.

    Parameters
    ----------
    array : array
        The gradient of the part of the parameters that this process updates.
    buffer : Buffer
        It lays out the parameters.
    """

    def __init__(self, array: Array, buffer: Buffer) -> None:
        self.array, self._buffer, self._start = array, buffer, buffer.own.start

    def values(self, part: slice) -> Iterator[tuple[slice, Array | None]]:
        """Yield a single place, the whole slice, and the gradient there."""
        yield slice(None), self.array[part.start - self._start : part.stop - self._start]

    def by_parameter(self) -> list[Array | None] | None:
        """Return the gradient of each parameter; None if other processes update some of them."""
        ends = self._buffer.ends
        return [self.array[i:j] for i, j in pairwise(ends)] if len(self.array) == ends[-1] else None


class Sum(Gradient):
    """The sum of the micro-batches' gradients, in their order, times a factor.

    Parameters
    ----------
    micro_batches : sequence of Gradient
        At least one.
    factor : array, shape (), optional
        The factor of the sum; see `clip_gradient`.
    """

    def __init__(self, micro_batches: Sequence[Gradient], factor: Array | None = None) -> None:
        self.micro_batches, self.factor = micro_batches, factor

    def write(self, part: slice, out: Array) -> None:
        """Write a slice of the gradient into an array."""
        first, *others = self.micro_batches
        first.write(part, out)
        for micro_batch in others:
            for here, values in micro_batch.values(part):
                if values is not None:
                    out[here] += values
        if self.factor is not None:
            out *= self.factor

    def by_parameter(self) -> list[Array | None] | None:
        """Return the gradient of each parameter if there is one micro-batch, and None if there are several."""
        arrays, factor = self.micro_batches[0].by_parameter() if len(self.micro_batches) == 1 else None, self.factor
        if arrays is None or factor is None:
            return arrays
        return [None if array is None else array * factor for array in arrays]
