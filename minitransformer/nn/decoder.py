"""The decoder: a stack of identical layers that writes the target (section 3.1)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from minitransformer import ops
from minitransformer.arrays import Array
from minitransformer.autograd import Tensor, is_recording
from minitransformer.nn.layers import Cache, FeedForward, LayerNorm, MultiHeadAttention, Residual
from minitransformer.nn.module import Module
from minitransformer.nn.recompute import recompute

__all__ = ["Decoder", "DecoderLayer", "LayerCache"]


class LayerCache(NamedTuple):
    """What a decoder layer remembers between the steps of decoding."""

    self_attention: Cache
    cross_attention: Cache


class DecoderLayer(Module):
    """Masked self-attention, attention to the encoder's output, then the feed-forward network.

    Parameters
    ----------
    d_model, n_heads, d_ff : int
        D, H and F.
    rng : numpy.random.Generator
        Draws the initial weights.
    dropout : float
        The probability of dropping an entry of a sub-layer's output.
    d_k, d_v : int, optional
        Sizes of a head's keys and values; D / H by default.
    norm : {"post", "pre"}
        Where to normalise; see ``Residual``.
    attention_bias : bool
        Whether attention's projections have biases.
    dtype : str
        The type of the parameters.
    attention_block : int, optional
        How many queries attention works through at a time; all by default.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_ff: int,
        rng: np.random.Generator,
        dropout: float = 0.1,
        d_k: int | None = None,
        d_v: int | None = None,
        norm: str = "post",
        attention_bias: bool = False,
        dtype: str = "float32",
        attention_block: int | None = None,
    ) -> None:
        self.self_attention = MultiHeadAttention(
            d_model, n_heads, rng, d_k, d_v, attention_bias, dtype, attention_block
        )
        self.residual1 = Residual(d_model, dropout, norm, dtype)
        self.cross_attention = MultiHeadAttention(
            d_model, n_heads, rng, d_k, d_v, attention_bias, dtype, attention_block
        )
        self.residual2 = Residual(d_model, dropout, norm, dtype)
        self.feed_forward = FeedForward(d_model, d_ff, rng, dtype)
        self.residual3 = Residual(d_model, dropout, norm, dtype)

    def __call__(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Array | None = None,
        memory_mask: Array | None = None,
        rng: np.random.Generator | None = None,
        cache: LayerCache | None = None,
        self_maps: list[Array] | None = None,
        cross_maps: list[Array] | None = None,
    ) -> Tensor:
        """Apply the layer: (B, Tq, D) -> (B, Tq, D).

        Parameters
        ----------
        x : Tensor, shape (B, Tq, D)
            The target so far; with a cache, its new positions only.
        memory : Tensor, shape (B, Tk, D)
            The encoder's output.
        mask, memory_mask : boolean arrays, broadcastable to (B, H, Tq, Tq) and (B, H, Tq, Tk), optional
            True = may attend, for self-attention and for attention to the memory. Without a cache self-attention is
            causal, whatever the mask: no position sees a later one. With a cache the mask has to see to that.
        rng : numpy.random.Generator, optional
            For dropout; without it nothing is dropped.
        cache : LayerCache, optional
            Keys and values of earlier positions; no gradient flows.
        self_maps, cross_maps : lists, optional
            Receive the attention weights.
        """
        attend = self.self_attention
        own, cross = cache if cache is not None else (None, None)
        x = self.residual1(x, lambda y: attend(y, None, mask, own, self_maps, causal=own is None), rng)
        x = self.residual2(x, lambda y: self.cross_attention(y, memory, memory_mask, cross, cross_maps), rng)
        return self.residual3(x, self.feed_forward, rng)

    def step(self, x: Array, memory: Array, mask: Array | None, memory_mask: Array | None, cache: LayerCache) -> Array:
        """Apply the layer to new positions, on arrays: the same without dropout and without a graph.

        Where a step of decoding computes little, what surrounds each array would be felt.
        """
        own, cross = cache
        x = _around(self.residual1, x, lambda y: self.self_attention.attend(y, None, mask, own))
        x = _around(self.residual2, x, lambda y: self.cross_attention.attend(y, memory, memory_mask, cross))
        return _around(self.residual3, x, lambda y: self.feed_forward(Tensor(y)).data)


def _normalised(norm: LayerNorm, x: Array) -> Array:
    return ops.layer_norm.forward(x, norm.gain.data, norm.bias.data)[0]


def _around(residual: Residual, x: Array, sublayer: Callable[[Array], Array]) -> Array:
    """Do what ``Residual`` does, on arrays and without dropout."""
    norm = residual.layer_norm
    if residual.norm == "pre":
        return x + sublayer(_normalised(norm, x))
    return _normalised(norm, x + sublayer(x))


class Decoder(Module):
    """A stack of decoder layers; with ``norm="pre"`` a last layer normalisation follows.

    Parameters
    ----------
    layers : list of DecoderLayer
        At least one.
    final_norm : LayerNorm, optional
        What follows the last layer.
    recompute : bool
        Whether a layer keeps only its inputs for the backward pass and is run again there; see ``recompute``.
    """

    def __init__(
        self, layers: list[DecoderLayer], final_norm: LayerNorm | None = None, recompute: bool = False
    ) -> None:
        self.layers = layers
        self.final_norm = final_norm
        self.recompute = recompute

    def __call__(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Array | None = None,
        memory_mask: Array | None = None,
        rng: np.random.Generator | None = None,
        cache: list[LayerCache] | None = None,
        self_maps: list[Array] | None = None,
        cross_maps: list[Array] | None = None,
    ) -> Tensor:
        """Apply the layers in turn; arguments as for ``DecoderLayer``, with one cache for each layer."""
        no_maps = self_maps is None and cross_maps is None
        if cache is not None and no_maps and rng is None and not is_recording():
            y = x.data
            for layer, remembered in zip(self.layers, cache, strict=True):
                y = layer.step(y, memory.data, mask, memory_mask, remembered)
            return Tensor(y if self.final_norm is None else _normalised(self.final_norm, y))
        plain = cache is None and no_maps  # else no gradient flows
        for i, layer in enumerate(self.layers):
            if self.recompute and plain:
                run = partial(layer, mask=mask, memory_mask=memory_mask, rng=rng)
                x = recompute(run, x, memory, rng=rng)
            else:
                of_layer = None if cache is None else cache[i]
                x = layer(x, memory, mask, memory_mask, rng, of_layer, self_maps, cross_maps)
        return x if self.final_norm is None else self.final_norm(x)
