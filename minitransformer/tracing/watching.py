"""Run a model while observing each step; its output, or a value inside it, may be replaced.

A step is one call of an operation or elementary rule: one node of the graph. Its key is the part of the model and the
operation: ``encoder.layers.0.self_attention/multi_head_attention``. The model needs no code for this: each step calls a
hook of the autograd core, and the stack of running functions shows the part of the model to which the step belongs.
"""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from types import FrameType
from typing import Any, NamedTuple, TypeAlias

from minitransformer import ops
from minitransformer.arrays import Array, asarray, xp
from minitransformer.autograd import Operation, Tensor
from minitransformer.autograd.graph import Edge, Node, watching_operations
from minitransformer.autograd.rules import RULES
from minitransformer.nn import Module
from minitransformer.override import override_in_this_thread
from minitransformer.tracing.lines import LineTracer, Value
from minitransformer.tracing.objectives import Loss, Objective
from minitransformer.tracing.twin import modules

Backward: TypeAlias = Callable[[Array], Sequence[Array | None]]


class Input(NamedTuple):
    """An array passed to a step."""

    name: str
    key: str | None
    """The step that made it, or the parameter; None for any other array, such as a mask."""
    array: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return tuple(self.array.shape)


@dataclass
class Call:
    """A step whose value has just been computed."""

    key: str
    place: str
    name: str
    inputs: list[Input]
    options: dict[str, Any]
    """Arguments that are not arrays."""
    names: list[str]
    """The name of the argument that each edge belongs to."""
    value: Array
    edges: Sequence[Edge | None]
    backward: Backward
    """``backward(d_output)`` returns a gradient, or None, for each edge."""
    model_line: tuple[str, int] | None
    """The file and line of the model's code that called the operation."""


class Watcher:
    """Observes the steps of a model that runs inside ``with watching(...)``.

    Parameters
    ----------
    model : Module
        The model.
    see : callable, optional
        ``see(call)`` is called with each `Call`. It returns None, or ``(value, backward)`` to replace the step's value
        and backward pass.
    see_value : callable, optional
        ``see_value(key, value)`` is called with each `Value` inside the passes that run in ``with tracing_lines()``,
        when its line is done. It may write into ``value.array``.
    see_backward : callable, optional
        ``see_backward(call, d_output, gradients)`` is called when the backward pass of a step is done.
    """

    def __init__(
        self,
        model: Module,
        see: Callable[[Call], tuple[Array, Backward] | None] | None = None,
        see_value: Callable[[str, Value], None] | None = None,
        see_backward: Callable[[Call, Array, Sequence[Array | None]], None] | None = None,
    ) -> None:
        self.see, self.see_value, self.see_backward = see, see_value, see_backward
        self._places: dict[int, str] = {}
        for place, module in modules(model):
            self._places.setdefault(id(module), place)
        # By id; the reference prevents reuse of the id.
        self._keys: dict[int, tuple[Tensor | Node, str]] = {
            id(parameter): (parameter, name) for name, parameter in model.named_parameters()
        }
        self._steps: Counter[str] = Counter()
        self._values: Counter[str] = Counter()
        self._backward: str | None = None

    def forget(self) -> None:
        """Drop the graph and the observers, which refer to the watcher: a cycle would keep their arrays in memory."""
        self.see = self.see_value = self.see_backward = None
        self._keys.clear()

    def running(self) -> str | None:
        """Return the key of the step whose forward or backward pass is running."""
        return self._running(sys._getframe(1))

    def key_of(self, target: Tensor | Node) -> str | None:
        """Return the key of a parameter, or of the step that has made a tensor or node; None if it is unknown."""
        return self._keys.get(id(target), (None, None))[1]

    def in_backward(self) -> bool:
        """Return whether the backward pass of a step is running."""
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
            if code.co_argcount:
                first = code.co_varnames[0]
                place = self._places.get(id(frame.f_locals.get(first)))
                # In a function that replaces a method, the part has another name. Functions that run a model are none.
                if place or (place is not None and first == "self"):
                    return place, (code.co_filename, frame.f_lineno)
            frame = frame.f_back
        return "", None

    def _see_step(
        self, operation: Operation | str, given: Sequence[Any], options: Mapping[str, Any], tensor: Tensor
    ) -> None:
        place, line = self._locate(sys._getframe(1))
        name, node = operation if isinstance(operation, str) else operation.name, tensor._node
        key = _numbered(f"{place}/{name}", self._steps)
        inputs, others, names = self._inputs(operation, given) if self.see or self.see_backward else ([], {}, [])
        edges, backward = ((), _no_gradient) if node is None or node.backward is None else (node.edges, node.backward)
        call = Call(key, place, name, inputs, dict(options) | others, names, tensor._data, edges, backward, line)
        if self.see is not None and (other := self.see(call)) is not None:
            call.value, call.backward = other
            tensor._data = asarray(call.value)

        def run_backward(d_output: Array) -> Sequence[Array | None]:
            before, self._backward = self._backward, key
            try:
                gradients = call.backward(d_output)
            finally:
                self._backward = before
            if self.see_backward is not None:
                self.see_backward(call, d_output, gradients)
            return gradients

        self._keys[id(tensor)] = tensor, key
        if node is not None:
            node.backward = run_backward
            self._keys[id(node)] = node, key

    def _inputs(
        self, operation: Operation | str, given: Sequence[Any]
    ) -> tuple[list[Input], dict[str, Any], list[str]]:
        """Return what a step was given: its arrays, all others, and the names of both in order."""
        if isinstance(operation, Operation):
            names = list(operation.signature.parameters)
        elif operation in RULES:
            names = _rule_inputs(operation)
        else:  # concatenate
            names = [f"tensors[{i}]" for i in range(len(given))]
        inputs: list[Input] = []
        options: dict[str, Any] = {}
        for name, value in zip(names, given, strict=False):
            if isinstance(value, Tensor):
                inputs.append(Input(name, self.key_of(value), value._data))
            elif hasattr(value, "dtype"):
                inputs.append(Input(name, None, value))
            elif value is not None:
                options[name] = value
        return inputs, options, names

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Observe the steps of the ``with`` block, in this thread."""
        with watching_operations(self._see_step):
            yield

    @contextmanager
    def tracing_lines(self) -> Iterator[None]:
        """Report the values inside the passes that run in the ``with`` block."""
        before = sys.gettrace()
        try:
            sys.settrace(LineTracer(self._running, self._see_value))
            yield
        finally:
            sys.settrace(before)

    def _see_value(self, value: Value) -> None:
        assert self.see_value is not None
        self.see_value(_numbered(f"{value.step}:{value.function}.{value.name}", self._values), value)


def _no_gradient(d_output: Array) -> Sequence[Array | None]:
    return ()


@cache
def _rule_inputs(name: str) -> list[str]:
    return list(inspect.signature(RULES[name].forward).parameters)


def _numbered(key: str, counts: Counter[str], advance: bool = True) -> str:
    """Return the key, with a number from the second time on: ``/add``, ``/add.2``."""
    n = counts[key] + 1
    if advance:
        counts[key] = n
    return key if n == 1 else f"{key}.{n}"


@contextmanager
def watching(model: Module, **options: Any) -> Iterator[Watcher]:
    """Observe the steps of a model that runs inside the ``with`` block, in this thread; arguments as for `Watcher`."""
    watcher = Watcher(model, **options)
    try:
        with watcher.in_place():
            yield watcher
    finally:
        watcher.forget()


class Run(NamedTuple):
    """The results of a forward pass of a model."""

    objective: Tensor
    logits: Tensor


def predict(model: Module, source_ids: Any, target_ids: Any) -> Tensor:
    """Return the logits of a model; a decoder alone, which has no source, is given None."""
    given = (target_ids,) if source_ids is None else (source_ids, target_ids)
    logits: Tensor = model(*given)  # type: ignore[operator]
    return logits


def run(
    model: Module,
    source_ids: Any,
    target_ids: Any,
    objective: Objective | None = None,
    see: Callable[[Call], tuple[Array, Backward] | None] | None = None,
    change: Mapping[str, Callable[[Array], None]] | None = None,
) -> Run:
    """Run a model forward, without dropout, and report its steps.

    Parameters
    ----------
    model : Module
        The model: a ``twin``, if gradients follow, so that they do not reach the model itself.
    source_ids, target_ids : integer arrays, shapes (B, Tk) and (B, Tq + 1)
        The sentences; the target with start and end token. The source of a decoder alone is None.
    objective : Objective, optional
        By default the loss.
    see : callable, optional
        As for `Watcher`: ``see(call)`` returns None, or a new value and backward pass.
    change : mapping, optional
        By the key of a value inside a forward pass: a function that writes into its array when its line is done.

    Raises
    ------
    ValueError
        If a value to be changed shares memory with a parameter, which would remain changed.
    """
    change = change or {}
    steps = {key.partition(":")[0] for key in change}

    def change_value(key: str, value: Value) -> None:
        if key in change:
            for name, parameter in model.named_parameters():
                if xp.may_share_memory(value.array, parameter._data):
                    raise ValueError(f"run: {key} shows the parameter {name}; change the parameter instead")
            change[key](value.array)

    def traced(forward: Callable[..., Any]) -> Callable[..., Any]:
        def trace_forward(*arrays: Any, **options: Any) -> Any:
            if watcher.in_backward() or watcher.running() not in steps:
                return forward(*arrays, **options)
            with watcher.tracing_lines():
                return forward(*arrays, **options)

        return trace_forward

    # Lines are traced in the steps of interest only: tracing the whole pass takes twice the time.
    operations = [one for name, one in ops.registry.items() if any(f"/{name}" in step for step in steps)]
    with watching(model, see=see, see_value=change_value) as watcher, ExitStack() as stack:
        for one in operations:
            stack.enter_context(override_in_this_thread(one, forward=traced(one.forward)))
        logits = predict(model, source_ids, target_ids[:, :-1])
        return Run((objective or Loss())(logits, target_ids[:, 1:]), logits)
