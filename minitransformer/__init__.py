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
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from minitransformer.override import AFTER_USE

if TYPE_CHECKING:
    from minitransformer import data as data
    from minitransformer import decoding as decoding
    from minitransformer import gradients as gradients
    from minitransformer import kernels as kernels
    from minitransformer import nn as nn
    from minitransformer import ops as ops
    from minitransformer import optim as optim
    from minitransformer import parallel as parallel
    from minitransformer import runs as runs
    from minitransformer import tasks as tasks
    from minitransformer import testing as testing
    from minitransformer import tracing as tracing
    from minitransformer import train as train
    from minitransformer import training as training
    from minitransformer.apps import interop as interop
    from minitransformer.apps import learn as learn
    from minitransformer.apps import measure as measure
    from minitransformer.apps import plots as plots
    from minitransformer.arrays import BackendError as BackendError
    from minitransformer.arrays import backend as backend
    from minitransformer.arrays import use as use
    from minitransformer.autograd import *  # noqa: F403
    from minitransformer.runs import load as load
    from minitransformer.tracing import trace as trace

__version__ = "0.1.0"

PACKAGES: tuple[str, ...] = ("arrays", "autograd", "data", "decoding", "gradients", "kernels", "nn", "ops", "optim")
PACKAGES += ("parallel", "runs", "tasks", "testing", "tracing", "train", "training")
APPS: tuple[str, ...] = ("interop", "learn", "measure", "plots")
"""The packages that are loaded when they are first used, so that ``import minitransformer`` is quick."""

ORIGINS = {"BackendError": "arrays", "backend": "arrays", "load": "runs", "trace": "tracing", "use": "arrays"}
"""The package of each name that is not from ``autograd``."""

AFTER_USE.append(lambda kernels: importlib.import_module("minitransformer.kernels") if kernels else None)

if TYPE_CHECKING:
    # The functions that follow from a rule of the table; all other names are declared above.
    def __getattr__(name: str) -> Callable[[Any], Tensor]: ...  # noqa: F405

else:

    def __getattr__(name: str) -> Any:
        """Load a package, or take a name from the package that defines it, when it is first used."""
        if name == "__all__":
            return _names()
        if name in PACKAGES:
            return importlib.import_module(f"minitransformer.{name}")
        if name in APPS:
            return importlib.import_module(f"minitransformer.apps.{name}")
        if name in ORIGINS:
            origin = importlib.import_module(f"minitransformer.{ORIGINS[name]}")
        # Python also asks for its own names, and for a module before it imports it: those need no arrays.
        elif name.startswith("_") or find_spec(f"minitransformer.{name}") or name not in (origin := _core()).PUBLIC:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value = getattr(origin, name)
        return value


def _core() -> Any:
    return importlib.import_module("minitransformer.autograd")


def _names() -> list[str]:
    """Return all public names; those of elementary functions follow from ``autograd/rules.py``."""
    return sorted((*PACKAGES, *APPS, *ORIGINS, *_core().PUBLIC))


def __dir__() -> list[str]:
    return sorted({*globals(), *_names()})
