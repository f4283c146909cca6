"""A training step, and the batches for the steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from minitransformer.arrays import Array
from minitransformer.data import Batch, ParallelBatches, TextBatch, WindowBatches
from minitransformer.nn import LanguageModel, Transformer
from minitransformer.optim import Adam
from minitransformer.training.clipping import clip_gradients
from minitransformer.training.workers import Workers

__all__ = ["all_batches", "training_step"]


def training_step(
    model: Transformer | LanguageModel,
    optimiser: Adam,
    batches: Batch | TextBatch | Sequence[Batch | TextBatch],
    learning_rate: float,
    label_smoothing: float,
    workers: Workers | None = None,
    clip: float | None = None,
) -> Array:
    """Move the weights once against the gradient of the loss of a batch, or of several together.

    Parameters
    ----------
    model : Transformer or LanguageModel
        The model.
    optimiser : Adam
        Made from the model's parameters.
    batches : Batch or TextBatch, or a sequence of them
        Sentence pairs, or pieces of a text; several batches, processed one after the other, make one step.
    learning_rate : float
        The size of the step.
    label_smoothing : float
        The share of the target probability that is spread over all tokens.
    workers : Workers, optional
        Made from the model; by default there is one.
    clip : float, optional
        The largest norm of the gradient; see `clip_gradients`. By default there is none.

    Returns
    -------
    array, shape ()
        The loss before the step, in nats per target token.
    """
    workers = Workers(model) if workers is None else workers
    loss = workers.gradients(batches, label_smoothing)
    gradients = workers.collect(optimiser)
    if clip is not None:
        gradients, _ = clip_gradients(gradients, optimiser, clip, workers.each, workers.ranks.gather)
    optimiser.step(learning_rate, gradients, workers.each)
    workers.ranks.share_out(optimiser.values, optimiser.parts)
    return loss


def all_batches(batches: ParallelBatches | WindowBatches, number: int = 0) -> Iterator[Batch | TextBatch]:
    """Yield the batches of all epochs, without the first ``number``."""
    epoch, start = divmod(number, batches.batches_per_epoch)
    while True:
        yield from batches.epoch(epoch, start)
        epoch, start = epoch + 1, 0
