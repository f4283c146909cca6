"""All pictures in words: each line, bar, map and text with its place and colour, from results that are made up.

After you have changed a picture and looked at it, run ``python tests/plots/test_pictures.py`` and read what has changed
in ``test_pictures.toml``.
"""

from pathlib import Path
from unittest import mock

import made_up
import numpy as np
import pytest
from made_up import ERRORS, STEPS, distinct, evaluation, metrics, training
from matplotlib.colors import to_hex
from toml_cases import toml_table

from minitransformer.apps import plots
from minitransformer.apps.learn.model import Box, Row
from minitransformer.apps.plots import heatmap
from minitransformer.apps.plots.attention import attention_map, attention_maps, map_figure, maps_figure
from minitransformer.apps.plots.curves import curves_figure, training_curves
from minitransformer.apps.plots.own_parts import compare_losses, model_parts
from minitransformer.apps.plots.step_sizes import step_sizes

SOURCE, TARGET, PATH = ["a", "b c"], ["x", "yy", "z"], Path("the path")
WEIGHTS = np.array([[[0.25, 0.75], [0.5, 0.5], [1, 0]], [[0, 1], [0.9, 0.1], [0.4, 0.6]]])
ONE_SEED = made_up.POSITIONS | {
    "tasks": {"one": made_up.POSITIONS["tasks"]["one"] | {"kinds": {"none": made_up.SEEDS[:1]}}}
}
ONLY_PATHS = {name: part for name, part in distinct(made_up.table1()).items() if name != "example"}
for row in ONLY_PATHS["layers"].values():
    del row["operations"], row["time"], row["gradients"]
OURS_ALONE = distinct(made_up.result(("toy", "small", "base")))
for name, configuration in OURS_ALONE["configurations"].items():
    configuration["anatomy"]["workers"] = len(name) - 2
    if name == "toy":
        configuration["anatomy"]["shares"]["the rest"] += 0.75  # measured apart, they may exceed the whole
        configuration["programs"]["eager"] = configuration["programs"]["compiled"]
        configuration["programs"]["ours"] |= {"median": 1.25, "peak": 2**31}
METRICS = [*metrics(160, 40), *(evaluation(step, 0.5) | {"valid_loss": 90 / step, "bleu": step} for step in (40, 80))]
BOX = Box("sub-layer", [Row("mine", "yours", "1 ms"), Row("its", "engine", "2 ms"), Row("no", "wrong", "")], True)
STACKS = {"encoder": [BOX], "decoder": [BOX, Box("cross-attention", [Row("words", "", "")], True)]}
STACKS |= {"training": [Box("loss", [Row("sum", "yours", "")], False)], "decoding": [Box("beam", [], False)]}
KINDS = {"decoder": [WEIGHTS[:, :, [0, 1, 1]]], "encoder": [WEIGHTS[:, :2]], "cross": [WEIGHTS, WEIGHTS[:1]]}
LONG_TITLE = "a title that is longer than the maps are wide together"
LONG = [f"{'word' * (i % 3)}{i}" for i in range(24)]


def changes_of(*values):
    """Return a result with one row, which has these ratios to the base."""
    rows = made_up.CHANGES["rows"]
    row = rows["RMS norm"] | {"ratio": rows["RMS norm"]["ratio"] | {"values": values}}
    return made_up.CHANGES | {"rows": {"base": rows["base"], "RMS norm": row}}


def saved(write, *arguments, **options):
    """Return the picture that a function writes to ``PATH``, with the options of saving."""
    figures = []

    def save(figure, path, **how):
        assert path is PATH
        figure.how = how
        figures.append(figure)

    with mock.patch.dict(write.__globals__, save=save):
        write(*arguments, **options)
    return figures[0]


def without_fonts(make, *arguments, **options):
    """Return a picture for which texts are said to have sizes that depend on no font."""

    def inches(labels, size, face, rotation=0):
        return size * max(map(len, labels)) / 100, size / 50 + rotation / 500

    with mock.patch.object(heatmap, "text_inches", inches):
        return make(*arguments, **options)


PICTURES = {
    "attention": lambda: without_fonts(
        saved, attention_maps, KINDS, SOURCE, TARGET, PATH, "a title", target_input=["?", "x", "yy"]
    ),
    "one kind of attention": lambda: without_fonts(
        maps_figure, {"encoder": KINDS["encoder"]}, SOURCE, TARGET, LONG_TITLE
    ),
    "many tokens": lambda: without_fonts(maps_figure, {"encoder": [np.eye(45)[None]]}, [f"{i}" for i in range(45)], []),
    "one map of a long title": lambda: without_fonts(map_figure, WEIGHTS[1], SOURCE, TARGET, LONG_TITLE),
    "one map": lambda: without_fonts(saved, attention_map, WEIGHTS[0], SOURCE, TARGET, PATH, "a title"),
    "a tall map": lambda: without_fonts(map_figure, np.eye(90, 7), LONG[:7], [f"{i}" for i in range(90)]),
    "a long map": lambda: without_fonts(map_figure, np.eye(3, 24, 2) * [[0.56], [0.55], [0.5]], LONG, TARGET),
    "changes": lambda: plots.changes_picture(made_up.CHANGES),
    "small changes": lambda: plots.changes_picture(changes_of(0.65, 1.05, 0.9)),
    "changes above the base": lambda: plots.changes_picture(changes_of(1.2, 1.4)),
    "changes threefold": lambda: plots.changes_picture(changes_of(0.5, 1.05, 1.6)),
    "changes twofold": lambda: plots.changes_picture(changes_of(0.61, 1.05, 0.9)),
    "training": lambda: saved(training_curves, METRICS, PATH, "a title"),
    "training without held-out pairs": lambda: curves_figure(metrics(60, 400)),
    "short training": lambda: curves_figure(
        [{**training(1, 10), "learning_rate": np.nan}, training(2, 3), training(4, 1)]
    ),
    "training that diverges": lambda: curves_figure(
        [training(step, loss) | {"learning_rate": 0.0} for step, loss in ((1, 3.0), (2, np.inf), (3, np.nan))]
    ),
    "heads": lambda: plots.heads_picture(distinct(made_up.HEADS)),
    "parts": lambda: saved(model_parts, STACKS, PATH),
    "losses": lambda: saved(
        compare_losses, {"mine": metrics(20, 4), "wrong": metrics(9, 2), "third": metrics(12, 3)}, PATH
    ),
    "recall": lambda: plots.recall_picture(distinct(made_up.RECALL)),
    "extrapolation": lambda: plots.extrapolation_picture(distinct(made_up.EXTRAPOLATION)),
    "positions of one seed": lambda: plots.positions_picture(ONE_SEED),
    "positions": lambda: plots.positions_picture(distinct(made_up.POSITIONS)),
    "speed": lambda: plots.speed_bars(distinct(made_up.result(compiled=0.06))),
    "our own speed": lambda: plots.speed_bars(OURS_ALONE),
    "growth": lambda: plots.growth_curves(distinct(made_up.growth()) | {"workers": 2}),
    "step sizes": lambda: saved(step_sizes, STEPS, ERRORS, PATH, "softmax"),
    "errors that do not fall": lambda: saved(
        step_sizes,
        STEPS,
        {
            "central": [*np.linspace(1, 0.01, 8), 1],
            "extrapolated": np.linspace(0.1, 0.5, 9),
            "another": STEPS**2,
            "exact": np.zeros(9),
        },
        PATH,
        epsilon=1e-3,
    ),
    "table 1": lambda: plots.table1_picture(distinct(made_up.table1())),
    "paths": lambda: plots.paths_picture(ONLY_PATHS),
}


def few(values):
    """Return numbers with three digits; if there are many, their number, the first and last ones, and their mean."""
    flat = np.asarray(values, dtype=float).ravel()
    shown = flat if len(flat) < 20 else [*flat[:3], flat.mean(), *flat[-3:]]
    return " ".join([f"{len(flat)}:"] * (len(flat) > 19) + [f"{value:.3g}" for value in shown])


def hexes(*colours):
    found = [*dict.fromkeys(to_hex(colour, keep_alpha=True) for colour in colours)]
    return "/".join([*found[:4], *found[4:][-1:]])


def extents(paths, transform=None):
    paths = [transform.transform_path(path) if transform else path for path in paths]
    return few([path.get_extents().extents for path in paths])


def written(text):
    font = f"{text.get_size():.3g} {text.get_weight()} {text.get_rotation():g} {text.get_ha()} {text.get_va()}"
    font += "" if text.get_parse_math() else " plain"
    return f"text {text.get_text()!r} {hexes(text.get_color())} {font} {text.get_rotation_mode()}"


def of_legend(legend, axes=None):
    texts, box = legend.get_texts(), legend._bbox_to_anchor
    box = few(box.transformed(axes.transAxes.inverted()).extents) if axes and box else ""
    names = [text.get_text() for text in texts]
    samples = [hexes(getattr(one, "get_color", getattr(one, "get_facecolor", None))()) for one in legend.legend_handles]
    look = f"{legend._ncols} {legend._loc} {texts[0].get_size()} {legend.get_frame_on()}"
    return f"legend {[*zip(names, samples, strict=True)]} {look} {box}"


def in_words(figure):
    """Yield what a picture shows, a line for each thing."""
    figure.draw_without_rendering()
    is_plain, size = figure.get_layout_engine() is None, figure.get_size_inches()
    spaces = [] if is_plain else [pad for name, pad in figure.get_layout_engine().get().items() if name != "rect"]
    yield f"figure {few(size)} {few(spaces)} {getattr(figure, 'how', '')}".rstrip()
    for text in figure.texts:
        if text.get_text():
            yield f"{written(text)} {few(np.array(text.get_position()) * size if is_plain else text.get_position()[0])}"
    yield from map(of_legend, figure.legends)
    for axes in filter(lambda axes: axes.get_visible(), figure.axes):
        titles = [text for text in (axes._left_title, axes.title, axes._right_title) if text.get_text()]
        title = " ".join(map(written, titles)) + f" {axes.titleOffsetTrans._t[1] * 72:g}" * bool(titles)
        spines = [name for name, spine in axes.spines.items() if spine.get_visible()]
        looks = {(hexes(axes.spines[name].get_edgecolor()), axes.spines[name].get_linewidth()) for name in spines}
        beside = [label.get_text() for inner in axes.child_axes for label in inner.get_yticklabels()]
        yield f"axes {title} {axes.axison} {' '.join([*spines, *beside])} {sorted(looks)} {axes.get_axisbelow()}"
        yield from [f"  at {few(axes.get_position().bounds * np.tile(size, 2))}"] * is_plain
        if spans := axes.get_subplotspec():
            grid = spans.get_gridspec()
            ratios = few(grid.get_width_ratios()), few(grid.get_height_ratios())
            yield f"  in {grid.get_geometry()} from {spans.num1} to {spans.num2} {ratios}"
        for axis, low, high in ((axes.xaxis, *axes.get_xlim()), (axes.yaxis, *axes.get_ylim())):
            ticks = [tick for tick in axis.get_major_ticks() if min(low, high) <= tick.get_loc() <= max(low, high)]
            labels = [tick.label1 if tick.label1.get_visible() else tick.label2 for tick in ticks]
            look = sorted({(hexes(label.get_color()), label.get_size(), label.get_rotation()) for label in labels})
            names = [f"{t.get_loc():.3g}={t.label1.get_text() or t.label2.get_text()!r}" for t in ticks]
            names = names if "$" not in "".join(names) else ["powers of ten"]  # which ones, matplotlib decides
            yield f"  {axis.axis_name} {axis.get_scale()} {low:.3g} to {high:.3g}: {' '.join(names)} {look}"
            minor = [tick.label1.get_text() for tick in axis.get_minor_ticks() if low <= tick.get_loc() <= high]
            marks = {(tick.tick1line.get_markersize(), tick.get_pad()) for tick in ticks}
            lines = {
                (hexes(line.get_color()), line.get_linewidth()) for line in axis.get_gridlines() if line.get_visible()
            }
            yield f"    {len(minor)} more {sorted({*minor})}, marks {sorted(marks)}, grid {sorted(lines)}"
            if axis.label.get_text():
                yield f"  {written(axis.label)} {'' if axis._autolabelpos else few(axis.label.get_position())}"
        for line in axes.lines:
            look = f"{line.get_linestyle()} {line.get_marker()} {line.get_linewidth():g} {line.get_markersize():g}"
            label = "" if line.get_label()[0] == "_" else line.get_label()
            look += f" {line.get_alpha()} {line.get_zorder():g} {line.get_markeredgewidth():g} {line.get_clip_on()}"
            look += f" {line._unscaled_dash_pattern[1] or line.get_solid_capstyle().replace('projecting', '')}"
            yield f"  line {label!r} {hexes(line.get_color())} {look}"
            yield f"    x {few(line.get_xdata())}, y {few(line.get_ydata())}"
        for patch in axes.patches:
            colours = hexes(patch.get_facecolor(), patch.get_edgecolor())
            look = f"{patch.get_linewidth():g} {patch.get_zorder():g}"
            yield f"  patch {colours} {look} {extents([patch.get_path()], patch.get_patch_transform())}"
        for area in axes.collections:
            colours = hexes(*area.get_facecolor(), *area.get_edgecolor())
            widths, sizes = few(area.get_linewidths()), few(getattr(area, "get_sizes", list)())
            look = f"{area.get_alpha()} {area.get_zorder():g} {widths} {sizes}"
            yield f"  area {colours} {look} {few(area.get_offsets())} {extents(area.get_paths())}"
        for image in axes.images:
            look = f"{image.get_cmap().name} {image.get_interpolation()} {image.get_clim()} {image.get_array().shape}"
            yield f"  map {look} {few(image.get_array())}"
        for text in axes.texts:
            arrow = getattr(text, "arrow_patch", None)
            from_to = f" from {few(text.xyann)} {text.xycoords}" if hasattr(text, "xyann") else ""
            from_to += (
                f" {hexes(arrow.get_edgecolor())} {arrow.get_linewidth():g} {arrow.get_zorder():g} "
                f"{arrow.get_mutation_scale():g} {arrow.shrinkA:g} {arrow.shrinkB:g}"
                if arrow
                else ""
            )
            yield f"  {written(text)} {few(getattr(text, 'xy', text.get_position()))}{from_to}"
        if legend := axes.get_legend():
            yield f"  {of_legend(legend, axes)}"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_shows_what_it_showed_when_it_was_looked_at(name):
    assert [*in_words(PICTURES[name]())] == toml_table(__file__, "SHOWN")[name].splitlines()


if __name__ == "__main__":
    words = {name: "\n".join(in_words(make())) for name, make in PICTURES.items()}
    toml = "\n\n".join(f"\"{name}\" = '''\n{text}'''" for name, text in words.items())
    Path(__file__).with_suffix(".toml").write_text(f"[SHOWN]\n{toml}\n", encoding="utf-8")
