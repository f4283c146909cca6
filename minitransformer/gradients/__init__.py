"""The gradient of a step: of micro-batches, of a loss in blocks, summed in a fixed order, and clipped.

====================  ==================================================================================
``micro_batches.py``  how a batch is cut, and the sums over its parts
``sums.py``           the sum of their gradients
``blocks.py``         the loss in blocks of target positions, for large vocabularies
``clipping.py``       the norm of the sum, and a limit for it
====================  ==================================================================================
"""

from minitransformer.gradients.blocks import add_gradient_in_blocks
from minitransformer.gradients.clipping import clip_gradient
from minitransformer.gradients.micro_batches import (
    Batch,
    Part,
    check_micro_batches,
    check_workers,
    cut_batches,
    default_micro_batches,
    default_processes,
    sum_gradients,
    sum_losses,
)
from minitransformer.gradients.sums import Flat, Sum

__all__ = [
    "Batch",
    "Flat",
    "Part",
    "Sum",
    "add_gradient_in_blocks",
    "check_micro_batches",
    "check_workers",
    "clip_gradient",
]
__all__ += ["cut_batches", "default_micro_batches", "default_processes", "sum_gradients", "sum_losses"]
