"""Optimisation: Adam, and schedules of the learning rate."""

from minitransformer.optim.adam import Adam as Adam
from minitransformer.optim.adam import update as update
from minitransformer.optim.buffer import Buffer as Buffer
from minitransformer.optim.buffer import Gradient as Gradient
from minitransformer.optim.schedule import inverse_square_root as inverse_square_root
from minitransformer.optim.schedule import linear_decay as linear_decay
from minitransformer.optim.schedule import warmup as warmup
from minitransformer.public import public_names

__all__ = public_names(globals())
