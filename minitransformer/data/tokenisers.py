"""Tokenisers by the name of their kind, tokenisers for both sides of a text, and pairs as ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minitransformer.data.pieces import Pieces
from minitransformer.data.subwords import Bpe, Merges
from minitransformer.data.text import LeftOut
from minitransformer.data.tokenizer_json import TokenizerJson
from minitransformer.data.tokens import Characters, RawCharacters, Tokeniser, Words

KINDS: Mapping[str, type[Tokeniser]] = {kind.kind: kind for kind in (Bpe, Words, Characters, Merges)}
"""The tokenisers that can be learned from a text, by name."""
READ: Mapping[str, type[Tokeniser]] = {
    **KINDS, Pieces.kind: Pieces, RawCharacters.kind: RawCharacters, TokenizerJson.kind: TokenizerJson,
}  # fmt: skip
"""The tokenisers that a file may hold."""


def train_tokeniser(
    kind: str, texts: Iterable[str], size: int | None = None, min_count: int | None = None
) -> Tokeniser:
    """Learn a tokeniser from a text.

    Parameters
    ----------
    kind : {"bpe", "words", "chars", "merges"}
        Which, see `Bpe`, `Words`, `Characters` and `Merges`.
    texts : iterable of str
        The text, such as its lines.
    size : int, optional
        The most tokens, or for "merges" the most merges; by default that of the kind.
    min_count : int, optional
        The minimum count of a token; by default that of the kind. "bpe" has none.

    Returns
    -------
    Tokeniser

    Raises
    ------
    ValueError
        If there is no such kind, or it cannot be learned from this text.
    MissingExtraError
        If the library that it needs is not installed.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown kind of tokens {kind!r}; expected one of {', '.join(KINDS)}")
    if kind == "bpe" and min_count is not None:
        raise ValueError(f"min_count has no effect on tokens of the kind bpe, found {min_count}; leave it out")
    given = {"merges" if kind == "merges" else "size": size, "min_count": min_count}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    learn: Any = KINDS[kind]
    tokeniser: Tokeniser = learn.train(texts, **options)
    return tokeniser


def train_tokenisers(
    pairs: Sequence[tuple[str, str]],
    source: str = "bpe",
    target: str = "bpe",
    size: int | None = None,
    min_count: int | None = None,
    shared: bool = True,
) -> tuple[Tokeniser, Tokeniser]:
    """Learn the tokenisers of both sides.

    Parameters
    ----------
    pairs : sequence of (str, str)
        Source and target texts.
    source, target : {"bpe", "words", "chars", "merges"}
        The kinds.
    size, min_count : int, optional
        As for `train_tokeniser`; each side's own, if they are not shared.
    shared : bool, default True
        Whether both sides have one tokeniser, learned from all sources followed by all targets, as in section 5.1 of
        the paper. The model then has one embedding for both.

    Returns
    -------
    source, target : Tokeniser
        The same object, if shared.

    Raises
    ------
    ValueError
        If sides of different kinds should share, or a tokeniser cannot be learned.
    MissingExtraError
        If a library is not installed.
    """
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    if not shared:
        return train_tokeniser(source, sources, size, min_count), train_tokeniser(target, targets, size, min_count)
    if source != target:
        raise ValueError(
            f"source and target cannot share tokens of different kinds, found {source} and {target}; "
            "choose one kind, or do not share"
        )
    both = train_tokeniser(source, sources + targets, size, min_count)
    return both, both


def tokeniser_from_json(value: object) -> Tokeniser:
    """Return the tokeniser that its `to_json` described.

    Raises
    ------
    ValueError
        If it is none.
    MissingExtraError
        If the library that it needs is not installed.
    """
    kind = value.get("kind") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(kind, str) or kind not in READ:
        raise ValueError(f"found the kind of tokens {kind!r}, expected one of {', '.join(READ)}")
    return READ[kind].from_json(value)


def tokenisers_to_json(source: Tokeniser, target: Tokeniser) -> dict[str, Any]:
    """Describe the tokenisers of both sides; one that both share is described once, as ``"both"``."""
    if source is target:
        return {"both": source.to_json()}
    return {"source": source.to_json(), "target": target.to_json()}


def tokenisers_from_json(value: object) -> tuple[Tokeniser, Tokeniser]:
    """Return the tokenisers that `tokenisers_to_json` described: one object twice, if they are shared.

    Raises
    ------
    ValueError
        If they are none.
    MissingExtraError
        If a library that they need is not installed.
    """
    if isinstance(value, Mapping) and value.keys() == {"both"}:
        both = tokeniser_from_json(value["both"])
        return both, both
    if isinstance(value, Mapping) and value.keys() == {"source", "target"}:
        return tokeniser_from_json(value["source"]), tokeniser_from_json(value["target"])
    raise ValueError("expected the tokenisers of source and target, or one for both")


@dataclass(frozen=True)
class EncodedPairs:
    """Pairs as ids, those within a limit of length.

    Parameters
    ----------
    pairs : list of (list of int, list of int)
        Ids of source and target, without `PAD`, `START` and `END`.
    places : list of int
        For each of them its index among the given pairs.
    left_out : LeftOut
        The pairs that were too long.
    """

    pairs: list[tuple[list[int], list[int]]]
    places: list[int]
    left_out: LeftOut


def encode_pairs(
    pairs: Iterable[tuple[str, str]], source: Tokeniser, target: Tokeniser, longest: int | None = None
) -> EncodedPairs:
    """Turn pairs of texts into ids, and leave out those that are too long.

    Parameters
    ----------
    pairs : iterable of (str, str)
        Source and target texts.
    source, target : Tokeniser
        Of either side.
    longest : int, optional
        The maximum number of tokens of a side, without `END`; by default there is no limit. A batch must hold one more.

    Returns
    -------
    EncodedPairs
        The pairs in the order in which they were given.

    Raises
    ------
    ValueError
        If there are pairs, but every one is too long.
    """
    if longest is not None and longest < 1:
        raise ValueError(f"found longest={longest}, expected 1 or more")
    encoded = [(source.encode(one), target.encode(other)) for one, other in pairs]
    sides = ("a source", "a target", "both sides")
    reasons = dict.fromkeys(sides, 0)
    places = []
    for place, pair in enumerate(encoded):
        long = [longest is not None and len(side) > longest for side in pair]
        if any(long):
            reasons["both sides" if all(long) else "a source" if long[0] else "a target"] += 1
        else:
            places.append(place)
    left_out = LeftOut(len(encoded), {f"{side} of more than {longest:,} tokens": n for side, n in reasons.items() if n})
    if encoded and not places:
        raise ValueError(f"{left_out}; allow longer ones, or split the text into shorter lines")
    return EncodedPairs([encoded[place] for place in places], places, left_out)
