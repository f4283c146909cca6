"""Training: the loop, its measurements, and what begins, resumes and averages runs."""

from minitransformer.gradients import clip_gradient as clip_gradient
from minitransformer.gradients import default_micro_batches as default_micro_batches
from minitransformer.public import public_names
from minitransformer.train import training_step as training_step
from minitransformer.training.averaging import average as average
from minitransformer.training.baselines import parsing_lines as parsing_lines
from minitransformer.training.baselines import trigram_bits as trigram_bits
from minitransformer.training.baselines import write_by_trigram as write_by_trigram
from minitransformer.training.baselines import write_texts as write_texts
from minitransformer.training.baselines import xz_bits as xz_bits
from minitransformer.training.continuing import continue_from as continue_from
from minitransformer.training.continuing import freeze as freeze
from minitransformer.training.creating import check_free as check_free
from minitransformer.training.creating import create_run as create_run
from minitransformer.training.creating import fresh_folder as fresh_folder
from minitransformer.training.creating import holds_something as holds_something
from minitransformer.training.evaluation import Sample as Sample
from minitransformer.training.evaluation import Scores as Scores
from minitransformer.training.evaluation import evaluate as evaluate
from minitransformer.training.resuming import has_ended as has_ended
from minitransformer.training.resuming import resume as resume
from minitransformer.training.scores import Share as Share
from minitransformer.training.text_evaluation import TextScores as TextScores
from minitransformer.training.text_evaluation import evaluate_text as evaluate_text
from minitransformer.training.trainer import Result as Result
from minitransformer.training.trainer import Trainer as Trainer

__all__ = public_names(globals())
