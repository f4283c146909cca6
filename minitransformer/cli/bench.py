"""Measure how fast a training step is, here.

Our step takes turns with PyTorch's, eager and compiled, where that is installed; then where our time goes, beside what
this machine could do at best. With --scale: how time and memory grow with length, batch, width and depth. With
--decode: how fast sentences are written, greedily and with a beam, beside PyTorch. All on the processor; a few minutes.
With --backend cupy: training steps on the GPU, beside PyTorch on the same one, in larger batches too.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from minitransformer.arrays import backend
from minitransformer.bench import (
    AXES,
    CONFIGURATIONS,
    GPU_CONFIGURATIONS,
    decoding_text,
    growth_text,
    measure,
    measure_decoding,
    measure_growth,
    text,
)
from minitransformer.cli.output_paths import find_unwritable

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what to measure, how long, and where the results go."""
    parser.add_argument(
        "configurations",
        nargs="*",
        default=argparse.SUPPRESS,
        metavar="CONFIGURATION",
        help=f"some of {', '.join(CONFIGURATIONS)}, on a GPU of {', '.join(GPU_CONFIGURATIONS)}; by default all",
    )
    parser.add_argument("--rounds", type=int, default=7, help="turns that each program has")
    parser.add_argument("--no-pytorch", action="store_true", help="leave PyTorch out")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument(
        "--workers",
        type=int,
        default=argparse.SUPPRESS,
        help="threads that share our batches; by default as many as in training, and one with --scale",
    )
    parser.add_argument("--scale", action="store_true", help="measure growth instead")
    parser.add_argument("--decode", action="store_true", help="measure decoding instead")
    for name, what in (("json", "everything that was measured"), ("plot", "a picture")):
        parser.add_argument(
            f"--{name}", type=Path, default=argparse.SUPPRESS, metavar="FILE", help=f"write {what} to this file"
        )


def complaint(args: argparse.Namespace) -> str | None:
    """Return what is wrong with the arguments, if something is."""
    names, on_a_card = getattr(args, "configurations", []), backend() != "numpy"
    known = GPU_CONFIGURATIONS if on_a_card else CONFIGURATIONS
    unknown = [name for name in names if name not in known]
    if unknown:
        return f"there is no configuration {unknown[0]!r}; the configurations are {', '.join(known)}"
    if args.scale and names:
        return f"--scale has sizes of its own, found {' '.join(names)} too; leave one of them out"
    if args.decode and args.scale:
        return "--decode and --scale measure different things; leave one of them out"
    if args.decode and hasattr(args, "workers"):
        return "--decode has no workers; leave --workers out"
    if args.decode and hasattr(args, "plot"):
        return "--decode draws no picture; leave --plot out, --json writes the figures"
    if args.rounds < 1:
        return f"--rounds must be at least 1, found {args.rounds}"
    if getattr(args, "workers", 1) < 1:
        return f"--workers must be at least 1, found {args.workers}"
    of_the_processor = [f"--{name}" for name in ("scale", "decode", "workers", "plot") if getattr(args, name, False)]
    if on_a_card and of_the_processor:
        return (
            f"{of_the_processor[0]} is about the processor, found the array library {backend()}; leave one of them out"
        )
    return find_unwritable(args, "plot", others=("json",))


def run(args: argparse.Namespace) -> int:
    """Measure, print, write."""
    if wrong := complaint(args):
        print(f"minitransformer bench: {wrong}", file=sys.stderr)
        return 2
    on_a_card = backend() != "numpy"
    known = GPU_CONFIGURATIONS if on_a_card else CONFIGURATIONS
    names = list(dict.fromkeys(getattr(args, "configurations", []))) or list(known)
    if args.scale:
        result = measure_growth(getattr(args, "workers", 1), tell, AXES)
        print(growth_text(result))
    elif args.decode:
        result = measure_decoding(names, args.rounds, ["ours"] if args.no_pytorch else ["ours", "eager"], tell)
        print(decoding_text(result))
    else:
        programs = ["ours"]
        if not args.no_pytorch:
            programs += ["eager"] if args.no_compile or on_a_card else ["eager", "compiled"]
        result = measure(names, args.rounds, programs, getattr(args, "workers", None), tell)
        print(text(result))
    if hasattr(args, "json"):
        args.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        print(f"\nthe figures are in {args.json}")
    if hasattr(args, "plot"):
        _plot(result, args.plot)
        print(f"{'' if hasattr(args, 'json') else chr(10)}the picture is {args.plot}")
    return 0


def tell(what: str) -> None:
    """Say what is happening, beside the results."""
    print(what, file=sys.stderr, flush=True)


def _plot(result: dict[str, Any], path: Path) -> None:
    """Draw the picture; matplotlib is loaded only here."""
    from minitransformer.plots import growth_curves, speed_bars

    if "axes" in result:
        growth_curves(result, path)
    else:
        speed_bars(result, path)
