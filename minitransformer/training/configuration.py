"""Everything that a training run depends on, as one value that can be written to a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from minitransformer.nn import Transformer
from minitransformer.tasks import Recipe, Task, build
from minitransformer.tasks.task import option

__all__ = ["Configuration"]


@dataclass(frozen=True, kw_only=True)
class Configuration(Recipe):
    """A task, a model and a training; each field's help text says what it is.

    Raises
    ------
    ValueError
        If a value is out of its range; the message names it.
    """

    task: str
    task_options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    d_k: int | None = option(None, "size of a head's queries and keys (default: D / H)")
    d_v: int | None = option(None, "size of a head's values (default: D / H)")
    norm: str = option("post", "layer norm after each residual connection as in the paper (post), or before (pre)")
    positions: str = option("sinusoidal", "sinusoidal or learned positions, section 3.5")
    seed: int = option(0, "seed of the data, the initial weights, the batches and dropout")
    evaluate_every: int = option(150, "steps between looks at held-out pairs, each of which also saves the run")

    def __post_init__(self) -> None:
        for name in (
            "steps",
            "warmup_steps",
            "batch_tokens",
            "train_pairs",
            "held_out",
            "average_last",
            "evaluate_every",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, found {getattr(self, name)}")
        if self.seed < 0:
            raise ValueError(f"seed must be 0 or more, found {self.seed}")
        if not self.learning_rate_factor > 0:
            raise ValueError(f"learning_rate_factor must be above 0, found {self.learning_rate_factor}")
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing must be at least 0 and below 1, found {self.label_smoothing}")

    @classmethod
    def of_task(cls, task: Task, **changes: Any) -> Configuration:
        """Return the task's own recipe with some values changed; a change of None is none."""
        values = dataclasses.asdict(task.recipe) | {k: v for k, v in changes.items() if v is not None}
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
        )

    def to_json(self) -> dict[str, Any]:
        """Return the configuration as a dictionary of plain values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Configuration:
        """Return the configuration that ``to_json`` described.

        Raises
        ------
        ValueError
            If a value is missing, unknown or of the wrong type.
        """
        hints = get_type_hints(cls)
        missing, unknown = hints.keys() - values.keys(), values.keys() - hints.keys()
        if missing or unknown:
            raise ValueError(f"missing {sorted(missing) or 'nothing'}, unknown {sorted(unknown) or 'nothing'}")
        for name, hint in hints.items():
            kinds = {int: int, float: int | float, str: str, int | None: int | None}.get(hint, Mapping)
            if not isinstance(values[name], kinds) or isinstance(values[name], bool):
                raise ValueError(f"{name} has the wrong type: {values[name]!r}")
        return cls(**values)
