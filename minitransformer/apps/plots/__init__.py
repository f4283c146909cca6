"""Pictures of training, attention, gradient errors, speed and experiments, written as files; no display is needed.

Each function takes NumPy arrays or plain Python values. Those that draw a whole result, such as ``table1_picture``,
return a figure for ``save``; the others also take a path. The ending of a path chooses the format (``.png``, ``.pdf``,
``.svg``); without one the picture is a PNG. matplotlib is loaded when this package is, so import it only where pictures
are wanted.
"""

from minitransformer.apps.plots.attention import attention_map as attention_map
from minitransformer.apps.plots.attention import attention_maps as attention_maps
from minitransformer.apps.plots.changes import changes_picture as changes_picture
from minitransformer.apps.plots.colours import use_style as use_style
from minitransformer.apps.plots.curves import training_curves as training_curves
from minitransformer.apps.plots.heads import heads_picture as heads_picture
from minitransformer.apps.plots.own_parts import compare_losses as compare_losses
from minitransformer.apps.plots.own_parts import model_parts as model_parts
from minitransformer.apps.plots.recall import extrapolation_picture as extrapolation_picture
from minitransformer.apps.plots.recall import positions_picture as positions_picture
from minitransformer.apps.plots.recall import recall_picture as recall_picture
from minitransformer.apps.plots.saving import save as save
from minitransformer.apps.plots.speed import growth_curves as growth_curves
from minitransformer.apps.plots.speed import speed_bars as speed_bars
from minitransformer.apps.plots.step_sizes import step_sizes as step_sizes
from minitransformer.apps.plots.table1 import paths_picture as paths_picture
from minitransformer.apps.plots.table1 import table1_picture as table1_picture
from minitransformer.public import public_names

__all__ = public_names(globals())
