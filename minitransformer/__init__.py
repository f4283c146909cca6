"""The Transformer of *Attention Is All You Need*, built from nothing but arrays.

A small reverse-mode autograd core on NumPy or CuPy; operations whose forward and backward passes are derived and
written by hand, one source file each; and the paper's encoder-decoder, assembled from them.

>>> import minitransformer as mt
>>> x = mt.Tensor([[0.0, 1.0, 3.0]], requires_grad=True)
>>> mt.ops.softmax(x).backward([[1.0, 0.0, 0.0]])
>>> x.grad.round(3)
array([[ 0.04 , -0.005, -0.035]])
"""

import importlib
from typing import TYPE_CHECKING, Any

from minitransformer import autograd, kernels, nn, ops, optim, testing
from minitransformer.arrays import BackendError, backend, use
from minitransformer.autograd import *  # noqa: F403

if TYPE_CHECKING:
    from minitransformer import learn

__version__ = "0.1.0"

__all__ = ["BackendError", "backend", "kernels", "learn", "nn", "ops", "optim", "testing", "use"]
__all__ += autograd.__all__


def __getattr__(name: str) -> Any:
    # The exercises are imported when they are first asked for.
    if name == "learn":
        return importlib.import_module("minitransformer.learn")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
