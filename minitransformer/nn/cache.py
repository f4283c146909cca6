"""The cache of the decoder between steps: keys and values, and which hypothesis sees them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from minitransformer.arrays import Array, asarray, xp


class KeysAndValues:
    """The keys and values of one attention so far, so that decoding computes each only once.

    Both are views of longer buffers. A full buffer is replaced by one of twice its length, so appending rarely copies.

    Attributes
    ----------
    keys : array, shape (B, H, T, Dk), or None
    values : array, shape (B, H, T, Dv), or None
    position : int
        The position of the next rows, by which rotary positions turn them.
    """

    def __init__(self) -> None:
        self.keys: Any = None
        self.values: Any = None
        self.position = 0
        self._buffers: list[Array] = []

    def __len__(self) -> int:
        return 0 if self.keys is None else self.keys.shape[2]

    def extend(self, keys: Array | None, values: Array | None) -> tuple[Array, Array]:
        """Append the keys and values of new positions, if there are any, and return all; they are copied."""
        if keys is None or values is None:
            return self.keys, self.values
        first, last = len(self), len(self) + keys.shape[2]
        if not first or last > self._buffers[0].shape[2]:
            old, self._buffers = self._buffers, []
            for i, new in enumerate((keys, values)):
                n, heads, _, size = new.shape
                self._buffers.append(xp.empty((n, heads, max(last, 2 * first), size), dtype=new.dtype))
                if first:
                    self._buffers[i][:, :, :first] = old[i][:, :, :first]
        for buffer, new in zip(self._buffers, (keys, values), strict=True):
            buffer[:, :, first:last] = new
        return self._show(last)

    def select(self, rows: Any) -> None:
        """Keep these rows of the batch, in this order; a row may be kept several times.

        Only rows that move are copied, unless there are more rows than before.

        Parameters
        ----------
        rows : integer array or list, shape (n,)
            On the host.
        """
        if self.keys is None:
            return
        rows, length = np.asarray(rows), len(self)
        moved = np.flatnonzero(rows != np.arange(len(rows)))
        to, source = asarray(moved), asarray(rows[moved])
        for i, buffer in enumerate(self._buffers):
            if len(rows) > len(buffer):
                self._buffers[i] = buffer[asarray(rows)]
            else:
                if len(moved):
                    buffer[to, :, :length] = buffer[source, :, :length]
                self._buffers[i] = buffer[: len(rows)]
        self._show(length)

    def keep(self, positions: Any) -> None:
        """Keep these positions of each row, in this order: an integer array of shape (B, T)."""
        if self.keys is not None and self.values is not None:
            places = asarray(positions)[:, None, :, None]
            self._buffers = [xp.take_along_axis(part, places, axis=2) for part in (self.keys, self.values)]
            self._show(places.shape[2])

    def _show(self, length: int) -> tuple[Array, Array]:
        keys, values = self._buffers
        self.keys, self.values = keys[:, :, :length], values[:, :, :length]
        return self.keys, self.values


class Cache:
    """The decoder's cache for a batch of sentences; `Transformer.new_cache` creates one.

    Each sentence has W hypotheses. They are W queries to one source and to one store with the keys and values of all
    their tokens. A mask lets each hypothesis see only its own tokens, so hypotheses share a common prefix, and nothing
    is copied when their order changes.

    Tokens that no hypothesis sees any more are dropped once that makes the store half as long.

    Parameters
    ----------
    real : boolean array, shape (B, Tk)
        True = no padding, for each source token; on the host. Without a source Tk is 0.
    memory : array, shape (B, Tk, D), optional
        What the decoder attends to.

    Attributes
    ----------
    memory : array, shape (B, Tk, D), or None
    target : list of KeysAndValues
        For each self-attention of a step, in order, the keys and values of the target tokens so far.
    source : list of KeysAndValues
        For each attention to the memory, in order, its keys and values; the first step computes them.
    memory_mask : boolean array, shape (B, 1, 1, Tk), or None
        Which source tokens are seen; None if all are.
    position : int
        The position of the next tokens.
    seen : boolean array, shape (B, W, T), or None
        Which of the T tokens in store each hypothesis sees, on the host; None while there is one hypothesis, which
        sees all of them.
    """

    def __init__(self, real: NDArray[np.bool_], memory: Array | None = None) -> None:
        self.memory = memory
        self.target: list[KeysAndValues] = []
        self.source: list[KeysAndValues] = []
        self._n_used = [0, 0]  # how many of each this step has used
        self.position = 0
        self.on_arrays: bool | None = None  # whether steps compute on arrays, set by the first one
        self.seen: NDArray[np.bool_] | None = None
        self._positions: NDArray[np.int64] | None = None  # of the tokens in store, (B, T); None like ``seen``
        self._real = real
        self.memory_mask = _mask(real[:, None])

    def use_next(self, of_memory: bool) -> KeysAndValues:
        """Return the keys and values of the attention that runs now: those after the last ones used in this step.

        They go by order, because one layer may be used twice in a step.
        """
        stored, n = self.source if of_memory else self.target, self._n_used[of_memory]
        self._n_used[of_memory] += 1
        if n == len(stored):
            stored.append(KeysAndValues())
        stored[n].position = self.position
        return stored[n]

    def distances(self) -> Array:
        """Return how far back from the current position each token in store is: (B, 1, 1, T), or (1, 1, 1, T)."""
        positions = np.arange(self.position + 1)[None] if self._positions is None else self._positions
        return asarray(self.position - positions)[:, None, None, :]

    def branch(self, shape: tuple[int, int], parents: Any = None) -> Array | None:
        """Begin a step of B sentences with W hypotheses each, which see their parent's tokens and their own new one.

        Parameters
        ----------
        shape : tuple of int
            (B, W), the shape of the new tokens.
        parents : integer array, shape (B, W), optional
            The index of the previous hypothesis that each one continues; by default its own.

        Returns
        -------
        boolean array, shape (B, 1, W, T), or None
            Which tokens in store each hypothesis sees, for all heads; None if each sees all.

        Raises
        ------
        ValueError
            If the number of sentences has changed, or the numbers of parents and hypotheses differ.
        """
        self._n_used = [0, 0]
        n, width = shape
        before = 1 if self.seen is None else self.seen.shape[1]
        if parents is None and self.seen is None and shape == (len(self._real), 1):
            return None
        parents = np.broadcast_to(np.arange(before), (n, before)) if parents is None else np.asarray(parents)
        if n != len(self._real) or parents.shape != shape:
            raise ValueError(
                f"a step with a cache: found tokens of shape {shape} and parents of shape {parents.shape}, expected "
                f"both of shape (B, W) with B = {len(self._real)}; without parents W stays {before}"
            )
        if width == before == 1 and self.seen is None:
            return None
        seen, positions = self.seen, self._positions
        if seen is None or positions is None:
            seen = np.ones((n, 1, self.position), dtype=bool)
            positions = np.broadcast_to(np.arange(self.position), (n, self.position))
        seen = np.take_along_axis(seen, parents[:, :, None], axis=1)
        itself = np.broadcast_to(np.eye(width, dtype=bool), (n, width, width))
        self.seen = np.concatenate((seen, itself), axis=2)
        self._positions = np.concatenate((positions, np.full((n, width), self.position)), axis=1)
        return _mask(self.seen)

    def advance(self) -> None:
        """End a step: advance the position, and drop tokens that no hypothesis sees if they are half of the store."""
        self.position += 1
        self._n_used = [0, 0]
        if self.seen is None or self._positions is None:
            return
        used = self.seen.any(axis=1)  # (B, T)
        most = int(used.sum(axis=1).max(initial=0))
        if 2 * most <= used.shape[1]:
            kept = np.argsort(~used, axis=1, kind="stable")[:, :most]  # and unused ones, for sentences with fewer
            for stored in self.target:
                stored.keep(kept)
            self.seen = np.take_along_axis(self.seen, kept[:, None, :], axis=2)
            self._positions = np.take_along_axis(self._positions, kept, axis=1)

    def select(self, going: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Keep only some sentences, and return their previous indices in the new order.

        The last ones fill the gaps; the others do not move.

        Parameters
        ----------
        going : boolean array, shape (B,)
            Which sentences are kept.

        Returns
        -------
        integer array, shape (n,)
        """
        n = int(going.sum())
        rows = np.arange(n)
        rows[~going[:n]] = np.flatnonzero(going[n:]) + n
        for stored in (*self.target, *self.source):
            stored.select(rows)
        self.memory = None if self.memory is None else self.memory[asarray(rows)]
        self._real = self._real[rows]
        self.memory_mask = _mask(self._real[:, None])
        self.seen = None if self.seen is None else self.seen[rows]
        self._positions = None if self._positions is None else self._positions[rows]
        return rows


def _mask(seen: NDArray[np.bool_]) -> Array | None:
    """Return the mask of all heads, on the device, or None if everything is seen: (B, W, T) -> (B, 1, W, T)."""
    return None if seen.all() else asarray(seen[:, None])
