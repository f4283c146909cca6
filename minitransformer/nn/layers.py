"""The sub-layers of encoder and decoder (sections 3.1 to 3.3).

Each computes in two ways. A call takes and returns tensors, for training. Where decoding needs it, ``step`` computes
the same on arrays, without a graph and without dropout: a step of decoding computes so little that the overhead of
tensors would be noticeable.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from minitransformer import ops
from minitransformer.arrays import Array, xp
from minitransformer.autograd import Operation, Tensor, is_recording
from minitransformer.nn.cache import KeysAndValues
from minitransformer.nn.module import Module, Parameter, weights, xavier
from minitransformer.nn.options import QUERIES, ModelOptions
from minitransformer.stand_ins import replaceable

__all__ = ["FeedForward", "LayerNorm", "MultiHeadAttention", "Residual"]


ACTIVATIONS: dict[str, tuple[Operation, dict[str, float]]] = {
    "silu": (ops.silu, {}),
    "gelu": (ops.gelu, {}),
    "quick_gelu": (ops.silu, {"beta": 1.702}),
}
"""The activations besides ReLU, with their options. ``ops.feed_forward`` contains ReLU."""


class MultiHeadAttention(Module):
    """Multi-head attention, section 3.2.2.

    Parameters
    ----------
    options : ModelOptions
        The options of the model.
    rng : numpy.random.Generator
        Draws the initial weights.

    Examples
    --------
    >>> options = mt.nn.ModelOptions(d_model=8, n_heads=2, n_layers=1, d_ff=16)
    >>> part = mt.nn.MultiHeadAttention(options, np.random.default_rng(0))
    >>> x = mt.Tensor(np.zeros((1, 3, 8), "float32"))  # (B, T, D)
    >>> part(x, causal=True).shape
    (1, 3, 8)
    """

    def __init__(self, options: ModelOptions, rng: np.random.Generator) -> None:
        self.options = options
        d_model, dtype = options.d_model, options.dtype
        keys, values = options.n_heads * options.key_size, options.n_heads * options.value_size
        w_in = np.concatenate([xavier(rng, d_model, n) for n in (keys, keys, values)], axis=1)
        self.w_in = weights(w_in, dtype)  # [W_Q | W_K | W_V]
        self.w_out = weights(xavier(rng, values, d_model), dtype)
        self.b_in = Parameter(xp.zeros(2 * keys + values, dtype=dtype)) if options.attention_bias else None
        self.b_out = Parameter(xp.zeros(d_model, dtype=dtype)) if options.attention_bias else None

    def __call__(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: Array | None = None,
        causal: bool = False,
        maps: list[Array] | None = None,
    ) -> Tensor:
        """Attend from x to the memory, or to x itself.

        Parameters
        ----------
        x : Tensor, shape (B, Tq, D)
                        The source of the queries.
        memory : Tensor, shape (B, Tk, D), optional
            The source of keys and values; x by default.
        mask : boolean array, broadcastable to (B, H, Tq, Tk), optional
            True = may attend.
        causal : bool
            Whether a query sees only its own position and those before it, besides what the mask says. Needs Tq = Tk.
        maps : list, optional
            The attention weights (B, H, Tq, Tk) are appended to it. No gradient flows.

        Returns
        -------
        Tensor, shape (B, Tq, D)

        Raises
        ------
        RuntimeError
            If maps are recorded while a gradient is wanted.
        """
        inputs = (x, memory, self.w_in, self.w_out, self.b_in, self.b_out)
        n_heads = self.options.n_heads
        if maps is None:
            block_size = self._block_size()
            return ops.multi_head_attention(*inputs, mask=mask, n_heads=n_heads, causal=causal, block_size=block_size)
        if is_recording() and any(t is not None and t.requires_grad for t in inputs):
            raise RuntimeError(
                "MultiHeadAttention: no gradient flows past recorded maps; wrap the call in `with no_grad():`"
            )
        arrays = (None if t is None else t.data for t in inputs)
        y, saved = ops.multi_head_attention.forward(*arrays, mask=mask, n_heads=n_heads, causal=causal)
        maps.append(saved[-1][-1])  # the weights, among the values that attention saved
        return Tensor(y)

    def _block_size(self) -> int | None:
        """Return how many queries attention computes at a time; None for all."""
        # With recompute a layer runs twice, first without a graph; both runs must round in the same way.
        for_training = is_recording() or self.options.recompute
        return self.options.attention_block or (None if for_training else QUERIES)

    def step(self, x: Array, stored: KeysAndValues, mask: Array | None, own: bool = True) -> Array:
        """Attend from new positions to the stored keys and values.

        Parameters
        ----------
        x : array, shape (B, W, D)
            Where the queries come from.
        stored : KeysAndValues
            The keys and values to attend to.
        mask : boolean array, broadcastable to (B, H, W, T), optional
            True = may attend; T is the length of the store after the step.
        own : bool
            Whether it is self-attention: then the keys and values of x are first appended to the store.

        Returns
        -------
        array, shape (B, W, D)
        """
        n_keys, n_values = self.options.n_heads * self.options.key_size, self.w_out.shape[0]
        projected = self._project(x, 0, self.w_in.shape[1] if own else n_keys)  # [Q | K | V] in one product, or Q
        if own:
            self._store(projected[..., n_keys:], stored)
        concat = xp.empty((*x.shape[:2], n_values), dtype=x.dtype)
        queries = self._heads(projected[..., :n_keys])
        ops.scaled_dot_product_attention.forward(queries, stored.keys, stored.values, mask, out=self._heads(concat))
        return ops.linear.forward(concat, self.w_out.data, None if self.b_out is None else self.b_out.data)[0]

    def keys_and_values(self, memory: Array) -> KeysAndValues:
        """Return a store with the keys and values of a memory: (B, Tk, D)."""
        stored = KeysAndValues()
        self._store(self._project(memory, self.options.n_heads * self.options.key_size, self.w_in.shape[1]), stored)
        return stored

    def _project(self, x: Array, first: int, last: int) -> Array:
        """Apply some columns of the projections: (B, T, D) -> (B, T, last - first)."""
        bias = None if self.b_in is None else self.b_in.data[first:last]
        return ops.linear.forward(x, self.w_in.data[:, first:last], bias)[0]

    def _store(self, kv: Array, stored: KeysAndValues) -> None:
        """Append projections [K | V] to a store: (B, T, H * (Dk + Dv))."""
        n_keys = self.options.n_heads * self.options.key_size
        stored.extend(self._heads(kv[..., :n_keys]), self._heads(kv[..., n_keys:]))

    def _heads(self, x: Array) -> Array:
        """Show the heads as an axis, without a copy: (B, T, H * Dk) -> (B, H, T, Dk)."""
        n_heads = self.options.n_heads
        return x.reshape(*x.shape[:2], n_heads, x.shape[2] // n_heads).swapaxes(1, 2)


class FeedForward(Module):
    """The position-wise feed-forward network, section 3.3, equation (2), or the same with another activation.

    Parameters
    ----------
    options : ModelOptions
        The options of the model.
    rng : numpy.random.Generator
        Draws the initial weights.

    Examples
    --------
    >>> options = mt.nn.ModelOptions(d_model=8, n_heads=2, n_layers=1, d_ff=16)
    >>> part = mt.nn.FeedForward(options, np.random.default_rng(0))
    >>> x = mt.Tensor(np.zeros((1, 3, 8), "float32"))  # (B, T, D)
    >>> part(x).shape
    (1, 3, 8)
    """

    def __init__(self, options: ModelOptions, rng: np.random.Generator) -> None:
        self.options = options
        d_model, d_ff, dtype = options.d_model, options.d_ff, options.dtype
        self.w1 = weights(xavier(rng, d_model, d_ff), dtype)
        self.b1 = Parameter(xp.zeros(d_ff, dtype=dtype))
        self.w2 = weights(xavier(rng, d_ff, d_model), dtype)
        self.b2 = Parameter(xp.zeros(d_model, dtype=dtype))

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the network to each position: (B, T, D) -> (B, T, D)."""
        if self.options.activation == "relu":
            return ops.feed_forward(x, self.w1, self.b1, self.w2, self.b2)
        activation, options = ACTIVATIONS[self.options.activation]
        hidden = activation(ops.linear(x, self.w1, self.b1), **options)
        return ops.linear(hidden, self.w2, self.b2)

    def step(self, x: Array) -> Array:
        """Do the same on arrays."""
        if self.options.activation == "relu":
            return ops.feed_forward.forward(x, self.w1.data, self.b1.data, self.w2.data, self.b2.data)[0]
        activation, options = ACTIVATIONS[self.options.activation]
        hidden = activation.forward(ops.linear.forward(x, self.w1.data, self.b1.data)[0], **options)[0]
        return ops.linear.forward(hidden, self.w2.data, self.b2.data)[0]


class LayerNorm(Module):
    """Layer normalisation over the features.

    Parameters
    ----------
    options : ModelOptions
        The options of the model.
    """

    def __init__(self, options: ModelOptions) -> None:
        self.options = options
        self.gain = Parameter(xp.ones(options.d_model, dtype=options.dtype))
        self.bias = Parameter(xp.zeros(options.d_model, dtype=options.dtype))

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise each position: (B, T, D) -> (B, T, D)."""
        return ops.layer_norm(x, self.gain, self.bias, eps=self.options.layer_norm_eps)

    def step(self, x: Array) -> Array:
        """Do the same on arrays."""
        return ops.layer_norm.forward(x, self.gain.data, self.bias.data, self.options.layer_norm_eps)[0]


class Residual(Module):
    """The wrapper of each sub-layer: dropout, the residual connection and layer normalisation.

    ``norm="post"`` is the paper's: LayerNorm(x + Dropout(Sublayer(x))), sections 3.1 and 5.4. ``norm="pre"`` normalises
    on the way in instead: x + Dropout(Sublayer(LayerNorm(x))).

    Parameters
    ----------
    options : ModelOptions
        The options of the model.
    """

    def __init__(self, options: ModelOptions) -> None:
        self.options = options
        self.layer_norm = LayerNorm(options)

    @replaceable
    def __call__(
        self, x: Tensor, sublayer: Callable[[Tensor], Tensor], rng: np.random.Generator | None = None
    ) -> Tensor:
        """Apply a sub-layer to x; without a generator nothing is dropped: (B, T, D) -> (B, T, D)."""
        norm, dropout = self.options.norm, self.options.dropout
        y = sublayer(self.layer_norm(x) if norm == "pre" else x)
        y = ops.dropout(y, dropout, rng, x) if rng is not None and dropout else x + y
        return y if norm == "pre" else self.layer_norm(y)

    @replaceable
    def step(self, x: Array, sublayer: Callable[[Array], Array]) -> Array:
        """Do the same on arrays, without dropout."""
        if self.options.norm == "pre":
            return x + sublayer(self.layer_norm.step(x))
        return self.layer_norm.step(x + sublayer(x))
