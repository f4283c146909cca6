"""The Transformer: encoder, decoder, embeddings and the last linear layer (sections 3.1 to 3.5)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.arrays import Array, RowsGenerator, as_indices, asarray, backend, to_numpy, xp
from minitransformer.autograd import Tensor, no_grad
from minitransformer.nn.decoder import Decoder, DecoderLayer, LayerCache
from minitransformer.nn.encoder import Encoder, EncoderLayer
from minitransformer.nn.layers import Cache, LayerNorm
from minitransformer.nn.module import Module, Parameter, check_sizes

__all__ = ["Embedding", "Transformer"]

PAD = 0
"""The token id that stands for padding."""


class Embedding(Module):
    """Token embeddings times sqrt(d_model), plus positions, then dropout (sections 3.4, 3.5 and 5.4).

    Parameters
    ----------
    table : Parameter, shape (V, D)
        One row for each token.
    dropout : float
        The probability of dropping an entry of the sum.
    positions : Parameter, shape (L, D), optional
        Learned positions, for sentences of at most L tokens; by default they are sinusoidal, for any length.
    """

    def __init__(self, table: Parameter, dropout: float, positions: Parameter | None = None) -> None:
        self.table = table
        self.positions = positions
        self.dropout = dropout

    def __call__(self, ids: Any, rng: np.random.Generator | None = None, first: int = 0) -> Tensor:
        """Embed token ids: (B, T) -> (B, T, D).

        Parameters
        ----------
        ids : integer array, shape (B, T)
            Token ids.
        rng : numpy.random.Generator, optional
            For dropout; without it nothing is dropped.
        first : int
            The position of the first token.
        """
        d_model = self.table.shape[1]
        last = first + ids.shape[1]
        if self.positions is None:
            # Tables of powers of two, so that few are made.
            positions: Array | Tensor = _waves(1 << last.bit_length(), d_model, self.table.dtype, backend())[first:last]
        elif last > len(self.positions):
            raise ValueError(
                f"Embedding: a sentence of {last} tokens is longer than the {len(self.positions)} learned positions; "
                "make the model with a larger max_length, or with positions='sinusoidal'"
            )
        else:
            positions = self.positions[first:last]
        x = ops.embedding(ids, self.table) * d_model**0.5 + positions
        return ops.dropout(x, self.dropout, rng) if rng is not None and self.dropout else x


@lru_cache(maxsize=16)
def _waves(length: int, d_model: int, dtype: Any, library: str) -> Array:
    """Return sinusoidal positions, in an array of the library in use; kept, as each step of decoding asks for them."""
    return ops.sinusoidal_positions(length, d_model, dtype)


class Transformer(Module):
    """The encoder-decoder of *Attention Is All You Need*, by default in the sizes of its base model.

    Parameters
    ----------
    source_vocab, target_vocab : int
        The numbers of tokens, V. Token 0 is padding.
    d_model : int
        D, the number of features.
    n_heads : int
        H, the number of attention heads.
    n_layers : int
        N, the number of layers in the encoder, and in the decoder.
    d_ff : int
        F, the number of features inside the feed-forward networks.
    dropout : float
        The probability of dropping an entry, 0 <= dropout < 1.
    d_k, d_v : int, optional
        Sizes of a head's keys and values; D / H by default.
    norm : {"post", "pre"}
        Layer normalisation after each residual connection, as in the paper, or before each sub-layer.
    positions : {"sinusoidal", "learned"}
        How positions are told apart (section 3.5).
    share_embeddings : {True, "target", False}
        ``"target"``: the target embedding is also the last linear layer. True: the source embedding too, if both
        vocabularies have the same size, as they have when they are one (section 3.4). False: nothing is shared.
    seed : int
        Seeds the initial weights and dropout.
    dtype : {"float32", "float64"}
        The type of parameters and activations.
    attention_bias : bool
        Whether attention's projections have biases; the paper's have none.
    max_length : int
        The longest sentence, for learned positions.
    attention_block : int, optional
        How many queries attention works through at a time; all by default. The results are the same; for long
        sentences fewer need less memory, and the backward pass a little more time: see
        ``ops.scaled_dot_product_attention``.
    recompute : bool
        Whether each layer keeps only its inputs for the backward pass and is run again there: less memory for more
        time, with the same results. See ``nn.recompute``.

    Attributes
    ----------
    rng : RowsGenerator
        Where dropout's randomness comes from.

    Raises
    ------
    ValueError
        If an argument is out of its range.
    """

    def __init__(
        self,
        source_vocab: int,
        target_vocab: int,
        d_model: int = 512,
        n_heads: int = 8,
        n_layers: int = 6,
        d_ff: int = 2048,
        dropout: float = 0.1,
        d_k: int | None = None,
        d_v: int | None = None,
        norm: str = "post",
        positions: str = "sinusoidal",
        share_embeddings: bool | str = True,
        seed: int = 0,
        dtype: str = "float32",
        attention_bias: bool = False,
        max_length: int = 512,
        attention_block: int | None = None,
        recompute: bool = False,
    ) -> None:
        check_sizes(
            "Transformer", source_vocab=source_vocab, target_vocab=target_vocab, d_model=d_model, n_heads=n_heads,
            n_layers=n_layers, d_ff=d_ff, max_length=max_length, d_k=d_k, d_v=d_v,
        )  # fmt: skip
        if attention_block is not None:
            check_sizes("Transformer", attention_block=attention_block)
        if not 0 <= dropout < 1:
            raise ValueError(f"Transformer: dropout must be at least 0 and below 1, found {dropout!r}")
        for name, value, choices in (
            ("norm", norm, ("post", "pre")),
            ("positions", positions, ("sinusoidal", "learned")),
            ("share_embeddings", share_embeddings, (True, False, "target")),
            ("dtype", dtype, ("float32", "float64")),
        ):
            if value not in choices:
                raise ValueError(f"Transformer: {name} must be one of {choices}, found {value!r}")

        self.source_vocab, self.target_vocab = source_vocab, target_vocab
        self.attention_block = attention_block
        weights_seed, dropout_seed = np.random.SeedSequence(seed).spawn(2)
        draw = np.random.default_rng(weights_seed)
        self.rng = RowsGenerator(np.random.PCG64DXSM(dropout_seed))

        def table(n: int) -> Parameter:
            # Times sqrt(d_model), the embeddings have variance 1, like the waves' own scale.
            return Parameter(asarray(draw.normal(0, d_model**-0.5, (n, d_model)).astype(dtype)))

        source_table = table(source_vocab)
        one_table = share_embeddings not in (False, "target") and source_vocab == target_vocab
        target_table = source_table if one_table else table(target_vocab)
        learned = [table(max_length) if positions == "learned" else None for _ in range(2)]
        self.source_embedding = Embedding(source_table, dropout, learned[0])
        self.target_embedding = Embedding(target_table, dropout, learned[1])
        # (V, D), like an embedding, so that it can be one.
        self.output = target_table if share_embeddings else table(target_vocab)

        layer: dict[str, Any] = {
            "d_model": d_model, "n_heads": n_heads, "d_ff": d_ff, "rng": draw, "dropout": dropout, "d_k": d_k,
            "d_v": d_v, "norm": norm, "attention_bias": attention_bias, "dtype": dtype,
            "attention_block": attention_block,
        }  # fmt: skip
        final = [LayerNorm(d_model, dtype) if norm == "pre" else None for _ in range(2)]
        self.encoder = Encoder([EncoderLayer(**layer) for _ in range(n_layers)], final[0], recompute)
        self.decoder = Decoder([DecoderLayer(**layer) for _ in range(n_layers)], final[1], recompute)

    def __call__(self, source_ids: Any, target_ids: Any) -> Tensor:
        """Predict, at each target position, the next token.

        Parameters
        ----------
        source_ids : integer array, shape (B, Tk)
            The source; 0 is padding.
        target_ids : integer array, shape (B, Tq)
            The target, beginning with the start token; 0 is padding.

        Returns
        -------
        Tensor, shape (B, Tq, V)
            Logits: scores before the softmax.

        Raises
        ------
        ValueError
            If the ids are not two matrices with as many rows.
        IndexError
            If an id is out of range.
        """
        source_ids, target_ids = self._source(source_ids), self._target(target_ids)
        if len(source_ids) != len(target_ids):
            raise ValueError(
                f"Transformer: {len(source_ids)} source sentences and {len(target_ids)} target sentences; "
                "expected as many of both"
            )
        return self.decode(target_ids, self.encode(source_ids), ops.padding_mask(source_ids, PAD))

    def encode(self, source_ids: Any, maps: list[Array] | None = None) -> Tensor:
        """Read the source.

        Parameters
        ----------
        source_ids : integer array, shape (B, Tk)
            The source; 0 is padding.
        maps : list, optional
            Receives each layer's attention weights (B, H, Tk, Tk).

        Returns
        -------
        Tensor, shape (B, Tk, D)
            The memory: what the decoder attends to.
        """
        source_ids = self._source(source_ids)
        rng = self.rng if self.training else None
        return self.encoder(self.source_embedding(source_ids, rng), ops.padding_mask(source_ids, PAD), rng, maps)

    def decode(
        self,
        target_ids: Any,
        memory: Tensor,
        memory_mask: Array | None = None,
        cache: list[LayerCache] | None = None,
        self_maps: list[Array] | None = None,
        cross_maps: list[Array] | None = None,
        position: int | None = None,
        seen: Array | None = None,
    ) -> Tensor:
        """Predict, at each target position, the next token.

        Parameters
        ----------
        target_ids : integer array, shape (B, Tq)
            The target, beginning with the start token; with a cache, only its new tokens.
        memory : Tensor, shape (B, Tk, D)
            What ``encode`` returned.
        memory_mask : boolean array, broadcastable to (B, H, Tq, Tk), optional
            ``ops.padding_mask(source_ids)``.
        cache : list of LayerCache, optional
            From ``new_cache``: keys and values of the tokens before; these tokens' are added. No gradient flows.
        self_maps, cross_maps : lists, optional
            Receive each layer's attention weights.
        position : int, optional
            With a cache: the one position that all new tokens have, as the hypotheses of a beam do, which continue one
            sentence in several ways. By default they follow one another, and those before.
        seen : boolean array, broadcastable to (B, H, Tq, T + Tq), optional
            With a cache: which of the T tokens before and of the new ones each new one sees. By default all before, and
            the new ones up to itself.

        Returns
        -------
        Tensor, shape (B, Tq, V)
            Logits.

        Raises
        ------
        ValueError
            If ``position`` or ``seen`` is given without a cache.
        """
        if cache is None and not (position is None and seen is None):
            raise ValueError(
                "Transformer.decode: position and seen are for new tokens after those in a cache; give one"
            )
        target_ids = self._target(target_ids)
        rng = self.rng if self.training else None
        before = 0 if cache is None else len(cache[0].self_attention)
        n = target_ids.shape[1]
        # Without a cache the layers keep later tokens out themselves. With one, new tokens see all that came before,
        # and among themselves not what comes after.
        if cache is None:
            seen = ops.padding_mask(target_ids, PAD)
        elif seen is None and n > 1:
            seen = ops.causal_mask(before + n)[before:]
        if position is None:
            x = self.target_embedding(target_ids, rng, before)
        else:  # like so many sentences, of which each has its next token
            x = self.target_embedding(target_ids.reshape(-1, 1), rng, position).reshape(*target_ids.shape, -1)
        x = self.decoder(x, memory, seen, memory_mask, rng, cache, self_maps, cross_maps)
        return ops.linear(x, self.output.T)

    def new_cache(self) -> list[LayerCache]:
        """Return an empty cache for ``decode``: one for each layer."""
        return [LayerCache(Cache(), Cache()) for _ in self.decoder.layers]

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
        training, self.training = self.training, False
        try:
            with no_grad():
                memory = self.encode(source_ids, maps["encoder"])
                mask = ops.padding_mask(self._source(source_ids), PAD)
                self.decode(target_ids, memory, mask, None, maps["decoder"], maps["cross"])
        finally:
            self.training = training
        return {kind: [to_numpy(weights) for weights in layers] for kind, layers in maps.items()}

    def _source(self, ids: Any) -> Any:
        return _checked(ids, self.source_vocab, "source ids")

    def _target(self, ids: Any) -> Any:
        return _checked(ids, self.target_vocab, "target ids")


def _checked(ids: Any, vocabulary: int, what: str) -> Any:
    """Return ids as an array, after seeing that they are a matrix of token ids: all of it before any work."""
    ids = ids if isinstance(ids, np.ndarray | xp.ndarray) else np.asarray(ids)
    if ids.ndim != 2:
        raise ValueError(f"Transformer: {what} must have shape (B, T), found {ids.shape}")
    as_indices(ids, vocabulary, f"Transformer, {what}")
    return ids
