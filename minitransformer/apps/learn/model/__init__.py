"""The model, with a learner's own functions in it: ``minitransformer train --with my-exercises``.

================  =====================================================================
``passes.py``     passes of operations that call the functions of exercises
``training.py``   the same for the walk over the graph, Adam, schedules and decoding
``stacks.py``     the model as it is drawn: which exercises are parts of which sub-layer
``parts.py``      the functions that a learner has written for these parts
``trial.py``      each part checked, and compared with the engine's on a batch
``record.py``     which parts of a run were the learner's
================  =====================================================================
"""

from minitransformer.apps.learn.model.parts import PARTS, Parts, find_parts
from minitransformer.apps.learn.model.record import Record, read_record, record
from minitransformer.apps.learn.model.stacks import Box, Row, fill_stacks
from minitransformer.apps.learn.model.trial import Setting, Trial, try_parts
