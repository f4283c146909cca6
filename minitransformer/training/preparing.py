"""From a configuration to what a training run begins with: data, batches and a model."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from minitransformer.data import MissingExtraError, ParallelBatches, WindowBatches
from minitransformer.decoding import longest_sentence
from minitransformer.gradients import default_processes
from minitransformer.nn import LanguageModel, Transformer
from minitransformer.options import OptionError
from minitransformer.parallel import FORKS_SAFELY, ProcessGroup
from minitransformer.runs.configuration import Configuration
from minitransformer.runs.low_rank import adapt
from minitransformer.tasks import Corpus, Task, TextCorpus
from minitransformer.tasks.corpus import Tokenisers, sha256_of
from minitransformer.training.agreement import check_data, check_options, compare_processors, with_micro_batches
from minitransformer.training.continuing import freeze, read_kept_good
from minitransformer.training.evaluation import check_bleu
from minitransformer.training.length import fix_length


class Prepared(NamedTuple):
    """What a training run begins with."""

    configuration: Configuration
    """With a number of steps, micro-batches and BLAS threads."""
    task: Task
    corpus: Corpus | TextCorpus
    batches: ParallelBatches | WindowBatches
    model: Transformer | LanguageModel
    step_seconds: float | None
    """The time of a step, if it was measured."""
    notes: list[str]
    """What the user should know about the processes."""


def prepare(
    configuration: Configuration, tokenisers: Tokenisers | None, group: ProcessGroup, fork: bool = False
) -> Prepared:
    """Make the data and the model of a configuration; see `Trainer` for parameters and errors."""
    check_options(configuration, group)
    notes = compare_processors(group)
    configuration = with_micro_batches(configuration, group, fork)
    training = configuration.training
    if fork and not FORKS_SAFELY and default_processes(training.micro_batches or 1, training.workers) > 1:
        notes.append("training uses one process, because this system cannot fork safely")
    task = configuration.build_task()
    _check_bleu(task, configuration)
    corpus = task.corpus(configuration.data, configuration.seed, tokenisers)
    if files := configuration.keep_good:
        kept_good, checksums = group.broadcast(lambda: (read_kept_good(files, task.decoder_only), sha256_of(*files)))
        corpus = replace(corpus, kept_good=kept_good, files={**corpus.files, **checksums})
    check_data(corpus, group)
    tokens = configuration.training.batch_tokens
    try:
        batches = corpus.batches(tokens, configuration.seed, configuration.model.source_end)
    except OptionError:
        raise
    except ValueError as error:
        raise OptionError(f"batch_tokens {tokens}: {error}", "batch_tokens") from error

    def build_model() -> Transformer | LanguageModel:
        model = configuration.build_model(len(corpus.source), len(corpus.target), corpus.shared)
        if training.lora is not None:
            adapt(model, configuration)
        elif training.freeze is not None:
            freeze(model, training.freeze)
        if configuration.start is not None and isinstance(model, LanguageModel) and model.output_bias is not None:
            model.output_bias.requires_grad = False  # it only keeps tokens from being written
        return model

    model = build_model().eval()
    if isinstance(model, Transformer) and not isinstance(corpus, TextCorpus):
        refuse_longer(corpus, longest_sentence(model))
    configuration, step_seconds = fix_length(configuration, batches, build_model, group, fork)
    return Prepared(configuration, task, corpus, batches, model, step_seconds, notes)


def _check_bleu(task: Task, configuration: Configuration) -> None:
    """Raise an error for options of BLEU that cannot be used, before any work starts."""
    by = configuration.training.best_by
    if task.decoder_only and by != "loss":
        raise OptionError(f"best_by must be loss for the task {task.name}, found {by}", "best_by")
    needed = by == "bleu"
    if "bleu" in task.measures:
        try:
            check_bleu(configuration.data.bleu_tokenize)
        except MissingExtraError:
            if needed:
                raise
    elif needed:
        raise OptionError(f"best_by must be loss or exact_match for the task {task.name}, found bleu", "best_by")


def refuse_longer(corpus: Corpus, most: int | None) -> None:
    """Raise a ValueError for sentences longer than the learned positions; start or end token takes one."""
    if most is None:
        return
    held_out = [
        (corpus.source.encode(source), corpus.target.encode(target))
        for source, target in (*corpus.valid, *corpus.held_out)
    ]
    for which, pairs in (("", corpus.ids), (" that is held out", held_out)):
        longest = max(max(len(side) for side in pair) for pair in pairs) + 1
        if longest > most:
            raise ValueError(
                f"found a sentence{which} of {longest} tokens, but only {most} learned positions; leave it out, or "
                "use sinusoidal positions, which have no limit"
            )
