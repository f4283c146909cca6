"""Copies of a model that share its values, so that a trace changes nothing in the model."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, TypeVar

from minitransformer.arrays import Array
from minitransformer.nn import ModelOptions, Module, Parameter

M = TypeVar("M", bound=Module)


def twin(model: M, dtype: str | None = None) -> M:
    """Return a copy of a model with parameters of its own that hold the same arrays.

    Gradients of the copy do not reach the model. There is no dropout, no attention in blocks and no recomputation: a
    trace keeps every value.

    Parameters
    ----------
    model : Module
        The model.
    dtype : str, optional
        Convert the values to this type.
    """
    result: M = _Copier(dtype).copy(model)
    return result


class _Copier:
    """Copies modules, each shared parameter once. A nested function would be part of a cycle, and keep gradients."""

    def __init__(self, dtype: str | None) -> None:
        self.dtype = dtype
        self.parameters: dict[int, Parameter] = {}
        self.options: dict[int, ModelOptions] = {}  # layers share theirs

    def copy(self, value: Any) -> Any:
        """Return a copy of a module, parameter, options or list of them; any other value itself."""
        if isinstance(value, Parameter):
            if id(value) not in self.parameters:
                array: Array = value._data  # reading .data would mark the array as possibly modified
                new = Parameter(array if self.dtype is None else array.astype(self.dtype))
                new.requires_grad = value.requires_grad
                self.parameters[id(value)] = new
            return self.parameters[id(value)]
        if isinstance(value, Module):
            other = copy.copy(value)
            vars(other).update({name: self.copy(part) for name, part in vars(value).items()})
            if "training" in vars(other):
                vars(other)["training"] = False
            return other
        if isinstance(value, list):
            return [self.copy(part) for part in value]
        if isinstance(value, ModelOptions):
            if id(value) not in self.options:
                changes = {} if self.dtype is None else {"dtype": self.dtype}
                self.options[id(value)] = value.changed(recompute=False, attention_block=None, **changes)
            return self.options[id(value)]
        return value


def in_double(model: M) -> M:
    """Return a copy of a model in float64, for gradients that are compared with finite differences."""
    check_model("in_double", model)
    return twin(model, "float64")


def check_model(function: str, model: Any) -> None:
    """Raise a TypeError unless a value is a model."""
    if not isinstance(model, Module):
        raise TypeError(f"{function}: expected a model, found {type(model).__name__}; that of a run is run.model")


def modules(model: Module, prefix: str = "") -> Iterator[tuple[str, Module]]:
    """Yield a model and every part of it, with its path: ``encoder.layers.0.self_attention``."""
    yield prefix, model
    before = f"{prefix}." if prefix else ""
    for name, value in vars(model).items():
        if isinstance(value, Module):
            yield from modules(value, before + name)
        elif isinstance(value, list):
            for i, part in enumerate(value):
                if isinstance(part, Module):
                    yield from modules(part, f"{before}{name}.{i}")
