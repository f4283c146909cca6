"""Libraries of arrays whose functions can be checked: ``ours.py`` and ``others.py``; ``base.py`` says what each needs.

A library is recognised by its arrays, among the inputs or as the value, so none of them is imported here.
"""

import copy
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitransformer.autograd import Operation
from minitransformer.testing.adapters.base import Adapter, fresh
from minitransformer.testing.adapters.others import Autograd, Jax, MyGrad, PyTorch
from minitransformer.testing.adapters.ours import Plain, Tensors, around_each_pass
from minitransformer.testing.layout import leaves, rebuild

__all__ = ["Adapter", "Autograd", "Jax", "MyGrad", "Plain", "PyTorch", "Tensors"]
__all__ += ["around_each_pass", "find_adapter", "fresh"]

LIBRARIES: tuple[Adapter, ...] = (PyTorch(), Jax(), MyGrad())


def find_adapter(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    backward: Callable[..., Any] | None = None,
    options: dict[str, Any] | None = None,
) -> Adapter:
    """Return the adapter for a function of these inputs; without a known library, that of our tensors."""
    if backward is not None:
        return Plain(backward, options)
    known = _of(LIBRARIES, inputs)
    if known is not None:
        return known
    # Functions of these libraries take NumPy arrays too; then only the value tells.
    # NumPy arrays, which autograd's functions return, may also be among the outputs of another library.
    candidates = [library for library in (*LIBRARIES, Tensors(), Autograd()) if library.name in sys.modules]
    if len(candidates) == 1 or isinstance(function, Operation) or _of([Tensors()], inputs) is not None:
        return Tensors()
    for library in candidates:
        function = library.prepare(function)
    try:
        value = function(*copy.deepcopy(list(inputs)), **fresh(options or {}))
    except Exception:  # it takes tensors, or the check itself will show the error
        return (
            next((library for library in (Tensors(), *candidates) if _runs(function, inputs, options, library)), None)
            or Tensors()
        )
    return _of(candidates, value) or Tensors()


def _runs(
    function: Callable[..., Any], inputs: Sequence[Any], options: dict[str, Any] | None, library: Adapter
) -> bool:
    """Return whether a function of NumPy arrays runs on arrays of a library instead, and returns some."""
    found = [leaf for _, leaf in leaves(list(inputs))]
    given = (
        library.like(x.copy(), x) if isinstance(x, np.ndarray) and x.dtype.kind in "fc" else copy.deepcopy(x)
        for x in found
    )
    try:
        return _of([library], function(*rebuild(list(inputs), given), **fresh(options or {}))) is not None
    except Exception:  # whatever the function raises
        return False


def _of(libraries: Sequence[Adapter], value: Any) -> Adapter | None:
    """Return the first library with an array in a value."""
    found = [leaf for _, leaf in leaves(value)]
    return next((library for library in libraries if any(map(library.recognises, found))), None)
