"""The command ``minitransformer table1``, from the first word to the picture, at sizes that take no time."""

import json
import re

import pytest

from minitransformer.apps.cli import main
from minitransformer.apps.paper import costs, paths, table1
from minitransformer.apps.paper.layers import LayerSizes

pytestmark = pytest.mark.numpy_only("measures the processor")


def test_from_the_first_word_to_the_picture(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(table1, "ENOUGH", 0.001)
    monkeypatch.setattr(table1, "TIMED", (64, 128, 256))
    monkeypatch.setattr(paths, "CHAINS", (4, 8, 16))
    for module in (paths, table1):
        monkeypatch.setattr(module, "FAR", LayerSizes(n=16, d=8, k=4, r=4))
    monkeypatch.setattr(table1, "GRID", {"n": (64, 128), "d": (32, 64), "k": (3, 5), "r": (8, 16)})
    monkeypatch.setattr(table1, "DRAWS", 1)
    monkeypatch.setattr(costs, "GRID", {"n": (32, 64), "d": (32, 64), "k": (3, 5)})
    monkeypatch.setattr(costs, "ENOUGH", 0.0001)
    monkeypatch.setattr(costs, "TIMED", (16, 64))
    monkeypatch.setattr(costs, "TURNS", 3)
    monkeypatch.setattr(table1, "EXAMPLE", LayerSizes(256, 32, 5, 16))
    figures, picture = tmp_path / "new" / "table1.json", tmp_path / "table1.png"
    assert main(["table1", "--json", str(figures), "--plot", str(picture)]) == 0
    out = capsys.readouterr().out
    assert "convolutional              k n d²   k^" in out
    assert "log_k n  1.00 log_k n" in out
    assert "n / r    n^1.00 r^-1.00" in out
    assert "separable convolution            k n d + n d²   2.00 k n d + 2.00 n d²" in out
    assert "convolutional / recurrent        k              0.4" in out
    assert "H heads / 1 head, only products  1              1.000 at H 2, 1.000 at H 4, 1.000 at H 8" in out
    assert re.search(r"^ +1\.00 at n +3\d ", out, re.M)  # of operations, where n = d
    assert max(map(len, out.partition("\n\nthe figures are in")[0].splitlines())) <= 100
    rows = json.loads(figures.read_text())["layers"]
    assert list(rows) == ["self-attention", "recurrent", "convolutional", "restricted self-attention"]
    assert rows["recurrent"]["sequential"]["points"][-1] == {"n": 16, "steps": 16}
    assert picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_a_gpu_has_nothing_to_count(monkeypatch, capsys):
    monkeypatch.setattr("minitransformer.apps.cli.table1.backend", lambda: "cupy")
    monkeypatch.setattr("minitransformer.apps.cli.table1.measure_table1", pytest.fail)
    assert main(["table1"]) == 2
    words = "operations are counted and timed on the processor, found the array library cupy; choose numpy"
    assert capsys.readouterr().err == f"minitransformer table1: {words}\n"
