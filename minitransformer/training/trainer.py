"""The training loop: from a configuration to a trained model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

from minitransformer.arrays import Array, backend, blas, to_numpy, xp
from minitransformer.data import PAD, all_batches
from minitransformer.decoding import Diverged
from minitransformer.gradients import default_processes
from minitransformer.nn import LanguageModel, Transformer
from minitransformer.optim import Adam
from minitransformer.parallel import SINGLE_PROCESS, ProcessGroup, forked
from minitransformer.runs.checkpoints import Checkpoint, read_training_state, write_checkpoint
from minitransformer.runs.configuration import Configuration
from minitransformer.runs.errors import refusing
from minitransformer.runs.folder import BeforeAndAfter, RunFolder
from minitransformer.runs.loading import TrainedRun, load, open_model
from minitransformer.runs.low_rank import merge, weights_to_save
from minitransformer.runs.provenance import Provenance
from minitransformer.runs.state import State, TrainingState
from minitransformer.tasks.corpus import Tokenisers
from minitransformer.train import training_step
from minitransformer.training.evaluation import Scores, evaluate
from minitransformer.training.interruption import deferred_interrupt
from minitransformer.training.length import guess_seconds
from minitransformer.training.losses import Losses
from minitransformer.training.preparing import prepare
from minitransformer.training.text_evaluation import TextScores, evaluate_text
from minitransformer.training.weight_averaging import WeightAverage, whole

LOG_EVERY = 10
"""Steps per line of the log. On a GPU the losses are read at the same interval, because reading makes the host wait."""

HELD_OUT, KEPT_GOOD = "held out", "kept good"
"""What is measured before and after a model is trained on."""

MOST_REMEMBERED = 2_000_000
"""The most weights of a model whose history is kept; each entry of it has their size."""


class Result(NamedTuple):
    """The result of training."""

    trained: TrainedRun
    """The weights to translate with."""
    scores: Scores | TextScores
    """The scores of these weights on all that is held out."""
    measurement: dict[str, Any]
    """The scores as they are logged."""
    adaptation: Mapping[str, BeforeAndAfter]
    """The scores before and after further training (``--from``), by the text that was measured."""


class Best(NamedTuple):
    """The best measurement so far; the higher the value, the better."""

    value: float
    step: int


def _ignore(*values: Any) -> None:
    """Do nothing."""


class Trainer:
    """A training run in memory: data, model, optimiser and progress.

    Parameters
    ----------
    configuration : Configuration
        The configuration of the run.
    tokenisers : pair of Tokeniser, optional
        The tokenisers of a resumed run, so that they need not be learned again.
    group : ProcessGroup
        The processes that train together; by default only this one. Each has the data; the first writes the run.
    fork : bool, default False
        Whether this process divides itself while it trains, so that each core has one; see `parallel.forked`.
    start : TrainedRun, optional
        The run whose weights and tokenisers training begins with; see `continue_from`.

    Raises
    ------
    ValueError
        If the configuration is impossible, or the data is invalid.
    MissingExtraError
        If a package is not installed that the task or its scores need.
    RunError
        If the processes have different options, packages or data.
    """

    def __init__(
        self,
        configuration: Configuration,
        tokenisers: Tokenisers | None = None,
        group: ProcessGroup = SINGLE_PROCESS,
        fork: bool = False,
        start: TrainedRun | None = None,
    ) -> None:
        self.group, self._fork = group, fork
        tokenisers = (start.source, start.target) if start else tokenisers
        made = prepare(configuration, tokenisers, group, fork)
        self.notes, self.configuration, self.task, self.corpus = made.notes, made.configuration, made.task, made.corpus
        self.source, self.target = self.corpus.source, self.corpus.target
        self.batches, self.model, self.step_seconds = made.batches, made.model, made.step_seconds
        """``step_seconds`` is the expected time of a step, or None until it is measured or guessed."""
        if start:
            own, other = (dict(model.named_parameters()) for model in (self.model, start.model))
            self.model.load_state_dict({name: p.data for name, p in (own | other).items()})
        self.optimiser = self._new_optimiser()
        self.step = 0
        self.weight_average = WeightAverage(self.optimiser)
        self.best: Best | None = None
        self.waited = 0
        """The number of measurements since the best."""
        self.seconds = 0.0
        """Time spent training so far, evaluations included."""
        self.tokens = 0
        """Target tokens trained on so far."""
        self._begun: tuple[int, float] | None = None  # steps and seconds when training began or was resumed
        self._losses = Losses()

    def _new_optimiser(self) -> Adam:
        """Return the optimiser of this process's part of the weights."""
        group, decay = self.group, self.configuration.training.weight_decay
        part = group.rank, group.size
        return Adam(self.model.trained_parameters(), weight_decay=decay, part=part, values=group.weights)

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """What the weights are trained with, as checkpoints record it."""
        return Provenance.of(self.configuration, self.corpus).flat()

    @property
    def finished(self) -> bool:
        """Whether training has ended: after the last step, or early."""
        return self.configuration.training.ends_at(self.step, self.waited)

    @property
    def stopped_early(self) -> bool:
        """Whether training stops early because the last measurements brought no improvement."""
        return self.configuration.training.stops_early(self.waited)

    def expected_seconds(self) -> float | None:
        """Return the time of the remaining steps in seconds: estimated before the first step, measured afterwards.

        On a GPU it is None before the first step.
        """
        to_come = self.configuration.training.steps - self.step
        if self._begun and self.step > self._begun[0]:
            return to_come * (self.seconds - self._begun[1]) / (self.step - self._begun[0])
        if self.step_seconds is None:
            tokens = self.corpus.tokens / self.batches.batches_per_epoch
            self.step_seconds = guess_seconds(self.model, tokens * self.configuration.training.accumulate)
        return None if self.step_seconds is None else to_come * self.step_seconds

    def train(
        self,
        run: RunFolder,
        on_step: Callable[[float | None, float, float], None] = _ignore,
        on_evaluation: Callable[[Scores | TextScores], None] = _ignore,
        on_result: Callable[[Result], None] = _ignore,
    ) -> Result:
        """Train to the end and measure the result, which finishes the run.

        Checkpoints are saved before the first step, at regular intervals and on an interruption. If no steps are left,
        only the result is measured.

        Parameters
        ----------
        run : RunFolder
            The folder for checkpoints and measurements.
        on_step : callable
            Called after each step with loss, learning rate and target tokens per second. On a GPU the loss is read
            every 10 steps, and None after the others; a loss that is not finite is noticed up to 10 steps late.
        on_evaluation : callable
            Called with the scores on what is held out.
        on_result : callable
            Called with the result before the run counts as finished, so a finished run has the files that it writes.

        Returns
        -------
        Result

        Raises
        ------
        Diverged
            If the loss or a score is NaN or infinite. The last checkpoint is from before that.
        RunError
            If something cannot be written; the last checkpoint is kept.
        KeyboardInterrupt
            On Ctrl-C or SIGTERM, after the current step, for which a checkpoint is saved. A second Ctrl-C does not wait
            for that; the last checkpoint is then the previous one.
        """
        with self._in_processes() as group:
            if group.rank:
                on_step = on_evaluation = on_result = _ignore
            if not self.finished:
                self._train(run, on_step, on_evaluation)
            trained = load(run, group=self.group)
            scores = self.evaluate(self.corpus.held_out, trained.model)
            seconds = round(self.seconds, 3)
            measurement = {"step": self.step, "final": True, **scores.measurements(), "seconds": seconds}
            after = {HELD_OUT: scores.measurements(), **self._measure_kept_good(trained.model)}
            before = self.group.broadcast(run.adaptation)
            adaptation = {what: replace(both, after=after[what]) for what, both in before.items() if what in after}
            result = Result(trained, scores, measurement, adaptation)
            if self.group.rank == 0:
                if adaptation:
                    run.write_adaptation(adaptation)
                on_result(result)
                run.measurements.append(measurement)
        return result

    @contextmanager
    def _in_processes(self) -> Iterator[ProcessGroup]:
        """Run the block in a process for each core where that is possible, and yield these; only this one leaves it."""
        c = self.configuration.training
        processes = default_processes(c.micro_batches or 1, c.workers) if self._fork and self.group.size == 1 else 1
        with forked(processes, self.optimiser.parameters, c.micro_batches or 1) as group:
            if group.size > 1:
                self._move_to(group)
            yield group
            if group.size > 1:
                self._move_to(SINGLE_PROCESS)

    def _move_to(self, group: ProcessGroup) -> None:
        """Go on with other processes, of which each updates a part of the weights."""
        state, mean = self._whole_optimiser(), whole(self.weight_average.values, self.optimiser, self.group)
        self.group = group
        self.optimiser = self._new_optimiser()
        self.optimiser.load_state_dict(state)
        self.weight_average = WeightAverage(self.optimiser, mean, self.weight_average.steps)

    def _whole_optimiser(self) -> dict[str, Array]:
        """Return the state of the optimiser for all weights, on the host."""
        own = self.optimiser.state_dict()
        return own | {name: to_numpy(whole(own[name], self.optimiser, self.group)) for name in ("mean", "mean_square")}

    def _train(
        self,
        run: RunFolder,
        on_step: Callable[[float | None, float, float], None],
        on_evaluation: Callable[[Scores | TextScores], None],
    ) -> None:
        """Train to the last step; log, measure and save from time to time."""
        c = self.configuration.training
        if self.step == 0:
            self._save_start(run, on_evaluation)
        self._begun = self.step, self.seconds
        started = time.perf_counter() - self.seconds
        since, tokens = time.perf_counter(), 0  # for the speed since the last line of the log or measurement
        batches = all_batches(self.batches, self.step * c.accumulate)
        blas_threads = blas.threads(c.blas_threads or blas.default_threads(c.micro_batches or 1))
        with deferred_interrupt() as interrupted, blas_threads:
            while not self.finished:
                # one step, which adds the gradients of several batches if the option accumulate says so
                accumulated = list(islice(batches, c.accumulate))
                rate = self.configuration.learning_rate(self.step + 1)
                loss = training_step(
                    self.model.train(), self.optimiser, accumulated, rate, c.label_smoothing,
                    clip=c.clip, micro_batches=c.micro_batches or 1, loss_block=c.loss_block, group=self.group,
                )  # fmt: skip
                self.model.eval()
                self.step += 1

                # its loss, on a GPU read with others, and the mean of the last steps' weights
                self._losses.append(loss)
                due = self.step % LOG_EVERY == 0 or self.step == c.steps
                losses = self._losses.read(self.step) if due or backend() == "numpy" else []
                if c.averaged_at(self.step):
                    self.weight_average.add()

                # log
                written = sum(int((batch.target_output != PAD).sum()) for batch in accumulated)
                self.tokens += written
                tokens += written
                self.seconds = time.perf_counter() - started
                speed = tokens / (time.perf_counter() - since)
                on_step(losses[-1] if losses else None, rate, speed)
                if due:
                    mean = sum(losses) / len(losses)
                    self._log(run, loss=mean, learning_rate=rate, tokens_per_second=round(speed))
                    since, tokens, self._losses = time.perf_counter(), 0, Losses()

                # measure on what is held out
                if self.step % c.evaluate_every == 0 or self.step == c.steps:
                    self._measure(run, on_evaluation)
                    self.seconds = time.perf_counter() - started
                    since, tokens = time.perf_counter(), 0

                # save; after Ctrl-C too
                self._remember(run)
                stop = any(self.group.all_gather(interrupted()))
                if c.saves_at(self.step) or self.finished or stop:
                    self._save(run)
                if stop:
                    raise KeyboardInterrupt

    def _save_start(self, run: RunFolder, on_evaluation: Callable[[Scores | TextScores], None]) -> None:
        """Save the initial weights; measure them first if they are those of another run."""
        if self.configuration.start is not None and self.best is None:
            scores = {HELD_OUT: self.evaluate(self.corpus.held_out).measurements(), **self._measure_kept_good()}
            before = {what: BeforeAndAfter(before=found) for what, found in scores.items()}
            self.group.broadcast(lambda: run.write_adaptation(before))
            self._measure(run, on_evaluation)  # if training only makes it worse, these weights are the best
        self._save(run)
        self._remember(run)

    def _measure(self, run: RunFolder, on_evaluation: Callable[[Scores | TextScores], None]) -> None:
        """Measure the weights, and save them if they are the best so far."""
        self._check_weights()
        scores = self.evaluate(self.corpus.valid)
        by = self.configuration.training.best_by
        value = -scores.loss if by == "loss" else scores.measurements().get(by, 0.0)
        if self.best is None or value > self.best.value:
            self.best, self.waited = Best(value, self.step), 0
            state = State(step=self.step, provenance=self.provenance).flat() | scores.measurements()
            if self.group.rank == 0:
                write_checkpoint(run.best_path, Checkpoint(weights_to_save(self.model), {}, {}, state))
        else:
            self.waited += 1
        self._log(run, **scores.measurements())
        on_evaluation(scores)

    def _measure_kept_good(self, model: Transformer | LanguageModel | None = None) -> dict[str, dict[str, float]]:
        """Return the scores on what should stay as good, if there is any."""
        kept = self.corpus.kept_good
        return {KEPT_GOOD: self.evaluate(kept, model).measurements()} if kept else {}

    def _remember(self, run: RunFolder) -> None:
        """Write the weights alone, to watch training later, unless the model is large."""
        due = self.configuration.training.remembers_at(self.step) and self.group.rank == 0
        read = backend() == "numpy" or self.step % LOG_EVERY == 0  # on a GPU only when losses are read too
        if due and read and sum(parameter.size for parameter in self.model.parameters()) <= MOST_REMEMBERED:
            state = State(step=self.step, provenance=self.provenance).flat()
            run.remember(Checkpoint(weights_to_save(self.model), {}, {}, state))

    def _save(self, run: RunFolder) -> None:
        self._losses.read(self.step)
        self._check_weights()
        checkpoint = self.checkpoint()  # every process has a part of it
        self.group.broadcast(lambda: run.save(checkpoint, self.configuration.training))

    def _check_weights(self) -> None:
        for name, values in (("weight", self.optimiser.values), ("mean squared gradient", self.optimiser.mean_square)):
            if not all(self.group.all_gather(bool(xp.isfinite(values).all()))):
                raise Diverged(f"a {name} is not a finite number after step {self.step}")

    def _log(self, run: RunFolder, **values: float) -> None:
        if self.group.rank == 0:
            run.measurements.append({"step": self.step, **values, "seconds": round(self.seconds, 3)})

    def _fixed(self) -> dict[str, Array]:
        """Return the weights that checkpoints do not hold: with LoRA, those that are not trained."""
        of_start = self.configuration.training.lora is not None
        return {name: p.data for name, p in self.model.named_parameters() if of_start and not p.requires_grad}

    def merged(self) -> Transformer | LanguageModel:
        """Return the model to measure, which with LoRA is one with merged weights."""
        if self.configuration.training.lora is None:
            return self.model
        state = {name: p.data for name, p in self.model.named_parameters()}
        merged = merge(state, self.configuration.training.alpha)
        return open_model(self.configuration, self.source, self.target, merged)

    def evaluate(
        self, held_out: list[tuple[str, str]] | str, model: Transformer | LanguageModel | None = None
    ) -> Scores | TextScores:
        """Measure the model, or another with its tokens, on pairs of texts, greedily, or on one text."""
        model = model or self.merged()
        if isinstance(model, LanguageModel) or isinstance(held_out, str):
            assert isinstance(model, LanguageModel)
            assert isinstance(held_out, str)
            return evaluate_text(model, self.target, held_out, self.configuration.data.window, self.group)
        measures, tokenize = self.task.measures, self.configuration.data.bleu_tokenize
        rules = self.configuration.search
        return evaluate(
            model, self.source, self.target, held_out, measures, bleu_tokenize=tokenize, group=self.group, rules=rules
        )

    def checkpoint(self) -> Checkpoint:
        """Return all that is needed to resume here, and the mean of the weights so far, on the host."""
        state = TrainingState(
            step=self.step,
            seconds=self.seconds,
            tokens=self.tokens,
            losses=self._losses.read(self.step),
            averaged=self.weight_average.steps,
            best=self.best,
            waited=self.waited,
            regular=self.configuration.training.saves_regularly_at(self.step),
            dropout=self.model.rng.bit_generator.state,
            provenance=self.provenance,
        )
        mean = self.weight_average.state_dict(self.model, self.group)
        return Checkpoint(weights_to_save(self.model), self._whole_optimiser(), mean, state.flat())

    def restore(self, checkpoint: Checkpoint) -> None:
        """Return to a checkpoint's state; training then continues as it did, to the bit.

        Raises
        ------
        RunError
            If the checkpoint is of another model or incomplete, or its mean of weights cannot become that of the last
            steps.
        """
        c = self.configuration.training
        state = read_training_state(checkpoint, c)
        where = f"{checkpoint.path}: " if checkpoint.path else ""
        before = f"{where}the checkpoint does not belong to this configuration: "
        with refusing((ValueError, KeyError, TypeError, OverflowError), before):
            self.weight_average.load_state_dict(self.model, checkpoint.mean, state.averaged)
            self.model.load_state_dict(self._fixed() | checkpoint.model)
            self.optimiser.load_state_dict(checkpoint.optimiser)
            if self.optimiser.step_count != state.step:
                raise ValueError(
                    f"found step={state.step}, but step_count={self.optimiser.step_count} in the optimiser"
                )
            self.model.rng.bit_generator.state = state.dropout
            if self.model.rng.bit_generator.state != state.dropout:
                raise ValueError("dropout is not a valid PCG64 state: the checkpoint is damaged")
        self.step, self.seconds, self.tokens = state.step, state.seconds, state.tokens
        self.waited, self._losses = state.waited, Losses(state.losses)
        if not c.averaged_at(self.step):  # steps were added, so the last ones are still to come
            self.weight_average.clear()
        self.best = None if state.best is None else Best(state.best[0], int(state.best[1]))
