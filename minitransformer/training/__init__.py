"""Training: the training loop, its measurements, and the run folder."""

from minitransformer.public import public_names
from minitransformer.sharding import clip_gradient as clip_gradient
from minitransformer.sharding import default_shares as default_shares
from minitransformer.train import training_step as training_step
from minitransformer.training.averaging import average as average
from minitransformer.training.checkpoints import Checkpoint as Checkpoint
from minitransformer.training.checkpoints import read_checkpoint as read_checkpoint
from minitransformer.training.configuration import Configuration as Configuration
from minitransformer.training.continuing import continue_from as continue_from
from minitransformer.training.continuing import freeze as freeze
from minitransformer.training.creating import check_free as check_free
from minitransformer.training.creating import create_run as create_run
from minitransformer.training.creating import fresh_folder as fresh_folder
from minitransformer.training.creating import holds_something as holds_something
from minitransformer.training.errors import RunError as RunError
from minitransformer.training.errors import writing as writing
from minitransformer.training.evaluation import Sample as Sample
from minitransformer.training.evaluation import Scores as Scores
from minitransformer.training.evaluation import evaluate as evaluate
from minitransformer.training.loading import WEIGHTS as WEIGHTS
from minitransformer.training.loading import TrainedRun as TrainedRun
from minitransformer.training.loading import load as load
from minitransformer.training.loading import open_model as open_model
from minitransformer.training.loading import starts as starts
from minitransformer.training.loading import with_start as with_start
from minitransformer.training.locking import lock_folder as lock_folder
from minitransformer.training.options import LENGTHS as LENGTHS
from minitransformer.training.options import MOST_WORKERS as MOST_WORKERS
from minitransformer.training.options import TrainingOptions as TrainingOptions
from minitransformer.training.provenance import Provenance as Provenance
from minitransformer.training.provenance import check_data as check_data
from minitransformer.training.resuming import has_ended as has_ended
from minitransformer.training.resuming import resume as resume
from minitransformer.training.run import OWN_PARTS as OWN_PARTS
from minitransformer.training.run import RunFolder as RunFolder
from minitransformer.training.scores import Share as Share
from minitransformer.training.state import TrainingState as TrainingState
from minitransformer.training.text_evaluation import TextScores as TextScores
from minitransformer.training.text_evaluation import evaluate_text as evaluate_text
from minitransformer.training.trainer import Result as Result
from minitransformer.training.trainer import Trainer as Trainer
from minitransformer.training.yardsticks import parsing_lines as parsing_lines
from minitransformer.training.yardsticks import trigram_bits as trigram_bits
from minitransformer.training.yardsticks import write_by_trigram as write_by_trigram
from minitransformer.training.yardsticks import write_texts as write_texts
from minitransformer.training.yardsticks import xz_bits as xz_bits

__all__ = public_names(globals())
