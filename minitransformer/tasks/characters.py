"""The task of writing text character by character: by default like the Python sources of the standard library."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from minitransformer.data import RawCharacters, TextError
from minitransformer.data.text import read_bytes, split_lines
from minitransformer.tasks.corpus import TextCorpus, Tokenisers, sha256_of
from minitransformer.tasks.options import DataOptions
from minitransformer.tasks.task import RECIPES, Task

LEFT_OUT = frozenset(
    ("test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__", "encodings", "pydoc_data")
)
"""Folders of the standard library that are not read: tests, packages of others, and tables."""
MOST_HELD_OUT = 20
"""At most one character in this many is held out, unless a single file has more."""
RARE = 100_000
"""A character that occurs only once, or less often than once in this many, becomes the unknown token."""


def characters_task() -> Task:
    """Return the task of writing text."""
    return _CharactersTask(
        name="characters",
        options={},
        title="writing text",
        noun="characters",
        reads=("text",),
        unused=(
            *("train_pairs", "held_out", "valid_pairs", "source_tokens", "target_tokens", "vocabulary"),
            *("share_vocabulary", "longest", "bleu_tokenize", "n_decoder_layers"),
        ),
        recipe=RECIPES["characters"],
        decoder_only=True,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _CharactersTask(Task):
    def _corpus(self, data: DataOptions, seed: int, tokenisers: Tokenisers | None) -> TextCorpus:
        files = {} if data.text is None else sha256_of(*data.text)  # raises an error for anything but regular files
        texts, where = _library() if data.text is None else ([_read(path) for path in data.text], "your files")
        different = list(dict.fromkeys(texts))
        held_out, train = _hold_out(different, data.held_out_characters, np.random.default_rng(seed))
        train = train[: data.characters]
        rare = data.min_count or max(2, len(train) // RARE)
        tokeniser = tokenisers[0] if tokenisers else RawCharacters.train([train], min_count=rare)
        total = sum(map(len, different))
        notes = [
            f"text: {total:,} characters of {where} (different files: {len(different):,}), {len(train):,} characters "
            f"to train on, {len(held_out):,} held out"
        ]
        if not tokenisers:
            few = f"one that occurs fewer than {rare:,} times is an unknown one"
            notes.append(f"characters: {len(tokeniser.tokens):,}; {few}")
        if len(different) == 1:
            notes.append(f"held out: the end of the only file, one character in {MOST_HELD_OUT}")
        return TextCorpus(
            tokeniser=tokeniser,
            train=train,
            ids=np.array(tokeniser.encode(train), dtype=np.int32),
            window=data.window,
            valid=held_out[: data.valid_characters],
            held_out=held_out,
            notes=notes,
            files=files,
        )


def library_files() -> list[Path]:
    """Return the Python sources of the standard library that are read, in the order of their names."""
    found = []
    for folder, folders, names in os.walk(sysconfig.get_paths()["stdlib"]):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        found += [Path(folder, name) for name in names if name.endswith(".py")]
    return sorted(found)


def _library() -> tuple[list[str], str]:
    """Return the texts of the standard library, without empty files and those in another encoding."""
    texts = []
    for path in library_files():
        try:
            texts.append(_read(path))
        except TextError:
            continue
    if not texts:
        raise ValueError(
            f"found no Python sources of the standard library in {sysconfig.get_paths()['stdlib']}; give --text FILE"
        )
    return texts, f"the standard library of Python {sys.version_info.major}.{sys.version_info.minor}"


def _read(path: Path | str) -> str:
    """Return a text with a line break at its end; Windows' line breaks become single characters."""
    return "".join(f"{line}\n" for line in split_lines(read_bytes(path), f"{path}"))


def _hold_out(texts: Sequence[str], characters: int, rng: np.random.Generator) -> tuple[str, str]:
    """Return a held-out text and one to train on, from different files in random order.

    At least one file is held out. Of a single file, the end is.
    """
    most = sum(map(len, texts)) // MOST_HELD_OUT
    if len(texts) == 1:
        cut = len(texts[0]) - max(1, min(characters, most))
        return texts[0][cut:], texts[0][:cut]
    order = [texts[i] for i in rng.permutation(len(texts)).tolist()]
    n = 1
    while (so_far := sum(map(len, order[:n]))) < characters and so_far + len(order[n]) <= most:
        n += 1
    return "".join(order[:n])[:characters], "".join(order[n:])


TASKS = {"characters": characters_task}
