"""The encoder: a stack of identical layers that reads the source (section 3.1)."""

from __future__ import annotations

from functools import partial

import numpy as np

from minitransformer.arrays import Array
from minitransformer.autograd import Tensor
from minitransformer.nn.layers import FeedForward, LayerNorm, MultiHeadAttention, Residual
from minitransformer.nn.module import Module
from minitransformer.nn.recompute import recompute

__all__ = ["Encoder", "EncoderLayer"]


class EncoderLayer(Module):
    """Self-attention, then the feed-forward network, each with its residual connection.

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
        self.feed_forward = FeedForward(d_model, d_ff, rng, dtype)
        self.residual2 = Residual(d_model, dropout, norm, dtype)

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
    """A stack of encoder layers; with ``norm="pre"`` a last layer normalisation follows.

    Parameters
    ----------
    layers : list of EncoderLayer
        At least one.
    final_norm : LayerNorm, optional
        What follows the last layer.
    recompute : bool
        Whether a layer keeps only its inputs for the backward pass and is run again there; see ``recompute``.
    """

    def __init__(
        self, layers: list[EncoderLayer], final_norm: LayerNorm | None = None, recompute: bool = False
    ) -> None:
        self.layers = layers
        self.final_norm = final_norm
        self.recompute = recompute

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
            # No gradient flows past maps, so there is nothing to run again.
            x = recompute(run, x, rng=rng) if self.recompute and maps is None else run(x)
        return x if self.final_norm is None else self.final_norm(x)
