"""The Transformer of *Attention Is All You Need*, built from arrays alone.

A small reverse-mode autograd core on NumPy or CuPy; operations whose forward and backward passes are derived and
written by hand, one source file each; and the paper's encoder-decoder, assembled from them.

>>> import minitransformer as mt
>>> x = mt.Tensor([[0.0, 1.0, 3.0]], requires_grad=True)
>>> mt.ops.softmax(x).backward([[1.0, 0.0, 0.0]])
>>> x.grad.round(3)
array([[ 0.04 , -0.005, -0.035]])
"""

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    from minitransformer import autograd, kernels, nn, ops, optim, testing
    from minitransformer.arrays import BackendError, backend, use
    from minitransformer.autograd import *  # noqa: F403
except KeyboardInterrupt:
    # The command loads this package first, before it can handle Ctrl-C itself. In any other program it is an error.
    if sys.argv[0] == "-m" or Path(sys.argv[0]).stem == "minitransformer":
        sys.exit(130)
    raise

if TYPE_CHECKING:
    from minitransformer import data, decoding, learn, paper, plots, tasks, tracing, training
    from minitransformer.tracing import trace
    from minitransformer.training import load

__version__ = "0.1.0"

LAZY = ("data", "decoding", "learn", "paper", "plots", "tasks", "tracing", "training")
"""The packages that are loaded when they are first used: importing minitransformer stays quick."""

__all__ = ["BackendError", "backend", "data", "decoding", "kernels", "learn", "load", "nn", "ops", "optim", "paper"]
__all__ += ["plots", "tasks", "testing", "trace", "tracing", "training", "use"]
__all__ += autograd.__all__


def __getattr__(name: str) -> Any:
    if name in LAZY:
        return importlib.import_module(f"minitransformer.{name}")
    if name == "load":
        return importlib.import_module("minitransformer.training").load
    if name == "trace":
        return importlib.import_module("minitransformer.tracing").trace
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
