"""Where the time of our training step goes.

A turn measures these, one right after the other, so that a ratio of two is one of the same minute:

- the step as it is, with all its workers;
- the *ceiling*: each of the step's matrix products alone (see ``ceiling.py``). The ideal time of the products over the
  time of the step is the share of the machine's best speed that the step reaches;
- one worker's *share* of the batch, alone on the machine, and its share of the optimiser's work, once plainly and once
  with every array operation on the books (see ``account.py``). What the plain step takes beyond the booked operations
  is *the rest*: Python, the graph, views. Booking costs a little time itself, so the rest comes out slightly low;
- *autograd and Python*: a step of the same graph, with the same numbers of layers and heads and the same code, but one
  sentence of one token and vectors of one feature for each head, so that the arithmetic costs nothing and what is
  left is the interpreter, the graph and the overhead of NumPy's calls. It is given as a share of what the worker's
  share takes. It contains the rest, and the fixed part of every booked operation.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import islice
from math import ceil
from statistics import median
from typing import Any

from minitransformer import blas, ops
from minitransformer.bench.account import KINDS, Account, accounting
from minitransformer.bench.ceiling import Product, time_products
from minitransformer.bench.ours import build, random_batch, timed, workers_for
from minitransformer.bench.workloads import LABEL_SMOOTHING, LEARNING_RATE, Sizes
from minitransformer.data import PAD, Batch
from minitransformer.optim import Adam
from minitransformer.training import Workers, training_step

__all__ = ["WorkersShare", "ready", "vanishing"]

TINY_STEPS = 30
WARM_UP = 2


def vanishing(sizes: Sizes) -> Sizes:
    """Return sizes of the same graph at which arrays cost nothing."""
    return replace(sizes, d_model=sizes.n_heads, d_ff=1, vocabulary=2, batch=1, length=1)


class WorkersShare:
    """What one worker does in a training step, taken apart into forward pass, backward pass and optimiser.

    Parameters
    ----------
    sizes : Sizes
        The model and the whole batch.
    workers : int
        How many share it.
    """

    def __init__(self, sizes: Sizes, workers: int) -> None:
        self.model = build(sizes)
        self.parameters = self.model.parameters()
        self.optimiser = Adam(self.parameters)
        self.batch = Batch(*(ids[: ceil(sizes.batch / workers)] for ids in random_batch(sizes)))
        self.workers = workers

    def step(self, account: Account | None = None) -> None:
        """Do it, with an account of it if one is given."""
        for parameter in self.parameters:
            parameter.grad = None
        with nullcontext() if account is None else accounting(account, self.parameters):
            if account is not None:
                account.direction = "forward"
            logits = self.model(self.batch.source, self.batch.target_input)
            loss = ops.cross_entropy(
                logits, self.batch.target_output, label_smoothing=LABEL_SMOOTHING, ignore_index=PAD
            )
            del logits
            if account is not None:
                account.direction = "backward"
            loss.backward(release=True)
        start = time.perf_counter()
        # The other workers' gradients are stood for by our own: they take as long to add up.
        self.optimiser.step(LEARNING_RATE, [self.parameters] * (self.workers - 1), self._my_part)
        if account is not None:
            account.direction = "step"
            account.book("adam", "optimiser", time.perf_counter() - start)

    def _my_part(self, function: Callable[[Any], Any], slices: Iterable[Any]) -> list[Any]:
        slices = list(slices)
        return [function(part) for part in islice(slices, ceil(len(slices) / self.workers))]


@contextmanager
def ready(sizes: Sizes, workers: int | None) -> Iterator[tuple[Callable[[int], dict[str, Any]], dict[str, Any]]]:
    """Make the program: a function that measures all of it, and a description with the matrix products."""
    number = workers_for(sizes, workers)
    products = _products(sizes, 1)
    of_share = _products(sizes, number) if number > 1 else products
    share = WorkersShare(sizes, number)
    tiny, tiny_batch = build(vanishing(sizes)), random_batch(vanishing(sizes))
    tiny_optimiser, tiny_worker = Adam(tiny.parameters()), Workers(tiny)
    model, batch = build(sizes), random_batch(sizes)
    optimiser = Adam(model.parameters())
    threads_each = max(1, blas.cores() // number)

    def turn(times: int) -> dict[str, Any]:
        with Workers(model, number) as team:

            def step() -> None:
                training_step(model, optimiser, batch, LEARNING_RATE, LABEL_SMOOTHING, team)

            step()
            seconds = timed(step, times)
        together = time_products(products, 1)
        side_by_side = None
        alone, accounts = [], [Account() for _ in range(times)]
        with blas.threads(threads_each) if number > 1 else nullcontext():
            if number > 1:
                side_by_side = time_products(of_share, number)
            share.step()
            for account in accounts:  # by turns, so that both meet the same machine
                alone += timed(share.step, 1)
                share.step(account)
        tiny_step = timed(
            lambda: training_step(tiny, tiny_optimiser, tiny_batch, LEARNING_RATE, LABEL_SMOOTHING, tiny_worker),
            TINY_STEPS,
        )
        return {
            "seconds": seconds,
            "together": together,
            "side_by_side": side_by_side,
            "alone": alone,
            "booked": {kind: median(account.by_kind()[kind] for account in accounts) for kind in KINDS},
            "entries": [
                [*entry, median(account.seconds[entry] for account in accounts), calls]
                for entry, calls in accounts[0].calls.items()
            ],
            "tiny": tiny_step,
        }

    yield (
        turn,
        {
            "workers": number,
            "flops": sum(product.flops * n for product, n in products.items()),
            "products": _listed(products),
            "products_of_share": _listed(of_share),
        },
    )


def _products(sizes: Sizes, workers: int) -> Counter[Product]:
    """Return the matrix products of one worker's share."""
    account = Account()
    WorkersShare(sizes, workers).step(account)
    return account.products


def _listed(products: Counter[Product]) -> list[dict[str, Any]]:
    return [{**product._asdict(), "times": times, "flops": product.flops} for product, times in products.items()]
