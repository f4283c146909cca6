"""The definition of a task: its sentence pairs, its tokens and its training options."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minitransformer.data import tokenisers_from_json
from minitransformer.files import read_toml
from minitransformer.tasks.corpus import Corpus, TextCorpus, Tokenisers
from minitransformer.tasks.options import DataOptions

RECIPES: Mapping[str, Any] = read_toml(Path(__file__).with_name("defaults.toml"))
"""The options of each task, by its name, where they differ from the general defaults."""
TOY_MODEL: Mapping[str, Any] = {"d_model": 64, "n_heads": 4, "n_layers": 2, "d_ff": 256}
"""Sizes that learn a toy task in a minute."""
OF_TEXT = ("window", "characters", "held_out_characters", "valid_characters")
"""The options of data that only decoder-only models use."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Task(ABC):
    """A task: to turn texts of one kind into texts of another, or to continue texts.

    Parameters
    ----------
    name : str
        Its name, as in ``build(name, **options)``.
    options : mapping of str to str
        The options that build the same task again.
    title : str
        A short description, as in "numbers in words, English to German".
    noun : str
        What is translated, as in "exact match on 2,000 held-out numbers".
    recipe : mapping
        The options of model, training and data in which a training of this task differs from the defaults, by name.
    reads : tuple of str
        Which of the data options that are paths it reads; any other is refused.
    measures : tuple of str
        How it is measured beside exact match and token accuracy: "bleu", "chrf", "phone_error_rate".
    unused : tuple of str
        The other options that it does not use.
    sized : tuple of str
        The options that `choose_by_size` chooses.
    decoder_only : bool
        Whether its model is a decoder alone, which continues texts instead of translating them.
    """

    name: str
    options: Mapping[str, str]
    title: str
    noun: str
    recipe: Mapping[str, Any]
    reads: tuple[str, ...] = ()
    measures: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    sized: tuple[str, ...] = ()
    decoder_only: bool = False

    def why_ignored(self, name: str) -> str | None:
        """Return why an option has no effect on this task, if so."""
        if name in self.unused or (name in OF_TEXT and not self.decoder_only):
            return f"the task {self.name} does not use it"
        declared = DataOptions.declarations().get(name)
        if declared and declared.metadata["path"] and name not in self.reads:
            its = f"it reads {', '.join(self.reads)}" if self.reads else "it draws its own pairs"
            return f"the task {self.name} does not read it: {its}"
        return None

    def choose_by_size(self, picked: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return options that suit the size of the data and replace the recipe's; by default none.

        Parameters
        ----------
        picked : mapping
            The options that the user gave, by name.
        """
        return {}

    def normalise_input(self, text: str) -> str:
        """Return the normalised form of a source text that a user typed."""
        return text

    def other_words(self, text: str) -> str | None:
        """Return what a source text is read as, if in other words than a user typed, so that the user can be told."""
        read = self.normalise_input(text)
        return None if read.casefold() == text.casefold() else read

    def corpus(self, data: DataOptions, seed: int = 0, tokenisers: Tokenisers | None = None) -> Corpus | TextCorpus:
        """Make the data of a run; the same options and seed make the same data.

        Parameters
        ----------
        data : DataOptions
            Which pairs, and how they are split into tokens.
        seed : int
            The seed of the drawn pairs.
        tokenisers : pair of Tokeniser, optional
            Those of a resumed run, so that they need not be learned again.

        Returns
        -------
        Corpus or TextCorpus

        Raises
        ------
        ValueError
            If the options name a file that the task does not read, or are impossible; `TextError`, a subclass, if a
            file has other contents than expected.
        MissingExtraError
            If a package is not installed.
        """
        for name, declared in data.declarations().items():
            value = getattr(data, name)
            if declared.metadata["path"] and value is not None and (why := self.why_ignored(name)):
                raise ValueError(f"found {name} {value}, but {why}")
        return self._corpus(data, seed, tokenisers)

    @abstractmethod
    def _corpus(self, data: DataOptions, seed: int, tokenisers: Tokenisers | None) -> Corpus | TextCorpus:
        """Make the data of a run."""

    def read_tokenisers(self, value: object) -> Tokenisers:
        """Return the tokenisers that `tokenisers_to_json` described.

        Raises
        ------
        ValueError
            If they are none, or not this task's.
        MissingExtraError
            If a package is not installed.
        """
        return tokenisers_from_json(value)
