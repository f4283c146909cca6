"""Byte-pair encoding: frequent words are one token, rare ones several.

It uses existing libraries: sentencepiece, for plain text; and subword-nmt, for text that is already split into words,
to compare with published results.
"""

from __future__ import annotations

import base64
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stderr
from importlib import import_module
from typing import Any, Self

from minitransformer.data.extras import MissingExtraError
from minitransformer.data.normalisation import with_rules
from minitransformer.data.text import normalise_text
from minitransformer.data.tokens import UNKNOWN, UNKNOWN_TOKEN, Tokeniser, Words, build_vocabulary, field
from minitransformer.data.vocabulary import END, PAD, SPECIALS, START, Vocabulary

# While it learns, sentencepiece silently skips any line with the character U+2585, and reads the names of the specials
# as the specials themselves, so that their letters would not be learned.
_UNSEEN = re.compile("[▅\0]")
_SPELLED_OUT = re.compile("<(?=(?:pad|start|end|unk)>)")
_SEPARATOR = "@@"


class Bpe(Tokeniser):
    """Byte-pair encoding by sentencepiece; spaces are part of the tokens, so any text can be restored.

    Parameters
    ----------
    model : bytes
        A model of sentencepiece with our ids for padding, start, end and unknown: 0, 1, 2 and 3.

    Raises
    ------
    ValueError
        If it is not such a model.
    MissingExtraError
        If sentencepiece is not installed.
    """

    kind = "bpe"

    def __init__(self, model: bytes) -> None:
        self._processor = p = sentencepiece_model(model, "Bpe")
        found, wanted = (p.pad_id(), p.bos_id(), p.eos_id(), p.unk_id()), (PAD, START, END, UNKNOWN)
        if found != wanted:
            raise ValueError(
                f"Bpe: the model's ids for padding, start, end and unknown are {found}, expected {wanted}; "
                "train it with --pad_id=0 --bos_id=1 --eos_id=2 --unk_id=3"
            )
        pieces = [p.id_to_piece(number) for number in range(len(SPECIALS), len(p))]
        super().__init__(Vocabulary(pieces), UNKNOWN)
        self.model = model
        """The model, as sentencepiece and other programs read it from a file; it does not normalise by itself."""

    def normalising_model(self) -> bytes:
        """Return the model with rules that normalise a text as `encode` does, for programs that have only the model.

        A letter that carries three combining marks or more may be normalised otherwise, and so may one with two, if it
        or one of them is not in the model. A model with rules of its own, trained elsewhere, is returned as it is.
        """
        characters = {character for piece in self.tokens[len(SPECIALS) + 1 :] for character in piece}
        return with_rules(_sentencepiece(), self.model, characters)

    @classmethod
    def train(cls, texts: Iterable[str], size: int = 8000) -> Bpe:
        """Learn the subwords of a text; the same text gives the same bytes.

        The model knows all characters of the text, except U+2585 and U+0000, which sentencepiece cannot learn. It
        normalises nothing: `normalise_text` does that beforehand.

        Parameters
        ----------
        texts : iterable of str
            The text, such as its lines: those of both languages, to have tokens in common.
        size : int, default 8000
            The maximum number of tokens, including the specials and ``<unk>``; a small text gives fewer.

        Returns
        -------
        Bpe

        Raises
        ------
        ValueError
            If the text is empty, or has more characters than there may be tokens.
        MissingExtraError
            If sentencepiece is not installed.
        """
        sentencepiece = _sentencepiece()
        lines = [line for text in texts if (line := normalise_text(_UNSEEN.sub(" ", _SPELLED_OUT.sub("< ", text))))]
        if not lines:
            raise ValueError("Bpe: the text is empty; give a text to learn from")
        characters = set().union(*lines) | {" "}
        if size < UNKNOWN + 1 + len(characters):
            raise ValueError(
                f"Bpe: found size={size}, expected {UNKNOWN + 1 + len(characters)} or more: the text has "
                f"{len(characters):,} different characters, and there are {UNKNOWN + 1} special tokens"
            )
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(lines),
                model_writer=model,
                model_type="bpe",
                vocab_size=size,
                hard_vocab_limit=False,  # fewer, if there is nothing more to merge
                character_coverage=1.0,
                normalization_rule_name="identity",
                max_sentence_length=2**30,  # longer ones would be silently skipped
                shuffle_input_sentence=False,
                num_threads=1,  # the number is written into the model
                minloglevel=2,
                pad_id=PAD,
                bos_id=START,
                eos_id=END,
                unk_id=UNKNOWN,
                pad_piece=SPECIALS[PAD],
                bos_piece=SPECIALS[START],
                eos_piece=SPECIALS[END],
                unk_piece=UNKNOWN_TOKEN,
                unk_surface=UNKNOWN_TOKEN,
            )
        except RuntimeError as error:
            raise ValueError(f"Bpe: sentencepiece cannot learn {size} tokens from this text: {error}") from error
        return cls(model.getvalue())

    def encode(self, text: str) -> list[int]:
        """Turn a text into ids; unknown characters become ``<unk>``."""
        ids: list[int] = self._processor.encode(normalise_text(text))
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Turn ids into text."""
        return normalise_text(self._processor.decode(self.vocabulary.sentence(ids)))

    def to_json(self) -> dict[str, Any]:
        """Return the kind, and the model in base64."""
        return {"kind": self.kind, "model": base64.b64encode(self.model).decode("ascii")}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return the tokeniser that `to_json` described, its model identical to the byte."""
        return cls(model_of(value))


class Merges(Tokeniser):
    """Byte-pair encoding by subword-nmt, for text that is split into words already.

    Each word is split by itself; ``@@`` ends a subword that goes on in the next. Of a word that ends with ``@@`` itself
    the last letter is a subword, so that it comes back. Published results on Multi30k are measured with 10,000 merges,
    learned from both languages together.

    Parameters
    ----------
    merges : sequence of (str, str)
        The pairs of subwords to join, in order.
    vocabulary : Vocabulary
        The subwords; the first after the specials is ``<unk>``.

    Raises
    ------
    MissingExtraError
        If subword-nmt is not installed.
    """

    kind = "merges"

    def __init__(self, merges: Iterable[tuple[str, str]], vocabulary: Vocabulary) -> None:
        self._words = Words(vocabulary, marker=_SEPARATOR)
        super().__init__(vocabulary, UNKNOWN)
        self.merges = tuple(merges)
        self._segment = _segmenter(self.merges)

    @classmethod
    def train(cls, texts: Iterable[str], merges: int = 10_000, min_count: int = 1) -> Merges:
        """Learn the merges of a text, and collect the resulting subwords.

        Parameters
        ----------
        texts : iterable of str
            The text, such as its lines: those of both languages, to have tokens in common.
        merges : int, default 10000
            The maximum number of merges; learning ends earlier if no pair of subwords occurs twice.
        min_count : int, default 1
            The minimum count of a subword.

        Returns
        -------
        Merges

        Raises
        ------
        ValueError
            If there is nothing to merge.
        MissingExtraError
            If subword-nmt is not installed.
        """
        if merges < 1:
            raise ValueError(f"Merges: found merges={merges}, expected 1 or more")
        _subword_nmt("apply_bpe")
        lines = [normalise_text(text) for text in texts]
        codes = io.StringIO()
        try:
            with redirect_stderr(io.StringIO()):  # it draws a progress bar
                _subword_nmt("learn_bpe").learn_bpe(lines, codes, merges)
        except ValueError as error:  # it looks for the largest of no counts
            raise ValueError("Merges: the text has no word of two letters, so there is nothing to merge") from error
        learned = [line.split(" ") for line in codes.getvalue().removesuffix("\n").split("\n")[1:]]
        if not learned:
            raise ValueError("Merges: no pair of letters occurs twice, so there is nothing to merge")
        pairs = [(left, right) for left, right in learned]
        segment = _segmenter(pairs)
        counts = Counter(subword for line in lines for subword in segment(line))
        return cls(pairs, build_vocabulary(counts, None, min_count, "Merges"))

    def encode(self, text: str) -> list[int]:
        """Turn a text into ids; subwords that are not known become ``<unk>``."""
        return self.vocabulary.encode(self.pieces(text), self.unknown)

    def pieces(self, text: str) -> list[str]:
        """Return the subwords of a text."""
        return self._segment(normalise_text(text))

    def decode(self, ids: Iterable[int]) -> str:
        """Turn ids into words with a space between."""
        return self._words.decode(ids)

    def to_json(self) -> dict[str, Any]:
        """Return kind, tokens and merges."""
        merges = [" ".join(pair) for pair in self.merges]
        return {**super().to_json(), "merges": merges}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return the tokeniser that `to_json` described."""
        merges = []
        for merge in field(value, "merges", list):
            pair = merge.split(" ") if isinstance(merge, str) else []
            if len(pair) != 2 or not all(pair):
                raise ValueError(f"the tokeniser's merge {merge!r} is not two subwords with a space between")
            merges.append((pair[0], pair[1]))
        return cls(merges, Vocabulary.from_json(field(value, "tokens", list)))


def _segmenter(merges: Iterable[tuple[str, str]]) -> Callable[[str], list[str]]:
    """Return the function that splits a text into subwords; those that go on, and no others, end with ``@@``."""
    codes = "\n".join(["#version: 0.2", *(" ".join(pair) for pair in merges)])
    segment = _subword_nmt("apply_bpe").BPE(io.StringIO(codes), separator=_SEPARATOR).segment_tokens

    def split(text: str) -> list[str]:
        subwords: list[str] = []
        for word in text.split():
            *start, last = segment([word])
            # a word that ends with @@ itself would seem to go on, so its last letter is a subword of its own
            end = [last[:-1] + _SEPARATOR, last[-1]] if last.endswith(_SEPARATOR) else [last]
            subwords += start + end
        return subwords

    return split


def sentencepiece_model(model: bytes, who: str) -> Any:
    """Return a processor of sentencepiece.

    Raises
    ------
    ValueError
        If the bytes are not a model of sentencepiece; the message begins with ``who``.
    MissingExtraError
        If sentencepiece is not installed.
    """
    sentencepiece = _sentencepiece()
    try:
        if model:  # of no bytes it would make a processor that fails later
            return sentencepiece.SentencePieceProcessor(model_proto=model)
    except RuntimeError:
        pass
    raise ValueError(f"{who}: these bytes are not a sentencepiece model")


def model_of(value: Mapping[str, Any]) -> bytes:
    """Return the model of a tokeniser that ``to_json`` described."""
    text = field(value, "model", str)
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise ValueError(f"the tokeniser's 'model' is not base64: {error}") from error


def _sentencepiece() -> Any:
    try:
        return import_module("sentencepiece")
    except ImportError as error:
        raise MissingExtraError("a tokeniser of sentencepiece", "sentencepiece", "text") from error


def _subword_nmt(part: str) -> Any:
    try:
        return import_module(f"subword_nmt.{part}")
    except ImportError as error:
        raise MissingExtraError("byte-pair encoding by merges", "subword-nmt", "text") from error
