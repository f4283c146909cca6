"""What both models have in common: the decoder's first and last layers, the mode, and the steps in which it writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self, cast

import numpy as np

from minitransformer import ops
from minitransformer.arrays import Array, RowsGenerator, as_indices, by_columns, xp
from minitransformer.autograd import Tensor, no_grad, on_arrays
from minitransformer.nn.cache import Cache
from minitransformer.nn.decoder import Decoder
from minitransformer.nn.embedding import Embedding, draw_table
from minitransformer.nn.module import Module, Parameter, ZeroGenerator
from minitransformer.nn.options import ModelOptions

PAD = 0
"""The token id of padding."""


class Model(Module):
    """A model with a decoder: a `Transformer`, or a `LanguageModel`, which has nothing else.

    Attributes
    ----------
    options : ModelOptions
    rng : RowsGenerator
        The random generator of dropout in training.
    training : bool
        Whether a call without a generator drops out entries; see ``train``.
    target_vocab : int
        V, the number of tokens that it writes.
    """

    options: ModelOptions
    rng: RowsGenerator
    training: bool
    target_vocab: int
    target_embedding: Embedding
    output: Parameter
    output_bias: Parameter | None
    decoder: Decoder
    __call__: Callable[..., Tensor]

    def _begin(
        self, options: ModelOptions | None, changes: Mapping[str, Any], seed: int, init_weights: bool
    ) -> np.random.Generator:
        """Set the options, the mode and the generator of dropout; return the generator of the initial weights."""
        self.options = (options or ModelOptions()).changed(**changes)
        self.training = True
        weights_seed, dropout_seed = np.random.SeedSequence(seed).spawn(2)
        self.rng = RowsGenerator(np.random.PCG64DXSM(dropout_seed))
        return np.random.default_rng(weights_seed) if init_weights else cast(np.random.Generator, ZeroGenerator())

    def _add_target(self, table: Parameter, draw: np.random.Generator) -> None:
        """Add the embedding of the target, which has this table (V, D), and the last layer, which may share it."""
        self.target_embedding = Embedding(table, self.options, draw)
        shared = self.options.share_embeddings in (True, "all", "target")
        self.output = table if shared else draw_table(draw, len(table), self.options)
        self.output_bias = Parameter(xp.zeros(len(table), dtype=table.dtype)) if self.options.output_bias else None

    def train(self, training: bool = True) -> Self:
        """Turn dropout on (or off) for calls without a generator; return the model.

        Nothing else depends on the mode: ``encode`` and ``decode`` use dropout only if they are given a generator.
        """
        self.training = training
        return self

    def eval(self) -> Self:
        """Turn dropout off for calls without a generator; return the model."""
        return self.train(False)

    def arrange_for_decoding(self) -> Self:
        """Store the matrix of the last layer as decoding reads it, by columns; return the model.

        At each step of decoding, a few rows are multiplied by this matrix, the largest of the model. The results are
        the same up to rounding. ``Adam`` stores it by rows again.
        """
        self.output.data = by_columns(self.output.data)
        return self

    def hidden(
        self,
        ids: Any,
        memory: Tensor | None = None,
        memory_mask: Array | None = None,
        rng: np.random.Generator | None = None,
        self_maps: list[Array] | None = None,
        cross_maps: list[Array] | None = None,
        cache: Cache | None = None,
        parents: Any = None,
    ) -> Tensor:
        """Return what the last layer reads, (B, Tq, D); arguments as for ``Transformer.decode``."""
        x = self.target_embedding(ids, rng, None if cache is None else cache.position)
        mask = ops.padding_mask(ids, PAD) if cache is None else cache.branch(ids.shape, parents)
        x = self.decoder(x, memory, mask, memory_mask, rng, self_maps, cross_maps, cache)
        if cache is not None:
            cache.advance()
        return x

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the scores of the next token: (B, Tq, D) -> (B, Tq, V)."""
        return ops.linear(hidden, self.output.T, self.output_bias)

    def step(self, tokens: Any, cache: Cache, parents: Any = None) -> Array:
        """Append a token to each sentence that is being written, and predict the next one.

        This is ``decode`` with a cache, without a graph: on arrays, unless a part of the model is your own, which
        is called with tensors as in training. A sentence may have several hypotheses, W of them. Their number may
        change from step to step; then, or if their order has changed, ``parents`` gives the hypothesis that each one
        continues.

        Parameters
        ----------
        tokens : integer array, shape (B, W)
            The tokens to append: at first the start token, with W = 1.
        cache : Cache
            From ``new_cache``; the step is added to it.
        parents : integer array, shape (B, W), optional
            The index of the previous hypothesis that each one continues; by default its own.

        Returns
        -------
        array, shape (B, W, V)
            Logits.

        Raises
        ------
        ValueError
            If the sentences are not those of the cache, or the number of hypotheses has changed and there are no
            parents.
        IndexError
            If an id is out of range.
        """
        tokens = as_token_ids(tokens, self.target_vocab, "target ids", type(self).__name__)
        memory: Any = cache.memory
        if cache.on_arrays is None:
            cache.on_arrays = all(map(_runs_on_arrays, self.parts()))
        if not cache.on_arrays and memory is not None:
            memory = Tensor(memory)
        with on_arrays() if cache.on_arrays else no_grad():
            found: Any = self.logits(self.hidden(tokens, memory, cache.memory_mask, cache=cache, parents=parents))
        return found if cache.on_arrays else found.data


def _runs_on_arrays(part: Module) -> bool:
    """Return whether a part, with its methods, is of this package: such code calls no method of a tensor."""
    has_functions = any(callable(value) and not isinstance(value, Module) for value in vars(part).values())
    return type(part).__module__.startswith("minitransformer.nn.") and not has_functions


def as_token_ids(ids: Any, vocabulary: int, what: str, owner: str = "Transformer") -> Any:
    """Check that ids are a matrix of token ids, and return them as an array."""
    ids = ids if isinstance(ids, np.ndarray | xp.ndarray) else np.asarray(ids)
    if ids.ndim != 2:
        raise ValueError(f"{owner}: {what} must have shape (B, T), found {ids.shape}")
    as_indices(ids, vocabulary, f"{owner}, {what}")
    return ids
