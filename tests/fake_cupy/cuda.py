"""What fake CuPy has of CUDA itself: a compiler for kernels, and cuBLAS for batches."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from .device_array import ndarray

HEADER = Path(__file__).parent / "cuda.hpp"
COMPILER = shutil.which("g++")
NO_COMPILER = "running CUDA kernels on the CPU needs g++"
order = 0
"""In which order the threads of a block run: 0 forwards, 1 backwards, others at random, each in its own way."""


class RawModule:
    """A file of CUDA source, compiled for the CPU by g++."""

    def __init__(
        self, code: str = "", *, options: tuple[str, ...] = (), name_expressions: tuple[str, ...] = ()
    ) -> None:
        if COMPILER is None:
            raise RuntimeError(NO_COMPILER)
        self._names = {name: f"start_{i}" for i, name in enumerate(name_expressions)}
        parameters = "const char *kinds, void **arguments, unsigned blocks, unsigned size, int order"
        starters = "".join(
            f'extern "C" const char *{c_name}({parameters}) '
            f"{{ return emulation::start(&{name}, kinds, arguments, blocks, size, order); }}\n"
            for name, c_name in self._names.items()
        )
        code = re.sub(r"__shared__ .*?(\w+)\[.*;", r"\g<0> static emulation::Shared place_of_\1(\1, sizeof \1);", code)
        self._library = ctypes.PyDLL(str(_compiled(f'#include "{HEADER}"\n{code}\n{starters}')))

    def get_function(self, name: str) -> RawKernel:
        if name not in self._names:
            raise KeyError(f"{name} is not among the name_expressions")
        return RawKernel(name, getattr(self._library, self._names[name]))


class RawKernel:
    """A kernel; it has run when the call returns."""

    def __init__(self, name: str, start: Any) -> None:
        self._name, self._start = name, start
        start.restype = ctypes.c_char_p

    def __call__(
        self, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[Any, ...], *, shared_mem: int = 0
    ) -> None:
        kinds, places, keep = "", [], []
        for value in args:
            if isinstance(value, ndarray):
                kind, place = "p", ctypes.c_uint64(value.data.ptr)
            elif isinstance(value, np.uint64):
                kind, place = "u", ctypes.c_uint64(int(value))
            elif isinstance(value, np.int64):
                kind, place = "i", ctypes.c_int64(int(value))
            elif isinstance(value, np.float64):
                kind, place = "f", ctypes.c_double(float(value))
            else:
                raise TypeError(f"Unsupported type {type(value)}")
            kinds += kind
            keep.append(place)
            places.append(ctypes.addressof(place))
        problem = self._start(kinds.encode(), (ctypes.c_void_p * len(places))(*places), grid[0], block[0], order)
        if problem:
            raise RuntimeError(f"{self._name}: {problem.decode()}")


def _compiled(code: str) -> Path:
    """Compile a program, unless that was done before, and return the library."""
    text = code + HEADER.read_text(encoding="utf-8")
    folder = Path(tempfile.gettempdir()) / f"minitransformer-kernels-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    library = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.so"
    if not library.exists():
        aside = folder / f"{library.stem}-{os.getpid()}"
        source = aside.with_suffix(".cpp")
        source.write_text(code, encoding="utf-8")
        command = [COMPILER, "-std=c++17", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(aside), str(source)]
        done = subprocess.run(command, capture_output=True, text=True)
        source.unlink()
        if done.returncode:
            raise RuntimeError(f"g++ does not compile the kernels:\n{done.stderr[:4000]}")
        aside.replace(library)  # at once: other tests may be looking for it
    return library


# ---------------------------------------------------------------------------------------------------------------------
# cuBLAS


class Cublas:
    """The one function of ``cupy.cuda.cublas`` that is used: products of matrices in columns, as addresses."""

    calls = 0

    @classmethod
    def gemmStridedBatchedEx(
        cls, handle, transa, transb, m, n, k, alpha, A, Atype, lda, strideA, B, Btype, ldb, strideB,
        beta, C, Ctype, ldc, strideC, batchCount, computeType, algo,
    ):  # fmt: skip
        cls.calls += 1
        number = {0: ctypes.c_float, 1: ctypes.c_double}[Atype]
        assert Atype == Btype == Ctype
        assert computeType in {0: (68, 77), 1: (70,)}[Atype]

        def matrices(address, rows, columns, leading, distance):
            """Show matrices that lie column by column as an array (count, rows, columns)."""
            if leading < max(1, rows):
                raise ValueError("CUBLAS_STATUS_INVALID_VALUE: a leading dimension is too short")
            size = ctypes.sizeof(number)
            length = (batchCount - 1) * abs(distance) + (columns - 1) * leading + rows
            before = max(0, (1 - batchCount) * distance) * size  # a negative distance leads to lower addresses
            memory = (ctypes.c_char * (length * size)).from_address(address - before)
            strides = (distance * size, size, leading * size)
            return np.ndarray((batchCount, rows, columns), f"f{size}", memory, before, strides)

        a = matrices(A, *((k, m) if transa else (m, k)), lda, strideA)
        b = matrices(B, *((n, k) if transb else (k, n)), ldb, strideB)
        c = matrices(C, m, n, ldc, strideC)
        a, b = (x.swapaxes(1, 2) if transposed else x for x, transposed in ((a, transa), (b, transb)))
        factor, old = number.from_address(alpha).value, number.from_address(beta).value
        assert old == 0
        c[...] = c.dtype.type(factor) * np.matmul(a, b)
