"""The contents of a trace: steps, the values inside them, parameters, and the order of the backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from minitransformer.arrays import Array
from minitransformer.tracing.objectives import Objective
from minitransformer.tracing.watching import Input


class Line(NamedTuple):
    """A value inside an operation, after a line of its source."""

    number: int
    """The line, counted from 1 in the operation's file."""
    name: str
    key: str
    """``STEP:FUNCTION.NAME``; where a backward pass takes a value out of ``saved``, the key that it has in forward."""
    array: Array
    function: str
    """The operation whose pass the line is in."""
    depth: int
    """0 in the step's own operation, 1 in an operation that its pass calls, and so on."""


@dataclass
class Step:
    """One call of an operation or elementary rule: one node of the graph.

    Attributes
    ----------
    key, place, name : str
        ``PLACE/NAME``, the part of the model, and the operation.
    inputs : list of Input
        The arrays passed to it.
    options : dict
        Its other arguments.
    output : array
        The value.
    d_output : array or None
        The gradient of the value; None if none reached it.
    forward, backward : lists of Line
        The values inside its passes, in the order in which they were computed.
    model_line : tuple of str and int, or None
        The file and line of the model's code that called the operation.
    """

    key: str
    place: str
    name: str
    inputs: list[Input]
    options: dict[str, Any]
    output: Array
    model_line: tuple[str, int] | None
    d_output: Array | None = None
    forward: list[Line] = field(default_factory=list)
    backward: list[Line] = field(default_factory=list)


class TracedParameter(NamedTuple):
    """A parameter's value, which is not copied, and its gradient."""

    value: Array
    gradient: Array | None


class Part(NamedTuple):
    """A gradient that a step has sent to one of its inputs."""

    key: str
    """The step that has sent it."""
    input: str
    """The step's name for the input."""
    gradient: Array


class Visit(NamedTuple):
    """A step or parameter in the order of the backward pass: the sum of the parts is its gradient."""

    key: str
    parts: list[Part]


class Trace:
    """All values and gradients of one forward and backward pass.

    ``trace[key]`` is the array of any key: a step's output, a parameter, a value inside an operation, or the gradient
    of a step's output or a parameter, which has the key ``d:`` + key.

    Attributes
    ----------
    source_ids, target_ids : integer arrays, shapes (B, Tk) and (B, Tq + 1)
        The sentences. Of a decoder alone, the source is None and the target is the text.
    objective : Objective
        The differentiated number.
    value : float
        Its value.
    steps : list of Step
        In the order of the forward pass.
    parameters : dict
        A `TracedParameter` for each name.
    walk : list of Visit
        In the order of the backward pass.
    logits : array, shape (B, Tq, V)
        The model's output.
    arrays : dict
        Every array by its key, in the order in which they were computed.
    """

    def __init__(self, source_ids: Array | None, target_ids: Array, objective: Objective) -> None:
        self.source_ids, self.target_ids, self.objective = source_ids, target_ids, objective
        self.value = float("nan")
        self.steps: list[Step] = []
        self.parameters: dict[str, TracedParameter] = {}
        self.walk: list[Visit] = []
        self.logits: Array = np.empty(0)
        self.arrays: dict[str, Array] = {}

    def __getitem__(self, key: str) -> Array:
        try:
            return self.arrays[key]
        except KeyError:
            raise KeyError(f"{key!r} is not a key of this trace; trace.arrays holds all by key") from None

    def __contains__(self, key: object) -> bool:
        return key in self.arrays

    def step(self, key: str) -> Step:
        """Return the step that a key belongs to: its own, that of its gradient, or of a value inside it."""
        wanted = key.removeprefix("d:").partition(":")[0]
        for step in self.steps:
            if step.key == wanted:
                return step
        raise KeyError(f"{wanted!r} is not a step of this trace")

    def gradient_key(self, key: str) -> str | None:
        """Return the key of a value's gradient, or None if the backward pass does not compute it.

        Parameters
        ----------
        key : str
            A step, for its output; a parameter; or a value inside a forward pass, see `gradient_inside`.

        Raises
        ------
        KeyError
            If there is no such value inside a step.
        """
        if ":" not in key:
            return f"d:{key}" if f"d:{key}" in self else None
        step, _ = self.step(key), self[key]
        return gradient_inside(key, step.forward, step.backward)

    def table(self) -> str:
        """Return a table of the steps: place, operation, shape, and the norms of value and gradient."""
        rows = [("place", "operation", "shape", "norm", "norm of gradient")]
        for step in self.steps:
            gradient = "" if step.d_output is None else _number(step.d_output)
            name = step.key.rpartition("/")[2]
            rows.append((step.place or "(model)", name, str(step.output.shape), _number(step.output), gradient))
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        aligns = "<<<>>"
        lines = ["  ".join(f"{cell:{a}{w}}" for cell, a, w in zip(row, aligns, widths, strict=True)) for row in rows]
        return "\n".join(line.rstrip() for line in lines)

    def __str__(self) -> str:
        return self.table()


def gradient_inside(key: str, forward: Sequence[Line], backward: Sequence[Line]) -> str | None:
    """Return the key of the gradient of a value inside a step, or None if the backward pass does not compute it.

    The gradient is the last value of the same name with ``d_`` before it. Where the name was bound several times, it
    belongs to the last value; where a loop has bound it, to none.

    Parameters
    ----------
    key : str
        A value inside a forward pass.
    forward, backward : sequences of Line
        The values inside the step's passes.
    """
    function, name = key.partition(":")[2].split(".")[:2]
    values = [line for line in forward if (line.function, line.name) == (function, name)]
    gradients = [line for line in backward if (line.function, line.name) == (function, f"d_{name}")]
    for lines in (values, gradients):
        if not lines or len({line.number for line in lines}) < len(lines):
            return None
    return gradients[-1].key if values[-1].key == key else None


def _number(array: Array) -> str:
    return f"{float(np.linalg.norm(array.astype(np.float64).ravel())):.4g}"
