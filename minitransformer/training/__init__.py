"""Training: the loop, what it measures, and the folder that it leaves behind."""

from minitransformer.training.configuration import Configuration
from minitransformer.training.loading import Trained, load
from minitransformer.training.metrics import Sample, Scores, evaluate, translate
from minitransformer.training.run import Checkpoint, RunError, RunFolder
from minitransformer.training.trainer import Diverged, Trainer, training_step

__all__ = [
    "Checkpoint",
    "Configuration",
    "Diverged",
    "RunError",
    "RunFolder",
    "Sample",
    "Scores",
    "Trained",
    "Trainer",
    "evaluate",
    "load",
    "training_step",
    "translate",
]
