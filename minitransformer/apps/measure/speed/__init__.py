"""Benchmarks of a training step and of decoding: beside PyTorch, against the machine's limit, and by parts.

=======================  ====================================================================
``workloads.py``         what is measured: the configurations
``ours.py``              our training step
``pytorch.py``           PyTorch's, eager and compiled; torch is imported here ...
``program.py``           a process that does training steps on request
``turns.py``             several such processes, taking turns
``gpu.py``               both of them on a GPU, and the rate of its matrix products
``account.py``           an array that records the time and operations spent on it
``ceiling.py``           how fast this machine can do the step's matrix products
``anatomy.py``           where the time of our step goes: account and ceiling at work
``steps.py``             all of it for some configurations
``growth.py``            how time and memory grow with length, batch, width and depth
``decoding.py``          greedy decoding and beam search, measured
``ours_decoding.py``     ours
``pytorch_decoding.py``  PyTorch's; ... and here, and in no other file
``processes.py``         our training step in several processes over MPI, and a model of its time
``scaling.py``           several processes over MPI, measured and modelled
``report.py``            the results as text
=======================  ====================================================================
"""

from minitransformer.apps.measure.speed.decoding import measure_decoding as measure_decoding
from minitransformer.apps.measure.speed.growth import measure_growth as measure_growth
from minitransformer.apps.measure.speed.report import decoding_text as decoding_text
from minitransformer.apps.measure.speed.report import growth_text as growth_text
from minitransformer.apps.measure.speed.report import processes_text as processes_text
from minitransformer.apps.measure.speed.report import speed_text as speed_text
from minitransformer.apps.measure.speed.scaling import measure_processes as measure_processes
from minitransformer.apps.measure.speed.steps import measure_speed as measure_speed
from minitransformer.apps.measure.speed.workloads import CONFIGURATIONS as CONFIGURATIONS
from minitransformer.apps.measure.speed.workloads import GPU_CONFIGURATIONS as GPU_CONFIGURATIONS
from minitransformer.apps.measure.speed.workloads import Workload as Workload
