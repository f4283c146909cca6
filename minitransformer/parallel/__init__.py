"""Processes that work together, and how they communicate.

====================  ==================================================================================
``process_group.py``  the interface, a single process, and processes over MPI
``shared_memory.py``  processes of one machine, which share memory
====================  ==================================================================================
"""

from minitransformer.parallel.process_group import (
    MPI,
    SINGLE_PROCESS,
    ProcessGroup,
    SingleProcess,
    launched_rank,
    start,
)
from minitransformer.parallel.shared_memory import FORKS_SAFELY, ProcessLostError, can_fork, forked

__all__ = ["FORKS_SAFELY", "MPI", "SINGLE_PROCESS", "ProcessGroup", "ProcessLostError", "SingleProcess", "can_fork"]
__all__ += ["forked", "launched_rank", "start"]
