"""What a task is: where its sentence pairs come from, how they are split into tokens, how to train it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from minitransformer.data import tokenisers_from_json
from minitransformer.tasks.corpus import Corpus, Tokenisers
from minitransformer.tasks.recipe import PATHS, Recipe

__all__ = ["Task"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Task(ABC):
    """Something to be learned: texts of one kind, to be turned into texts of another.

    Parameters
    ----------
    name : str
        What it is asked for by, as in ``build(name, **options)``.
    options : mapping of str to str
        The options that build the same task again.
    title : str
        A short description, as in "numbers in words, English to German".
    noun : str
        What is translated, as in "exact match on 2,000 held-out numbers".
    recipe : Recipe
        A model and a training that suit the task.
    reads : tuple of str
        Which of a recipe's `PATHS` it reads; any other is refused.
    measures : tuple of str
        How it is measured beside exact match and token accuracy: "bleu", "chrf", "phone_error_rate".
    unused : tuple of str
        The fields of a recipe that it has no use for, beside `PATHS`.
    """

    name: str
    options: Mapping[str, str]
    title: str
    noun: str
    recipe: Recipe
    reads: tuple[str, ...] = ()
    measures: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()

    def ignored(self, name: str) -> str | None:
        """Return why a recipe's field has no effect on this task, if so."""
        return f"the task {self.name} has no use for it" if name in self.unused else None

    def typed(self, text: str) -> str:
        """Return the source text that a person means who typed this one."""
        return text

    def corpus(self, recipe: Recipe, tokenisers: Tokenisers | None = None) -> Corpus:
        """Make the data of a run; the same recipe makes the same data.

        Parameters
        ----------
        recipe : Recipe
            What the run depends on.
        tokenisers : pair of Tokeniser, optional
            Those of a run that goes on, so that they need not be learned again.

        Returns
        -------
        Corpus

        Raises
        ------
        ValueError
            If the recipe names a file that the task does not read, or asks for what cannot be; `TextError`, which is
            one, if a file does not hold what it should.
        MissingExtraError
            If a package is not installed.
        """
        for name in PATHS:
            if getattr(recipe, name) is not None and name not in self.reads:
                its = f"it reads {', '.join(self.reads)}" if self.reads else "it draws its own pairs"
                raise ValueError(f"task {self.name} does not read {name} ({getattr(recipe, name)}): {its}")
        return self._corpus(recipe, tokenisers)

    @abstractmethod
    def _corpus(self, recipe: Recipe, tokenisers: Tokenisers | None) -> Corpus:
        """Make the data of a run."""

    def read_tokenisers(self, value: object) -> Tokenisers:
        """Make the tokenisers that `tokenisers_to_json` described.

        Raises
        ------
        ValueError
            If they are none, or not this task's.
        MissingExtraError
            If a package is not installed.
        """
        return tokenisers_from_json(value)
