"""Draw what a trained model attends to.

One picture with every layer and head: cross-attention first, then the encoder's and the decoder's self-attention.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from minitransformer.cli.pictures import maps_of
from minitransformer.cli.weights import add_run, load_chosen

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the run, the text and where the picture goes."""
    add_run(parser)
    parser.add_argument("text", nargs="+", help="a source text")
    parser.add_argument(
        "--out", type=Path, default=argparse.SUPPRESS, help="the picture (.png); by default in the run folder"
    )


def run(args: argparse.Namespace) -> int:
    """Translate the text, draw the attention maps, and say where the picture is."""
    from minitransformer.plots import attention_maps

    trained = load_chosen(args)
    text = " ".join(args.text)
    maps, source, target, answer = maps_of(trained, text)
    name = re.sub(r"[^\w]+", "-", text).strip("-")[:60]
    path = args.out if hasattr(args, "out") else args.run / f"attention-{name}.png"
    attention_maps(maps, source, target, path, f"{text}  →  {answer}", target_input=["<start>", *target[:-1]])
    print(f"{text}  ->  {answer}")
    print(f"the picture is {path}")
    return 0
