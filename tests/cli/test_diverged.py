"""Weights that are finite but have gone wild: told in a line by whatever uses them, never a traceback."""

import numpy as np
import pytest

from minitransformer.apps.cli import main

WILD = [
    *("copy", "--d-model", "8", "--n-heads", "2", "--n-layers", "1", "--d-ff", "8", "--batch-tokens", "64"),
    *("--train-pairs", "60", "--held-out", "4", "--warmup-steps", "1", "--average-last", "1"),
    *("--learning-rate-factor", "1e22", "--steps", "2", "--save-every", "1"),
]


@pytest.fixture(scope="module")
def wild(tmp_path_factory):
    """A run whose first step has thrown the weights far off, and whose second one is NaN."""
    folder = tmp_path_factory.mktemp("wild") / "run"
    with np.errstate(all="ignore"):
        assert main(["train", *WILD, "--out", str(folder)]) == 1
    return folder


@pytest.mark.parametrize("words", [["resume"], ["evaluate"], ["translate"], ["translate", "--beam", "3"]])
def test_it_is_said_in_a_line(wild, capsys, words):
    name, *options = words
    text = ["12"] if name == "translate" else []
    with np.errstate(all="ignore"):
        assert main([name, str(wild), *options, *text]) == 1
    said = capsys.readouterr()
    assert f"minitransformer {name}: " in said.err
    assert "loss: nan" not in said.out
