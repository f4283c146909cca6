"""The decoder: a stack of identical layers that writes the target (section 3.1).

Without a cache a call computes all positions at once. With one it computes the next position, of one or more hypotheses
for each sentence; see `Transformer.step`.

Without something to attend to, a layer lacks its middle sub-layer: that is the decoder of GPT, and of `LanguageModel`.
"""

from __future__ import annotations

import numpy as np

from minitransformer.arrays import Array
from minitransformer.autograd import Tensor
from minitransformer.nn.cache import Cache
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
        cache: Cache | None = None,
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
        cache : Cache, optional
            Has the keys and values of earlier positions, and receives those of x. Then the mask says what each row of
            x sees of them, and nothing is causal.

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
        x = self.residual1(x, lambda y: self.self_attention(y, None, mask, cache is None, self_maps, cache), rng)
        if cross is not None and residual is not None:
            x = residual(x, lambda y: cross(y, memory, memory_mask, False, cross_maps, cache), rng)
        return self.residual3(x, self.feed_forward, rng)


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
        cache: Cache | None = None,
    ) -> Tensor:
        """Apply the layers in turn; arguments as for ``DecoderLayer``: (B, Tq, D) -> (B, Tq, D)."""
        # No gradient flows when maps are recorded, so nothing is recomputed.
        again = self.options.recompute and self_maps is None and cross_maps is None
        others = mask, memory_mask, rng, self_maps, cross_maps, cache
        for layer in self.layers:
            if again:
                x = recompute(lambda x, m, layer=layer: layer(x, m, *others), x, memory, rng=rng)
            else:
                x = layer(x, memory, *others)
        return x if self.final_norm is None else self.final_norm(x)
