"""One training step: predict, compare, propagate back, and move the weights (section 5 of the paper).

The step of a batch that one worker computes is all there is to see here. `sharding` lets several workers, in threads or
processes, each call ``add_gradient`` for a share of a larger batch, and adds what they find.

On Linux, call ``minitransformer.arrays.keep_freed_memory()`` at the top of a script with a training loop of its own:
small steps then take 20 to 40 % less time. The command ``minitransformer train`` does so.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from minitransformer import ops
from minitransformer.arrays import Array
from minitransformer.nn import Model
from minitransformer.nn.model import PAD
from minitransformer.optim import Adam


class Batch(Protocol):
    """Sentences of equal length, filled up with `PAD`."""

    @property
    def inputs(self) -> tuple[Any, ...]:
        """What the model is called with: source (B, Tk) and target (B, Tq), or the target alone."""

    @property
    def target_output(self) -> Any:
        """The token that follows each position of the target, (B, Tq)."""


def add_gradient(
    model: Model,
    batch: Batch,
    label_smoothing: float = 0.0,
    weight: float = 1.0,
    rng: np.random.Generator | None = None,
) -> Array:
    """Add the gradient of a batch's loss to the ``grad`` of every parameter; return the loss, in nats per target token.

    Both are multiplied by ``weight``, the batch's part of a larger one. ``rng`` draws dropout, by default the model's.
    """
    logits = model(*batch.inputs, rng=rng)  # (B, Tq, V)
    loss = ops.cross_entropy(logits, batch.target_output, label_smoothing=label_smoothing, ignore_index=PAD)
    del logits  # the graph keeps what it needs
    loss.backward(weight, release=True)
    return weight * loss.data


def training_step(
    model: Model,
    optimiser: Adam,
    batch: Batch,
    learning_rate: float,
    label_smoothing: float = 0.0,
) -> Array:
    """Move the weights once against the gradient of the loss of a batch.

    Parameters
    ----------
    model : Transformer or LanguageModel
        The model; dropout is on, unless ``model.eval()`` was called.
    optimiser : Adam
        Made from the model's parameters.
    batch : Batch
        Sentence pairs, or pieces of a text.
    learning_rate : float
        The size of the step; section 5.3 gives the schedule, `optim.warmup`.
    label_smoothing : float
        The share of the target probability that is spread over all tokens; section 5.4.

    Returns
    -------
    array, shape ()
        The loss before the step, in nats per target token.
    """
    optimiser.zero_grad()
    loss = add_gradient(model, batch, label_smoothing)
    optimiser.step(learning_rate)
    return loss
