"""The sub-layers that encoder and decoder are made of (sections 3.1 to 3.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.arrays import Array, asarray, xp
from minitransformer.autograd import Tensor, is_recording
from minitransformer.nn.module import Module, Parameter, check_sizes, xavier

__all__ = ["Cache", "FeedForward", "LayerNorm", "MultiHeadAttention", "Residual"]


class Cache:
    """The keys and values that one attention has computed so far, so that decoding computes each only once.

    They are the beginnings of arrays that have room for more, and twice as much whenever they are full: what is there
    is copied now and then, not at every step.

    Attributes
    ----------
    keys : array, shape (B, H, T, Dk), or None
    values : array, shape (B, H, T, Dv), or None
    """

    def __init__(self) -> None:
        self.keys: Array | None = None
        self.values: Array | None = None
        self._room: list[Array] = []  # what keys and values are the beginnings of

    def __len__(self) -> int:
        return 0 if self.keys is None else self.keys.shape[2]

    def extend(self, keys: Array, values: Array) -> None:
        """Append the keys and values of new positions; they are copied."""
        first, last = len(self), len(self) + keys.shape[2]
        if not first or last > self._room[0].shape[2]:
            old, self._room = self._room, []
            for i, new in enumerate((keys, values)):
                n, heads, _, size = new.shape
                self._room.append(xp.empty((n, heads, max(last, 2 * first), size), dtype=new.dtype))
                if first:
                    self._room[i][:, :, :first] = old[i][:, :, :first]
        for room, new in zip(self._room, (keys, values), strict=True):
            room[:, :, first:last] = new
        self._show(last)

    def select(self, rows: Any) -> None:
        """Keep these rows of the batch, in this order; a row may be kept several times.

        Only rows that come to another place are copied, as long as there are no more than before.

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
        for i, room in enumerate(self._room):
            if len(rows) > len(room):
                self._room[i] = room[asarray(rows)]
            else:
                if len(moved):
                    room[to, :, :length] = room[source, :, :length]
                self._room[i] = room[: len(rows)]
        self._show(length)

    def keep(self, positions: Any) -> None:
        """Keep these positions of each row, in this order: an integer array of shape (B, T)."""
        if self.keys is not None and self.values is not None:
            places = asarray(positions)[:, None, :, None]
            self._room = [xp.take_along_axis(part, places, axis=2) for part in (self.keys, self.values)]
            self._show(places.shape[2])

    def _show(self, length: int) -> None:
        self.keys, self.values = (room[:, :, :length] for room in self._room)


class MultiHeadAttention(Module):
    """Multi-head attention, section 3.2.2.

    Parameters
    ----------
    d_model : int
        D, the number of features.
    n_heads : int
        H.
    rng : numpy.random.Generator
        Draws the initial weights.
    d_k, d_v : int, optional
        Sizes of a head's keys and values; D / H by default.
    bias : bool
        Whether the projections have biases; the paper's have none.
    dtype : str
        The type of the parameters.
    block_size : int, optional
        How many queries are worked through at a time; all by default. Fewer need less memory for long sentences.

    Raises
    ------
    ValueError
        If a size is below 1, or D is not divisible by H and d_k is not given.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        rng: np.random.Generator,
        d_k: int | None = None,
        d_v: int | None = None,
        bias: bool = False,
        dtype: str = "float32",
        block_size: int | None = None,
    ) -> None:
        check_sizes("MultiHeadAttention", d_model=d_model, n_heads=n_heads, d_k=d_k, d_v=d_v)
        if block_size is not None:
            check_sizes("MultiHeadAttention", block_size=block_size)
        if d_k is None and d_model % n_heads:
            raise ValueError(
                f"MultiHeadAttention: d_model {d_model} is not divisible by n_heads {n_heads}: "
                "choose others, or give d_k (and d_v)"
            )
        self.n_heads = n_heads
        self.block_size = block_size
        self.d_k = d_k or d_model // n_heads
        self.d_v = d_v or (self.d_k if d_model % n_heads else d_model // n_heads)
        keys, values = n_heads * self.d_k, n_heads * self.d_v
        w_in = np.concatenate([xavier(rng, d_model, n) for n in (keys, keys, values)], axis=1)
        self.w_in = Parameter(asarray(w_in.astype(dtype)))  # [W_Q | W_K | W_V]
        self.w_out = Parameter(asarray(xavier(rng, values, d_model).astype(dtype)))
        self.b_in = Parameter(xp.zeros(2 * keys + values, dtype=dtype)) if bias else None
        self.b_out = Parameter(xp.zeros(d_model, dtype=dtype)) if bias else None

    def __call__(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: Array | None = None,
        cache: Cache | None = None,
        maps: list[Array] | None = None,
        causal: bool = False,
    ) -> Tensor:
        """Attend from x to the memory, or to x itself.

        Parameters
        ----------
        x : Tensor, shape (B, Tq, D)
            Where the queries come from.
        memory : Tensor, shape (B, Tk, D), optional
            Where keys and values come from; x by default.
        mask : boolean array, broadcastable to (B, H, Tq, Tk), optional
            True = may attend.
        cache : Cache, optional
            Keys and values of earlier positions; those of x are appended. With a memory, its keys and values are
            computed once. No gradient flows.
        maps : list, optional
            The attention weights (B, H, Tq, Tk) are appended to it. No gradient flows.
        causal : bool
            Whether a query sees only its own position and those before it, besides what the mask says. Needs Tq = Tk,
            so a cache must be empty; with one that is not, the mask has to say it.

        Returns
        -------
        Tensor, shape (B, Tq, D)
        """
        if cache is None and maps is None:
            return ops.multi_head_attention(
                x, memory, self.w_in, self.w_out, self.b_in, self.b_out,
                mask=mask, n_heads=self.n_heads, causal=causal, block_size=self.block_size,
            )  # fmt: skip
        inputs = (x, memory, self.w_in, self.w_out, self.b_in, self.b_out)
        if is_recording() and any(t is not None and t.requires_grad for t in inputs):
            raise RuntimeError(
                "MultiHeadAttention: no gradient flows through a cache or past recorded maps; "
                "wrap the call in `with no_grad():`"
            )
        return Tensor(self.attend(x.data, None if memory is None else memory.data, mask, cache, maps, causal))

    def attend(
        self,
        x: Array,
        memory: Array | None = None,
        mask: Array | None = None,
        cache: Cache | None = None,
        maps: list[Array] | None = None,
        causal: bool = False,
    ) -> Array:
        """Do the same on arrays, without a graph; arguments as for a call: (B, Tq, D) -> (B, Tq, D)."""
        cache = Cache() if cache is None else cache
        n_keys, n_all = self.n_heads * self.d_k, self.w_in.shape[1]
        if memory is None:
            projected = self._project(x, 0, n_all)  # [Q | K | V] in one product
            q = projected[..., :n_keys]
            self._remember(projected[..., n_keys:], cache)
        else:
            q = self._project(x, 0, n_keys)
            if not len(cache):
                self._remember(self._project(memory, n_keys, n_all), cache)
        block_size = self.block_size if maps is None else None  # whole maps are weights of all queries
        concat = xp.empty((*x.shape[:2], self.n_heads * self.d_v), dtype=x.dtype)
        _, saved = ops.scaled_dot_product_attention.forward(
            self._heads(q), cache.keys, cache.values, mask, causal, block_size, out=self._heads(concat)
        )
        if maps is not None:
            maps.append(saved[-1])
        y, _ = ops.linear.forward(concat, self.w_out.data, None if self.b_out is None else self.b_out.data)
        return y

    def _project(self, x: Array, first: int, last: int) -> Array:
        """Apply some columns of the projections: (B, T, D) -> (B, T, last - first)."""
        bias = None if self.b_in is None else self.b_in.data[first:last]
        y, _ = ops.linear.forward(x, self.w_in.data[:, first:last], bias)
        return y

    def _remember(self, kv: Array, cache: Cache) -> None:
        """Append projections [K | V] to a cache: (B, T, H * (Dk + Dv))."""
        n_keys = self.n_heads * self.d_k
        cache.extend(self._heads(kv[..., :n_keys]), self._heads(kv[..., n_keys:]))

    def _heads(self, x: Array) -> Array:
        """Show the heads as an axis, without a copy: (B, T, H * Dk) -> (B, H, T, Dk)."""
        return x.reshape(*x.shape[:2], self.n_heads, x.shape[2] // self.n_heads).swapaxes(1, 2)


class FeedForward(Module):
    """The position-wise feed-forward network, section 3.3, equation (2).

    Parameters
    ----------
    d_model, d_ff : int
        D and F, the numbers of features outside and inside.
    rng : numpy.random.Generator
        Draws the initial weights.
    dtype : str
        The type of the parameters.
    """

    def __init__(self, d_model: int, d_ff: int, rng: np.random.Generator, dtype: str = "float32") -> None:
        check_sizes("FeedForward", d_model=d_model, d_ff=d_ff)
        self.w1 = Parameter(asarray(xavier(rng, d_model, d_ff).astype(dtype)))
        self.b1 = Parameter(xp.zeros(d_ff, dtype=dtype))
        self.w2 = Parameter(asarray(xavier(rng, d_ff, d_model).astype(dtype)))
        self.b2 = Parameter(xp.zeros(d_model, dtype=dtype))

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the network to each position: (B, T, D) -> (B, T, D)."""
        return ops.feed_forward(x, self.w1, self.b1, self.w2, self.b2)


class LayerNorm(Module):
    """Layer normalisation over the features.

    Parameters
    ----------
    d_model : int
        D, the number of features.
    dtype : str
        The type of the parameters.
    """

    def __init__(self, d_model: int, dtype: str = "float32") -> None:
        self.gain = Parameter(xp.ones(d_model, dtype=dtype))
        self.bias = Parameter(xp.zeros(d_model, dtype=dtype))

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise each position: (B, T, D) -> (B, T, D)."""
        return ops.layer_norm(x, self.gain, self.bias)


class Residual(Module):
    """What surrounds each sub-layer: dropout, the residual connection and layer normalisation.

    ``norm="post"`` is the paper's: LayerNorm(x + Dropout(Sublayer(x))), sections 3.1 and 5.4. ``norm="pre"`` normalises
    on the way in instead: x + Dropout(Sublayer(LayerNorm(x))).

    Parameters
    ----------
    d_model : int
        D, the number of features.
    dropout : float
        The probability of dropping an entry of the sub-layer's output.
    norm : {"post", "pre"}
        Where to normalise.
    dtype : str
        The type of the parameters.
    """

    def __init__(self, d_model: int, dropout: float, norm: str = "post", dtype: str = "float32") -> None:
        if norm not in ("post", "pre"):
            raise ValueError(f"norm must be 'post' or 'pre', found {norm!r}")
        self.layer_norm = LayerNorm(d_model, dtype)
        self.dropout = dropout
        self.norm = norm

    def __call__(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], rng: np.random.Generator | None) -> Tensor:
        """Apply a sub-layer to x; without a generator nothing is dropped: (B, T, D) -> (B, T, D)."""
        y = sublayer(self.layer_norm(x) if self.norm == "pre" else x)
        y = ops.dropout(y, self.dropout, rng, x) if rng is not None and self.dropout else x + y
        return y if self.norm == "pre" else self.layer_norm(y)
