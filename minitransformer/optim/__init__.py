"""Optimisation: Adam, and schedules of the learning rate."""

from minitransformer.optim.adam import Adam, update
from minitransformer.optim.buffer import Buffer, Gradient
from minitransformer.optim.schedule import inverse_square_root, linear_decay, warmup

__all__ = [
    "Adam",
    "Buffer",
    "Gradient",
    "inverse_square_root",
    "linear_decay",
    "update",
    "warmup",
]
