"""The picture of attention heads, from results that are made up."""

import pytest
from made_up import HEADS

from minitransformer.apps.plots import heads_picture, save


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_file_is_written(tmp_path, ending):
    save(heads_picture(HEADS), tmp_path / f"heads.{ending}")
    assert (tmp_path / f"heads.{ending}").stat().st_size > 1000
