"""The gradients of the shares of a batch; their sum is computed a slice at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from minitransformer.arrays import Array
from minitransformer.autograd import Tensor

__all__ = ["Flat", "Gradients", "Own", "Piece"]


class Piece(NamedTuple):
    """A part of a parameter in a slice of the buffer of all parameters."""

    parameter: int
    here: slice
    """Its place in the slice."""
    there: slice
    """The entries of the parameter."""


class Own:
    """The gradient of a share in the ``grad`` of parameters; None means zeros.

    Parameters
    ----------
    parameters : iterable of Tensor
        In the order of the optimiser.
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
    """The gradient of one share, or of all, in one array.

    Parameters
    ----------
    array : array
        A contiguous part of the gradient of all parameters.
    start : int
        Its first index in the buffer of all parameters.
    """

    def __init__(self, array: Array, start: int) -> None:
        self.array, self.start = array, start

    def values(self, part: slice, pieces: Sequence[Piece]) -> Iterator[tuple[slice, Array | None]]:
        """Yield a single place, the whole slice, and the gradient there."""
        yield slice(None), self.array[part.start - self.start : part.stop - self.start]


class Gradients:
    """The sum of the shares' gradients, in their order, times a factor.

    Parameters
    ----------
    shares : sequence of Own or Flat
        At least one.
    factor : array, shape (), optional
        The factor of the sum; see `clip_gradients`.
    """

    def __init__(self, shares: Sequence[Own | Flat], factor: Array | None = None) -> None:
        self.shares, self.factor = shares, factor

    def write_sum(self, part: slice, pieces: Sequence[Piece], out: Array) -> None:
        """Write a slice of the gradient.

        Parameters
        ----------
        part : slice
            The entries of the buffer of all parameters.
        pieces : sequence of Piece
            The parts of parameters in the slice.
        out : array, shape (length of part,)
            The output.
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
            Parameter i extends from ends[i] to ends[i + 1] in the buffer of all parameters.
        """
        if len(self.shares) > 1:
            return None
        share, factor = self.shares[0], self.factor
        arrays: list[Array | None]
        arrays = list(share.arrays) if isinstance(share, Own) else [share.array[i:j] for i, j in pairwise(ends)]
        return arrays if factor is None else [None if array is None else array * factor for array in arrays]
