"""Measure the speed of a training step on this computer.

Our step and PyTorch's, eager and compiled, run in turns if PyTorch is installed. Then it shows where our time goes and
the best time that this computer could reach. --scale measures how time and memory grow with length, batch, width and
depth. --decode measures greedy and beam search beside PyTorch. --processes measures the step in several processes over
MPI, beside processes that share memory, with a model of its cost. This takes a few minutes on the CPU. --backend cupy
measures training steps on the GPU, also with larger batches.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

from minitransformer.apps import bench
from minitransformer.apps.cli.errors import UsageError
from minitransformer.apps.cli.results import run_experiment
from minitransformer.arrays import backend
from minitransformer.runs import MOST_WORKERS

WORDS = {"processor": ", ".join(bench.CONFIGURATIONS), "card": ", ".join(bench.GPU_CONFIGURATIONS)}
KINDS = ("decode", "scale", "processes")
"""What can be measured in place of training steps."""


def check(args: argparse.Namespace) -> None:
    """Raise a UsageError unless the arguments go together."""
    names, on_a_card = getattr(args, "configurations", []), backend() != "numpy"
    known = bench.GPU_CONFIGURATIONS if on_a_card else bench.CONFIGURATIONS
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"there is no configuration {unknown[0]!r}; the configurations are {', '.join(known)}")
    if args.scale and names:
        raise UsageError(f"--scale has its own sizes, found {' '.join(names)} too; leave one out")
    kinds = [kind for kind in KINDS if getattr(args, kind)]
    if len(kinds) > 1:
        raise UsageError(f"--{kinds[0]} and --{kinds[1]} measure different things; leave one out")
    if (args.processes or args.scale) and hasattr(args, "workers"):
        raise UsageError(f"--{kinds[0]} has no workers; leave --workers out")
    if (args.decode or args.processes) and hasattr(args, "plot"):
        raise UsageError(f"--{kinds[0]} draws no picture; leave --plot out, or write the figures with --json")
    if getattr(args, "workers", 1) > MOST_WORKERS:
        raise UsageError(f"--workers must be at most {MOST_WORKERS}, found {args.workers}")
    of_the_processor = [
        f"--{name}" for name in ("scale", "decode", "processes", "workers", "plot") if getattr(args, name, False)
    ]
    if on_a_card and of_the_processor:
        raise UsageError(
            f"{of_the_processor[0]} measures the processor, found the array library {backend()}; leave one out"
        )


def run(args: argparse.Namespace) -> int:
    """Measure, print, write."""
    check(args)
    on_a_card = backend() != "numpy"
    known = bench.GPU_CONFIGURATIONS if on_a_card else bench.CONFIGURATIONS
    names = list(dict.fromkeys(getattr(args, "configurations", []))) or list(known)
    programs, workers = ["ours"], getattr(args, "workers", None)
    if not args.no_pytorch:
        programs += ["eager"] if args.no_compile or args.decode or on_a_card else ["eager", "compiled"]
    measures: dict[str, tuple[Callable[..., dict[str, Any]], Callable[..., str]]] = {
        "scale": (bench.measure_growth, bench.growth_text),
        "decode": (partial(bench.measure_decoding, names, args.rounds, programs, workers), bench.decoding_text),
        "processes": (partial(bench.measure_processes, names, args.rounds, not args.no_pytorch), bench.processes_text),
        "speed": (partial(bench.measure_speed, names, args.rounds, programs, workers), bench.speed_text),
    }
    kind = next((kind for kind in KINDS if getattr(args, kind)), "speed")
    return run_experiment(args, *measures[kind], "growth_curves" if args.scale else "speed_bars")
