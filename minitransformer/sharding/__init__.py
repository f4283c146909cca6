"""One batch, several processes: each batch is cut into shares, whose gradients are added in a fixed order.

====================  ==================================================================================
``shares.py``         how a batch is cut, and the sums over its shares
``gradients.py``      the sum of the shares' gradients
``blocks.py``         the loss in blocks of target positions, for large vocabularies
``clipping.py``       the norm of that sum, and a limit for it
``process_group.py``  processes, and how they communicate: alone, or over MPI
``shared_memory.py``  processes of one machine, which share memory
====================  ==================================================================================
"""

from minitransformer.sharding.blocks import add_gradient_in_blocks
from minitransformer.sharding.clipping import clip_gradient
from minitransformer.sharding.gradients import Flat, Sum
from minitransformer.sharding.process_group import (
    MPI,
    SINGLE_PROCESS,
    ProcessGroup,
    SingleProcess,
    launched_rank,
    start,
)
from minitransformer.sharding.shared_memory import FORKS_SAFELY, ProcessLostError, can_fork, forked
from minitransformer.sharding.shares import (
    Batch,
    Part,
    check_shares,
    check_workers,
    default_processes,
    default_shares,
    share_out_rows,
    sum_gradients,
    sum_losses,
)

__all__ = ["FORKS_SAFELY", "MPI", "SINGLE_PROCESS", "Batch", "Flat", "Part", "ProcessGroup", "ProcessLostError"]
__all__ += ["SingleProcess", "Sum", "add_gradient_in_blocks", "can_fork", "check_shares", "check_workers"]
__all__ += ["clip_gradient", "default_processes", "default_shares", "forked", "launched_rank", "share_out_rows"]
__all__ += ["start", "sum_gradients", "sum_losses"]
