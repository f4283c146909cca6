"""One batch, many workers: shares of a batch over threads and processes, whose gradients are added in a fixed order.

====================  ==================================================================================
``workers.py``        threads that each compute the gradients of some shares, and a step with all of them
``gradients.py``      the sum of the shares' gradients
``blocks.py``         the loss in blocks of target positions, for large vocabularies
``clipping.py``       the norm of that sum, and a limit for it
``ranks.py``          processes, and how they communicate: alone, or over MPI
``shared_memory.py``  processes of one machine, which share memory
``step.py``           a training step with all workers
====================  ==================================================================================
"""

from minitransformer.sharding.clipping import clip_gradient
from minitransformer.sharding.gradients import Flat, Sum
from minitransformer.sharding.ranks import ALONE, MPI, Alone, Ranks, launched_rank, start
from minitransformer.sharding.shared_memory import FORKS_SAFELY, ProcessLostError, forked
from minitransformer.sharding.step import shared_step
from minitransformer.sharding.workers import Workers, check_shares, check_workers, default_processes, default_workers

__all__ = ["ALONE", "FORKS_SAFELY", "MPI", "Alone", "Flat", "Ranks", "Sum", "Workers"]
__all__ += ["ProcessLostError", "check_shares", "check_workers"]
__all__ += ["clip_gradient", "default_processes", "default_workers", "forked", "launched_rank", "shared_step", "start"]
