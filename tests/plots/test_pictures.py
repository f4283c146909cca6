"""All pictures in words: each line, bar, map and text with its place and colour, from results that are made up.

After you have changed a picture and looked at it, run ``python tests/plots/test_pictures.py`` and read what has changed
in ``test_pictures.toml``.
"""

from pathlib import Path

import made_up
import numpy as np
import pytest
from made_up import ERRORS, STEPS, evaluation, metrics, training
from matplotlib.colors import to_hex
from toml_cases import toml_table

from minitransformer.apps import plots
from minitransformer.apps.learn.model import Box, Row
from minitransformer.apps.plots.attention import map_figure, maps_figure
from minitransformer.apps.plots.curves import curves_figure
from minitransformer.apps.plots.own_parts import losses_figure, parts_figure
from minitransformer.apps.plots.step_sizes import steps_figure

SOURCE, TARGET = ["a", "b c"], ["x", "yy", "z"]
WEIGHTS = np.array([[[0.25, 0.75], [0.5, 0.5], [1, 0]], [[0, 1], [0.9, 0.1], [0.4, 0.6]]])
METRICS = [*metrics(100, 40), *(evaluation(step, 0.5) | {"valid_loss": 90 / step, "bleu": step} for step in (40, 80))]
BOX = Box("sub-layer", [Row("mine", "yours", "1 ms"), Row("its", "engine", "2 ms"), Row("no", "wrong", "")], True)
STACKS = {"encoder": [BOX], "decoder": [BOX, Box("cross-attention", [Row("words", "", "")], True)]}
STACKS |= {"training": [Box("loss", [Row("sum", "yours", "")], False)], "decoding": [Box("beam", [], False)]}
PICTURES = {
    "attention": lambda: maps_figure({"cross": [WEIGHTS, WEIGHTS[:1]]}, SOURCE, TARGET, "a title"),
    "one map": lambda: map_figure(WEIGHTS[0], SOURCE, TARGET, "a title"),
    "changes": lambda: plots.changes_picture(made_up.CHANGES),
    "training": lambda: curves_figure(METRICS, "a title"),
    "short training": lambda: curves_figure([training(step, 5 - step) for step in (1, 2, 4)]),
    "heads": lambda: plots.heads_picture(made_up.HEADS),
    "parts": lambda: parts_figure(STACKS),
    "losses": lambda: losses_figure({"mine": metrics(20, 4), "wrong": metrics(9, 2)}),
    "recall": lambda: plots.recall_picture(made_up.RECALL),
    "extrapolation": lambda: plots.extrapolation_picture(made_up.EXTRAPOLATION),
    "positions": lambda: plots.positions_picture(made_up.POSITIONS),
    "speed": lambda: plots.speed_bars(made_up.result(compiled=0.06)),
    "growth": lambda: plots.growth_curves(made_up.growth()),
    "step sizes": lambda: steps_figure(STEPS, ERRORS, "softmax"),
    "table 1": lambda: plots.table1_picture(made_up.table1()),
    "paths": lambda: plots.paths_picture(made_up.table1()),
}


def few(values):
    """Return numbers with three digits; if there are many, their number, the first and last ones, and their mean."""
    flat = np.asarray(values, dtype=float).ravel()
    shown = flat if len(flat) < 9 else [*flat[:3], flat.mean(), *flat[-3:]]
    return " ".join([f"{len(flat)}:"] * (len(flat) > 8) + [f"{value:.3g}" for value in shown])


def hexes(*colours):
    found = [*dict.fromkeys(to_hex(colour, keep_alpha=True) for colour in colours)]
    return "/".join([*found[:4], *found[4:][-1:]])


def extents(paths, transform=None):
    paths = [transform.transform_path(path) if transform else path for path in paths]
    return few([path.get_extents().extents for path in paths])


def written(text):
    font = f"{text.get_size():.3g} {text.get_weight()} {text.get_rotation():g} {text.get_ha()} {text.get_va()}"
    return f"text {text.get_text()!r} {hexes(text.get_color())} {font}"


def in_words(figure):
    """Yield what a picture shows, a line for each thing."""
    figure.draw_without_rendering()
    yield from map(written, [text for text in figure.texts if text.get_text()])
    for legend in figure.legends:
        yield f"legend {[text.get_text() for text in legend.get_texts()]} {legend._ncols}"
    for axes in filter(lambda axes: axes.get_visible(), figure.axes):
        title = "".join(axes.get_title(loc) for loc in ("left", "center", "right"))
        spines = [name for name, spine in axes.spines.items() if spine.get_visible()]
        beside = [label.get_text() for inner in axes.child_axes for label in inner.get_yticklabels()]
        yield f"axes {title!r} {axes.axison} {' '.join([*spines, *beside])}"
        for axis, low, high in ((axes.xaxis, *axes.get_xlim()), (axes.yaxis, *axes.get_ylim())):
            ticks = [tick for tick in axis.get_major_ticks() if min(low, high) <= tick.get_loc() <= max(low, high)]
            labels = [tick.label1 if tick.label1.get_visible() else tick.label2 for tick in ticks]
            look = sorted({(hexes(label.get_color()), label.get_size(), label.get_rotation()) for label in labels})
            words = ["power" if "$" in label.get_text() else label.get_text() for label in labels]  # of ten
            names = [f"{tick.get_loc():.3g}={word!r}" for tick, word in zip(ticks, words, strict=True)]
            yield f"  {axis.axis_name} {axis.get_scale()} {low:.3g} to {high:.3g}: {' '.join(names)} {look}"
            if axis.label.get_text():
                yield "  " + written(axis.label)
        for line in axes.lines:
            look = f"{line.get_linestyle()} {line.get_marker()} {line.get_linewidth():g} {line.get_markersize():g}"
            label = "" if line.get_label()[0] == "_" else line.get_label()
            yield f"  line {label!r} {hexes(line.get_color())} {look} {line.get_alpha()}"
            yield f"    x {few(line.get_xdata())}, y {few(line.get_ydata())}"
        for patch in axes.patches:
            colours = hexes(patch.get_facecolor(), patch.get_edgecolor())
            yield f"  patch {colours} {extents([patch.get_path()], patch.get_patch_transform())}"
        for area in axes.collections:
            colours = hexes(*area.get_facecolor(), *area.get_edgecolor())
            yield f"  area {colours} {few(area.get_offsets())} {extents(area.get_paths())}"
        for image in axes.images:
            yield f"  map {image.get_cmap().name} {image.get_clim()} {image.get_array().shape} {few(image.get_array())}"
        for text in axes.texts:
            arrow = getattr(text, "arrow_patch", None)
            from_to = f" to {few(text.xy)} {hexes(arrow.get_edgecolor())} {arrow.get_linewidth():g}" if arrow else ""
            yield f"  {written(text)} {few(getattr(text, 'xyann', text.get_position()))}{from_to}"
        if legend := axes.get_legend():
            yield f"  legend {[text.get_text() for text in legend.get_texts()]} {legend._ncols} {legend._loc}"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_shows_what_it_showed_when_it_was_looked_at(name):
    assert [*in_words(PICTURES[name]())] == toml_table(__file__, "SHOWN")[name].splitlines()


if __name__ == "__main__":
    words = {name: "\n".join(in_words(make())) for name, make in PICTURES.items()}
    toml = "\n\n".join(f"\"{name}\" = '''\n{text}'''" for name, text in words.items())
    Path(__file__).with_suffix(".toml").write_text(f"[SHOWN]\n{toml}\n", encoding="utf-8")
