"""The picture of the changes since the paper, from results that are made up."""

from matplotlib.figure import Figure

from minitransformer.plots import changes_picture
from minitransformer.plots.changes import COLOURS, MARGIN, draw_changes


def row(*values, low, high):
    mean = sum(values) / len(values)
    return {"changes": {"norm": "pre"}, "difference": {"values": values, "mean": mean, "low": low, "high": high}}


RESULT = {
    "title": "numbers", "measure": "bits per token", "seeds": [0, 1, 2], "level": 0.95,
    "rows": {
        "base": {"changes": {}, "bits": [1.0, 2.0, 3.0]},
        "pre-norm": row(-3, -2, -1, low=-2.5, high=-1.5),
        "GELU": row(-1, 0, 1, low=-2, high=2),
        "ALiBi": row(0, 2, 4, low=0.5, high=9),
    },
}  # fmt: skip


def test_rows_intervals_and_colours():
    axes = Figure().add_subplot()
    draw_changes(axes, RESULT)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["pre-norm", "GELU", "ALiBi"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first row is on top
    intervals = [line for line in axes.lines if line.get_linewidth() == 2.2]
    assert [list(line.get_xdata()) for line in intervals] == [[-2.5, -1.5], [-2, 2], [0.5, 9]]
    assert [line.get_color() for line in intervals] == [COLOURS[-1], COLOURS[0], COLOURS[1]]
    assert axes.get_xlim() == (-4 * MARGIN, 4 * MARGIN)
    arrows = [line for line in axes.lines if line.get_marker() in ("<", ">")]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in arrows] == [(4 * MARGIN, 2)]  # 9 is outside
    assert "from the base (2.000)" in axes.get_xlabel()


def test_a_png_is_written(tmp_path):
    changes_picture(RESULT, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
