"""Shared functions of the measuring commands: messages, text, files and pictures."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

from minitransformer.apps.cli.errors import one_line
from minitransformer.apps.cli.output_paths import check_writable, write_output, writing


def tell(what: str) -> None:
    """Print progress to standard error."""
    print(one_line(what), file=sys.stderr, flush=True)


def show(args: argparse.Namespace, result: dict[str, Any], text: str, picture: str) -> None:
    """Print what was measured, and write and draw it where that was asked for.

    Parameters
    ----------
    args : argparse.Namespace
        With the options ``json`` and ``plot``.
    result : dict
        What was measured, for the file.
    text : str
        The same in words.
    picture : str
        The function of ``minitransformer.apps.plots`` that draws it.
    """
    print(text)
    if hasattr(args, "json"):
        write_output(args.json, f"{json.dumps(result, indent=1)}\n".encode())
        print(f"\nthe figures are in {args.json}")
    if hasattr(args, "plot"):
        from minitransformer.apps import plots  # loads matplotlib

        with writing(args.plot) as path:
            plots.save(getattr(plots, picture)(result), path)
        print(f"{'' if hasattr(args, 'json') else chr(10)}the picture is {args.plot}")


def run_experiment(
    args: argparse.Namespace,
    measure: Callable[[Callable[[str], None]], dict[str, Any]],
    text: Callable[[dict[str, Any]], str],
    picture: str,
) -> int:
    """Measure and show the result, unless it cannot be written; return the exit status."""
    check_writable(args, "json", "plot")
    result = measure(tell)
    show(args, result, text(result), picture)
    return 0
