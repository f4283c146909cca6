"""CUDA source files: reading, compiling and launching kernels."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from minitransformer.arrays import Array, xp

FOLDER = Path(__file__).parent
TYPES = {"float32": "float", "float64": "double"}
"""The element types of kernels, and CUDA's names for them."""
WARP = 32


def threads_for(n: int, most: int = 256) -> int:
    """Return how many threads, in whole warps, work on a row of n entries: about four entries each."""
    return min(most, WARP * max(1, -(-n // (4 * WARP))))


class Source:
    """A file of kernels, templates over the element type. It is compiled when one of them is first launched.

    Parameters
    ----------
    file : str
        The file's name, in this folder. ``#include "..."`` of another one here is replaced by its text.
    kernels : str
        The names of the kernels.
    """

    def __init__(self, file: str, *kernels: str) -> None:
        self.file, self.kernels = file, kernels
        self._compiled: dict[Any, Any] = {}

    @property
    def text(self) -> str:
        """The whole source, as passed to the compiler."""
        return _text(self.file)

    @property
    def names(self) -> tuple[str, ...]:
        """The kernels for each element type, by the compiler's names."""
        return tuple(f"{kernel}<{word}>" for kernel in self.kernels for word in TYPES.values())

    def start(self, kernel: str, dtype: Any, blocks: int, threads: int, *arguments: Any) -> None:
        """Launch a kernel asynchronously.

        Parameters
        ----------
        kernel : str
            Which one.
        dtype : dtype
            The element type to run it for.
        blocks, threads : int
            How many blocks of how many threads; at least one block.
        arguments : arrays and numbers
            The kernel's parameters: an array for a pointer (None for null), an int for ``long long``, a float for
            ``double``, np.uint64 for ``unsigned long long``.
        """
        compiler = xp.RawModule
        if compiler not in self._compiled:
            self._compiled[compiler] = compiler(code=self.text, options=("--std=c++17",), name_expressions=self.names)
        function = self._compiled[compiler].get_function(f"{kernel}<{TYPES[np.dtype(dtype).name]}>")
        function((blocks,), (threads,), tuple(_parameter(value) for value in arguments))


def _text(file: str) -> str:
    text = (FOLDER / file).read_text(encoding="utf-8")
    return re.sub(r'^#include "(\S+)"$', lambda found: _text(found[1]), text, flags=re.MULTILINE)


def _parameter(value: Any) -> Array | np.generic:
    """Return a number as one of the size that the kernel reads."""
    if value is None:
        return np.uint64(0)
    if isinstance(value, int):
        return np.int64(value)
    return np.float64(value) if type(value) is float else value
