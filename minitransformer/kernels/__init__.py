"""Fused CUDA kernels that stand in for pages on a GPU.

The page is what is read and proved; a stand-in does the same in one pass over memory where the page's array code takes
several. It has the page's signature and leaves the same ``saved`` behind; what it has no kernel for (another axis,
another type) it leaves to the page. Each file here makes itself the stand-in of an operation in its last line::

    softmax.stand_in = (forward, backward)

The operation then uses it wherever the library in use is CuPy. ``mt.use("cupy", kernels=False)``, or the environment
variable ``MINITRANSFORMER_KERNELS=off``, leaves the work to the pages.
"""

from minitransformer.kernels import adam, cross_entropy, dropout, embedding, layer_norm, softmax
from minitransformer.kernels.source import Source

__all__ = ["sources"]

sources: dict[str, Source] = {
    module.source.file: module.source for module in (adam, cross_entropy, dropout, embedding, layer_norm, softmax)
}
"""Every file of kernels."""
