"""Every value and gradient of one forward and backward pass of a model, by name.

====================  ==================================================================================
``recording.py``      ``trace``: run a model on sentences and record every value and gradient
``values.py``         ``Trace``: what was recorded, by name
``objectives.py``     the number that is differentiated: the loss, or the log-probability of a token
``watching.py``       see the steps of a model while it runs, and replace what they compute
``lines.py``          see the values inside the operations, line by line
``sources.py``        the source lines of each operation and elementary rule
``twin.py``           a copy of a model that shares its values, so that nothing changes in the model
====================  ==================================================================================
"""

from minitransformer.tracing.objectives import LogProbability, LogProbabilityDifference, Loss, Objective
from minitransformer.tracing.recording import trace
from minitransformer.tracing.sources import Source, sources
from minitransformer.tracing.twin import in_double
from minitransformer.tracing.values import Line, Part, Step, Trace, TracedParameter, Visit
from minitransformer.tracing.watching import Input

__all__ = [
    "Input",
    "Line",
    "LogProbability",
    "LogProbabilityDifference",
    "Loss",
    "Objective",
    "Part",
    "Source",
    "Step",
    "Trace",
    "TracedParameter",
    "Visit",
    "in_double",
    "sources",
    "trace",
]
