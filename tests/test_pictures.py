"""What the pictures show: the data that they were given, names and ticks that can be read, and where things stand.

Colours, widths of lines and sizes of letters are free, as far as everything can be read and told apart.
"""

import itertools
import warnings
from pathlib import Path
from unittest import mock

import made_up
import numpy as np
import pytest
from made_up import ERRORS, STEPS, distinct, evaluation, metrics, training
from matplotlib.colors import same_color, to_rgba
from matplotlib.text import Annotation, Text

from minitransformer.apps.learn.model import Box, Row
from minitransformer.apps.measure import pictures
from minitransformer.apps.plots.attention import attention_map, attention_maps, map_figure, maps_figure
from minitransformer.apps.plots.curves import curves_figure, training_curves
from minitransformer.apps.plots.own_parts import compare_losses, model_parts
from minitransformer.apps.plots.step_sizes import step_sizes

SOURCE, TARGET, PATH = ["a", "b c"], ["x", "yy", "z"], Path("the path")
WEIGHTS = np.array([[[0.25, 0.75], [0.5, 0.5], [1, 0]], [[0, 1], [0.9, 0.1], [0.4, 0.6]]])
KINDS = {"decoder": [WEIGHTS[:, :, [0, 1, 1]]], "encoder": [WEIGHTS[:, :2]], "cross": [WEIGHTS, WEIGHTS[:1]]}
METRICS = [*metrics(160, 40), *(evaluation(step, 0.5) | {"valid_loss": 90 / step, "bleu": step} for step in (40, 80))]
BOX = Box("sub-layer", [Row("mine", "yours", "1 ms"), Row("its", "engine", "2 ms"), Row("no", "wrong", "")], True)
STACKS = {"encoder": [BOX], "decoder": [BOX, Box("cross-attention", [Row("words", "", "")], True)]}
STACKS |= {"training": [Box("loss", [Row("sum", "yours", "")], False)], "decoding": [Box("beam", [], False)]}
ONE_SEED = made_up.POSITIONS | {
    "tasks": {"one": made_up.POSITIONS["tasks"]["one"] | {"kinds": {"none": made_up.SEEDS[:1]}}}
}
HEADS, RECALL, EXTRAPOLATION, POSITIONS, TABLE, GROWTH = map(
    distinct,
    (made_up.HEADS, made_up.RECALL, made_up.EXTRAPOLATION, made_up.POSITIONS, made_up.table1(), made_up.growth()),
)
SPEED, OURS = distinct(made_up.result(compiled=0.06)), distinct(made_up.result(("toy", "small", "base")))
for configuration in OURS["configurations"].values():
    configuration["anatomy"]["shares"]["the rest"] += 0.75  # measured apart, they may exceed the whole
    del configuration["programs"]["eager"]
OURS["configurations"]["toy"]["programs"]["ours"] |= {"median": 1.25, "peak": 2**31}
RUNS = {"mine": metrics(20, 4), "wrong": metrics(9, 2), "third": metrics(12, 3)}
UNFALLING = {"central": [*np.linspace(1, 0.01, 8), 1], "another": STEPS**2, "exact": np.zeros(9)}


def saved(write, *arguments, **options):
    """Return the picture that a function writes to ``PATH``."""
    figures = []

    def save(figure, path, **_):
        assert path is PATH
        figures.append(figure)

    with mock.patch.dict(write.__globals__, save=save):
        write(*arguments, **options)
    return figures[0]


def changes_of(*values):
    """Return a result with one row, which has these ratios to the base."""
    rows = made_up.CHANGES["rows"]
    row = rows["RMS norm"] | {"ratio": rows["RMS norm"]["ratio"] | {"values": values}}
    return made_up.CHANGES | {"rows": {"base": rows["base"], "RMS norm": row}}


PICTURES = {
    "attention": lambda: saved(attention_maps, KINDS, SOURCE, TARGET, PATH, "a title", target_input=["?", "x", "yy"]),
    "a long title": lambda: maps_figure({"encoder": KINDS["encoder"]}, SOURCE, TARGET, "a long title " * 5),
    "many tokens": lambda: maps_figure({"encoder": [np.eye(45)[None]]}, [f"{i}" for i in range(45)], []),
    "one map": lambda: saved(attention_map, WEIGHTS[0], SOURCE, TARGET, PATH, "a title"),
    "a tall map": lambda: map_figure(np.eye(90, 7), [f"word{i}" for i in range(7)], [f"{i}" for i in range(90)]),
    "a wide map": lambda: map_figure(np.eye(2, 30), [f"{i}" for i in range(30)], ["x", "y"], "a title"),
    "a small map": lambda: map_figure(np.eye(3), TARGET, TARGET, "a title that is longer than the map is wide"),
    "changes": lambda: pictures.changes_picture(made_up.CHANGES),
    "small changes": lambda: pictures.changes_picture(changes_of(0.65, 1.05, 0.9)),
    "changes above the base": lambda: pictures.changes_picture(changes_of(1.2, 1.4)),
    "changes twofold": lambda: pictures.changes_picture(changes_of(0.61, 1.05, 0.9)),
    "training": lambda: saved(training_curves, METRICS, PATH, "a title"),
    "training without held-out pairs": lambda: curves_figure(metrics(60, 400)),
    "training that diverges": lambda: curves_figure(
        [training(step, loss) | {"learning_rate": 0.0} for step, loss in ((1, 3.0), (2, np.inf), (3, np.nan))]
    ),
    "heads": lambda: pictures.heads_picture(HEADS),
    "parts": lambda: saved(model_parts, STACKS, PATH),
    "losses": lambda: saved(compare_losses, RUNS, PATH),
    "recall": lambda: pictures.recall_picture(RECALL),
    "extrapolation": lambda: pictures.extrapolation_picture(EXTRAPOLATION),
    "positions": lambda: pictures.positions_picture(POSITIONS),
    "positions of one seed": lambda: pictures.positions_picture(ONE_SEED),
    "speed": lambda: pictures.speed_bars(SPEED),
    "our own speed": lambda: pictures.speed_bars(OURS),
    "one speed": lambda: pictures.speed_bars(distinct(made_up.result(("toy",)))),
    "growth": lambda: pictures.growth_curves(GROWTH),
    "step sizes": lambda: saved(step_sizes, STEPS, ERRORS, PATH, "softmax"),
    "errors that do not fall": lambda: saved(step_sizes, STEPS, UNFALLING, PATH, epsilon=1e-3),
    "table 1": lambda: pictures.table1_picture(TABLE),
    "paths": lambda: pictures.paths_picture(TABLE),
}


@pytest.fixture(scope="module")
def figures():
    """Each picture by its name, drawn without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = {name: draw() for name, draw in PICTURES.items()}
        for figure in drawn.values():
            figure.draw_without_rendering()
    return drawn


# ---------------------------------------------------------------------------------------------------------------------
# What holds for all pictures


def said(texts):
    return [text.get_text() for text in texts]


def ticks_of(axis):
    """Return the places and texts of the ticks that can be seen."""
    low, high = sorted(axis.get_view_interval())
    ticks = [tick for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()) if low <= tick.get_loc() <= high]
    return {tick.get_loc(): tick.label1.get_text() or tick.label2.get_text() for tick in ticks}


def texts_of(figure):
    """Return the texts that can be seen; of a tick, if it is within its axis."""
    axes = [one for one in figure.axes if one.get_visible() and one.axison]
    hidden = {
        id(label)
        for one in figure.axes
        for axis in (one.xaxis, one.yaxis)
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks())
        for label in (tick.label1, tick.label2)
        if one not in axes or not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    }
    found = figure.findobj(lambda one: isinstance(one, Text) and one.get_text() and one.get_visible())
    return [text for text in found if id(text) not in hidden]


@pytest.mark.parametrize("name", PICTURES)
def test_everything_can_be_read(figures, name):
    figure = figures[name]
    boxes = [(text, text.get_window_extent()) for text in texts_of(figure)]
    page, slanted = figure.bbox, {text for text, _ in boxes if text.get_rotation() % 90}
    for text, box in boxes:
        assert page.x0 - 1 < box.x0 < box.x1 < page.x1 + 1, text
        assert page.y0 - 1 < box.y0 < box.y1 < page.y1 + 1, text
    for (one, box), (other, beside) in itertools.combinations(boxes, 2):
        assert {one, other} & slanted or not box.shrunk(0.9, 0.9).overlaps(beside.shrunk(0.9, 0.9)), (one, other)
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis) if axes.get_visible() and axes.axison else ():
            labels = [text for text in ticks_of(axis).values() if text]
            assert len(labels) <= 90
            assert len({*labels}) == len(labels) or axes.get_subplotspec() is None  # tokens may come twice


@pytest.mark.parametrize("name", PICTURES)
def test_curves_can_be_told_apart_and_seen_whole(figures, name):
    for axes in figures[name].axes:
        handles, labels = axes.get_legend_handles_labels()
        looks = [
            (to_rgba(one.get_color()), one.get_linestyle(), one.get_marker())
            for one in handles
            if hasattr(one, "get_marker")
        ]
        assert len({*looks}) == len(looks) or "smoothed" in labels  # one colour, pale and full
        low, high = sorted(axes.get_ylim())
        for line in axes.lines:
            if line.get_linestyle() == "-" and line.get_transform().contains_branch_seperately(axes.transData)[1]:
                y = line.get_xydata()[:, 1]
                y = y[np.isfinite(y)]
                assert ((low <= y + 1e-6 * (high - low)) & (y <= high + 1e-6 * (high - low))).all()


# ---------------------------------------------------------------------------------------------------------------------
# Maps of attention


def labels_of(axis):
    return [text for text in ticks_of(axis).values() if text]


def inches(axes):
    width, height = axes.figure.get_size_inches()
    x, y, across, down = axes.get_position().bounds
    return x * width, y * height, across * width, down * height


def test_maps_name_their_tokens_heads_and_layers(figures):
    figure = figures["attention"]
    *panels, bar = figure.axes
    assert [text for text in said(figure.texts) if "rows" not in text] == [
        "a title", "Cross-attention", "Encoder self-attention", "Decoder self-attention",
    ]  # fmt: skip
    keys, read = ["a", "b␣c"], ["?", "x", "yy"]
    assert [labels_of(axes.yaxis) for axes in panels] == [TARGET, [], TARGET, keys, [], TARGET, []]
    # A head names its keys unless there is a map of the next layer below it.
    assert [labels_of(axes.xaxis) for axes in panels] == [[], keys, keys, keys, keys, read, read]
    assert [axes.get_title() for axes in panels] == ["head 1", "head 2", "", *2 * ["head 1", "head 2"]]
    assert [axes.get_ylabel() for axes in panels] == ["layer 1", "", "layer 2", "layer 1", "", "layer 1", ""]
    assert ticks_of(bar.yaxis) == {0: "0", 0.5: "0.5", 1: "1"}
    for axes, other in itertools.combinations(figure.axes, 2):
        assert not axes.get_position().overlaps(other.get_position())


@pytest.mark.parametrize("name", ["attention", "many tokens", "one map", "a tall map", "a wide map"])
def test_cells_of_maps_are_squares_of_one_size(figures, name):
    *panels, _ = figures[name].axes
    cells = [(*inches(axes)[2:], *axes.images[0].get_array().shape[::-1]) for axes in panels]
    sides = [side for wide, high, columns, rows in cells for side in (wide / columns, high / rows)]
    assert sides[1:] == pytest.approx(sides[:-1])


def test_the_words_of_one_map_say_what_it_is(figures):
    axes, _ = figures["one map"].axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("source", "target")
    assert said(figures["one map"].texts) == ["a title", "dot: strongest in its row"]


def test_heads(figures):
    shown = [axes for axes in figures["heads"].axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in shown] == [
        "encoder self-attention, layer 1", "cross-attention, layer 1", "encoder self-attention, layer 2",
    ]  # fmt: skip
    for axes, layer in zip(shown, [HEADS["layers"][i] for i in (0, 2, 1)], strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), [head["offsets"] for head in layer["heads"]])
        assert axes.images[0].get_clim() == (0, 1)
        assert labels_of(axes.xaxis) == ["-2", "0", "+2"]
        assert labels_of(axes.yaxis) == [f"head {i + 1}" for i in range(len(layer["heads"]))]
        [right] = axes.child_axes
        assert [float(text) for text in said(right.get_yticklabels())] == pytest.approx(
            [head["content"] for head in layer["heads"]], abs=0.0051
        )


# ---------------------------------------------------------------------------------------------------------------------
# Curves


def curve(axes, label):
    """Return the numbers of a line, by the beginning of its label or of what follows a comma."""
    [line] = [
        line for line in axes.lines if any(part.strip().startswith(label) for part in line.get_label().split(","))
    ]
    return line.get_xydata()


def bands(axes):
    """Return the lowest and highest values of each shaded area, at each of its places."""
    found = []
    for area in axes.collections:
        points = area.get_paths()[0].vertices
        xs = sorted({*points[:, 0]})
        found.append([(x, *(f(points[points[:, 0] == x, 1]) for f in (np.min, np.max))) for x in xs])
    return found


def apart(shifts):
    """Return by how much a curve is drawn lower, so that it hides no other: little, and everywhere as much."""
    assert -0.04 < shifts[0] <= 0
    np.testing.assert_allclose(shifts, shifts[0], atol=1e-12)
    return shifts[0]


def test_training(figures):
    loss, accuracy, rate = figures["training"].axes
    lines = [line for line in METRICS if "loss" in line]
    steps, losses = np.array([(line["step"], line["loss"]) for line in lines]).T
    np.testing.assert_allclose(curve(loss, "as measured"), np.array([steps, losses]).T)
    reaches = np.minimum(np.arange(160), 3)  # a fiftieth of the points on either side, fewer at the start
    smoothed = [losses[i - reach : i + reach + 1].mean() for i, reach in enumerate(reaches)]
    np.testing.assert_allclose(curve(loss, "smoothed")[:, 1], smoothed)
    np.testing.assert_allclose(curve(loss, "held out"), [(40, 90 / 40), (80, 90 / 80)])
    match = {line["step"]: line["exact_match"] for line in METRICS if "exact_match" in line}
    curves = {
        "exact match": {step: 100 * share for step, share in match.items()},
        "token accuracy": {step: 50 * (1 + share) for step, share in match.items()},
        "BLEU": {40: 40, 80: 80},
    }
    for label, expected in curves.items():
        np.testing.assert_allclose(curve(accuracy, label), sorted(expected.items()))
        [name] = [line.get_label() for line in accuracy.lines if label in line.get_label()]
        assert float(name.split("last ")[1].removesuffix(" %")) == pytest.approx([*expected.values()][-1])
    assert [text.split(",")[0] for text in said(accuracy.get_legend().get_texts())] == [*curves]
    assert [*ticks_of(accuracy.yaxis)] == [0, 25, 50, 75, 100]
    np.testing.assert_allclose(rate.lines[0].get_xydata(), [(step, step * 1e-5) for step in steps])
    assert [*ticks_of(rate.yaxis)] == pytest.approx([0, 160e-5])
    speed = np.median([line["tokens_per_second"] for line in lines])
    assert f"(10 s in all, {speed:,.0f} tokens per second)" in rate.get_xlabel()
    assert loss.get_title(loc="left") == "a title"


def test_a_long_training_is_smoothed_and_a_short_one_is_not():
    for n, names in ((59, 1), (60, 2)):
        loss, *_ = curves_figure([training(step, 3.0) for step in range(1, n + 1)]).axes
        assert len(loss.lines) == names
        assert (loss.get_legend() is not None) == (names == 2)


@pytest.mark.parametrize(("rate", "ticks"), [([0.0, 0.0], [0]), ([0.5, float("nan")], [0, 0.5])])
def test_the_learning_rate_has_its_largest_value_at_the_axis(rate, ticks):
    *_, axes = curves_figure([training(step, 3.0) | {"learning_rate": x} for step, x in enumerate(rate)]).axes
    assert [*axes.get_yticks()] == ticks


def test_losses_of_several_runs(figures):
    [axes] = figures["losses"].axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("step", "loss")
    assert said(axes.get_legend().get_texts()) == [*RUNS]
    for name, lines in RUNS.items():
        losses = [line["loss"] for line in lines if "loss" in line]
        x, y = curve(axes, name).T
        assert [*x] == [*range(1, len(losses) + 1)]
        inner = [np.mean(losses[i - 1 : i + 2]) for i in range(1, len(losses))]
        np.testing.assert_allclose(y, [losses[0], *inner])


def test_recall(figures):
    [axes] = figures["recall"].axes
    for name, kind in RECALL["kinds"].items():
        values = np.array([point["accuracy"] for point in kind["points"]])
        x, y = curve(axes, name).T
        assert [*x] == [point["distance"] for point in kind["points"]]
        shift = apart(y - values.mean(axis=1))
        shaded = np.array(bands(axes)[[*RECALL["kinds"]].index(name)])
        np.testing.assert_allclose(shaded, np.array([x, values.min(1) + shift, values.max(1) + shift]).T)
    reaches = [kind["reach"] for kind in RECALL["kinds"].values() if kind["reach"]]
    upright = [line for line in axes.lines if len({*line.get_xdata()}) == 1]
    assert [line.get_xdata()[0] for line in upright] == reaches
    notes = [text for text in axes.texts if "reach" in text.get_text()]
    assert [(text.get_text().strip(), text.xy[0]) for text in notes] == [(f"reach {n}", n) for n in reaches]
    assert ticks_of(axes.xaxis) == {1: "1", 8: "8", 9: ""}
    assert all(text.endswith("%") for text in labels_of(axes.yaxis))
    assert [line.get_ydata()[0] for line in axes.lines if [*line.get_xdata()] == [0, 1]] == [RECALL["chance"]]


def test_extrapolation(figures):
    n, distance, times = 32, 5, 4
    for axes, positions in zip(figures["extrapolation"].axes, ("sinusoidal", "learned"), strict=True):
        assert axes.get_title(loc="left").startswith(f"{positions} positions")
        for name, kind in EXTRAPOLATION["kinds"].items():
            x, y = curve(axes, name).T
            mean = np.mean(kind[positions]["accuracy"], axis=0)  # of positions 5, 6, ...
            ends = x + 4
            assert n in ends  # no window is half inside what was trained on
            assert (np.diff(ends) == 8).all()
            assert ends[0] - distance <= 8
            assert len(mean) + distance - ends[-1] < 8
            apart(y - [mean[max(int(end) - distance - 8, 0) : int(end) - distance].mean() for end in ends])
        [grey] = axes.patches
        assert (grey.get_x(), grey.get_width()) == (0, n)
        assert axes.get_xlim() == (0, n * times)
    left, right = figures["extrapolation"].axes
    assert left.get_legend() is None
    assert len(right.get_legend().get_texts()) == 4


def test_positions(figures):
    accuracy, weight = (figures["positions"].axes[i : i + 2] for i in (0, 2))
    names = ["sinusoidal", "learned", "rotary", "ALiBi", "no positions"]
    for row, what in ((accuracy, "accuracy"), (weight, "weight")):
        for axes, task in zip(row, POSITIONS["tasks"].values(), strict=True):
            for i, (name, seeds) in enumerate(zip(names, task["kinds"].values(), strict=True)):
                values = np.array([one[what] for one in seeds])
                x, y = curve(axes, name).T
                assert [*x] == POSITIONS["lengths"]
                ranges = [(low, high) for _, low, high in bands(axes)[i]]
                shift = apart(y - values.mean(axis=0))
                np.testing.assert_allclose(ranges, np.array([values.min(0), values.max(0)]).T + shift)
            assert ticks_of(axes.xaxis) == {32: "32", 128: "128"}
            level = [line.get_ydata()[0] for line in axes.lines if [*line.get_xdata()] == [0, 1]]
            assert level == ([task["chance"]] if what == "accuracy" else [])
            assert axes.get_title(loc="left") == (task["title"] if what == "accuracy" else "")
    assert said(figures["positions"].legends[0].get_texts()) == names
    assert accuracy[0].get_ylabel() != weight[0].get_ylabel()
    assert "up to 32" in weight[1].get_xlabel()
    assert not figures["positions of one seed"].axes[0].collections


def test_step_sizes(figures):
    [axes] = figures["step sizes"].axes
    for method, power in (("central", 2), ("extrapolated", 4)):
        np.testing.assert_allclose(curve(axes, method), np.array([STEPS, ERRORS[method]]).T)
        x, theory = curve(axes, f"slope {power}").T
        best = int(np.argmin(ERRORS[method]))
        np.testing.assert_allclose(x, STEPS[best:])
        np.testing.assert_allclose(theory / x**power, theory[-1])
        anchor = best + max(1, (8 - best) // 2)  # where truncation clearly rules
        np.testing.assert_allclose(theory[anchor - best], ERRORS[method][anchor])
    np.testing.assert_allclose(curve(axes, "rounding"), np.array([STEPS, 2.0**-52 / STEPS]).T)
    assert axes.get_title().startswith("softmax")
    [axes] = figures["errors that do not fall"].axes
    assert len(axes.lines) == 4  # no line of a theory
    np.testing.assert_allclose(curve(axes, "exact")[:, 1], 1e-3 / 8)  # 0 has no place on a logarithmic axis
    np.testing.assert_allclose(curve(axes, "rounding")[:, 1], 1e-3 / STEPS)


@pytest.mark.parametrize(
    ("errors", "drawn"), [([1, 0.09, 0.9, 1], True), ([1, 0.11, 0.9, 1], False), ([1, 1, 0.01, 1], False)]
)
def test_only_an_error_that_falls_tenfold_and_rises_again_has_a_theory(errors, drawn):
    figure = saved(step_sizes, np.array([1e-4, 1e-3, 1e-2, 1e-1]), {"central": errors}, PATH)
    assert len(figure.axes[0].lines) == 2 + drawn


# ---------------------------------------------------------------------------------------------------------------------
# Changes, parts and speed


def test_changes(figures):
    [axes] = figures["changes"].axes
    rows = {name: row["ratio"] for name, row in made_up.CHANGES["rows"].items() if row["changes"]}
    left, right = map(float, axes.get_xlim())
    assert labels_of(axes.yaxis) == [*rows]
    looks = {}
    for y, ratio in enumerate(rows.values()):
        lines = [line for line in axes.lines if {*line.get_ydata()} == {y}]
        interval, seeds, mean, *cut = lines
        assert [*interval.get_xdata()] == [ratio["low"], ratio["high"]]
        assert [*seeds.get_xdata()] == ratio["values"]
        assert [*mean.get_xdata()] == [ratio["mean"]]
        assert left < min(ratio["values"]) < max(ratio["values"]) < right
        beyond = [left] * (ratio["low"] < left) + [right] * (ratio["high"] > right)
        assert [line.get_xdata()[0] for line in cut] == pytest.approx(beyond)  # an arrow where an interval is cut
        looks[y] = mean.get_marker(), to_rgba(mean.get_color())
    # Better, open, worse, open: each has a marker and a colour.
    assert looks[1] == looks[3]
    assert len({looks[0], looks[1], looks[2]}) == len({marker for marker, _ in looks.values()}) == 3
    assert [[*line.get_xdata()] for line in axes.lines if [*line.get_ydata()] == [0, 1]] == [[1, 1]]
    assert "(2.000)" in axes.get_xlabel()
    assert "3 seeds" in axes.get_title(loc="left")
    assert "90% confidence" in axes.get_title(loc="left")
    for name in ("changes", "small changes", "changes above the base", "changes twofold"):
        assert 3 <= len(labels_of(figures[name].axes[0].xaxis)) <= 9, name


def test_parts_stand_in_boxes(figures):
    """Each part has its name, its note and the colour of its owner, in the frame of one box."""
    [axes] = figures["parts"].axes
    assert "3 of 7 parts are yours" in axes.texts[0].get_text()
    assert "2 wrong" in axes.texts[0].get_text()
    frames = [patch.get_window_extent() for patch in axes.patches if not patch.get_fill()]
    parts = [patch for patch in axes.patches if patch.get_fill() and patch.get_window_extent().width > 50]
    assert (len(frames), len(parts)) == (5, 7)
    for one, other in itertools.combinations(frames, 2):
        assert not one.overlaps(other)
    fills = {}
    for part in parts:
        box = part.get_window_extent()
        assert any(frame.x0 < box.x0 < box.x1 < frame.x1 and frame.y0 < box.y0 < box.y1 < frame.y1 for frame in frames)
        middles = {text: text.get_window_extent().get_points().mean(0) for text in axes.texts if text.get_text()}
        inside = [text for text, middle in middles.items() if box.contains(*middle)]
        words = {*said(inside)}
        [name] = words & {"mine", "its", "no", "sum"}
        assert words - {name} == {"mine": {"1 ms"}, "its": {"2 ms"}}.get(name, set())
        owner = {"mine": "yours", "sum": "yours"}.get(name, name)
        fills.setdefault(owner, set()).add(part.get_facecolor())
        for text in inside:
            assert not same_color(text.get_color(), part.get_facecolor())
            assert box.x0 < text.get_window_extent().x0 < text.get_window_extent().x1 < box.x1
    assert [len(colours) for colours in fills.values()] == [1, 1, 1]
    assert len(set.union(*fills.values())) == 3
    assert {"ENCODER", "DECODER", "TRAINING", "DECODING"} <= {*said(axes.texts)}
    assert said(axes.texts).count("N layers") == 2


@pytest.mark.parametrize("name", ["speed", "our own speed"])
def test_bars_of_time_and_memory(figures, name):
    result = {"speed": SPEED, "our own speed": OURS}[name]
    time, _, memory = figures[name].axes
    reference = "eager" if name == "speed" else "ours"
    configurations = result["configurations"].values()
    programs = ["ours", "eager", "compiled"] if name == "speed" else ["ours"]
    expected = {"median": [], "peak": []}
    for one, base in ((c["programs"][one], c["programs"][reference]) for one in programs for c in configurations):
        together = [program["times_ours"]["median"] for program in (one, base) if "times_ours" in program]
        times = together if len(together) == 2 else [one["median"], base["median"]]
        expected["median"].append(times[0] / times[1])
        expected["peak"] += [one["peak"] / base["peak"]] if one.get("peak") and base.get("peak") else []
    for axes, what in ((time, "median"), (memory, "peak")):
        tops = [(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in axes.patches]
        assert [height for _, height in tops] == pytest.approx(expected[what])
        np.testing.assert_allclose([text.xy for text in axes.texts if isinstance(text, Annotation)], tops)
        assert labels_of(axes.xaxis) == [*result["configurations"]]
        assert {round(centre) for centre, _ in tops} == {*range(len(configurations))}
        for one, other in itertools.combinations(axes.patches, 2):
            assert not one.get_window_extent().shrunk(0.98, 1).overlaps(other.get_window_extent().shrunk(0.98, 1))
        assert [line.get_ydata()[0] for line in axes.lines] == [1]
    assert said(figures[name].legends[0].get_texts()) == [
        next(c["programs"][one]["label"] for c in configurations) for one in programs
    ]
    first = next(iter(configurations))["programs"]["ours"]["median"]
    assert said(time.texts)[0] == (f"{first:.2f} s" if first >= 1 else f"{1000 * first:.3g} ms")
    assert ("PyTorch" if reference == "eager" else "minitransformer") in time.get_title(loc="left")
    assert memory.texts[0].get_text().endswith("MB" if name == "speed" else "GB")


@pytest.mark.parametrize("name", ["speed", "our own speed"])
def test_where_the_time_goes(figures, name):
    parts, result = figures[name].axes[1], {"speed": SPEED, "our own speed": OURS}[name]
    shares = [c["anatomy"]["shares"] for c in result["configurations"].values()]
    kinds, bars, data = [*shares[0]], iter(parts.patches), parts.transData
    shares_shown = [text for text in parts.texts if not isinstance(text, Annotation)]
    stacked = dict.fromkeys(range(len(shares)), 0.0)
    for kind in kinds:
        for group, share in enumerate(shares):
            bar = next(bars)
            assert (bar.get_y(), bar.get_height()) == pytest.approx((stacked[group], share[kind]))
            assert bar.get_x() + bar.get_width() / 2 == pytest.approx(group)
            stacked[group] += share[kind]
            shown = [
                text.get_text() for text in shares_shown if bar.contains_point(data.transform(text.get_position()))
            ]
            assert shown == ([f"{share[kind]:.0%}"] if share[kind] >= 0.045 else [])
    totals = [text for text in parts.texts if isinstance(text, Annotation)]
    assert [text.xy for text in totals] == [(group, pytest.approx(top)) for group, top in stacked.items()]
    assert said(parts.get_legend().get_texts()) == kinds[::-1]  # as they are stacked
    assert parts.get_xlabel().startswith("one of 3 processes")


def test_what_failed_is_left_out():
    result = distinct(made_up.result())
    result["configurations"]["toy"]["anatomy"]["failed"] = "it is too large"
    bars = pictures.speed_bars(result).axes[1].patches
    assert {round(bar.get_x() + bar.get_width() / 2) for bar in bars} == {1}
    for program in result["configurations"]["toy"]["programs"].values():
        program.pop("median", None)
    assert labels_of(pictures.speed_bars(result).axes[0].xaxis) == ["small"]
    result["configurations"].pop("small")
    with pytest.raises(ValueError, match="speed_bars"):
        pictures.speed_bars(result)
    with pytest.raises(ValueError, match="growth_curves"):
        pictures.growth_curves(GROWTH | {"axes": {"length": {"curves": [{"points": []}]}}})


def test_growth(figures):
    time, unknown, memory, without = figures["growth"].axes
    plain, blocked, again = GROWTH["axes"]["length"]["curves"]
    for axes, what, key, unit in ((time, "time", "seconds", 1e-3), (memory, "memory", "memory", 1e6)):
        for number, one in enumerate((plain, blocked, again)):
            line, theory = axes.lines[2 * number : 2 * number + 2]
            points = [(point["value"], point[key] / unit) for point in one["points"]]
            np.testing.assert_allclose(line.get_xydata(), points)
            power, slope = one[f"{what}_power"], one[f"{what}_slope"]
            assert line.get_label() == f"{one['label']}: slope {slope:.2f}, expected {power}"
            x, y = theory.get_xydata().T
            np.testing.assert_allclose(y / x**power, points[-1][1] / points[-1][0] ** power)  # through the last point
            least = min(value for _, value in points) / 1.5
            all_of_it = [(value, points[-1][1] * (value / points[-1][0]) ** power) for value, _ in points]
            assert [*x] == [value for value, expected in all_of_it if expected > least]
    # A single curve that is plain is not named.
    assert unknown.lines[0].get_label() == "slope 0.00, expected 2"
    assert not without.lines
    assert said(without.texts) == ["not known here"]
    assert [axes.get_title(loc="left") for axes in (time, unknown)] == ["length T", "depth N"]
    assert [*ticks_of(memory.xaxis).values()] == ["64", "128", "256", "512"]
    assert memory.get_xlabel() == "T"
    assert (time.get_ylabel()[-2:], memory.get_ylabel()[-2:]) == ("ms", "MB")
    assert "one core" in figures["growth"].get_suptitle()


# ---------------------------------------------------------------------------------------------------------------------
# Table 1


@pytest.mark.parametrize("name", ["table 1", "paths"])
def test_graphs_have_all_arrows_and_a_shortest_path(figures, name):
    steps = {"self-attention": 1, "recurrent": 3, "convolutional": 1, "restricted self-attention": 2}
    for axes, (kind, row) in zip(figures[name].axes, TABLE["layers"].items(), strict=False):
        arrows = [text for text in axes.texts if isinstance(text, Annotation)]
        ends = [((text.xyann[1], text.xyann[0] - 1), (text.xy[1], text.xy[0] - 1)) for text in arrows]
        path, ends = ends[len(row["graph"]) :], ends[: len(row["graph"])]
        assert ends == [((a, i), (b, j)) for a, i, b, j in row["graph"]]
        depth = max(arrow[2] for arrow in row["graph"])
        assert {*path} <= {*ends}
        assert (path[0][0], path[-1][1]) == ((0, 0), (depth, 2))
        assert all(one[1] == other[0] for one, other in itertools.pairwise(path))
        assert len(path) == steps[kind]
        assert axes.get_title(loc="left").startswith(kind)
        assert f"{steps[kind]} step" in axes.get_xlabel()
        assert "output 3" in axes.get_xlabel()
        assert [len(area.get_offsets()) for area in axes.collections] == [3] * (depth + 1)
        assert labels_of(axes.yaxis) == ["x", *(["y"] if depth == 1 else ["layer 1", "layer 2"])]
        on_path = {end for arrow in path for end in arrow}
        filled = {
            (layer, i)
            for layer, area in enumerate(axes.collections)
            for i, colour in enumerate(area.get_facecolors())
            if not same_color(colour, "white")
        }
        assert filled == on_path


def test_measurements_of_table_1_beside_theory(figures):
    *_, operations, paths, times, gradients = figures["table 1"].axes
    rows = TABLE["layers"].values()
    for axes, measured in (
        (operations, lambda row: [(p["n"], p["operations"]) for p in row["operations"]["points"] if p["d"] == 4]),
        (times, lambda row: [(p["n"], 1000 * p["seconds"]) for p in row["time"]["points"]]),
        (paths, lambda row: [(p["n"], p["steps"]) for p in row["path"]["points"]]),
    ):
        for number, row in enumerate(rows):
            theory, line = axes.lines[2 * number : 2 * number + 2]
            np.testing.assert_allclose(line.get_xydata(), measured(row))
            x, y = theory.get_xydata().T
            if axes is paths and "log_k n" in row["theory"]["path"]:
                expected = np.log2(x)
            else:
                expected = x ** row["theory"]["path" if axes is paths else "operations"].get("n", 0)
            np.testing.assert_allclose(y / expected, line.get_ydata()[-1] / expected[-1])
        assert [*ticks_of(axes.xaxis).values()] == ["4", "8", "16"]
        assert len(axes.get_legend().get_texts()) == 4
    for row, line in zip(rows, gradients.lines, strict=True):
        np.testing.assert_array_equal(line.get_xydata(), [*enumerate(row["gradients"]["norms"])])
    slopes, speeds, named = (said(axes.get_legend().get_texts()) for axes in (operations, times, paths))
    assert slopes == [f"n^{row['operations']['fit']['n']:.2f}" for row in rows]
    assert speeds == [f"n^{row['time']['slope']:.2f}" for row in rows]
    for text, row in zip(named, rows, strict=True):
        assert f"{next(iter(row['path']['fit'].values())):.2f}" in text
    assert ["drawn for" in text for text in named] == [False, False, True, True]
