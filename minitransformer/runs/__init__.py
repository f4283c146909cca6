"""Runs on disk: the run folder, its configuration and checkpoints, and the trained model that is read from them."""

from minitransformer.public import public_names
from minitransformer.runs.checkpoints import Checkpoint as Checkpoint
from minitransformer.runs.checkpoints import read_checkpoint as read_checkpoint
from minitransformer.runs.configuration import Configuration as Configuration
from minitransformer.runs.errors import RunError as RunError
from minitransformer.runs.errors import writing as writing
from minitransformer.runs.folder import OWN_PARTS as OWN_PARTS
from minitransformer.runs.folder import RunFolder as RunFolder
from minitransformer.runs.loading import WEIGHTS as WEIGHTS
from minitransformer.runs.loading import TrainedRun as TrainedRun
from minitransformer.runs.loading import load as load
from minitransformer.runs.loading import open_model as open_model
from minitransformer.runs.loading import starts as starts
from minitransformer.runs.loading import with_start as with_start
from minitransformer.runs.locking import lock_folder as lock_folder
from minitransformer.runs.options import LENGTHS as LENGTHS
from minitransformer.runs.options import MOST_WORKERS as MOST_WORKERS
from minitransformer.runs.options import TrainingOptions as TrainingOptions
from minitransformer.runs.provenance import Provenance as Provenance
from minitransformer.runs.provenance import check_data as check_data
from minitransformer.runs.state import TrainingState as TrainingState

__all__ = public_names(globals())
