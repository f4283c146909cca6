"""What NumPy's functions and operators do with a tensor: ``array + tensor`` works, others say what to write instead."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

OPERATORS = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "power": "pow"}
OPERATORS |= {"matmul": "matmul"}
COMPARISONS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
OUR_NAMES = {"absolute": "abs", "amax": "max", "amin": "min"}
"""Functions that have another name here than in NumPy."""


def no_comparison(*_: object) -> Any:
    """Refuse to compare tensors: the values of both would leave the graph.

    Raises
    ------
    TypeError
        Always.
    """
    raise TypeError(
        "tensors cannot be compared: compare their .data (use `is` for the same tensor); "
        "mt.maximum(x, y) is the larger of each two entries, x.max() the largest entry"
    )


class ArrayUfunc:
    """The attribute ``__array_ufunc__`` of tensors.

    NumPy asks the class, and calls what it finds. CuPy asks the tensor: with None, ``array + tensor`` calls
    ``Tensor.__radd__``.
    """

    def __get__(self, tensor: object, owner: type) -> Callable[..., Any] | None:
        return _call_ufunc if tensor is None else None


def _call_ufunc(tensor: Any, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    name = ufunc.__name__
    if name in COMPARISONS:
        no_comparison()
    # `array += tensor` gives the array as out; the name then stands for a tensor
    if method == "__call__" and name in OPERATORS and (not options or _is_in_place(inputs, options)):
        x, y = inputs
        if isinstance(x, type(tensor)):
            return getattr(x, f"__{OPERATORS[name]}__")(y)
        return getattr(y, f"__r{OPERATORS[name]}__")(x)
    raise TypeError(_instead(name))


def _is_in_place(inputs: Any, options: dict[str, Any]) -> bool:
    return options.keys() == {"out"} and options["out"][0] is inputs[0]


def call_function(tensor: Any, function: Any, types: Any, inputs: Any, options: Any) -> Any:
    """Refuse a function of NumPy and say what to write; `np.shape`, `np.ndim` and `np.size` work."""
    name = function.__name__
    if name in ("shape", "ndim", "size") and inputs == (tensor,) and not options:
        return getattr(tensor, name)
    raise TypeError(_instead(name))


def _instead(name: str) -> str:
    """Return what to write instead of a function of NumPy."""
    ours = OUR_NAMES.get(name, name)
    core: Any = sys.modules["minitransformer.autograd"]  # which imports this file
    if ours not in core.PUBLIC:
        return f"np.{name} takes no Tensor: use .data, the values without their graph, or the functions of mt.Tensor"
    method = f" or x.{ours}(...)" if hasattr(core.Tensor, ours) else ""
    return f"np.{name} takes no Tensor: write mt.{ours}(...){method}"
