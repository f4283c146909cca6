"""Measure a trained model.

On its held-out pairs or on your own text. Prints the scores and some of the errors. A model that continues texts is
measured in bits per character on its held-out text, beside a compressor and a trigram model.
"""

from __future__ import annotations

import argparse

from minitransformer.apps.cli.errors import UsageError
from minitransformer.apps.cli.options import refusing
from minitransformer.apps.cli.parts_of_run import with_parts_of_run
from minitransformer.apps.cli.processes import spread_over_cores
from minitransformer.apps.cli.progress import describe_scores, describe_weights, percent
from minitransformer.apps.cli.run_options import check_beam, choose_beam, load_chosen
from minitransformer.apps.cli.text_runs import evaluate_run
from minitransformer.console import counted
from minitransformer.data import read_parallel
from minitransformer.runs import RunFolder
from minitransformer.training import evaluate

SHOWN = 10


@with_parts_of_run()
def run(args: argparse.Namespace) -> int:
    """Print the scores and some of the mistakes."""
    check_beam(args)
    if hasattr(args, "reference") and not hasattr(args, "source"):
        raise UsageError("found --reference without --source, expected both")
    trained = load_chosen(args, translates=None)
    if trained.task.decoder_only:
        return evaluate_run(args, trained)
    choose_beam(args, trained)
    if hasattr(args, "bleu_tokenize") and "bleu" not in trained.task.measures:
        raise UsageError(
            f"--bleu-tokenize has no effect here: the task {trained.task.name} is not measured by BLEU; leave it out"
        )
    if hasattr(args, "source"):
        given = args.group.broadcast(lambda: read_parallel(args.source, getattr(args, "reference", None)))
        pairs, which = [(trained.task.normalise_input(source), target) for source, target in given.pairs], ""
        print(f"text: {given.left_out}")
    else:
        pairs, which = args.group.broadcast(RunFolder(args.run).held_out), "held-out "
        if not pairs:
            raise UsageError(f"{args.run} has no held-out pairs; give --source FILE, and --reference FILE")
    with refusing(args), spread_over_cores(args.group, len(pairs)) as group:
        scores = evaluate(
            trained.transformer,
            trained.source,
            trained.target,
            pairs,
            trained.task.measures,
            args.beam,
            args.alpha,
            getattr(args, "bleu_tokenize", trained.options.data.bleu_tokenize),
            group,
            trained.options.search,
        )
    wrong = [sample for sample in scores.samples if not sample.right]
    for sample in wrong[:SHOWN]:
        print(f"✗ {sample.source}  ->  {sample.found}\n    it should be  {sample.wanted}")
    if len(wrong) > SHOWN:
        print(f"... and {len(wrong) - SHOWN} more")
    print(f"step {trained.checkpoint.state['step']:,} of {trained.task.title}; {describe_weights(trained)}")
    print(f"exact match on {counted(len(scores.samples), which + trained.task.noun)}: {percent(scores.exact_match, 2)}")
    print(f"token accuracy, given all tokens before: {percent(scores.token_accuracy, 3)}")
    print(f"loss: {scores.loss:.4f} nats per token")
    for line in describe_scores(scores):
        print(line)
    return 0
