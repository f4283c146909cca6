"""Training: the training loop, its measurements, and the run folder."""

from minitransformer.sharding import Workers, clip_gradient, default_workers, shared_step
from minitransformer.train import training_step
from minitransformer.training.averaging import average
from minitransformer.training.checkpoints import Checkpoint
from minitransformer.training.configuration import Configuration
from minitransformer.training.creating import check_free, create_run, fresh_folder
from minitransformer.training.errors import RunError
from minitransformer.training.evaluation import Sample, Scores, evaluate
from minitransformer.training.loading import WEIGHTS, TrainedRun, load
from minitransformer.training.locking import lock_folder
from minitransformer.training.options import TrainingOptions
from minitransformer.training.resuming import has_ended, resume
from minitransformer.training.run import RunFolder
from minitransformer.training.text_evaluation import TextScores, evaluate_text
from minitransformer.training.trainer import Result, Trainer

__all__ = [
    "WEIGHTS",
    "Checkpoint",
    "Configuration",
    "Result",
    "RunError",
    "RunFolder",
    "Sample",
    "Scores",
    "TextScores",
    "TrainedRun",
    "Trainer",
    "TrainingOptions",
    "Workers",
    "average",
    "check_free",
    "clip_gradient",
    "create_run",
    "default_workers",
    "evaluate",
    "evaluate_text",
    "fresh_folder",
    "has_ended",
    "load",
    "lock_folder",
    "resume",
    "shared_step",
    "training_step",
]
