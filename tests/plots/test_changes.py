"""The picture of the changes since the paper, from results that are made up."""

from made_up import CHANGES

from minitransformer.apps.plots import changes_picture, save


def test_a_png_is_written(tmp_path):
    save(changes_picture(CHANGES), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
