"""Benchmarks of a training step and of decoding: beside PyTorch, against the machine's limit, and by parts.

=======================  ====================================================================
``workloads.py``         what is measured: the configurations
``ours.py``              our training step
``pytorch.py``           PyTorch's, eager and compiled; torch is imported here ...
``program.py``           a process that does training steps on request
``turns.py``             several such processes, taking turns
``gpu.py``               both of them on a GPU, and the rate of its matrix products
``figures.py``           medians, ratios, slopes and powers
``machine.py``           a description of the machine, and its memory
``account.py``           an array that records the time and operations spent on it
``ceiling.py``           how fast this machine can do the step's matrix products
``anatomy.py``           where the time of our step goes: account and ceiling at work
``measure.py``           all of it for some configurations
``growth.py``            how time and memory grow with length, batch, width and depth
``decode.py``            greedy decoding and beam search, measured
``ours_decoding.py``     ours
``pytorch_decoding.py``  PyTorch's; ... and here, and in no other file
``processes.py``         our training step in several processes over MPI
``network.py``           what they send, and a model of the time that a step takes
``scaling.py``           several processes over MPI, measured and modelled
``report.py``            the results as text
=======================  ====================================================================
"""

from minitransformer.apps.bench.decode import measure_decoding
from minitransformer.apps.bench.growth import measure_growth
from minitransformer.apps.bench.measure import measure_speed
from minitransformer.apps.bench.report import decoding_text, growth_text, processes_text, speed_text
from minitransformer.apps.bench.scaling import measure_processes
from minitransformer.apps.bench.workloads import CONFIGURATIONS, GPU_CONFIGURATIONS, Workload
