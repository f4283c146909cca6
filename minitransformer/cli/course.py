"""The course of a training as its user sees it: what it is, how it goes, how it ends."""

from __future__ import annotations

import sys

from tqdm import tqdm

from minitransformer.arrays import library
from minitransformer.cli.pictures import draw_attention, draw_curves
from minitransformer.training import Diverged, RunFolder, Scores, Trained, Trainer, evaluate, load

__all__ = ["course", "finish", "percent", "summary", "tell", "which_weights"]


def percent(share: float, digits: int) -> str:
    """Write a share as a percentage, rounded; but only 0 itself is written as 0 %, and only 1 itself as 100 %."""
    smallest = 10**-digits
    rounded = round(100 * share, digits)
    if 0 < share < 1:
        rounded = min(max(rounded, smallest), 100 - smallest)
    return f"{rounded:.{digits}f} %"


def tell(message: str) -> None:
    """Say something beside the results."""
    print(f"note: {message}", file=sys.stderr, flush=True)


def course(trainer: Trainer, folder: RunFolder, command: str) -> int:
    """Train to the end and show how it goes; return the exit status."""
    _introduce(trainer)
    try:
        _train(trainer, folder)
    except KeyboardInterrupt:
        print(
            f"\ninterrupted after step {trainer.step}; go on with `minitransformer resume {folder.path}`",
            file=sys.stderr,
        )
        return 130
    except Diverged as error:
        print(
            f"\nminitransformer {command}: {error}; training stops. {folder.checkpoints_path} holds the last good "
            "weights. Try a smaller learning rate, more --warmup-steps, or --clip.",
            file=sys.stderr,
        )
        return 1
    return finish(trainer, folder)


def finish(trainer: Trainer, folder: RunFolder) -> int:
    """Measure the weights that will translate, draw the pictures, and say where everything is."""
    if trainer.stopped_early:
        print(f"stopped at step {trainer.step:,}: {trainer.waited} measurements without a better one")
    trained = load(folder)
    held_out = trainer.corpus.held_out
    c = trainer.configuration
    scores = evaluate(
        trained.model, trained.source, trained.target, held_out, trainer.task.measures, bleu_tokenize=c.bleu_tokenize
    )
    print(which_weights(trained))
    for line in summary(scores):
        print(line)
    print(f"{trainer.tokens:,} target tokens, {trainer.tokens / max(trainer.seconds, 1e-9):,.0f} in a second")
    print(f"exact match on {len(scores.samples):,} held-out {trainer.task.noun}: {percent(scores.exact_match, 2)}")
    print(f"training time: {trainer.seconds:.1f} s")
    sys.stdout.flush()
    seconds = round(trainer.seconds, 3)
    last = {"step": trainer.step, "final": True, **scores.measurements(), "seconds": seconds}
    draw_curves(folder, last, trainer.task.title)
    draw_attention(folder, trained, trainer.corpus.example)
    folder.log(last)  # now the run is finished: all else is there
    print(f"the run lies in {folder.path}")
    return 0


def which_weights(trained: Trained) -> str:
    """Say which weights a run's are."""
    state = trained.checkpoint.state
    if trained.weights == "mean":
        return f"the weights are now the mean over the last {state['averaged']:,} steps (section 6.1)"
    if trained.weights == "average":
        steps = state["steps"]
        return (
            f"the weights are the mean of {len(steps)} checkpoints, steps {steps[0]:,} to {steps[-1]:,} (section 6.1)"
        )
    if trained.weights == "best":
        by = trained.configuration.best_by.replace("_", " ")
        return f"the weights are those of step {state['step']:,}, the best by {by} on held-out {trained.task.noun}"
    return f"the weights are those of step {state['step']:,}"


def summary(scores: Scores) -> list[str]:
    """Say what was measured beside exact match and token accuracy, a line for each."""
    lines = []
    if scores.phone_error_rate is not None:
        lines.append(f"word error rate, any reference is right: {percent(1 - scores.exact_match, 2)}")
        lines.append(f"phone error rate, against the closest reference: {percent(scores.phone_error_rate, 2)}")
    for quality in (scores.bleu, scores.chrf):
        if quality is not None:
            lines.append(f"{quality.details}, {quality.signature}")
    if scores.missing:
        lines.append(scores.missing)
    return lines


def _introduce(trainer: Trainer) -> None:
    """Say what is trained on what."""
    c, corpus = trainer.configuration, trainer.corpus
    size = sum(parameter.size for parameter in trainer.model.parameters())
    print(f"task      {trainer.task.title}")
    print(f"          {corpus.held_out[0][0]}  ->  {corpus.held_out[0][1]}")
    for note in corpus.notes:
        print(f"note      {note}")
    tokens = f"{len(corpus.source):,} {'' if corpus.shared else 'source '}"
    tokens += "tokens of both sides" if corpus.shared else f"and {len(corpus.target):,} target tokens"
    print(f"data      {len(corpus.train):,} pairs to train on, {len(corpus.held_out):,} held out; {tokens}")
    print(
        f"model     {size:,} parameters: N {c.n_layers}, D {c.d_model}, H {c.n_heads}, F {c.d_ff}, "
        f"dropout {c.dropout}, {c.norm}-norm"
    )
    gathered = f"{c.accumulate} times " if c.accumulate > 1 else ""
    print(
        f"training  {c.steps:,} steps of {gathered}up to {c.batch_tokens:,} tokens, warm-up {c.warmup_steps:,}, "
        f"label smoothing {c.label_smoothing}, seed {c.seed}, on {library()}"
    )
    epochs = c.steps * c.accumulate / trainer.batches.batches_per_epoch
    print(f"          {trainer.batches.batches_per_epoch:,} batches an epoch, {epochs:,.1f} epochs")
    if trainer.step:
        print(f"          going on after step {trainer.step:,}")
    sys.stdout.flush()


def _train(trainer: Trainer, folder: RunFolder) -> None:
    """Train with a progress bar and, every so often, a look at the translations."""
    steps = trainer.configuration.steps
    # In a file each refresh is one more line.
    interval = 0.2 if sys.stderr.isatty() else 10
    with tqdm(total=steps, initial=trainer.step, unit="step", dynamic_ncols=True, mininterval=interval) as bar:

        def on_step(loss: float | None, rate: float, speed: float) -> None:
            if loss is not None:
                bar.set_postfix_str(f"loss {loss:.3f}, rate {rate:.1e}, {speed:,.0f} tokens/s", refresh=False)
            bar.update()

        def on_evaluation(scores: Scores) -> None:
            wrong = [sample for sample in scores.samples if not sample.right]
            right = [sample for sample in scores.samples if sample.right]
            shown = wrong[: max(2, 3 - len(right))]  # wrong ones teach more
            lines = [
                f"step {trainer.step:,}: {_measured(scores, trainer)}{percent(scores.exact_match, 1)} exact match "
                f"on {len(scores.samples)} held-out {trainer.task.noun}"
            ]
            lines += [f"  ✓ {sample.source}  ->  {sample.found}" for sample in right[: 3 - len(shown)]]
            for sample in shown:
                lines += [f"  ✗ {sample.source}  ->  {sample.found}", f"    it should be {sample.wanted}"]
            bar.write("\n".join(lines))
            sys.stdout.flush()

        trainer.train(folder, on_step, on_evaluation)


def _measured(scores: Scores, trainer: Trainer) -> str:
    """Say how real text fares; a toy task is all about exact match."""
    if not trainer.task.measures:
        return ""
    parts = [f"loss {scores.loss:.3f}"]
    if scores.phone_error_rate is not None:
        parts.append(f"phone error rate {percent(scores.phone_error_rate, 1)}")
    if scores.bleu is not None:
        parts.append(f"BLEU {scores.bleu.value:.1f}")
    return "".join(f"{part}, " for part in parts)
