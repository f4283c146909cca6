"""The sub-layers of encoder and decoder (sections 3.1 to 3.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.arrays import Array, asarray, xp
from minitransformer.autograd import Operation, Tensor, is_recording
from minitransformer.nn.cache import Cache
from minitransformer.nn.module import Module, Parameter, weights, xavier
from minitransformer.nn.options import QUERIES, ModelOptions

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
        cache: Cache | None = None,
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
        cache : Cache, optional
            Keeps keys and values for the next step, and has those of earlier positions, which are attended to as well;
            those of a memory are computed once. Then Tk counts all that are kept. A step ends with its ``advance``. No
            gradient flows.

        Returns
        -------
        Tensor, shape (B, Tq, D)

        Raises
        ------
        RuntimeError
            If a gradient is wanted, with maps or a cache.
        """
        later = self._later_options(x, memory, cache)
        attention = ops.grouped_query_attention if later else ops.multi_head_attention
        options = {"n_heads": self.options.n_heads, "causal": causal, **later}
        if cache is None and maps is None:
            # With recompute a layer runs twice, first without a graph; both runs must round in the same way.
            for_training = is_recording() or self.options.recompute
            options["block_size"] = self.options.attention_block or (None if for_training else QUERIES)
        inputs = (x, memory, self.w_in, self.w_out, self.b_in, self.b_out)
        no_gradient = maps is not None or cache is not None
        if no_gradient and is_recording() and any(t is not None and t.requires_grad for t in inputs):
            raise RuntimeError(
                "MultiHeadAttention: no gradient flows past recorded maps or a cache; wrap the call in "
                "`with no_grad():`"
            )
        if cache is not None:
            options["cache"] = cache.use_next(memory is not None)
        if maps is None:
            return attention(*inputs, mask, **options)
        y, saved = attention.forward(*[None if t is None else t.data for t in inputs], mask, **options)
        maps.append(saved[-1][-1])  # the weights, among the values that attention saved
        return Tensor(y)

    def _later_options(self, x: Tensor, memory: Tensor | None, cache: Cache | None) -> dict[str, Any]:
        """Return what grouped-query attention needs; nothing for the paper's attention."""
        o = self.options
        rotate = o.rotation if memory is None and o.positions == "rotary" else False
        bias = memory is None and o.positions == "alibi"
        if not (rotate or bias) and o.kv_heads == o.n_heads:
            return {}
        table = None
        if bias and cache is None:
            table = ops.alibi(o.n_heads, x.shape[1], o.dtype)[None]  # (1, H, T, T), for all sentences
        elif bias and cache is not None:
            table = -asarray(ops.alibi_slopes(o.n_heads))[:, None, None] * cache.distances()  # (B, H, 1, T)
        return {"n_kv_heads": o.kv_heads, "rotate": rotate, "bias": table}


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
