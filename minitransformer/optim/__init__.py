"""What moves the parameters: Adam, and the learning rate over time."""

from minitransformer.optim.adam import Adam
from minitransformer.optim.schedule import warmup

__all__ = ["Adam", "warmup"]
