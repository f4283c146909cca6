"""Write text with a model that continues texts.

Continues the text on the command line, token by token, until the length is reached, the model ends the text or Ctrl-C
is pressed. Train a model with `minitransformer train characters`, whose tokens are characters and which never ends a
text, or open one of Hugging Face's with `import`.
"""

from __future__ import annotations

import argparse
from typing import Any

from minitransformer.apps.cli.errors import UsageError
from minitransformer.apps.cli.options import flag_of, with_flags
from minitransformer.apps.cli.parts_of_run import with_parts_of_run
from minitransformer.apps.cli.run_options import load_chosen
from minitransformer.decoding import SamplingOptions
from minitransformer.options import OptionError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add how tokens are drawn."""
    for name, declared in SamplingOptions.declarations().items():
        options: dict[str, Any] = {"default": getattr(SamplingOptions(), name), "help": declared.metadata["help"]}
        if declared.kind is bool:
            options["action"] = argparse.BooleanOptionalAction
        else:
            options |= {"type": int, "metavar": "N"} if name == "top_k" else {"type": float, "metavar": "X"}
        parser.add_argument(flag_of(name), **options)


@with_parts_of_run()
def run(args: argparse.Namespace) -> int:
    """Print the beginning, then the text of each token as soon as it is drawn."""
    try:
        options = SamplingOptions(**{name: getattr(args, name) for name in SamplingOptions.declarations()})
    except OptionError as error:
        raise UsageError(with_flags(f"{error}", error.names)) from error
    prompt = " ".join(args.text)
    texts = load_chosen(args, translates=False).continuation(prompt, options, args.seed, args.length)
    try:
        print(prompt, end="", flush=True)
        for text in texts:
            print(text, end="", flush=True)
    finally:
        print(flush=True)
    return 0
