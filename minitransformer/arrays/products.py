"""Matrix products; on a GPU batched ones through cuBLAS, on strided views, without copying operands.

CuPy's own ``matmul`` copies every operand with more than two axes that is not contiguous, and heads never are: head h
of a projection (B, T, H * Dk) is every H-th part of each row. ``cublasGemmStridedBatchedEx`` needs no copy. It requires
that each matrix is contiguous along one axis (the stride of the other axis is the *leading dimension*), and that the
batch has a single stride. A batch of heads has two strides, one along B and one along H: here a loop over the shorter
of the two axes makes one call for each of its entries.

cuBLAS reads matrices column by column. It therefore sees the transpose of a row-major matrix, and instead of ``out = x
y`` it computes ``outᵀ = yᵀ xᵀ``.
"""

from __future__ import annotations

import sys
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from minitransformer.arrays.memory import cache_slices
from minitransformer.arrays.namespace import Array, xp

WITHOUT_BLAS = sys.platform == "emscripten"
"""Whether NumPy has no BLAS, as in a browser: there `einsum` multiplies two matrices up to four times as fast."""
TYPES = {"float32": (0, 68), "float64": (1, 70)}
"""For each element type, the codes of CUDA_R_32F or _64F and of CUBLAS_COMPUTE_32F or _64F."""
CUBLAS_COMPUTE_32F_FAST_TF32 = 77
COMPUTE_TYPE_TF32 = 7
"""CuPy's code for float32 products in TF32, as in ``set_compute_type`` and ``CUPY_TF32``."""
ROWS = 64
"""How many rows are transposed at a time."""
CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_GEMM_DEFAULT = 0, 1, -1


class _Matrix(NamedTuple):
    """The description of an array's matrices for cuBLAS."""

    transposed: int
    leading: int


def matmul(x: Array, y: Array, out: Array | None = None, scale: float = 1.0) -> Array:
    """Return ``scale * x @ y``, on a GPU without copying operands that are not contiguous, in a browser without BLAS.

    Parameters
    ----------
    x : array, shape (..., m, k)
    y : array, shape (..., k, n)
    out : array, shape (..., m, n), optional
        Where to write the product.
    scale : float
        A factor; on a GPU it costs nothing.

    Returns
    -------
    array, shape (..., m, n)
    """
    if xp.ndarray is not np.ndarray:
        alike = x.ndim > 2 and x.shape[:-2] == y.shape[:-2] and x.shape[-1] == y.shape[-2] and x.dtype == y.dtype
        alike = alike and (out is None or (out.shape == (*x.shape[:-1], y.shape[-1]) and out.dtype == x.dtype))
        if alike and x.dtype.name in TYPES:
            return batched_matmul(vars(xp)["_library"], x, y, out, scale)
    if WITHOUT_BLAS and x.ndim == y.ndim == 2:
        result = np.einsum("mk,kn->mn", x, y, out=out)
    else:
        result = xp.matmul(x, y, out=out)
    if scale != 1:
        result *= scale
    return result


def by_columns(matrix: Array) -> Array:
    """Return a matrix stored by columns, not by rows; on a GPU, the matrix itself.

    OpenBLAS multiplies a few rows by a matrix up to twice as fast if it finds each row of that matrix in one piece.
    That is so for the transpose of a matrix stored by columns. cuBLAS reads both alike.
    """
    if xp.ndarray is not np.ndarray:
        return matrix
    stored = np.empty(matrix.shape, dtype=matrix.dtype, order="F")
    for rows in cache_slices(len(matrix), ROWS):  # several times faster than np.asfortranarray
        stored[rows] = matrix[rows]
    return stored


def batched_matmul(library: Any, x: Any, y: Any, out: Any = None, scale: float = 1.0) -> Any:
    """Like ``matmul``, with CuPy (``library``), for x and y of one type and with the same leading axes."""
    shape = (*x.shape[:-1], y.shape[-1])
    if out is None:
        out = library.empty(shape, dtype=x.dtype)
    if prod(shape) == 0 or x.shape[-1] == 0:
        out[...] = 0
        return out
    if out.strides[-1] != out.itemsize and out.strides[-2] == out.itemsize:
        # (x y)ᵀ = yᵀ xᵀ: then the output is row-major
        _multiply(library, y.swapaxes(-1, -2), x.swapaxes(-1, -2), out.swapaxes(-1, -2), scale)
    else:
        _multiply(library, x, y, out, scale)
    return out


def _multiply(library: Any, x: Any, y: Any, out: Any, scale: float) -> None:
    x, x_layout = _readable(library, x)
    y, y_layout = _readable(library, y)
    written, out_layout = _readable(library, out, transposed=False)
    kind, compute = TYPES[out.dtype.name]
    if out.dtype == np.float32 and library._core.get_compute_type(np.float32) == COMPUTE_TYPE_TF32:
        compute = CUBLAS_COMPUTE_32F_FAST_TF32
    cublas, handle = library.cuda.cublas, library.cuda.get_cublas_handle()
    factors = np.array([scale, 0], dtype=out.dtype)  # read before the call returns
    (m, k), n = x.shape[-2:], y.shape[-1]
    axes = _merge(x.shape[:-2], [a.strides[:-2] for a in (x, y, written)])
    longest = max(range(len(axes)), key=lambda i: axes[i][0])
    count, steps = axes.pop(longest)
    for index in product(*(range(length) for length, _ in axes)):
        at = [
            a.data.ptr + sum(i * distance[j] for i, (_, distance) in zip(index, axes, strict=True))
            for j, a in enumerate((x, y, written))
        ]
        step = [distance // out.itemsize for distance in steps]
        cublas.gemmStridedBatchedEx(
            handle, y_layout.transposed, x_layout.transposed, n, m, k, factors.ctypes.data,
            at[1], kind, y_layout.leading, step[1],
            at[0], kind, x_layout.leading, step[0],
            factors.ctypes.data + factors.itemsize,
            at[2], kind, out_layout.leading, step[2],
            count, compute, CUBLAS_GEMM_DEFAULT,
        )  # fmt: skip
    if written is not out:
        out[...] = written


def _readable(library: Any, a: Any, transposed: bool = True) -> tuple[Any, _Matrix]:
    """Return an array, or a copy if cuBLAS cannot read its matrices in their layout, and the layout."""
    rows, columns = a.shape[-2:]
    down, right = (distance // a.itemsize for distance in a.strides[-2:])
    # The stride of an axis of length 1 is never used and may be anything.
    if (right == 1 or columns == 1) and (down >= columns or rows == 1):
        return a, _Matrix(CUBLAS_OP_N, down if rows > 1 else columns)
    if transposed and (down == 1 or rows == 1) and (right >= rows or columns == 1):
        return a, _Matrix(CUBLAS_OP_T, right if columns > 1 else rows)
    return library.array(a, order="C"), _Matrix(CUBLAS_OP_N, columns)


def _merge(shape: tuple[int, ...], strides: list[tuple[int, ...]]) -> list[tuple[int, tuple[int, ...]]]:
    """Return lengths and strides of the batch axes; neighbouring axes that fit one stride are merged."""
    merged: list[tuple[int, tuple[int, ...]]] = []
    for length, distances in zip(shape, zip(*strides, strict=True), strict=True):
        if merged and all(outer == length * inner for outer, inner in zip(merged[-1][1], distances, strict=True)):
            merged[-1] = (merged[-1][0] * length, distances)
        else:
            merged.append((length, distances))
    return merged
