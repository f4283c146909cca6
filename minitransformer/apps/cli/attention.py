"""Draw the attention of a trained model.

One picture with every layer and head: cross-attention first, then the encoder's and the decoder's self-attention. A
model that continues texts has self-attention only, and the picture shows what it attends to in your text.
"""

from __future__ import annotations

import argparse
import re
from contextlib import nullcontext

from minitransformer.apps.cli.options import refusing
from minitransformer.apps.cli.output_paths import check_writable, writing
from minitransformer.apps.cli.parts_of_run import with_parts_of_run
from minitransformer.apps.cli.pictures import translate_with_maps
from minitransformer.apps.cli.run_options import load_chosen


@with_parts_of_run()
def run(args: argparse.Namespace) -> int:
    """Translate the text, draw the attention maps, and say where the picture is.

    A model that continues texts only reads it.
    """
    from minitransformer.apps.plots import attention_maps

    trained = load_chosen(args, translates=None)
    text = trained.task.normalise_input(" ".join(args.text))
    named = hasattr(args, "out")
    if not named:
        name = re.sub(r"[^\w]+", "-", text).strip("-")[:60]
        args.out = args.run / f"attention-{name}.png"
    check_writable(args, "out", follow=named)
    with refusing(args):
        maps, source, target, answer = translate_with_maps(trained, text)
    title = f"{text}  →  {answer}" if source else "".join(target)
    with writing(args.out) if named else nullcontext(args.out) as path:  # links in a run folder are not followed
        attention_maps(maps, source, target, path, title, target_input=["<start>", *target[:-1]])
    print(f"{text}  ->  {answer}" if source else text)
    print(f"the picture is {args.out}")
    return 0
