"""Measure the paper's Table 1 and print it.

What each kind of layer costs, how many steps have to wait for one another, and how far apart positions are: theory
beside what is counted while the layers of this package run. On the processor; a quarter of a minute.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from minitransformer.arrays import backend
from minitransformer.bench import measure_table1, table1_text
from minitransformer.cli.bench import tell
from minitransformer.cli.output_paths import find_unwritable

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add where the results go."""
    for name, what in (("json", "everything that was measured"), ("plot", "a picture")):
        parser.add_argument(
            f"--{name}", type=Path, default=argparse.SUPPRESS, metavar="FILE", help=f"write {what} to this file"
        )


def complaint(args: argparse.Namespace) -> str | None:
    """Return what is wrong with the arguments, if something is."""
    if backend() != "numpy":
        return f"operations are counted and timed on the processor, found the array library {backend()}; choose numpy"
    return find_unwritable(args, "plot", others=("json",))


def run(args: argparse.Namespace) -> int:
    """Measure, print, write."""
    if wrong := complaint(args):
        print(f"minitransformer table1: {wrong}", file=sys.stderr)
        return 2
    result = measure_table1(tell)
    print(table1_text(result))
    if hasattr(args, "json"):
        args.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        print(f"\nthe figures are in {args.json}")
    if hasattr(args, "plot"):
        from minitransformer.plots import table1_picture  # matplotlib is loaded only here

        table1_picture(result, args.plot)
        print(f"{'' if hasattr(args, 'json') else chr(10)}the picture is {args.plot}")
    return 0
