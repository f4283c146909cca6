"""Output about models that continue texts: samples, scores, and the baselines beside them."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from itertools import islice

import numpy as np

from minitransformer import runs, training
from minitransformer.apps.cli.errors import UsageError
from minitransformer.apps.cli.processes import spread_over_cores
from minitransformer.console import columns, counted
from minitransformer.data import UNKNOWN, Trigram, read_lines
from minitransformer.decoding import SamplingOptions, sample
from minitransformer.nn import LanguageModel
from minitransformer.parallel import ProcessGroup
from minitransformer.runs import RunError, RunFolder, TrainedRun
from minitransformer.tasks import TextCorpus
from minitransformer.training import (
    TextScores,
    Trainer,
    trigram_bits,
    xz_bits,
)

SHOWN = 160
"""The number of tokens that a model in training writes, as a sign of its progress."""
TEXTS, LENGTH = 32, 500
"""The texts that are written for the share of lines that parse: their number, and the tokens of each."""


def describe_text_scores(scores: TextScores, unit: str, which: str = "held-out ") -> list[str]:
    """Return the scores in words, a line for each."""
    return [
        f"{scores.bits:.3f} bits per character on {counted(scores.characters, f'{which}characters')}",
        f"{100 * scores.token_accuracy:.1f} % of the {unit} have the highest score, given those before them",
    ]


def describe_progress(trainer: Trainer, scores: TextScores) -> list[str]:
    """Return lines about a model in training: its score, and a little of what it writes."""
    lines = [f"step {trainer.step:,}: {scores.bits:.3f} bits per held-out character; it writes"]
    model, rng = trainer.merged(), np.random.default_rng(trainer.step)
    assert isinstance(model, LanguageModel)
    prompt, window = np.zeros((1, 0), dtype=np.int64), trainer.configuration.data.window
    tokens = sample(model, prompt, window, SamplingOptions(temperature=0.8), rng, forbidden=[UNKNOWN])
    text = "".join(trainer.target.stream([], [int(token) for (token,) in islice(tokens, SHOWN)]))
    width = columns() - 4
    parts = [line[i : i + width] for line in text.split("\n") for i in range(0, max(len(line), 1), width)]
    return lines + [f"  | {part}" for part in parts]


def evaluate_run(args: argparse.Namespace, trained: TrainedRun) -> int:
    """Print how well a model predicts a text, its held-out one beside a compressor and a trigram model."""
    for name in ("reference", "beam", "alpha", "bleu_tokenize"):
        if getattr(args, name, None) is not None:
            raise UsageError(
                f"--{name.replace('_', '-')} has no effect here: this model continues texts, and is measured on its "
                "held-out text, or that of --source; leave it out"
            )
    folder, group, source = RunFolder(args.run), args.group, getattr(args, "source", None)
    held_out = group.broadcast(folder.held_out_text if source is None else lambda: "\n".join(read_lines(source)))
    if not held_out:
        raise UsageError(f"{source or args.run} holds no text to measure the model on; give a text with --source FILE")
    window = trained.options.data.window
    with spread_over_cores(group, len(held_out) // window) as several:
        scores = training.evaluate_text(trained.language_model, trained.target, held_out, window, several)
    print(f"step {trained.checkpoint.state['step']:,} of {trained.task.title}")
    for line in describe_text_scores(scores, trained.target.unit, "held-out " if source is None else ""):
        print(line)
    print(f"perplexity {math.exp(scores.loss):.4f} per token of {len(trained.target):,}")
    if group.rank == 0 and source is None:
        corpus = _corpus(folder, trained, group)
        for line in _compare(trained, scores, held_out, corpus):
            print(line, flush=True)
    return 0


def _corpus(folder: RunFolder, trained: TrainedRun, group: ProcessGroup) -> TextCorpus | None:
    """Return the text that the model was trained on, or None, after saying why it cannot be read again."""
    try:
        corpus = trained.task.corpus(trained.options.data, trained.options.seed, (trained.source, trained.target))
        runs.check_data(folder, corpus)
    except (ValueError, RunError) as error:
        print(f"the training text cannot be read as it was, so fewer baselines are measured: {error}")
        return None
    return corpus if isinstance(corpus, TextCorpus) else None


def _compare(trained: TrainedRun, scores: TextScores, held_out: str, corpus: TextCorpus | None) -> Iterator[str]:
    """Yield lines that compare the model with other means, on the same held-out text."""
    model, tokeniser, window = trained.language_model, trained.target, trained.options.data.window
    trigram = None if corpus is None else Trigram(corpus.ids, len(tokeniser))
    yield "\nbits per character of the held-out text"
    yield _row("this model", f"{scores.bits:.3f}")
    if trigram is not None:
        yield _row("a trigram model of the same training text", f"{trigram_bits(trigram, tokeniser, held_out):.3f}")
    yield _row("xz -9e, of the held-out text alone", f"{xz_bits(held_out):.3f}")
    if corpus is not None:
        yield _row("xz -9e, of the held-out text after the training text", f"{xz_bits(held_out, corpus.train):.3f}")
    yield f"\nlines that Python's parser accepts, in {TEXTS} texts of {LENGTH} {tokeniser.unit}"
    yield _row("this model, at temperature 1", _share(training.write_texts(model, tokeniser, window, TEXTS, LENGTH)))
    if trigram is not None:
        yield _row("the trigram model", _share(training.write_by_trigram(trigram, tokeniser, TEXTS, LENGTH)))
    yield _row("the held-out text itself", _share([held_out]))


def _row(name: str, value: str) -> str:
    return f"  {name:54}{value}"


def _share(texts: list[str]) -> str:
    share = training.parsing_lines(texts)
    return f"{100 * share.value:.1f} % of {share.total:,}" if share.total else "no lines with code"
