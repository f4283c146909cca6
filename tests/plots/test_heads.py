"""The picture of attention heads, from results that are made up."""

import numpy as np
import pytest
from made_up import BEFORE, HEADS, OWN, SPREAD

from minitransformer.apps.plots import heads_picture, save


def test_each_head_is_a_row_and_a_missing_layer_stays_empty():
    top, cross, below, empty = heads_picture(HEADS).axes[:4]
    assert [axes.get_title(loc="left") for axes in (top, cross, below)] == [
        "encoder self-attention, layer 1", "cross-attention, layer 1", "encoder self-attention, layer 2",
    ]  # fmt: skip
    assert not empty.get_visible()
    for axes, rows in ((top, [OWN, SPREAD]), (below, [SPREAD, BEFORE]), (cross, [BEFORE, OWN])):
        (image,) = axes.get_images()
        assert np.asarray(image.get_array()).tolist() == rows
        assert image.get_clim() == (0, 1)
        assert [label.get_text() for label in axes.get_yticklabels()] == ["head 1", "head 2"]
    assert [label.get_text() for label in top.get_xticklabels()] == ["-2", "0", "+2"]


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_file_is_written(tmp_path, ending):
    save(heads_picture(HEADS), tmp_path / f"heads.{ending}")
    assert (tmp_path / f"heads.{ending}").stat().st_size > 1000
