"""The command ``minitransformer measure speed``, at sizes that take no time."""

import json

import pytest

from minitransformer.apps.cli import main
from minitransformer.apps.measure.speed import CONFIGURATIONS, Workload, turns

pytestmark = pytest.mark.numpy_only("measures the processor")

TINY = Workload().changed(d_model=8, n_heads=2, n_layers=1, d_ff=12, vocabulary=11, batch=4, length=5)
PNG = b"\x89PNG\r\n\x1a\n"


def test_a_configuration_from_the_first_word_to_the_picture(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(CONFIGURATIONS, "toy", TINY)
    monkeypatch.setattr(turns, "TURN", 0.05)
    figures, picture = tmp_path / "new" / "speed.json", tmp_path / "speed.png"
    arguments = ["--rounds", "1", "--no-pytorch", "--workers", "2", "--json", str(figures), "--plot", str(picture)]
    assert main(["measure", "speed", "toy", *arguments]) == 0
    out = capsys.readouterr().out
    assert "toy: D 8, H 2, N 1, F 12, V 11; 4 x 5 tokens" in out
    assert "where the time goes: one of 2 processes, alone, 2 sentences" in out
    assert "autograd and Python" in out
    assert picture.read_bytes().startswith(PNG)
    found = json.loads(figures.read_text())["configurations"]["toy"]
    assert found["programs"].keys() == {"ours"}
    assert len(found["programs"]["ours"]["seconds"]) == 1
    assert found["anatomy"]["failed"] is None
    assert found["anatomy"]["flops"] == sum(p["times"] * p["flops"] for p in found["anatomy"]["products"])
