"""The picture of Table 1, from a result that is made up."""

import made_up
import pytest

from minitransformer.apps.plots import paths_picture, save, table1_picture


def test_graphs_and_growth():
    figure = table1_picture(made_up.table1())
    figure.draw_without_rendering()
    *graphs, operations, paths, times, gradients = figure.axes
    assert [axes.get_title(loc="left") for axes in graphs] == [
        "self-attention", "recurrent", "convolutional, k 3", "restricted self-attention, r 1",
    ]  # fmt: skip
    assert [axes.get_xlabel() for axes in graphs] == [
        "1 layer; from input 1 to output 3: 1 step",
        "1 layer; from input 1 to output 3: 3 steps",
        "1 layer; from input 1 to output 3: 1 step",
        "2 layers; from input 1 to output 3: 2 steps",
    ]
    # For each layer what theory expects, through the last point of what was measured.
    for axes in (operations, paths, times):
        assert len(axes.lines) == 8
        for theory, measured in zip(axes.lines[::2], axes.lines[1::2], strict=True):
            assert theory.get_ydata()[-1] == pytest.approx(measured.get_ydata()[-1])
    assert operations.lines[0].get_ydata()[0] == pytest.approx(operations.lines[1].get_ydata()[0])
    assert [text.get_text() for text in paths.get_legend().get_texts()] == [
        "n^0.00", "n^1.00", "1.00 log_k n, drawn for k 2", "n^1.00, drawn for r 2",
    ]  # fmt: skip
    assert [len(line.get_xdata()) for line in gradients.lines] == [3] * 4


def test_paths_are_drawn_from_their_own_result(tmp_path):
    result = made_up.table1()
    rows = {name: {key: row[key] for key in ("theory", "path", "graph")} for name, row in result["layers"].items()}
    only_paths = {"far": result["far"], "drawn": result["drawn"], "layers": rows}
    save(paths_picture(only_paths), tmp_path / "paths.png")
    assert (tmp_path / "paths.png").read_bytes().startswith(b"\x89PNG")
