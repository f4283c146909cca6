"""One attention map between two sentences, large enough to read the order of their words from."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from minitransformer.apps.plots.colours import FAINT
from minitransformer.apps.plots.fonts import face_for
from minitransformer.apps.plots.heatmap import (
    axes_at,
    check_weights,
    colour_bar,
    draw,
    name_columns,
    name_rows,
    plain_figure,
    text_at,
    text_inches,
)
from minitransformer.apps.plots.saving import save

CAPTION = "dot: strongest in its row"


def attention_map(
    weights: NDArray[Any], source: Sequence[str], target: Sequence[str], path: Path | str, title: str = ""
) -> None:
    """Draw one map between a source and a target sentence, large enough to read the order of words from.

    The strongest source token of each target token bears a dot, unless several are equally strong. Where
    the dots leave the diagonal, the two languages order their words differently.

    Parameters
    ----------
    weights : NDArray
        Attention weights of shape (Tq, Tk), for one head or the mean of several.
    source : sequence of str
        The Tk source tokens, drawn along the top.
    target : sequence of str
        The Tq target tokens, drawn down the side.
    path : Path or str
        The file to write.
    title : str, default: ""
        A heading.

    Raises
    ------
    ValueError
        If the shape does not fit the tokens, or a weight is outside 0..1.
    """
    save(map_figure(weights, source, target, title), path, dpi=200)


def map_figure(weights: NDArray[Any], source: Sequence[str], target: Sequence[str], title: str = "") -> Figure:
    """Make the figure that `attention_map` writes, with the same parameters but the path.

    The axes are the map and the colour bar.
    """
    meaning = "(target tokens, source tokens)"
    weights = check_weights("attention_map", weights, (len(target), len(source)), meaning)
    face = face_for([*source, *target, title])
    keys, queries = [face.token(t) for t in source], [face.token(t) for t in target]
    cell = min(0.46, 9 / max(len(keys), len(queries)))
    size = max(5.0, min(12.0, 0.6 * 72 * cell))
    turn = 0 if text_inches(keys, size, face)[0] < 0.9 * cell else 45
    # All lengths are inches.
    lean, above = text_inches(keys, size, face, rotation=turn)
    left = 0.5 + text_inches(queries, size, face)[0]
    top = 0.4 + above + (0.34 if title else 0)
    wide, high = len(keys) * cell, len(queries) * cell
    # The last label may lean out over the right edge; the colour bar stands below it.
    right = left + wide + max(0.85, lean - cell / 2)
    widths = (text_inches([face.readable(title)], 14, face)[0], text_inches([CAPTION], 8, face)[0])
    figure = plain_figure(max(right, 0.3 + 1.05 * widths[0], left + widths[1] + 0.12), top + high + 0.36)
    if title:
        text_at(figure, 0.12, 0.12, face.readable(title), size=14, **face.options)

    axes = axes_at(figure, left, top, wide, high)
    image = draw(axes, weights)
    axes.tick_params(length=0, pad=4, labelsize=size, labeltop=True, labelbottom=False)
    name_columns(axes, keys, cell, size, face, rotation=turn)
    name_rows(axes, queries, cell, size, face)
    axes.set_xlabel("source", size=9, color=FAINT)
    axes.xaxis.set_label_coords(0.5, 1 + (above + 0.25) / high)
    axes.set_ylabel("target", size=9, color=FAINT)
    axes.yaxis.set_label_coords((0.25 - left) / wide, 0.5)
    _mark_strongest(axes, weights, cell)
    text_at(figure, left, top + high + 0.1, CAPTION, size=8, color=FAINT, **face.options)
    colour_bar(figure, image, axes_at(figure, left + wide + 0.18, top, 0.12, min(high, 2.0)), size=8)
    return figure


def _mark_strongest(axes: Axes, weights: NDArray[Any], cell: float) -> None:
    """Put a dot on the greatest weight of each row, unless another equals it."""
    for row, values in enumerate(weights):
        (strongest,) = np.nonzero(values == values.max())
        if len(strongest) == 1:
            colour = "white" if values.max() > 0.55 else "black"
            axes.plot(strongest[0], row, "o", color=colour, markersize=0.14 * 72 * cell, markeredgewidth=0)
