"""Repetition over seeds: each of several variations is trained, or measured, once with every seed.

``train_variations`` trains the models of Table 3 and of the changes since the paper, each in a run folder of its own.
What is trained already is loaded, and an interrupted training continues at its last checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple, TypeVar

from minitransformer import runs, training
from minitransformer.console import counted
from minitransformer.decoding import Diverged

Name = TypeVar("Name", bound=str | tuple[object, ...])
Found = TypeVar("Found")


def check_seeds(seeds: Sequence[int]) -> None:
    """Raise a ValueError unless all seeds are possible and different."""
    for seed in seeds:
        runs.Configuration.check({"seed": seed})
        if seeds.count(seed) > 1:
            raise ValueError(f"seeds: found {seed} more than once, expected different seeds")


def over_seeds(
    names: Iterable[Name],
    seeds: Sequence[int],
    measure: Callable[[Name, int], Found],
    tell: Callable[[str], None],
    describe: Callable[[Found], str],
) -> dict[Name, list[Found]]:
    """Measure every variation with every seed: all with the first seed, then all with the second.

    Return the results of each variation, in the order of the seeds. ``measure(name, seed)`` returns one of them; a line
    about it, with the words of ``describe``, is passed to ``tell``. A seed that is impossible or occurs twice raises a
    ValueError.
    """
    check_seeds(seeds)
    found: dict[Name, list[Found]] = {name: [] for name in names}
    for number, (seed, name) in enumerate(product(seeds, found), 1):
        result = measure(name, seed)
        found[name].append(result)
        label = name if isinstance(name, str) else ", ".join(map(str, name))
        tell(f"{number} of {len(seeds) * len(found)}: {label}, seed {seed}: {describe(result)}")
    return found


class Result(NamedTuple):
    """What was measured for a model that was trained with one seed."""

    configuration: runs.Configuration
    parameters: int
    scores: Mapping[str, float]
    """The measurements of the held-out pairs, as the run folder has them."""

    @property
    def loss(self) -> float:
        """The cross-entropy in nats per token of the held-out targets, without label smoothing."""
        return self.scores["valid_loss"]

    @property
    def perplexity(self) -> float:
        """The exponential of the loss."""
        return math.exp(self.loss)

    @property
    def exact_match(self) -> float:
        """The share of held-out texts that are translated without any error."""
        return self.scores["exact_match"]

    @property
    def seconds(self) -> float:
        """The time of the training."""
        return self.scores["seconds"]


def train_variations(
    root: Path, variations: Mapping[str, runs.Configuration], seeds: Sequence[int], tell: Callable[[str], None]
) -> dict[str, list[Result]]:
    """Train every variation with every seed, or load what is trained already.

    Parameters
    ----------
    root : Path
        The folder of the run folders.
    variations : mapping
        The configurations by name, which names the run folders.
    seeds : sequence of int
        The seeds of data, initial weights and dropout, all different.
    tell : callable
        Called with a line for each result, and for each damaged checkpoint.

    Returns
    -------
    dict
        The results of each variation, in the order of the seeds.

    Raises
    ------
    ValueError
        If a seed is impossible or occurs twice, or there is a run of another configuration in a folder.
    Diverged
        If a loss is not a finite number; the message names the variation.
    """

    def train(name: str, seed: int) -> Result:
        folder = root / (f"{name}-seed-{seed}" if seed else name)
        try:
            return _train(folder, variations[name].changed(seed=seed), tell)
        except Diverged as error:
            raise Diverged(f"{error} of {name}, seed {seed}") from error

    def describe(result: Result) -> str:
        steps = counted(result.configuration.training.steps, "steps")
        return f"loss {result.loss:.4f} after {steps}, {result.seconds:.0f} s"

    return over_seeds(variations, seeds, train, tell, describe)


def _train(path: Path, wanted: runs.Configuration, report: Callable[[str], None]) -> Result:
    run = runs.RunFolder(path)
    threads = {name: getattr(wanted.training, name) for name in ("micro_batches", "workers", "blas_threads")}
    with runs.lock_folder(run.path):
        begun = training.holds_something(run)
        if begun and run.configuration().changed(**threads) != wanted:
            raise ValueError(f"{run.path} holds a run of another configuration; choose another --out")
        if not run.is_finished():
            trainer = training.resume(run, report, fork=True) if begun else training.Trainer(wanted, fork=True)
            if not begun:
                training.create_run(path, trainer.configuration, trainer.corpus)
            trainer.train(run)
        trained, final = runs.load(run, report=report), run.measurements.final()
    assert final is not None
    return Result(trained.options, sum(parameter.size for parameter in trained.model.parameters()), final)
