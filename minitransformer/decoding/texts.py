"""Translation of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, TypeVar

from minitransformer.arrays import full_memory
from minitransformer.data import END, Tokeniser
from minitransformer.decoding.batches import Spread, everything, in_batches
from minitransformer.decoding.beam import Hypothesis, beam_search
from minitransformer.decoding.greedy import greedy
from minitransformer.decoding.rules import PAPER, SearchOptions
from minitransformer.decoding.search import Ids, longest_sentence
from minitransformer.nn import Transformer

T = TypeVar("T")

SENTENCES = 256
"""The number of hypotheses that are decoded together."""


class Translation(NamedTuple):
    """The best translation of a text."""

    tokens: list[int]
    """Its tokens, without start and end token."""
    finished: bool
    """Whether it has an end token; False if it was cut off at the limit."""


def hypotheses(
    model: Transformer,
    source: Tokeniser,
    texts: Sequence[str],
    beam: int = 1,
    alpha: float = 0.6,
    n_best: int = 1,
    spread: Spread = everything,
    rules: SearchOptions = PAPER,
) -> list[list[Hypothesis]]:
    """Translate texts by beam search.

    Parameters
    ----------
    model : Transformer
        The model.
    source : Tokeniser
        Converts source texts to ids.
    texts : sequence of str
        Any number of texts.
    beam, alpha, n_best
        As for `beam_search`.
    spread : callable
        As for `in_batches`.
    rules : SearchOptions
        As for `beam_search`.

    Returns
    -------
    list of lists of Hypothesis
        For each text ``n_best`` of them, the best first, with target ids.

    Raises
    ------
    UnknownTokenError
        If a text has a token that is not in a closed vocabulary.
    ValueError
        If a text is longer than the model's learned positions, or an argument is out of its range.
    """
    SearchOptions.check({"beam": beam, "alpha": alpha})
    search = partial(beam_search, model, beam=beam, alpha=alpha, n_best=n_best, rules=rules)
    return _decode(model, source, texts, search, max(1, SENTENCES // beam), spread)


def translations(
    model: Transformer,
    source: Tokeniser,
    texts: Sequence[str],
    beam: int = 1,
    alpha: float = 0.6,
    spread: Spread = everything,
    rules: SearchOptions = PAPER,
) -> list[Translation]:
    """Return the best translation of each text, as ids; arguments and errors are those of `translate`."""
    SearchOptions.check({"beam": beam, "alpha": alpha})
    if beam > 1:  # with a beam of 1, beam search writes what `greedy` writes, and computes scores as well
        found = hypotheses(model, source, texts, beam, alpha, 1, spread, rules)
        return [Translation(best.tokens, best.finished) for best, *_ in found]

    def search(ids: Ids) -> list[Translation]:
        found = zip(greedy(model, ids, rules=rules), rules.limits(model, ids).tolist(), strict=True)
        return [Translation(tokens, len(tokens) < most) for tokens, most in found]

    return _decode(model, source, texts, search, SENTENCES, spread)


def translate(
    model: Transformer,
    source: Tokeniser,
    target: Tokeniser,
    texts: Sequence[str],
    beam: int = 1,
    alpha: float = 0.6,
    spread: Spread = everything,
    rules: SearchOptions = PAPER,
) -> list[str]:
    """Translate texts by beam search, or greedily if the beam is 1.

    Parameters
    ----------
    model : Transformer
        The model.
    source, target : Tokeniser
        Convert texts to ids and back.
    texts : sequence of str
        Any number of texts.
    beam, alpha
        As for `beam_search`.
    spread : callable
        As for `in_batches`.
    rules : SearchOptions
        As for `beam_search`.

    Returns
    -------
    list of str

    Raises
    ------
    UnknownTokenError
        If a text has a token that is not in a closed vocabulary.
    ValueError
        If a text is longer than the model's learned positions, or beam or alpha is out of its range.
    """
    found = translations(model, source, texts, beam, alpha, spread, rules)
    return [target.decode(one.tokens) for one in found]


def source_sentence(model: Transformer, source: Tokeniser, text: str) -> list[int]:
    """Return the ids of a source text, with its end if the model reads one, or if there is no other token."""
    ids = source.encode(text)
    return [*ids, END] if model.options.source_end or not ids else ids


def check_sentence(model: Transformer, source: Tokeniser, text: str) -> list[int]:
    """Return the ids of a text to translate, as `source_sentence` does.

    Raises
    ------
    UnknownTokenError
        If it has a token that is not in a closed vocabulary.
    ValueError
        If it is longer than the model's learned positions.
    """
    ids = source_sentence(model, source, text)
    most = longest_sentence(model)
    if most is not None and len(ids) > most:
        raise ValueError(
            f"the text {text[:40]!r}... has {len(ids)} tokens, its end included, but this model has learned {most} "
            "positions; split it, or train with positions=sinusoidal, which have no limit"
        )
    return ids


@contextmanager
def naming_the_longest(texts: Sequence[str], ids: Sequence[Sequence[int]]) -> Iterator[None]:
    """Name the longest text in an error of full memory inside ``with naming_the_longest(texts, ids):``."""
    try:
        yield
    except Exception as error:
        if full_memory(error):
            place = max(range(len(ids)), key=lambda i: len(ids[i]))
            error.add_note(
                f"The longest text has {len(ids[place]):,} tokens: {texts[place][:40]!r}... "
                "Leave it out, split it, or train with a smaller attention_block"
            )
        raise


def _decode(
    model: Transformer,
    source: Tokeniser,
    texts: Sequence[str],
    search: Callable[[Ids], list[T]],
    size: int,
    spread: Spread,
) -> list[T]:
    """Decode texts with ``search(ids)``."""
    ids = [check_sentence(model, source, text) for text in texts]
    with naming_the_longest(texts, ids):
        return in_batches(search, ids, size, spread=spread)
