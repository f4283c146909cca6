"""What `normalise_text` does, as rules that a sentencepiece model applies by itself.

Sentencepiece replaces the longest match at each position, once and from left to right. Unicode's composed form, NFC,
sorts combining marks, however many there are, which no list of such rules does for all texts. The rules do it for

- every character, and every letter that Unicode has in one piece, in whatever pieces it is written;
- letters with two marks, in any order, if the letter and the marks occur in the model's characters.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import permutations, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unicodedata import combining, normalize

from minitransformer.data.text import normalise_text

_HANGUL = range(0xAC00, 0xD7A4)
_NORMALIZER_SPEC = 3


def normalisation_rules(known: Iterable[str]) -> dict[str, str]:
    """Return what is replaced, and by what; ``known`` are the characters of the model."""
    characters = [chr(i) for i in range(1, sys.maxunicode + 1) if not 0xD800 <= i < 0xE000]
    rules = {one: found or " " for one in characters if (found := normalise_text(one)) != one != " "}
    longest = 1
    for text in sorted(_spellings(characters, {*known}), key=len):
        if _replaced(text, rules, longest) != (wanted := normalise_text(text)):
            rules[text], longest = wanted, max(longest, len(text))
    return rules


def _replaced(text: str, rules: dict[str, str], longest: int) -> str:
    """Return a text as sentencepiece replaces it."""
    parts, i = [], 0
    while i < len(text):
        size = next((n for n in range(min(longest, len(text) - i), 0, -1) if text[i : i + n] in rules), 1)
        parts.append(rules.get(text[i : i + size], text[i : i + size]))
        i += size
    return "".join(parts)


def _spellings(characters: Iterable[str], known: set[str]) -> Iterator[str]:
    """Yield texts that may need a rule.

    These are the other spellings of each composed letter, letters followed by a mark, marks alone, and known letters
    followed by two known marks.
    """
    pieces = {one: parts for one in characters if (parts := normalize("NFD", one)) != one}
    letters = {one for one in pieces if not one.isspace()}
    joined = {one for one in pieces if combining(one)}
    for one, parts in pieces.items():
        if normalize("NFC", one) != one:
            continue
        first, rest = parts[0], parts[1:]
        # the marks may come in any order that composes the same letter, and the first of them joined to it already
        for order in permutations(rest) if ord(one) not in _HANGUL else [(*rest,)]:
            if normalize("NFC", first + "".join(order)) == one:
                for i in range(1, len(rest) + 1):
                    begun = normalize("NFC", first + "".join(order[: i - 1]))
                    letters.add(begun)
                    yield begun + "".join(order[i - 1 :])
        joined.update(rest[-1:])
    letters -= {chr(i) for i in _HANGUL}
    marks = {mark for one in known for mark in normalize("NFD", one) if combining(mark)}
    yield from map("".join, product(letters, joined | marks))
    for n in (2, 3) if len(marks) <= 32 else (2,):
        yield from map("".join, product(marks, repeat=n))
    bases = {normalize("NFD", one)[0] for one in known}
    written = [one for one in letters if (parts := normalize("NFD", one))[0] in bases and len(parts) <= 2]
    yield from map("".join, product(written, marks, marks))


def with_rules(sentencepiece: Any, model: bytes, known: Iterable[str]) -> bytes:
    """Return a sentencepiece model that normalises a text itself; one that has rules already keeps them."""
    if b"identity" not in _normaliser(model):  # the name of the rules that `Bpe.train` asks for
        return model
    # where two messages of protocol buffers stand one after the other, the fields of the second count
    return model + _normaliser(_with_rules_alone(sentencepiece, frozenset(known)))


@lru_cache(maxsize=4)
def _with_rules_alone(sentencepiece: Any, known: frozenset[str]) -> bytes:
    """Return a model that knows the rules, and one letter."""
    rules, written = normalisation_rules(known), io.BytesIO()
    lines = ("\t".join(" ".join(f"{ord(one):X}" for one in side) for side in rule) for rule in rules.items())
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rules.tsv"
        path.write_text("\n".join(lines), encoding="ascii")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a"]),
            model_writer=written,
            model_type="char",
            vocab_size=5,
            hard_vocab_limit=False,
            normalization_rule_tsv=f"{path}",
            minloglevel=2,
        )
    return written.getvalue()


def _normaliser(model: bytes) -> bytes:
    """Return the field of a sentencepiece model that holds its rules, ``normalizer_spec``; empty if there is none.

    A model is a message of protocol buffers. Each of its fields has a byte with the field's number in the upper five
    bits, the size, and the contents. A size has seven bits in each byte, the lowest first; the last byte is below 128.
    """
    begin = 0
    while begin < len(model):
        contents = next(i for i in range(begin + 1, len(model)) if model[i] < 128) + 1
        size = sum((byte & 127) << 7 * k for k, byte in enumerate(model[begin + 1 : contents]))
        if model[begin] >> 3 == _NORMALIZER_SPEC:
            return model[begin : contents + size]
        begin = contents + size
    return b""
