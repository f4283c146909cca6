"""Token embeddings with their positions: the first layer of both stacks (sections 3.4 and 3.5)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.arrays import Array, backend
from minitransformer.autograd import Tensor
from minitransformer.nn.module import Module, Parameter, normal, weights
from minitransformer.nn.options import ModelOptions


class Embedding(Module):
    """Token embeddings times sqrt(d_model), plus positions, then dropout (sections 3.4, 3.5 and 5.4).

    With ``scale_embeddings=False`` they are not multiplied.

    Parameters
    ----------
    table : Parameter, shape (V, D)
        One row for each token.
    options : ModelOptions
        The options of the model.
    rng : numpy.random.Generator
        Draws learned positions, (T_max, D) for at most T_max tokens; sinusoidal ones have no limit.
    """

    def __init__(self, table: Parameter, options: ModelOptions, rng: np.random.Generator) -> None:
        self.options = options
        self.table = table
        self.positions = draw_table(rng, options.max_length, options) if options.positions == "learned" else None

    def __call__(self, ids: Any, rng: np.random.Generator | None = None, position: int | None = None) -> Tensor:
        """Embed token ids: (B, T) -> (B, T, D).

        Parameters
        ----------
        ids : integer array, shape (B, T)
            Token ids.
        rng : numpy.random.Generator, optional
            For dropout; without it nothing is dropped.
        position : int, optional
            The position of all ids, in a step of decoding; by default id i of a sentence is at position i.
        """
        n = ids.shape[1] if position is None else position + 1
        x, positions = ops.embedding(ids, self.table), self._positions(n)
        if positions is not None:
            positions = positions[:n] if position is None else positions[position]
            x = scale_and_place(x, positions) if self.options.scale_embeddings else x + positions
        elif self.options.scale_embeddings:
            x = x * x.shape[-1] ** 0.5
        return ops.dropout(x, self.options.dropout, rng) if rng is not None and self.options.dropout else x

    def _positions(self, n: int) -> Array | Tensor | None:
        """Return the encodings of n or more positions, (n, D), or None if attention tells positions apart."""
        if self.options.positions in ("rotary", "alibi"):
            return None
        if self.positions is None:
            # Table lengths are powers of two, so that there are few tables.
            o, waves = self.options, ops.sinusoidal_positions
            layout = (o.position_layout, o.position_scale, o.first_position)
            return _waves(1 << n.bit_length(), self.table.shape[1], self.table.dtype, backend(), waves, *layout)
        if n > len(self.positions):
            raise ValueError(
                f"Embedding: a sentence of {n} tokens is longer than the {len(self.positions)} learned positions; "
                "make the model with a larger max_length, or with positions='sinusoidal'"
            )
        return self.positions


def scale_and_place(rows: Any, positions: Any) -> Any:
    """Return rows of an embedding times sqrt(D), plus positions: (B, T, D), (T, D) -> (B, T, D)."""
    return rows * rows.shape[-1] ** 0.5 + positions


def draw_table(rng: np.random.Generator, n: int, options: ModelOptions) -> Parameter:
    """Return n rows of D features."""
    return weights(normal(rng, n, options.d_model), options.dtype)


@lru_cache(maxsize=16)
def _waves(length: int, d_model: int, dtype: Any, library: str, compute: Callable[..., Array], *layout: Any) -> Array:
    """Return sinusoidal positions as an array of the library in use; cached, because each decoding step needs them."""
    return compute(length, d_model, dtype, *layout)
