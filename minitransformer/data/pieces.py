"""Pieces of sentencepiece whose ids are those of a separate vocabulary, as in published translation models."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, Self

from minitransformer.data.subwords import model_of, sentencepiece_model
from minitransformer.data.tokens import UNKNOWN, UNKNOWN_TOKEN, Tokeniser, field, replace_halves, require_unknown
from minitransformer.data.vocabulary import Vocabulary


class Pieces(Tokeniser):
    """Pieces of a sentencepiece model, with the ids of a vocabulary.

    In the models of OPUS-MT source and target have a sentencepiece model each, and one vocabulary. A language code at
    the beginning of a text, such as ``>>fra<<``, is a token. The text is normalised by sentencepiece alone.

    Parameters
    ----------
    model : bytes
        A model of sentencepiece.
    vocabulary : Vocabulary
        The pieces; the first after the specials is ``<unk>``. A piece of the model that is missing here is unknown.

    Raises
    ------
    ValueError
        If the bytes are not such a model, or the vocabulary has no ``<unk>``.
    MissingExtraError
        If sentencepiece is not installed.
    """

    kind = "pieces"

    def __init__(self, model: bytes, vocabulary: Vocabulary) -> None:
        require_unknown(vocabulary, "Pieces")
        super().__init__(vocabulary, UNKNOWN)
        self._processor = sentencepiece_model(model, "Pieces")
        self.model = model
        """The model, as sentencepiece and other programs read it from a file."""

    def encode(self, text: str) -> list[int]:
        """Turn a text into ids; pieces that are not in the vocabulary become ``<unk>``."""
        text = replace_halves(text)
        code, end, rest = text.partition("<<") if text.startswith(">>") else ("", "", text)
        if not end:
            return self.vocabulary.encode(self._processor.encode(text, out_type=str), self.unknown)
        return self.vocabulary.encode([code + end, *self._processor.encode(rest, out_type=str)], self.unknown)

    def decode(self, ids: Iterable[int]) -> str:
        """Turn ids into text."""
        parts = []
        for unknown, group in groupby(self.vocabulary.decode(ids), key=UNKNOWN_TOKEN.__eq__):
            pieces = list(group)
            parts.append(f"{UNKNOWN_TOKEN} " * len(pieces) if unknown else self._processor.decode_pieces(pieces))
        return "".join(parts).replace("\N{LOWER ONE EIGHTH BLOCK}", " ").strip()

    def to_json(self) -> dict[str, Any]:
        """Give the kind, the tokens, and the model in base64."""
        model = base64.b64encode(self.model).decode("ascii")
        return {"kind": self.kind, "tokens": self.vocabulary.to_json(), "model": model}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Restore the tokeniser that `to_json` described, its model identical to the byte."""
        return cls(model_of(value), Vocabulary.from_json(field(value, "tokens", list)))
