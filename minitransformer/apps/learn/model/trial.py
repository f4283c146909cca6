"""The trial of a learner's parts: each is checked as an exercise, and compared with the engine's on a batch.

The learner's code runs in a child process, so an endless loop in one part ends the check of that part and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minitransformer import ops, optim
from minitransformer.apps.learn.bank import find
from minitransformer.apps.learn.child import MEMORY, Ended, Limits, guard, run_in_child
from minitransformer.apps.learn.model.parts import PARTS, Parts
from minitransformer.apps.learn.referee import Verdict, explain, judge_file
from minitransformer.apps.learn.solutions import solution_of
from minitransformer.apps.learn.verdict import Wrong
from minitransformer.arrays import Array, blas
from minitransformer.autograd import RULES, Tensor, tensor
from minitransformer.data import END, PAD, Batch, TextBatch, batches
from minitransformer.decoding import SamplingOptions, beam_search, greedy, sample
from minitransformer.nn import LanguageModel, Transformer
from minitransformer.override import override
from minitransformer.runs import Configuration

SENTENCES = 6
"""How many sentences of the batch are tried: they are enough to see a difference."""
TOLERANCE = 1e-7
"""In units of the largest entry; the trial is in float64."""
ROUNDS = 3
DROPOUT = 0.1
WINDOW = 8
"""How many tokens of a text are read at a time, and how many are written."""

SLOWER = 100
"""How many times as long as the engine's functions a part may take before it counts as an endless loop."""


class Trial(NamedTuple):
    """The result of a trial."""

    used: set[str]
    """The exercises that are parts of this model, whoever has written them."""
    parts: Parts
    """The parts that a training can use, right or wrong."""
    wrong: dict[str, str]
    """What is wrong with each part that disagrees."""
    broken: dict[str, str]
    """What is wrong with each part that no training can use: it is not Python, never returns, or ends the process."""
    times: dict[str, float]
    """The seconds of a training step that each part takes; empty where no step could be measured."""
    engine: float
    """The seconds of a training step of the engine alone."""
    together: float
    """The seconds of a training step with all parts that agree."""
    own_gradients: bool
    """Whether a training step with these parts computes every gradient without the engine."""
    decoder_only: bool
    """Whether the model is a decoder alone."""


class Setting(NamedTuple):
    """What parts are tried on."""

    folder: Path
    """The learner's."""
    configuration: Configuration
    """Of the model that will be trained; values are compared in float64."""
    sizes: tuple[int, int, bool]
    """The numbers of tokens of source and target, and whether they are one vocabulary."""
    batch: Batch | TextBatch
    """Sentences or pieces of a text, of the training data."""

    def values(self) -> dict[str, Array]:
        """Compute all values that a part can change."""
        dropout = self.configuration.model.dropout or DROPOUT
        return _values(self.configuration.changed(dtype="float64", dropout=dropout), self.sizes, _some(self.batch))

    def used(self) -> set[str]:
        """Find the exercises whose functions this model calls, in training or decoding."""
        clock = Clock()
        with clock.watch(Parts(self.folder, {name: solution_of(name) for name in PARTS})).in_place():
            _values(self.configuration, self.sizes, _some(self.batch))
        return {*clock.seconds}


def try_parts(
    setting: Setting,
    only: Collection[str] = PARTS,
    *,
    limits: Limits | None = None,
    tell: Callable[[str], object] = print,
) -> Trial:
    """Check each part as its exercise does, and compare it with the engine's: values, and the time of a training step.

    The exercise's check finds mistakes that these sentences do not show, such as an overflow of large scores. Parts
    that the model does not use are not tried.

    Parameters
    ----------
    setting : Setting
        The learner's folder, and the model and sentences to try its functions on.
    only : collection of str
        The parts to try; the others are the engine's.
    limits : Limits, optional
        The limits for each part; by default those of an exercise, and more for a large model.
    tell : callable
        Called with the line that is running, if a part takes long.
    """
    with blas.threads(1):
        start = time.perf_counter()
        expected = setting.values()
        slow = Limits(seconds=round(Limits().seconds + SLOWER * (time.perf_counter() - start)))
        engine = min(_steps(setting))
        used = setting.used()
    limits, only = limits or slow, used & {*only}
    names = [name for name in PARTS if name in only and (setting.folder / find(name).file).exists()]
    verdicts = _examine_all(setting, names, expected, limits, tell)
    loaded = {name: one for name, one in verdicts.items() if isinstance(one, Verdict) and one.solved}
    wrong = {name: one.words for name, one in loaded.items() if not one.right}
    broken = {name: one for name, one in verdicts.items() if isinstance(one, str)}
    together, times, own = 0.0, dict[str, float](), False
    if right := [name for name in loaded if name not in wrong]:
        try:
            files = [setting.folder / find(name).file for name in right]
            steps = run_in_child(partial(_time_each, setting, right), files, limits, tell=tell)
            together, times, own = min(steps, key=lambda step: step[0])
        except Ended as ended:
            if not ended.file:
                raise
            broken[find(ended.file.name).name] = f"In a training step: {ended}"
    parts = Parts.open(setting.folder, loaded.keys() - broken.keys())
    parts.missing.update((name, "to do") for name in only if name not in loaded and name not in broken)
    return Trial(used, parts, wrong, broken, times, engine, together, own, isinstance(setting.batch, TextBatch))


def _examine_all(
    setting: Setting, names: Sequence[str], expected: Mapping[str, Array], limits: Limits, tell: Callable[[str], object]
) -> dict[str, Verdict | str]:
    """Return a verdict on each part, or the error of a file that cannot be judged.

    One child process examines all parts. If one ends it, another child goes on with the next part.
    """
    memory = MEMORY + 8 * sum(value.nbytes for value in expected.values())
    found: dict[str, Verdict | str] = {}

    def tell_part(words: str) -> None:
        tell(Verdict(False, words).format(next(name for name in names if name not in found)))

    while todo := [name for name in names if name not in found]:
        files = [setting.folder / find(name).file for name in todo]
        work = partial(_examine_each, setting, todo, expected, memory)
        try:
            for name, verdict in zip(todo, run_in_child(work, files, limits, tell=tell_part), strict=True):
                found[name] = verdict
        except Ended as ended:
            found[next(name for name in todo if name not in found)] = str(ended)
    return found


# ---------------------------------------------------------------------------------------------------------------------
# In the child


def _examine_each(
    setting: Setting, names: Sequence[str], expected: Mapping[str, Array], memory: int
) -> Iterator[Verdict | str]:
    for name in names:
        parts = Parts.open(setting.folder, [name])
        if name in parts.functions:
            yield guard(partial(_examine, setting, parts, expected), parts.files, memory)
        else:
            yield parts.broken.get(name) or Verdict(False, "", solved=False)


def _examine(setting: Setting, parts: Parts, expected: Mapping[str, Array]) -> Verdict:
    """Return the verdict of the exercise's check; of a right part, whether it agrees with the engine's on the model."""
    [name], [file] = parts.functions, parts.files
    verdict = judge_file(find(name), file)
    if not verdict.right:
        return verdict
    try:
        with parts.alone(name).in_place():
            found = setting.values()
    except Wrong as wrong:
        return Verdict(False, str(wrong))
    except BaseException as error:  # whatever a learner's function raises, or lets the engine raise
        return explain(error, {str(file)})
    for what, value in expected.items():
        other = found[what]
        atol = TOLERANCE * (float(np.abs(value).max(initial=0)) or 1)
        if other.shape != value.shape or not np.allclose(other, value, rtol=0, atol=atol, equal_nan=True):
            return Verdict(False, f"{what} differs from the result of the engine's function")
    return verdict


def _time_each(setting: Setting, names: Sequence[str]) -> Iterator[tuple[float, dict[str, float], bool]]:
    """Yield, for each of a few training steps with parts in place, its seconds and those that each part takes.

    The third value is whether no gradient was computed by the engine.
    """
    parts, clock = Parts.open(setting.folder, names), Clock()
    called: list[str] = []
    try:
        with watching_gradients(called.append), clock.watch(parts).in_place():
            for seconds in _steps(setting, clock):
                yield seconds, dict(clock.seconds), not called
    except BaseException as error:
        raise Ended(explain(error, {*map(str, parts.files)}).words, parts.whose(error)) from error


@contextmanager
def watching_gradients(tell: Callable[[str], object]) -> Iterator[None]:
    """Call ``tell(name)`` before each function of the engine that computes a gradient runs in the ``with`` block."""

    def watched(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            tell(name)
            return function(*args, **options)

        return call

    with ExitStack() as stack:
        for name, operation in ops.registry.items():
            stack.enter_context(override(operation, backward=watched(name, operation.backward)))
        for name, rule in RULES.items():
            gradients = tuple(gradient and watched(name, gradient) for gradient in rule.gradients)
            stack.enter_context(override(rule, gradients=gradients))
        for name in ("unbroadcast", "backpropagate"):
            stack.enter_context(override(tensor, **{name: watched(name, getattr(tensor, name))}))
        yield


def _some(batch: Batch | TextBatch) -> Batch | TextBatch:
    """Return a few sentences of a batch, of different lengths where there are."""
    order = np.argsort(sum((ids != PAD).sum(axis=1) for ids in batch.inputs), kind="stable")
    places = np.unique(np.linspace(0, len(order) - 1, SENTENCES).astype(int))
    return type(batch)(*(ids[order[places]] for ids in batch))


def _backward(model: Transformer | LanguageModel, batch: Batch | TextBatch) -> Array:
    """Leave the gradients of a batch in a model; return the loss."""
    predict: Callable[..., Tensor] = model
    logits = predict(*batch.inputs[:-1], batches.decoder_input(batch.target_output), rng=model.rng)
    loss = ops.cross_entropy(logits, batch.target_output, label_smoothing=0.1, ignore_index=PAD)
    loss.backward()
    return loss.numpy()


def _values(configuration: Configuration, sizes: tuple[int, int, bool], batch: Batch | TextBatch) -> dict[str, Array]:
    """Return all values that a part can change, in the order in which they are computed."""
    model = configuration.build_model(*sizes)
    values = {f"the initial weights {name}": p.numpy().copy() for name, p in model.named_parameters()}
    rng = np.random.default_rng(0)
    for p in model.parameters():  # at the start every gain is 1 and every bias 0, which would hide mistakes
        p.data = p.data + 0.1 * rng.normal(size=p.shape)
    values["the loss"] = _backward(model, batch)
    for name, p in model.named_parameters():
        values[f"the gradient of {name}"] = np.zeros(p.shape) if p.grad is None else p.grad
    t = configuration.training
    steps = (min(step, t.steps) for step in (1, 2, t.warmup_steps, 4 * t.warmup_steps))
    values["the learning rate"] = np.array([configuration.learning_rate(step) for step in steps])
    optimiser = optim.Adam(model.parameters())
    for rate in (0.01, 0.02):
        optimiser.step(rate)
    values["the weights after two steps"] = optimiser.values
    model.output.data[END] = 0.0  # the sentences of an untrained model may be empty, which would hide mistakes
    if isinstance(model, LanguageModel):
        tokens = sample(model, batch.target_output[:2, :3], WINDOW, SamplingOptions(top_p=0.8))
        for i, text in enumerate(np.stack([next(tokens) for _ in range(WINDOW)], axis=1), start=1):
            values[f"text {i} of sampling"] = text
        return values
    source = batch.inputs[0][:2]
    for i, found in enumerate(greedy(model, source, 8), start=1):
        values[f"translation {i} of greedy decoding"] = np.array(found)
    for i, (best, *_) in enumerate(beam_search(model, source, 3, 0.6, 8), start=1):
        values[f"translation {i} of beam search"] = np.array([*best.tokens, best.score, best.log_probability])
    return values


def _steps(setting: Setting, clock: Clock | None = None) -> Iterator[float]:
    """Yield the seconds of each of a few training steps."""
    model = setting.configuration.build_model(*setting.sizes)
    optimiser = optim.Adam(model.parameters())
    for _ in range(ROUNDS):
        optimiser.zero_grad()
        if clock:
            clock.seconds.clear()
        start = time.perf_counter()
        _backward(model, setting.batch)
        optimiser.step(1e-4)
        yield time.perf_counter() - start


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
