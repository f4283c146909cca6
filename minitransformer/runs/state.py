"""The training state in a checkpoint's metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from minitransformer.options import OptionError, Options, option


@dataclass(frozen=True, kw_only=True)
class State(Options):
    """The state in every checkpoint; the file of the best weights records their scores as well."""

    step: int = option(0, "training steps so far", at_least=0)
    provenance: Mapping[str, object] | None = option(None, "what the weights were trained with", added=True)


@dataclass(frozen=True, kw_only=True)
class AverageState(State):
    """The state of the mean of several checkpoints.

    Raises
    ------
    OptionError
        If a value has the wrong type, or the last entry of ``steps`` is not ``step``.
    """

    steps: Sequence[int] = option((), "the steps of the checkpoints")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.steps or self.steps[-1] != self.step:
            raise OptionError(f"steps must end with step {self.step}, found {list(self.steps)}", "steps")


@dataclass(frozen=True, kw_only=True)
class TrainingState(State):
    """The state of a training run; together with weights and optimiser state, all that is needed to resume.

    Raises
    ------
    OptionError
        If a value has the wrong type or is out of its range, or two of them contradict each other.
    """

    seconds: float = option(0.0, "time spent training, evaluations included", at_least=0)
    tokens: int = option(0, "target tokens trained on", at_least=0)
    losses: Sequence[float] = option((), "losses since the last line of the log")
    averaged: int = option(0, "steps whose weights are averaged", at_least=0)
    best: Sequence[float] | None = option(None, "value and step of the best measurement")
    waited: int = option(0, "measurements since the best", at_least=0)
    regular: bool | None = option(None, "whether a checkpoint was due at this step", added=True)
    dropout: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.best is not None and (len(self.best) != 2 or self.best[1] not in range(self.step + 1)):
            raise OptionError(f"best must be a value and a step up to {self.step}, found {list(self.best)}", "best")
        for name in ("averaged", "waited"):
            if getattr(self, name) > self.step:
                raise OptionError(f"{name} must be at most step {self.step}, found {getattr(self, name)}", name)
        if len(self.losses) > self.step:
            words = f"losses must hold at most {self.step}, one for each step, found {len(self.losses)}"
            raise OptionError(f"{words}; keep the last {self.step}", "losses")
