"""One training with a learner's functions, and what came of it in words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

from minitransformer.learn.answers import load_answers
from minitransformer.learn.trainings.engine import ENGINE, Compared
from minitransformer.learn.trainings.training import Functions, Training

__all__ = ["Report", "compare", "train", "train_with_answers"]

WIDTH, HEIGHT = 60, 8


@dataclass(frozen=True)
class Report:
    """What came of a training with a learner's functions, and of the same one with the engine's."""

    before: str
    after: str
    losses: list[float]
    engine_losses: list[float]
    seconds: float
    engine_seconds: float

    def format(self) -> str:
        """Return the text to print."""
        n, loss, engine = len(self.losses), self.losses[-1], self.engine_losses[-1]
        return "\n".join(
            [
                *draw_curve(self.losses),
                "",
                f"before  {self.before}",
                f"after   {self.after}",
                "",
                f"                     last loss    seconds for {n} steps",
                f"your functions      {loss:10.6f}    {self.seconds:7.2f}",
                f"the engine's own    {engine:10.6f}    {self.engine_seconds:7.2f}",
            ]
        )


def compare(kind: type[Training], functions: Functions) -> None:
    """Compare each function with the engine's own, on the first batch of a training.

    Raises
    ------
    Disagreement
        If one disagrees.
    """
    model = kind(Compared(functions))
    model.show()
    model.step()


def train(kind: type[Training], functions: Functions, steps: int) -> tuple[str, str, list[float], float]:
    """Return what a model shows before and after its training, the loss of each step, and the seconds."""
    model = kind(functions)
    before, start = model.show(), perf_counter()
    losses = [model.step() for _ in range(steps)]
    return before, model.show(), losses, perf_counter() - start


def train_with_answers(kind: type[Training], folder: Path, steps: int | None = None) -> Report:
    """Train with the functions in a learner's folder.

    Raises
    ------
    Missing
        If a function that the training uses cannot be loaded.
    Disagreement
        If one does not agree with the engine's.
    """
    functions = load_answers(folder, kind.uses)
    compare(kind, functions)
    steps = steps or kind.steps
    before, after, losses, seconds = train(kind, functions, steps)
    _, _, engine_losses, engine_seconds = train(kind, ENGINE, steps)
    return Report(before, after, losses, engine_losses, seconds, engine_seconds)


def draw_curve(losses: list[float]) -> list[str]:
    """Return the lines of a loss curve: each column is the mean over some steps."""
    means = np.array([part.mean() for part in np.array_split(np.array(losses), min(WIDTH, len(losses)))])
    top = float(means.max(initial=0, where=np.isfinite(means))) or 1.0
    rows = []
    for level in range(HEIGHT, 0, -1):
        label = f"{top * level / HEIGHT:7.3f}" if level in (HEIGHT, HEIGHT // 2) else " " * 7
        below, above = (level - 1) / HEIGHT, level / HEIGHT
        marks = "".join("*" if below < mean / top <= above else " " for mean in means)
        rows.append(f"{label} | {marks}".rstrip())
    return [*rows, f"  0.000 +-{'-' * len(means)}", f"  loss    step 1 to {len(losses)}"]
