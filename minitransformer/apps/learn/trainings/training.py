"""What every training of a chapter has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

Functions = Mapping[str, Callable[..., Any]]
"""Solved functions, each under the name of its exercise."""


class Training(ABC):
    """A model, its data and its training, made of solved functions and NumPy.

    Parameters
    ----------
    functions : mapping of str to callable
        One for each name in ``uses``. The same functions always give the same numbers: the seed is fixed.
    """

    title: ClassVar[str]
    uses: ClassVar[tuple[str, ...]]
    """The exercises whose functions it calls."""
    steps: ClassVar[int]

    @abstractmethod
    def __init__(self, functions: Functions) -> None: ...

    @abstractmethod
    def step(self) -> float:
        """Train on one batch; return its loss."""

    @abstractmethod
    def show(self) -> str:
        """Return in one line what the model predicts now."""
