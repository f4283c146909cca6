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

from minitransformer.public import public_names
from minitransformer.tracing.differences import Difference as Difference
from minitransformer.tracing.differences import Point as Point
from minitransformer.tracing.differences import difference as difference
from minitransformer.tracing.edits import Edit as Edit
from minitransformer.tracing.edits import HeadOff as HeadOff
from minitransformer.tracing.edits import LayerOff as LayerOff
from minitransformer.tracing.edits import SetEntry as SetEntry
from minitransformer.tracing.edits import SetMask as SetMask
from minitransformer.tracing.edits import SetWeight as SetWeight
from minitransformer.tracing.edits import SublayerOff as SublayerOff
from minitransformer.tracing.edits import Temperature as Temperature
from minitransformer.tracing.first_order import Unpredictable as Unpredictable
from minitransformer.tracing.first_order import first_order as first_order
from minitransformer.tracing.objectives import LogProbability as LogProbability
from minitransformer.tracing.objectives import LogProbabilityDifference as LogProbabilityDifference
from minitransformer.tracing.objectives import Loss as Loss
from minitransformer.tracing.objectives import Objective as Objective
from minitransformer.tracing.recording import trace as trace
from minitransformer.tracing.search import Alternative as Alternative
from minitransformer.tracing.search import BeamNode as BeamNode
from minitransformer.tracing.search import BeamTree as BeamTree
from minitransformer.tracing.search import Choice as Choice
from minitransformer.tracing.search import beam_tree as beam_tree
from minitransformer.tracing.search import write as write
from minitransformer.tracing.sources import Source as Source
from minitransformer.tracing.sources import sources as sources
from minitransformer.tracing.twin import in_double as in_double
from minitransformer.tracing.twin import modules as modules
from minitransformer.tracing.twin import twin as twin
from minitransformer.tracing.values import Line as Line
from minitransformer.tracing.values import Part as Part
from minitransformer.tracing.values import Step as Step
from minitransformer.tracing.values import Trace as Trace
from minitransformer.tracing.values import TracedParameter as TracedParameter
from minitransformer.tracing.values import Visit as Visit
from minitransformer.tracing.watching import Input as Input
from minitransformer.tracing.watching import predict as predict

__all__ = public_names(globals())
