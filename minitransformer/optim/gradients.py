"""The gradients of the shares of a batch: their sum is the gradient, taken a slice at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from minitransformer.arrays import Array
from minitransformer.autograd import Tensor

__all__ = ["Flat", "Gradients", "Own", "Piece"]


class Piece(NamedTuple):
    """A part of a parameter that lies in a slice of the buffer of all parameters."""

    parameter: int
    here: slice
    """Where it lies in the slice."""
    there: slice
    """Which of the parameter's entries it holds."""


class Own:
    """The gradient of a share in the ``grad`` of parameters; None stands for zeros.

    Parameters
    ----------
    parameters : iterable of Tensor
        In the order in which the optimiser has them.
    """

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self.arrays = [parameter.grad for parameter in parameters]
        self._flat = [None if array is None else array.reshape(-1) for array in self.arrays]

    def values(self, part: slice, pieces: Sequence[Piece]) -> Iterator[tuple[slice, Array | None]]:
        """Yield places in a slice of the buffer, and the gradient there."""
        for i, here, there in pieces:
            gradient = self._flat[i]
            yield here, None if gradient is None else gradient[there]


class Flat:
    """The gradient of a share, or of all, in one array.

    Parameters
    ----------
    array : array
        A contiguous part of the gradient of all parameters, side by side.
    start : int
        Where in the buffer of all parameters it begins.
    """

    def __init__(self, array: Array, start: int) -> None:
        self.array, self.start = array, start

    def values(self, part: slice, pieces: Sequence[Piece]) -> Iterator[tuple[slice, Array | None]]:
        """Yield the one place, all of a slice of the buffer, and the gradient there."""
        yield slice(None), self.array[part.start - self.start : part.stop - self.start]


class Gradients:
    """The sum of the gradients of shares, in their order, times a factor.

    Parameters
    ----------
    shares : sequence of Own or Flat
        At least one.
    factor : array, shape (), optional
        What the sum is multiplied by; see `clip_gradients`.
    """

    def __init__(self, shares: Sequence[Own | Flat], factor: Array | None = None) -> None:
        self.shares, self.factor = shares, factor

    def write_sum(self, part: slice, pieces: Sequence[Piece], out: Array) -> None:
        """Write a slice of the gradient.

        Parameters
        ----------
        part : slice
            Which entries of the buffer of all parameters.
        pieces : sequence of Piece
            The parts of parameters that lie there.
        out : array, shape (length of part,)
            What is written to.
        """
        for number, share in enumerate(self.shares):
            for here, values in share.values(part, pieces):
                if not number:
                    out[here] = 0 if values is None else values
                elif values is not None:
                    out[here] += values
        if self.factor is not None:
            out *= self.factor

    def single(self, ends: Sequence[int]) -> list[Array | None] | None:
        """Return the gradient of each parameter if there is one share, and None if there are several.

        Parameters
        ----------
        ends : sequence of int
            Parameter i lies in the buffer of all parameters from ends[i] to ends[i + 1].
        """
        if len(self.shares) > 1:
            return None
        share, factor = self.shares[0], self.factor
        arrays: list[Array | None]
        arrays = list(share.arrays) if isinstance(share, Own) else [share.array[i:j] for i, j in pairwise(ends)]
        return arrays if factor is None else [None if array is None else array * factor for array in arrays]
