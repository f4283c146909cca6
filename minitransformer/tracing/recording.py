"""Run a model on sentences and record every value and gradient."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import numpy as np

from minitransformer.arrays import Array, backend, to_numpy, use, uses_kernels, using
from minitransformer.nn import Model, Module
from minitransformer.tracing.editing import Editor, layout_of
from minitransformer.tracing.lines import Value
from minitransformer.tracing.objectives import Objective, as_arguments
from minitransformer.tracing.sources import rule_sources, sources
from minitransformer.tracing.twin import twin
from minitransformer.tracing.values import Line, Part, Step, Trace, TracedParameter, Visit
from minitransformer.tracing.watching import Call, Input, Watcher, predict, watching

LARGE = 2**20
"""The least bytes of a table whose rows of zeros take no memory in a copy."""


class _Recorder:
    """Fills a trace while the model runs."""

    def __init__(self, model: Module, filled: Trace) -> None:
        self.trace, self._parameters = filled, list(model.named_parameters())
        self.watcher = Watcher(model)
        self._sources = sources()
        self._lines: defaultdict[str, list[Line]] = defaultdict(list)
        self._steps: dict[str, Step] = {}
        self._parts: defaultdict[str, list[Part]] = defaultdict(list)
        # Arrays of the forward pass by id; the reference prevents reuse of the id.
        self._forward: dict[int, tuple[Any, str]] = {}
        self._owners: dict[int, Any] = {}
        self._gradients: dict[str, Array] = {}
        # Copies that the backward pass of one step has made, by the id of the original.
        self._copies: dict[int, tuple[Any, Array]] = {}
        for name, parameter in self._parameters:
            array = parameter._data
            self._owners[id(_owner(array))] = _owner(array)
            self._forward[id(array)] = array, name
            filled.arrays[name] = to_numpy(array)

    def see(self, call: Call) -> None:
        """Record a step whose value has been computed."""
        arrays = self.trace.arrays
        inputs = [
            Input(name, key, arrays[key] if key in arrays else self._copy(array)) for name, key, array in call.inputs
        ]
        step = Step(call.key, call.place, call.name, inputs, call.options, self._copy(call.value), call.model_line)
        step.forward = [*self._constants(call, inputs), *self._lines.pop(call.key, [])]
        arrays[call.key] = step.output
        self._forward[id(call.value)] = call.value, call.key
        self._steps[call.key] = step
        self.trace.steps.append(step)

    def _constants(self, call: Call, inputs: Sequence[Input]) -> Iterator[Line]:
        """Record the arrays that neither a step nor a parameter holds, such as positions and masks."""
        source = self._sources.get(call.name) or self._sources.get(f"{call.name}.forward")
        for name, key, array in inputs:
            inner = f"{call.key}:{call.name}.{name}"
            if key is None and source is not None and inner not in self.trace.arrays:
                self.trace.arrays[inner] = array
                word = rf"\b{name.partition('[')[0]}\b"
                place = next((i for i, text in enumerate(source.lines) if re.search(word, text)), 0)
                yield Line(source.first + place, name, inner, array, call.name, 0)

    def see_value(self, key: str, value: Value) -> None:
        """Record a value inside a pass."""
        if not self.watcher.in_backward():
            self._forward[id(value.array)] = value.array, key
        elif id(value.array) in self._forward:  # out of saved
            _, key = self._forward[id(value.array)]
        if key not in self.trace.arrays:
            self.trace.arrays[key] = self._copy(value.array)
        array = self.trace.arrays[key]
        self._lines[value.step].append(Line(value.line, value.name, key, array, value.function, value.depth))

    def see_backward(self, call: Call, d_output: Array, gradients: Sequence[Array | None]) -> None:
        """Record a step whose backward pass is done."""
        self._take_gradients()
        step, arrays = self._steps[call.key], self.trace.arrays
        parts = self._parts.pop(call.key, [])
        step.d_output = arrays[f"d:{call.key}"] = self._copy(d_output, parts)
        step.backward = self._lines.pop(call.key, [])
        self.trace.walk.append(Visit(call.key, parts))
        for name, edge, gradient in zip(call.names, call.edges, gradients, strict=False):
            if edge is None or gradient is None:
                continue
            key = self.watcher.key_of(edge.target)
            part = Part(call.key, name, _same_view(gradient, d_output, step.d_output, self._copy))
            if key is not None:
                self._parts[key].append(part)
            if call.name in rule_sources():  # its gradients are not bound to names
                inner, line = f"{call.key}:{call.name}.d_{name}", rule_sources()[call.name].first
                arrays[inner] = part.gradient
                step.backward.append(Line(line, f"d_{name}", inner, part.gradient, call.name, 0))
        self._copies.clear()

    def _take_gradients(self) -> None:
        """Take the gradients of parameters off them, so that none is in memory twice; the graph adds to each once."""
        for name, parameter in self._parameters:
            if parameter.grad is not None:
                found, parts = to_numpy(parameter.grad), self._parts[name]
                known = parts[0].gradient if len(parts) == 1 else found
                self._gradients[name] = known if _same(known, found) else found
                parameter.grad = None

    def finish(self) -> None:
        """Record the parameters, whose gradients are now complete."""
        visits = self.trace.walk
        self._take_gradients()
        after: defaultdict[str, list[Visit]] = defaultdict(list)
        for name, _ in self._parameters:
            parts, gradient = self._parts[name], self._gradients.get(name)
            self.trace.parameters[name] = TracedParameter(self.trace.arrays[name], gradient)
            if gradient is not None:
                self.trace.arrays[f"d:{name}"] = gradient
                after[parts[-1].key].append(Visit(name, parts))
        self.trace.walk = [one for visit in visits for one in (visit, *after[visit.key])]

    def _copy(self, array: Any, parts: Sequence[Part] = ()) -> Array:
        """Return a copy of an array on the host; a parameter, or a view of one, as it is.

        A copy that exists already is returned again if the array still equals it: copies of the gradients of large
        tables take most of the time and memory of a trace. It may be the only one of the parts of a gradient.
        """
        host: Array = to_numpy(array)
        if id(_owner(array)) in self._owners:
            return host
        _, known = self._copies.get(id(array), (None, parts[0].gradient if len(parts) == 1 else None))
        if known is None or not _same(known, host):
            known = _copied(host) if host is array else host
        if self.watcher.in_backward():
            self._copies[id(array)] = array, known
        return known


def _same_view(array: Any, original: Any, copy: Array, make: Callable[[Any], Array]) -> Array:
    """Return what a transposed or reshaped view of an array shows of its copy; of any other array, what is made."""
    if isinstance(array, np.ndarray) and isinstance(original, np.ndarray) and copy.strides == original.strides:
        starts = {one.__array_interface__["data"][0] for one in (array, original)}
        if len(starts) == 1 and array.nbytes == original.nbytes and array is not original:
            return np.lib.stride_tricks.as_strided(copy, array.shape, array.strides)
    return make(array)


def _copied(array: Array) -> Array:
    """Return a copy; rows of zeros of a large table, whose tokens have no gradient, take no memory."""
    if array.ndim != 2 or array.nbytes < LARGE or not array.flags.c_contiguous:
        return np.array(array, order="K")
    copy, rows = np.zeros(array.shape, array.dtype), array.any(axis=1)
    copy[rows] = array[rows]
    return copy


def _same(x: Array, y: Array) -> bool:
    """Return whether two arrays have the same bits."""
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    bits = f"u{x.dtype.itemsize}"
    return bool((x.view(bits) == y.view(bits)).all())


def _owner(array: Any) -> Any:
    """Return the array of which an array is a view."""
    while isinstance(getattr(array, "base", None), type(array)):
        array = array.base
    return array


@contextmanager
def without_kernels() -> Iterator[None]:
    """Run the reference implementations, whose lines can be traced, instead of CUDA kernels."""
    if not uses_kernels():
        yield
        return
    name = backend()
    with using(name):
        use(name, kernels=False)
        yield


def trace(
    model: Model, source_ids: Any, target_ids: Any = None, objective: Objective | None = None, edits: Sequence[Any] = ()
) -> Trace:
    """Return every value and gradient of one forward and backward pass, by name.

    There is no dropout, and the model does not change: neither its parameters nor their gradients.

    Parameters
    ----------
    model : Transformer or LanguageModel
        The model.
    source_ids : integer array, shape (B, Tk)
        The source; 0 is padding. Of a ``LanguageModel``, the text, with the shape of a target.
    target_ids : integer array, shape (B, Tq + 1)
        The target with start and end token: each token but the last is an input, each but the first is predicted.
        A ``LanguageModel`` has none.
    objective : Objective, optional
        The number that is differentiated; by default ``Loss()``.
    edits : sequence of Edit, optional
        What is changed in the copy of the model that runs.

    Returns
    -------
    Trace

    Raises
    ------
    TypeError
        If the objective is not an `Objective`.
    ValueError
        If the ids are not matrices, the target has fewer than two tokens, or an edit does not fit the model.
    IndexError
        If an id is out of range, or the objective names a position or token that does not exist.
    RuntimeError
        Under ``no_grad``, where there are no gradients.

    Examples
    --------
    >>> from minitransformer.nn import Transformer
    >>> model = Transformer(5, 5, d_model=4, n_heads=2, n_layers=1, d_ff=8)
    >>> found = trace(model, [[3, 4]], [[1, 3, 4, 2]])
    >>> name = "decoder.layers.0.cross_attention/multi_head_attention:softmax.y"
    >>> found[name].shape  # (B, H, Tq, Tk)
    (1, 2, 3, 2)
    >>> found["d:encoder.layers.0.feed_forward.w1"].shape
    (4, 8)
    """
    source_ids, target_ids, objective = as_arguments("trace", model, source_ids, target_ids, objective)
    other = twin(model)
    watch: Callable[..., AbstractContextManager[Watcher]] = partial(watching, other)
    if edits:
        watch = Editor(other, edits, layout_of(other, source_ids, target_ids, objective)).watching
    result = Trace(source_ids, target_ids, objective)
    recorder = _Recorder(other, result)
    watched = watch(see=recorder.see, see_value=recorder.see_value, see_backward=recorder.see_backward)
    with without_kernels(), watched as recorder.watcher, recorder.watcher.tracing_lines():
        logits = predict(other, source_ids, target_ids[:, :-1])
        value = objective(logits, target_ids[:, 1:])
        if value.requires_grad:
            value.backward()
    result.value, result.logits = value.item(), to_numpy(logits.data)
    recorder.finish()
    return result
