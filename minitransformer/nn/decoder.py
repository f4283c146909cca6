"""The decoder: a stack of identical layers that writes the target (section 3.1).

In training a call computes all positions at once. In decoding ``step`` computes one position at a time, on arrays and
without dropout; see `Transformer.step`.

Without something to attend to, a layer lacks its middle sub-layer: that is the decoder of GPT, and of `LanguageModel`.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from minitransformer.arrays import Array
from minitransformer.autograd import Tensor
from minitransformer.nn.cache import Cache, KeysAndValues, LayerCache, Past
from minitransformer.nn.layers import FeedForward, MultiHeadAttention, Residual, make_norm
from minitransformer.nn.module import Module
from minitransformer.nn.options import ModelOptions
from minitransformer.nn.recompute import recompute


class DecoderLayer(Module):
    """Masked self-attention, attention to the encoder's output, then the feed-forward network.

    Parameters
    ----------
    options : ModelOptions
        The options of the model.
    rng : numpy.random.Generator
        Draws the initial weights.
    cross_attention : bool
        Whether it has the sub-layer in the middle, which attends to a memory.

    Examples
    --------
    >>> options = mt.nn.ModelOptions(d_model=8, n_heads=2, n_layers=1, d_ff=16)
    >>> part = mt.nn.DecoderLayer(options, np.random.default_rng(0))
    >>> x = mt.Tensor(np.zeros((1, 3, 8), "float32"))  # (B, T, D)
    >>> part(x, memory=x).shape
    (1, 3, 8)
    """

    def __init__(self, options: ModelOptions, rng: np.random.Generator, cross_attention: bool = True) -> None:
        self.self_attention = MultiHeadAttention(options, rng)
        self.residual1 = Residual(options)
        self.cross_attention = MultiHeadAttention(options, rng) if cross_attention else None
        self.residual2 = Residual(options) if cross_attention else None
        self.feed_forward = FeedForward(options, rng)
        self.residual3 = Residual(options)

    def __call__(
        self,
        x: Tensor,
        memory: Tensor | None = None,
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
        memory : Tensor, shape (B, Tk, D), optional
            The encoder's output; None for a layer without cross-attention.
        mask, memory_mask : boolean arrays, broadcastable to (B, H, Tq, Tq) and (B, H, Tq, Tk), optional
            True = may attend, for self-attention and for attention to the memory. Self-attention is causal, whatever
            the mask: no position sees a later one.
        rng : numpy.random.Generator, optional
            For dropout; without it nothing is dropped.
        self_maps, cross_maps : lists, optional
            Receive the attention weights.

        Raises
        ------
        ValueError
            If there is a memory but no cross-attention, or the other way round.
        """
        cross, residual = self.cross_attention, self.residual2
        if (cross is None) != (memory is None):
            found, expected = ("a", "none") if cross is None else ("no", "one")
            raise ValueError(
                f"DecoderLayer: found {found} memory, expected {expected}: it was made with "
                f"cross_attention={cross is not None}"
            )
        x = self.residual1(x, lambda y: self.self_attention(y, None, mask, True, self_maps), rng)
        if cross is not None and residual is not None:
            x = residual(x, lambda y: cross(y, memory, memory_mask, maps=cross_maps), rng)
        return self.residual3(x, self.feed_forward, rng)

    def step(
        self, x: Array, cache: LayerCache, mask: Array | None, memory_mask: Array | None, past: Past | None = None
    ) -> Array:
        """Do the same for new positions only, on arrays: (B, W, D) -> (B, W, D)."""
        own, stored = cache
        cross, residual = self.cross_attention, self.residual2
        x = self.residual1.step(x, lambda y: self.self_attention.step(y, own, mask, past=past))
        if cross is not None and residual is not None:
            x = residual.step(x, lambda y: cross.step(y, stored, memory_mask, own=False))
        return self.residual3.step(x, self.feed_forward.step)


class Decoder(Module):
    """A stack of decoder layers; unless ``norm="post"`` a last normalisation follows, by default.

    Parameters
    ----------
    options : ModelOptions
        The options of the model.
    rng : numpy.random.Generator
        Draws the initial weights.
    cross_attention : bool
        Whether its layers attend to a memory.

    Examples
    --------
    >>> options = mt.nn.ModelOptions(d_model=8, n_heads=2, n_layers=1, d_ff=16)
    >>> part = mt.nn.Decoder(options, np.random.default_rng(0))
    >>> x = mt.Tensor(np.zeros((1, 3, 8), "float32"))  # (B, T, D)
    >>> part(x, memory=x).shape
    (1, 3, 8)
    """

    def __init__(self, options: ModelOptions, rng: np.random.Generator, cross_attention: bool = True) -> None:
        self.options = options
        self.layers = [DecoderLayer(options, rng, cross_attention) for _ in range(options.decoder_layers)]
        self.final_norm = make_norm(options) if options.has_final_norm else None

    def __call__(
        self,
        x: Tensor,
        memory: Tensor | None = None,
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

    def new_cache(self, real: NDArray[np.bool_], memory: Array | None = None) -> Cache:
        """Return the cache with which ``step`` begins.

        Parameters
        ----------
        real : boolean array, shape (B, Tk)
            True = no padding, for each position of the memory; on the host. Without a memory Tk is 0.
        memory : array, shape (B, Tk, D), optional
            What the layers attend to.
        """
        layers = []
        for layer in self.layers:
            cross = layer.cross_attention
            stored = KeysAndValues() if cross is None or memory is None else cross.keys_and_values(memory)
            layers.append(LayerCache(KeysAndValues(), stored))
        return Cache(layers, real)

    def step(self, x: Array, cache: Cache) -> Array:
        """Do the same for new positions only, on arrays: (B, W, D) -> (B, W, D)."""
        mask = cache.mask
        past = Past(cache.position, cache.distances() if self.options.positions == "alibi" else None)
        for layer, stored in zip(self.layers, cache.layers, strict=True):
            x = layer.step(x, stored, mask, cache.memory_mask, past)
        return x if self.final_norm is None else self.final_norm.step(x)
