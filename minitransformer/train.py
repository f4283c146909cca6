"""One training step: predict, compare, propagate back, and move the weights (section 5 of the paper).

A loop of your own calls `training_step` with a batch. ``minitransformer train`` calls the same function, with options
that cut a batch into micro-batches for several processes, and that limit memory or the size of the gradient.

On Linux, call ``minitransformer.arrays.keep_freed_memory()`` at the top of a script with a training loop of its own:
small steps then take 20 to 40 % less time. The command ``minitransformer train`` does so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitransformer import ops
from minitransformer.arrays import Array
from minitransformer.gradients import (
    Batch,
    add_gradient_in_blocks,
    clip_gradient,
    cut_batches,
    sum_gradients,
    sum_losses,
)
from minitransformer.nn import Model
from minitransformer.nn.model import PAD
from minitransformer.optim import Adam, Gradient
from minitransformer.parallel import SINGLE_PROCESS, ProcessGroup


def training_step(
    model: Model,
    optimiser: Adam,
    batch: Batch | Sequence[Batch],
    learning_rate: float,
    label_smoothing: float = 0.0,
    *,
    clip: float | None = None,
    micro_batches: int = 1,
    loss_block: int | None = None,
    group: ProcessGroup = SINGLE_PROCESS,
) -> Array:
    """Move the weights once against the gradient of the loss of a batch.

    Parameters
    ----------
    model : Transformer or LanguageModel
        The model; dropout is on, unless ``model.eval()`` was called.
    optimiser : Adam
        Made from the model's parameters.
    batch : Batch, or a sequence of them
        Sentence pairs, or pieces of a text. Several batches act as one larger one that need not fit into memory.
    learning_rate : float
        The size of the step; section 5.3 gives the schedule, `optim.warmup`.
    label_smoothing : float
        The share of the target probability that is spread over all tokens; section 5.4.
    clip : float, optional
        The largest norm of the gradient; see `clip_gradient`. By default there is none.
    micro_batches : int, default 1
        The number of parts of each batch, which have gradients of their own; see ``gradients/micro_batches.py``. The
        last bits of the weights depend on it, but not on the processes.
    loss_block : int, optional
        The number of target positions whose logits are in memory at a time; by default all.
    group : ProcessGroup
        The processes that work on the micro-batches; by default only this one. Each calls this function with the same
        batch and an optimiser of its part of the weights.

    Returns
    -------
    array, shape ()
        The loss before the step, in nats per target token.

    Raises
    ------
    ValueError
        If there are fewer micro-batches than processes.
    """
    batches: Sequence[Any] = [batch] if hasattr(batch, "target_output") else list(batch)
    losses: list[list[Array | float]] = []
    gradients = []
    for micro_batch in cut_batches(model, batches, micro_batches, group):  # by default a single one: the whole batch
        optimiser.zero_grad()
        losses.append([])
        for part in micro_batch:
            if part is None:  # fewer sentences than micro-batches
                losses[-1].append(0.0)
            elif loss_block is not None:
                losses[-1].append(add_gradient_in_blocks(model, part, loss_block, label_smoothing))
            else:
                logits = model(*part.batch.inputs, rng=part.rng)  # (B, Tq, V)
                loss = ops.cross_entropy(logits, part.batch.target_output, label_smoothing, ignore_index=PAD)
                del logits  # the graph keeps what it needs
                loss.backward(part.weight, release=True)
                losses[-1].append(part.weight * loss.data)
        gradients.append(Gradient(optimiser.buffer))
    gradient = sum_gradients(gradients, optimiser.buffer, micro_batches, group)
    if clip is not None:
        gradient, _ = clip_gradient(gradient, optimiser.buffer, clip, group.all_gather)
    optimiser.step(learning_rate, gradient)
    group.all_gather_into(optimiser.values, optimiser.buffer.parts)
    return sum_losses(losses, group)
