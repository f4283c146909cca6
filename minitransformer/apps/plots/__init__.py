"""Pictures of training, attention, a model's parts and gradient errors, written as files; no display is needed.

Each function takes NumPy arrays or plain Python values, and a path. Its ending chooses the format (``.png``, ``.pdf``,
``.svg``); without one the picture is a PNG. matplotlib is loaded when this package is, so import it only where pictures
are wanted. Experiments are drawn in ``measure.pictures``.
"""

from minitransformer.apps.plots.attention import attention_map as attention_map
from minitransformer.apps.plots.attention import attention_maps as attention_maps
from minitransformer.apps.plots.colours import use_style as use_style
from minitransformer.apps.plots.curves import training_curves as training_curves
from minitransformer.apps.plots.own_parts import compare_losses as compare_losses
from minitransformer.apps.plots.own_parts import model_parts as model_parts
from minitransformer.apps.plots.saving import save as save
from minitransformer.apps.plots.step_sizes import step_sizes as step_sizes
from minitransformer.public import public_names

__all__ = public_names(globals())
