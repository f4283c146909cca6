"""The array library in use: NumPy on the CPU, or CuPy on an NVIDIA GPU.

Every other package does its arithmetic through ``xp``, the namespace of the library in use::

    from minitransformer.arrays import xp

    y = xp.exp(x)

``use("numpy")`` or ``use("cupy")`` chooses the library; without a choice the environment variable
``MINITRANSFORMER_BACKEND`` decides, and without that it is NumPy. Where the two libraries differ, this package has a
function for both, so no other package needs to know which one is in use. Only this package imports CuPy, and only when
CuPy is chosen.

==================  =====================================================================================
``namespace.py``    the library in use, and the choice of it
``transfer.py``     arrays from the host to the device and back
``checks.py``       checks of ids, masks, types and indices before any work starts
``watch.py``        whether an array changes in place
``random.py``       random numbers
``reductions.py``   maxima, sums, and sums of rows by index
``elementwise.py``  ReLU in place, the slope of tanh, the sigmoid, and the error function
``products.py``     matrix products, on a GPU without copies
``memory.py``       a GPU's memory, whether a memory is full, and slices that fit a processor's cache
``heap.py``         lets the C library reuse the memory of freed arrays
``blas.py``         the threads of NumPy's matrix products: ``from minitransformer.arrays import blas``
==================  =====================================================================================
"""

import importlib
from typing import TYPE_CHECKING, Any

from minitransformer.arrays.checks import (
    as_indices,
    as_mask,
    as_optional_mask,
    check_floats,
    check_gradient,
    check_index,
    is_whole,
)
from minitransformer.arrays.elementwise import erf, relu_in_place, sigmoid, tanh_slope
from minitransformer.arrays.memory import cache_slices, device_memory, even_parts, free_device_memory, full_memory
from minitransformer.arrays.namespace import (
    Array,
    BackendError,
    backend,
    card,
    choose_card,
    library,
    synchronize,
    use,
    uses_kernels,
    using,
    xp,
)
from minitransformer.arrays.products import by_columns, matmul
from minitransformer.arrays.reductions import below_largest, row_dot, scatter_add, square_sums, sum_along
from minitransformer.arrays.transfer import asarray, operand, to_numpy
from minitransformer.arrays.watch import Watch

if TYPE_CHECKING:
    from minitransformer.arrays.random import RowsGenerator, generator_state, random_bits

__all__ = [
    "Array",
    "BackendError",
    "RowsGenerator",
    "Watch",
    "as_indices",
    "as_mask",
    "as_optional_mask",
    "asarray",
    "backend",
    "below_largest",
    "by_columns",
    "cache_slices",
    "card",
    "check_floats",
    "check_gradient",
    "check_index",
    "choose_card",
    "device_memory",
    "erf",
    "even_parts",
    "free_device_memory",
    "full_memory",
    "generator_state",
    "is_whole",
    "library",
    "matmul",
    "operand",
    "random_bits",
    "relu_in_place",
    "row_dot",
    "scatter_add",
    "sigmoid",
    "square_sums",
    "sum_along",
    "synchronize",
    "tanh_slope",
    "to_numpy",
    "use",
    "uses_kernels",
    "using",
    "xp",
]


def __getattr__(name: str) -> Any:
    # NumPy loads its generators when they are first used, which takes a tenth of its own time; so does this package.
    if name not in ("RowsGenerator", "generator_state", "random_bits"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(importlib.import_module("minitransformer.arrays.random"), name)
    return value
