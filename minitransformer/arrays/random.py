"""Random numbers that do not depend on the array library, nor on how the rows of a batch are distributed."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from minitransformer.arrays.namespace import Array
from minitransformer.arrays.transfer import asarray


class RowsGenerator(np.random.Generator):
    """A generator for some rows of a batch; it draws for them what a plain generator draws for the whole batch.

    So a batch that is split among workers gets the same random numbers as the whole batch. `random_bits` and
    `generator_state` use the part of the stream that belongs to these rows and skip the rest; afterwards all generators
    are in the same state. Its own methods draw like those of a plain generator.

    Parameters
    ----------
    bits : numpy.random.PCG64DXSM
        The bit generator; it can be advanced without drawing.
    before, after : int
        The number of rows of the batch before these, and after them.
    """

    def __init__(self, bits: np.random.PCG64DXSM, before: int = 0, after: int = 0) -> None:
        super().__init__(bits)
        self.bits, self.before, self.after = bits, before, after

    def __reduce__(self) -> tuple[Any, ...]:
        """Let copies have this class too."""
        return type(self), (self.bits, self.before, self.after)


def random_bits(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Draw uniform whole numbers from 0 to 65,535.

    Sixteen bits cost a quarter of what a random float costs, and resolve a probability to 1 in 65,536. They are drawn
    on the host, so that every backend gets the same; the dropout kernel makes them on the GPU instead.

    Parameters
    ----------
    rng : numpy.random.Generator
        The generator; it is advanced.
    shape : tuple of int
        The shape of the result; the first axis runs over the rows.

    Returns
    -------
    array of uint16
    """
    # Four 16-bit numbers are cut out of each 64-bit one; each row begins with a new one.
    rows, size = (shape or (1,))[0], prod(shape[1:])
    words = -(-size // 4)
    part = rng if isinstance(rng, RowsGenerator) and (rng.before or rng.after) else None
    if part:
        part.bits.advance(part.before * words)
    if isinstance(rng, RowsGenerator):  # the numbers that integers would draw, without its checks
        drawn = rng.bits.random_raw((rows, words))
    else:  # random_raw of a Mersenne Twister has only 32 bits
        drawn = rng.integers(0, 2**64, size=(rows, words), dtype=np.uint64)
    if part:
        part.bits.advance(part.after * words)
    return asarray(drawn.view(np.uint16)[:, :size].reshape(shape))


def generator_state(rng: np.random.Generator, rows: int, words: int) -> tuple[np.uint64, ...] | None:
    """Return the state of a generator, for a kernel that draws in its place, and advance it by what the kernel draws.

    Parameters
    ----------
    rng : numpy.random.Generator
        It is advanced as by ``random_bits``.
    rows, words : int
        The number of rows, and of 64-bit numbers for each.

    Returns
    -------
    tuple of four uint64, or None
        The state of a PCG64DXSM and its increment, each in two halves, the higher one first; None for other generators,
        which cannot be drawn from elsewhere.
    """
    bits = rng.bit_generator
    if not isinstance(bits, np.random.PCG64DXSM):
        return None
    before, after = (rng.before, rng.after) if isinstance(rng, RowsGenerator) else (0, 0)
    bits.advance(before * words)
    numbers = bits.state["state"]
    bits.advance((rows + after) * words)
    return tuple(np.uint64(part) for name in ("state", "inc") for part in divmod(numbers[name], 2**64))
