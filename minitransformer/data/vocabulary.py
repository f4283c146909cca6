"""The vocabulary: the tokens of a model and their ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from operator import index

PAD = 0
START = 1
END = 2

SPECIALS = ("<pad>", "<start>", "<end>")
MOST_NAMES = 10
"""The most unknown tokens that a message names."""


class UnknownTokenError(ValueError):
    """A text contains tokens that are not in the vocabulary."""


class Vocabulary:
    """A fixed list of tokens; the index of a token is its id.

    The first three are the specials: padding (`PAD`), the start (`START`) and the end (`END`) of a
    sentence. They represent no text, so `encode` never returns them.

    Parameters
    ----------
    tokens : iterable of str
        The tokens after the specials, in order.

    Raises
    ------
    ValueError
        If a token occurs twice or is one of the specials.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        given = tuple(tokens)
        ids: dict[str, int] = {}
        for token in given:
            if token in SPECIALS:
                raise ValueError(
                    f"Vocabulary: {token!r} is among the tokens, but it is added automatically; leave it out"
                )
            if token in ids:
                raise ValueError(f"Vocabulary: the token {token!r} is given more than once; give each token once")
            ids[token] = len(SPECIALS) + len(ids)
        self._tokens = SPECIALS + given
        self._ids = ids

    @property
    def tokens(self) -> tuple[str, ...]:
        """All tokens in the order of their ids, the specials first."""
        return self._tokens

    def __len__(self) -> int:
        return len(self._tokens)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return self._tokens == other._tokens

    def __hash__(self) -> int:
        return hash(self._tokens)

    def __repr__(self) -> str:
        return f"<Vocabulary of {len(self)} tokens>"

    def encode(self, tokens: Sequence[str], unknown: int | None = None) -> list[int]:
        """Turn tokens into ids.

        Parameters
        ----------
        tokens : sequence of str
            The tokens of one text.
        unknown : int, optional
            The id for tokens that are not in the vocabulary; by default there is none.

        Returns
        -------
        list of int
            Their ids; neither `START` nor `END` is added.

        Raises
        ------
        UnknownTokenError
            If there are unknown tokens and no id for them; each is named once.
        """
        if unknown is not None:
            return [self._ids.get(token, unknown) for token in tokens]
        try:
            return [self._ids[token] for token in tokens]
        except KeyError:
            raise UnknownTokenError(self._complaint(tokens)) from None

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Turn ids back into tokens, up to the first `END`; `PAD` and `START` are skipped.

        Parameters
        ----------
        ids : iterable of int
            Ids, for example from a model.

        Returns
        -------
        list of str
            Their tokens.

        Raises
        ------
        ValueError
            If an id before the end is not between 0 and the size of the vocabulary.
        """
        return [self._tokens[number] for number in self.sentence(ids)]

    def sentence(self, ids: Iterable[int]) -> list[int]:
        """Return the ids of the text's own tokens, as `decode` reads them: no `PAD`, no `START`, none from `END` on."""
        inside: list[int] = []
        for number in map(index, ids):
            if number == END:
                break
            if not 0 <= number < len(self):
                raise ValueError(
                    f"Vocabulary.decode: found the id {number}, expected 0 to {len(self) - 1}; "
                    "these ids come from another vocabulary"
                )
            if number not in (PAD, START):
                inside.append(number)
        return inside

    def to_json(self) -> list[str]:
        """Return all tokens, the specials first, as a list that `json` can write."""
        return list(self._tokens)

    @classmethod
    def from_json(cls, value: object) -> Vocabulary:
        """Return the vocabulary that `to_json` described.

        Parameters
        ----------
        value : object
            What was read from the file: a list of str, the specials first.

        Raises
        ------
        ValueError
            If `value` is anything else.
        """
        if not isinstance(value, list):
            raise ValueError(f"Vocabulary.from_json: found {type(value).__name__}, expected a list of str")
        for token in value:
            if not isinstance(token, str):
                raise ValueError(f"Vocabulary.from_json: found {token!r} in the list, expected only str")
        if tuple(value[: len(SPECIALS)]) != SPECIALS:
            raise ValueError(
                f"Vocabulary.from_json: the list starts with {value[: len(SPECIALS)]}, "
                f"expected {list(SPECIALS)}; this is not a vocabulary written by to_json"
            )
        return cls(value[len(SPECIALS) :])

    def _complaint(self, tokens: Sequence[str]) -> str:
        unknown = [token for token in dict.fromkeys(tokens) if token not in self._ids]
        names = []
        for token in unknown[:MOST_NAMES]:
            near = get_close_matches(token, self._ids, n=1)
            meant = f" (is {near[0]!r} meant?)" if near else ""
            names.append(f"{token!r}{meant} at position {tokens.index(token) + 1}")
        if len(unknown) > MOST_NAMES:
            names.append(f"... and {len(unknown) - MOST_NAMES:,} others")
        shown = ", ".join(map(repr, self._tokens[len(SPECIALS) :][:40]))
        more = ", ..." if len(self) > len(SPECIALS) + 40 else ""
        plural = "s" if len(unknown) > 1 else ""
        return (
            f"unknown token{plural} {', '.join(names)}; use only the {len(self) - len(SPECIALS)} "
            f"tokens of the vocabulary: {shown}{more}"
        )
