"""Beam search: several hypotheses for each sentence, compared with a length penalty (section 6.1).

A hypothesis Y is a target sentence so far. Its log-probability, log P(Y | X), is the sum of the log-probabilities of
its tokens, and falls with every token. So that short sentences are not favoured, finished ones are compared by

    score(Y) = log P(Y | X) / lp(Y)          lp(Y) = ((5 + |Y|) / 6)^alpha

where |Y| counts the tokens that were written: the end token is one of them, the start token is not.

At each step, all hypotheses of a sentence are continued with all tokens, and the K most probable continuations are
kept. Hypotheses that have written the end token are finished and leave the beam; the others are live.
Padding and the start token are never written. With K = 1 this is greedy decoding, by any rules.

When to stop: every continuation of a live hypothesis with log-probability p has a log-probability of at most p and a
penalty of at most lp(limit). As p <= 0 and alpha >= 0, its score is at most p / lp(limit). If this bound for the best
live hypothesis of a sentence does not exceed the worst score that would be returned, the result is final, and the
sentence leaves the batch.

Other programs have other rules: see `SearchOptions`.

Sources: section 6.1 of the paper; Wu et al., *Google's Neural Machine Translation System*, 2016, section 7, equation
(14), for the length penalty (without its coverage penalty).
"""

from __future__ import annotations

from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from minitransformer.arrays import Array, cache_slices, is_whole, xp
from minitransformer.data import END, START
from minitransformer.decoding.rules import PAPER, SearchOptions
from minitransformer.decoding.search import Ids, as_sources, best_tokens, exclude, to_host
from minitransformer.nn import Transformer

IN_CACHE = 65536
"""The number of scores processed at a time, which stay in a processor's cache from one pass to the next."""


class Hypothesis(NamedTuple):
    """A target sentence that a search has found."""

    tokens: list[int]
    """Its tokens, without start and end token."""
    score: float
    """Its log-probability divided by the length penalty."""
    log_probability: float
    """The sum of its tokens' log-probabilities, including the end token if it is finished."""
    finished: bool
    """Whether it has an end token; False if it was cut off at the limit."""


def beam_search(
    model: Transformer,
    source_ids: Any,
    beam: int = 4,
    alpha: float = 0.6,
    max_length: int | None = None,
    n_best: int = 1,
    rules: SearchOptions = PAPER,
) -> list[list[Hypothesis]]:
    """Translate sentences, keeping several hypotheses of each at every step.

    Finished hypotheses come first, sorted by score, the highest first. If there are fewer than ``n_best``, unfinished
    ones follow, sorted likewise: without an end token they are not complete translations. Ties: of two equal scores,
    the hypothesis that finished first is better, then the more probable one; of two equally probable continuations, the
    one of the better hypothesis, then the one with the lower token id.

    The result for a sentence does not depend on the other sentences in the batch, up to rounding. The model decodes
    without dropout, also in training mode. The defaults are the paper's.

    Parameters
    ----------
    model : Transformer
        The model.
    source_ids : integer array, shape (B, Tk)
        Source sentences, each with its end token, padded with 0.
    beam : int
        K, how many continuations are kept at each step.
    alpha : float
        The exponent of the length penalty, 0 or more; higher values favour longer sentences.
    max_length : int, optional
        The maximum number of tokens to write, including the end token; by default 50 more than the source sentence has,
        unless the rules say otherwise; never more than the model's learned positions.
    n_best : int
        How many hypotheses to return for each sentence, at most ``beam``.
    rules : SearchOptions
        The rules of the search; their ``beam`` and ``alpha`` are not used.

    Returns
    -------
    list of B lists of Hypothesis
        For each sentence ``n_best`` different ones, best first; fewer only if no more exist within the limit.

    Raises
    ------
    ValueError
        If an argument is out of its range.
    Diverged
        If the model's scores are not numbers.

    See Also
    --------
    in_batches : Decodes any number of sentences.

    Examples
    --------
    >>> model = mt.nn.Transformer(7, 9, d_model=8, n_heads=2, n_layers=1, d_ff=16)
    >>> (found,) = mt.decoding.beam_search(model, [[3, 4, 2]], beam=2, n_best=2, max_length=5)
    >>> best, second = found
    >>> best.score >= second.score
    True
    """
    if not is_whole(beam) or beam < 1:
        raise ValueError(f"beam_search: beam must be a whole number of at least 1, found {beam!r}")
    if not is_whole(n_best) or not 1 <= n_best <= beam:
        more = "; or widen the beam" if is_whole(n_best) and n_best > beam else ""
        raise ValueError(f"beam_search: n_best must be a whole number from 1 to beam = {beam}, found {n_best!r}{more}")
    if not (isfinite(alpha) and alpha >= 0):
        raise ValueError(f"beam_search: alpha must be a number of 0 or more, found {alpha}")
    source_ids = as_sources(source_ids)
    most = rules.limits(model, source_ids, max_length)
    n_compared = rules.n_compared(beam, n_best)

    found: list[list[Hypothesis]] = [[] for _ in source_ids]  # the finished ones, best first
    active = np.flatnonzero(most > 0)  # the sentences that have not ended; B is their number from here on
    for sentence in np.flatnonzero(most == 0).tolist():
        found[sentence].append(Hypothesis([], 0.0, 0.0, False))
    if not active.size:
        return found
    cache = model.new_cache(source_ids[active])
    # The hypotheses of a sentence are sorted, the most probable first. At first there is one, so W = 1. An empty place
    # has the log-probability -inf, and so have its continuations.
    log_p = np.zeros((len(active), 1))  # (B, W)
    parents = np.zeros((len(active), 1), dtype=np.int64)  # (B, W): their indices in the previous step
    written = np.zeros((len(active), 1, 0), dtype=np.int64)  # (B, W, T)
    tokens = np.full((len(active), 1), START)  # (B, W)
    while active.size:
        logits = model.step(tokens, cache, parents)  # (B, W, V)
        at_limit = most[active] == written.shape[2] + 1
        rules.restrict(logits, written.shape[2], at_limit)
        parents, tokens, log_p = best_continuations(log_p, logits, rules.continuations(beam))
        written = np.take_along_axis(written, parents[:, :, None], axis=1)
        written = np.concatenate((written, tokens[:, :, None]), axis=2)

        ends = rules.ends(tokens, at_limit) & (log_p > -np.inf)
        for i, place in np.argwhere(ends[:, :beam]).tolist():
            results = found[active[i]]
            finished = bool(tokens[i, place] == END)
            results.append(_hypothesis(written[i, place], log_p[i, place], rules, alpha, finished))
            results.sort(key=lambda hypothesis: -hypothesis.score)  # stable: of equal ones the earlier comes first
            del results[n_compared:]
        log_p[ends] = -np.inf
        if rules.refills(beam):  # not the paper's: others take the places of those that have ended
            live = live_first(ends, beam)
            parents, tokens = np.take_along_axis(parents, live, axis=1), np.take_along_axis(tokens, live, axis=1)
            log_p = np.take_along_axis(log_p, live, axis=1)
            written = np.take_along_axis(written, live[:, :, None], axis=1)

        for i in np.flatnonzero(at_limit).tolist():
            results = found[active[i]]
            for place in np.flatnonzero(log_p[i] > -np.inf)[: n_compared - len(results)].tolist():
                results.append(_hypothesis(written[i, place], log_p[i, place], rules, alpha, finished=False))
        worst = np.array([found[s][-1].score if len(found[s]) == n_compared else -np.inf for s in active.tolist()])
        last = rules.last_length(written.shape[2], most[active])
        going = ~at_limit & rules.may_go_on(_attainable(log_p, rules.divisor(last, alpha)), worst)
        if not going.all():
            kept = cache.select(going)
            active, log_p, parents = active[kept], log_p[kept], parents[kept]
            tokens, written = tokens[kept], written[kept]
    return [results[:n_best] for results in found]


def best_continuations(log_p: Array, logits: Array, beam: int) -> tuple[Ids, Ids, Array]:
    """Return the most probable continuations of each sentence's hypotheses, the best first.

    Parameters
    ----------
    log_p : array, shape (B, W)
        The log-probability of each hypothesis.
    logits : array, shape (B, W, V)
        The scores of the next tokens; they are overwritten.
    beam : int
        K, how many continuations to return, if that many exist.

    Returns
    -------
    parents, tokens : integer arrays, shape (B, K)
        The index of the continued hypothesis, and the appended token.
    log_p : array, shape (B, K)
        The log-probabilities of the continuations.
    """
    n = len(log_p)
    best, best_log_p = _most_probable(logits.reshape(-1, logits.shape[-1]), beam)  # (B * W, K)
    # The K best continuations of all are among the K best of each.
    totals = (log_p.reshape(-1, 1) + best_log_p).reshape(n, -1)  # (B, W * K)
    order = np.argsort(-totals, axis=1, kind="stable")[:, :beam]
    tokens = np.take_along_axis(best.reshape(n, -1), order, axis=1)
    return order // best.shape[1], tokens, np.take_along_axis(totals, order, axis=1)


def _attainable(log_p: Array, divisor: Any) -> Array:
    """Return an upper bound of the scores of a sentence's continuations, by the largest divisor: (B, W) -> (B,)."""
    return log_p.max(axis=1) / divisor


def live_first(ends: Any, beam: int) -> Ids:
    """Return the places of K hypotheses, those that have not ended first, in their order: (B, n) -> (B, K)."""
    return np.argsort(ends, axis=1, kind="stable")[:, :beam]


def _hypothesis(written: Ids, log_p: Any, rules: SearchOptions, alpha: float, finished: bool) -> Hypothesis:
    """Return a hypothesis with its score, from its tokens (T,), including the end token if it is finished."""
    score = log_p / rules.divisor(len(written), alpha)
    return Hypothesis(written[: len(written) - finished].tolist(), float(score), float(log_p), finished)


def _most_probable(logits: Array, n: int) -> tuple[Ids, Array]:
    """Return the n most probable tokens of each row, or all if there are fewer, and their log-probabilities.

    (B, V) -> (B, n), (B, n), on the host, in float64. The logits are overwritten. Tokens that are never written come
    last, with -inf.
    """
    total = _log_sum_exp(logits)
    exclude(logits)
    # Chosen by the logits, as in greedy decoding: rounding may make two log-probabilities equal.
    tokens, best = best_tokens(logits, min(n, logits.shape[1]))
    return to_host(tokens, best - total[:, None])


def _log_sum_exp(logits: Array) -> Array:
    """Return log Σ_j exp(x_j), in float64: (B, V) -> (B,)."""
    total = xp.empty(len(logits), dtype=xp.float64)
    for rows in cache_slices(len(logits), max(1, IN_CACHE // logits.shape[1])):
        largest = logits[rows].max(axis=-1)
        total[rows] = xp.exp(logits[rows] - largest[:, None]).sum(axis=-1)
        total[rows] = xp.log(total[rows]) + largest
    return total
