"""What came after the paper, one change at a time: at equal parameters, equal training time and the same data.

The base has the paper's choices and the sizes of the task's recipe. Each other row changes one option. Two sizes follow
from the change:

- F is chosen so that every row has as many parameters as the base: SwiGLU, with three matrices instead of two, gets
  two thirds of F, and fewer key heads get a larger F;
- the number of steps is chosen so that every row takes as much CPU time as the base. The times of a step are measured
  before the first training, the models in turns, on one core. CPU time barely depends on what else the computer does,
  and a ratio of adjacent steps even less. Options counted in steps, such as the warm-up, scale with them.

With one seed, all rows have the same data in the same order, so rows are compared with the base seed by seed: by the
ratio of their bits. It varies less than the difference, because a seed that is bad for one row is bad for all, by a
factor. The interval is that of the mean logarithm, each row's alone; p is corrected for the number of rows.

Everything is kept in one folder: the sizes, and a run folder for each row and seed.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from minitransformer.apps.measure.means import holm, mean_interval
from minitransformer.apps.measure.seeds import Result, check_seeds, train_variations
from minitransformer.arrays import blas
from minitransformer.data import all_batches
from minitransformer.durable import check_makeable, write_durably
from minitransformer.files import read_json, read_toml
from minitransformer.nn import LanguageModel, Transformer
from minitransformer.optim import Adam
from minitransformer.options import Options, option
from minitransformer.runs import Configuration, writing
from minitransformer.tasks import build
from minitransformer.training import Trainer, training_step

_OPTIONS = read_toml(Path(__file__).with_suffix(".toml"))
BASE: Mapping[str, Any] = _OPTIONS["base"]
"""The paper's choices."""
SHORT: Mapping[str, Mapping[str, Any]] = _OPTIONS["short"]
"""Options for short trainings, by the task."""
ONE_CORE: Mapping[str, Any] = {"micro_batches": 1, "workers": 1, "blas_threads": 1}
UNTIMED, TIMED = 2, 24
"""Steps of each model before its time is measured, and with it."""
PER_CHARACTER = "bits_per_character"
"""The measurement of a task that writes texts."""
LEVEL = 0.95
"""The confidence of the intervals."""


@dataclass(frozen=True, kw_only=True)
class Sizes(Options):
    """What makes a row equal to the base in parameters and in time."""

    d_ff: int = option(2048, "F, with which the row has as many parameters as the base", at_least=1)
    cost: float = option(1.0, "the CPU time of a step, relative to the base's", above=0)


def base_configuration(task: str, steps: int | None = None, **options: Any) -> Configuration:
    """Return the configuration of the base.

    Parameters
    ----------
    task : str
        The name of the task.
    steps : int, optional
        Its training steps; by default those of ``SHORT``, or of the recipe.
    **options
        Other options that differ from the task's recipe.

    Raises
    ------
    OptionError
        If an option is impossible; `ValueError` if there is no such task.
    """
    own = {**SHORT.get(task, {}), **options}
    short = own.pop("steps", None)
    recipe = Configuration.of_task(build(task), **ONE_CORE, **own)
    peak = recipe.learning_rate(recipe.training.warmup_steps)
    # Learned positions have as many rows as a sentence of the data can have tokens.
    base = recipe.changed(**BASE, peak=peak, max_length=recipe.data.longest + 1)
    return _of_length(base, next(n for n in (steps, short, base.training.steps) if n is not None))


def _of_length(configuration: Configuration, steps: int) -> Configuration:
    return configuration.with_steps(steps, evaluate_every=steps)  # nothing is measured on the way


def rows_of(base: Configuration) -> dict[str, dict[str, Any]]:
    """Return the rows by name, each with the option that it changes; the first is the base."""
    return _OPTIONS["rows"] | {"grouped heads": {"n_kv_heads": max(1, base.model.n_heads // 2)}}


def with_sizes(base: Configuration, changes: Mapping[str, Any], sizes: Sizes) -> Configuration:
    """Return the configuration of a row."""
    steps = max(1, round(base.training.steps / sizes.cost))
    return _of_length(base.changed(**changes, d_ff=sizes.d_ff), steps)


def choose_sizes(trainer: Trainer, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Sizes]:
    """Choose F, and measure the cost of a step, for each row.

    Parameters
    ----------
    trainer : Trainer
        That of the base; its weights stay as they are.
    rows : mapping
        The rows by name, each with its changes; the first is the base.

    Returns
    -------
    dict of str to Sizes

    Raises
    ------
    OptionError
        If no F makes the numbers of parameters equal.
    """
    base = trainer.configuration

    def size(configuration: Configuration) -> int:
        return sum(parameter.size for parameter in _model(trainer, configuration).parameters())

    wanted, chosen = size(base), {}
    for name, changes in rows.items():
        row = base.changed(**changes)
        found, d_ff = size(row), row.model.d_ff
        more = size(row.changed(d_ff=d_ff + 1)) - found  # the number is linear in F
        chosen[name] = row.changed(d_ff=d_ff + round((wanted - found) / more))
    costs = _relative_costs(trainer, chosen)
    return {name: Sizes(d_ff=row.model.d_ff, cost=costs[name]) for name, row in chosen.items()}


def _model(trainer: Trainer, configuration: Configuration) -> Transformer | LanguageModel:
    return configuration.build_model(len(trainer.source), len(trainer.target), trainer.corpus.shared)


def _relative_costs(trainer: Trainer, rows: Mapping[str, Configuration]) -> dict[str, float]:
    """Return the CPU time of a training step of each row, relative to the first row's."""
    models = [_model(trainer, row) for row in rows.values()]
    adams = [
        Adam(model.parameters(), weight_decay=row.training.weight_decay)
        for model, row in zip(models, rows.values(), strict=True)
    ]
    times = np.empty((UNTIMED + TIMED, len(rows)))
    for turn, batch in enumerate(islice(all_batches(trainer.batches), len(times))):
        for column, (model, adam, row) in enumerate(zip(models, adams, rows.values(), strict=True)):
            c = row.training
            with blas.threads(c.blas_threads or blas.default_threads(c.micro_batches or 1)):
                begun = time.process_time()
                training_step(
                    model, adam, batch, 1e-6, c.label_smoothing, clip=c.clip, micro_batches=c.micro_batches or 1
                )
                times[turn, column] = time.process_time() - begun
    relative = np.median(times[UNTIMED:] / times[UNTIMED:, :1], axis=0)
    return dict(zip(rows, map(float, relative), strict=True))


def _read_sizes(path: Path, rows: Mapping[str, Any]) -> dict[str, Sizes]:
    """Return the sizes that an earlier command wrote."""
    found = read_json(path)
    try:
        if not isinstance(found, dict) or found.keys() != rows.keys():
            raise ValueError("found other rows")
        return {name: Sizes.from_flat(found[name]) for name in rows}
    except ValueError as error:
        raise ValueError(f"{path} does not hold the sizes of these rows: {error}; choose another --out") from error


def measure_changes(
    task: str,
    folder: Path,
    tell: Callable[[str], None],
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    steps: int | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Train every row with every seed, and compare it with the base.

    Parameters
    ----------
    task : str
        The name of the task.
    folder : Path
        Where everything is kept; what is there already is not trained again.
    tell : callable
        Called with each result.
    seeds : sequence of int
        At least two seeds.
    steps : int, optional
        Training steps of the base; by default those of ``SHORT``, or of the recipe.
    **options
        Other options that differ from the task's recipe.

    Returns
    -------
    dict
        Plain values that can be written as JSON: ``"task"``, ``"title"``, ``"measure"``, ``"seeds"``,
        ``"level"`` and ``"rows"`` by name, each with ``"changes"``, ``"d_ff"``, ``"cost"`` and what ``compare``
        returns; here p is corrected for the number of rows.

    Raises
    ------
    ValueError
        If an option is impossible, or the folder holds other runs.
    Diverged
        If a loss is not a finite number.
    """
    if len(seeds) < 2:
        raise ValueError(f"seeds: found {len(seeds)}, expected at least two, which an interval needs")
    check_seeds(seeds)
    base = base_configuration(task, steps, **options)
    rows = rows_of(base)
    path = folder / "sizes.json"
    if not path.exists():
        with writing(folder):
            check_makeable(folder)  # before the data are drawn
        trainer = Trainer(base)  # bad data is refused before anything is written
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        tell(f"timing the steps of {len(rows)} models")
        text = json.dumps({name: sizes.flat() for name, sizes in choose_sizes(trainer, rows).items()}, indent=1)
        with writing(path):
            write_durably(path, f"{text}\n".encode())
    sizes = _read_sizes(path, rows)
    variations = {name.replace(" ", "-"): with_sizes(base, rows[name], sizes[name]) for name in rows}
    found = train_variations(folder, variations, seeds, tell)
    compared = [compare(results, found["base"], LEVEL) for results in found.values()]
    others = [row["ratio"] for row, changes in zip(compared, rows.values(), strict=True) if changes]
    for ratio, p in zip(others, holm([ratio["p"] for ratio in others]), strict=True):
        ratio["p"] = p
    result: dict[str, Any] = {"task": task, "title": base.build_task().title}
    unit = "character" if PER_CHARACTER in found["base"][0].scores else "token"
    result |= {"measure": f"bits per {unit}", "seeds": list(seeds), "level": LEVEL}
    return result | {
        "rows": {
            name: {"changes": changes, **sizes[name].flat(), **row}
            for (name, changes), row in zip(rows.items(), compared, strict=True)
        }
    }


def compare(results: Sequence[Result], base: Sequence[Result], level: float) -> dict[str, Any]:
    """Return the measurements of a row and their ratios to those of the base.

    Parameters
    ----------
    results, base : sequences of Result
        For each seed, in the same order.
    level : float
        The confidence of the interval.

    Returns
    -------
    dict
        ``"parameters"``, ``"steps"``; ``"bits"``, ``"seconds"`` and, where it is measured, ``"exact_match"`` of each
        seed; and ``"ratio"``: the ``"values"`` of each seed, their geometric ``"mean"``, ``"low"`` and ``"high"`` of
        its confidence interval, and ``"p"`` of Student's t-test that it is 1.
    """
    bits, others = ([_bits(result) for result in some] for some in (results, base))
    ratios = [value / other for value, other in zip(bits, others, strict=True)]
    interval = mean_interval([math.log(ratio) for ratio in ratios], level)
    ends = {"mean": interval.mean, "low": interval.low, "high": interval.high}
    return {
        "parameters": results[0].parameters,
        "steps": results[0].configuration.training.steps,
        "bits": bits,
        "exact_match": [result.exact_match for result in results if "exact_match" in result.scores],
        "seconds": [result.seconds for result in results],
        "ratio": {"values": ratios, **{name: math.exp(value) for name, value in ends.items()}, "p": interval.p},
    }


def _bits(result: Result) -> float:
    """Return the cross-entropy in bits, per character where a task measures that, otherwise per token."""
    return result.scores.get(PER_CHARACTER, result.loss / math.log(2))
