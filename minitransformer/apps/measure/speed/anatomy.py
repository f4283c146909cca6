"""Where the time of our training step goes.

A turn measures these, one right after the other, so ratios compare measurements of the same minute:

- the step as it is, with all its processes;
- the *ceiling*: each of the step's matrix products alone (see ``ceiling.py``). The ideal time of the products over the
  time of the step is the share of the machine's best speed that the step reaches;
- one process's *share* of the batch, alone on the machine, and its share of the optimiser's work, once plainly and once
  with every array operation recorded (see ``account.py``). The plain step's time minus the recorded operations is *the
  rest*: Python, the graph, views. Recording costs a little time itself, so the rest comes out slightly low;
- *autograd and Python*: a step of the same graph, with the same numbers of layers and heads and the same code, but one
  sentence of one token and vectors of one feature for each head, so that the arithmetic costs nothing and what is
  left is the interpreter, the graph and the overhead of NumPy's calls, given relative to the time of the process's
  share. It contains the rest, and the fixed part of every recorded operation.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from math import ceil
from statistics import median
from typing import Any

from minitransformer import ops
from minitransformer.apps.measure.means import median_of_all
from minitransformer.apps.measure.speed.account import KINDS, Account, accounting
from minitransformer.apps.measure.speed.ceiling import Product, time_products
from minitransformer.apps.measure.speed.ours import Program, build, random_batch, stepping, time_steps, workers_for
from minitransformer.apps.measure.speed.turns import Outcome
from minitransformer.apps.measure.speed.workloads import LABEL_SMOOTHING, LEARNING_RATE, Workload
from minitransformer.arrays import blas
from minitransformer.data import PAD, Batch
from minitransformer.gradients import Sum
from minitransformer.optim import Adam, Gradient
from minitransformer.training import training_step

TINY_STEPS = 30


def shrink(workload: Workload) -> Workload:
    """Return the workload of the same graph at which arrays cost nothing."""
    return workload.changed(d_model=workload.model.n_heads, d_ff=1, vocabulary=2, batch=1, length=1)


class ProcessShare:
    """One process's part of a training step, split into forward pass, backward pass and optimiser.

    Parameters
    ----------
    workload : Workload
        The model and the whole batch.
    workers : int
        How many share it.
    """

    def __init__(self, workload: Workload, workers: int) -> None:
        self.model = build(workload)
        self.parameters = self.model.parameters()
        self.optimiser = Adam(self.parameters, part=(0, workers))
        self.batch = Batch(*(ids[: ceil(workload.batch / workers)] for ids in random_batch(workload)))
        self.workers = workers

    def step(self, account: Account | None = None) -> None:
        """Run it, and record it in an account if one is given."""
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
        # Our own gradients take the place of the other processes': adding them takes as long.
        self.optimiser.step(LEARNING_RATE, Sum([Gradient(self.optimiser.buffer)] * self.workers))
        if account is not None:
            account.direction = "step"
            account.book("adam", "optimiser", time.perf_counter() - start)


@contextmanager
def prepare(workload: Workload, workers: int | None) -> Iterator[Program]:
    """Return the program: it measures all of these, and its description contains the matrix products."""
    number = workers_for(workload, workers)
    products = _products(workload, 1)
    of_share = _products(workload, number) if number > 1 else products
    share = ProcessShare(workload, number)
    tiny, tiny_batch = build(shrink(workload)), random_batch(shrink(workload))
    tiny_optimiser = Adam(tiny.parameters())
    threads_each = max(1, blas.cores() // number)

    def turn(times: int) -> dict[str, Any]:
        with stepping(workload, number) as steps:
            seconds = steps(times)["seconds"]
        together = time_products(products, 1)
        side_by_side = None
        alone, accounts = [], [Account() for _ in range(times)]
        with blas.threads(threads_each) if number > 1 else nullcontext():
            if number > 1:
                side_by_side = time_products(of_share, number)
            share.step()
            for account in accounts:  # in turns, so that both run under the same conditions
                alone += time_steps(share.step, 1)
                share.step(account)
        tiny_step = time_steps(
            lambda: training_step(tiny, tiny_optimiser, tiny_batch, LEARNING_RATE, LABEL_SMOOTHING), TINY_STEPS
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
            "products": _as_list(products),
            "products_of_share": _as_list(of_share),
        },
    )


def _products(workload: Workload, workers: int) -> Counter[Product]:
    """Return the matrix products of one process's share."""
    account = Account()
    ProcessShare(workload, workers).step(account)
    return account.products


def _as_list(products: Counter[Product]) -> list[dict[str, Any]]:
    return [{**product._asdict(), "times": times, "flops": product.flops} for product, times in products.items()]


def summarise_anatomy(outcome: Outcome, workload: Workload) -> dict[str, Any]:
    """Return where the time goes, from the answers of the program.

    Of each matrix product the best time of all turns counts; of everything else the median over the turns.
    """
    if outcome.failed is not None:
        return {"failed": outcome.failed}
    description, answers = outcome.description, outcome.answers
    step = median_of_all([answer["seconds"] for answer in answers])
    ways = {"together": ("products", answers[0]["together"])}
    if answers[0]["side_by_side"] is not None:
        ways["side_by_side"] = ("products_of_share", answers[0]["side_by_side"])
    ideal = {
        way: sum(
            product["times"] * min(answer[way][i] for answer in answers)
            for i, product in enumerate(description[products])
        )
        for way, (products, _) in ways.items()
    }
    best = min(ideal.values())
    # Medians of shares, not of times, so that a turn on a slow machine counts like any other.
    alone = median_of_all([answer["alone"] for answer in answers])
    shares = {
        kind: median(answer["booked"][kind] / median(answer["alone"]) for answer in answers)
        for kind in answers[0]["booked"]
    }
    shares["the rest"] = max(0.0, 1 - sum(shares.values()))
    overhead = median(median(answer["tiny"]) / median(answer["alone"]) for answer in answers)
    return {
        "failed": None,
        "workers": description["workers"],
        "step": step,
        "flops": description["flops"],
        "ideal": ideal,
        "ceiling": description["flops"] / best,
        "achieved": description["flops"] / step,
        "share_of_ceiling": best / step,
        "alone": alone,
        "sentences": -(-workload.batch // description["workers"]),
        "shares": shares,
        "autograd_and_python": {"seconds": median(median(answer["tiny"]) for answer in answers), "share": overhead},
        "products": description["products"],
        "products_of_share": description["products_of_share"],
        "answers": answers,
    }
