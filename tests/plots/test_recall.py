"""The pictures of recall and extrapolation, from results that are made up."""

import pytest
from made_up import EXTRAPOLATION, RECALL

from minitransformer.apps.plots import extrapolation_picture, recall_picture, save


@pytest.mark.parametrize(("picture", "result"), [(recall_picture, RECALL), (extrapolation_picture, EXTRAPOLATION)])
def test_a_png_is_written(tmp_path, picture, result):
    save(picture(result), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
