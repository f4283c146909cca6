"""How fast a training step is, here and now: beside PyTorch, against the machine's own limit, and from the inside.

And how fast decoding is, beside PyTorch; and what the layers of the paper's Table 1 cost.

=======================  ====================================================================
``sizes.py``             what is measured: the configurations
``ours.py``              our training step
``pytorch.py``           PyTorch's, eager and compiled; torch is imported here ...
``program.py``           a process that does training steps when it is told to
``turns.py``             several such processes, taking turns
``gpu.py``               both of them on a GPU, and the rate of its matrix products
``figures.py``           medians, ratios and slopes
``memory.py``            how much memory a process has used, and how much there is
``account.py``           an array that accounts for all that is done to it: time and operations
``ceiling.py``           how fast this machine can do the step's matrix products
``anatomy.py``           where the time of our step goes: account and ceiling at work
``machine.py``           the machine in words
``measure.py``           all of it for some configurations
``growth.py``            how time and memory grow with length, batch, width and depth
``decode.py``            greedy decoding and beam search, measured
``ours_decoding.py``     ours
``pytorch_decoding.py``  PyTorch's; ... and here, and in no other file
``table1.py``            the paper's Table 1: operations, waiting and distance, measured
``steps.py``             the graph of a layer, position by position: chains and paths
``recall.py``            which of these layers learn to say again what they read L positions ago
``report.py``            the results in words
=======================  ====================================================================
"""

from minitransformer.bench.decode import measure_decoding
from minitransformer.bench.growth import AXES, measure_growth
from minitransformer.bench.measure import measure
from minitransformer.bench.report import decoding_text, growth_text, text
from minitransformer.bench.workloads import CONFIGURATIONS, GPU_CONFIGURATIONS, Sizes

__all__ = [
    "AXES",
    "CONFIGURATIONS",
    "GPU_CONFIGURATIONS",
    "Sizes",
    "decoding_text",
    "growth_text",
    "measure",
    "measure_decoding",
    "measure_growth",
    "text",
]
