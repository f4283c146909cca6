"""Everything that a training run depends on, as one value that can be written to a file."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from minitransformer.nn import Transformer
from minitransformer.optim import inverse_square_root, linear, warmup
from minitransformer.tasks import PATHS, Recipe, Task, build

__all__ = ["Configuration"]

CHOICES = {"schedule": ("warmup", "inverse_sqrt", "linear"), "best_by": ("loss", "exact_match", "bleu")}
AT_LEAST_1 = (
    "steps",
    "warmup_steps",
    "batch_tokens",
    "accumulate",
    "train_pairs",
    "held_out",
    "valid_pairs",
    "average_last",
    "evaluate_every",
    "save_every",
    "keep",
    "patience",
    "longest",
    "workers",
    "attention_block",
)
LATER = {"weight_decay": 0.0}
"""Values that runs of earlier versions do not name, as they were then."""


@dataclass(frozen=True, kw_only=True)
class Configuration(Recipe):
    """A task with its recipe; the recipe's fields say what each value is.

    Raises
    ------
    ValueError
        If a value is out of its range; the message names it.
    """

    task: str
    task_options: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in AT_LEAST_1:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, found {value}")
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}, found {getattr(self, name)!r}")
        if self.seed < 0:
            raise ValueError(f"seed must be 0 or more, found {self.seed}")
        for name in ("learning_rate_factor", "peak", "clip"):
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name} must be above 0 and finite, found {value}")
        if not (self.weight_decay >= 0 and math.isfinite(self.weight_decay)):
            raise ValueError(f"weight_decay must be 0 or more and finite, found {self.weight_decay}")
        if self.schedule == "linear" and self.warmup_steps > self.steps:
            raise ValueError(
                "warmup_steps must be at most steps with the linear schedule, "
                f"found {self.warmup_steps} and {self.steps}"
            )
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing must be at least 0 and below 1, found {self.label_smoothing}")

    @classmethod
    def of_task(cls, task: Task, **changes: Any) -> Configuration:
        """Return the task's own recipe with some values changed (None changes none); paths become absolute."""
        values = dataclasses.asdict(task.recipe) | {k: v for k, v in changes.items() if v is not None}
        for name in PATHS:
            if values[name] is not None:
                values[name] = os.path.abspath(values[name])
        return cls(task=task.name, task_options=dict(task.options), **values)

    def build_task(self) -> Task:
        """Return the task."""
        return build(self.task, **self.task_options)

    def build_model(self, source_vocab: int, target_vocab: int, shared: bool) -> Transformer:
        """Return the model with its initial weights.

        Parameters
        ----------
        source_vocab, target_vocab : int
            The numbers of tokens.
        shared : bool
            Whether the vocabularies are one; then all embeddings are one, else target embedding and softmax are.
        """
        return Transformer(
            source_vocab,
            target_vocab,
            d_model=self.d_model,
            n_heads=self.n_heads,
            n_layers=self.n_layers,
            d_ff=self.d_ff,
            dropout=self.dropout,
            d_k=self.d_k,
            d_v=self.d_v,
            norm=self.norm,
            positions=self.positions,
            share_embeddings=True if shared else "target",
            seed=self.seed,
            max_length=max(512, self.longest + 1),
            attention_block=self.attention_block,
            recompute=self.recompute,
        )

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of a step, from 1."""
        if self.schedule == "inverse_sqrt":
            return inverse_square_root(step, self.peak, self.warmup_steps)
        if self.schedule == "linear":
            return linear(step, self.peak, self.warmup_steps, self.steps)
        return self.learning_rate_factor * warmup(step, self.d_model, self.warmup_steps)

    def ignored(self, name: str) -> str | None:
        """Return why a field has no effect, if another field's value is the reason."""
        if name == "peak" and self.schedule == "warmup":
            return "the rate of the schedule warmup follows from d_model; use learning_rate_factor, or another schedule"
        if name == "learning_rate_factor" and self.schedule != "warmup":
            return f"the schedule {self.schedule} is told by its peak"
        if name == "held_out" and self.valid_source is not None:
            return "what is measured at the end is valid_source"
        if name == "held_out" and self.data is not None:
            return "what is measured at the end is the test of the data"
        return None

    def saves_at(self, step: int) -> bool:
        """Tell whether a checkpoint is due after a step; the last step's always is."""
        return step % (self.save_every or self.evaluate_every) == 0 or step == self.steps

    def to_json(self) -> dict[str, Any]:
        """Return the configuration as a dictionary of plain values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Configuration:
        """Return the configuration that ``to_json`` described.

        Raises
        ------
        ValueError
            If a value is missing, unknown or of the wrong type, or there is no such task.
        """
        hints = get_type_hints(cls)
        values = {**LATER, **values}
        missing = hints.keys() - values.keys()
        if missing:
            raise ValueError(f"missing {sorted(missing)}")
        cls.check_types(values)
        configuration = cls(**values)
        configuration.build_task()
        return configuration

    @classmethod
    def check_types(cls, values: Mapping[str, Any]) -> None:
        """Check some of a configuration's values, as read from a file.

        Raises
        ------
        ValueError
            If a name is unknown or a value is of the wrong type.
        """
        hints = get_type_hints(cls)
        if unknown := values.keys() - hints.keys():
            raise ValueError(f"unknown {sorted(unknown)}; a configuration has {', '.join(sorted(hints))}")
        for name, value in values.items():
            if not _fits(value, hints[name]):
                raise ValueError(f"{name} has the wrong type: {value!r}")


def _fits(value: Any, hint: Any) -> bool:
    if isinstance(hint, UnionType):
        return any(_fits(value, one) for one in get_args(hint))
    if get_origin(hint) is Mapping:
        return isinstance(value, Mapping) and all(isinstance(x, str) for pair in value.items() for x in pair)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, get_origin(hint) or hint)
