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
``shapes.py``       the check of the shapes of an operation's arrays
``watch.py``        whether an array changes in place
``random.py``       random numbers
``reductions.py``   maxima, sums, and sums of rows by index
``elementwise.py``  ReLU in place, the slope of tanh, the sigmoid, and the error function
``products.py``     matrix products, on a GPU without copies
``memory.py``       a GPU's memory, whether a memory is full, and slices that fit a processor's cache
``heap.py``         lets the C library keep the memory of freed arrays, in programs that train
``blas.py``         the threads of NumPy's matrix products: ``from minitransformer.arrays import blas``
==================  =====================================================================================
"""

import importlib
import typing
from typing import Any

from minitransformer.arrays.checks import as_bias as as_bias
from minitransformer.arrays.checks import as_indices as as_indices
from minitransformer.arrays.checks import as_mask as as_mask
from minitransformer.arrays.checks import as_optional_mask as as_optional_mask
from minitransformer.arrays.checks import check_floats as check_floats
from minitransformer.arrays.checks import check_gradient as check_gradient
from minitransformer.arrays.checks import check_index as check_index
from minitransformer.arrays.checks import is_whole as is_whole
from minitransformer.arrays.elementwise import erf as erf
from minitransformer.arrays.elementwise import relu_in_place as relu_in_place
from minitransformer.arrays.elementwise import sigmoid as sigmoid
from minitransformer.arrays.elementwise import tanh_slope as tanh_slope
from minitransformer.arrays.heap import keep_freed_memory as keep_freed_memory
from minitransformer.arrays.memory import cache_slices as cache_slices
from minitransformer.arrays.memory import device_memory as device_memory
from minitransformer.arrays.memory import even_parts as even_parts
from minitransformer.arrays.memory import free_device_memory as free_device_memory
from minitransformer.arrays.memory import full_memory as full_memory
from minitransformer.arrays.namespace import Array as Array
from minitransformer.arrays.namespace import BackendError as BackendError
from minitransformer.arrays.namespace import backend as backend
from minitransformer.arrays.namespace import choose_device as choose_device
from minitransformer.arrays.namespace import device as device
from minitransformer.arrays.namespace import library as library
from minitransformer.arrays.namespace import synchronize as synchronize
from minitransformer.arrays.namespace import use as use
from minitransformer.arrays.namespace import uses_kernels as uses_kernels
from minitransformer.arrays.namespace import using as using
from minitransformer.arrays.namespace import xp as xp
from minitransformer.arrays.products import by_columns as by_columns
from minitransformer.arrays.products import matmul as matmul
from minitransformer.arrays.reductions import below_largest as below_largest
from minitransformer.arrays.reductions import row_dot as row_dot
from minitransformer.arrays.reductions import scatter_add as scatter_add
from minitransformer.arrays.reductions import square_sums as square_sums
from minitransformer.arrays.reductions import sum_along as sum_along
from minitransformer.arrays.shapes import Shapes as Shapes
from minitransformer.arrays.transfer import asarray as asarray
from minitransformer.arrays.transfer import operand as operand
from minitransformer.arrays.transfer import to_numpy as to_numpy
from minitransformer.arrays.watch import Watch as Watch
from minitransformer.public import public_names

if typing.TYPE_CHECKING:
    from minitransformer.arrays.random import RowsGenerator as RowsGenerator
    from minitransformer.arrays.random import generator_state as generator_state
    from minitransformer.arrays.random import random_bits as random_bits


def __getattr__(name: str) -> Any:
    # NumPy loads its generators when they are first used, which takes a tenth of its own time; so does this package.
    if name not in ("RowsGenerator", "generator_state", "random_bits"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(importlib.import_module("minitransformer.arrays.random"), name)
    return value


__all__ = public_names(globals(), "Array", "RowsGenerator", "generator_state", "random_bits")
