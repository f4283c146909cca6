"""The error of finite differences over their step size."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from minitransformer.apps.plots.colours import BLUE, GREEN, PURPLE, RED
from minitransformer.apps.plots.saving import save

EPSILON = float(np.finfo(np.float64).eps)
SLOPES = {"central": 2, "extrapolated": 4}
"""The power of h with which the truncation error of a method grows."""


def step_sizes(
    steps: NDArray[Any], errors: Mapping[str, NDArray[Any]], path: Path | str, title: str = "", epsilon: float = EPSILON
) -> None:
    """Draw errors over step sizes, on logarithmic axes, into a PNG.

    Parameters
    ----------
    steps : array, shape (n,)
        The step sizes.
    errors : mapping of str to array, shape (n,)
        The relative errors of each method, by its name; ``"central"`` and ``"extrapolated"`` get a line with the slope
        of their truncation error.
    path : Path or str
        The file to write.
    title : str
        A heading.
    epsilon : float
        The precision of the numbers: by default that of float64.
    """
    floor = epsilon / 8  # an error of exactly 0 has no place on a logarithmic axis
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.add_subplot()
    for (method, error), colour in zip(errors.items(), (BLUE, RED, GREEN, PURPLE), strict=False):
        shown = np.maximum(error, floor)
        axes.loglog(steps, shown, "o-", color=colour, markersize=3, linewidth=1.2, label=method)
        best = int(shown.argmin())
        # A linear function has no truncation, and the error of a wrong gradient does not fall.
        if method in SLOPES and best < len(steps) - 2 and shown[best] < 0.1 * shown[-1]:
            # The line of the theory, through the point where truncation clearly rules.
            anchor = best + max(1, (len(steps) - 1 - best) // 2)
            right = slice(best, len(steps))
            power = SLOPES[method]
            theory = shown[anchor] * (steps[right] / steps[anchor]) ** power
            axes.loglog(steps[right], theory, "--", color=colour, linewidth=0.8, label=f"truncation, slope {power}")
    rounding = epsilon / steps
    axes.loglog(steps, rounding, ":", color="0.4", linewidth=1, label="rounding, ε / h")
    axes.set_ylim(floor / 2, 10)
    axes.set_xlabel("step h")
    axes.set_ylabel("largest difference from the backward pass, relative")
    axes.set_title(f"{title}: where truncation meets rounding" if title else "Where truncation meets rounding")
    axes.grid(True, which="major", linewidth=0.4, alpha=0.5)
    axes.legend(fontsize=8, loc="upper center", ncols=2)
    save(figure, path, dpi=150)
