"""Open a model of another program.

Reads a published model and writes a run folder for `translate`, `evaluate`, `attention` and `explore`. The model gives
the same logits as in its program, and translates by the same rules of search.
"""

from __future__ import annotations

import argparse

from minitransformer.apps.cli.errors import UsageError
from minitransformer.apps.interop import READERS, check_new, write_run

CHOICES = {"kind": READERS}


def run(args: argparse.Namespace) -> int:
    """Write the run folder, and say what is in it."""
    check_new(args.out)
    tokenizer = [args.tokenizer] if "tokenizer" in args else []
    if tokenizer and args.kind != "llama2c":
        raise UsageError(f"--tokenizer gives the tokens of llama2c, found {args.kind}, whose folder has them")
    published = READERS[args.kind](args.folder, *tokenizer)
    options = write_run(published, args.out).configuration()
    size = sum(array.size for array in published.state.values())
    print(f"{args.out}: {options.model}; {size:,} parameters")
    if published.decoder_only:
        print(f"tokens: {len(published.target):,}")
    else:
        print(f"tokens: {len(published.source):,} source and {len(published.target):,} target")
        print(
            f"search: beam {options.search.beam}, length penalty {options.search.alpha}; --beam and --alpha change it"
        )
    for note in published.notes:
        print(f"note: {note}")
    print(f'next: minitransformer {"write" if published.decoder_only else "translate"} {args.out} "a text"')
    return 0
