"""Every value and gradient of one forward and backward pass of a model, by name."""

from minitransformer.tracing.objectives import LogProbability, LogProbabilityDifference, Loss, Objective
from minitransformer.tracing.twin import in_double, twin
from minitransformer.tracing.watching import Call, Input, Run, Watcher, run, watching

__all__ = ["Call", "Input", "LogProbability", "LogProbabilityDifference", "Loss", "Objective", "Run", "Watcher"]
__all__ += ["in_double", "run", "twin", "watching"]
