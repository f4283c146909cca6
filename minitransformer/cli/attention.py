"""Draw what a trained model attends to.

One picture with every layer and head: cross-attention first, then the encoder's and the decoder's self-attention.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from minitransformer.cli.pictures import maps_of
from minitransformer.training import RunFolder, load

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the run, the text and where the picture goes."""
    parser.add_argument("run", type=Path, help="a run folder, as `minitransformer train` made it")
    parser.add_argument("text", nargs="+", help="a source text")
    parser.add_argument(
        "--out", type=Path, default=argparse.SUPPRESS, help="the picture (.png); by default in the run folder"
    )


def run(args: argparse.Namespace) -> int:
    """Translate the text, draw the attention maps, and say where the picture is."""
    from minitransformer.plots import attention_maps

    trained = load(RunFolder(args.run))
    text = " ".join(args.text)
    maps, source, target = maps_of(trained.model, trained.task, trained.source, trained.target, text)
    name = re.sub(r"[^\w]+", "-", text).strip("-")[:60]
    path = args.out if hasattr(args, "out") else args.run / f"attention-{name}.png"
    answer = trained.task.join_target(target[:-1])
    attention_maps(maps, source, target, path, f"{text}  →  {answer}", target_input=["<start>", *target[:-1]])
    print(f"{text}  ->  {answer}")
    print(f"the picture is {path}")
    return 0
