"""Pictures of training, attention, gradient errors, speed and experiments, written as files; no display is needed.

Each function takes NumPy arrays or plain Python values and a path. The ending of the path chooses
the format (``.png``, ``.pdf``, ``.svg``); without one the picture is a PNG. matplotlib is loaded when
this package is, so import it only where pictures are wanted.
"""

from minitransformer.apps.plots.changes import changes_picture
from minitransformer.apps.plots.colours import use_style
from minitransformer.apps.plots.curves import training_curves
from minitransformer.apps.plots.grid import attention_maps
from minitransformer.apps.plots.heads import heads_picture
from minitransformer.apps.plots.network import network_curves
from minitransformer.apps.plots.own_parts import compare_losses, model_parts
from minitransformer.apps.plots.positions import positions_picture
from minitransformer.apps.plots.recall import extrapolation_picture, recall_picture
from minitransformer.apps.plots.single import attention_map
from minitransformer.apps.plots.speed import growth_curves, speed_bars
from minitransformer.apps.plots.step_sizes import step_sizes
from minitransformer.apps.plots.table1 import paths_picture, table1_picture

__all__ = [
    "attention_map",
    "attention_maps",
    "changes_picture",
    "compare_losses",
    "extrapolation_picture",
    "growth_curves",
    "heads_picture",
    "model_parts",
    "network_curves",
    "paths_picture",
    "positions_picture",
    "recall_picture",
    "speed_bars",
    "step_sizes",
    "table1_picture",
    "training_curves",
    "use_style",
]
