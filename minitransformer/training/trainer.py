"""Training: from a configuration to a model that translates."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.arrays import Array, xp
from minitransformer.autograd import Tensor
from minitransformer.data import PAD, Batch, ParallelBatches, Vocabulary
from minitransformer.nn import Transformer
from minitransformer.optim import Adam, warmup
from minitransformer.tasks import Task, split
from minitransformer.training.configuration import Configuration
from minitransformer.training.interruption import deferred_interrupt
from minitransformer.training.metrics import Scores, evaluate
from minitransformer.training.run import Checkpoint, RunFolder

__all__ = ["Diverged", "Trainer", "training_step"]

LOG_EVERY = 10
LOOK_AT = 200
"""How many held-out pairs an evaluation during training looks at."""


class Diverged(ArithmeticError):
    """The loss, or a weight, is no longer a finite number."""


def training_step(
    model: Transformer, optimiser: Adam, batch: Batch, learning_rate: float, label_smoothing: float
) -> Tensor:
    """Move the weights once against the gradient of a batch's loss.

    Parameters
    ----------
    model : Transformer
        The model, in training mode.
    optimiser : Adam
        Made from the model's parameters.
    batch : Batch
        Sentence pairs.
    learning_rate : float
        The size of the step.
    label_smoothing : float
        The share of the wanted probability that is spread over all tokens.

    Returns
    -------
    Tensor, shape ()
        The loss before the step, in nats per target token.
    """
    optimiser.zero_grad()
    logits = model(batch.source, batch.target_input)
    loss = ops.cross_entropy(logits, batch.target_output, label_smoothing=label_smoothing, ignore_index=PAD)
    del logits  # the graph holds what it needs of them
    loss.backward(release=True)
    optimiser.step(learning_rate)
    return loss


class Trainer:
    """A training run in memory: data, model, optimiser, and where it stands.

    Parameters
    ----------
    configuration : Configuration
        Everything that it depends on.

    Raises
    ------
    ValueError
        If the configuration asks for something impossible.
    """

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.task: Task = configuration.build_task()
        self.source_vocabulary = Vocabulary(self.task.source_alphabet)
        self.target_vocabulary = Vocabulary(self.task.target_alphabet)
        self.model = configuration.build_model(
            len(self.source_vocabulary), len(self.target_vocabulary), self.task.shared
        )
        self.train_pairs, self.held_out = split(
            self.task, configuration.train_pairs, configuration.held_out, np.random.default_rng(configuration.seed)
        )
        self.batches = ParallelBatches(
            [self._encode(*pair) for pair in self.train_pairs], configuration.batch_tokens, configuration.seed
        )
        self.optimiser = Adam(self.model.parameters())
        self.step = 0
        self.averaged = 0
        """How many steps' weights the mean below holds."""
        self.mean_weights: Array = xp.zeros_like(self.optimiser.values)
        self.seconds = 0.0
        """Time spent training so far, evaluations included."""

    def _encode(self, source: str, target: str) -> tuple[list[int], list[int]]:
        return (
            self.source_vocabulary.encode(self.task.source_tokens(source)),
            self.target_vocabulary.encode(self.task.target_tokens(target)),
        )

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of a step, from 1."""
        c = self.configuration
        return c.learning_rate_factor * warmup(step, c.d_model, c.warmup_steps)

    def train(
        self,
        run: RunFolder,
        on_step: Callable[[float, float, float], None],
        on_evaluation: Callable[[Scores], None],
    ) -> None:
        """Train to the last step; save a checkpoint before the first, at each evaluation, and when interrupted.

        Parameters
        ----------
        run : RunFolder
            Where checkpoints and measurements go.
        on_step : callable
            Called after each step with loss, learning rate and target tokens per second.
        on_evaluation : callable
            Called with the scores on some of the held-out pairs.

        Raises
        ------
        Diverged
            If the loss is NaN or infinite. The last checkpoint is one from before.
        KeyboardInterrupt
            If interrupted; a checkpoint of the last whole step has been saved.
        """
        c = self.configuration
        run.save(self.checkpoint())
        self.model.train()
        started = time.perf_counter() - self.seconds
        since, tokens, losses = time.perf_counter(), 0, []
        batches = self._batches_from(self.step)
        try:
            with deferred_interrupt() as between_steps:
                while self.step < c.steps:
                    between_steps()
                    batch = next(batches)
                    rate = self.learning_rate(self.step + 1)
                    loss = float(training_step(self.model, self.optimiser, batch, rate, c.label_smoothing))
                    if not math.isfinite(loss):
                        raise Diverged(f"the loss is {loss} at step {self.step + 1}")
                    self.step += 1
                    self._average()
                    self.seconds = time.perf_counter() - started
                    losses.append(loss)
                    tokens += int((batch.target_output != PAD).sum())
                    speed = tokens / (time.perf_counter() - since)
                    on_step(loss, rate, speed)
                    if self.step % LOG_EVERY == 0 or self.step == c.steps:
                        measured = {"loss": sum(losses) / len(losses), "learning_rate": rate}
                        self._log(run, **measured, tokens_per_second=round(speed))
                        since, tokens, losses = time.perf_counter(), 0, []
                    if self.step % c.evaluate_every == 0 or self.step == c.steps:
                        scores = self.evaluate(self.held_out[:LOOK_AT])
                        self._log(run, exact_match=scores.exact_match, token_accuracy=scores.token_accuracy)
                        on_evaluation(scores)
                        if not bool(xp.isfinite(self.optimiser.values).all()):
                            raise Diverged(f"a weight is not a finite number after step {self.step}")
                        run.save(self.checkpoint())
                        self.seconds = time.perf_counter() - started
                        since, tokens = time.perf_counter(), 0
        except KeyboardInterrupt:
            run.save(self.checkpoint())
            raise
        finally:
            self.model.eval()

    def _log(self, run: RunFolder, **measured: float) -> None:
        run.log({"step": self.step, **measured, "seconds": round(self.seconds, 3)})

    def _average(self) -> None:
        """Bring the mean of the last steps' weights up to date (section 6.1 averages the last checkpoints)."""
        if self.step > self.configuration.steps - self.configuration.average_last:
            self.averaged += 1
            self.mean_weights += (self.optimiser.values - self.mean_weights) / self.averaged

    def use_mean_weights(self) -> None:
        """Give the model the mean weights; training cannot go on from there."""
        if self.averaged:
            self.optimiser.values[...] = self.mean_weights

    def _batches_from(self, step: int) -> Any:
        """Yield the batches of all epochs, from the one that follows a step."""
        epoch, start = divmod(step, self.batches.batches_per_epoch)
        while True:
            yield from self.batches.epoch(epoch, start)
            epoch, start = epoch + 1, 0

    def evaluate(self, pairs: list[tuple[str, str]]) -> Scores:
        """Measure the model on pairs of texts."""
        return evaluate(self.model, self.task, self.source_vocabulary, self.target_vocabulary, pairs)

    def checkpoint(self) -> Checkpoint:
        """Return all that is needed to go on from here, and the mean weights as far as they go."""
        generator = self.model.rng.bit_generator.state
        words = [int(word) for word in generator["state"]["state"]]
        state = {
            "step": self.step,
            "seconds": self.seconds,
            "averaged": self.averaged,
            "dropout": {**generator, "state": {"state": words}},
        }
        weights = self.model.state_dict()
        mean = {}
        if self.averaged:
            self.optimiser.values[...], kept = self.mean_weights, self.optimiser.values.copy()
            mean = self.model.state_dict()
            self.optimiser.values[...] = kept
        return Checkpoint(weights, self.optimiser.state_dict(), mean, state)
