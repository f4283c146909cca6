"""One attention map: checked, drawn, labelled. Shared by the grid of maps and the single large one."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from minitransformer.apps.plots.colours import ATTENTION
from minitransformer.apps.plots.fonts import Face

FRAME = "0.6"


def check_weights(name: str, weights: NDArray[Any], shape: tuple[int | None, ...], meaning: str) -> NDArray[Any]:
    """Return attention weights as an array; refuse a wrong shape, or weights that are not numbers from 0 to 1.

    `name` and `meaning`, the expected shape in words, are for the message; None in `shape` stands for any length but 0.
    """
    weights = np.asarray(weights)
    fits = weights.ndim == len(shape) and all(
        want in (None, have) for have, want in zip(weights.shape, shape, strict=True)
    )
    if not fits:
        expected = "(" + ", ".join("any" if n is None else str(n) for n in shape) + ")"
        raise ValueError(
            f"{name}: found shape {weights.shape}, expected {expected}, that is {meaning}. "
            "Pass the tokens that the model read, with the end mark if it read one."
        )
    if weights.size == 0:
        raise ValueError(f"{name}: found shape {weights.shape}, which is empty; there is nothing to draw.")
    low, high = float(weights.min()), float(weights.max())
    # Weights in half precision may pass 1 by a rounding; NaN fails both comparisons.
    if not (low >= 0 and high <= 1.001):
        raise ValueError(
            f"{name}: found weights from {low:g} to {high:g}, expected 0 to 1. Pass weights after softmax, not scores."
        )
    return weights


def text_inches(labels: Sequence[str], size: float, face: Face, **options: Any) -> tuple[float, float]:
    """Return the greatest width and the greatest height of some labels, in inches."""
    figure = plain_figure(1, 1)
    texts = [figure.text(0, 0, label, size=size, **face.options, **options) for label in {*labels}]
    boxes = [text.get_window_extent() for text in texts]
    width, height = max(box.width for box in boxes), max(box.height for box in boxes)
    return width / figure.dpi, height / figure.dpi


def plain_figure(width: float, height: float) -> Figure:
    """Return a figure of a size in inches whose axes keep their places, whatever the style."""
    figure = Figure(figsize=(width, height))
    figure.set_layout_engine("none")
    return figure


def axes_at(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Add axes to a figure at a place in inches, measured from the upper left corner."""
    across, down = figure.get_size_inches()
    return figure.add_axes((left / across, 1 - (top + height) / down, width / across, height / down))


def text_at(figure: Figure, left: float, top: float, text: str, **options: Any) -> None:
    """Write text on a figure; its upper left corner is at a place in inches from the figure's upper left corner."""
    across, down = figure.get_size_inches()
    figure.text(left / across, 1 - top / down, text, va="top", **options)


def draw(axes: Axes, weights: NDArray[Any]) -> AxesImage:
    """Draw one map of weights (Tq, Tk), without labels; return the image, from which a colour bar can be made."""
    image = axes.imshow(weights, cmap=ATTENTION, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set(color=FRAME, linewidth=0.5)
    return image


def name_rows(axes: Axes, labels: Sequence[str], cell: float, size: float, face: Face) -> None:
    """Name the rows of a map; every second or third where cells (in inches) are narrower than a line of text."""
    shown = range(0, len(labels), math.ceil(1.2 * size / (72 * cell)))
    axes.set_yticks(shown, [labels[i] for i in shown], **face.options)


def name_columns(axes: Axes, labels: Sequence[str], cell: float, size: float, face: Face, rotation: float) -> None:
    """Name the columns of a map, as `name_rows` does the rows; single characters are not rotated."""
    shown = range(0, len(labels), math.ceil(1.2 * size / (72 * cell)))
    axes.set_xticks(shown, [labels[i] for i in shown], **face.options)
    for text in axes.get_xticklabels():
        if len(text.get_text()) > 1:
            text.set(rotation=rotation)
            if 0 < rotation < 90:
                text.set(rotation_mode="anchor", ha="left")


def colour_bar(figure: Figure, image: AxesImage, axes: Axes, size: float) -> None:
    """Fill axes with the scale of a map, from 0 to 1."""
    bar = figure.colorbar(image, cax=axes)
    bar.ax.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
    bar.ax.tick_params(labelsize=size, length=2, color=FRAME)
    bar.set_label("attention weight", size=size)
    bar.outline.set(edgecolor=FRAME, linewidth=0.5)
