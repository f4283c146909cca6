"""The array library in use: NumPy on the CPU, or CuPy on an NVIDIA GPU; and ``xp``, the namespace of its functions."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minitransformer.override import AFTER_USE

Array = NDArray[Any]
"""An array of the library in use. Element types are checked when the code runs, not by the type checker."""

BACKENDS = ("numpy", "cupy")
BACKEND_VARIABLE = "MINITRANSFORMER_BACKEND"
KERNELS_VARIABLE = "MINITRANSFORMER_KERNELS"
"""The environment variable that, set to "off", turns the fused CUDA kernels off."""


_chosen_device: int | None = None


class BackendError(RuntimeError):
    """The chosen array library is unknown or cannot run here."""


class _Namespace:
    """The functions of the library in use, as attributes.

    The library's names are copied into the instance, so that ``xp.exp`` costs one attribute look-up. They are copied at
    the first look-up, which also reads the environment variable.
    """

    def __getattr__(self, name: str) -> Any:
        # Python calls this only for names that the instance lacks.
        if name.startswith("__"):
            raise AttributeError(name)
        if "_backend" not in self.__dict__:
            use(os.environ.get(BACKEND_VARIABLE) or "numpy")
        return getattr(self.__dict__["_library"], name)


xp: Any = _Namespace()


def use(name: str, kernels: bool | None = None) -> None:
    """Choose the array library for everything that follows.

    Parameters
    ----------
    name : {"numpy", "cupy"}
        The library. Tensors made before the call keep the arrays that they have: choose first, then build.
    kernels : bool, optional
        Whether fused CUDA kernels may replace operations on a GPU. By default they do, unless the environment
        variable ``MINITRANSFORMER_KERNELS`` is "off". NumPy has none.

    Raises
    ------
    BackendError
        If the name is unknown, or the library cannot run here; the message says why and what to do.
    """
    if name not in BACKENDS:
        raise BackendError(f"unknown array library {name!r}: choose one of {', '.join(BACKENDS)}")
    library = np if name == "numpy" else _import_cupy()
    names = {key: value for key, value in vars(library).items() if not key.startswith("_")}
    if kernels is None:
        kernels = os.environ.get(KERNELS_VARIABLE) != "off"
    # replaced in one step: other threads see the names of one library
    _put_in_use(names | {"_backend": name, "_library": library, "_kernels": kernels and name == "cupy"})


@contextmanager
def using(name: str) -> Iterator[None]:
    """Choose the array library inside ``with using(name):``; afterwards the previous choice is restored."""
    before = vars(xp)
    use(name)
    try:
        yield
    finally:
        _put_in_use(before)


def _put_in_use(names: dict[str, Any]) -> None:
    xp.__dict__ = names
    for function in AFTER_USE:
        function(uses_kernels())


def choose_device(number: int) -> None:
    """Choose the GPU on which this thread will work; call it before `use` and before any look-up in ``xp``.

    Parameters
    ----------
    number : int
        The GPU's number, modulo the number of GPUs, so that more processes than GPUs share them.
    """
    global _chosen_device
    _chosen_device = number


def uses_kernels() -> bool:
    """Return whether fused CUDA kernels replace operations: on a GPU, unless turned off."""
    return bool(vars(xp).get("_kernels"))


def backend() -> str:
    """Return the name of the array library in use: ``"numpy"`` or ``"cupy"``."""
    _ = xp.ndarray  # the first look-up makes the choice
    return str(vars(xp)["_backend"])


def library() -> str:
    """Return the array library in use and its version as a text, such as ``"numpy 2.4.6"``."""
    return f"{backend()} {vars(xp)['_library'].__version__}"


def device() -> dict[str, Any]:
    """Return a description of the GPU for reports: its name, its memory in bytes, and driver and library versions."""
    runtime = xp.cuda.runtime
    properties = runtime.getDeviceProperties(xp.cuda.Device().id)
    cuda, driver = (f"{n // 1000}.{n % 1000 // 10}" for n in (runtime.runtimeGetVersion(), runtime.driverGetVersion()))
    return {
        "name": properties["name"].decode(),
        "memory": int(properties["totalGlobalMem"]),
        "cupy": vars(xp)["_library"].__version__,
        "cuda": cuda,
        "driver": driver,
    }


def synchronize() -> None:
    """Wait until a GPU has finished all its work."""
    if backend() != "numpy":
        xp.cuda.Device().synchronize()


def _import_cupy() -> Any:
    """Import CuPy and check with one sum that it can compute; the error says what is missing."""
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        raise BackendError(
            'CuPy is not installed. Install it with: python -m pip install "minitransformer[cuda13]" '
            f'(or "[cuda12]", to match the CUDA version that nvidia-smi shows). [{error}]'
        ) from error
    if not cupy.is_available():
        raise BackendError(
            "CuPy is installed but finds no usable NVIDIA GPU: no driver, or one older than this CuPy needs. "
            "Check that nvidia-smi runs, or use the NumPy backend."
        )
    try:
        if _chosen_device is not None:  # before anything is allocated
            cupy.cuda.Device(_chosen_device % cupy.cuda.runtime.getDeviceCount()).use()
        # A driver alone is not enough: the first kernel needs the CUDA compiler too.
        float((cupy.arange(2) + 1).sum())
    except Exception as error:
        raise BackendError(
            "CuPy finds a GPU but cannot run on it; the CUDA toolkit may be missing or of another version. "
            f'Try: python -m pip install "cupy-cuda13x[ctk]" (or cupy-cuda12x). CuPy said: {error}'
        ) from error
    return cupy
