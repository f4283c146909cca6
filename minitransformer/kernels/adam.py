"""A step of Adam on a GPU: one kernel over the whole buffer, which reads each gradient without a copy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from minitransformer.arrays import Array, asarray, xp
from minitransformer.kernels.source import TYPES, Source

__all__ = ["AdamStep"]

source = Source("adam.cu", "adam_step")
CHUNK = 4096
THREADS = 256


class AdamStep:
    """The steps of one optimiser.

    Parameters
    ----------
    ends : sequence of int
        Parameter i is in the buffer from ends[i] to ends[i + 1].
    decays : sequence of bool
        Which parameters the weight decay is for.
    """

    def __init__(self, ends: Sequence[int], decays: Sequence[bool]) -> None:
        chunks = [
            (begin, min(CHUNK, last - begin), number, begin - first, decays[number])
            for number, (first, last) in enumerate(pairwise(ends))
            for begin in range(first, last, CHUNK)
        ]
        self._n_chunks = len(chunks)
        self._chunks = [asarray(np.array(column, dtype=np.int64)) for column in zip(*chunks, strict=True)]

    def __call__(
        self, gradients: Sequence[Array | None], theta: Array, mean: Array, mean_square: Array,
        betas: tuple[float, float], rate: float, eps: float, decay: float,
    ) -> bool:  # fmt: skip
        """Update theta, mean and mean square as ``Adam.step`` does; return whether there is a kernel for these arrays.

        Parameters
        ----------
        gradients : sequence of array or None
            One for each parameter; None means zeros.
        theta, mean, mean_square : arrays
            The buffers, which are written to.
        betas : pair of float
        rate, eps, decay : float
            As in ``θ -= rate * m / (sqrt(v) + eps) + decay * θ``.
        """
        if theta.dtype.name not in TYPES or any(g is not None and g.dtype != theta.dtype for g in gradients):
            return False
        whole = [None if g is None else xp.ascontiguousarray(g) for g in gradients]
        places = asarray(np.array([0 if g is None else g.data.ptr for g in whole], dtype=np.uint64))
        if self._n_chunks:
            source.start(
                "adam_step", theta.dtype, self._n_chunks, THREADS,
                places, *self._chunks, *map(float, (*betas, rate, eps, decay)), theta, mean, mean_square,
            )  # fmt: skip
        return True
