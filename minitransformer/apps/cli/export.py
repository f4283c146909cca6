"""Write a trained model for another program.

Writes the files that the program itself would write, so the program opens the model and computes the same logits. A
model that the program cannot compute is refused.
"""

from __future__ import annotations

import argparse
from functools import partial

from minitransformer.apps.cli.errors import UsageError
from minitransformer.apps.cli.options import refusing
from minitransformer.apps.cli.run_options import load_chosen
from minitransformer.apps.interop import QUANTIZATIONS, WRITERS, ExportError, check_new, write_ctranslate2

CHOICES = {"to": WRITERS, "quantization": QUANTIZATIONS}


def run(args: argparse.Namespace) -> int:
    """Write the files, and say what differs."""
    write = WRITERS[args.to]
    if hasattr(args, "quantization"):
        if write is not write_ctranslate2:
            raise UsageError(f"--quantization is for --to ctranslate2, found --to {args.to}; leave it out")
        write = partial(write_ctranslate2, quantization=args.quantization)
    check_new(args.out)
    trained = load_chosen(args, translates=None)
    with refusing(args, ExportError):
        notes = write(trained, args.out)
    print(f"{args.out} holds the model for {args.to}")
    for note in notes:
        print(f"note: {note}")
    return 0
