"""The sub-layers of encoder and decoder (sections 3.1 to 3.3).

Each computes in two ways. A call takes and returns tensors, for training. Where decoding needs it, ``step`` computes
the same on arrays, without a graph and without dropout: a step of decoding computes so little that the overhead of
tensors would be noticeable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.arrays import Array, asarray, xp
from minitransformer.autograd import Operation, Tensor, is_recording
from minitransformer.nn.cache import KeysAndValues, Past
from minitransformer.nn.module import Module, Parameter, weights, xavier
from minitransformer.nn.options import QUERIES, ModelOptions
from minitransformer.ops.heads import heads

ACTIVATIONS: dict[str, tuple[Operation, dict[str, float]]] = {
    "silu": (ops.silu, {}),
    "gelu": (ops.gelu, {}),
    "gelu_tanh": (ops.gelu_tanh, {}),
    "quick_gelu": (ops.silu, {"beta": 1.702}),
    "swiglu": (ops.swiglu, {}),
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
        queries, keys = options.n_heads * options.key_size, options.kv_heads * options.key_size
        values, concat = options.kv_heads * options.value_size, options.n_heads * options.value_size
        w_in = np.concatenate([xavier(rng, d_model, n) for n in (queries, keys, values)], axis=1)
        self.w_in = weights(w_in, dtype)  # [W_Q | W_K | W_V]
        self.w_out = weights(xavier(rng, concat, d_model), dtype)
        self.b_in = Parameter(xp.zeros(queries + keys + values, dtype=dtype)) if options.attention_bias else None
        self.b_out = Parameter(xp.zeros(d_model, dtype=dtype)) if options.attention_bias is True else None

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
        later = self._later_options(x, memory)
        attention = ops.grouped_query_attention if later else ops.multi_head_attention
        options = {"n_heads": self.options.n_heads, "causal": causal, **later}
        if maps is None:
            # With recompute a layer runs twice, first without a graph; both runs must round in the same way.
            for_training = is_recording() or self.options.recompute
            block_size = self.options.attention_block or (None if for_training else QUERIES)
            return attention(*inputs, mask, **options, block_size=block_size)
        if is_recording() and any(t is not None and t.requires_grad for t in inputs):
            raise RuntimeError(
                "MultiHeadAttention: no gradient flows past recorded maps; wrap the call in `with no_grad():`"
            )
        arrays = (None if t is None else t.data for t in inputs)
        y, saved = attention.forward(*arrays, mask, **options)
        maps.append(saved[-1][-1])  # the weights, among the values that attention saved
        return Tensor(y)

    def _later_options(self, x: Tensor, memory: Tensor | None) -> dict[str, Any]:
        """Return what grouped-query attention needs; nothing for the paper's attention."""
        o = self.options
        rotate = o.rotation if memory is None and o.positions == "rotary" else False
        bias = memory is None and o.positions == "alibi"
        if not (rotate or bias) and o.kv_heads == o.n_heads:
            return {}
        table = ops.alibi(o.n_heads, x.shape[1], o.dtype)[None] if bias else None  # (1, H, T, T), for all sentences
        return {"n_kv_heads": o.kv_heads, "rotate": rotate, "bias": table}

    def step(
        self, x: Array, stored: KeysAndValues, mask: Array | None, own: bool = True, past: Past | None = None
    ) -> Array:
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
        past : Past, optional
            The position of x, and how far back each stored key is; needed for rotary positions and ALiBi.

        Returns
        -------
        array, shape (B, W, D)
        """
        o, bias = self.options, None
        n_queries, n_values = o.n_heads * o.key_size, self.w_out.shape[0]
        projected = self._project(x, 0, self.w_in.shape[1] if own else n_queries)  # [Q | K | V] in one product, or Q
        if own and past is not None and o.positions == "rotary":
            n_turned = n_queries + o.kv_heads * o.key_size
            # All rows have one position, so they are rows of a head of one position.
            rows = projected[..., :n_turned].reshape(*x.shape[:2], -1, 1, o.key_size)
            projected[..., :n_turned] = ops.rotary.forward(rows, past.position, rotation=o.rotation)[0].reshape(
                *x.shape[:2], n_turned
            )
        if own:
            self._store(projected[..., n_queries:], stored)
        if own and past is not None and past.distances is not None:
            slopes = asarray(ops.alibi_slopes(o.n_heads))
            bias = -slopes[:, None, None] * past.distances  # (B, H, 1, T)
        concat = xp.empty((*x.shape[:2], n_values), dtype=x.dtype)
        queries, out = heads(projected[..., :n_queries], o.n_heads), heads(concat, o.n_heads)
        attend = ops.scaled_dot_product_attention.forward
        if o.kv_heads == o.n_heads:
            attend(queries, stored.keys, stored.values, mask, out=out, bias=bias)
        else:  # the queries of a group, one head after the other, are queries to one head
            q, seen, added = (self._in_groups(part, x.shape[1]) for part in (queries, mask, bias))
            out[...] = attend(q, stored.keys, stored.values, seen, bias=added)[0].reshape(out.shape)
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
        """Append projections [K | V] to a store: (B, T, G * (Dk + Dv))."""
        n_heads = self.options.kv_heads
        n_keys = n_heads * self.options.key_size
        stored.extend(heads(kv[..., :n_keys], n_heads), heads(kv[..., n_keys:], n_heads))

    def _in_groups(self, x: Array | None, width: int) -> Array | None:
        """Put the heads of each group one after the other, broadcast to them: (B, H, W, T) -> (B, G, H / G * W, T)."""
        if x is None:
            return None
        n_groups = self.options.kv_heads
        shape = (len(x), n_groups, self.options.n_heads // n_groups, width, x.shape[3])
        x = x.reshape(len(x), n_groups, -1, *x.shape[2:]) if x.shape[1] > 1 else x[:, :, None]
        return xp.broadcast_to(x, shape).reshape(len(x), n_groups, -1, x.shape[-1])


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
        inner = 2 if options.activation == "swiglu" else 1  # gates and values, side by side
        w1 = np.concatenate([xavier(rng, d_model, d_ff) for _ in range(inner)], axis=1)
        self.w1 = weights(w1, dtype)
        has_bias = options.feed_forward_bias
        self.b1 = Parameter(xp.zeros(inner * d_ff, dtype=dtype)) if has_bias else None
        self.w2 = weights(xavier(rng, d_ff, d_model), dtype)
        self.b2 = Parameter(xp.zeros(d_model, dtype=dtype)) if has_bias else None

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the network to each position: (B, T, D) -> (B, T, D)."""
        if self.options.activation == "relu":
            return ops.feed_forward(x, self.w1, self.b1, self.w2, self.b2)
        activation, options = ACTIVATIONS[self.options.activation]
        hidden = activation(ops.linear(x, self.w1, self.b1), **options)
        return ops.linear(hidden, self.w2, self.b2)

    def step(self, x: Array) -> Array:
        """Do the same on arrays."""
        b1, b2 = (None if bias is None else bias.data for bias in (self.b1, self.b2))
        if self.options.activation == "relu":
            return ops.feed_forward.forward(x, self.w1.data, b1, self.w2.data, b2)[0]
        activation, options = ACTIVATIONS[self.options.activation]
        hidden = activation.forward(ops.linear.forward(x, self.w1.data, b1)[0], **options)[0]
        return ops.linear.forward(hidden, self.w2.data, b2)[0]


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


class RMSNorm(Module):
    """RMSNorm over the features.

    Parameters
    ----------
    options : ModelOptions
        The options of the model.
    """

    def __init__(self, options: ModelOptions) -> None:
        self.options = options
        self.gain = Parameter(xp.ones(options.d_model, dtype=options.dtype))

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise each position: (B, T, D) -> (B, T, D)."""
        return ops.rms_norm(x, self.gain, eps=self.options.layer_norm_eps)

    def step(self, x: Array) -> Array:
        """Do the same on arrays."""
        return ops.rms_norm.forward(x, self.gain.data, self.options.layer_norm_eps)[0]


def make_norm(options: ModelOptions) -> LayerNorm | RMSNorm:
    """Return a normalisation of the kind that the model has."""
    return RMSNorm(options) if options.norm == "rms" else LayerNorm(options)


class Residual(Module):
    """The wrapper of each sub-layer: dropout, the residual connection and layer normalisation.

    ``norm="post"`` is the paper's: LayerNorm(x + Dropout(Sublayer(x))), sections 3.1 and 5.4. ``norm="pre"`` normalises
    on the way in instead: x + Dropout(Sublayer(LayerNorm(x))), and ``norm="rms"`` does so by RMSNorm.

    Parameters
    ----------
    options : ModelOptions
        The options of the model.
    """

    def __init__(self, options: ModelOptions) -> None:
        self.options = options
        self.layer_norm = make_norm(options)

    def __call__(
        self, x: Tensor, sublayer: Callable[[Tensor], Tensor], rng: np.random.Generator | None = None
    ) -> Tensor:
        """Apply a sub-layer to x; without a generator nothing is dropped: (B, T, D) -> (B, T, D)."""
        norm_first, dropout = self.options.norm_first, self.options.dropout
        y = sublayer(self.layer_norm(x) if norm_first else x)
        y = ops.dropout(y, dropout, rng, x) if rng is not None and dropout else x + y
        return y if norm_first else self.layer_norm(y)

    def step(self, x: Array, sublayer: Callable[[Array], Array]) -> Array:
        """Do the same on arrays, without dropout."""
        if self.options.norm_first:
            return x + sublayer(self.layer_norm.step(x))
        return self.layer_norm.step(x + sublayer(x))
