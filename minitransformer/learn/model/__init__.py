"""The model, with a learner's own functions in it: ``minitransformer train --with my-exercises``.

================  =====================================================================
``passes.py``     passes of operations that call the functions of exercises
``training.py``   the same for the walk over the graph, Adam, schedules and decoding
``parts.py``      which exercises are parts of the model, and whose each part is
``trial.py``      each part checked, and compared with the engine's on a batch
``record.py``     which parts of a run were whose
================  =====================================================================
"""

from minitransformer.learn.model.parts import PARTS, Parts, picture_rows
from minitransformer.learn.model.record import Record, read_record, record
from minitransformer.learn.model.trial import Trial, try_parts

__all__ = ["PARTS", "Parts", "Record", "Trial", "picture_rows", "read_record", "record", "try_parts"]
