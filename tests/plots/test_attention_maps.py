import subprocess
import sys
import warnings

import numpy as np
import pytest
from matplotlib import image

from minitransformer.apps.plots import attention_map, attention_maps
from minitransformer.apps.plots.attention import map_figure, maps_figure

SOURCE = ["four", "hundred", "and", "thirty", "-", "two", "<end>"]
TARGET = ["vier", "hundert", "zwei", "und", "dreißig", "<end>"]


def weights(rng, *shape):
    raw = rng.random(shape)
    return raw / raw.sum(-1, keepdims=True)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def maps(rng):
    s, t = len(SOURCE), len(TARGET)
    # Not in the order of drawing.
    return {
        "decoder": [weights(rng, 3, t, t) for _ in range(2)],
        "encoder": [weights(rng, 3, s, s) for _ in range(2)],
        "cross": [weights(rng, 3, t, s) for _ in range(2)],
    }


def labels(ticks):
    return [tick.get_text() for tick in ticks]


def test_every_head_is_drawn_in_order(maps):
    *panels, bar = maps_figure(maps, SOURCE, TARGET).axes
    expected = [head for kind in ("cross", "encoder", "decoder") for layer in maps[kind] for head in layer]
    assert len(panels) == len(expected) == 18
    for panel, head in zip(panels, expected, strict=True):
        (drawn,) = panel.get_images()
        np.testing.assert_array_equal(drawn.get_array(), head)
        assert drawn.get_clim() == (0, 1)
    # Reading order: down the page by layer, then across by head.
    places = [(-round(p.get_position().y0, 6), round(p.get_position().x0, 6)) for p in panels]
    assert places == sorted(places)
    assert bar.get_ylabel() == "attention weight"


def test_spaces_and_dollars_are_drawn_as_they_are(rng):
    figure = maps_figure({"encoder": [weights(rng, 1, 3, 3)]}, ["a b", " ", "$x$"], ["?"])
    assert labels(figure.axes[0].get_yticklabels()) == ["a␣b", "␣", "$x$"]
    assert not figure.axes[0].get_yticklabels()[2].get_parse_math()


def test_files_are_written(maps, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "no installed font")
        attention_maps({"cross": maps["cross"]}, SOURCE, TARGET, tmp_path / "new" / "maps.png")
        attention_map(maps["cross"][0][0], SOURCE, ["사백", "삼십", "이", "四", " ", "<end>"], tmp_path / "plain")
    for name in ("new/maps.png", "plain"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        picture = image.imread(tmp_path / name, format="png")
        assert min(picture.shape[:2]) > 300
        assert picture[..., :3].std() > 0.05


def test_crossing_marks_the_strongest():
    source, target = ["twenty", "-", "one"], ["ein", "und", "zwanzig"]
    table = np.array([[0.1, 0.1, 0.8], [0.3, 0.4, 0.3], [0.5, 0.5, 0.0]])
    axes, bar = map_figure(table, source, target, "crossing").axes
    np.testing.assert_array_equal(axes.get_images()[0].get_array(), table)
    # The last row has two equals and so no mark. White on dark, black on light.
    marks = [(*line.get_xydata()[0], line.get_color()) for line in axes.get_lines()]
    assert marks == [(2, 0, "white"), (1, 1, "black")]
    assert labels(axes.get_xticklabels()) == source
    assert labels(axes.get_yticklabels()) == target
    assert axes.yaxis.get_inverted()  # the first word on top
    assert bar.get_ylabel() == "attention weight"


def test_nothing_global_changes():
    # Reading "backend" would itself choose one and load pyplot.
    code = (
        "import sys; from matplotlib import rcParams;"
        "read = lambda: {k: rcParams[k] for k in set(rcParams) - {'backend'}}; before = read();"
        "import numpy as np; from minitransformer.apps.plots.attention import map_figure;"
        "map_figure(np.eye(2), ['a', 'b'], ['c', 'd']);"
        "assert read() == before; assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
