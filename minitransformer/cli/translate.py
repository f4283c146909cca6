"""Translate with a trained model.

A text on the command line, or each line of the standard input.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from minitransformer.data import UnknownTokenError
from minitransformer.training import RunFolder, load, translate

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the run and the text."""
    parser.add_argument("run", type=Path, help="a run folder, as `minitransformer train` made it")
    parser.add_argument("text", nargs="*", help="what to translate; by default each line of the standard input")


def run(args: argparse.Namespace) -> int:
    """Print a translation for each text; nothing is printed unless all of them can be translated."""
    trained = load(RunFolder(args.run))
    texts = [" ".join(args.text)] if args.text else [line.rstrip("\n") for line in sys.stdin]
    for number, text in enumerate(texts, 1):
        try:
            trained.source.encode(trained.task.source_tokens(text))
        except UnknownTokenError as error:
            where = f"line {number}: " if len(texts) > 1 else ""
            print(f"minitransformer translate: {where}{error}", file=sys.stderr)
            return 2
    for text in translate(trained.model, trained.task, trained.source, trained.target, texts):
        print(text)
    return 0
