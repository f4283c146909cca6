"""Data parallelism: each batch is cut into micro-batches, which have gradients of their own.

The loss of a batch is the mean over its n target tokens. Cut the sentences into micro-batches; micro-batch w has n_w
target tokens, and L_w is the mean over those. Then

    L = Σ_w (n_w / n) L_w            and so            dL/dθ = Σ_w (n_w / n) dL_w/dθ

The backward pass of a micro-batch starts with n_w / n, and the gradients are added in the order of the micro-batches.
The sum is the gradient of the whole batch, up to rounding. It depends on the number of micro-batches, but not on the
process that computes each of them. Each process has consecutive micro-batches, computes one after the other, and
updates a part of the weights (see ``parallel/process_group.py``). Several batches in one step act as one larger batch
that need not fit into memory: each is cut into micro-batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from minitransformer.arrays import Array, RowsGenerator, backend, blas
from minitransformer.data import PAD
from minitransformer.gradients.sums import Flat, Sum
from minitransformer.nn import Model
from minitransformer.optim import Buffer, Gradient
from minitransformer.options import OptionError
from minitransformer.parallel.process_group import ProcessGroup

LEAST_TOKENS = 256
"""The smallest micro-batch that is worth a process; below it, the overhead of Python dominates."""


class Batch(Protocol):
    """Sentences of equal length, filled up with `PAD`."""

    @property
    def inputs(self) -> tuple[Any, ...]:
        """What the model is called with: source (B, Tk) and target (B, Tq), or the target alone."""

    @property
    def target_output(self) -> Any:
        """The token that follows each position of the target, (B, Tq)."""


class Part(NamedTuple):
    """What a micro-batch has of one batch."""

    batch: Batch
    weight: float
    """The part of the step's target tokens that these are."""
    rng: np.random.Generator | None
    """It draws dropout for these rows as one micro-batch would for the whole batch; None in evaluation mode."""


def default_micro_batches(batch_tokens: int) -> int:
    """Return the default number of micro-batches for several processes: one per core, if each has enough to do."""
    return 1 if backend() != "numpy" else max(1, min(blas.cores(), batch_tokens // LEAST_TOKENS))


def default_processes(micro_batches: int, workers: int | None) -> int:
    """Return how many processes of this machine should work on a batch: those asked for, or one per core."""
    return 1 if backend() != "numpy" else min(workers or blas.cores(), micro_batches)


def check_workers(number: int) -> None:
    """Raise a ValueError for fewer workers than 1, or for several on a GPU, which one keeps busy."""
    if number < 1:
        raise ValueError(f"workers must be at least 1, found {number}")
    if number > 1 and backend() != "numpy":
        raise ValueError(
            f"workers must be 1 with {backend()}, found {number}: they are processes that share the cores of a CPU"
        )


def check_micro_batches(micro_batches: int, group: ProcessGroup) -> None:
    """Raise a ValueError if there are fewer micro-batches than 1 or than processes."""
    if micro_batches < 1:
        raise ValueError(f"micro_batches must be at least 1, found {micro_batches}")
    if micro_batches < group.size:
        raise OptionError(
            f"micro_batches must be at least {group.size}, one for each process, found {micro_batches}; start fewer "
            "processes, or a run with more micro-batches",
            "micro_batches",
        )


def divide(micro_batches: int, size: int) -> list[range]:
    """Return the micro-batches of each of several processes."""
    cuts = [micro_batches * rank // size for rank in range(size + 1)]
    return [range(*cuts[rank : rank + 2]) for rank in range(size)]


def cut_batches(
    model: Model, batches: Sequence[Any], micro_batches: int, group: ProcessGroup
) -> Iterator[Iterator[Part | None]]:
    """Yield, for each micro-batch of this process, its part of each batch; None for a part without sentences.

    Take them one after the other. After the last one the model's generator is where one micro-batch would leave it.

    Parameters
    ----------
    model : Transformer or LanguageModel
        Its generator draws dropout if it is in training mode.
    batches : sequence of Batch
        The batches of one step.
    micro_batches : int
        The number of micro-batches of each batch.
    group : ProcessGroup
        The processes that work on them.

    Raises
    ------
    ValueError
        If there are fewer micro-batches than 1 or than processes.
    """
    check_micro_batches(micro_batches, group)
    tokens = max(1, sum(map(_target_tokens, batches)))
    if micro_batches == 1:
        own = model.rng if model.training else None
        yield (Part(batch, _target_tokens(batch) / tokens, own) for batch in batches)
        return
    rng, states = RowsGenerator(np.random.PCG64DXSM()), [model.rng.bit_generator.state]  # before each batch

    def parts(w: int) -> Iterator[Part | None]:
        for i, batch in enumerate(batches):
            n = len(batch.target_output)
            first, last = (
                -(-n * i // micro_batches) for i in (w, w + 1)
            )  # the first micro-batch is the last to be empty
            rng.bit_generator.state = states[i]
            rng.before, rng.after = first, n - last
            rows = type(batch)(*(ids[first:last] for ids in batch))
            weight = _target_tokens(rows) / tokens
            yield None if w and first == last else Part(rows, weight, rng if model.training else None)
            if len(states) == i + 1:
                states.append(rng.bit_generator.state)
                if n < micro_batches and group.size > 1:  # some process's first micro-batch was empty, and drew nothing
                    states[-1] = group.broadcast(lambda: states[-1])

    for w in divide(micro_batches, group.size)[group.rank]:
        yield parts(w)
    model.rng.bit_generator.state = states[-1]


def sum_gradients(own: Sequence[Gradient], buffer: Buffer, micro_batches: int, group: ProcessGroup) -> Sum:
    """Return the sum of all micro-batches' gradients, for the parameters that this process updates.

    Each process sends the others their parts of the gradients of its own micro-batches.
    """
    if group.size == 1:
        return Sum(own)
    others = [rank != group.rank for rank in range(group.size)]
    lengths = [other * (part.stop - part.start) for part, other in zip(buffer.parts, others, strict=True)]
    sizes = [len(own) * length for length in lengths]
    sent, start = group.send_buffer(sizes, buffer.values.dtype), 0
    for part, length, other in zip(buffer.parts, lengths, others, strict=True):
        for gradient in own if other else ():
            gradient.write(part, sent[start : start + length])
            start += length
    here, divided = buffer.own.stop - buffer.own.start, divide(micro_batches, group.size)
    numbers = [other * len(theirs) for theirs, other in zip(divided, others, strict=True)]
    received = group.all_to_all(sent, sizes, [number * here for number in numbers])
    blocks = [
        Flat(parts[micro_batch * here : (micro_batch + 1) * here], buffer)
        for parts, number in zip(received, numbers, strict=True)
        for micro_batch in range(number)
    ]
    before = divided[group.rank].start
    return Sum([*blocks[:before], *own, *blocks[before:]])


def sum_losses(own: list[list[Array | float]], group: ProcessGroup) -> Array:
    """Return the loss of a step; ``own`` has, for each micro-batch here, the loss of its part of each batch."""
    by_micro_batch = [losses for process in group.all_gather(own) for losses in process]
    by_batch = [sum(losses[1:], start=losses[0]) for losses in zip(*by_micro_batch, strict=True)]
    return sum(by_batch[1:], start=by_batch[0])


def _target_tokens(batch: Batch) -> int:
    return int((batch.target_output != PAD).sum())
