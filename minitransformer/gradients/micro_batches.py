"""Data parallelism: each batch is cut into shares, and each share has a gradient of its own.

The loss of a batch is the mean over its n target tokens. Cut the sentences into shares; share w has n_w target tokens,
and L_w is the mean over those. Then

    L = Σ_w (n_w / n) L_w            and so            dL/dθ = Σ_w (n_w / n) dL_w/dθ

A share's backward pass starts with n_w / n, and the gradients are added in the order of the shares. The sum is the
gradient of the whole batch, up to rounding. It depends on the number of shares, but not on the process that computes
each of them. Each process has consecutive shares, computes one after the other, and updates a part of the weights (see
`process_group.py`). Several batches in one step act as one larger batch that need not fit into memory: each is cut into
shares.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from minitransformer.arrays import Array, RowsGenerator, backend, blas
from minitransformer.console import counted
from minitransformer.data import PAD
from minitransformer.gradients.sums import Flat, Sum
from minitransformer.nn import Model
from minitransformer.optim import Buffer, Gradient
from minitransformer.options import OptionError
from minitransformer.parallel.process_group import ProcessGroup

LEAST_TOKENS = 256
"""The smallest share that is worth a process; below it, the overhead of Python dominates."""


class Batch(Protocol):
    """Sentences of equal length, filled up with `PAD`."""

    @property
    def inputs(self) -> tuple[Any, ...]:
        """What the model is called with: source (B, Tk) and target (B, Tq), or the target alone."""

    @property
    def target_output(self) -> Any:
        """The token that follows each position of the target, (B, Tq)."""


class Part(NamedTuple):
    """What a share has of one batch."""

    batch: Batch
    weight: float
    """The part of the step's target tokens that these are."""
    rng: np.random.Generator | None
    """It draws dropout for these rows as one share would for the whole batch; None in evaluation mode."""


def default_shares(batch_tokens: int) -> int:
    """Return the default number of shares where several processes work: one per core, if each has enough to do."""
    return 1 if backend() != "numpy" else max(1, min(blas.cores(), batch_tokens // LEAST_TOKENS))


def default_processes(shares: int, workers: int | None) -> int:
    """Return how many processes of this machine should work on a batch: those asked for, or one per core."""
    return 1 if backend() != "numpy" else min(workers or blas.cores(), shares)


def check_workers(number: int) -> None:
    """Raise a ValueError for fewer workers than 1, or for several on a GPU, which one keeps busy."""
    if number < 1:
        raise ValueError(f"workers must be at least 1, found {number}")
    if number > 1 and backend() != "numpy":
        raise ValueError(
            f"workers must be 1 with {backend()}, found {number}: they are processes that share the cores of a CPU"
        )


def check_shares(shares: int, group: ProcessGroup) -> None:
    """Raise a ValueError if there are fewer shares than 1 or than processes."""
    if shares < 1:
        raise ValueError(f"shares must be at least 1, found {shares}")
    if shares < group.size:
        raise OptionError(
            f"found {counted(shares, 'shares')} for {group.size} processes, expected at least one for each; start "
            "fewer processes, or start a run with more shares",
            "shares",
        )


def divide(shares: int, size: int) -> list[range]:
    """Return the shares of each of several processes."""
    cuts = [shares * rank // size for rank in range(size + 1)]
    return [range(*cuts[rank : rank + 2]) for rank in range(size)]


def share_out_rows(
    model: Model, batches: Sequence[Any], shares: int, group: ProcessGroup
) -> Iterator[Iterator[Part | None]]:
    """Yield, for each share of this process, its part of each batch; None for a part without sentences.

    Take them one after the other. After the last one the model's generator is where one share would leave it.

    Parameters
    ----------
    model : Transformer or LanguageModel
        Its generator draws dropout if it is in training mode.
    batches : sequence of Batch
        The batches of one step.
    shares : int
        The number of shares of each batch.
    group : ProcessGroup
        The processes that work on them.

    Raises
    ------
    ValueError
        If there are fewer shares than 1 or than processes.
    """
    check_shares(shares, group)
    tokens = max(1, sum(map(_target_tokens, batches)))
    if shares == 1:
        own = model.rng if model.training else None
        yield (Part(batch, _target_tokens(batch) / tokens, own) for batch in batches)
        return
    rng, states = RowsGenerator(np.random.PCG64DXSM()), [model.rng.bit_generator.state]  # before each batch

    def parts(w: int) -> Iterator[Part | None]:
        for i, batch in enumerate(batches):
            n = len(batch.target_output)
            first, last = (-(-n * i // shares) for i in (w, w + 1))  # the first share is the last to be empty
            rng.bit_generator.state = states[i]
            rng.before, rng.after = first, n - last
            rows = type(batch)(*(ids[first:last] for ids in batch))
            weight = _target_tokens(rows) / tokens
            yield None if w and first == last else Part(rows, weight, rng if model.training else None)
            if len(states) == i + 1:
                states.append(rng.bit_generator.state)
                if n < shares and group.size > 1:  # the first share of some process was empty, and drew nothing
                    states[-1] = group.broadcast(lambda: states[-1])

    for w in divide(shares, group.size)[group.rank]:
        yield parts(w)
    model.rng.bit_generator.state = states[-1]


def sum_gradients(own: Sequence[Gradient], buffer: Buffer, shares: int, group: ProcessGroup) -> Sum:
    """Return the sum of all shares' gradients, for the parameters that this process updates.

    Each process sends the others their parts of the gradients of its own shares.
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
    here, divided = buffer.own.stop - buffer.own.start, divide(shares, group.size)
    numbers = [other * len(theirs) for theirs, other in zip(divided, others, strict=True)]
    received = group.all_to_all(sent, sizes, [number * here for number in numbers])
    blocks = [
        Flat(parts[share * here : (share + 1) * here], buffer)
        for parts, number in zip(received, numbers, strict=True)
        for share in range(number)
    ]
    before = divided[group.rank].start
    return Sum([*blocks[:before], *own, *blocks[before:]])


def sum_losses(own: list[list[Array | float]], group: ProcessGroup) -> Array:
    """Return the loss of a step; ``own`` has, for each share of this process, the loss of its part of each batch."""
    by_share = [losses for process in group.all_gather(own) for losses in process]
    by_batch = [sum(losses[1:], start=losses[0]) for losses in zip(*by_share, strict=True)]
    return sum(by_batch[1:], start=by_batch[0])


def _target_tokens(batch: Batch) -> int:
    return int((batch.target_output != PAD).sum())
