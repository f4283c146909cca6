"""A gradient of a model, compared with central differences of the same entry for many step sizes.

    D(h) = (L(x + h) - L(x - h)) / 2h

Its error falls as h² until rounding, about ε |L| / h, dominates. The estimate is D at the step whose successor differs
least; the gradient plays no part in this choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np

from minitransformer import ops
from minitransformer.arrays import Array, xp
from minitransformer.autograd import Tensor, no_grad
from minitransformer.decoding import Diverged
from minitransformer.nn import Model, Transformer
from minitransformer.override import override_in_this_thread
from minitransformer.testing.steps import relative_error
from minitransformer.tracing.editing import Editor, See, layout_of
from minitransformer.tracing.edits import Edit, check_index, some
from minitransformer.tracing.lines import Value
from minitransformer.tracing.objectives import Objective, as_arguments
from minitransformer.tracing.twin import twin
from minitransformer.tracing.values import Line, gradient_inside
from minitransformer.tracing.watching import Backward, Call, Watcher, predict

STEPS = tuple(10.0**-n for n in range(1, 13))
TOLERANCE = 1e-6
"""The relative error that rounding alone may cause; smaller gradients are compared with this noise."""
TOKENS = 2048
"""The number of tokens computed at a time."""
LOGITS = 2**23
"""The number of logits computed at a time; with a large vocabulary they take most of the memory."""
EPS = float(np.finfo(np.float64).eps)


class Point(NamedTuple):
    """A central difference of one step size."""

    h: float
    estimate: float
    error: float
    """Relative to the gradient or the estimate, whichever is larger, as ``Difference.relative_error``."""


@dataclass(frozen=True)
class Difference:
    """The gradient of one entry, and its finite differences."""

    value: float
    """The entry."""
    gradient: float
    """From the backward pass."""
    estimate: float
    """The central difference."""
    relative_error: float
    """The difference of gradient and estimate, relative to the larger of the two; or to a million times the rounding
    error of the estimate where that is larger, so that rounding alone causes about 1e-6 at most."""
    curve: tuple[Point, ...]
    """For each step size, the largest first."""


def difference(
    model: Model,
    source_ids: Any,
    target_ids: Any,
    objective: Objective | None,
    edits: Sequence[Edit],
    key: str,
    index: tuple[int, ...],
    steps: Sequence[float] | None = None,
) -> Difference:
    """Compare the gradient of one entry with central differences.

    Parameters
    ----------
    model : Transformer or LanguageModel
        The model, in float64: ``in_double(model)``.
    source_ids, target_ids, objective
        As for `run`.
    edits : sequence of Edit
        The changes of the model.
    key : str
        A step, for its output; a parameter; or a value inside a forward pass whose gradient the backward pass computes
        under the same name with the prefix ``d_``.
    index : tuple of int
        One number for each axis.
    steps : sequence of float, optional
        The step sizes h; by default the powers of ten from 1e-1 to 1e-12. Steps that do not change the entry, or make
        the objective infinite, are left out.

    Returns
    -------
    Difference

    Raises
    ------
    ValueError
        If the model is not in float64, there is no such key or entry, or an edit does not fit the model.
    IndexError, TypeError, RuntimeError
        As for ``trace``.
    Diverged
        If the objective is not a finite number.
    """
    source_ids, target_ids, objective = as_arguments("difference", model, source_ids, target_ids, objective)
    if model.options.dtype != "float64":
        raise ValueError(
            f"difference: the model computes in {model.options.dtype}, too coarse for finite differences; "
            "pass in_double(model)"
        )
    sizes = sorted(STEPS if steps is None else steps, reverse=True)
    if not sizes or not all(isfinite(h) and h > 0 for h in sizes):
        raise ValueError(f"difference: expected step sizes above 0, found {steps!r}")
    entry = _Entry(model, source_ids, target_ids, objective, edits, key, index)
    value, gradient, loss = entry.differentiate()
    if not isfinite(loss):
        raise Diverged(
            f"difference: the objective is {loss}: the model's training has diverged, or a token is impossible"
        )
    points = [(h, value + h, value - h) for h in sizes if 0 < (value + h) - (value - h) < inf]
    objectives = iter(entry.objectives([x for _, *sides in points for x in sides]))
    slopes = [(h, (next(objectives) - next(objectives)) / (high - low)) for h, high, low in points]
    found = [(h, slope) for h, slope in slopes if isfinite(slope)]
    if not found:
        raise ValueError(
            f"difference: steps of at most {sizes[0]} do not change {key}{list(index) or ''} = {value}, or change it "
            "so much that the objective is infinite; choose others"
        )
    rounding = [EPS * max(1.0, abs(loss)) / h for h, _ in found]
    changes = [abs(this[1] - following[1]) for this, following in pairwise(found)] or [0.0]
    best = int(np.argmin([change + noise for change, noise in zip(changes, rounding, strict=False)]))
    floor = rounding[best] / TOLERANCE
    curve = tuple(Point(h, slope, float(relative_error(gradient, slope, floor))) for h, slope in found)
    return Difference(value, gradient, curve[best].estimate, curve[best].error, curve)


class _Entry:
    """One entry of a model that runs on two sentences, and the objective as a function of it."""

    def __init__(
        self,
        model: Model,
        source_ids: Any,
        target_ids: Any,
        objective: Objective,
        edits: Sequence[Edit],
        key: str,
        index: tuple[int, ...],
    ) -> None:
        self._model = twin(model)
        self._source, self._target, self._objective = source_ids, target_ids, objective
        layout = layout_of(self._model, self._source, self._target, objective)
        self._editor = Editor(self._model, edits, layout)
        self._key, self._index = key, index
        self._parameter = dict(self._model.named_parameters()).get(key)
        self._step = str(key).partition(":")[0]
        self._is_inside = self._step != key and self._step in layout.outputs
        """Whether it is a value inside a forward pass."""
        if not self._is_inside:
            check_index("difference", index, layout.shape("difference", key), key)
        self._is_watched = self._parameter is None or bool(edits)
        self._memory: Array | None = None  # of the encoder, if it does not depend on the entry
        self._watcher: Watcher
        self._is_repeated = True
        """Whether the entry is repeated where the batch is."""

    @contextmanager
    def _watching(self, see: See | None, see_value: Callable[[str, Value], None] | None) -> Iterator[None]:
        if not self._is_watched:
            yield
            return
        with self._editor.watching(see, see_value=see_value) as self._watcher, self._tracing_lines():
            yield

    def _tracing_lines(self) -> AbstractContextManager[None]:
        """Replace one forward pass by one that traces its lines: tracing all steps would take much longer."""
        operation = ops.registry.get(self._step.rpartition("/")[2].partition(".")[0])
        if not self._is_inside or operation is None:
            return nullcontext()
        forward = operation.forward

        def trace_lines(*arrays: Any, **options: Any) -> Any:
            with self._watcher.tracing_lines() if self._watcher.running() == self._step else nullcontext():
                return forward(*arrays, **options)

        return override_in_this_thread(operation, forward=trace_lines)

    def _logits(self, n: int = 1) -> Tensor:
        """Return the logits of the batch, repeated n times."""
        target = np.tile(self._target[:, :-1], (n, 1))
        source = None if self._source is None else np.tile(self._source, (n, 1))
        if self._memory is None or not isinstance(self._model, Transformer):
            return predict(self._model, source, target)
        return self._model.decode(target, Tensor(xp.tile(self._memory, (n, 1, 1))), ops.padding_mask(source))

    def differentiate(self) -> tuple[float, float, float]:
        """Return the entry, its gradient by the backward pass, and the objective."""
        seen: dict[str, Array] = {}

        def see(call: Call) -> tuple[Array, Backward] | None:
            if self._parameter is not None and call.name not in ops.registry:
                # A rule that computes with the parameter, and is not only a view of it.
                used = any(_shares(one.array, self._parameter._data) for one in call.inputs)
                self._is_repeated &= not used or _shares(call.value, self._parameter._data)
            if call.key != self._step:
                return None
            step, seen[call.key], unchanged = call.key, call.value, call.backward

            def backward(d_output: Array) -> Sequence[Array | None]:
                seen[f"d:{step}"] = d_output  # a function that names the call would keep it, and its arrays, in a cycle
                with self._watcher.tracing_lines() if self._is_inside else nullcontext():
                    return unchanged(d_output)

            return call.value, backward

        def see_value(key: str, value: Value) -> None:
            line = Line(value.line, value.name, key, value.array.copy(), value.function, value.depth)
            (backward_lines if self._watcher.in_backward() else forward_lines).append(line)

        forward_lines: list[Line] = []
        backward_lines: list[Line] = []
        with self._editor.watching(see) if self._parameter is not None else self._watching(see, see_value):
            objective = self._objective(self._logits(), self._target[:, 1:])
            objective.backward(release=True)
        gradient_key = f"d:{self._key}"
        if self._is_inside:
            gradient_key = self._check_inside(forward_lines, backward_lines)
            seen = {line.key: line.array for line in (*forward_lines, *backward_lines)}
        elif self._parameter is not None:
            seen[self._key] = self._parameter._data
            if self._parameter.grad is not None:
                seen[gradient_key] = self._parameter.grad
        self._prepare(seen[self._key].shape)
        gradient = seen.get(gradient_key)  # none, if the objective does not depend on the entry
        at_entry = 0.0 if gradient is None else float(gradient.reshape(self._shape)[self._index])
        return float(seen[self._key][self._index]), at_entry, objective.item()

    def _check_inside(self, forward: list[Line], backward: list[Line]) -> str:
        """Return the key of the gradient of a value inside a pass; raise an error if it or the entry does not exist."""
        values = {line.key: line.array.shape for line in forward}
        if self._key not in values:
            raise ValueError(f"difference: {self._step} computes no {self._key}; it computes {some(values)}")
        found = gradient_inside(self._key, forward, backward)
        if found is None:
            others = [key for key in values if gradient_inside(key, forward, backward)]
            raise ValueError(
                f"difference: the backward pass of {self._step} computes no gradient of {self._key}; "
                f"it computes those of {some(others)}"
            )
        check_index("difference", self._index, values[self._key], self._key)
        return found

    def _prepare(self, shape: tuple[int, ...]) -> None:
        """Compute once what does not depend on the entry."""
        self._shape = shape
        self._is_repeated &= shape != ()
        if self._parameter is not None:
            self._parameter.data = self._parameter._data.copy()
            self._parameters = [parameter._data for parameter in self._model.parameters()]
        is_earlier = self._key.startswith(("encoder", "source_embedding"))
        if isinstance(self._model, Transformer) and not is_earlier:
            with no_grad(), self._editor.watching():
                self._memory = self._model.encode(self._source).data

    def objectives(self, values: Sequence[float]) -> list[float]:
        """Return the objective with each of these values as the entry."""
        if not self._is_repeated:
            return [self._alone(value) for value in values]
        logits = self._target.size * self._model.target_vocab
        tokens = self._target.size + (0 if self._source is None else self._source.size)
        n, found = max(1, min(TOKENS // tokens, LOGITS // logits)), []
        for first in range(0, len(values), n):
            found += self._side_by_side(values[first : first + n])
            if not self._is_repeated:
                return [self._alone(value) for value in values]
        return found

    def _alone(self, value: float) -> float:
        """Return the objective with a value as the entry, in a separate pass."""
        if self._parameter is None:
            [found] = self._side_by_side([value])
            return found
        self._parameter._data[self._index] = value
        with no_grad(), self._watching(None, None):
            return self._objective(self._logits(), self._target[:, 1:]).item()

    def _side_by_side(self, values: Sequence[float]) -> list[float]:
        """Return the objective for each of these values: one pass over a batch that is repeated for each."""
        # Without a graph attention computes long sentences in blocks, so its values are in several arrays.
        with nullcontext() if self._is_inside else no_grad():
            with self._splitting(values) if self._parameter is not None else self._writing(values):
                logits = self._logits(len(values)).data
            found = []
            for value, part in zip(values, xp.split(logits, len(values)), strict=True):
                with self._watching(None, None) if self._parameter is not None else self._writing([value]):
                    found.append(self._objective(Tensor(part), self._target[:, 1:]).item())
        return found

    @contextmanager
    def _splitting(self, values: Sequence[float]) -> Iterator[None]:
        """Give each repetition of the batch its own value of the parameter, in the operations that use it."""
        assert self._parameter is not None
        array = self._parameter._data
        n, rows, unchanged, running = len(values), len(self._target), array[self._index].item(), False

        def part(x: Any, i: int) -> Any:
            is_batch = getattr(x, "shape", ())[:1] == (n * rows,) and not any(
                map(partial(_shares, x), self._parameters)
            )
            return x[i * rows : (i + 1) * rows] if is_batch else x

        def split(forward: Callable[..., Any]) -> Callable[..., Any]:
            def run(*arrays: Any, **options: Any) -> Any:
                nonlocal running
                if running or not any(_shares(x, array) for x in arrays):
                    return forward(*arrays, **options)
                running, outputs = True, []
                for i, value in enumerate(values):
                    array[self._index] = value
                    outputs.append(forward(*(part(x, i) for x in arrays), **options)[0])
                array[self._index], running = unchanged, False
                return xp.concatenate(outputs), None

            return run

        with ExitStack() as stack:
            for one in ops.registry.values():
                stack.enter_context(override_in_this_thread(one, forward=split(one.forward)))
            with self._watching(None, None):
                yield

    def _writing(self, values: Sequence[float]) -> AbstractContextManager[object]:
        """Write each of these values into its repetition of the entry, while the model runs."""

        def write(array: Array) -> None:
            self._is_repeated = array.shape[:1] == tuple(n * len(values) for n in self._shape[:1])
            if len(values) == 1:
                array[self._index] = values[0]
            elif self._is_repeated:
                first, *others = self._index
                for i, value in enumerate(values):
                    array[(i * self._shape[0] + first, *others)] = value

        def see(call: Call) -> tuple[Array, Backward] | None:
            if call.key != self._key:
                return None
            output = call.value.copy()
            write(output)
            return output, call.backward

        def see_value(key: str, value: Value) -> None:
            if key == self._key:
                write(value.array)

        return self._watching(see, see_value)


def _shares(x: Any, array: Array) -> bool:
    """Return whether x is an array that is a view of another."""
    return isinstance(x, xp.ndarray) and bool(xp.may_share_memory(x, array))
