"""Copies of a model that share its values, so that a trace changes nothing in the model."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, TypeVar

from minitransformer.arrays import Array
from minitransformer.nn import ModelOptions, Module, Parameter

__all__ = ["check_model", "in_double", "modules", "twin"]

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
    parameters: dict[int, Parameter] = {}
    options: dict[int, ModelOptions] = {}  # layers share theirs

    def convert(value: Any) -> Any:
        if isinstance(value, Parameter):
            if id(value) not in parameters:
                array: Array = value._data  # reading .data would mark the array as possibly modified
                parameters[id(value)] = Parameter(array if dtype is None else array.astype(dtype))
                parameters[id(value)].requires_grad = value.requires_grad
            return parameters[id(value)]
        if isinstance(value, Module):
            other = copy.copy(value)
            vars(other).update({name: convert(part) for name, part in vars(value).items()})
            if "training" in vars(other):
                vars(other)["training"] = False
            return other
        if isinstance(value, list):
            return [convert(part) for part in value]
        if isinstance(value, ModelOptions):
            if id(value) not in options:
                changes = {} if dtype is None else {"dtype": dtype}
                options[id(value)] = value.changed(recompute=False, attention_block=None, **changes)
            return options[id(value)]
        return value

    result: M = convert(model)
    return result


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
