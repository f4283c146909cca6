"""The commands ``paths``, ``recall`` and ``extrapolation``, from the first word to the picture, at small sizes."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from minitransformer.apps.cli import main
from minitransformer.apps.paper import paths
from minitransformer.apps.paper.positions import PositionsSizes, measure_positions
from minitransformer.apps.paper.recall import measure_extrapolation, measure_recall
from minitransformer.apps.paper.recall_model import RecallSizes

pytestmark = pytest.mark.numpy_only("experiments, on the processor")

KINDS = ["self-attention", "recurrent", "convolutional", "restricted self-attention"]
TINY = RecallSizes(symbols=5, n=12, d=8, k=3, r=3, batch=4, steps=3, warmup=2, fresh=6)
SHORT = PositionsSizes(n=12, times=(1, 1.25, 4), d_model=8, n_heads=2, n_layers=1, d_ff=8, batch=4, fresh=5)


def run(tmp_path, capsys, *command):
    """Return what a command prints, and what it writes into its files."""
    figures, picture = tmp_path / "figures.json", tmp_path / "picture.png"
    assert main([*command, "--json", str(figures), "--plot", str(picture)]) == 0
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

    monkeypatch.setattr("minitransformer.apps.cli.recall.measure_recall", measure)
    out, result = run(tmp_path, capsys, "recall")
    accuracy = [100 * a for a in result["kinds"]["self-attention"]["points"][1]["accuracy"]]
    assert f"  9  {sum(accuracy) / 2:.1f} ({min(accuracy):.1f} to {max(accuracy):.1f})" in out


def test_extrapolation_of_layers(monkeypatch, tmp_path, capsys):
    measure = partial(measure_extrapolation, distance=2, times=3, rates=(0.01,))
    monkeypatch.setattr("minitransformer.apps.cli.extrapolation.measure_extrapolation", measure)
    monkeypatch.setattr("minitransformer.apps.cli.extrapolation.LONGER", TINY)
    out, result = run(tmp_path, capsys, "extrapolation", "--layers", "--seeds", "0", "1")
    assert "trained on sentences of 12 symbols, tested on 36; chance is 20 %" in " ".join(out.split())
    accuracy = 100 * np.array(result["kinds"]["recurrent"]["learned"]["accuracy"])
    inside, beyond = accuracy[:, :10].mean(), accuracy[:, 10:].mean()
    (line,) = (line for line in out.splitlines() if line.startswith("recurrent"))
    assert line.split()[3:] == [f"{inside:.1f}", f"{beyond:.1f}"]


def test_extrapolation_of_positions(monkeypatch, tmp_path, capsys):
    given = []

    def measure(sizes, tell, **options):
        given.append((sizes.steps, options.pop("folder")))
        return measure_positions(replace(SHORT, steps=sizes.steps), tell, **options)

    monkeypatch.setattr("minitransformer.apps.cli.extrapolation.measure_positions", measure)
    arguments = "--steps 2 --tasks recall copy --positions rotary none rotary --seeds 5 0"
    out, result = run(tmp_path, capsys, "extrapolation", *arguments.split())
    assert given == [(2, Path("runs/extrapolation"))]
    assert result["seeds"] == [5, 0]
    assert {*result["tasks"]} == {"recall", "copy"}
    recall = result["tasks"]["recall"]["kinds"]
    assert {*recall} == {"rotary", "none"}
    assert "recall of the symbol 4 positions back; chance is 12.5 %" in out
