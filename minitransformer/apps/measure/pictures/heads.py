"""Where each attention head looks, relative to its query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from minitransformer.apps.measure.pictures.axes import head
from minitransformer.apps.plots.colours import ATTENTION, FAINT
from minitransformer.apps.plots.heatmap import FRAME

KINDS = {"encoder": "encoder self-attention", "decoder": "decoder self-attention", "cross": "cross-attention"}


def heads_picture(result: Mapping[str, Any]) -> Figure:
    """Draw the mean weight of each head over the distance between key and query.

    There is a column for each kind of attention, and a row for each layer.

    Parameters
    ----------
    result : mapping
        What ``measure.heads.measure_heads`` returned.
    """
    offsets, layers = result["offsets"], result["layers"]
    kinds = [kind for kind in KINDS if any(layer["kind"] == kind for layer in layers)]
    depth = max(layer["layer"] for layer in layers)
    most = max(len(layer["heads"]) for layer in layers)
    size = 4.1 * len(kinds), 0.7 + depth * (0.75 + 0.24 * most)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(depth, len(kinds), squeeze=False)
    for axes in grid.flat:
        axes.set_visible(False)  # a decoder may have fewer layers than an encoder
    for layer in layers:
        axes, heads = grid[layer["layer"] - 1, kinds.index(layer["kind"])], layer["heads"]
        axes.set_visible(True)
        weights = np.array([one["offsets"] for one in heads])
        axes.imshow(weights, cmap=ATTENTION, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        axes.set_title(f"{KINDS[layer['kind']]}, layer {layer['layer']}", loc="left", size=9)
        axes.set_yticks(range(len(heads)), [f"head {number}" for number in range(1, len(heads) + 1)])
        axes.set_xticks(range(0, len(offsets), 2), [f"{offset:+d}" if offset else "0" for offset in offsets[::2]])
        axes.tick_params(length=0, labelsize=8)
        axes.spines[:].set(color=FRAME, linewidth=0.5)
        right = axes.secondary_yaxis("right")
        right.set_yticks(range(len(heads)), [f"{one['content']:.2f}" for one in heads])
        right.tick_params(length=0, labelsize=8, labelcolor=FAINT)
        right.spines[:].set_visible(False)
    head(
        figure,
        "Mean attention weight over the distance of the key from the query, from white (0) to brown (1).\n"
        "Right: the share of the weight that moves if all tokens are exchanged.",
    )
    return figure
