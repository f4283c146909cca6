"""The data of a run: pairs to train on, as ids, and held-out pairs; or one long text, and a held-out one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from minitransformer.data import ParallelBatches, Tokeniser, WindowBatches, comparable, encode_pairs, train_tokenisers
from minitransformer.data.text import Pairs
from minitransformer.files import read_file
from minitransformer.options import OptionError
from minitransformer.tasks.options import DataOptions

Tokenisers = tuple[Tokeniser, Tokeniser]

TELLING = 30
"""The most tokens of a sentence that makes a readable picture of attention."""


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """The data of a run.

    Parameters
    ----------
    source, target : Tokeniser
        How texts become ids; one object if both sides share their tokens.
    train : list of (str, str)
        Source and target texts to train on.
    ids : list of (list of int, list of int)
        The same as ids.
    valid : list of (str, str)
        The pairs to evaluate on during training. A source may occur several times: each of its targets is right.
    held_out : list of (str, str)
        The pairs to evaluate on at the end.
    example : str
        A source text that makes a clear picture of attention.
    notes : sequence of str
        Notes for the user: how many pairs were left out, and why.
    files : mapping of str to str
        The SHA-256 checksum of each file that was read, by its path.
    kept_good : list of (str, str)
        The pairs to evaluate on before and after, if the model is trained on.
    """

    source: Tokeniser
    target: Tokeniser
    train: Pairs
    ids: list[tuple[list[int], list[int]]]
    valid: Pairs
    held_out: Pairs
    example: str
    notes: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    kept_good: Pairs = field(default_factory=list)

    @property
    def shared(self) -> bool:
        """Whether source and target have one vocabulary."""
        return self.source is self.target

    @property
    def tokens(self) -> int:
        """The number of tokens to train on, of the longer side of each pair, with its end."""
        return sum(max(map(len, pair)) + 1 for pair in self.ids)

    def batches(self, tokens: int, seed: int, source_end: bool = True) -> ParallelBatches:
        """Return the batches to train on; see `ParallelBatches`."""
        return ParallelBatches(self.ids, tokens, seed, source_end)

    def fingerprint(self) -> str:
        """Return a checksum of all data used for training and for evaluation during training."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        digest = sha256()
        for pair in self.ids:
            digest.update(repr(pair).encode())
        digest.update(repr(self.valid).encode())
        return digest.hexdigest()


@dataclass(frozen=True, kw_only=True)
class TextCorpus:
    """The data of a run that learns to write text.

    Parameters
    ----------
    tokeniser : Tokeniser
        How text becomes ids.
    train : str
        The text to train on.
    ids : ndarray of int32, shape (n,)
        The same as ids.
    window : int
        How many tokens are read at a time.
    valid : str
        The text to evaluate on during training.
    held_out : str
        The text to evaluate on at the end.
    notes : sequence of str
        Notes for the user: where the text is from, and what was left out.
    files : mapping of str to str
        The SHA-256 checksum of each file that the user named, by its path.
    kept_good : str
        The text to evaluate on before and after, if the model is trained on.
    """

    tokeniser: Tokeniser
    train: str
    ids: NDArray[np.int32]
    window: int
    valid: str
    held_out: str
    notes: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    kept_good: str = ""

    shared = True
    """It has one vocabulary."""

    @property
    def source(self) -> Tokeniser:
        """The tokeniser of what the model reads, which is what it has written."""
        return self.tokeniser

    @property
    def target(self) -> Tokeniser:
        """The tokeniser of what the model writes."""
        return self.tokeniser

    @property
    def tokens(self) -> int:
        """The number of tokens to train on."""
        return len(self.ids)

    def batches(self, tokens: int, seed: int, source_end: bool = True) -> WindowBatches:
        """Return the batches to train on; see `WindowBatches`. There is no source that could have an end."""
        if self.tokens < self.window:
            raise OptionError(
                f"window {self.window}: found only {self.tokens:,} tokens to train on; give a longer text or a smaller "
                "window",
                "window",
                "text",
            )
        return WindowBatches(self.ids, self.window, tokens, seed)

    def fingerprint(self) -> str:
        """Return a checksum of all data used for training and for evaluation during training."""
        digest = sha256(self.ids.astype("<i4").tobytes())
        digest.update(f"{self.window} {self.valid}".encode())
        return digest.hexdigest()


def corpus_of_texts(
    data: DataOptions,
    train: Pairs,
    valid: Pairs,
    held_out: Pairs,
    tokenisers: Tokenisers | None,
    notes: Sequence[str] = (),
    files: Mapping[str, str] | None = None,
) -> Corpus:
    """Learn the tokens of texts, unless they are known, and leave out pairs that are too long to train on.

    Parameters
    ----------
    data : DataOptions
        Says which tokens, how many, and how long a sentence may be.
    train, valid, held_out : lists of (str, str)
        The pairs; `train` is cut to ``data.train_pairs``.
    tokenisers : pair of Tokeniser, optional
        Those of source and target, if they are known.
    notes : sequence of str
        Notes so far.
    files : mapping of str to str, optional
        Checksums of the files that were read.

    Returns
    -------
    Corpus
    """
    train = train[: data.train_pairs]
    source, target = tokenisers or _train_tokenisers(train, data)
    try:
        encoded = encode_pairs(train, source, target, data.longest)
    except ValueError as error:
        raise OptionError(f"longest {data.longest}: {error}", "longest") from error
    example = next((text for text, _ in held_out if len(source.encode(text)) <= TELLING), held_out[0][0])
    return Corpus(
        source=source,
        target=target,
        train=[train[place] for place in encoded.places],
        ids=encoded.pairs,
        valid=valid,
        held_out=held_out,
        example=example,
        notes=[*notes, f"length: {encoded.left_out}"],
        files=files or {},
    )


def _train_tokenisers(pairs: Pairs, data: DataOptions) -> Tokenisers:
    """Train the tokenisers that the options ask for; name these options if that fails."""
    try:
        return train_tokenisers(
            pairs, data.source_tokens, data.target_tokens, data.vocabulary, data.min_count, shared=data.share_vocabulary
        )
    except ValueError as error:
        names = [name for name in ("vocabulary", "min_count", "share_vocabulary") if getattr(data, name) is not None]
        given = ", ".join(f"{name} {getattr(data, name)}" for name in names)
        raise OptionError(f"{error} (with {given})", *names) from error


def hold_out(pairs: Pairs, chosen: set[str]) -> tuple[Pairs, Pairs]:
    """Split pairs into those whose source, as `comparable` returns it, is not among the chosen ones, and the others."""
    parts: tuple[Pairs, Pairs] = ([], [])
    for pair in pairs:
        parts[comparable(pair[0]) in chosen].append(pair)
    return parts


def sha256_of(*paths: str | None) -> dict[str, str]:
    """Return the checksums of files by their paths; None is no file.

    Raises
    ------
    FileError
        If one is missing, or is not a regular file: a pipe cannot be read again when the run is resumed.
    """
    return {path: sha256(read_file(path, largest=None)).hexdigest() for path in paths if path is not None}
