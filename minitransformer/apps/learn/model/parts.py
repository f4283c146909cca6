"""The parts of the model that are exercises, and the owner of each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from traceback import FrameSummary, extract_tb
from typing import Any

from minitransformer.apps.learn.answers import load_answer
from minitransformer.apps.learn.bank import find
from minitransformer.apps.learn.model.passes import PASSES
from minitransformer.apps.learn.model.stacks import STACKS
from minitransformer.apps.learn.model.training import TRAINING
from minitransformer.apps.learn.solutions import solution_of
from minitransformer.apps.learn.verdict import Unsolved, Wrong
from minitransformer.apps.learn.watch import watch
from minitransformer.override import override

ENGINE = str(Path(__file__).parents[3])
PARTS = tuple(dict.fromkeys(name for stack in STACKS.values() for each in stack for name in each.parts))
"""Every exercise that is a part of some model."""


@dataclass(frozen=True)
class Parts:
    """Which functions of a learner's are parts of the model.

    Attributes
    ----------
    folder : Path
        The learner's folder.
    functions : dict
        The learner's functions by exercise.
    missing : dict
        Why each other part is the engine's, in a word.
    broken : dict
        What is wrong with each file from which no function can be loaded; its part is the engine's too.
    """

    folder: Path
    functions: dict[str, Callable[..., Any]]
    missing: dict[str, str] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path, only: Collection[str] = PARTS) -> Parts:
        """Load the functions that a learner has written; this runs the learner's files.

        Parameters
        ----------
        folder : Path
            The learner's folder.
        only : collection of str
            The exercises to load; by default all that are parts of the model.
        """
        functions: dict[str, Callable[..., Any]] = {}
        missing = {name: "--but" for name in PARTS if name not in only}
        broken: dict[str, str] = {}
        for name in PARTS:
            if name in only:
                try:
                    functions[name] = load_answer(folder, name)
                except Unsolved:
                    missing[name] = "to do"
                except Wrong as wrong:
                    if (folder / find(name).file).exists():
                        broken[name] = str(wrong)
                    else:
                        missing[name] = "to do"
        return cls(folder, functions, missing, broken)

    def without(self, names: Iterable[str]) -> Parts:
        """Return the same with some parts given back to the engine."""
        names = set(names)
        functions = {name: function for name, function in self.functions.items() if name not in names}
        return Parts(self.folder, functions, self.missing | dict.fromkeys(names & {*self.functions}, "--but"))

    def alone(self, name: str) -> Parts:
        """Return one part of the learner's, its inputs watched for writing; all others are the engine's."""
        return Parts(self.folder, {name: watch(self.functions[name])})

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Override the engine's functions inside a ``with`` block.

        Where a pass calls several functions and some are missing, the exercise's own solution takes their place.
        """
        with ExitStack() as stack:
            for (owner, name), (adapt, names) in {**PASSES, **TRAINING}.items():
                if any(one in self.functions for one in names):
                    # a rule has several gradients, one for each input
                    found = [self._adapted(names, one) for one in (adapt if isinstance(adapt, tuple) else [adapt])]
                    stack.enter_context(override(owner, **{name: tuple(found) if name == "gradients" else found[0]}))
            yield

    def _adapted(self, names: Sequence[str], adapt: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function with the arguments of the engine's, which names the learner's functions that it calls."""
        functions = {name: self.functions.get(name) or solution_of(name) for name in names}

        def adapted(first: Any, /, *args: Any, **options: Any) -> Any:
            return adapt(functions, first, *args, **options)

        vars(adapted)["calls"] = [self.functions[name] for name in names if name in self.functions]
        return adapted

    def where(self, error: BaseException) -> str:
        """Return the line of a part that raised an error: ``line 3 of FILE``; nothing if the engine did."""
        frame = self._frame(error)
        return f"line {frame.lineno} of {frame.filename}" if frame else ""

    def whose(self, error: BaseException) -> Path | None:
        """Return the file of the part that raised an error; None if the engine did."""
        frame = self._frame(error)
        return Path(frame.filename) if frame else None

    def _frame(self, error: BaseException) -> FrameSummary | None:
        files = {str(file) for file in self.files}
        for frame in reversed(extract_tb(error.__traceback__)):
            if frame.filename in files:
                return frame
            if frame.filename.startswith(ENGINE):  # which a part has called
                break
        return None

    @property
    def files(self) -> list[Path]:
        """The files of the functions."""
        return [self.folder / find(name).file for name in self.functions]


def find_parts(names: Iterable[str]) -> set[str]:
    """Return parts of the model by the names of their exercises, as they are typed.

    Raises
    ------
    LookupError
        If there is no such exercise, or it is no part of the model.
    """
    found = {find(name).name for name in names}
    if unknown := sorted(found - {*PARTS}):
        raise LookupError(f"{unknown[0]} is no part of the model; parts are {', '.join(PARTS)}")
    return found
