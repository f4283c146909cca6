"""The configuration of a training run, as one value that can be written to a file."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from minitransformer import optim
from minitransformer.decoding import SearchOptions
from minitransformer.nn import LanguageModel, Transformer
from minitransformer.nn.options import ModelOptions
from minitransformer.options import OptionError, Options, option
from minitransformer.runs.options import COUNTED_IN_STEPS, LENGTHS, TrainingOptions
from minitransformer.tasks import DataOptions, Task, build


@dataclass(frozen=True, kw_only=True)
class Configuration(Options):
    """A task with the options of its model, its training and its data.

    Raises
    ------
    OptionError
        If a value is out of its range; the message names it.
    """

    renamed: ClassVar[Mapping[str, str]] = {"shares": "micro_batches"}

    task: str
    task_options: Mapping[str, str] = field(default_factory=dict)
    seed: int = option(0, "seed of all random numbers", at_least=0, at_most=math.inf, common=True)
    start: str | None = option(
        None, "the run whose weights training begins with (default: random weights)", path=True, flag=False, added=True,
        editable=True,
    )  # fmt: skip
    start_digest: str | None = option(
        None, "the SHA-256 checksum of the weights that training begins with", flag=False, added=True
    )
    keep_good: Sequence[str] | None = option(
        None, "with --from: text that the model should still do well on, measured before and after training: source "
        "sentences and their translations, or one text for a model that continues texts", path=True, added=True,
    )  # fmt: skip
    model: ModelOptions = field(default_factory=ModelOptions)
    training: TrainingOptions = field(default_factory=TrainingOptions)
    data: DataOptions = field(default_factory=DataOptions)
    search: SearchOptions = field(default_factory=SearchOptions)
    free: frozenset[str] = field(
        default=frozenset(),
        compare=False,
        metadata={"option": False, "help": "options that the user left open, so that others may set them"},
    )

    @classmethod
    def of_task(cls, task: Task, **changes: Any) -> Configuration:
        """Return the task's default configuration with some options changed (None: unchanged); paths become absolute.

        A task that reads a text may choose some options by the size of the text.

        Raises
        ------
        OptionError
            If a value is impossible, or more than one option sets the length of training; `ValueError` if a file cannot
            be read.
        """
        values = {name: _in_words(value) for name, value in changes.items() if value is not None}
        cls.check(values)
        if len(lengths := [name for name in LENGTHS if name in values]) > 1:
            raise OptionError(f"{' and '.join(lengths)} both set the length of training; leave one out", *lengths)
        for name, declared in cls.declarations().items():
            if declared.metadata.get("path") and name in values:
                value = values[name]
                values[name] = list(map(os.path.abspath, value)) if isinstance(value, list) else os.path.abspath(value)
        free = frozenset(cls.declarations().keys() - values.keys())
        own = cls(task=task.name, task_options=dict(task.options), free=free).changed(**task.recipe)
        if sized := task.choose_by_size(values):
            own = own.changed(**sized)
            if "steps" in values:
                return own.with_steps(**values)
        return own.changed(**own._fitting(values) | values)

    def _fitting(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return what takes the place of those defaults that are impossible beside the values of the user."""
        training, found = self.training, {}
        steps = values.get("steps", training.steps)
        if values.get("schedule", training.schedule) == "linear" and training.warmup_steps > steps:
            found["warmup_steps"] = max(1, round(training.warmup_steps * steps / training.steps))
        if self.build_task().decoder_only:
            window = values.get("window", self.data.window)
            tokens = values.get("batch_tokens", training.batch_tokens)
            found |= {"window": min(window, tokens), "batch_tokens": max(window, tokens)}
        return found

    def with_steps(self, steps: int, **values: Any) -> Configuration:
        """Return this configuration with a number of steps in place of epochs or minutes, and other changes.

        Options that are numbers of steps, such as the warm-up, scale with it unless the user gave them.
        """
        training = self.training
        scaled = {
            name: max(1, round(value * steps / training.steps))
            for name in self.free.intersection(COUNTED_IN_STEPS)
            if (value := getattr(training, name)) not in (None, 1)  # "off", or each step
        }
        changed = self.changed(steps=steps, **({"epochs": None, "minutes": None} | scaled | values))
        return replace(changed, free=self.free - {"steps"})

    def build_task(self) -> Task:
        """Return the task."""
        return build(self.task, **self.task_options)

    def build_model(
        self, source_vocab: int, target_vocab: int, shared: bool, init_weights: bool = True
    ) -> Transformer | LanguageModel:
        """Return the model with its initial weights: a decoder alone if the task needs no more.

        Parameters
        ----------
        source_vocab, target_vocab : int
            The numbers of tokens.
        shared : bool
            Whether both sides share one vocabulary. If not, only the target embedding and the softmax can share their
            weights.
        init_weights : bool
            Whether to draw the initial weights; see `Transformer`.
        """
        if self.build_task().decoder_only:
            options = self.model.changed(max_length=max(self.model.max_length, self.data.window))
            return LanguageModel(target_vocab, options, seed=self.seed, init_weights=init_weights)
        return self.build_transformer(source_vocab, target_vocab, shared, init_weights)

    def build_transformer(
        self, source_vocab: int, target_vocab: int, shared: bool, init_weights: bool = True
    ) -> Transformer:
        """Return a model that translates; the parameters are those of ``build_model``."""
        share = self.model.share_embeddings
        options = self.model.changed(
            share_embeddings="target" if share is True and not shared else share,
            max_length=max(self.model.max_length, self.data.longest + 1),
        )
        return Transformer(source_vocab, target_vocab, options, seed=self.seed, init_weights=init_weights)

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of a step; the first step is 1."""
        t = self.training
        if t.schedule == "inverse_sqrt":
            return optim.inverse_square_root(step, t.peak, t.warmup_steps)
        if t.schedule == "linear":
            return optim.linear_decay(step, t.peak, t.warmup_steps, t.steps)
        return t.learning_rate_factor * optim.warmup(step, self.model.d_model, t.warmup_steps)

    def why_ignored(self, name: str) -> str | None:
        """Return why an option has no effect, if another option's value is the reason."""
        schedule = self.training.schedule
        if name == "peak" and schedule == "warmup":
            return "the schedule warmup computes the peak from d_model; use learning_rate_factor or another schedule"
        if name == "learning_rate_factor" and schedule != "warmup":
            return f"the schedule {schedule} uses peak instead"
        if name in ("lora_alpha", "lora_on") and self.training.lora is None:
            return "LoRA is off (lora sets its rank)"
        if name == "keep_good" and self.start is None:
            return "it needs --from RUN, a model to train further"
        if name == "held_out" and self.data.valid_source is not None:
            return "valid_source is measured at the end"
        if name == "held_out" and self.data.data is not None:
            return "the test set in data is measured at the end"
        return None

    @classmethod
    def from_flat(cls, values: object) -> Configuration:
        """Return the configuration of a flat table; see `Options.from_flat`.

        Raises
        ------
        ValueError
            If a value is missing, unknown or impossible, or there is no such task.
        """
        configuration = super().from_flat(values)
        if configuration.training.micro_batches is None:  # as in runs of earlier versions
            configuration = configuration.changed(micro_batches=configuration.training.workers)
        if (length := configuration.training.length) != "steps":
            raise ValueError(f"found {length}, expected steps=N; epochs and minutes are resolved when a run starts")
        configuration.build_task()
        return configuration

    def fixed(self) -> dict[str, Any]:
        """Return the values by name that may not be edited once a training has begun."""
        declarations = self.declarations()
        return {name: value for name, value in self.flat().items() if not declarations[name].metadata.get("editable")}


def _in_words(value: Any) -> Any:
    """Return a path as text, and several as a list of texts; any other value as it is."""
    if isinstance(value, list | tuple):
        return [_in_words(one) for one in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value
