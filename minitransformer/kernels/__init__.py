"""Fused CUDA kernels that replace operations on a GPU.

The array code in ``ops/`` is the reference implementation, whose gradients are tested; a kernel computes the same in
one pass over memory where the reference takes several. It has the same signature and the same ``saved``; for arguments
without a kernel (another axis, another type) it falls back to the reference. Each file registers its functions as
stand-ins for an operation's passes in its last lines::

    stand_in(softmax.forward, forward, uses_kernels)
    stand_in(softmax.backward, backward, uses_kernels)

The operation then uses it wherever the library in use is CuPy. ``mt.use("cupy", kernels=False)``, or the environment
variable ``MINITRANSFORMER_KERNELS=off``, turns the stand-ins off.
"""

from minitransformer.kernels import adam, cross_entropy, dropout, embedding, layer_norm, softmax
from minitransformer.kernels.source import Source

__all__ = ["sources"]

sources: dict[str, Source] = {
    module.source.file: module.source for module in (adam, cross_entropy, dropout, embedding, layer_norm, softmax)
}
"""All files of kernels."""
