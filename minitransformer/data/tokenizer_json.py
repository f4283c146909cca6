"""Tokens of published decoders: a ``tokenizer.json``, which the package tokenizers reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import takewhile
from typing import Any, Self

from minitransformer.data.extras import MissingExtraError
from minitransformer.data.tokens import UNKNOWN, Tokeniser, field, replace_halves
from minitransformer.data.vocabulary import END, SPECIALS, Vocabulary
from minitransformer.files import FileError

MOST_BYTES = 4
"""The most bytes of a character, so the most tokens before its text is known."""
CONTEXT = 8
"""Tokens before a new one that are decoded with it: a token's text can depend on those before it."""


def order(size: int, specials: Sequence[int | None]) -> list[int]:
    """Return the ids there in our order: padding, start, end and unknown, -1 where there is none, then the others."""
    return [-1 if one is None else one for one in specials] + [i for i in range(size) if i not in specials]


class TokenizerError(FileError):
    """The package tokenizers has failed with a ``tokenizer.json``, which is damaged or does not fit the text."""


class _Tokenizer:
    """A tokenizer of the package whose errors are TokenizerErrors."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def __reduce__(self) -> tuple[Any, ...]:
        return _Tokenizer, (self._found,)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._found, name)
        if not callable(value):
            return value

        def call(*arguments: Any, **options: Any) -> Any:
            with _refusing(f"this tokenizer.json cannot {name.replace('_', ' ')}"):
                return value(*arguments, **options)

        return call


@contextmanager
def _refusing(before: str) -> Iterator[None]:
    """Turn errors of the package into TokenizerErrors: it raises Exception itself, and panics, which are none."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise TokenizerError(f"{before}: {error}") from error


class TokenizerJson(Tokeniser):
    """Tokens of a ``tokenizer.json``, such as the byte-level pairs of GPT-2, with the specials first.

    Nothing is normalised but what the file says, and no special token is added. What the package cannot read or write
    with this file is a `TokenizerError`.

    Parameters
    ----------
    model : str
        The contents of the file.
    vocabulary : Vocabulary
        The tokens in our order.
    specials : sequence of int or None
        The ids there of padding, start, end and unknown; None where there is none.

    Attributes
    ----------
    kept : dict
        What other files there say of texts, for an export: ``generation_config``, and a ``chat_template`` or None.
    ends : tuple of int
        Our ids of the end tokens: those of the ``generation_config`` in ``kept``, or else the end alone.

    Raises
    ------
    ValueError
        If the text is no such file.
    MissingExtraError
        If tokenizers is not installed.
    """

    kind = "tokenizer.json"

    def __init__(self, model: str, vocabulary: Vocabulary, specials: Sequence[int | None]) -> None:
        super().__init__(vocabulary, UNKNOWN)
        self.model, self.specials = model, list(specials)
        self.kept: Mapping[str, Any] = {}
        self.ends: tuple[int, ...] = (END,)
        self._tokenizer = read_tokenizer(model)
        self._theirs = order(len(vocabulary) - self.specials.count(None), specials)
        self.ours = {theirs: i for i, theirs in reversed([*enumerate(self._theirs)])}
        """Our id of each id there."""

    def keep(self, kept: Mapping[str, Any]) -> None:
        """Keep what other files there say of texts.

        Raises
        ------
        ValueError
            If an end token is no token.
        """
        found = field({"generation_config": {}, **kept}, "generation_config", dict).get("eos_token_id", [])
        there = found if isinstance(found, list) else [found]
        if any(type(one) is not int or one not in self.ours for one in there):
            raise ValueError(f"the tokeniser's eos_token_id is {found!r}, expected ids below {len(self.ours)}")
        self.kept, self.ends = kept, tuple(self.ours[one] for one in there) or (END,)

    def encode(self, text: str) -> list[int]:
        """Turn a text into ids."""
        found = self._tokenizer.encode(replace_halves(text), add_special_tokens=False)
        return [self.ours.get(i, UNKNOWN) for i in found.ids]

    def decode(self, ids: Iterable[int]) -> str:
        """Turn ids into text."""
        return self._text(takewhile(lambda i: i != END, ids))

    def _text(self, ids: Iterable[int]) -> str:
        """Return the text of ids; a prompt may contain an end, such as that of a turn in a chat."""
        theirs = [self._theirs[i] for i in ids if i > UNKNOWN and self._theirs[i] < self._tokenizer.get_vocab_size()]
        text: str = self._tokenizer.decode(theirs, skip_special_tokens=False)
        return text

    def stream(self, before: Sequence[int], ids: Iterable[int]) -> Iterator[str]:
        """Yield the text of ids as they come; a character of several tokens comes with the last of them."""
        known, text = list(before)[-CONTEXT:], ""
        pending: list[int] = []
        for i in ids:
            pending.append(i)
            text = self._text([*known, *pending])[len(self._text(known)) :]
            if (text and not text.endswith("\N{REPLACEMENT CHARACTER}")) or len(pending) == MOST_BYTES:
                yield text
                known, pending, text = [*known, *pending][-CONTEXT:], [], ""
        if text:  # of an unfinished character
            yield text

    def to_json(self) -> dict[str, Any]:
        """Give the kind, the tokens, the ids of the specials, the file, and what is kept."""
        return super().to_json() | {"specials": self.specials, "model": self.model, "kept": self.kept}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Restore the tokeniser that `to_json` described."""
        specials = field(value, "specials", list)
        if len(specials) != len(SPECIALS) + 1 or any(type(one) not in (int, type(None)) for one in specials):
            raise ValueError(f"the tokeniser's 'specials' are {specials!r}, expected four ids or null")
        found = cls(field(value, "model", str), Vocabulary.from_json(field(value, "tokens", list)), specials)
        found.keep(field({"kept": {}, **value}, "kept", dict))  # earlier runs have none
        return found


def read_tokenizer(model: str) -> Any:
    """Return the tokenizer of a ``tokenizer.json``, whose errors are TokenizerErrors.

    Raises
    ------
    TokenizerError
        If the text is none.
    MissingExtraError
        If tokenizers is not installed.
    """
    try:
        tokenizers = import_module("tokenizers")
    except ImportError as error:
        raise MissingExtraError("a tokenizer.json", "tokenizers", "models") from error
    with _refusing("this is no tokenizer.json"):
        found = tokenizers.Tokenizer.from_str(model)
    found.no_padding()
    found.no_truncation()
    return _Tokenizer(found)
