"""Every value and gradient of one forward and backward pass of a model, by name.

====================  ==================================================================================
``recording.py``      ``trace``: run a model on sentences and record every value and gradient
``values.py``         ``Trace``: what was recorded, by name
``objectives.py``     the objective: the loss, or the log-probability of a token
``watching.py``       observe the steps of a model while it runs, and replace their outputs
``lines.py``          record the values inside the operations, line by line
``sources.py``        the source lines of each operation and elementary rule
``edits.py``          the edits: an entry overwritten, a head switched off, ...
``editing.py``        run a model with edits in force
``first_order.py``    the effect of edits to first order, by the gradient
``differences.py``    ``difference``: a gradient compared with central differences
``search.py``         ``write`` and ``beam_tree``: how a translation is found
``twin.py``           a copy of a model that shares its values, so that nothing changes in the model
====================  ==================================================================================
"""

from minitransformer.tracing.differences import Difference, Point, difference
from minitransformer.tracing.edits import (
    Edit,
    HeadOff,
    LayerOff,
    SetEntry,
    SetMask,
    SetWeight,
    SublayerOff,
    Temperature,
)
from minitransformer.tracing.first_order import Unpredictable, first_order
from minitransformer.tracing.objectives import LogProbability, LogProbabilityDifference, Loss, Objective
from minitransformer.tracing.recording import trace
from minitransformer.tracing.search import Alternative, BeamNode, BeamTree, Choice, beam_tree, write
from minitransformer.tracing.sources import Source, sources
from minitransformer.tracing.twin import in_double, modules, twin
from minitransformer.tracing.values import Line, Part, Step, Trace, TracedParameter, Visit
from minitransformer.tracing.watching import Input, predict

__all__ = [
    "Alternative",
    "BeamNode",
    "BeamTree",
    "Choice",
    "Difference",
    "Edit",
    "HeadOff",
    "Input",
    "LayerOff",
    "Line",
    "LogProbability",
    "LogProbabilityDifference",
    "Loss",
    "Objective",
    "Part",
    "Point",
    "SetEntry",
    "SetMask",
    "SetWeight",
    "Source",
    "Step",
    "SublayerOff",
    "Temperature",
    "Trace",
    "TracedParameter",
    "Unpredictable",
    "Visit",
    "beam_tree",
    "difference",
    "first_order",
    "in_double",
    "modules",
    "predict",
    "sources",
    "trace",
    "twin",
    "write",
]
