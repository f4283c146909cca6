"""All parameters of a model in one array, so that an optimiser's step is arithmetic on long arrays."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from minitransformer.arrays import Array, asarray, cache_slices, even_parts, xp
from minitransformer.autograd import Tensor


class Piece(NamedTuple):
    """A part of a parameter in a slice of the buffer."""

    parameter: int
    here: slice
    """Its place in the slice."""
    there: slice
    """The entries of the parameter."""


class Buffer:
    """One array for all parameters, of whose ``data`` every parameter's becomes a view.

    Parameters
    ----------
    parameters : iterable of Tensor
        All of one type.
    part : pair of int, default (0, 1)
        ``(i, n)``: its owner updates the i-th of n parts, and n processes share the work.
    values : array, optional
        The memory to use, which the n processes may have in common.

    Attributes
    ----------
    values : array
        All parameters; parameter i is in ``values[ends[i]:ends[i + 1]]``.
    parts : list of slice
        The n parts.
    own : slice
        The part that its owner updates.
    slices : list of slice
        The own part, in slices that fit a processor's cache.

    A copy (by ``copy.deepcopy`` or ``pickle``) has an array of its own and copies of the parameters.
    """

    def __init__(
        self, parameters: Iterable[Tensor], part: tuple[int, int] = (0, 1), values: Array | None = None
    ) -> None:
        self.parameters, self.part = list(parameters), part
        self.ends = list(accumulate((p.size for p in self.parameters), initial=0))
        self.values = xp.zeros(self.ends[-1], dtype=self.parameters[0].dtype) if values is None else values
        self._views = [
            self.values[first:last].reshape(p.shape)
            for p, (first, last) in zip(self.parameters, pairwise(self.ends), strict=True)
        ]
        self.parts = even_parts(len(self.values), part[1])
        self.own = self.parts[part[0]]
        first = self.own.start
        inside = cache_slices(self.own.stop - first)
        self.slices = [slice(first + one.start, first + one.stop) for one in inside]
        self._pieces = {(one.start, one.stop): self._cut(one) for one in (*self.slices, *self.parts)}
        self.gather()

    def __reduce__(self) -> tuple[Any, ...]:
        return Buffer, (self.parameters, self.part)

    def gather(self) -> None:
        """Make every ``data`` a view of the buffer again, keeping values assigned in the meantime."""
        for p, value in zip(self.parameters, self._views, strict=True):
            if p.shape != value.shape or (p.grad is not None and p.grad.shape != value.shape):
                raise ValueError(
                    f"Adam: a parameter had shape {value.shape}, and now has data of shape {p.shape} "
                    f"and a gradient of shape {None if p.grad is None else p.grad.shape}"
                )
            if p.data is not value:
                value[...] = asarray(p.data)
                p.data = value

    def pieces(self, part: slice) -> list[Piece]:
        """Return the parts of parameters in one of the slices or parts."""
        return self._pieces[part.start, part.stop]

    def _cut(self, part: slice) -> list[Piece]:
        pieces, ends = [], self.ends
        i = bisect_right(ends, part.start) - 1
        while i + 1 < len(ends) and ends[i] < part.stop:
            first, last = max(ends[i], part.start), min(ends[i + 1], part.stop)
            if first < last:
                here = slice(first - part.start, last - part.start)
                pieces.append(Piece(i, here, slice(first - ends[i], last - ends[i])))
            i += 1
        return pieces


class Gradient:
    """The gradient of all parameters, from the ``grad`` of each; None means zeros.

    Parameters
    ----------
    buffer : Buffer
        It lays out the parameters.
    """

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        self._arrays = [p.grad for p in buffer.parameters]

    def values(self, part: slice) -> Iterator[tuple[slice, Array | None]]:
        """Yield places in a slice of the buffer, and the gradient there."""
        for i, here, there in self._buffer.pieces(part):
            array = self._arrays[i]
            yield here, None if array is None else array.reshape(-1)[there]

    def write(self, part: slice, out: Array) -> None:
        """Write a slice of the gradient into an array."""
        for here, values in self.values(part):
            out[here] = 0 if values is None else values

    def by_parameter(self) -> list[Array | None] | None:
        """Return the gradient of each parameter; None if they are not in memory one by one."""
        return self._arrays
