"""The decoder: a stack of identical layers that writes the target (section 3.1).

In training a call computes all positions at once. In decoding ``step`` computes one position at a time, on arrays and
without dropout; see `Transformer.step`.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from minitransformer.arrays import Array
from minitransformer.autograd import Tensor
from minitransformer.nn.cache import Cache, LayerCache
from minitransformer.nn.layers import FeedForward, LayerNorm, MultiHeadAttention, Residual
from minitransformer.nn.module import Module
from minitransformer.nn.options import ModelOptions
from minitransformer.nn.recompute import recompute

__all__ = ["Decoder", "DecoderLayer"]


class DecoderLayer(Module):
    """Masked self-attention, attention to the encoder's output, then the feed-forward network.

    Parameters
    ----------
    options : ModelOptions
        The options of the model.
    rng : numpy.random.Generator
        Draws the initial weights.

    Examples
    --------
    >>> options = mt.nn.ModelOptions(d_model=8, n_heads=2, n_layers=1, d_ff=16)
    >>> part = mt.nn.DecoderLayer(options, np.random.default_rng(0))
    >>> x = mt.Tensor(np.zeros((1, 3, 8), "float32"))  # (B, T, D)
    >>> part(x, memory=x).shape
    (1, 3, 8)
    """

    def __init__(self, options: ModelOptions, rng: np.random.Generator) -> None:
        self.self_attention = MultiHeadAttention(options, rng)
        self.residual1 = Residual(options)
        self.cross_attention = MultiHeadAttention(options, rng)
        self.residual2 = Residual(options)
        self.feed_forward = FeedForward(options, rng)
        self.residual3 = Residual(options)

    def __call__(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Array | None = None,
        memory_mask: Array | None = None,
        rng: np.random.Generator | None = None,
        self_maps: list[Array] | None = None,
        cross_maps: list[Array] | None = None,
    ) -> Tensor:
        """Apply the layer: (B, Tq, D) -> (B, Tq, D).

        Parameters
        ----------
        x : Tensor, shape (B, Tq, D)
            The target so far.
        memory : Tensor, shape (B, Tk, D)
            The encoder's output.
        mask, memory_mask : boolean arrays, broadcastable to (B, H, Tq, Tq) and (B, H, Tq, Tk), optional
            True = may attend, for self-attention and for attention to the memory. Self-attention is causal, whatever
            the mask: no position sees a later one.
        rng : numpy.random.Generator, optional
            For dropout; without it nothing is dropped.
        self_maps, cross_maps : lists, optional
            Receive the attention weights.
        """
        x = self.residual1(x, lambda y: self.self_attention(y, None, mask, True, self_maps), rng)
        x = self.residual2(x, lambda y: self.cross_attention(y, memory, memory_mask, maps=cross_maps), rng)
        return self.residual3(x, self.feed_forward, rng)

    def step(self, x: Array, cache: LayerCache, mask: Array | None, memory_mask: Array | None) -> Array:
        """Do the same for new positions only, on arrays: (B, W, D) -> (B, W, D)."""
        own, cross = cache
        x = self.residual1.step(x, lambda y: self.self_attention.step(y, own, mask))
        x = self.residual2.step(x, lambda y: self.cross_attention.step(y, cross, memory_mask, own=False))
        return self.residual3.step(x, self.feed_forward.step)


class Decoder(Module):
    """A stack of decoder layers; with ``norm="pre"`` a last layer normalisation follows, by default.

    Parameters
    ----------
    options : ModelOptions
        The options of the model.
    rng : numpy.random.Generator
        Draws the initial weights.

    Examples
    --------
    >>> options = mt.nn.ModelOptions(d_model=8, n_heads=2, n_layers=1, d_ff=16)
    >>> part = mt.nn.Decoder(options, np.random.default_rng(0))
    >>> x = mt.Tensor(np.zeros((1, 3, 8), "float32"))  # (B, T, D)
    >>> part(x, memory=x).shape
    (1, 3, 8)
    """

    def __init__(self, options: ModelOptions, rng: np.random.Generator) -> None:
        self.options = options
        self.layers = [DecoderLayer(options, rng) for _ in range(options.decoder_layers)]
        self.final_norm = LayerNorm(options) if options.has_final_norm else None

    def __call__(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Array | None = None,
        memory_mask: Array | None = None,
        rng: np.random.Generator | None = None,
        self_maps: list[Array] | None = None,
        cross_maps: list[Array] | None = None,
    ) -> Tensor:
        """Apply the layers in turn; arguments as for ``DecoderLayer``: (B, Tq, D) -> (B, Tq, D)."""
        # No gradient flows when maps are recorded, so nothing is recomputed.
        again = self.options.recompute and self_maps is None and cross_maps is None
        for layer in self.layers:
            run = partial(
                layer, mask=mask, memory_mask=memory_mask, rng=rng, self_maps=self_maps, cross_maps=cross_maps
            )
            x = recompute(run, x, memory, rng=rng) if again else run(x, memory)
        return x if self.final_norm is None else self.final_norm(x)

    def step(self, x: Array, cache: Cache) -> Array:
        """Do the same for new positions only, on arrays: (B, W, D) -> (B, W, D)."""
        mask = cache.mask
        for layer, stored in zip(self.layers, cache.layers, strict=True):
            x = layer.step(x, stored, mask, cache.memory_mask)
        return x if self.final_norm is None else self.final_norm.step(x)
