"""The commands ``paths``, ``recall`` and ``extrapolation``, from the first word to the picture, at small sizes."""

import json
from functools import partial

import numpy as np
import pytest

from minitransformer.cli import main
from minitransformer.paper import paths
from minitransformer.paper.extrapolation import measure_extrapolation
from minitransformer.paper.recall import measure_recall
from minitransformer.paper.recall_model import RecallSizes

pytestmark = pytest.mark.numpy_only("experiments, on the processor")

KINDS = ["self-attention", "recurrent", "convolutional", "restricted self-attention"]
TINY = RecallSizes(symbols=5, n=12, d=8, k=3, r=3, batch=4, steps=3, warmup=2, fresh=6)


def run(tmp_path, capsys, command):
    """Return what a command prints, and what it writes into its files."""
    figures, picture = tmp_path / "figures.json", tmp_path / "picture.png"
    assert main([command, "--json", str(figures), "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    out = capsys.readouterr().out.partition("\n\nthe figures are in")[0]
    assert max(map(len, out.splitlines())) <= 100
    return out, json.loads(figures.read_text())


def test_paths(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(paths, "CHAINS", (4, 8, 16))
    monkeypatch.setattr(paths, "FAR", paths.FAR._replace(n=16))
    out, result = run(tmp_path, capsys, "paths")
    assert "recurrent                  n       n^1.00      16    n        n^1.00             16       1" in out
    assert "convolutional              1       n^0.00       1    log_k n  1.00 log_k n        2       2" in out
    assert list(result["layers"]) == KINDS


def test_recall(monkeypatch, tmp_path, capsys):
    def measure(sizes, tell):
        assert sizes == RecallSizes()
        return measure_recall(TINY, tell, distances=(1, 9), rates=(0.01,), seeds=(0, 1))

    monkeypatch.setattr("minitransformer.cli.recall.measure_recall", measure)
    out, result = run(tmp_path, capsys, "recall")
    assert "chance is 20 %" in out
    assert "Reach: convolutional 8, restricted self-attention 6 positions back; the others see all." in out
    accuracy = [100 * a for a in result["kinds"]["self-attention"]["points"][1]["accuracy"]]
    assert f"  9  {sum(accuracy) / 2:.1f} ({min(accuracy):.1f} to {max(accuracy):.1f})" in out


def test_extrapolation(monkeypatch, tmp_path, capsys):
    measure = partial(measure_extrapolation, distance=2, times=3, rates=(0.01,), seeds=(0, 1))
    monkeypatch.setattr("minitransformer.cli.extrapolation.measure_extrapolation", measure)
    monkeypatch.setattr("minitransformer.cli.extrapolation.SIZES", TINY)
    out, result = run(tmp_path, capsys, "extrapolation")
    assert "trained on sentences of 12 symbols, tested on 36; chance is 20 %" in " ".join(out.split())
    accuracy = 100 * np.array(result["kinds"]["recurrent"]["learned"]["accuracy"])
    inside, beyond = accuracy[:, :10].mean(), accuracy[:, 10:].mean()
    (line,) = (line for line in out.splitlines() if line.startswith("recurrent"))
    assert line.split()[3:] == [f"{inside:.1f}", f"{beyond:.1f}"]


@pytest.mark.parametrize("command", ["paths", "recall", "extrapolation"])
def test_bad_input_is_refused_before_the_measuring_begins(monkeypatch, tmp_path, capsys, command):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(f"minitransformer.cli.{command}.measure_{command}", pytest.fail)
    assert main([command, "--plot", "picture.txt"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"minitransformer {command}: --plot writes .png, .pdf, .svg, found picture.txt")
    assert captured.out == ""
