"""A training step that several workers share."""

from __future__ import annotations

from collections.abc import Sequence

from minitransformer.arrays import Array
from minitransformer.nn import LanguageModel, Transformer
from minitransformer.optim import Adam
from minitransformer.sharding.clipping import clip_gradient
from minitransformer.sharding.workers import AnyBatch, Workers


def shared_step(
    model: Transformer | LanguageModel,
    optimiser: Adam,
    batches: AnyBatch | Sequence[AnyBatch],
    learning_rate: float,
    label_smoothing: float = 0.0,
    workers: Workers | None = None,
    clip: float | None = None,
) -> Array:
    """Do what ``training_step`` does, with all workers, for one batch or several together.

    Parameters
    ----------
    model : Transformer or LanguageModel
        The model.
    optimiser : Adam
        Made from the model's parameters, with the part of this process.
    batches : Batch or TextBatch, or a sequence of them
        Sentence pairs, or pieces of a text; several batches, processed one after the other, make one step.
    learning_rate : float
        The size of the step.
    label_smoothing : float
        The share of the target probability that is spread over all tokens.
    workers : Workers, optional
        Made from the model; by default there is one.
    clip : float, optional
        The largest norm of the gradient; see `clip_gradient`. By default there is none.

    Returns
    -------
    array, shape ()
        The loss before the step, in nats per target token.
    """
    workers = Workers(model) if workers is None else workers
    loss = workers.gradients(batches, label_smoothing)
    gradient = workers.collect(optimiser)
    if clip is not None:
        gradient, _ = clip_gradient(gradient, optimiser.buffer, clip, workers.each, workers.ranks.gather)
    optimiser.step(learning_rate, gradient, workers.each)
    workers.ranks.share_out(optimiser.values, optimiser.buffer.parts)
    return loss
