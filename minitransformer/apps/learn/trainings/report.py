"""One training with a learner's functions, and its result in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

from minitransformer.apps.learn.answers import load_answers
from minitransformer.apps.learn.bank import find
from minitransformer.apps.learn.referee import explain
from minitransformer.apps.learn.trainings.engine import ENGINE, Compared
from minitransformer.apps.learn.trainings.training import Functions, Training
from minitransformer.apps.learn.verdict import Wrong

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
                f"your functions      {loss:10.4g}    {self.seconds:7.2f}",
                f"the engine's own    {engine:10.4g}    {self.engine_seconds:7.2f}",
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


def train(kind: type[Training], functions: Functions, steps: Iterable[int]) -> tuple[str, str, list[float], float]:
    """Return what a model shows before and after its training, the loss of each step, and the seconds."""
    model = kind(functions)
    before, start = model.show(), perf_counter()
    losses = [model.step() for _ in steps]
    return before, model.show(), losses, perf_counter() - start


def train_with_answers(
    kind: type[Training], folder: Path, track: Callable[[range], Iterable[int]] = iter, steps: int | None = None
) -> Report:
    """Train with the functions in a learner's folder, then with the engine's.

    Parameters
    ----------
    kind : type
        Which training.
    folder : Path
        The folder of the learner's files.
    track : callable
        Gets the steps of the learner's training and yields them, to draw a progress bar.
    steps : int, optional
        How many, if not the training's own number.

    Raises
    ------
    Missing
        If a function that the training uses cannot be loaded.
    Disagreement
        If one does not agree with the engine's on the first batch.
    Wrong
        If one fails later.
    """
    functions = load_answers(folder, kind.uses)
    compare(kind, functions)
    numbers = range(steps or kind.steps)
    try:
        before, after, losses, seconds = train(kind, functions, track(numbers))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a learner's code may raise, sys.exit() too
        raise Wrong(explain(error, {str(folder / find(name).file) for name in kind.uses}).words) from error
    _, _, engine_losses, engine_seconds = train(kind, ENGINE, numbers)
    return Report(before, after, losses, engine_losses, seconds, engine_seconds)


def draw_curve(losses: list[float]) -> list[str]:
    """Return the lines of a loss curve, in which a column is the mean over some steps.

    The axis begins at 0, or is logarithmic if the loss falls to less than a thousandth.
    """
    heights = np.array([part.mean() for part in np.array_split(np.array(losses), min(WIDTH, len(losses)))])
    bottom, top = 0.0, float(heights.max()) or 1.0
    logarithmic = 0 < heights.min() < top / 1000
    if logarithmic:
        heights, bottom, top = np.log10(heights), float(np.log10(heights.min())), float(np.log10(top))
    rows = np.ceil((heights - bottom) / (top - bottom) * HEIGHT).clip(1)
    lines = []
    for row in range(HEIGHT, -1, -1):
        value = bottom + row / HEIGHT * (top - bottom)
        label = f"{10**value if logarithmic else value:8.3g}" if row % (HEIGHT // 2) == 0 else " " * 8
        marks = "".join("*" if one == row else " " for one in rows)
        lines.append(f"{label} | {marks}".rstrip() if row else f"{label} +-{'-' * len(rows)}")
    axis = " (logarithmic)" if logarithmic else ""
    return [*lines, f"    loss{axis}, steps 1 to {len(losses)}"]
