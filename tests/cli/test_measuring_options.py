"""The options of the measuring commands reach what measures, and what was measured is shown, written and drawn."""

import inspect
import json
from importlib import import_module
from pathlib import Path

import pytest
from toml_cases import cases_from_toml

from minitransformer.apps.cli import main
from minitransformer.apps.paper import recall
from minitransformer.apps.paper.positions import PositionsSizes
from minitransformer.apps.paper.recall_model import RecallSizes

pytestmark = pytest.mark.numpy_only("measures the processor")


class Asked(Exception):
    """What a command asks for, in place of an answer."""


def asked(monkeypatch, line, place):
    """Return the arguments of a function, by their names, that a command calls."""
    module, name = f"minitransformer.apps.cli.{place}".rsplit(".", 1)
    module = import_module(module.removesuffix(".bench")).bench if place.count(".") == 2 else import_module(module)
    signature = inspect.signature(getattr(module, name))

    def measure(*values, **options):
        raise Asked(signature.bind(*values, **options).arguments)

    monkeypatch.setattr(module, name, measure)
    with pytest.raises(Asked) as found:
        main(line.split())
    return found.value.args[0]


@cases_from_toml
def test_an_option_reaches_what_measures(monkeypatch, line, place, arguments):
    found = {name: str(one) if isinstance(one, Path) else one for name, one in asked(monkeypatch, line, place).items()}
    assert {name: found.get(name) for name in arguments} == arguments


@pytest.mark.parametrize("steps", [None, 7])
def test_positions_are_measured_at_the_sizes_of_the_guide(monkeypatch, steps):
    given = "" if steps is None else f" --steps {steps}"
    sizes = asked(monkeypatch, f"extrapolation{given}", "extrapolation.measure_positions")["sizes"]
    assert sizes == (PositionsSizes() if steps is None else PositionsSizes(steps=steps))


def test_layers_are_measured_at_sizes_of_their_own(monkeypatch):
    assert asked(monkeypatch, "recall", "recall.measure_recall")["sizes"] == RecallSizes()
    found = asked(monkeypatch, "extrapolation --layers", "extrapolation.measure_extrapolation")
    assert found["sizes"] == recall.LONGER


@pytest.mark.parametrize(("rows", "groups"), [("A", {"A"}), ("e C", {"C", "E"}), ("", {*"ABCDE"})])
def test_the_rows_of_table_3_are_the_base_and_those_asked_for(monkeypatch, rows, groups):
    found = asked(monkeypatch, f"table3 {rows} --steps 7 --seeds 0 1 --out here", "table3.train_variations")
    assert (found["root"], found["seeds"]) == (Path("here"), [0, 1])
    assert {name[0].upper() for name in found["variations"]} - {"B"} == groups - {"B"}
    assert "base" in found["variations"]
    assert {one.training.steps for one in found["variations"].values()} == {7}


def test_what_was_measured_is_shown_written_and_drawn(measured, tmp_path, capsys):
    figures, picture = tmp_path / "figures.json", tmp_path / "picture.png"
    for line, found in measured.items():
        has_picture = line not in ("bench --decode", "bench --processes")
        assert main([*line.split(), "--json", str(figures), *["--plot", str(picture)] * has_picture]) == 0
        out = capsys.readouterr().out
        assert json.loads(figures.read_text()) == json.loads(json.dumps(found))
        assert len(out.splitlines()) > 5
        assert str(figures) in out
        assert (str(picture) in out) == has_picture
        assert not has_picture or picture.read_bytes().startswith(b"\x89PNG")
        picture.unlink(missing_ok=True)
