"""Optimisation: Adam, and schedules of the learning rate."""

from minitransformer.optim.adam import Adam
from minitransformer.optim.gradients import Flat, Gradients, Own
from minitransformer.optim.schedule import inverse_square_root, linear_decay, warmup

__all__ = ["Adam", "Flat", "Gradients", "Own", "inverse_square_root", "linear_decay", "warmup"]
