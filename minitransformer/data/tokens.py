"""Tokenisers: from text to ids and back."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

from minitransformer.data.text import HALVES, normalise_text
from minitransformer.data.vocabulary import SPECIALS, Vocabulary

UNKNOWN = len(SPECIALS)
"""The id of the unknown token, the first after the specials."""
UNKNOWN_TOKEN = "<unk>"


SIGNS = str.maketrans({" ": "␣", "\n": "⏎", "\t": "⇥"})


class Tokeniser(ABC):
    """Turns text into ids and back; `decode` undoes `encode`.

    What is encoded is ``normalise_text(text)``: tokenisers ignore how white space is made up and how Unicode writes an
    accent, and nothing else. So ``decode(encode(text)) == normalise_text(text)``, unless the text holds unknown tokens,
    which come back as ``<unk>``. `RawCharacters` normalises nothing; `Words` with a marker joins subwords.

    Parameters
    ----------
    vocabulary : Vocabulary
        The tokens.
    unknown : int, optional
        The id for tokens that are not in the vocabulary; by default there is none, and such a token is refused.
    """

    kind: ClassVar[str]
    """The name of the kind, as recorded in files."""
    ends: Sequence[int] = ()
    """The ids that end what a model writes that continues texts; without one, a text has no end."""
    unit: ClassVar[str] = "tokens"
    """What messages call its tokens."""

    def __init__(self, vocabulary: Vocabulary, unknown: int | None = None) -> None:
        self.vocabulary = vocabulary
        self.unknown = unknown

    @property
    def tokens(self) -> tuple[str, ...]:
        """All tokens in the order of their ids, the specials first."""
        return self.vocabulary.tokens

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The tokens as they are shown in pictures and lists: signs stand for white space."""
        return tuple(token.translate(SIGNS) if token.isspace() else token for token in self.tokens)

    def __len__(self) -> int:
        return len(self.vocabulary)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tokeniser):
            return NotImplemented
        return type(self) is type(other) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash((self.kind, self.vocabulary))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} tokens>"

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Turn a text into ids.

        Parameters
        ----------
        text : str
            Any text.

        Returns
        -------
        list of int
            The ids of its tokens; `PAD`, `START` and `END` are not among them.
        """

    def pieces(self, text: str) -> Sequence[str] | None:
        """Return the part of a text that each id of `encode` stands for; None if they are not known."""
        return None

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """Turn ids into text, up to the first `END`; `PAD` and `START` are skipped.

        Parameters
        ----------
        ids : iterable of int
            Ids, for example from a model.

        Returns
        -------
        str
            Their text.

        Raises
        ------
        ValueError
            If an id before the end is not between 0 and the number of tokens.
        """

    def stream(self, before: Sequence[int], ids: Iterable[int]) -> Iterator[str]:
        """Yield the text of ids as they come, given those before them."""
        return (self.tokens[i] for i in ids)

    def to_json(self) -> dict[str, Any]:
        """Return everything that `from_json` needs, as plain values that `json` can write; ``"kind"`` says which."""
        return {"kind": self.kind, "tokens": self.vocabulary.to_json()}

    @classmethod
    @abstractmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return the tokeniser that `to_json` described.

        Raises
        ------
        ValueError
            If `value` is anything else.
        """


class Words(Tokeniser):
    """Each word between white space is a token.

    It also reads text that is already split into subwords, for example by subword-nmt, where ``@@`` marks a subword
    that continues in the next token.

    Parameters
    ----------
    vocabulary : Vocabulary
        The words; the first after the specials is ``<unk>``.
    marker : str, default ""
        The ending of tokens that `decode` joins to the next without a space; empty: nothing is joined.
    """

    kind = "words"

    def __init__(self, vocabulary: Vocabulary, marker: str = "") -> None:
        require_unknown(vocabulary, "Words")
        super().__init__(vocabulary, UNKNOWN)
        self.marker = marker

    @classmethod
    def train(cls, texts: Iterable[str], size: int | None = None, min_count: int = 2, marker: str = "") -> Words:
        """Collect the words of a text.

        Parameters
        ----------
        texts : iterable of str
            The text, such as its lines.
        size : int, optional
            The most tokens, specials and ``<unk>`` included: the most frequent are kept, and of equally frequent ones
            those that come first in the order of Unicode. By default there is no limit.
        min_count : int, default 2
            The minimum count of a word. From a word that occurs once a model learns little; as ``<unk>`` it teaches
            the model to handle unknown words.
        marker : str, default ""
            The ending of tokens that `decode` joins to the next.

        Returns
        -------
        Words

        Raises
        ------
        ValueError
            If no word is left.
        """
        counts = Counter(word for text in texts for word in normalise_text(text).split())
        return cls(build_vocabulary(counts, size, min_count, "Words"), marker)

    def encode(self, text: str) -> list[int]:
        """Turn a text into ids; words that are not known become ``<unk>``."""
        return self.vocabulary.encode(self.pieces(text), self.unknown)

    def pieces(self, text: str) -> list[str]:
        """Return the words of a text."""
        return normalise_text(text).split()

    def decode(self, ids: Iterable[int]) -> str:
        """Turn ids into words with a space between."""
        text = " ".join(self.vocabulary.decode(ids))
        if self.marker:
            text = f"{text} ".replace(f"{self.marker} ", "").removesuffix(" ")
        return text

    def to_json(self) -> dict[str, Any]:
        """Return kind, tokens and marker."""
        return {**super().to_json(), "marker": self.marker}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return the tokeniser that `to_json` described."""
        return cls(Vocabulary.from_json(field(value, "tokens", list)), field(value, "marker", str))


class Characters(Tokeniser):
    """Each character is a token, a space too.

    Parameters
    ----------
    vocabulary : Vocabulary
        The characters; the first after the specials is ``<unk>``.
    """

    kind = "chars"
    unit = "characters"

    def __init__(self, vocabulary: Vocabulary) -> None:
        require_unknown(vocabulary, "Characters")
        super().__init__(vocabulary, UNKNOWN)

    @classmethod
    def train(cls, texts: Iterable[str], size: int | None = None, min_count: int = 1) -> Self:
        """Collect the characters of a text; the parameters are those of `Words.train`.

        Raises
        ------
        ValueError
            If no character is left.
        """
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(cls.prepare(text))
        return cls(build_vocabulary(counts, size, min_count, cls.__name__))

    @staticmethod
    def prepare(text: str) -> str:
        """Return the characters that are encoded of a text."""
        return normalise_text(text)

    def encode(self, text: str) -> list[int]:
        """Turn a text into ids; characters that are not known become ``<unk>``."""
        return self.vocabulary.encode(self.prepare(text), self.unknown)

    def pieces(self, text: str) -> str:
        """Return the characters that are encoded of a text."""
        return self.prepare(text)

    def decode(self, ids: Iterable[int]) -> str:
        """Turn ids into characters, one after the other."""
        return "".join(self.vocabulary.decode(ids))

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return the tokeniser that `to_json` described."""
        return cls(Vocabulary.from_json(field(value, "tokens", list)))


class RawCharacters(Characters):
    """Each character is a token, and nothing is normalised: ``decode(encode(text)) == text``.

    For texts in which white space matters, such as programs. Unknown characters come back as ``<unk>``.
    """

    kind = "raw"

    @staticmethod
    def prepare(text: str) -> str:
        """Return all characters of a text; line breaks and double spaces count too."""
        return text


class Closed(Tokeniser):
    """A closed set of tokens: a text with any other token is refused.

    The tokeniser of a task that defines how its texts are split, joined and normalised.

    Parameters
    ----------
    vocabulary : Vocabulary
        The tokens.
    split : callable
        Splits a text into tokens.
    join : callable
        Puts tokens together again.
    """

    kind = "closed"

    def __init__(
        self, vocabulary: Vocabulary, split: Callable[[str], list[str]], join: Callable[[Sequence[str]], str]
    ) -> None:
        super().__init__(vocabulary)
        self._split = split
        self._join = join

    def encode(self, text: str) -> list[int]:
        """Turn a text into ids.

        Raises
        ------
        UnknownTokenError
            If there are tokens that are not known.
        """
        return self.vocabulary.encode(self._split(text))

    def decode(self, ids: Iterable[int]) -> str:
        """Turn ids into tokens, and join them."""
        return self._join(self.vocabulary.decode(ids))

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Raise an error: only the task can split and join."""
        raise ValueError("the tokens of a task cannot be read from a file; make them from the task")


def build_vocabulary(counts: Mapping[str, int], size: int | None, min_count: int, who: str) -> Vocabulary:
    """Make a vocabulary of the most frequent tokens; it begins with ``<unk>``.

    Parameters
    ----------
    counts : mapping of str to int
        How often each token occurs.
    size : int, optional
        The most tokens, specials and ``<unk>`` included.
    min_count : int
        The minimum count of a token.
    who : str
        What messages call it.

    Returns
    -------
    Vocabulary
        The most frequent token first; equally frequent ones in the order of Unicode, not in that of the text.

    Raises
    ------
    ValueError
        If no token is left.
    """
    if min_count < 1:
        raise ValueError(f"{who}: found min_count={min_count}, expected 1 or more")
    if size is not None and size < UNKNOWN + 2:
        raise ValueError(
            f"{who}: found size={size}, expected {UNKNOWN + 2} or more: {', '.join(SPECIALS)} and {UNKNOWN_TOKEN} "
            "count too"
        )
    # when they occur in a text, these are unknown tokens, never an end
    taken = (*SPECIALS, UNKNOWN_TOKEN)
    frequent = sorted((-n, token) for token, n in counts.items() if n >= min_count and token not in taken)
    if not frequent:
        raise ValueError(
            f"{who}: no token occurs {min_count} times or more; give more text or a smaller min_count"
            if counts
            else f"{who}: the text is empty; give a text to learn from"
        )
    kept = frequent if size is None else frequent[: size - UNKNOWN - 1]
    return Vocabulary([UNKNOWN_TOKEN, *(token for _, token in kept)])


def field(value: Mapping[str, Any], name: str, kind: type) -> Any:
    """Return a value of a JSON object, or say what is wrong with it."""
    if not isinstance(value, Mapping) or name not in value:
        raise ValueError(f"expected a tokeniser with {name!r}, found {json.dumps(value, default=str)[:60]}")
    if not isinstance(value[name], kind):
        raise ValueError(f"the tokeniser's {name!r} is {type(value[name]).__name__}, expected {kind.__name__}")
    return value[name]


def replace_halves(text: str) -> str:
    """Return a text with U+FFFD for each half of a surrogate pair, which no library reads."""
    return HALVES.sub("\N{REPLACEMENT CHARACTER}", text)


def require_unknown(vocabulary: Vocabulary, who: str) -> None:
    """Raise a ValueError unless the first token after the specials is ``<unk>``."""
    if vocabulary.tokens[UNKNOWN : UNKNOWN + 1] != (UNKNOWN_TOKEN,):
        raise ValueError(f"{who}: the first token after the specials must be {UNKNOWN_TOKEN}")
