"""The output of a training run: introduction, progress and result."""

from __future__ import annotations

import math
import shutil
import sys

from minitransformer.apps.cli.errors import one_line
from minitransformer.apps.cli.options import flag_of
from minitransformer.apps.cli.pictures import draw_attention, draw_curves
from minitransformer.apps.cli.text_runs import describe_progress, describe_text_scores
from minitransformer.arrays import library
from minitransformer.console import counted
from minitransformer.decoding import Diverged
from minitransformer.runs import RunFolder, TrainedRun
from minitransformer.tasks import TextCorpus
from minitransformer.training import (
    Result,
    Scores,
    TextScores,
    Trainer,
)

INTERRUPTED = 130
"""The exit status after Ctrl-C."""
FIRST = 20
"""Steps after which the measured time of the remaining ones is printed."""
WIDE = 110
"""The columns of a terminal in which the progress bar has room for the learning rate and the steps per second."""
NARROW_BAR = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"
PLATEAU = 4
"""Measurements without improvement after which a line says so."""
PATIENCE = 3
"""The patience that this line suggests for the next training run."""


def percent(share: float, digits: int) -> str:
    """Write a share as a percentage, rounded; but only 0 itself is written as 0 %, and only 1 itself as 100 %."""
    smallest = 10**-digits
    rounded = round(100 * share, digits)
    if 0 < share < 1:
        rounded = min(max(rounded, smallest), 100 - smallest)
    return f"{rounded:.{digits}f} %"


def duration(seconds: float) -> str:
    """Return a time in words, with about two digits."""
    minutes = round(seconds / 60)
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if minutes < 1440 else f"{seconds / 86400:,.1f} days"


def train(trainer: Trainer, folder: RunFolder, command: str) -> int:
    """Train to the end and show the progress; return the exit status."""
    if not trainer.finished:
        _introduce(trainer)
    try:
        _train_with_progress(trainer, folder)
    except KeyboardInterrupt:
        print(
            f"\ninterrupted after step {trainer.step}; continue with `minitransformer resume {one_line(folder.path)}`",
            file=sys.stderr,
        )
        return INTERRUPTED
    except Diverged as error:
        print(
            f"\nminitransformer {command}: {error}; training stops. {one_line(folder.checkpoints.path)} holds the "
            "checkpoints. Try a smaller learning rate, more --warmup-steps, or --clip.",
            file=sys.stderr,
        )
        return 1
    print(f"the run is in {folder.path}")
    return 0


def _show_result(trainer: Trainer, folder: RunFolder, result: Result) -> None:
    """Print the scores of the weights that will translate, and draw the pictures."""
    if trainer.stopped_early:
        print(f"stopped at step {trainer.step:,}: {counted(trainer.waited, 'measurements')} without improvement")
    elif trainer.waited >= PLATEAU:
        print(describe_plateau(trainer))
    scores = result.scores
    print(describe_weights(result.trained))
    unit = trainer.target.unit
    for line in describe_text_scores(scores, unit) if isinstance(scores, TextScores) else describe_scores(scores):
        print(line)
    print(f"{trainer.tokens:,} target tokens, {trainer.tokens / max(trainer.seconds, 1e-9):,.0f} per second")
    if isinstance(scores, Scores):
        which = counted(len(scores.samples), f"held-out {trainer.task.noun}")
        print(f"exact match on {which}: {percent(scores.exact_match, 2)}")
    print(f"training time: {trainer.seconds:.1f} s")
    for what, both in result.adaptation.items():
        pairs = ((name.replace("_", " "), both.before.get(name, math.nan), new) for name, new in both.after.items())
        print(f"{what}, before -> after: {', '.join(f'{name} {old:.4g} -> {new:.4g}' for name, old, new in pairs)}")
    sys.stdout.flush()
    draw_curves(folder, result.measurement, trainer.task.title)
    if not isinstance(trainer.corpus, TextCorpus):
        draw_attention(folder, result.trained, trainer.corpus.example)


def describe_plateau(trainer: Trainer) -> str:
    """Return a line that says since when the score has not improved."""
    by = trainer.configuration.training.best_by.replace("_", " ")
    step = trainer.best.step if trainer.best else 0
    return (
        f"no improvement in {by} since step {step:,}: best.safetensors holds the weights of that step; with --patience "
        f"{PATIENCE}, training would have stopped"
    )


def describe_weights(trained: TrainedRun) -> str:
    """Describe the weights of a run."""
    state = trained.checkpoint.state
    if trained.weights == "mean":
        return f"the weights are now the mean over the last {counted(state['averaged'], 'steps')} (section 6.1)"
    if trained.weights == "average":
        steps = state["steps"]
        which = f"steps {steps[0]:,} to {steps[-1]:,}" if len(steps) > 1 else f"step {steps[0]:,}"
        return f"the weights are the mean of {counted(len(steps), 'checkpoints')}, {which} (section 6.1)"
    if trained.weights == "best":
        by = trained.options.training.best_by.replace("_", " ")
        return f"the weights are those of step {state['step']:,}, the best by {by} on held-out {trained.task.noun}"
    return f"the weights are those of step {state['step']:,}"


def describe_scores(scores: Scores) -> list[str]:
    """Print the other measurements besides exact match and token accuracy, a line for each."""
    lines = []
    if scores.phone_error_rate is not None:
        lines.append(f"word error rate, with any reference counted as right: {percent(1 - scores.exact_match, 2)}")
        lines.append(f"phone error rate, against the closest reference: {percent(scores.phone_error_rate, 2)}")
    for quality in (scores.bleu, scores.chrf):
        if quality is not None:
            lines.append(f"{quality.details}, {quality.signature}")
    if scores.missing:
        lines.append(scores.missing)
    return lines


def _introduce(trainer: Trainer) -> None:
    """Print the task, the data, the model and the training options."""
    c, corpus = trainer.configuration, trainer.corpus
    training = c.training
    size = sum(parameter.size for parameter in trainer.model.parameters())
    print(f"task      {trainer.task.title}")
    if not isinstance(corpus, TextCorpus):
        print(f"example   {corpus.held_out[0][0]}  ->  {corpus.held_out[0][1]}")
    for line in [*corpus.notes, *trainer.notes]:
        print(f"note      {line}")
    tokens = f"{len(corpus.source):,} {'' if corpus.shared else 'source '}"
    tokens += "tokens of both sides" if corpus.shared else f"and {len(corpus.target):,} target tokens"
    if isinstance(corpus, TextCorpus):
        tokens = f"{len(corpus.target):,} tokens, windows of {corpus.window:,}"
    noun = trainer.task.noun if isinstance(corpus, TextCorpus) else "pairs"
    print(f"data      {counted(len(corpus.train), noun)} to train on, {len(corpus.held_out):,} held out; {tokens}")
    print(f"model     {size:,} parameters: {c.model}")
    print(f"training  {training}, seed {c.seed}, on {library()}")
    if trainer.step == 0 and (chosen := _choices(trainer)):
        print(f"chosen    by the size of the text: {chosen}")
    epochs = training.steps * training.accumulate / trainer.batches.batches_per_epoch
    print(f"          {epochs:,.1f} epochs, batches in each: {trainer.batches.batches_per_epoch:,}")
    if trainer.step:
        print(f"          continuing after step {trainer.step:,}")
    if (seconds := trainer.expected_seconds()) is not None:
        print(f"          about {duration(seconds)} on this computer, estimated before the first step")
    sys.stdout.flush()


def _choices(trainer: Trainer) -> str:
    """Return the options that the task chose by the size of its data, as on the command line."""
    c = trainer.configuration
    values = c.flat()
    names = [n for n in trainer.task.sized if n in c.free and values[n] is not None and not c.why_ignored(n)]
    return " ".join(f"{flag_of(name)} {values[name]}" for name in names)


def _train_with_progress(trainer: Trainer, folder: RunFolder) -> None:
    """Train with a progress bar and, every so often, a look at the translations."""
    from tqdm import tqdm  # its modules take longer than half of NumPy's

    steps = trainer.configuration.training.steps
    # In a file each refresh is one more line.
    interval = 0.2 if sys.stderr.isatty() else 10
    wide = not sys.stderr.isatty() or shutil.get_terminal_size().columns >= WIDE
    made = 0
    options = {"unit": "step", "dynamic_ncols": True, "mininterval": interval}
    options |= {"bar_format": None if wide else NARROW_BAR, "disable": trainer.finished or trainer.group.rank > 0}
    tqdm.monitor_interval = 0  # without its thread, training may fork
    with tqdm(total=steps, initial=trainer.step, **options) as bar:

        def on_step(loss: float | None, rate: float, speed: float) -> None:
            nonlocal made
            made += 1
            if made == FIRST and (seconds := trainer.expected_seconds() or 0) > 60:
                bar.write(f"step {trainer.step:,}: about {duration(seconds)} to go, measured over {FIRST} steps")
            if loss is not None:
                middle = f", lr {rate:.1e}" if wide else ""
                bar.set_postfix_str(f"loss {loss:.3f}{middle}, {speed:,.0f} tokens/s", refresh=False)
            bar.update()

        def on_evaluation(scores: Scores | TextScores) -> None:
            bar.write("\n".join(_describe_evaluation(scores, trainer)))
            if not trainer.finished and (seconds := trainer.expected_seconds() or 0) > 60:
                bar.write(f"about {duration(seconds)} to go, unless training stops early")
            sys.stdout.flush()
            if trainer.finished:
                bar.close()  # measuring the result is no part of the time for a step

        trainer.train(folder, on_step, on_evaluation, lambda result: _show_result(trainer, folder, result))


def _describe_evaluation(scores: Scores | TextScores, trainer: Trainer) -> list[str]:
    """Return the lines about an evaluation during training: the score, and some of what the model writes."""
    if isinstance(scores, TextScores):
        lines = describe_progress(trainer, scores)
    else:
        wrong = [sample for sample in scores.samples if not sample.right]
        right = [sample for sample in scores.samples if sample.right]
        shown = wrong[: max(2, 3 - len(right))]  # wrong ones teach more
        lines = [
            f"step {trainer.step:,}: {_describe_translations(scores, trainer)}{percent(scores.exact_match, 1)} "
            f"exact match on {counted(len(scores.samples), f'held-out {trainer.task.noun}')}"
        ]
        lines += [f"  ✓ {sample.source}  ->  {sample.found}" for sample in right[: 3 - len(shown)]]
        for sample in shown:
            lines += [f"  ✗ {sample.source}  ->  {sample.found}", f"    it should be {sample.wanted}"]
    if trainer.waited == PLATEAU:
        lines.append(describe_plateau(trainer))
    return lines


def _describe_translations(scores: Scores, trainer: Trainer) -> str:
    """Describe the scores of real text; for a toy task only exact match matters."""
    if not trainer.task.measures:
        return ""
    parts = [f"loss {scores.loss:.3f}"]
    if scores.phone_error_rate is not None:
        parts.append(f"phone error rate {percent(scores.phone_error_rate, 1)}")
    if scores.bleu is not None:
        parts.append(f"BLEU {scores.bleu.value:.1f}")
    return "".join(f"{part}, " for part in parts)
