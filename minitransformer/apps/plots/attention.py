"""Attention maps: the grid of all heads, and one map between two sentences.

A map shows the weights of equation (1), softmax(Q K^T / sqrt(d_k)): a row for each query, a column for each key. The
weights of a row add up to 1. The grid has a row for each layer, a column for each head, and one kind after another. The
single map is large enough to read the order of words from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from minitransformer.apps.plots import heatmap
from minitransformer.apps.plots.colours import FAINT
from minitransformer.apps.plots.fonts import Face, face_for
from minitransformer.apps.plots.saving import save

Maps = Mapping[str, Sequence[NDArray[Any]]]
# In the order in which they are drawn: the heading, and what its rows and columns are.
KINDS = {
    "cross": ("Cross-attention", "target tokens", "source tokens"),
    "encoder": ("Encoder self-attention", "source tokens", "source tokens"),
    "decoder": ("Decoder self-attention", "target tokens", "the target so far"),
}
GAP = 0.13  # between maps, in inches, as all lengths here
HEADING = 0.56  # the two lines above a kind and the names of its heads
CAPTION = "dot: strongest in its row"


@dataclass(frozen=True)
class _Group:
    """The maps of one kind, with the labels of their rows and columns."""

    kind: str
    layers: list[NDArray[Any]]
    queries: list[str]
    keys: list[str]


@dataclass(frozen=True)
class _Sheet:
    """What all maps of a figure share: fonts, the side of a cell, the left edge, the distance of heads."""

    face: Face
    cell: float
    size: float
    left: float
    pitch: float


def attention_maps(
    maps: Maps,
    source: Sequence[str],
    target: Sequence[str],
    path: Path | str,
    title: str = "",
    *,
    target_input: Sequence[str] | None = None,
) -> None:
    """Draw the attention of every layer and head as a grid of small maps.

    Cross-attention comes first, then the self-attention of the encoder, then that of the decoder. A row
    of the grid is a layer, a column is a head. Tokens are named at the left of a row and below the last row
    of a kind.

    Parameters
    ----------
    maps : mapping of str to sequence of NDArray
        Any of "cross", "encoder" and "decoder", each with an array of shape (H, Tq, Tk) for each layer.
    source : sequence of str
        The source tokens as the encoder read them.
    target : sequence of str
        The target tokens, one for each position of the decoder: for example the token that it wrote there.
    path : Path or str
        The file to write.
    title : str, default: ""
        A heading, for example the sentence.
    target_input : sequence of str, optional
        The tokens that the decoder read, "<start>" first. They name the keys (columns) of its self-attention,
        which are its inputs: the tokens written, shifted by one. Default: `target`.

    Raises
    ------
    ValueError
        If `maps` is empty or has another key, a shape does not fit the tokens, or a weight is outside 0..1.
    """
    save(maps_figure(maps, source, target, title, target_input=target_input), path)


def maps_figure(
    maps: Maps,
    source: Sequence[str],
    target: Sequence[str],
    title: str = "",
    *,
    target_input: Sequence[str] | None = None,
) -> Figure:
    """Make the figure that `attention_maps` writes, with the same parameters but the path.

    The axes are the maps in reading order and, last, the colour bar.
    """
    read = target if target_input is None else target_input
    face = face_for([*source, *target, *read, title])
    groups = _groups(maps, source, target, read, face)
    columns = max(len(group.keys) for group in groups)
    longest = max(columns, *(len(group.queries) for group in groups))
    # Cells are square and of one size in the whole figure, so that maps can be compared.
    cell = min(max(0.16, 1.2 / longest), 0.3, 3.6 / longest)
    size = max(4.0, min(8.0, 0.7 * 72 * cell))
    left = 0.4 + heatmap.text_inches([label for group in groups for label in group.queries], size, face)[0]
    sheet = _Sheet(face, cell, size, left, columns * cell + GAP)

    right = left + sheet.pitch * max(len(layer) for group in groups for layer in group.layers)
    names = [0.08 + heatmap.text_inches(group.keys, size, face, rotation=90)[1] for group in groups]
    heights = [HEADING + len(group.layers) * (len(group.queries) * cell + GAP) for group in groups]
    top = 0.12 + (0.34 if title else 0)
    across = max(right + 0.7, 2.9, 0.3 + heatmap.text_inches([face.readable(title)], 12, face)[0])
    down = top + sum(heights) + sum(names) + 0.15 * (len(groups) - 1)

    figure = heatmap.plain_figure(across, down)
    if title:
        heatmap.text_at(figure, 0.1, 0.12, face.readable(title), size=12, **face.options)
    bar_top = top + HEADING
    for group, height, name in zip(groups, heights, names, strict=True):
        image = _draw_group(figure, group, top, sheet)
        top += height + name + 0.15
    bar = heatmap.axes_at(figure, right + 0.05, bar_top, 0.1, min(heights[0] - HEADING - GAP, 1.5))
    heatmap.colour_bar(figure, image, bar, size=7)
    return figure


def _draw_group(figure: Figure, group: _Group, top: float, sheet: _Sheet) -> AxesImage:
    """Draw the maps of one kind and return the last."""
    heading, rows, columns = KINDS[group.kind]
    heatmap.text_at(figure, 0.1, top, heading, size=9, weight="bold")
    heatmap.text_at(figure, 0.1, top + 0.17, f"rows: {rows}, columns: {columns}", size=8, color="0.35")
    wide, high = len(group.keys) * sheet.cell, len(group.queries) * sheet.cell
    for number, layer in enumerate(group.layers):
        y = top + HEADING + number * (high + GAP)
        # A head names its keys unless the next layer has a map right below it.
        covered = len(group.layers[number + 1]) if number + 1 < len(group.layers) else 0
        for head, weights in enumerate(layer):
            axes = heatmap.axes_at(figure, sheet.left + head * sheet.pitch, y, wide, high)
            image = heatmap.draw(axes, weights)
            axes.tick_params(length=0, pad=2, labelsize=sheet.size)
            if number == 0:
                axes.set_title(f"head {head + 1}", size=8, pad=3)
            if head == 0:
                heatmap.name_rows(axes, group.queries, sheet.cell, sheet.size, sheet.face)
                axes.set_ylabel(f"layer {number + 1}", size=8)
                axes.yaxis.set_label_coords((0.2 - sheet.left) / wide, 0.5)
            if head >= covered:
                heatmap.name_columns(axes, group.keys, sheet.cell, sheet.size, sheet.face, rotation=90)
    return image


def _groups(maps: Maps, source: Sequence[str], target: Sequence[str], read: Sequence[str], face: Face) -> list[_Group]:
    """Check the maps and put them in order, each kind with its labels."""
    unknown = sorted(set(maps) - set(KINDS))
    if unknown or not maps:
        raise ValueError(
            f"attention_maps: found the kinds {sorted(maps)}, expected one or more of {list(KINDS)}. "
            "Rename the keys of `maps`."
        )
    if len(read) != len(target):
        raise ValueError(
            f"attention_maps: found {len(target)} tokens in `target` and {len(read)} in `target_input`, "
            "expected the same number: the decoder reads one token for each that it writes. "
            "Pass both with or both without padding."
        )
    labels = {
        "cross": ("target tokens", target, "source tokens", source),
        "encoder": ("source tokens", source, "source tokens", source),
        "decoder": ("target tokens", target, "target tokens", read),
    }
    groups = []
    for kind in (kind for kind in KINDS if kind in maps):
        if len(maps[kind]) == 0:
            raise ValueError(
                f"attention_maps: maps[{kind!r}] is empty, expected an array (H, Tq, Tk) for each layer. "
                "Leave the kind out if there is nothing to draw."
            )
        rows, queries, columns, keys = labels[kind]
        layers = [
            heatmap.check_weights(
                f"attention_maps: maps[{kind!r}][{number}]",
                layer,
                (None, len(queries), len(keys)),
                f"(heads, {rows}, {columns})",
            )
            for number, layer in enumerate(maps[kind])
        ]
        groups.append(_Group(kind, layers, [*map(face.token, queries)], [*map(face.token, keys)]))
    return groups


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
    weights = heatmap.check_weights("attention_map", weights, (len(target), len(source)), meaning)
    face = face_for([*source, *target, title])
    keys, queries = [face.token(t) for t in source], [face.token(t) for t in target]
    cell = min(0.46, 9 / max(len(keys), len(queries)))
    size = max(5.0, min(12.0, 0.6 * 72 * cell))
    turn = 0 if heatmap.text_inches(keys, size, face)[0] < 0.9 * cell else 45
    # All lengths are inches.
    lean, above = heatmap.text_inches(keys, size, face, rotation=turn)
    left = 0.5 + heatmap.text_inches(queries, size, face)[0]
    top = 0.4 + above + (0.34 if title else 0)
    wide, high = len(keys) * cell, len(queries) * cell
    # The last label may lean out over the right edge; the colour bar stands below it.
    right = left + wide + max(0.85, lean - cell / 2)
    widths = (heatmap.text_inches([face.readable(title)], 14, face)[0], heatmap.text_inches([CAPTION], 8, face)[0])
    figure = heatmap.plain_figure(max(right, 0.3 + 1.05 * widths[0], left + widths[1] + 0.12), top + high + 0.36)
    if title:
        heatmap.text_at(figure, 0.12, 0.12, face.readable(title), size=14, **face.options)

    axes = heatmap.axes_at(figure, left, top, wide, high)
    image = heatmap.draw(axes, weights)
    axes.tick_params(length=0, pad=4, labelsize=size, labeltop=True, labelbottom=False)
    heatmap.name_columns(axes, keys, cell, size, face, rotation=turn)
    heatmap.name_rows(axes, queries, cell, size, face)
    axes.set_xlabel("source", size=9, color=FAINT)
    axes.xaxis.set_label_coords(0.5, 1 + (above + 0.25) / high)
    axes.set_ylabel("target", size=9, color=FAINT)
    axes.yaxis.set_label_coords((0.25 - left) / wide, 0.5)
    _mark_strongest(axes, weights, cell)
    heatmap.text_at(figure, left, top + high + 0.1, CAPTION, size=8, color=FAINT, **face.options)
    heatmap.colour_bar(figure, image, heatmap.axes_at(figure, left + wide + 0.18, top, 0.12, min(high, 2.0)), size=8)
    return figure


def _mark_strongest(axes: Axes, weights: NDArray[Any], cell: float) -> None:
    """Put a dot on the greatest weight of each row, unless another equals it."""
    for row, values in enumerate(weights):
        (strongest,) = np.nonzero(values == values.max())
        if len(strongest) == 1:
            colour = "white" if values.max() > 0.55 else "black"
            axes.plot(strongest[0], row, "o", color=colour, markersize=0.14 * 72 * cell, markeredgewidth=0)
