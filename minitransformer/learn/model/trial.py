"""Each part of a learner's: checked as its exercise is, and compared with the engine's on the model's own batch."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from minitransformer import ops, optim
from minitransformer.arrays import Array, blas
from minitransformer.data import END, PAD, Batch
from minitransformer.data.batches import decoder_input
from minitransformer.decoding import beam_search, greedy
from minitransformer.learn.bank import find
from minitransformer.learn.model.parts import Parts
from minitransformer.learn.referee import explain, judge_file
from minitransformer.learn.verdict import Wrong
from minitransformer.nn import Transformer
from minitransformer.training.configuration import Configuration

__all__ = ["Trial", "try_parts"]

SENTENCES = 6
"""How many sentences of the batch are tried: they are enough to see a difference."""
TOLERANCE = 1e-7
"""In units of the largest entry; the trial is in float64."""
ROUNDS = 3
DROPOUT = 0.1


class Trial(NamedTuple):
    """What came of a trial."""

    wrong: dict[str, str]
    """What is wrong with each part that disagrees."""
    times: dict[str, float]
    """The seconds of a training step that each part takes."""
    engine: float
    """The seconds of a training step of the engine alone."""
    together: float
    """The seconds of a training step with all parts that agree."""


def try_parts(parts: Parts, configuration: Configuration, sizes: tuple[int, int, bool], batch: Batch) -> Trial:
    """Check each part as its exercise does, and compare it with the engine's: values, and the time of a training step.

    The exercise's check finds mistakes that these sentences do not show, such as an overflow of large scores.

    Parameters
    ----------
    parts : Parts
        The learner's.
    configuration : Configuration
        Of the model that will be trained; here it computes in float64.
    sizes : tuple
        The numbers of tokens of source and target, and whether they are one vocabulary.
    batch : Batch
        Sentences of the training data.
    """
    exact = configuration.changed(dtype="float64", dropout=configuration.model.dropout or DROPOUT)
    few = _some(batch)
    with blas.threads(1):
        expected, wrong = _values(exact, sizes, few), {}
        for name in parts.functions:
            if words := _verdict(parts, name) or _difference(lambda: _values(exact, sizes, few), expected, parts, name):
                wrong[name] = words
        model = configuration.build_model(*sizes)
        engine = _time(model, batch)
        clock = Clock()
        with clock.watch(parts.without(wrong)).in_place():
            together = _time(model, batch, clock)
    return Trial(wrong, clock.seconds, engine, together)


def _some(batch: Batch) -> Batch:
    """Return a few sentences of a batch, of different lengths where there are."""
    order = np.argsort((batch.target_output != PAD).sum(axis=1) + (batch.source != PAD).sum(axis=1), kind="stable")
    places = np.unique(np.linspace(0, len(order) - 1, SENTENCES).astype(int))
    return Batch(*(ids[order[places]] for ids in batch))


def _backward(model: Transformer, batch: Batch) -> Array:
    """Leave the gradients of a batch in a model; return the loss."""
    logits = model(batch.source, decoder_input(batch.target_output), model.rng)
    loss = ops.cross_entropy(logits, batch.target_output, label_smoothing=0.1, ignore_index=PAD)
    loss.backward()
    return loss.numpy()


def _values(configuration: Configuration, sizes: tuple[int, int, bool], batch: Batch) -> dict[str, Array]:
    """Return all values that a part can change, in the order in which they are computed."""
    model = configuration.build_model(*sizes)
    values = {f"the initial weights {name}": p.numpy().copy() for name, p in model.named_parameters()}
    rng = np.random.default_rng(0)
    for p in model.parameters():  # at the start every gain is 1 and every bias 0, which would hide mistakes
        p.data = p.data + 0.1 * rng.normal(size=p.shape)
    values["the loss"] = _backward(model, batch)
    for name, p in model.named_parameters():
        values[f"the gradient of {name}"] = np.zeros(p.shape) if p.grad is None else p.grad
    steps = (1, 2, configuration.training.warmup_steps, 4 * configuration.training.warmup_steps)
    values["the learning rate"] = np.array([configuration.learning_rate(step) for step in steps])
    optimiser = optim.Adam(model.parameters())
    for rate in (0.01, 0.02):
        optimiser.step(rate)
    values["the weights after two steps"] = optimiser.values
    model.output.data[END] = 0.0  # the sentences of an untrained model may be empty, which would hide mistakes
    short = batch.source[:2]
    model.eval()
    for i, tokens in enumerate(greedy(model, short, 8), start=1):
        values[f"translation {i} of greedy decoding"] = np.array(tokens)
    for i, (best, *_) in enumerate(beam_search(model, short, 3, 0.6, 8), start=1):
        values[f"translation {i} of beam search"] = np.array([*best.tokens, best.score, best.log_probability])
    return values


def _verdict(parts: Parts, name: str) -> str:
    """Return what the exercise's own check finds wrong with a part."""
    verdict = judge_file(find(name), parts.folder / find(name).file)
    return "" if verdict.right else verdict.words


def _difference(values: Callable[[], dict[str, Array]], expected: dict[str, Array], parts: Parts, name: str) -> str:
    """Return which value changes when a part takes the place of the engine's; nothing if none does."""
    try:
        with parts.alone(name).in_place():
            found = values()
    except Wrong as wrong:
        return str(wrong)
    except Exception as error:  # whatever a learner's function raises, or lets the engine raise
        return explain(error, {str(parts.folder / find(name).file)}).words
    for what, value in expected.items():
        other = found[what]
        atol = TOLERANCE * (float(np.abs(value).max(initial=0)) or 1)
        if other.shape != value.shape or not np.allclose(other, value, rtol=0, atol=atol, equal_nan=True):
            return f"{what} is not what it is with the engine's function"
    return ""


def _time(model: Transformer, batch: Batch, clock: Clock | None = None) -> float:
    """Return the shortest time of a few training steps, in seconds."""
    optimiser = optim.Adam(model.parameters())
    taken = []
    for _ in range(ROUNDS):
        optimiser.zero_grad()
        if clock:
            clock.seconds.clear()
        start = time.perf_counter()
        _backward(model, batch)
        optimiser.step(1e-4)
        taken.append(time.perf_counter() - start)
    return min(taken)


class Clock:
    """The time that each of a learner's functions takes by itself, without the functions that it calls."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inner: list[float] = []  # for each call under way, the time of the calls inside it

    def watch(self, parts: Parts) -> Parts:
        """Return the parts, each of which leaves its time here."""
        watched = {name: self._timed(name, function) for name, function in parts.functions.items()}
        return Parts(parts.folder, watched, parts.missing)

    def _timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **options: Any) -> Any:
            self._inner.append(0.0)
            start = time.perf_counter()
            try:
                return function(*args, **options)
            finally:
                taken = time.perf_counter() - start
                self.seconds[name] = self.seconds.get(name, 0.0) + taken - self._inner.pop()
                if self._inner:
                    self._inner[-1] += taken

        return timed
