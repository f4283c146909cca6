"""Train a Transformer.

Without arguments: numbers in words from English to German, on the CPU, in about a minute.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
from tqdm import tqdm

from minitransformer.arrays import backend
from minitransformer.cli.pictures import draw_attention, draw_curves
from minitransformer.tasks import TASKS, build
from minitransformer.training import Configuration, Diverged, RunFolder, Scores, Trainer

__all__ = ["add_arguments", "run"]


def _options() -> Iterator[tuple[dataclasses.Field[Any], type]]:
    """Yield the fields of a configuration that are options, with their types."""
    hints = get_type_hints(Configuration)
    for field in dataclasses.fields(Configuration):
        if "help" in field.metadata:
            yield field, hints[field.name]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the task, and an option for each field of a configuration."""
    parser.add_argument("task", nargs="?", default="numbers", help=f"what to train: {', '.join(TASKS)}")
    parser.add_argument("--to", default=argparse.SUPPRESS, help="target language of the task numbers: de, fr or ko")
    parser.add_argument(
        "--out", type=Path, default=argparse.SUPPRESS, help="run folder to make; by default runs/TASK, or a fresh name"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the run that --out holds already")
    group = parser.add_argument_group(
        "model and training", "a task may have other defaults; each run writes its own down"
    )
    for field, hint in _options():
        kind = float if hint is float else str if hint is str else int
        group.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=kind,
            default=argparse.SUPPRESS,
            metavar={int: "N", float: "X", str: "NAME"}[kind],
            help=field.metadata["help"] + ("" if field.default is None else f" (default: {field.default})"),
        )


def percent(share: float, digits: int) -> str:
    """Write a share as a percentage; only 1 itself is written as 100 %."""
    scale = 10**digits
    return f"{math.floor(share * 100 * scale + 1e-9) / scale:.{digits}f} %"


def run(args: argparse.Namespace) -> int:
    """Train, show how it goes, and leave a run folder behind."""
    backend()  # a backend that cannot run is refused before anything else
    changes = {field.name: getattr(args, field.name, None) for field, _ in _options()}
    try:
        task = build(args.task, **({"to": args.to} if hasattr(args, "to") else {}))
        folder = RunFolder(args.out) if hasattr(args, "out") else RunFolder.fresh(task.name)
        if folder.holds_something() and not args.overwrite:
            raise ValueError(f"{folder.path} exists already; choose another --out, or add --overwrite to replace it")
        trainer = Trainer(Configuration.of_task(task, **changes))
    except ValueError as error:
        print(f"minitransformer train: {error}", file=sys.stderr)
        return 2
    folder.create(
        trainer.configuration, trainer.source_vocabulary, trainer.target_vocabulary, trainer.held_out, args.overwrite
    )
    _introduce(trainer)
    try:
        _train(trainer, folder)
    except KeyboardInterrupt:
        print(f"\ninterrupted after step {trainer.step}; the checkpoint is {folder.checkpoint_path}", file=sys.stderr)
        return 130
    except Diverged as error:
        print(
            f"\nminitransformer train: {error}; training stops. {folder.checkpoint_path} holds the last good weights. "
            "Try a smaller --learning-rate-factor or more --warmup-steps.",
            file=sys.stderr,
        )
        return 1
    trainer.use_mean_weights()
    scores = trainer.evaluate(trainer.held_out)
    folder.log({"step": trainer.step, "final": True, "exact_match": scores.exact_match,
                "token_accuracy": scores.token_accuracy, "seconds": round(trainer.seconds, 3)})  # fmt: skip
    draw_curves(folder, trainer.task.title)
    draw_attention(folder, trainer.model, trainer.task, trainer.task.example)
    if trainer.averaged > 1:
        print(f"the weights are now the mean over the last {trainer.averaged:,} steps (section 6.1)")
    print(f"exact match on {len(trainer.held_out):,} held-out {trainer.task.noun}: {percent(scores.exact_match, 2)}")
    print(f"training time: {trainer.seconds:.1f} s")
    print(f"the run lies in {folder.path}")
    return 0


def _introduce(trainer: Trainer) -> None:
    """Say what is trained on what."""
    c, model = trainer.configuration, trainer.model
    size = sum(parameter.size for parameter in model.parameters())
    print(f"task      {trainer.task.title}")
    print(f"          {trainer.held_out[0][0]}  ->  {trainer.held_out[0][1]}")
    print(
        f"data      {len(trainer.train_pairs):,} pairs to train on, {len(trainer.held_out):,} held out; "
        f"{len(trainer.source_vocabulary)} source and {len(trainer.target_vocabulary)} target tokens"
    )
    print(
        f"model     {size:,} parameters: N {c.n_layers}, D {c.d_model}, H {c.n_heads}, F {c.d_ff}, "
        f"dropout {c.dropout}, {c.norm}-norm"
    )
    print(
        f"training  {c.steps:,} steps of up to {c.batch_tokens:,} tokens, warm-up {c.warmup_steps:,}, "
        f"label smoothing {c.label_smoothing}, seed {c.seed}, on {backend()} {np.__version__}",
        flush=True,
    )


def _train(trainer: Trainer, folder: RunFolder) -> None:
    """Train with a progress bar and, every so often, a look at the translations."""
    steps = trainer.configuration.steps
    # In a file each refresh is one more line.
    interval = 0.2 if sys.stderr.isatty() else 10
    with tqdm(total=steps, initial=trainer.step, unit="step", dynamic_ncols=True, mininterval=interval) as bar:

        def on_step(loss: float, rate: float, speed: float) -> None:
            bar.set_postfix_str(f"loss {loss:.3f}, rate {rate:.1e}, {speed:,.0f} tokens/s", refresh=False)
            bar.update()

        def on_evaluation(scores: Scores) -> None:
            wrong = [sample for sample in scores.samples if not sample.right]
            right = [sample for sample in scores.samples if sample.right]
            shown = wrong[: max(2, 3 - len(right))]  # wrong ones teach more
            lines = [
                f"step {trainer.step:,}: {percent(scores.exact_match, 1)} exact match "
                f"on {len(scores.samples)} held-out {trainer.task.noun}"
            ]
            lines += [f"  ✓ {sample.source}  ->  {sample.found}" for sample in right[: 3 - len(shown)]]
            for sample in shown:
                lines += [f"  ✗ {sample.source}  ->  {sample.found}", f"    it should be {sample.wanted}"]
            bar.write("\n".join(lines))
            sys.stdout.flush()

        trainer.train(folder, on_step, on_evaluation)
