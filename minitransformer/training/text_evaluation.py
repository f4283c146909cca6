"""Evaluation of a model that continues texts: bits per character on a held-out text."""

from __future__ import annotations

import sys
from math import log, log2
from typing import Any, NamedTuple

from minitransformer.autograd import Tensor
from minitransformer.data import PAD, UNKNOWN, Tokeniser, batches, pad
from minitransformer.nn import LanguageModel
from minitransformer.parallel import SINGLE_PROCESS, ProcessGroup
from minitransformer.training.evaluation import NUMBERS, WIDTH, accuracy_and_loss

UNKNOWN_BITS = log2(sys.maxunicode + 1)
"""The bits that an unknown character costs: all characters of Unicode are equally probable."""

Window = tuple[list[int], list[int]]
"""The tokens of a window, and its targets: padding marks tokens that do not count."""


class TextScores(NamedTuple):
    """What ``evaluate_text`` measured."""

    bits: float
    """The cross-entropy in bits per character."""
    token_accuracy: float
    """The share of tokens that have the highest score given those before them."""
    loss: float
    """The cross-entropy in nats per token."""
    characters: int
    """The number of characters."""

    def measurements(self) -> dict[str, float]:
        """Return the scores by name, as they are logged."""
        return {"bits_per_character": self.bits, "token_accuracy": self.token_accuracy, "valid_loss": self.loss}


def evaluate_text(
    model: LanguageModel, tokeniser: Tokeniser, text: str, window: int, group: ProcessGroup = SINGLE_PROCESS
) -> TextScores:
    """Predict each token of a text from those before it.

    The model reads windows that overlap by half, so it predicts each token from at least the half of a window before
    it, except at the beginning of the text. A token that is not in the vocabulary, such as a rare character, is
    predicted as an unknown one, and costs 20.1 bits more: which of Unicode's characters it is.

    Parameters
    ----------
    model : LanguageModel
        The model.
    tokeniser : Tokeniser
        Converts text to ids.
    text : str
        The text.
    window : int
        The number of tokens that are read at a time, the start token included.
    group : ProcessGroup
        The processes that share the work; all get the same scores, which do not depend on the number of processes.

    Returns
    -------
    TextScores

    Raises
    ------
    ValueError
        If the text is empty.
    Diverged
        If the model's scores are not numbers.
    """
    ids = tokeniser.encode(text)
    if not ids:
        raise ValueError("evaluate_text: found an empty text, expected at least one character")

    windows = _windows(ids, window)
    size = max(1, NUMBERS // (window * max(len(tokeniser), WIDTH)))
    chunks = [windows[first : first + size] for first in range(0, len(windows), size)]

    def predict(chunk: list[Window]) -> tuple[Tensor, Any]:
        read, wanted = pad([tokens for tokens, _ in chunk]), pad([tokens for _, tokens in chunk])
        return model.decode(batches.decoder_input(read)), wanted  # without dropout

    accuracy, total = accuracy_and_loss(predict, chunks, group)
    bits = (total / log(2) + ids.count(UNKNOWN) * UNKNOWN_BITS) / len(text)
    return TextScores(bits, accuracy.value, total / len(ids), len(text))


def _windows(ids: list[int], window: int) -> list[Window]:
    """Cut a text into windows of which each but the first predicts its last half; each token is predicted once."""
    half = window // 2
    found = [(ids[:window], ids[:window])]
    for first in range(window, len(ids), half):
        before, rest = ids[first - (window - half) : first], ids[first : first + half]
        found.append(([*before, *rest], [PAD] * len(before) + rest))
    return found
