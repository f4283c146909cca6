"""The parts of the model that exercises ask for, and whose each one is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from traceback import extract_tb
from typing import Any

from minitransformer.learn.answers import load_answer
from minitransformer.learn.bank import find
from minitransformer.learn.model.passes import PASSES, StandIns
from minitransformer.learn.model.training import TRAINING
from minitransformer.learn.verdict import Unsolved, Wrong
from minitransformer.learn.watch import watch
from minitransformer.stand_ins import standing_in

__all__ = ["PARTS", "Parts", "picture_rows"]

SOURCE = ("repeated-ids", "embedding-scale", "sinusoidal-positions", "padding-mask")
ATTENTION = (
    "split-heads", "scaled-scores", "softmax-of-large-scores", "a-row-that-sees-nothing", "merge-heads",
    "weights-and-values-backward", "softmax-backward", "queries-and-keys-backward", "one-weight-for-a-batch",
    "self-attention-backward",
)  # fmt: skip
AROUND = (
    "dropout-forward", "dropout-backward", "residual-connection", "layer-norm-forward", "layer-norm-backward",
    "gain-and-bias-gradients",
)  # fmt: skip
PLACES: dict[str, tuple[str, ...]] = {
    "before the layers: embeddings": SOURCE,
    "every layer: attention": ATTENTION,
    "decoder layers: no token sees a later one": ("shifted-targets", "causal-mask"),
    "every layer: around each sub-layer": AROUND,
    "every layer: feed-forward": ("feed-forward-backward",),
    "after the layers: output and loss": (
        "linear-backward", "cross-entropy-forward", "smoothed-targets", "label-smoothing-backward",
    ),
    "the graph, backwards": (
        "order-of-a-graph", "walk-back", "add-with-broadcasting", "product-rule", "transpose-and-reshape",
        "unbroadcast",
    ),
    "training": ("xavier", "warm-up", "adam-step"),
    "translation": ("greedy-decoding", "beam-step", "length-penalty"),
}  # fmt: skip
"""The exercises that are parts of the model, by their place in it."""
ENGINE = str(Path(__file__).parents[2])
PARTS = tuple(name for names in PLACES.values() for name in names)
"""Every exercise that is a part of the model."""


@cache
def _solution(name: str) -> Callable[..., Any]:
    """Return the function that solves an exercise: it stands beside a learner's in the same pass."""
    names: dict[str, Any] = {"__name__": f"solution_{name}"}
    exec(compile(find(name).solution, f"the solution of {name}", "exec"), names)
    [asked] = find(name).asks_for
    function: Callable[..., Any] = names[asked]
    return function


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
        Why each other part is the engine's.
    """

    folder: Path
    functions: dict[str, Callable[..., Any]]
    missing: dict[str, str] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path, but: Collection[str] = (), only: Collection[str] | None = None) -> Parts:
        """Load the functions that a learner has written.

        Parameters
        ----------
        folder : Path
            The learner's folder.
        but : collection of str
            Exercises whose part is to be the engine's all the same.
        only : collection of str, optional
            The exercises to load; by default all that are parts of the model.

        Raises
        ------
        LookupError
            If ``but`` names no part of the model.
        """
        but = {find(name).name for name in but}
        if unknown := sorted(but - {*PARTS}):
            raise LookupError(f"{unknown[0]} is no part of the model; parts are {', '.join(PARTS)}")
        functions, missing = {}, {}
        for name in PARTS:
            if name in but:
                missing[name] = "left out"
            elif only is not None and name not in only:
                missing[name] = "the engine's in this run"
            else:
                try:
                    functions[name] = load_answer(folder, name)
                except Unsolved:
                    missing[name] = "still to do"
                except Wrong as wrong:
                    missing[name] = str(wrong).splitlines()[0]
        return cls(folder, functions, missing)

    def without(self, names: Iterable[str]) -> Parts:
        """Return the same with some parts given back to the engine."""
        names = set(names)
        functions = {name: function for name, function in self.functions.items() if name not in names}
        return Parts(self.folder, functions, self.missing | dict.fromkeys(names & {*self.functions}, "left out"))

    def alone(self, name: str) -> Parts:
        """Return one part of the learner's, its inputs watched for writing; all others are the engine's."""
        return Parts(self.folder, {name: watch(self.functions[name])})

    def stand_ins(self) -> StandIns:
        """Return what stands in for which function of the engine.

        Where a pass calls several functions and some are missing, the exercise's own solution takes their place.
        """
        others: StandIns = {}
        for make, names in {**PASSES, **TRAINING}.items():
            if any(name in self.functions for name in names):
                others |= make({name: self.functions.get(name) or _solution(name) for name in names})
        return others

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Let the functions stand in for the engine's inside a ``with`` block."""
        with standing_in(self.stand_ins()):
            yield

    def where(self, error: BaseException) -> str:
        """Return the line of a part that raised an error: ``line 3 of FILE``; nothing if the engine did."""
        files = {str(self.folder / find(name).file) for name in self.functions}
        for frame in reversed(extract_tb(error.__traceback__)):
            if frame.filename in files:
                return f"line {frame.lineno} of {frame.filename}"
            if frame.filename.startswith(ENGINE):  # which a part has called
                break
        return ""

    def table(self, remarks: Mapping[str, str] | None = None) -> str:
        """Draw the model as a table of its parts, and say whose each one is.

        Parameters
        ----------
        remarks : mapping of str to str, optional
            What to say of each of the learner's parts.
        """
        remarks = self.missing | dict(remarks or {})
        lines = []
        for place, names in PLACES.items():
            lines.append(f"  {place}")
            for name in names:
                mark = "x" if name in self.functions else " "
                lines.append(f"    [{mark}] {name:<28} {remarks.get(name, '')}".rstrip()[:78])
        n, total = len(self.functions), len(PARTS)
        others = ", the others the engine's" if n < total else ""
        return "\n".join([f"{n} of {total} parts are yours ([x]){others}.", *lines])


def picture_rows(parts: Parts) -> list[tuple[str, list[tuple[str, bool]]]]:
    """Return the table as values for a picture: each place with its parts, and whether they are the learner's."""
    return [(place, [(name, name in parts.functions) for name in names]) for place, names in PLACES.items()]
