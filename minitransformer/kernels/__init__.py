"""Fused CUDA kernels that replace operations on a GPU.

The array code in ``ops/`` is the reference implementation, whose gradients are tested; a kernel computes the same in
one pass over memory where the reference takes several. It has the same signature and the same ``saved``; for arguments
without a kernel (another axis, another type) it calls the reference.

Where the library in use is CuPy, operations run their kernels, and Adam its own. ``mt.use("cupy", kernels=False)``, or
the environment variable ``MINITRANSFORMER_KERNELS=off``, leaves them out. On NumPy this package is not imported.
"""

from types import ModuleType

from minitransformer import ops
from minitransformer.arrays import uses_kernels
from minitransformer.kernels import adam, cross_entropy, dropout, embedding, layer_norm, softmax
from minitransformer.kernels.source import Source
from minitransformer.optim import adam as optimiser
from minitransformer.optim.adam import update_all
from minitransformer.override import AFTER_USE, install

__all__ = ["KERNELS", "choose", "sources"]

KERNELS: dict[str, ModuleType] = {
    "cross_entropy": cross_entropy,
    "dropout": dropout,
    "embedding": embedding,
    "layer_norm": layer_norm,
    "softmax": softmax,
}
"""By the name of an operation, the module with the kernels of its passes; of the embedding only the backward pass."""

sources: dict[str, Source] = {
    module.source.file: module.source for module in (adam, cross_entropy, dropout, embedding, layer_norm, softmax)
}
"""All files of kernels."""


def choose(kernels: bool) -> None:
    """Let operations and Adam run their kernels, or else their array code."""
    for name, module in KERNELS.items():
        passes = ops.registry[name].written._asdict()
        if kernels:
            passes |= {one: getattr(module, one) for one in passes if hasattr(module, one)}
        install(ops.registry[name], **passes)
    install(optimiser, update_all=adam.step if kernels else update_all)


AFTER_USE.append(choose)
choose(uses_kernels())
