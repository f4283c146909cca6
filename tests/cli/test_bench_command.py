"""The command ``minitransformer bench``, at sizes that take no time."""

import json

import pytest

from minitransformer.apps.bench import CONFIGURATIONS, Workload, growth, turns
from minitransformer.apps.cli import main

pytestmark = pytest.mark.numpy_only("measures the processor")

TINY = Workload().changed(d_model=8, n_heads=2, n_layers=1, d_ff=12, vocabulary=11, batch=4, length=5)
PNG = b"\x89PNG\r\n\x1a\n"


def test_a_configuration_from_the_first_word_to_the_picture(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(CONFIGURATIONS, "toy", TINY)
    monkeypatch.setattr(turns, "TURN", 0.05)
    figures, picture = tmp_path / "new" / "speed.json", tmp_path / "speed.png"
    arguments = ["--rounds", "1", "--no-pytorch", "--workers", "2", "--json", str(figures), "--plot", str(picture)]
    assert main(["bench", "toy", *arguments]) == 0
    out = capsys.readouterr().out
    assert "toy: D 8, H 2, N 1, F 12, V 11; 4 x 5 tokens" in out
    assert "where the time goes: one of 2 workers, alone, 2 sentences" in out
    assert "autograd and Python" in out
    assert picture.read_bytes().startswith(PNG)
    found = json.loads(figures.read_text())["configurations"]["toy"]
    assert found["programs"].keys() == {"ours"}
    assert len(found["programs"]["ours"]["seconds"]) == 1
    assert found["anatomy"]["failed"] is None
    assert found["anatomy"]["flops"] == sum(p["times"] * p["flops"] for p in found["anatomy"]["products"])


def test_growth_from_the_first_word_to_the_picture(monkeypatch, tmp_path, capsys):
    length = growth.AXES["length"]
    for name in list(growth.AXES):
        monkeypatch.delitem(growth.AXES, name)
    few = growth.Axis("T", TINY, (3, 6), length.varied, length.curves[:2])
    monkeypatch.setitem(growth.AXES, "length", few)

    def point(workload, workers, value):  # `tests/bench/test_programs.py` measures some
        assert (workload.length, workers) == (value, 1)
        memory = 10**5 * value
        return {"value": value, "seconds": 0.01 * value**2, "resident": 10**8, "peak": 10**8 + memory, "memory": memory}

    monkeypatch.setattr(growth, "_point", point)
    picture = tmp_path / "growth.png"
    assert main(["bench", "--scale", "--plot", str(picture)]) == 0
    out = capsys.readouterr().out
    assert "slopes: time 2.00 (2), memory 1.00 (2)" in out
    assert picture.read_bytes().startswith(PNG)


def test_decoding_from_the_first_word_to_the_figures(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(CONFIGURATIONS, "toy", TINY)
    monkeypatch.setattr(turns, "TURN", 0.05)
    figures = tmp_path / "decoding.json"
    assert main(["bench", "toy", "--decode", "--rounds", "1", "--no-pytorch", "--json", str(figures)]) == 0
    assert "toy: D 8, H 2, N 1, F 12, V 11; 4 x 5 tokens to read, 15 to write" in capsys.readouterr().out
    searches = json.loads(figures.read_text())["decoding"]["toy"]["searches"]
    assert searches.keys() == {"greedy", "beam"}
    for found in searches.values():
        ours = found["programs"]["ours"]
        assert ours["tokens_per_second"] == ours["tokens"] / ours["median"]
        assert found["agreement"] is None
    assert searches["greedy"]["programs"]["ours"]["tokens"] == 4 * 15


def test_processes_need_an_mpi(monkeypatch, capsys):
    monkeypatch.setattr("minitransformer.apps.bench.scaling.find_spec", lambda name: None)
    assert main(["bench", "--processes"]) == 2
    assert 'install it with `pip install "minitransformer[mpi]"`' in capsys.readouterr().err
