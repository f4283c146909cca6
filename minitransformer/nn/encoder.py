"""The encoder: a stack of identical layers that reads the source (section 3.1)."""

from __future__ import annotations

from functools import partial

import numpy as np

from minitransformer.arrays import Array
from minitransformer.autograd import Tensor
from minitransformer.nn.layers import FeedForward, MultiHeadAttention, Residual, make_norm
from minitransformer.nn.module import Module
from minitransformer.nn.options import ModelOptions
from minitransformer.nn.recompute import recompute


class EncoderLayer(Module):
    """Self-attention, then the feed-forward network, each with its residual connection.

    Parameters
    ----------
    options : ModelOptions
        The options of the model.
    rng : numpy.random.Generator
        Draws the initial weights.

    Examples
    --------
    >>> options = mt.nn.ModelOptions(d_model=8, n_heads=2, n_layers=1, d_ff=16)
    >>> part = mt.nn.EncoderLayer(options, np.random.default_rng(0))
    >>> x = mt.Tensor(np.zeros((1, 3, 8), "float32"))  # (B, T, D)
    >>> part(x).shape
    (1, 3, 8)
    """

    def __init__(self, options: ModelOptions, rng: np.random.Generator) -> None:
        self.self_attention = MultiHeadAttention(options, rng)
        self.residual1 = Residual(options)
        self.feed_forward = FeedForward(options, rng)
        self.residual2 = Residual(options)

    def __call__(
        self,
        x: Tensor,
        mask: Array | None = None,
        rng: np.random.Generator | None = None,
        maps: list[Array] | None = None,
    ) -> Tensor:
        """Apply the layer: (B, T, D) -> (B, T, D).

        Parameters
        ----------
        x : Tensor, shape (B, T, D)
            The source so far.
        mask : boolean array, broadcastable to (B, H, T, T), optional
            True = may attend.
        rng : numpy.random.Generator, optional
            For dropout; without it nothing is dropped.
        maps : list, optional
            Receives the attention weights (B, H, T, T).
        """
        x = self.residual1(x, lambda y: self.self_attention(y, mask=mask, maps=maps), rng)
        return self.residual2(x, self.feed_forward, rng)


class Encoder(Module):
    """A stack of encoder layers; unless ``norm="post"`` a last normalisation follows, by default.

    Parameters
    ----------
    options : ModelOptions
        The options of the model.
    rng : numpy.random.Generator
        Draws the initial weights.

    Examples
    --------
    >>> options = mt.nn.ModelOptions(d_model=8, n_heads=2, n_layers=1, d_ff=16)
    >>> part = mt.nn.Encoder(options, np.random.default_rng(0))
    >>> x = mt.Tensor(np.zeros((1, 3, 8), "float32"))  # (B, T, D)
    >>> part(x).shape
    (1, 3, 8)
    """

    def __init__(self, options: ModelOptions, rng: np.random.Generator) -> None:
        self.options = options
        self.layers = [EncoderLayer(options, rng) for _ in range(options.n_layers)]
        self.final_norm = make_norm(options) if options.has_final_norm else None

    def __call__(
        self,
        x: Tensor,
        mask: Array | None = None,
        rng: np.random.Generator | None = None,
        maps: list[Array] | None = None,
    ) -> Tensor:
        """Apply the layers in turn; arguments as for ``EncoderLayer``: (B, T, D) -> (B, T, D)."""
        for layer in self.layers:
            run = partial(layer, mask=mask, rng=rng, maps=maps)
            # No gradient flows when maps are recorded, so nothing is recomputed.
            x = recompute(run, x, rng=rng) if self.options.recompute and maps is None else run(x)
        return x if self.final_norm is None else self.final_norm(x)
