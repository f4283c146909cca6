"""Data parallelism: a batch is cut into shares, and each share has a gradient of its own.

The loss of a batch is the mean over its n target tokens. Cut the sentences into shares; share w has n_w target tokens,
and L_w is the mean over those. Then

    L = Σ_w (n_w / n) L_w            and so            dL/dθ = Σ_w (n_w / n) dL_w/dθ

Each share has a copy of the model, whose backward pass starts with n_w / n; the gradients are added in the order of the
shares. The sum is the gradient of the whole batch, up to rounding. It depends on the number of shares, but not on the
assignment of shares to workers or on the order in which these finish. The workers are threads that share one set of
weights. NumPy releases Python's global lock while it computes, so they run at the same time, each on its own core.
Several processes share the work in the same way: each has consecutive shares, and updates a part of the weights (see
`ranks.py`).
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TypeAlias, TypeVar

import numpy as np

from minitransformer.arrays import Array, RowsGenerator, backend, blas
from minitransformer.console import counted
from minitransformer.data import PAD, Batch, TextBatch
from minitransformer.nn import LanguageModel, Transformer
from minitransformer.optim import Adam, Gradient
from minitransformer.options import OptionError
from minitransformer.sharding.blocks import add_gradient_in_blocks
from minitransformer.sharding.gradients import Flat, Sum
from minitransformer.sharding.ranks import ALONE, Ranks
from minitransformer.train import add_gradient

LEAST_TOKENS = 256
"""The smallest share that is worth a worker; below it, the overhead of Python, which runs on one core, dominates."""
SWITCH_INTERVAL = 0.0005
"""How many seconds a thread may hold the global lock while another waits; Python's default is 0.005."""

Item = TypeVar("Item")
Result = TypeVar("Result")
AnyBatch: TypeAlias = Batch | TextBatch


def default_workers(batch_tokens: int) -> int:
    """Return the default number of workers: one per core, as long as each has enough to do."""
    return 1 if backend() != "numpy" else max(1, min(blas.cores(), batch_tokens // LEAST_TOKENS))


def default_processes(shares: int, workers: int | None) -> int:
    """Return how many processes of this machine should work on a batch: one per core, unless threads were asked for."""
    return 1 if workers is not None or backend() != "numpy" else min(blas.cores(), shares)


def check_workers(number: int) -> None:
    """Raise a ValueError for fewer workers than 1, or for several on a GPU, which one keeps busy."""
    if number < 1:
        raise ValueError(f"workers must be at least 1, found {number}")
    if number > 1 and backend() != "numpy":
        raise ValueError(
            f"workers must be 1 with {backend()}, found {number}: they are threads that share the cores of a CPU"
        )


def check_shares(shares: int, ranks: Ranks) -> None:
    """Raise a ValueError if there are fewer shares than processes."""
    if shares < ranks.size:
        raise OptionError(
            f"found {counted(shares, 'shares')} for {ranks.size} processes, expected at least one for each; start "
            "fewer processes, or start a run with more shares",
            "shares",
        )


class Workers:
    """Threads that work on the shares of a batch; use them inside ``with Workers(model, n) as workers:``.

    Parameters
    ----------
    model : Transformer or LanguageModel
        The model; the first share uses it itself.
    shares : int
        The number of shares of each batch. Results depend on it in their last bits.
    threads : int, optional
        The number of workers, at most one per share; a single one works in the calling thread. By default one per core,
        and a single one on a GPU.
    blas_threads : int, optional
        How many threads each matrix product may use; by default the cores are divided among the shares.
    ranks : Ranks
        The processes that work on the shares, each on consecutive ones; by default only this one.
    loss_block : int, optional
        The number of target positions whose logits and loss are computed at a time; by default all.

    Raises
    ------
    ValueError
        If a number is below 1, there are several threads on a GPU, or there are fewer shares than processes.
    """

    def __init__(
        self,
        model: Transformer | LanguageModel,
        shares: int = 1,
        threads: int | None = None,
        blas_threads: int | None = None,
        ranks: Ranks = ALONE,
        loss_block: int | None = None,
    ) -> None:
        if shares < 1:
            raise ValueError(f"shares must be at least 1, found {shares}")
        if threads is not None:
            check_workers(threads)
        check_shares(shares, ranks)
        cores = ranks.cores if backend() == "numpy" else 1
        self.shares, self.ranks = shares, ranks
        self._cuts = [shares * rank // ranks.size for rank in range(ranks.size + 1)]
        self.own = range(*self._cuts[ranks.rank : ranks.rank + 2])
        self.threads = min(cores if threads is None else threads, len(self.own))
        self.blas_threads, self.loss_block = blas_threads, loss_block
        self.models = [model, *(_twin(model) for _ in self.own[1:])]
        self._parameters = [m.trained_parameters() for m in self.models]
        self._pool: ThreadPoolExecutor | None = None
        self._undo = ExitStack()

    def collect(self, optimiser: Adam) -> Sum:
        """Return the gradients of all shares, left by ``gradients``, for the parameters that the optimiser updates.

        Gradients of other processes' shares are received: each process sends the others their parts.
        """
        buffer = optimiser.buffer
        own = [Gradient(buffer, parameters) for parameters in self._parameters]
        if self.ranks.size == 1:
            return Sum(own)
        others = [rank != self.ranks.rank for rank in range(self.ranks.size)]
        lengths = [other * (part.stop - part.start) for part, other in zip(buffer.parts, others, strict=True)]
        sizes = [len(own) * length for length in lengths]
        sent = self.ranks.outgoing(sizes, buffer.values.dtype)
        places = iter(np.cumsum([0, *(length for length in lengths for _ in own)]).tolist())
        jobs = [(rank, share, next(places)) for rank in range(self.ranks.size) for share in own]

        def write(job: tuple[int, Gradient, int]) -> None:
            rank, share, start = job
            if others[rank]:
                share.write(buffer.parts[rank], sent[start : start + lengths[rank]])

        self.each(write, jobs)
        here, numbers = buffer.own.stop - buffer.own.start, np.diff(self._cuts).tolist()
        received = self.ranks.exchange(
            sent, sizes, [other * number * here for other, number in zip(others, numbers, strict=True)]
        )
        blocks = [
            Flat(parts[share * here : (share + 1) * here], buffer)
            for parts, other, number in zip(received, others, numbers, strict=True)
            for share in range(other * number)
        ]
        return Sum([*blocks[: self.own.start], *own, *blocks[self.own.start :]])

    def __enter__(self) -> Workers:
        threads = self.blas_threads or blas.default_threads(self.shares)
        self._undo.enter_context(blas.threads(threads))
        self.threads = blas.startable(self.threads)
        if self.threads > 1:
            self._undo.callback(sys.setswitchinterval, sys.getswitchinterval())
            sys.setswitchinterval(SWITCH_INTERVAL)
            self._pool = self._undo.enter_context(ThreadPoolExecutor(self.threads, thread_name_prefix="worker"))
        return self

    def __exit__(self, *exception: object) -> None:
        self._pool = None
        self._undo.close()

    def gradients(self, batches: AnyBatch | Sequence[AnyBatch], label_smoothing: float) -> Array:
        """Leave the gradient of the loss of one batch, or of several together, in the parameters of the shares' models.

        The gradient is the sum over all shares. Several batches, processed one after the other, act as one larger batch
        that need not fit into memory; each is weighted by its part of the target tokens.

        Parameters
        ----------
        batches : Batch or TextBatch, or a sequence of them
            Sentence pairs, or pieces of a text.
        label_smoothing : float
            The share of the target probability that is spread over all tokens.

        Returns
        -------
        array, shape ()
            The loss, in nats per target token.
        """
        batches = [batches] if isinstance(batches, Batch | TextBatch) else list(batches)
        tokens = max(1, sum(_target_tokens(batch) for batch in batches))
        for parameters in self._parameters:
            for parameter, shared in zip(parameters, self._parameters[0], strict=True):
                parameter.data, parameter.grad = shared.data, None
        found = self.ranks.gather([self._add_gradients(batch, label_smoothing, tokens) for batch in batches])
        by_batch = [[loss for losses in each for loss in losses] for each in zip(*found, strict=True)]
        losses = [sum(losses[1:], start=losses[0]) for losses in by_batch]
        return sum(losses[1:], start=losses[0])

    def _add_gradients(self, batch: AnyBatch, label_smoothing: float, tokens: int) -> list[Array]:
        """Add a batch's part of the gradient; return the part of the loss of each share of this process."""
        model, n = self.models[0], len(batch.target_output)
        state = model.rng.bit_generator.state

        def work(w: int) -> Array:
            first, last = (-(-n * i // self.shares) for i in (w, w + 1))  # the first share is the last to be empty
            share, twin = type(batch)(*(ids[first:last] for ids in batch)), self.models[w - self.own.start]
            if w and first == last:
                return np.zeros((), dtype=self._parameters[0][0].dtype)
            if self.shares > 1:  # each draws, for its rows, what one share would draw for the whole batch
                twin.rng.bit_generator.state = state
                twin.rng.before, twin.rng.after = first, n - last
            rest = label_smoothing, _target_tokens(share) / tokens, twin.rng
            if self.loss_block is not None:
                return add_gradient_in_blocks(twin, share, self.loss_block, *rest)
            return add_gradient(twin, share, *rest)

        try:
            losses = self.each(work, self.own)
        finally:
            model.rng.before = model.rng.after = 0
        if n < self.shares and self.ranks.size > 1:  # the first share of some process was empty, and drew nothing
            model.rng.bit_generator.state = self.ranks.first(lambda: model.rng.bit_generator.state)
        return losses

    def each(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Return the function's value for each item, in order; each worker does consecutive items."""
        items = list(items)
        if self._pool is None:
            return [function(item) for item in items]
        cuts = [len(items) * w // self.threads for w in range(self.threads + 1)]

        def some(w: int) -> list[Result]:
            return [function(item) for item in items[cuts[w] : cuts[w + 1]]]

        return [value for values in self._pool.map(some, range(self.threads)) for value in values]


def _target_tokens(batch: AnyBatch) -> int:
    return int((batch.target_output != PAD).sum())


def _twin(model: Transformer | LanguageModel) -> Transformer | LanguageModel:
    """Return a copy of a model whose parameters have the same arrays."""
    twin = copy.deepcopy(model, {id(p.data): p.data for p in model.parameters()})
    twin.rng = RowsGenerator(np.random.PCG64DXSM())
    return twin
