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
from typing import TYPE_CHECKING, Any

from minitransformer import stand_ins

if TYPE_CHECKING:
    from minitransformer import (
        data,
        decoding,
        kernels,
        nn,
        ops,
        optim,
        sharding,
        tasks,
        testing,
        tracing,
        train,
        training,
    )
    from minitransformer.apps import exchange, learn, paper, plots
    from minitransformer.arrays import BackendError, backend, use
    from minitransformer.autograd import (
        Operation,
        Tensor,
        concatenate,
        exp,
        is_recording,
        log,
        matmul,
        max,
        maximum,
        mean,
        no_grad,
        relu,
        reshape,
        sigmoid,
        sqrt,
        stack,
        sum,
        swapaxes,
        tanh,
        transpose,
        where,
    )
    from minitransformer.tracing import trace
    from minitransformer.training import load

__version__ = "0.1.0"

PACKAGES: tuple[str, ...] = ("arrays", "autograd", "data", "decoding", "kernels", "nn", "ops", "optim", "sharding")
PACKAGES += ("tasks", "testing", "tracing", "train", "training")
APPS: tuple[str, ...] = ("exchange", "learn", "paper", "plots")
"""The packages that are loaded when they are first used, so that ``import minitransformer`` is quick."""

ORIGINS = {"BackendError": "arrays", "backend": "arrays", "load": "training", "trace": "tracing", "use": "arrays"}
"""The package of each name that is not from ``autograd``."""

__all__ = ["BackendError", "Operation", "Tensor", "backend", "concatenate", "data", "decoding", "exchange", "exp"]
__all__ += ["is_recording"]
__all__ += ["kernels", "learn", "load", "log", "matmul", "max", "maximum", "mean", "nn", "no_grad", "ops", "optim"]
__all__ += [
    "paper",
    "plots",
    "relu",
    "reshape",
    "sharding",
    "sigmoid",
    "sqrt",
    "stack",
    "sum",
    "swapaxes",
    "tanh",
    "tasks",
]
__all__ += ["testing", "trace", "tracing", "train", "training", "transpose", "use", "where"]

# Importing operations, in any way, also loads the kernels that replace them on a GPU.
stand_ins.load_later(lambda: importlib.import_module("minitransformer.kernels"))


def __getattr__(name: str) -> Any:
    if name in PACKAGES:
        return importlib.import_module(f"minitransformer.{name}")
    if name in APPS:
        return importlib.import_module(f"minitransformer.apps.{name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    origin = importlib.import_module(f"minitransformer.{ORIGINS.get(name, 'autograd')}")
    globals()[name] = value = getattr(origin, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
