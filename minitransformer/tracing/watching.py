"""Run a model while somebody sees each step, and may replace its output or change a value inside it.

A step is one call of an operation or elementary rule: one node of the graph. Its key says where in the model it is
and what it is: ``encoder.layers.0.self_attention/multi_head_attention``. The model has no code for this. Every step ends
in ``make_tensor``, for which a function of this module stands in; the part of the model that the step belongs to is found
in the frames of the functions that are running.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple, TypeAlias

from minitransformer.arrays import Array, asarray
from minitransformer.autograd import Operation, Tensor
from minitransformer.autograd.graph import Edge
from minitransformer.autograd.rules import RULES
from minitransformer.autograd.tensor import make_tensor
from minitransformer.nn import Module
from minitransformer.stand_ins import reference, standing_in
from minitransformer.tracing.lines import LineTracer, Value
from minitransformer.tracing.objectives import Loss, Objective
from minitransformer.tracing.twin import modules

__all__ = ["Call", "Input", "Run", "Watcher", "run", "watching"]

Backward: TypeAlias = Callable[[Array], Sequence[Array | None]]


class Input(NamedTuple):
    """An array that a step was called with."""

    name: str
    key: str | None
    """The step that made it, or the parameter; None for any other array."""
    array: Array


@dataclass
class Call:
    """A step of which the value has just been computed."""

    key: str
    place: str
    name: str
    inputs: list[Input]
    options: dict[str, Any]
    """Arguments that are no arrays."""
    value: Array
    edges: Sequence[Edge | None]
    backward: Backward
    """``backward(d_output)`` returns a gradient, or None, for each edge."""
    model_line: tuple[str, int] | None
    """The file and line of the model's code that called the operation."""


class Watcher:
    """Sees the steps of a model that runs inside ``with watching(...)``.

    Parameters
    ----------
    model : Module
        The model.
    see : callable, optional
        ``see(call)`` is called with each `Call`. It returns None, or what takes the place of the step's value and of its
        backward pass: ``(value, backward)``.
    see_value : callable, optional
        ``see_value(key, value)`` is called with each `Value` inside the passes of operations when its line is done.
        It may write into ``value.array``.
    wanted : callable, optional
        ``wanted(step)`` tells whether the values inside a step are wanted; by default all are.
    see_backward : callable, optional
        ``see_backward(call, d_output, gradients)`` is called when the backward pass of a step is done.
    """

    def __init__(
        self,
        model: Module,
        see: Callable[[Call], tuple[Array, Backward] | None] | None = None,
        see_value: Callable[[str, Value], None] | None = None,
        wanted: Callable[[str], bool] | None = None,
        see_backward: Callable[[Call, Array, Sequence[Array | None]], None] | None = None,
    ) -> None:
        self.see, self.see_value, self.wanted, self.see_backward = see, see_value, wanted, see_backward
        self._thread = threading.get_ident()
        self._places: dict[int, str] = {}
        for place, module in modules(model):
            self._places.setdefault(id(module), place)
        self.tensors: dict[int, tuple[Tensor, str]] = {
            id(parameter): (parameter, name) for name, parameter in model.named_parameters()
        }
        """The key of each tensor that a step has made, and of each parameter, by ``id``."""
        self._steps: Counter[str] = Counter()
        self._values: Counter[str] = Counter()
        self._backward: str | None = None

    def running(self) -> str | None:
        """Return the key of the step whose forward or backward pass is running."""
        return self._running(sys._getframe(1))

    def in_backward(self) -> bool:
        """Tell whether the backward pass of a step is running."""
        return self._backward is not None

    def _running(self, frame: FrameType | None) -> str | None:
        if self._backward is not None:
            return self._backward
        while frame is not None and frame.f_code is not Operation.__call__.__code__:
            frame = frame.f_back
        if frame is None:
            return None
        place, _ = self._locate(frame)
        return _numbered(f"{place}/{frame.f_locals['self'].name}", self._steps, advance=False)

    def _locate(self, frame: FrameType | None) -> tuple[str, tuple[str, int] | None]:
        """Return the innermost part of the model in which a frame runs, and the line of that part."""
        while frame is not None:
            code = frame.f_code
            if code.co_varnames and (code.co_argcount or code.co_flags & inspect.CO_VARARGS):
                first = frame.f_locals.get(code.co_varnames[0])
                if not code.co_argcount and isinstance(first, tuple) and first:
                    first = first[0]  # a call(*arguments) around a function for which another may stand in
                place = self._places.get(id(first))
                if place is not None:
                    return place, (code.co_filename, frame.f_lineno)
            frame = frame.f_back
        return "", None

    def _make_tensor(self, name: str, value: Array, edges: Sequence[Edge | None], backward: Backward) -> Tensor:
        if threading.get_ident() != self._thread:
            return reference(make_tensor)(name, value, edges, backward)
        frame = sys._getframe(2)  # 1 is the call of the function for which this stands in
        place, line = self._locate(frame)
        key = _numbered(f"{place}/{name}", self._steps)
        inputs, options = self._inputs(frame)
        call = Call(key, place, name, inputs, options, asarray(value), edges, backward, line)
        if self.see is not None and (other := self.see(call)) is not None:
            call.value, call.backward = other

        def run_backward(d_output: Array) -> Sequence[Array | None]:
            before, self._backward = self._backward, key
            try:
                gradients = call.backward(d_output)
            finally:
                self._backward = before
            if self.see_backward is not None:
                self.see_backward(call, d_output, gradients)
            return gradients

        tensor = reference(make_tensor)(name, call.value, edges, run_backward)
        self.tensors[id(tensor)] = tensor, key
        return tensor

    def _inputs(self, frame: FrameType) -> tuple[list[Input], dict[str, Any]]:
        """Return what a step was called with: its arrays, and everything else."""
        given = frame.f_locals
        if frame.f_code is Operation.__call__.__code__:
            names, values = list(given["self"].signature.parameters), given["inputs"]
        elif "rule" in given:
            names, values = list(inspect.signature(RULES[given["name"]].forward).parameters), given["inputs"]
        else:  # concatenate
            values = given.get("tensors", ())
            names = [f"tensors[{i}]" for i in range(len(values))]
        inputs, options = [], dict(given.get("options", {}))
        for name, value in zip(names, values, strict=False):
            if isinstance(value, Tensor):
                _, key = self.tensors.get(id(value), (None, None))
                inputs.append(Input(name, key, value._data))
            elif hasattr(value, "dtype"):
                inputs.append(Input(name, None, value))
            elif value is not None:
                options[name] = value
        return inputs, options

    def _step_of(self, frame: FrameType) -> str | None:
        step = self._running(frame)
        return step if step is not None and (self.wanted is None or self.wanted(step)) else None

    def _see_value(self, value: Value) -> None:
        assert self.see_value is not None
        self.see_value(_numbered(f"{value.step}:{value.function}.{value.name}", self._values), value)


def _numbered(key: str, counts: Counter[str], advance: bool = True) -> str:
    """Return the key, with a number from the second time on: ``/add``, ``/add.2``."""
    n = counts[key] + 1
    if advance:
        counts[key] = n
    return key if n == 1 else f"{key}.{n}"


@contextmanager
def watching(model: Module, **options: Any) -> Iterator[Watcher]:
    """See the steps of a model that runs inside the ``with`` block, in this thread; arguments as for `Watcher`."""
    watcher = Watcher(model, **options)
    before = sys.gettrace()
    with standing_in({make_tensor: watcher._make_tensor}):
        try:
            if watcher.see_value is not None:
                sys.settrace(LineTracer(watcher._step_of, watcher._see_value))
            yield watcher
        finally:
            if watcher.see_value is not None:
                sys.settrace(before)


class Run(NamedTuple):
    """What a forward pass of a model has computed."""

    objective: Tensor
    logits: Tensor


def run(
    model: Module,
    source_ids: Any,
    target_ids: Any,
    objective: Objective | None = None,
    see: Callable[[Call], tuple[Array, Backward] | None] | None = None,
    change: Mapping[str, Callable[[Array], None]] | None = None,
) -> Run:
    """Run a model forward, without dropout, while its steps are seen.

    Parameters
    ----------
    model : Module
        The model: a ``twin``, if gradients follow, so that they do not reach the model itself.
    source_ids, target_ids : integer arrays, shapes (B, Tk) and (B, Tq + 1)
        The sentences; the target with start and end token.
    objective : Objective, optional
        By default the loss.
    see : callable, optional
        As for `Watcher`: ``see(call)`` returns None, or a new value and backward pass.
    change : mapping, optional
        By the key of a value inside a forward pass: a function that writes into its array when its line is done.
    """
    objective = objective or Loss()
    steps = {key.partition(":")[0] for key in change or {}}

    def change_value(key: str, value: Value) -> None:
        if change is not None and key in change:
            change[key](value.array)

    with watching(model, see=see, see_value=change_value if change else None, wanted=steps.__contains__):
        logits = model(source_ids, target_ids[:, :-1])  # type: ignore[operator]
        value = objective(logits, target_ids[:, 1:])
    return Run(value, logits)
