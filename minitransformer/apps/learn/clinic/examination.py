"""Run a training script and measure it: ``python -m minitransformer.apps.learn.clinic.examination NAME < script``.

It runs in a process of its own, because a script may fail or never end, and because optimiser, loss and attention
are wrapped here in order to record what passes through them. The last line of its output is the report, as JSON.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np

from minitransformer import nn, ops, optim
from minitransformer.arrays import keep_freed_memory
from minitransformer.autograd import no_grad
from minitransformer.data import END, PAD, START, pad

MORE_PADDING = 8
"""Columns of padding in the held-out batch, as if it contained a longer row."""
DIGIT = 3
"""The id of the digit 0."""


def held_out(n: int, seed: int = 99) -> list[list[int]]:
    """Return n rows of three to five digits, drawn with a seed that no training uses."""
    rng = np.random.default_rng(seed)
    return [rng.integers(DIGIT, DIGIT + 10, length).tolist() for length in rng.integers(3, 6, n)]


class Recorder:
    """Records a training run, step by step."""

    def __init__(self, norm_steps: Sequence[int]) -> None:
        self.norm_steps = set(norm_steps)
        self.losses: list[float] = []
        self.rates: list[float] = []
        self.norms: dict[int, dict[str, float]] = {}
        self.start: list[Any] = []
        self.spread: dict[str, float] = {}
        self.clears = self.targets = 0
        self.batch: dict[str, Any] = {}
        self.gradients: dict[str, Any] = {}

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Wrap optimiser and loss to record their calls."""
        step, clear, loss = optim.Adam.step, optim.Adam.zero_grad, ops.cross_entropy

        def record_step(optimiser: optim.Adam, learning_rate: float, *rest: Any) -> None:
            if not self.start:
                self.start = [parameter.data.copy() for parameter in optimiser.parameters]
            self.rates.append(float(learning_rate))
            step(optimiser, learning_rate, *rest)

        def record_clear(optimiser: optim.Adam) -> None:
            self.clears += 1
            clear(optimiser)

        def record_loss(logits: Any, targets: Any, *rest: Any, **options: Any) -> Any:
            self.targets += int(np.size(targets))
            if "read" in self.batch and "labels" not in self.batch:
                ignored = options.get("ignore_index", rest[1] if len(rest) > 1 else None)
                labels = np.reshape(targets, (-1, len(self.batch["read"][0])))[:6]
                self.batch.update(labels=labels.tolist(), ignored=ignored)
            return loss(logits, targets, *rest, **options)

        with (
            mock.patch.object(optim.Adam, "step", record_step),
            mock.patch.object(optim.Adam, "zero_grad", record_clear),
            mock.patch.object(ops, "cross_entropy", record_loss),
        ):
            yield

    def watch(self, model: nn.Module, step: int, loss: float) -> None:
        """Note a step; a script calls it after each."""
        self.losses.append(float(loss))
        if len(self.losses) == 1:
            self._look_at_embeddings(model)
            self._record_inputs(model)
        if len(self.losses) in self.norm_steps:
            self.norms[len(self.losses)] = gradient_norms(model)
            grads = [p.grad for p in model.parameters() if p.grad is not None]
            self.gradients = {
                "types": sorted({str(g.dtype) for g in grads}),
                "zeros": float(sum((g == 0).sum() for g in grads) / max(sum(g.size for g in grads), 1)),
            }

    def _record_inputs(self, model: Any) -> None:
        """Keep the model's inputs at the second step."""
        kind, call = type(model), type(model).__call__

        def record(this: Any, source: Any, target: Any, *rest: Any, **options: Any) -> Any:
            self.batch = {"source": np.asarray(source)[:6].tolist(), "read": np.asarray(target)[:6].tolist()}
            kind.__call__ = call
            return call(this, source, target, *rest, **options)

        kind.__call__ = record

    def _look_at_embeddings(self, model: Any) -> None:
        """Measure how far tokens differ at one position, and one token at different positions."""
        ids = np.repeat(np.arange(DIGIT, DIGIT + 10)[:, None], 7, axis=1)
        x = np.asarray(model.embed(ids, None).data)  # (tokens, positions, D)
        self.spread = {"tokens": float(x.std(axis=0).mean()), "positions": float(np.sqrt(x.var(axis=1).mean()))}


def part(name: str) -> str:
    """Return the part of the model to which a parameter belongs: "encoder 1", "decoder 2", "table"."""
    words = name.split(".")
    return f"{words[0]} {int(words[1]) + 1}" if len(words) > 2 and words[1].isdigit() else words[0]


def gradient_norms(model: nn.Module) -> dict[str, float]:
    """Return the norm of each part's gradient."""
    squares: dict[str, float] = {}
    for name, parameter in model.named_parameters():
        grad = 0.0 if parameter.grad is None else float(np.square(parameter.grad, dtype="float64").sum())
        squares[part(name)] = squares.get(part(name), 0.0) + grad
    return {name: square**0.5 for name, square in squares.items()}


@contextmanager
def recorded_maps(maps: list[Any]) -> Iterator[None]:
    """Let every attention record its weights."""
    call = nn.MultiHeadAttention.__call__

    def record(this: Any, x: Any, memory: Any = None, mask: Any = None, causal: bool = False, **_: Any) -> Any:
        return call(this, x, memory, mask, causal, maps)

    with mock.patch.object(nn.MultiHeadAttention, "__call__", record):
        yield


def _answer(row: Sequence[int]) -> list[int]:
    """Return the tokens before the end token; without an end token, a list that equals no answer."""
    row = [int(token) for token in row]
    return row[: row.index(END)] if END in row else [PAD]


def _sources(rows: list[list[int]], more: int) -> Any:
    return np.pad(pad([[*row, END] for row in rows]), ((0, 0), (0, more)), constant_values=PAD)


def _score(rows: list[list[int]], written: Any) -> float:
    return float(np.mean([_answer(text) == row[::-1] for row, text in zip(rows, written, strict=True)]))


def examine(script: ModuleType, n: int = 150) -> dict[str, Any]:
    """Train by a script and return what was measured, ready for JSON.

    Parameters
    ----------
    script : module
        With ``train(watch)`` and ``write(model, source)``, and a ``STEPS``.
    n : int
        How many held-out rows are written.
    """
    steps = int(script.STEPS)
    recorder = Recorder([1, 10, 50, steps // 2, steps])
    with recorder.installed():
        model = script.train(recorder.watch)
    if model is None or not recorder.rates:
        raise ValueError("train must return the model, and train it with optim.Adam")
    if len(recorder.losses) != len(recorder.rates):
        raise ValueError(
            f"train called watch {len(recorder.losses)} times in {len(recorder.rates)} steps; call it after each step"
        )
    if "labels" not in recorder.batch:
        raise ValueError("train must call the model and then ops.cross_entropy, in two steps at least")
    report: dict[str, Any] = {
        "losses": [round(loss, 4) for loss in recorder.losses],
        "rates": recorder.rates,
        "norms": {str(step): norms for step, norms in recorder.norms.items()},
        "clears": recorder.clears,
        "targets": recorder.targets,
        "gradients": recorder.gradients,
        "batch": recorder.batch,
        "spread": recorder.spread,
        "parameters": sum(parameter.size for parameter in model.parameters()),
        "weights": [
            {"name": name, "start": _moments(before), "end": _moments(parameter.data)}
            for (name, parameter), before in zip(model.named_parameters(), recorder.start, strict=True)
            if parameter.ndim == 2
        ],
    }
    rows = held_out(n)
    report |= _writing(script, model, rows)
    report |= _inside(model, rows)
    for parameter in model.parameters():
        parameter.data[...] = 0
    report["blank_score"] = _score(rows[:20], script.write(model, _sources(rows[:20], 0)))
    return report


def _moments(values: Any) -> list[float]:
    return [float(values.mean()), float(values.std())]


def _writing(script: ModuleType, model: Any, rows: list[list[int]]) -> dict[str, Any]:
    """Measure the model's translations: in a batch, again, and each row alone."""
    few = rows[: max(len(rows) // 5, 1)]
    wide = script.write(model, _sources(rows, MORE_PADDING))
    again = script.write(model, _sources(few, MORE_PADDING))
    alone = [script.write(model, _sources([row], 0))[0] for row in few]
    by_kind = {"wide": wide, "again": again, "alone": alone}
    return {
        "score": _score(rows, wide),
        "alone_score": _score(few, alone),
        "repeated": float(np.mean([list(a) == list(b) for a, b in zip(wide, again, strict=False)])),
        "samples": [
            {
                "source": few[i],
                "wanted": [*few[i][::-1], END],
                **{kind: [int(token) for token in texts[i]] for kind, texts in by_kind.items()},
            }
            for i in range(min(8, len(few)))
        ],
    }


def _inside(model: Any, rows: list[list[int]]) -> dict[str, Any]:
    """Measure the model with the right target given: accuracy, attention, and whether it looks ahead."""
    model.training = False
    source = _sources(rows[:50], MORE_PADDING // 2)
    target = pad([[START, *reversed(row), END] for row in rows[:50]])
    read, labels = target[:, :-1], target[:, 1:]
    maps: list[Any] = []
    with no_grad(), recorded_maps(maps):
        logits = model(source, read).data
    other = read.copy()
    other[:, 3:] = DIGIT + (other[:, 3:] + 1) % 10
    with no_grad():
        looks_ahead = float(np.abs(model(source, other).data[:, :3] - logits[:, :3]).max())
    guess, counts = logits.argmax(axis=-1), labels != PAD
    cross = np.asarray(maps[-1]).mean(axis=1)  # (B, Tq, Tk), over the heads
    width, length = len(rows[0]) + 3, len(rows[0]) + 1
    return {
        "token_accuracy": float((guess == labels)[counts].mean()),
        "copies_input": float((guess == read)[counts].mean()),
        "looks_ahead": looks_ahead,
        "on_padding": float((cross * (source == PAD)[:, None, :]).sum(axis=-1)[counts].mean()),
        "on_tokens": float((cross * (source != PAD)[:, None, :]).sum(axis=-1)[counts].mean()),
        "maps": {
            "encoder": np.asarray(maps[0])[0].mean(axis=0)[:width, :width].tolist(),
            "decoder": np.asarray(maps[-2])[0].mean(axis=0)[:length, :length].tolist(),
            "cross": cross[0, :length, :width].tolist(),
        },
        "map_rows": read[0, :length].tolist(),
        "map_columns": source[0, :width].tolist(),
    }


def main() -> None:
    """Examine the script on standard input; its name is the argument."""
    text, name = sys.stdin.read(), sys.argv[1]
    script = ModuleType("script")
    script.__file__ = name
    try:
        exec(compile(text, name, "exec"), script.__dict__)
        missing = [function for function in ("train", "write", "STEPS") if not hasattr(script, function)]
        if missing:
            raise ValueError(f"the file no longer defines {', '.join(missing)}")
        report = examine(script)
    except BaseException as error:  # SystemExit too: the script may call exit()
        report = {"error": _explain(error, name)}
    print("\n" + json.dumps(report))


def _explain(error: BaseException, name: str) -> str:
    """Return in words where a script failed."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno} is not Python: {error.msg}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == name]
    where = f"line {frames[-1].lineno}, in {frames[-1].name}: " if frames else ""
    return f"{where}{type(error).__name__}: {error}".removesuffix(": ")


if __name__ == "__main__":
    keep_freed_memory()
    main()
