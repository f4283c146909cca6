"""The whole model: encoder, decoder, embeddings and the last linear layer (sections 3.1 to 3.5)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.arrays import Array, RowsGenerator, backend, to_numpy, xp
from minitransformer.autograd import Tensor, no_grad
from minitransformer.nn.cache import Cache
from minitransformer.nn.decoder import Decoder
from minitransformer.nn.encoder import Encoder
from minitransformer.nn.model import PAD, Model, as_token_ids
from minitransformer.nn.module import Module, Parameter, check_sizes, normal, weights
from minitransformer.nn.options import ModelOptions, with_model_options
from minitransformer.stand_ins import in_use, replaceable

__all__ = ["Embedding", "Transformer", "draw_table", "scale_and_place"]


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

    def __call__(self, ids: Any, rng: np.random.Generator | None = None) -> Tensor:
        """Embed token ids: (B, T) -> (B, T, D).

        Parameters
        ----------
        ids : integer array, shape (B, T)
            Token ids.
        rng : numpy.random.Generator, optional
            For dropout; without it nothing is dropped.
        """
        n = ids.shape[1]
        positions = self._positions(n)
        x = self._place(ops.embedding(ids, self.table), None if positions is None else positions[:n])
        return ops.dropout(x, self.options.dropout, rng) if rng is not None and self.options.dropout else x

    def step(self, ids: Any, position: int) -> Array:
        """Do the same on arrays, without dropout, for ids that all have one position: (B, W) -> (B, W, D)."""
        positions = self._positions(position + 1)
        positions = positions.data if isinstance(positions, Tensor) else positions
        rows = ops.embedding.forward(ids, self.table.data)[0]
        return self._place(rows, None if positions is None else positions[position])

    def _place(self, rows: Any, positions: Any) -> Any:
        """Scale rows of the table if the model does, and add positions: (B, T, D), (T, D) -> (B, T, D)."""
        if positions is None:
            return rows * rows.shape[-1] ** 0.5 if self.options.scale_embeddings else rows
        return scale_and_place(rows, positions) if self.options.scale_embeddings else rows + positions

    def _positions(self, n: int) -> Array | Tensor | None:
        """Return the encodings of n or more positions, (n, D), or None if attention tells positions apart."""
        if self.options.positions in ("rotary", "alibi"):
            return None
        if self.positions is None:
            # Table lengths are powers of two, so that there are few tables.
            o, waves = self.options, in_use(ops.sinusoidal_positions)
            layout = (o.position_layout, o.position_scale, o.first_position)
            return _waves(1 << n.bit_length(), self.table.shape[1], self.table.dtype, backend(), waves, *layout)
        if n > len(self.positions):
            raise ValueError(
                f"Embedding: a sentence of {n} tokens is longer than the {len(self.positions)} learned positions; "
                "make the model with a larger max_length, or with positions='sinusoidal'"
            )
        return self.positions


@replaceable
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


class Transformer(Model):
    """The encoder-decoder of *Attention Is All You Need*, by default with the sizes of its base model.

    Parameters
    ----------
    source_vocab, target_vocab : int
        The numbers of tokens, V. Token 0 is padding.
    options : ModelOptions, optional
        The options; by default the paper's.
    seed : int
        Seeds the initial weights and dropout.
    **changes
        Options that differ, by name: ``Transformer(36, 30, d_model=64, n_heads=4)``. See ``ModelOptions``.

    Attributes
    ----------
    options : ModelOptions
    rng : RowsGenerator
        The random generator of dropout in training.
    training : bool
        Whether a call without a generator drops out entries; see ``train``.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> model = mt.nn.Transformer(7, 9, d_model=8, n_heads=2, n_layers=1, d_ff=16)
    >>> model(np.array([[3, 4, 5]]), np.array([[1, 6]])).shape  # logits (B, Tq, V)
    (1, 2, 9)
    >>> sum(parameter.data.size for parameter in model.parameters())
    1536
    """

    @with_model_options
    def __init__(
        self,
        source_vocab: int,
        target_vocab: int,
        options: ModelOptions | None = None,
        *,
        seed: int = 0,
        **changes: Any,
    ) -> None:
        check_sizes("Transformer", source_vocab=source_vocab, target_vocab=target_vocab)
        options = (options or ModelOptions()).changed(**changes)
        self.options = options
        self.source_vocab, self.target_vocab = source_vocab, target_vocab
        self.training = True
        weights_seed, dropout_seed = np.random.SeedSequence(seed).spawn(2)
        draw = np.random.default_rng(weights_seed)
        self.rng = RowsGenerator(np.random.PCG64DXSM(dropout_seed))

        share, same_size = options.share_embeddings, source_vocab == target_vocab
        if share in ("all", "inputs") and not same_size:
            raise ValueError(
                f"Transformer: share_embeddings={share!r} needs vocabularies of the same size, found {source_vocab} "
                f"and {target_vocab}; choose 'target' or False"
            )
        source_table = draw_table(draw, source_vocab, options)
        one_table = share in (True, "all", "inputs") and same_size
        target_table = source_table if one_table else draw_table(draw, target_vocab, options)
        self.source_embedding = Embedding(source_table, options, draw)
        self.target_embedding = Embedding(target_table, options, draw)
        # (V, D), like an embedding, so that it can be shared with one.
        self.output = target_table if share in (True, "all", "target") else draw_table(draw, target_vocab, options)
        self.output_bias = Parameter(xp.zeros(target_vocab, dtype=options.dtype)) if options.output_bias else None
        self.encoder = Encoder(options, draw)
        self.decoder = Decoder(options, draw)

    def __call__(self, source_ids: Any, target_ids: Any, rng: np.random.Generator | None = None) -> Tensor:
        """Predict, at each target position, the next token.

        Parameters
        ----------
        source_ids : integer array, shape (B, Tk)
            The source; 0 is padding.
        target_ids : integer array, shape (B, Tq)
            The target, beginning with the start token; 0 is padding.
        rng : numpy.random.Generator, optional
            For dropout. By default the model's own in training mode; in evaluation mode nothing is dropped.

        Returns
        -------
        Tensor, shape (B, Tq, V)
            Logits: scores before the softmax.

        Raises
        ------
        ValueError
            If the ids are not two matrices with the same number of rows.
        IndexError
            If an id is out of range.
        """
        source_ids = as_token_ids(source_ids, self.source_vocab, "source ids")
        target_ids = as_token_ids(target_ids, self.target_vocab, "target ids")
        if len(source_ids) != len(target_ids):
            raise ValueError(
                f"Transformer: {len(source_ids)} source sentences and {len(target_ids)} target sentences; "
                "expected the same number of both"
            )
        if rng is None and self.training:
            rng = self.rng
        memory = self.encode(source_ids, rng)
        return self.decode(target_ids, memory, ops.padding_mask(source_ids, PAD), rng)

    def encode(
        self, source_ids: Any, rng: np.random.Generator | None = None, maps: list[Array] | None = None
    ) -> Tensor:
        """Encode the source.

        Parameters
        ----------
        source_ids : integer array, shape (B, Tk)
            The source; 0 is padding.
        rng : numpy.random.Generator, optional
            For dropout; without it nothing is dropped.
        maps : list, optional
            Receives each layer's attention weights (B, H, Tk, Tk). No gradient flows.

        Returns
        -------
        Tensor, shape (B, Tk, D)
            The memory, to which the decoder attends.
        """
        source_ids = as_token_ids(source_ids, self.source_vocab, "source ids")
        return self.encoder(self.source_embedding(source_ids, rng), ops.padding_mask(source_ids, PAD), rng, maps)

    def decode(
        self,
        target_ids: Any,
        memory: Tensor,
        memory_mask: Array | None = None,
        rng: np.random.Generator | None = None,
        self_maps: list[Array] | None = None,
        cross_maps: list[Array] | None = None,
    ) -> Tensor:
        """Predict, at each target position, the next token; no position sees a later one.

        Parameters
        ----------
        target_ids : integer array, shape (B, Tq)
            The target, beginning with the start token; 0 is padding.
        memory : Tensor, shape (B, Tk, D)
            The result of ``encode``.
        memory_mask : boolean array, broadcastable to (B, H, Tq, Tk), optional
            ``ops.padding_mask(source_ids)``.
        rng : numpy.random.Generator, optional
            For dropout; without it nothing is dropped.
        self_maps, cross_maps : lists, optional
            Receive each layer's attention weights. No gradient flows.

        Returns
        -------
        Tensor, shape (B, Tq, V)
            Logits.
        """
        target_ids = as_token_ids(target_ids, self.target_vocab, "target ids")
        x, mask = self.target_embedding(target_ids, rng), ops.padding_mask(target_ids, PAD)
        x = self.decoder(x, memory, mask, memory_mask, rng, self_maps, cross_maps)
        return ops.linear(x, self.output.T, self.output_bias)

    def new_cache(self, source_ids: Any) -> Cache:
        """Encode source sentences and return the cache with which ``step`` translates them.

        Parameters
        ----------
        source_ids : integer array, shape (B, Tk)
            The source; 0 is padding.
        """
        source_ids = as_token_ids(source_ids, self.source_vocab, "source ids")
        with no_grad():
            memory = self.encode(source_ids).data
        return self.decoder.new_cache(to_numpy(source_ids) != PAD, memory)

    def attention_maps(self, source_ids: Any, target_ids: Any) -> dict[str, list[Array]]:
        """Return every attention weight of a forward pass without dropout.

        Parameters
        ----------
        source_ids, target_ids : integer arrays, shapes (B, Tk) and (B, Tq)
            As for a call.

        Returns
        -------
        dict
            ``"cross"`` (B, H, Tq, Tk), ``"encoder"`` (B, H, Tk, Tk) and ``"decoder"`` (B, H, Tq, Tq): a list of NumPy
            arrays each, one for each layer.
        """
        maps: dict[str, list[Array]] = {"cross": [], "encoder": [], "decoder": []}
        with no_grad():
            source_ids = as_token_ids(source_ids, self.source_vocab, "source ids")
            memory, mask = self.encode(source_ids, maps=maps["encoder"]), ops.padding_mask(source_ids, PAD)
            self.decode(target_ids, memory, mask, self_maps=maps["decoder"], cross_maps=maps["cross"])
        return {kind: [to_numpy(weights) for weights in layers] for kind, layers in maps.items()}
