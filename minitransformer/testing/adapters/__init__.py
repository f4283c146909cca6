"""Libraries of arrays whose functions can be checked; each adapter is one short file.

====================  =======================================================================
``plain.py``          functions of arrays with a backward pass of their own: NumPy, CuPy
``tensors.py``        functions of this project's tensors
``pytorch.py``        functions of PyTorch tensors
====================  =======================================================================

A library is recognised by its arrays, so none of them is imported here.
"""

from collections.abc import Callable, Sequence
from typing import Any

from minitransformer.testing.adapters.base import Adapter, Malformed, fresh
from minitransformer.testing.adapters.plain import Plain
from minitransformer.testing.adapters.pytorch import PyTorch
from minitransformer.testing.adapters.tensors import Tensors

__all__ = ["Adapter", "Malformed", "Plain", "PyTorch", "Tensors", "find_adapter", "fresh"]

LIBRARIES: tuple[Adapter, ...] = (PyTorch(),)


def find_adapter(inputs: Sequence[Any], backward: Callable[..., Any] | None) -> Adapter:
    """Return the adapter for a function of these inputs; without a known library, that of our tensors."""
    if backward is not None:
        return Plain(backward)
    return next((library for library in LIBRARIES if any(map(library.recognises, inputs))), Tensors())
