"""Changes of a model while it runs: an entry overwritten, a head switched off, a mask changed, a temperature.

An edit is exact in the backward pass too. An overwritten entry is a constant: it has a gradient with respect to the
written value, but passes none on to its inputs. With f the change of an array and d the gradient of the changed array:

    overwrite     y = x, but y_i = c         d_x = d, but d_x_i = 0
    temperature   y = x / T                  d_x = d / T
    mask          the softmax's own          0 where nothing is seen

Where each acts is part of the computation, so the order of a list of edits matters only where two write to one entry:
the later one holds. In an attention: mask, temperature, softmax, weights, sum, heads. At a step's output: temperature,
sub-layer off, entries.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from minitransformer.arrays import Array, is_whole, xp

SUBLAYERS = ("self_attention", "cross_attention", "feed_forward")
"""The names of sub-layers: the last words of their places."""
SITES = ("parameter", "mask", "scores", "weights", "heads", "output")

Function = Callable[[Array], Array]


@dataclass(frozen=True)
class Layout:
    """The parts of a model that can be edited, for sentences of one length."""

    outputs: dict[str, tuple[int, ...]]
    """The shape of each step's output, by its key."""
    parameters: dict[str, tuple[int, ...]]
    """The shape of each parameter, by its name."""
    weights: dict[str, tuple[int, ...]]
    """The shape (B, H, Tq, Tk) of the attention weights of each step that has some."""
    dtype: Any
    """The type of parameters and activations."""

    def shape(self, owner: Any, key: str) -> tuple[int, ...]:
        """Return the shape of a step's output or of a parameter."""
        return _find(owner, key, self.outputs | self.parameters, "step or parameter")

    def weights_shape(self, owner: Any, step: str) -> tuple[int, ...]:
        """Return the shape of an attention's weights."""
        return _find(owner, step, self.weights, "attention")

    def sublayers(self) -> dict[str, str]:
        """Return the last step of each sub-layer, by its place."""
        places = ((key.rpartition("/")[0], key) for key in self.outputs)
        return {place: key for place, key in places if place.rpartition(".")[2] in SUBLAYERS}

    def layers(self) -> dict[str, list[str]]:
        """Return the places of the sub-layers of each layer, by its place."""
        found: dict[str, list[str]] = {}
        for place in self.sublayers():
            found.setdefault(place.rpartition(".")[0], []).append(place)
        return found


class Change(NamedTuple):
    """What an edit does to one array."""

    site: str
    """Where in the computation: one of ``SITES``."""
    key: str
    """Of the step or parameter."""
    forward: Function
    """Returns the changed array; its argument stays as it is."""
    backward: Function
    """Returns the gradient of the array before the change from that after it; its argument stays as it is."""


class Edit(ABC):
    """A change of a model while it runs."""

    @abstractmethod
    def changes(self, layout: Layout) -> Iterator[Change]:
        """Yield the changes of the edit, after checking that it fits the model.

        Raises
        ------
        ValueError
            If a key is unknown, an index out of range, or a value not a finite number.
        """


@dataclass(frozen=True)
class SetEntry(Edit):
    """Overwrite one entry of a step's output or of a parameter.

    Parameters
    ----------
    key : str
        The step, or the parameter's name.
    index : tuple of int
        One number for each axis.
    value : float
        The new value.
    """

    key: str
    index: tuple[int, ...]
    value: float

    def changes(self, layout: Layout) -> Iterator[Change]:
        """Yield the changes of the edit."""
        check_index(self, self.index, layout.shape(self, self.key), self.key)
        site = "parameter" if self.key in layout.parameters else "output"
        yield _overwrite(site, self.key, self.index, _check_value(self, self.value, layout.dtype))


@dataclass(frozen=True)
class SetWeight(Edit):
    """Overwrite one attention weight before the weighted sum; the others of its row do not change.

    Parameters
    ----------
    step : str
        The step of the attention.
    index : tuple of int
        Sentence, head, query and key.
    value : float
        The new value.
    """

    step: str
    index: tuple[int, int, int, int]
    value: float

    def changes(self, layout: Layout) -> Iterator[Change]:
        """Yield the changes of the edit."""
        check_index(self, self.index, layout.weights_shape(self, self.step), f"the weights of {self.step}")
        yield _overwrite("weights", self.step, self.index, _check_value(self, self.value, layout.dtype))


@dataclass(frozen=True)
class HeadOff(Edit):
    """Set the output of one attention head to 0.

    Parameters
    ----------
    step : str
        The step of the attention.
    head : int
        Which head.
    """

    step: str
    head: int

    def changes(self, layout: Layout) -> Iterator[Change]:
        """Yield the changes of the edit."""
        n_heads = layout.weights_shape(self, self.step)[1]
        if not is_whole(self.head) or not 0 <= self.head < n_heads:
            raise ValueError(f"{self}: expected a head from 0 to {n_heads - 1}, found {self.head!r}")
        yield _overwrite("heads", self.step, (..., self.head, slice(None), slice(None)), 0.0)


@dataclass(frozen=True)
class SublayerOff(Edit):
    """Set the output of an attention or feed-forward sub-layer to 0, so that only the residual connection remains.

    Parameters
    ----------
    place : str
        The sub-layer, ``encoder.layers.0.feed_forward`` for example.
    """

    place: str

    def changes(self, layout: Layout) -> Iterator[Change]:
        """Yield the changes of the edit."""
        step = _find(self, self.place, layout.sublayers(), "sub-layer")
        yield _overwrite("output", step, ..., 0.0)


@dataclass(frozen=True)
class LayerOff(Edit):
    """Set the outputs of all sub-layers of a layer to 0; its layer normalisations remain.

    Parameters
    ----------
    place : str
        The layer, ``encoder.layers.0`` for example.
    """

    place: str

    def changes(self, layout: Layout) -> Iterator[Change]:
        """Yield the changes of the edit."""
        for sublayer in _find(self, self.place, layout.layers(), "layer"):
            yield from SublayerOff(sublayer).changes(layout)


@dataclass(frozen=True)
class Temperature(Edit):
    """Divide the input of a softmax by a temperature: an attention's scores, or the logits.

    Parameters
    ----------
    step : str
        The step of an attention, or ``/linear`` for the logits.
    value : float
        Above 0. The higher, the more equal the weights.
    """

    step: str
    value: float

    def changes(self, layout: Layout) -> Iterator[Change]:
        """Yield the changes of the edit."""
        steps = {**layout.weights, **{key: () for key in layout.outputs if key == LOGITS}}
        _find(self, self.step, steps, "softmax at")
        value = _check_value(self, self.value, layout.dtype)
        if np.asarray(value, dtype=layout.dtype) <= 0:
            raise ValueError(f"{self}: expected a temperature above 0, found {value}")

        def divide(x: Array) -> Array:
            return x / value

        yield Change("output" if self.step == LOGITS else "scores", self.step, divide, divide)


LOGITS = "/linear"
"""The step whose output is the logits."""


@dataclass(frozen=True)
class SetMask(Edit):
    """Allow or forbid a query to see a key, in every sentence and head.

    Parameters
    ----------
    step : str
        The step of the attention.
    index : tuple of int
        Query and key.
    visible : bool
        True = may attend.
    """

    step: str
    index: tuple[int, int]
    visible: bool

    def changes(self, layout: Layout) -> Iterator[Change]:
        """Yield the changes of the edit."""
        check_index(self, self.index, layout.weights_shape(self, self.step)[2:], f"the mask of {self.step}")
        if not isinstance(self.visible, bool | np.bool_):
            raise ValueError(f"{self}: expected visible True or False, found {self.visible!r}")
        yield _overwrite("mask", self.step, (..., *self.index), bool(self.visible))


def changes_of(edits: Sequence[Edit], layout: Layout) -> dict[str, dict[str, list[Change]]]:
    """Return what edits do: site -> key -> changes, in the order in which they act.

    Raises
    ------
    TypeError
        If one is not an edit.
    ValueError
        If one does not fit the model.
    """
    if not isinstance(edits, Iterable):
        raise TypeError(f"edits: expected a list of edits, found {edits!r}")
    edits = list(edits)
    for edit in edits:
        if not isinstance(edit, Edit):
            kinds = ", ".join(kind.__name__ for kind in Edit.__subclasses__() if kind.__module__ == __name__)
            raise TypeError(f"edits: expected {kinds}, found {type(edit).__name__}")
    found: dict[str, dict[str, list[Change]]] = {site: {} for site in SITES}
    for edit in sorted(edits, key=_rank):
        for change in edit.changes(layout):
            found[change.site].setdefault(change.key, []).append(change)
    return found


def _rank(edit: Edit) -> int:
    """Return the order in which edits of one output act: what overwrites a single entry comes last."""
    return 2 if isinstance(edit, SetEntry) else 1 if isinstance(edit, SublayerOff | LayerOff) else 0


def _overwrite(site: str, key: str, index: Any, value: Any) -> Change:
    """Return the change that writes a constant into an array."""

    def write(x: Array, constant: Any) -> Array:
        if isinstance(index, tuple) and any(
            is_whole(i) and i >= n for i, n in zip(index[::-1], x.shape[::-1], strict=False)
        ):
            return x  # a position that is not written yet
        x = xp.array(x)
        x[index] = constant
        return x

    return Change(site, key, lambda x: write(x, value), lambda d: write(d, 0))


def _find(owner: Any, key: Any, known: dict[str, Any], kind: str) -> Any:
    if not isinstance(key, str) or key not in known:
        raise ValueError(f"{owner}: this model has no {kind} {key!r}; it has {some(known)}")
    return known[key]


def some(names: Iterable[str]) -> str:
    """Return names for a message: all if they are few."""
    names = list(names)
    return ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:3])}, ... and {len(names) - 3} others"


def check_index(owner: Any, index: Any, shape: tuple[int, ...], what: str) -> None:
    """Raise an error unless this is the index of an entry; the message begins with its owner."""
    whole = isinstance(index, tuple) and all(map(is_whole, index)) and len(index) == len(shape)
    if not whole or not all(0 <= i < n for i, n in zip(index, shape, strict=True)):
        raise ValueError(
            f"{owner}: the index of an entry of {what} has {len(shape)} whole numbers, from 0 to "
            f"{tuple(n - 1 for n in shape)}; found {index!r}"
        )


def _check_value(edit: Edit, value: Any, dtype: Any) -> float:
    """Return a finite number that the model's type can hold."""
    number = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    with np.errstate(over="ignore"):
        if not number or not isfinite(float(np.asarray(value, dtype=dtype))):
            raise ValueError(f"{edit}: expected a finite number that {np.dtype(dtype)} can hold, found {value!r}")
    return float(value)
