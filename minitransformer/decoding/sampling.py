"""Sampling: texts are continued by tokens that are drawn at random from the model's probabilities.

From the scores z of the V tokens:

    p_i = exp(z_i / t) / sum_j exp(z_j / t)        t: the temperature

Below 1 it sharpens the distribution, above 1 it flattens it; in the limit 0 the token with the highest score has
probability 1, which is greedy decoding. Then the less probable tokens may be excluded, and their probability goes to
the others in proportion:

- top-k keeps the K most probable tokens;
- top-p keeps the smallest set of the most probable tokens whose probabilities sum to at least p: few where the model is
  sure, many where it is not.

With both, top-p chooses among the tokens that top-k has kept. Of equally probable tokens, the one with the lower id
comes first.

Sources: Hierarchical Neural Story Generation (Fan et al., 2018), section 5.4, for top-k; The Curious Case of Neural
Text Degeneration (Holtzman et al., 2020), section 3.1, for top-p.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from minitransformer.arrays import as_indices, to_numpy, xp
from minitransformer.data import END, PAD, START
from minitransformer.decoding.search import NEVER, Diverged, Ids
from minitransformer.nn import LanguageModel
from minitransformer.options import Options, option

ROUNDING = 1e-12
"""A sum of probabilities this far below p counts as p."""


@dataclass(frozen=True, kw_only=True)
class SamplingOptions(Options):
    """The options of sampling; by default tokens are drawn from the model's own probabilities.

    Raises
    ------
    OptionError
        If a value is out of its range.
    """

    owner: ClassVar[str] = "sampling"

    temperature: float = option(
        1.0, "below 1 the more probable tokens are drawn more often, above 1 less often; 0 is greedy decoding",
        at_least=0,
    )  # fmt: skip
    top_k: int | None = option(None, "draw from the K most probable tokens only (default: off)", at_least=1)
    top_p: float | None = option(
        None, "draw from the smallest set of most probable tokens with a total probability of p (default: off)",
        above=0, at_most=1,
    )  # fmt: skip
    stop: bool = option(
        True, "end the text with an end token of the model, if it has any; otherwise none is written", added=True
    )

    def probabilities(self, logits: Any) -> NDArray[np.float64]:
        """Return the probability with which each token is drawn.

        Parameters
        ----------
        logits : array, shape (..., V)
            Scores before the softmax; an excluded token has -inf.

        Returns
        -------
        ndarray of float64, shape (..., V)

        Raises
        ------
        Diverged
            If a score is NaN or +inf, or all tokens of a row are excluded.
        """
        scores = to_numpy(logits).astype(np.float64)
        order = np.argsort(-scores, axis=-1, kind="stable")  # the most probable first
        ranked = np.take_along_axis(scores, order, axis=-1)
        if np.isnan(scores).any() or not np.isfinite(ranked[..., :1]).all():
            raise Diverged("the model's scores are not numbers: its training has diverged")
        most = 1 if self.temperature == 0 else self.top_k
        with np.errstate(over="ignore"):  # of a temperature near 0: a score of -inf is right
            p = np.exp((ranked - ranked[..., :1]) / (self.temperature or 1.0))
        if most is not None:
            p[..., most:] = 0
        p /= p.sum(axis=-1, keepdims=True)
        if self.top_p is not None and self.top_p < 1:
            p = keep_top_p(p, self.top_p)
        found = np.empty_like(p)
        np.put_along_axis(found, order, p, axis=-1)
        return found


def keep_top_p(p: NDArray[np.float64], top_p: float) -> NDArray[np.float64]:
    """Return the probabilities (..., V) without the less probable tokens; the most probable one is the first."""
    mass_before = np.cumsum(p, axis=-1) - p
    mass_before[..., 0] = -1  # the first is always kept
    kept = np.where(mass_before < top_p - ROUNDING, p, 0)
    return kept / kept.sum(axis=-1, keepdims=True)


def draw(probabilities: NDArray[np.float64], numbers: NDArray[np.float64]) -> Ids:
    """Draw an index from each row of probabilities, by a random number from [0, 1) each: (..., V), (...) -> (...).

    An index of probability 0 is never drawn.
    """
    cumulative = np.cumsum(probabilities, axis=-1)
    total = cumulative[..., -1:]
    # Rounding may bring the product up to the total, beyond the last index.
    places = np.minimum(np.asarray(numbers)[..., None] * total, np.nextafter(total, 0))
    return np.asarray((cumulative <= places).sum(axis=-1))


def sample(
    model: LanguageModel,
    prompts: Any,
    window: int,
    options: SamplingOptions | None = None,
    rng: np.random.Generator | None = None,
    forbidden: Sequence[int] = (),
    ends: Sequence[int] = (),
) -> Iterator[Ids]:
    """Continue texts, without end unless the model ends them.

    The model reads the start token (unless its option ``start_token`` is False and there is a prompt) and the prompt,
    and then what it has written. Keys and values are kept, so that each
    token computes one position. When the model has read as many tokens as the window holds, it begins again with the
    start token and the last half of a window. So it never meets a position that it was not trained on, whatever kind of
    positions it has, and each token is drawn from at least the half of a window before it. Padding, start and end are
    never written, unless they are among ``ends``. The model decodes without dropout, also in training mode.

    Parameters
    ----------
    model : LanguageModel
        The model.
    prompts : integer array, shape (B, T)
        The beginnings of the texts, without the start token; T may be 0. Of a prompt that with the start token is
        longer than the window, only the last half of a window is read.
    window : int
        The number of tokens that the model was trained on at a time, the start token included; at least 2.
    options : SamplingOptions, optional
        How tokens are drawn.
    rng : numpy.random.Generator, optional
        Draws them; by default one with seed 0.
    forbidden : sequence of int
        More ids that are never written, such as that of unknown tokens.
    ends : sequence of int
        The ids that end a text, or with the option ``stop=False`` are never written.

    Yields
    ------
    integer array, shape (B,)
        The next token of each text; after its end padding. When all texts have ended, there is no next one.

    Raises
    ------
    ValueError
        If the prompts are not a matrix, or the window is below 2 or longer than the learned positions.
    TypeError
        If the prompts are not whole numbers.
    IndexError
        If an id is not in the vocabulary.
    Diverged
        If the model's scores are not numbers.

    Examples
    --------
    >>> model = mt.nn.LanguageModel(9, d_model=8, n_heads=2, n_layers=1, d_ff=16, positions="alibi")
    >>> tokens = mt.decoding.sample(model, [[5, 3]], window=8, options=mt.decoding.SamplingOptions(top_k=2))
    >>> len([int(next(tokens)[0]) for _ in range(20)])
    20
    """
    prompts = to_numpy(prompts)
    if prompts.ndim != 2 or not len(prompts):
        raise ValueError(f"sample: prompts must have shape (B, T) with B of at least 1, found {prompts.shape}")
    if window < 2:
        raise ValueError(f"sample: window must be at least 2, found {window}")
    learned = model.target_embedding.positions
    if learned is not None and window > len(learned):
        raise ValueError(f"sample: found a window of {window} tokens, but only {len(learned)} learned positions")
    as_indices(prompts, len(model.output), "sample, prompts")
    as_indices(np.array(ends, dtype=np.int64), len(model.output), "sample, ends")
    options, never = options or SamplingOptions(), {*NEVER, END, *forbidden}
    never = never - {*ends} if options.stop else never | {*ends}
    rng = np.random.default_rng(0) if rng is None else rng
    return _sample(model, prompts.astype(np.int64), window, options, rng, sorted(never), ends)


def _sample(
    model: LanguageModel,
    texts: Ids,
    window: int,
    options: SamplingOptions,
    rng: np.random.Generator,
    never: list[int],
    ends: Sequence[int],
) -> Iterator[Ids]:
    begins = model.options.start_token or not texts.shape[1]
    start = np.full((len(texts), int(begins)), START)
    if begins + texts.shape[1] > window:
        texts = texts[:, -(window // 2) :]
    cache, unread = model.new_cache(len(texts)), np.concatenate((start, texts), axis=1)
    ended = np.zeros(len(texts), dtype=bool)
    while not ended.all():
        for place in range(unread.shape[1]):
            logits = model.step(unread[:, place : place + 1], cache)
        scores = logits[:, 0]  # (B, V)
        scores[:, never] = -xp.inf
        tokens = draw(options.probabilities(scores), rng.random(len(scores)))
        yield np.where(ended, PAD, tokens)
        ended |= np.isin(tokens, ends)
        unread = tokens[:, None]
        texts = np.concatenate((texts, unread), axis=1)
        if cache.position == window:
            cache, texts = model.new_cache(len(texts)), texts[:, -(window // 2) :]
            unread = np.concatenate((start, texts), axis=1)
