"""The options of training."""

from __future__ import annotations

from dataclasses import dataclass

from minitransformer.console import counted
from minitransformer.options import OptionError, Options, option

LENGTHS = ("steps", "epochs", "minutes")
"""The options that set the length of training; one of them is used."""
COUNTED_IN_STEPS = ("warmup_steps", "average_last", "evaluate_every", "save_every")
"""The options that scale with the number of steps if it changes."""
MOST = 1_000_000
"""The maximum of epochs or minutes; this many minutes are two years."""
HISTORY = 20
"""At how many steps, or up to twice as many, the weights are kept to look at."""
MOST_WORKERS = 1024
"""The maximum of micro-batches, workers and BLAS threads."""


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(Options):
    """The options of training.

    Raises
    ------
    OptionError
        If a value is out of its range, a linear schedule ends before its warm-up, or two lengths are given.
    """

    steps: int = option(900, "training steps", at_least=1, common=True, editable=True)
    epochs: float | None = option(
        None, "passes over all pairs, instead of --steps (default: off)",
        above=0, at_most=MOST, common=True, added=True,
    )  # fmt: skip
    minutes: float | None = option(
        None,
        "about how long to train on this computer, instead of --steps: the number of steps is fixed after a few timed "
        "trial steps (default: off)",
        above=0,
        at_most=MOST,
        common=True,
        added=True,
    )
    batch_tokens: int = option(2048, "maximum number of tokens on each side of a batch, padding included", at_least=1)
    accumulate: int = option(1, "batches per step; their gradients are added", at_least=1)
    label_smoothing: float = option(
        0.1, "share of the target probability that is spread over all tokens, section 5.4", at_least=0, below=1
    )
    schedule: str = option(
        "warmup",
        "schedule of the learning rate: warmup, as in section 5.3; inverse_sqrt, given by its peak; or linear, from "
        "its peak to zero",
        choices=("warmup", "inverse_sqrt", "linear"),
    )
    warmup_steps: int = option(250, "steps during which the learning rate rises, section 5.3", at_least=1)
    learning_rate_factor: float = option(
        0.6, "factor of the learning rate of section 5.3, with --schedule warmup", above=0, common=True
    )
    peak: float = option(0.001, "peak learning rate, for the schedules inverse_sqrt and linear", above=0, common=True)
    clip: float | None = option(
        None, "maximum norm of the gradient; a larger one is scaled down (default: off)", above=0
    )
    weight_decay: float = option(
        0.0,
        "decoupled weight decay: each step subtracts this share of a weight, times the learning rate; not for biases "
        "and gains",
        at_least=0,
        added=True,
    )
    average_last: int = option(
        300, "translate with the mean of the weights over this many last steps, section 6.1 (1: off)", at_least=1,
        editable=True,
    )  # fmt: skip
    evaluate_every: int = option(150, "steps between measurements on held-out pairs", at_least=1, editable=True)
    save_every: int | None = option(
        None, "steps between checkpoints (default: as --evaluate-every)", at_least=1, editable=True
    )
    keep: int = option(2, "checkpoints to keep, besides the best weights", at_least=1, editable=True)
    best_by: str = option(
        "loss", "score on held-out pairs that chooses the best weights", choices=("loss", "exact_match", "bleu")
    )
    patience: int | None = option(
        None, "stop after this many measurements without improvement (default: off)", at_least=1, editable=True
    )
    freeze: str | None = option(
        None, "parts to freeze, separated by commas: embeddings, encoder, decoder.layers.0, ... "
        "(default: none)", added=True,
    )  # fmt: skip
    lora: int | None = option(
        None, "with --from: LoRA, which trains two small matrices of this rank beside each fixed matrix (default: off, "
        "the weights are trained)", at_least=1, added=True,
    )  # fmt: skip
    lora_alpha: float | None = option(
        None, "with --lora: α, the scale of the product of the small matrices (default: the rank)", above=0, added=True
    )
    lora_on: str = option(
        "attention", "with --lora: the parts of each layer that get small matrices",
        choices=("attention", "feed_forward", "all"), added=True,
    )  # fmt: skip
    loss_block: int | None = option(
        None,
        "target positions whose logits and loss are computed at a time; fewer save memory with a large vocabulary, the "
        "number affects rounding (default: all)",
        at_least=1, added=True, editable=True,
    )  # fmt: skip
    micro_batches: int | None = option(
        None,
        "parts that each batch is cut into; their gradients are added, and their number affects rounding (default: one "
        "for each process)",
        at_least=1,
        at_most=MOST_WORKERS,
        added=True,
    )
    workers: int | None = option(
        None,
        "processes that work on the micro-batches of each batch, where the system can fork safely; their number "
        "changes the speed only (default: one for each core)",
        at_least=1,
        at_most=MOST_WORKERS,
        editable=True,
    )
    blas_threads: int | None = option(
        None,
        "threads of each matrix product; the number affects rounding (default: the cores, divided among the "
        "micro-batches)",
        at_least=1,
        at_most=MOST_WORKERS,
        added=True,
        editable=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epochs is not None and self.minutes is not None:
            raise OptionError("epochs and minutes both set the length of training; leave one out", "epochs", "minutes")
        if self.length == "steps" and self.schedule == "linear" and self.warmup_steps > self.steps:
            raise OptionError(
                "warmup_steps must be at most steps with the linear schedule, "
                f"found {self.warmup_steps} and {self.steps}; set both",
                "warmup_steps",
                "steps",
            )

    @property
    def alpha(self) -> float:
        """α of LoRA."""
        return self.lora_alpha or self.lora or 0

    @property
    def length(self) -> str:
        """The option that sets the length of training: "steps", "epochs" or "minutes"."""
        return next((name for name in ("epochs", "minutes") if getattr(self, name) is not None), "steps")

    def __str__(self) -> str:
        several = f"{self.accumulate} times " if self.accumulate > 1 else ""
        return (
            f"{counted(self.steps, 'steps')} of {several}up to {self.batch_tokens:,} tokens, "
            f"warm-up {self.warmup_steps:,}, label smoothing {self.label_smoothing}"
        )

    def ends_at(self, step: int, waited: int) -> bool:
        """Return whether training ends after a step, given the number of measurements since the best one."""
        return step >= self.steps or self.stops_early(waited)

    def stops_early(self, waited: int) -> bool:
        """Return whether training stops early, given the number of measurements since the best one."""
        return self.patience is not None and waited >= self.patience

    def remembers_at(self, step: int) -> bool:
        """Return whether the weights after a step become part of the history: at 20 steps or more."""
        return step % max(self.steps // HISTORY, 1) == 0

    def averaged_at(self, step: int) -> int:
        """Return the number of steps in the mean of the last steps' weights, as far as it goes after a step."""
        return min(max(step - self.steps + self.average_last, 0), step) if self.average_last > 1 else 0

    def saves_at(self, step: int) -> bool:
        """Return whether a checkpoint is due after a step; after the last step it always is."""
        return self.saves_regularly_at(step) or step == self.steps

    def saves_regularly_at(self, step: int) -> bool:
        """Return whether a checkpoint is due after a step, whichever step is the last."""
        return step % (self.save_every or self.evaluate_every) == 0
