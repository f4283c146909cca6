"""Measure the paper's claims, what came after it, and speed.

`minitransformer measure EXPERIMENT --help` describes an experiment. With --json its figures are written to a file, and
most can draw them with --plot.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import getdoc
from pathlib import Path
from typing import Any

from minitransformer.apps.cli.errors import UsageError, one_line
from minitransformer.apps.cli.options import refusing
from minitransformer.apps.cli.output_paths import check_writable, write_output, writing
from minitransformer.apps.cli.parts_of_run import with_parts_of_run
from minitransformer.apps.cli.run_options import load_chosen
from minitransformer.apps.measure import report, speed
from minitransformer.apps.measure.changes import measure_changes
from minitransformer.apps.measure.heads import held_out_groups, measure_heads
from minitransformer.apps.measure.machine import describe
from minitransformer.apps.measure.paths import measure_paths
from minitransformer.apps.measure.position_tasks import TASKS
from minitransformer.apps.measure.positions import POSITIONS, PositionsSizes, measure_positions
from minitransformer.apps.measure.recall import LONGER, measure_extrapolation, measure_recall
from minitransformer.apps.measure.recall_model import RecallSizes
from minitransformer.apps.measure.seeds import check_seeds
from minitransformer.apps.measure.table1 import measure_table1
from minitransformer.apps.measure.table3 import GROUPS, STEPS, measure_table3
from minitransformer.arrays import backend
from minitransformer.runs import MOST_WORKERS, RunFolder

Result = dict[str, Any]
RUNS = Path("runs")


def tell(what: str) -> None:
    """Print progress to standard error."""
    print(one_line(what), file=sys.stderr, flush=True)


def run_experiment(
    args: argparse.Namespace,
    measure: Callable[..., Result],
    text: Callable[[Result], str],
    picture: str = "",
) -> int:
    """Measure, print the report, and write and draw the result where that was asked for; return the exit status.

    Parameters
    ----------
    args : argparse.Namespace
        The arguments; files of ``json`` and ``plot`` that cannot be written are refused before anything is measured.
    measure : callable
        Called with ``tell=``, to which it tells its progress; the result also gets a description of the machine.
    text : callable
        Returns the report on a result.
    picture : str
        The function of ``minitransformer.apps.measure.pictures`` that draws it.
    """
    check_writable(args, "json", "plot")
    result = {"machine": describe(), **measure(tell=tell)}
    show(args, result, text(result), picture)
    return 0


def show(args: argparse.Namespace, result: Result, text: str, picture: str) -> None:
    """Print a report, and write and draw its result where that was asked for."""
    print(text)
    written = []
    if hasattr(args, "json"):
        write_output(args.json, f"{json.dumps(result, indent=1)}\n".encode())
        written.append(f"the figures are in {args.json}")
    if hasattr(args, "plot"):
        from minitransformer.apps.measure import pictures  # loads matplotlib

        with writing(args.plot) as path:
            pictures.save(getattr(pictures, picture)(result), path)
        written.append(f"the picture is {args.plot}")
    if written:
        print("", *written, sep="\n")


def _on_the_processor(args: argparse.Namespace, *names: str) -> None:
    """Raise a UsageError if what is measured on the processor, or given by options for it, meets another library."""
    given = [f"--{name}" for name in names if getattr(args, name, False)]
    if backend() != "numpy" and (given or not names):
        what = given[0] if given else args.command
        raise UsageError(f"{what} measures the processor, found the array library {backend()}; choose numpy")


def _seeds(args: argparse.Namespace, default: Sequence[int]) -> list[int]:
    seeds = list(getattr(args, "seeds", default))
    with refusing(args, before="--"):
        check_seeds(seeds)
    return seeds


def table1(args: argparse.Namespace) -> int:
    """Measure the paper's Table 1 and print it.

    For each kind of layer: operations, sequential operations and path length, in theory and as counted while the layers
    of this package run. The costs that the paper states beside the table are measured too: separable convolutions, many
    heads, self-attention and recurrence. Takes about 20 seconds on the CPU.
    """
    _on_the_processor(args)
    return run_experiment(args, measure_table1, report.table1_text, "table1_picture")


def paths(args: argparse.Namespace) -> int:
    """Measure the path lengths of each kind of layer.

    The second and third columns of the paper's Table 1: the number of sequential operations, and the longest path
    between an input and an output. Both are counted in recorded graphs. Takes a few seconds.
    """
    return run_experiment(args, measure_paths, report.paths_text, "paths_picture")


def recall(args: argparse.Namespace) -> int:
    """Measure how far back each kind of layer learns to look.

    Small models, each with one kind of layer, are trained to repeat the symbol L positions back, for several L. Takes
    about half an hour.
    """
    return run_experiment(args, partial(measure_recall, RecallSizes()), report.recall_text, "recall_picture")


KINDS = {"tasks": TASKS, "positions": POSITIONS}


def extrapolation(args: argparse.Namespace) -> int:
    """Measure kinds of positions on longer sentences.

    Models with sinusoidal, learned and rotary positions, with ALiBi and without positions learn three tasks on
    sentences of up to 32 tokens and are tested on up to 128: recall at a distance, copying, and lookup by content.
    Further tests tell why a model fails. Takes some minutes; what is measured already is reused. --layers compares
    kinds of layer instead.
    """
    given = [f"--{name}" for name in (*KINDS, "steps", "out") if hasattr(args, name)]
    if args.layers and given:
        raise UsageError(f"--layers has its own models, found {given[0]} too; leave one out")
    seeds = _seeds(args, (0, 1, 2))
    if args.layers:
        measure = partial(measure_extrapolation, LONGER, seeds=seeds)
        return run_experiment(args, measure, report.extrapolation_text, "extrapolation_picture")
    chosen: dict[str, Any] = {name: list(dict.fromkeys(getattr(args, name, known))) for name, known in KINDS.items()}
    sizes = PositionsSizes(steps=getattr(args, "steps", PositionsSizes.steps))
    folder = getattr(args, "out", RUNS / "extrapolation")
    compare = partial(measure_positions, sizes, **chosen, seeds=seeds, folder=folder)
    return run_experiment(args, compare, report.positions_text, "positions_picture")


def table3(args: argparse.Namespace) -> int:
    """Train the models of the paper's Table 3, scaled down.

    Varies heads, sizes, dropout, label smoothing and positions, one at a time, on numbers in words from English to
    German. Takes half a minute per row and seed. With several seeds, each row's mean is compared with that of the base.
    Models that are already trained are reused.
    """
    backend()
    groups = [letter.upper() for letter in args.rows]
    if unknown := [letter for letter, group in zip(args.rows, groups, strict=True) if group not in GROUPS]:
        raise UsageError(f"there is no row {unknown[0]!r}; the rows are {', '.join(GROUPS)}")
    folder, steps = getattr(args, "out", RUNS / "table3"), getattr(args, "steps", STEPS)
    measure = partial(measure_table3, groups or GROUPS, folder, seeds=_seeds(args, (0,)), steps=steps)
    with refusing(args):
        return run_experiment(args, measure, report.table3_text)


def changes(args: argparse.Namespace) -> int:
    """Measure what came after the paper, one change at a time.

    Trains models with pre-norm, RMSNorm, GELU, SwiGLU, other positions, fewer key heads, linear decay or weight decay,
    at equal parameters and equal training time, with five seeds, and compares them with the paper's choices.
    Models that are already trained are reused. On one core, five seeds take 12 minutes on numbers and 33 on characters.
    """
    backend()
    folder, seeds = getattr(args, "out", RUNS / "changes" / args.task), _seeds(args, range(5))
    measure = partial(measure_changes, args.task, folder, seeds=seeds, steps=getattr(args, "steps", None))
    with refusing(args):
        return run_experiment(args, measure, report.changes_text, "changes_picture")


@with_parts_of_run()
def heads(args: argparse.Namespace) -> int:
    """Measure what each attention head of a trained model does.

    For each head, on held-out data: how far it looks, the weight on neighbouring positions, its entropy, and how much
    the tokens decide. For each layer: how different its heads are, compared with shuffled heads and with the initial
    weights.
    """
    trained = load_chosen(args, translates=None)
    with refusing(args):
        groups = held_out_groups(trained, RunFolder(args.run), args.pairs)
    return run_experiment(args, partial(measure_heads, trained, groups), report.heads_text, "heads_picture")


def _workloads(args: argparse.Namespace) -> list[str]:
    """Return the configurations to measure; raise a UsageError if there is no such configuration."""
    known = speed.CONFIGURATIONS if backend() == "numpy" else speed.GPU_CONFIGURATIONS
    names = list(dict.fromkeys(getattr(args, "configurations", []))) or list(known)
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"there is no configuration {unknown[0]!r}; the configurations are {', '.join(known)}")
    if getattr(args, "workers", 1) > MOST_WORKERS:
        raise UsageError(f"--workers must be at most {MOST_WORKERS}, found {args.workers}")
    return names


def training_speed(args: argparse.Namespace) -> int:
    """Measure the speed of a training step.

    Our step and PyTorch's, eager and compiled, run in turns if PyTorch is installed. Then it shows where our time goes
    and the best time that this computer could reach. --growth measures how time and memory grow with length, batch,
    width and depth. --processes measures the step in several processes over MPI, beside processes that share memory,
    with a model of its cost. This takes a few minutes on the CPU. --backend cupy measures training steps on the GPU,
    also with larger batches.
    """
    names, kinds = _workloads(args), [f"--{kind}" for kind in ("growth", "processes") if getattr(args, kind)]
    if args.growth and hasattr(args, "configurations"):
        raise UsageError(f"--growth has its own sizes, found {' '.join(args.configurations)} too; leave one out")
    if len(kinds) > 1:
        raise UsageError(f"{kinds[0]} and {kinds[1]} measure different things; leave one out")
    if kinds and hasattr(args, "workers"):
        raise UsageError(f"{kinds[0]} has no workers; leave --workers out")
    if args.processes and hasattr(args, "plot"):
        raise UsageError("--processes draws no picture; leave --plot out, or write the figures with --json")
    _on_the_processor(args, "growth", "processes", "workers", "plot")
    if args.growth:
        return run_experiment(args, speed.measure_growth, speed.growth_text, "growth_curves")
    if args.processes:
        measure = partial(speed.measure_processes, names, args.rounds, not args.no_pytorch)
        return run_experiment(args, measure, speed.processes_text)
    compiled = not args.no_compile and backend() == "numpy"
    programs = ["ours", *(["eager", *["compiled"] * compiled] if not args.no_pytorch else [])]
    compare = partial(speed.measure_speed, names, args.rounds, programs, getattr(args, "workers", None))
    return run_experiment(args, compare, speed.speed_text, "speed_bars")


def decoding(args: argparse.Namespace) -> int:
    """Measure the speed of greedy and beam search.

    The same weights decode the same sentences here and in PyTorch, in turns if it is installed. Takes a few minutes on
    the CPU.
    """
    _on_the_processor(args)
    names, programs = _workloads(args), ["ours", *["eager"] * (not args.no_pytorch)]
    measure = partial(speed.measure_decoding, names, args.rounds, programs, getattr(args, "workers", None))
    return run_experiment(args, measure, speed.decoding_text)


@dataclass
class Experiment:
    """What the command line asks of a command; see ``COMMANDS`` in ``cli/__init__.py``."""

    run: Callable[[argparse.Namespace], int]
    WORDS: Mapping[str, object] = field(default_factory=dict)
    CHOICES: Mapping[str, Iterable[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.__doc__ = getdoc(self.run)


WORKLOADS, LARGE = ", ".join(speed.CONFIGURATIONS), ", ".join(speed.GPU_CONFIGURATIONS)
COMMANDS = {
    "table1": Experiment(table1),
    "paths": Experiment(paths),
    "recall": Experiment(recall),
    "extrapolation": Experiment(
        extrapolation, {"steps": PositionsSizes.steps, "out": RUNS / "extrapolation", "seeds": "0 1 2"}, KINDS
    ),
    "table3": Experiment(table3, {"letters": ", ".join(GROUPS), "steps": STEPS, "out": RUNS / "table3", "seeds": "0"}),
    "changes": Experiment(
        changes,
        {
            "steps": "250 for numbers, 1000 for characters; other rows take as much time as the base",
            "out": RUNS / "changes" / "TASK",
            "seeds": "0 1 2 3 4",
        },
    ),
    "heads": Experiment(heads),
    "speed": Experiment(training_speed, {"configurations": f"{WORKLOADS}, on a GPU of {LARGE}"}),
    "decoding": Experiment(decoding, {"configurations": WORKLOADS}),
}
"""The experiments by name: the commands of two words."""
