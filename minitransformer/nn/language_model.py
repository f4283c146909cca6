"""A decoder alone, which continues a text: the architecture of GPT.

It is the right half of figure 1 without the sub-layer in the middle of each layer, because there is no encoder to
attend to.

Source: Improving Language Understanding by Generative Pre-Training (Radford et al., 2018), section 3.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitransformer.arrays import Array, to_numpy
from minitransformer.autograd import Tensor, no_grad
from minitransformer.nn.cache import Cache
from minitransformer.nn.decoder import Decoder
from minitransformer.nn.embedding import draw_table
from minitransformer.nn.model import Model, as_token_ids
from minitransformer.nn.module import check_sizes
from minitransformer.nn.options import ModelOptions, with_model_options


class LanguageModel(Model):
    """A decoder without an encoder: it predicts each token of a text from the tokens before it.

    Parameters
    ----------
    vocab : int
        V, the number of tokens. Token 0 is padding.
    options : ModelOptions, optional
        The options, as for a `Transformer`. The number of layers is that of its decoder; what concerns a source has no
        effect.
    seed : int
        Seeds the initial weights and dropout.
    init_weights : bool
        Whether to draw the initial weights. Without them, call ``load_state_dict(state, copy=False)`` before anything
        else.
    **changes
        Options that differ, by name: ``LanguageModel(96, d_model=64, n_heads=4, norm="pre")``. See ``ModelOptions``.

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
    >>> model = mt.nn.LanguageModel(9, d_model=8, n_heads=2, n_layers=1, d_ff=16, norm="pre")
    >>> model(np.array([[1, 6, 4]])).shape  # logits (B, T, V)
    (1, 3, 9)
    >>> cache = model.new_cache(1)  # the same, one position at a time
    >>> [model.step([[token]], cache).shape for token in (1, 6, 4)]
    [(1, 1, 9), (1, 1, 9), (1, 1, 9)]
    """

    @with_model_options
    def __init__(
        self,
        vocab: int,
        options: ModelOptions | None = None,
        *,
        seed: int = 0,
        init_weights: bool = True,
        **changes: Any,
    ) -> None:
        check_sizes("LanguageModel", vocab=vocab)
        draw = self._begin(options, changes, seed, init_weights)
        self.target_vocab = vocab
        self._add_target(draw_table(draw, vocab, self.options), draw)
        self.decoder = Decoder(self.options, draw, cross_attention=False)

    def __call__(self, ids: Any, rng: np.random.Generator | None = None) -> Tensor:
        """Predict, at each position, the next token; no position sees a later one.

        Parameters
        ----------
        ids : integer array, shape (B, T)
            The texts; 0 is padding.
        rng : numpy.random.Generator, optional
            For dropout. By default the model's own in training mode; in evaluation mode nothing is dropped.

        Returns
        -------
        Tensor, shape (B, T, V)
            Logits: scores before the softmax.

        Raises
        ------
        ValueError
            If the ids are not a matrix.
        IndexError
            If an id is out of range.
        """
        if rng is None and self.training:
            rng = self.rng
        return self.decode(ids, rng)

    def decode(
        self,
        ids: Any,
        rng: np.random.Generator | None = None,
        maps: list[Array] | None = None,
        cache: Cache | None = None,
        parents: Any = None,
    ) -> Tensor:
        """Predict the same, in either mode.

        Parameters
        ----------
        ids : integer array, shape (B, T)
            The texts; 0 is padding.
        rng : numpy.random.Generator, optional
            For dropout; without it nothing is dropped.
        maps : list, optional
            Receives each layer's attention weights (B, H, T, T). No gradient flows.
        cache, parents
            As for ``Transformer.decode``.

        Returns
        -------
        Tensor, shape (B, T, V)
            Logits.
        """
        ids = as_token_ids(ids, self.target_vocab, "ids", "LanguageModel")
        return self.logits(self.hidden(ids, rng=rng, self_maps=maps, cache=cache, parents=parents))

    def new_cache(self, n: int) -> Cache:
        """Return the cache with which ``step`` begins n texts."""
        check_sizes("LanguageModel.new_cache", n=n)
        return Cache(np.ones((n, 0), dtype=bool))

    def attention_maps(self, ids: Any) -> dict[str, list[Array]]:
        """Return every attention weight of a forward pass without dropout.

        Parameters
        ----------
        ids : integer array, shape (B, T)
            As for a call.

        Returns
        -------
        dict
            ``"decoder"`` (B, H, T, T): a list of NumPy arrays, one for each layer.
        """
        maps: list[Array] = []
        with no_grad():
            self.decode(ids, maps=maps)
        return {"decoder": [to_numpy(weights) for weights in maps]}
