"""The whole model: encoder, decoder, embeddings and the last linear layer (sections 3.1 to 3.5)."""

from __future__ import annotations

from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.arrays import Array, to_numpy
from minitransformer.autograd import Tensor, no_grad
from minitransformer.nn.cache import Cache
from minitransformer.nn.decoder import Decoder
from minitransformer.nn.embedding import Embedding, draw_table
from minitransformer.nn.encoder import Encoder
from minitransformer.nn.model import PAD, Model, as_token_ids
from minitransformer.nn.module import check_sizes
from minitransformer.nn.options import ModelOptions, with_model_options


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
    init_weights : bool
        Whether to draw the initial weights. Without them, call ``load_state_dict(state, copy=False)`` before anything
        else.
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
        init_weights: bool = True,
        **changes: Any,
    ) -> None:
        check_sizes("Transformer", source_vocab=source_vocab, target_vocab=target_vocab)
        draw = self._begin(options, changes, seed, init_weights)
        self.source_vocab, self.target_vocab = source_vocab, target_vocab
        share, same_size = self.options.share_embeddings, source_vocab == target_vocab
        if share in ("all", "inputs") and not same_size:
            raise ValueError(
                f"Transformer: share_embeddings={share!r} needs vocabularies of the same size, found {source_vocab} "
                f"and {target_vocab}; choose 'target' or False"
            )
        source_table = draw_table(draw, source_vocab, self.options)
        one_table = share in (True, "all", "inputs") and same_size
        target_table = source_table if one_table else draw_table(draw, target_vocab, self.options)
        self.source_embedding = Embedding(source_table, self.options, draw)
        self._add_target(target_table, draw)
        self.encoder = Encoder(self.options, draw)
        self.decoder = Decoder(self.options, draw)

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
        cache: Cache | None = None,
        parents: Any = None,
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
        cache : Cache, optional
            From ``new_cache``. The ids are then the next tokens of W hypotheses, (B, W), all at the cache's position,
            and are added to it. No gradient flows.
        parents : integer array, shape (B, W), optional
            With a cache, the index of the previous hypothesis that each one continues; by default its own.

        Returns
        -------
        Tensor, shape (B, Tq, V)
            Logits.
        """
        target_ids = as_token_ids(target_ids, self.target_vocab, "target ids")
        return self.logits(self.hidden(target_ids, memory, memory_mask, rng, self_maps, cross_maps, cache, parents))

    def new_cache(self, source_ids: Any) -> Cache:
        """Encode source sentences and return the cache with which ``step`` translates them.

        Parameters
        ----------
        source_ids : integer array, shape (B, Tk)
            The source; 0 is padding.
        """
        source_ids = as_token_ids(source_ids, self.source_vocab, "source ids")
        with no_grad():
            return Cache(to_numpy(source_ids) != PAD, self.encode(source_ids).data)

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
