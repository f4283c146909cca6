"""The options of the measuring commands reach what measures, and what was measured is shown, written and drawn."""

import inspect
import json
from pathlib import Path

import pytest
from made_up import MACHINE
from toml_cases import cases_from_toml

from minitransformer.apps.cli import main, measure
from minitransformer.apps.measure import recall
from minitransformer.apps.measure.positions import PositionsSizes
from minitransformer.apps.measure.recall_model import RecallSizes

pytestmark = pytest.mark.numpy_only("measures the processor")


class Asked(Exception):
    """What a command asks for, in place of an answer."""


def asked(monkeypatch, line, name):
    """Return the arguments of a function of ``cli.measure``, by their names, that a command calls."""
    place = measure.speed if hasattr(measure.speed, name) else measure
    signature = inspect.signature(getattr(place, name))

    def answer(*values, **options):
        raise Asked(signature.bind(*values, **options).arguments)

    monkeypatch.setattr(place, name, answer)
    with pytest.raises(Asked) as found:
        main(["measure", *line.split()])
    return found.value.args[0]


@cases_from_toml
def test_an_option_reaches_what_measures(monkeypatch, line, function, arguments):
    found = {
        name: str(one) if isinstance(one, Path) else one for name, one in asked(monkeypatch, line, function).items()
    }
    assert {name: found.get(name) for name in arguments} == arguments


@pytest.mark.parametrize("steps", [None, 7])
def test_positions_are_measured_at_the_sizes_of_the_guide(monkeypatch, steps):
    given = "" if steps is None else f" --steps {steps}"
    sizes = asked(monkeypatch, f"extrapolation{given}", "measure_positions")["sizes"]
    assert sizes == (PositionsSizes() if steps is None else PositionsSizes(steps=steps))


def test_layers_are_measured_at_sizes_of_their_own(monkeypatch):
    assert asked(monkeypatch, "recall", "measure_recall")["sizes"] == RecallSizes()
    found = asked(monkeypatch, "extrapolation --layers", "measure_extrapolation")
    assert found["sizes"] == recall.LONGER


def test_what_was_measured_is_shown_written_and_drawn(measured, monkeypatch, tmp_path, capsys):
    figures, picture = tmp_path / "figures.json", tmp_path / "picture.png"
    monkeypatch.setattr(measure, "describe", lambda: MACHINE)
    for line, found in measured.items():
        has_picture = line not in ("measure decoding", "measure speed --processes", "measure table3")
        assert main([*line.split(), "--json", str(figures), *["--plot", str(picture)] * has_picture]) == 0
        out = capsys.readouterr().out
        assert json.loads(figures.read_text()) == json.loads(json.dumps(found | {"machine": MACHINE}))
        assert len(out.splitlines()) > 5
        assert str(figures) in out
        assert (str(picture) in out) == has_picture
        assert not has_picture or picture.read_bytes().startswith(b"\x89PNG")
        picture.unlink(missing_ok=True)
