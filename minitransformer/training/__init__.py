"""Training: the training loop, its measurements, and the run folder."""

from minitransformer.sharding import Workers, clip_gradient, default_workers, shared_step
from minitransformer.train import training_step
from minitransformer.training.averaging import average
from minitransformer.training.checkpoints import Checkpoint, read_checkpoint
from minitransformer.training.configuration import Configuration
from minitransformer.training.creating import check_free, create_run, fresh_folder, holds_something
from minitransformer.training.errors import RunError, writing
from minitransformer.training.evaluation import Sample, Scores, evaluate
from minitransformer.training.loading import WEIGHTS, TrainedRun, load, open_model
from minitransformer.training.locking import lock_folder
from minitransformer.training.options import LENGTHS, MOST_WORKERS, TrainingOptions
from minitransformer.training.provenance import Provenance, check_data
from minitransformer.training.resuming import has_ended, resume
from minitransformer.training.run import RunFolder
from minitransformer.training.scores import Share
from minitransformer.training.state import TrainingState
from minitransformer.training.text_evaluation import TextScores, evaluate_text
from minitransformer.training.trainer import Result, Trainer
from minitransformer.training.yardsticks import parsing_lines, trigram_bits, write_by_trigram, write_texts, xz_bits

__all__ = [
    "LENGTHS",
    "MOST_WORKERS",
    "WEIGHTS",
    "Checkpoint",
    "Configuration",
    "Provenance",
    "Result",
    "RunError",
    "RunFolder",
    "Sample",
    "Scores",
    "Share",
    "TextScores",
    "TrainedRun",
    "Trainer",
    "TrainingOptions",
    "TrainingState",
    "Workers",
    "average",
    "check_data",
    "check_free",
    "clip_gradient",
    "create_run",
    "default_workers",
    "evaluate",
    "evaluate_text",
    "fresh_folder",
    "has_ended",
    "holds_something",
    "load",
    "lock_folder",
    "open_model",
    "parsing_lines",
    "read_checkpoint",
    "resume",
    "shared_step",
    "training_step",
    "trigram_bits",
    "write_by_trigram",
    "write_texts",
    "writing",
    "xz_bits",
]
