"""Translate with a trained model.

Translates the text on the command line, or each line of the standard input. An empty line gives an empty line.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from minitransformer.apps.cli.errors import UsageError
from minitransformer.apps.cli.parts_of_run import with_parts_of_run
from minitransformer.apps.cli.processes import spread_over_cores
from minitransformer.apps.cli.run_options import check_beam, choose_beam, load_chosen
from minitransformer.console import counted
from minitransformer.data import normalise_text, split_lines
from minitransformer.decoding import Hypothesis, Translation, check_sentence, hypotheses, translations
from minitransformer.files import reason
from minitransformer.parallel import SINGLE_PROCESS


def _read_lines() -> list[str]:
    try:
        return split_lines(sys.stdin.buffer.read(), "the standard input")
    except OSError as error:
        raise UsageError(f"cannot read the standard input: {reason(error)}; give a file of text") from error


@with_parts_of_run()
def run(args: argparse.Namespace) -> int:
    """Print a translation for each text; nothing is printed unless all of them can be translated."""
    check_beam(args)
    trained = load_chosen(args)
    texts = [" ".join(args.text)] if args.text else _read_lines()
    choose_beam(args, trained)
    for text in texts:
        if (read := trained.task.other_words(text)) is not None:
            print(f"minitransformer translate: {text.strip()} is read as {read}", file=sys.stderr)
    texts = [trained.task.normalise_input(text) for text in texts]
    full = [place for place, text in enumerate(texts) if normalise_text(text)]
    for place in full:
        try:
            check_sentence(trained.transformer, trained.source, texts[place])
        except ValueError as error:
            where = f"line {place + 1}: " if len(texts) > 1 else ""
            raise UsageError(f"{where}{error}") from error
    n_best = getattr(args, "n_best", None)
    model, source, rules = trained.transformer, trained.source, trained.options.search
    given = [texts[place] for place in full]
    found: Sequence[Sequence[Hypothesis | Translation]]
    with spread_over_cores(SINGLE_PROCESS, len(given)) as group:
        if n_best is None:
            found = [[one] for one in translations(model, source, given, args.beam, args.alpha, group.spread, rules)]
        else:
            found = hypotheses(model, source, given, args.beam, args.alpha, n_best, group.spread, rules)
    several = dict(zip(full, found, strict=True))
    for place in range(len(texts)):
        for one in several.get(place, []):
            text = " ".join(trained.target.decode(one.tokens).splitlines())  # a line for each text
            print(f"{place + 1}\t{one.score:.6f}\t{text}" if isinstance(one, Hypothesis) else text)
        if place not in several and n_best is None:
            print()
    for place in full:
        if not several[place][0].finished:
            print(
                f"minitransformer translate: line {place + 1}: the translation did not end and was cut off after "
                f"{counted(len(several[place][0].tokens), 'tokens')}",
                file=sys.stderr,
            )
    return 0
