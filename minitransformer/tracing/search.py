"""Searches step by step: the alternatives of each token, and the tree of a beam search.

Both searches compute what ``greedy`` and ``beam_search`` compute. With edits they run a full forward pass for each
token instead of one new position, so that every edit applies.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Any, NamedTuple, cast

import numpy as np

from minitransformer import ops
from minitransformer.arrays import Array, is_whole, to_numpy, xp
from minitransformer.autograd import Tensor, no_grad
from minitransformer.data import END, PAD, START
from minitransformer.decoding import PAPER, SearchOptions, beam_search
from minitransformer.decoding import beam as beam_module
from minitransformer.decoding.beam import live_first
from minitransformer.decoding.search import Diverged, Ids, as_sources, best_tokens, exclude, to_host
from minitransformer.nn import LanguageModel, Model, Transformer
from minitransformer.override import override_in_this_thread
from minitransformer.tracing.editing import Editor, layout_of
from minitransformer.tracing.edits import Edit
from minitransformer.tracing.twin import check_model, twin
from minitransformer.tracing.watching import predict


class Alternative(NamedTuple):
    """A possible token at a position."""

    token: int
    probability: float


@dataclass(frozen=True)
class Choice:
    """The token at one position of a translation."""

    token: int
    probability: float
    """Of the softmax over all tokens, divided by the temperature."""
    alternatives: tuple[Alternative, ...]
    """The most probable tokens, best first; padding and the start token are never written, so they are left out."""
    forced: bool
    """Whether the token was given by the prefix."""


@dataclass(frozen=True)
class BeamNode:
    """A hypothesis of one step of a beam search: its parent's tokens and one more."""

    id: int
    """Its index in ``BeamTree.nodes``."""
    parent: int | None
    """The id of its parent; None for the root, which has only the start token."""
    step: int
    """The number of its tokens, without the start token."""
    token: int
    log_probability: float
    """The sum of the logarithms of the probabilities of its tokens."""
    score: float | None
    """The log-probability divided by the length penalty, if it is complete: it has ended, or is at the limit."""
    fate: str
    """``kept``, ``finished``, ``dropped: ...``, ``cut off: ...`` at the limit, or ``cannot win any more``."""


@dataclass(frozen=True)
class BeamTree:
    """Every hypothesis of a beam search."""

    nodes: tuple[BeamNode, ...]
    """In the order of their steps, those of one step best first."""
    winner: int
    """The id of the hypothesis that ``beam_search`` returns."""

    def tokens(self, node: int) -> list[int]:
        """Return the tokens of a hypothesis, without start and end."""
        found = []
        one = self.nodes[node]
        while one.parent is not None:
            found.append(one.token)
            one = self.nodes[one.parent]
        return [token for token in reversed(found) if token != END]


class FullPasses:
    """A model that predicts the next token by a full forward pass for each hypothesis, so that edits hold.

    It has what a search uses, ``new_cache``, ``step`` and ``target_embedding``, and is its own cache. The encoder runs
    once.

    Parameters
    ----------
    model : Transformer or LanguageModel
        The model.
    source_ids : integer array, shape (1, Tk), or None
        The source sentence; a decoder alone has none.
    edits : sequence of Edit
        What is changed in the model.
    most : int
        The maximum number of tokens; positions below it may be edited.
    """

    def __init__(self, model: Model, source_ids: Ids | None, edits: Sequence[Edit], most: int) -> None:
        self._model = twin(model)
        self.target_embedding = self._model.target_embedding
        self._editor: Editor | None = None
        if edits:
            longest = np.full((1, max(most, 1) + 1), START)
            self._editor = Editor(self._model, edits, layout_of(self._model, source_ids, longest))
        self._written = np.zeros((1, 0), dtype=np.int64)  # (W, T)
        self._memory: Array | None = None
        if isinstance(self._model, Transformer):
            with no_grad(), self._editing():
                self._memory = self._model.encode(source_ids).data
            self._memory_mask = ops.padding_mask(source_ids, PAD)

    def _editing(self) -> AbstractContextManager[object]:
        return nullcontext() if self._editor is None else self._editor.watching()

    def new_cache(self, source_ids: Any) -> FullPasses:
        """Return the cache: this."""
        return self

    def step(self, tokens: Any, cache: FullPasses, parents: Any = None) -> Array:
        """Append a token to each hypothesis, and return the logits of the next one: (1, W) -> (1, W, V)."""
        before = self._written if parents is None else self._written[parents[0]]
        self._written = np.concatenate((before, np.reshape(tokens, (-1, 1))), axis=1)
        return self.logits(self._written)[None]

    def logits(self, written: Ids) -> Array:
        """Return the logits of the token that follows each hypothesis: (W, T) -> (W, V)."""
        with no_grad(), self._editing():
            if self._memory is None or not isinstance(self._model, Transformer):
                return predict(self._model, None, written).data[:, -1]
            memory = Tensor(xp.tile(self._memory, (len(written), 1, 1)))
            return self._model.decode(written, memory, self._memory_mask).data[:, -1]

    def select(self, going: Any) -> Ids:
        """Return the indices of the sentences to keep."""
        return np.flatnonzero(going)


def write(
    model: Model,
    source_ids: Any,
    prefix: Sequence[int] = (),
    edits: Sequence[Edit] = (),
    max_length: int | None = None,
    alternatives: int = 5,
    temperature: float = 1.0,
    rules: SearchOptions = PAPER,
) -> list[Choice]:
    """Translate a sentence token by token, each time taking the most probable one, and keep the alternatives.

    Parameters
    ----------
    model : Transformer or LanguageModel
        The model; it decodes without dropout.
    source_ids : integer array, shape (1, Tk), or None
        One source sentence with its end token; None for a ``LanguageModel``, which has none.
    prefix : sequence of int
        Tokens that the translation begins with, without the start token. The search goes on after them, unless the
        last one is the end token. A ``LanguageModel`` continues this text.
    edits : sequence of Edit
        What is changed in the model. Entries at positions that have not been written yet are changed once they are.
    max_length : int, optional
        The most tokens to write, the prefix and the end token among them; by default 50 more than the source sentence
        has, 50 without a source, and no more than there are learned positions.
    alternatives : int
        How many alternatives to return for each token.
    temperature : float
        What the logits are divided by before the softmax; it changes probabilities, but no token.
    rules : SearchOptions
        Which tokens may be written, and how many.

    Returns
    -------
    list of Choice
        One for each token, the end token among them.

    Raises
    ------
    ValueError, TypeError, IndexError
        If an argument is out of its range, or an edit does not fit the model.
    Diverged
        If the model's scores are not numbers.
    """
    source_ids = _one_sentence("write", model, source_ids)
    most = _limit(model, source_ids, max_length, rules)
    prefix = _check_prefix(model, prefix, most)
    if not is_whole(alternatives) or alternatives < 1:
        raise ValueError(f"write: alternatives must be a whole number of at least 1, found {alternatives!r}")
    if not (isfinite(temperature) and temperature > 0):
        raise ValueError(f"write: temperature must be a number above 0, found {temperature}")
    search: Any = FullPasses(model, source_ids, edits, most) if edits else model
    cache = search.new_cache(1 if source_ids is None else source_ids)
    token = START
    choices: list[Choice] = []
    while len(choices) < most and token != END:
        forced = prefix[len(choices)] if len(choices) < len(prefix) else None
        logits = search.step(np.array([[token]]), cache)[0]  # (1, V)
        rules.restrict(logits, len(choices), np.array([len(choices) + 1 == most]))
        choices.append(_choose(logits[0], forced, alternatives, temperature))
        token = choices[-1].token
    return choices


def _choose(logits: Array, forced: int | None, n: int, temperature: float) -> Choice:
    """Return the best token, or the one that is forced: (V,)."""
    shifted = (logits.astype(xp.float64) - logits.max()) / temperature
    probabilities = xp.exp(shifted)
    probabilities = to_numpy(probabilities / probabilities.sum())
    scores = logits[None].copy()
    exclude(scores)
    best, found = best_tokens(scores, min(n, len(logits)))
    tokens, values = to_host(best, found)
    if np.isnan(probabilities).any():
        raise Diverged("the model's scores are infinite, so their softmax is not a number (NaN)")
    listed = [Alternative(t, float(probabilities[t])) for t in tokens[0][values[0] > -np.inf].tolist()]
    token = int(tokens[0, 0]) if forced is None else forced
    return Choice(token, float(probabilities[token]), tuple(listed), forced is not None)


def beam_tree(
    model: Transformer,
    source_ids: Any,
    beam: int = 4,
    alpha: float = 0.6,
    max_length: int | None = None,
    edits: Sequence[Edit] = (),
    n_dropped: int | None = None,
    rules: SearchOptions = PAPER,
) -> BeamTree:
    """Translate a sentence by beam search, and keep every hypothesis of every step.

    Parameters
    ----------
    model : Transformer
        The model; it decodes without dropout.
    source_ids : integer array, shape (1, Tk)
        One source sentence with its end token.
    beam, alpha
        As for ``beam_search``.
    max_length : int, optional
        The most tokens to write, the end token among them; by default 50 more than the source sentence has, and no more
        than there are learned positions.
    edits : sequence of Edit
        What is changed in the model.
    n_dropped : int, optional
        How many of the hypotheses that are dropped to return for each step, the best of them; by default ``beam``.
    rules : SearchOptions
        As for ``beam_search``.

    Returns
    -------
    BeamTree

    Raises
    ------
    ValueError, TypeError, IndexError
        If an argument is out of its range, or an edit does not fit the model.
    Diverged
        If the model's scores are not numbers.
    """
    source_ids = _one_sentence("beam_tree", model, source_ids)
    if source_ids is None:
        raise ValueError("beam_tree: a LanguageModel has no source to translate; write continues a text")
    most = _limit(model, source_ids, max_length, rules)
    n_dropped = beam if n_dropped is None else n_dropped
    if not is_whole(n_dropped) or n_dropped < 0:
        raise ValueError(f"beam_tree: n_dropped must be a whole number of 0 or more, found {n_dropped!r}")
    searched = cast(Transformer, FullPasses(model, source_ids, edits, most)) if edits else model
    grown = _GrowingTree(beam, alpha, n_dropped, rules)
    with override_in_this_thread(beam_module, best_continuations=grown.continue_all):
        [[best]] = beam_search(searched, source_ids, beam, alpha, most, rules=rules)
    tree = BeamTree(grown.with_last_fates(most), 0)
    return replace(tree, winner=grown.find(tree, best.tokens, best.finished))


class _GrowingTree:
    """A tree to which each step of a beam search adds its hypotheses."""

    def __init__(self, beam: int, alpha: float, n_dropped: int, rules: SearchOptions) -> None:
        self.beam, self.alpha, self.n_dropped, self.rules = beam, alpha, n_dropped, rules
        self.best = beam_module.best_continuations
        self.nodes = [BeamNode(0, None, 0, START, 0.0, None, "kept")]
        self.step = 0
        self.places: list[int | None] = [0]  # the id of the hypothesis at each position of the beam

    def continue_all(self, log_p: Array, logits: Array, n: int) -> tuple[Ids, Ids, Array]:
        """Replace ``best_continuations``: find some more than are needed, and add all of them to the tree."""
        parents, tokens, totals = self.best(log_p, logits, n + self.n_dropped)
        ends = (tokens == END) & (totals > -inf)
        refilled = self.rules.refills(self.beam)
        kept = live_first(ends, self.beam)[0] if refilled else np.arange(min(self.beam, tokens.shape[1]))
        self.step += 1
        places: list[int | None] = []
        found = (x[0].tolist() for x in (parents, tokens, totals))
        for rank, (place, token, total) in enumerate(zip(*found, strict=True)):
            places.append(len(self.nodes) if total > -inf else None)
            if total > -inf:
                self._add(self.places[place], token, total, rank, rank < self.beam if token == END else rank in kept)
        self.places = [places[i] for i in kept.tolist()]
        return parents[:, :n], tokens[:, :n], totals[:, :n]

    def _add(self, parent: int | None, token: int, log_p: float, rank: int, kept: bool) -> None:
        fate = "finished" if token == END else "kept"
        if not kept:
            fate = f"dropped: rank {rank + 1}, and only {self.beam} are kept"
        score = self._score(log_p, self.step) if token == END else None
        self.nodes.append(BeamNode(len(self.nodes), parent, self.step, token, log_p, score, fate))

    def _score(self, log_p: float, length: int) -> float:
        return float(log_p / self.rules.divisor(length, self.alpha))

    def with_last_fates(self, limit: int) -> tuple[BeamNode, ...]:
        """Return the nodes; those that were live when the search ended are at the limit, or can no longer win."""
        nodes = list(self.nodes)
        last = self.step
        for one in nodes:
            if one.step == last and one.fate == "kept":
                changes: dict[str, Any] = {"fate": "cannot win any more"}
                if last == limit:
                    score = self._score(one.log_probability, last)
                    changes = {"fate": f"cut off: at the limit of {limit} tokens", "score": score}
                nodes[one.id] = replace(one, **changes)
        return tuple(nodes)

    def find(self, tree: BeamTree, tokens: list[int], finished: bool) -> int:
        """Return the id of a hypothesis that a search has returned."""
        length = len(tokens) + finished
        [found] = [
            one.id
            for one in tree.nodes
            if one.step == length
            and (one.token == END) == finished
            and not one.fate.startswith("dropped")
            and tree.tokens(one.id) == tokens
        ]
        return found


def _one_sentence(function: str, model: Any, source_ids: Any) -> Ids | None:
    """Return the source; None for a decoder alone."""
    check_model(function, model)
    if isinstance(model, LanguageModel):
        if source_ids is not None:
            raise ValueError(f"{function}: a LanguageModel has no source: pass None, and the text as the prefix")
        return None
    ids = as_sources(source_ids)
    if len(ids) != 1:
        raise ValueError(f"{function}: expected one source sentence, ids of shape (1, Tk), found shape {ids.shape}")
    return ids


def _limit(model: Model, source_ids: Ids | None, max_length: int | None, rules: SearchOptions) -> int:
    """Return the most tokens that may be written, the end token among them."""
    before = np.zeros((1, 0), dtype=np.int64) if source_ids is None else source_ids
    return int(rules.limits(model, before, max_length)[0])


def _check_prefix(model: Model, prefix: Sequence[int], most: int) -> list[int]:
    """Return the prefix as a list of tokens that may be written."""
    tokens = list(prefix)
    for place, token in enumerate(tokens):
        if not is_whole(token):
            raise TypeError(f"write: position {place} of the prefix is {token!r}, expected the id of a token")
        if not 0 <= token < model.target_vocab:
            raise IndexError(
                f"write: token {token} at position {place} of the prefix is out of range: "
                f"the target vocabulary has tokens 0 to {model.target_vocab - 1}"
            )
        if token in (PAD, START) or (token == END and place < len(tokens) - 1):
            name = {PAD: "padding", START: "the start token", END: "the end token"}[token]
            raise ValueError(
                f"write: position {place} of the prefix is {name} ({token}); padding and the start token are "
                "never written, and the end token only last: leave it out"
            )
    if len(tokens) > most:
        raise ValueError(f"write: the prefix has {len(tokens)} tokens, but at most {most} are written; shorten it")
    return tokens
