"""What tests of commands share."""

import io
import sys

import pytest

from minitransformer.apps.cli import main


@pytest.fixture(scope="module", autouse=True)
def short_translations():
    """Let models that are hardly trained, and find no end, write a few tokens or characters only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("minitransformer.decoding.search.MORE_THAN_SOURCE", 5)
        patch.setattr("minitransformer.apps.cli.text_runs.SHOWN", 20)
        yield


@pytest.fixture(scope="session")
def small_run(tmp_path_factory):
    """A run that nobody may change: the weights after one step of learning to reverse digits."""
    folder = tmp_path_factory.mktemp("small") / "run"
    sizes = "--d-model 8 --n-heads 2 --n-layers 1 --d-ff 8 --steps 1 --batch-tokens 64 --train-pairs 40 --held-out 4"
    assert main(["train", "reverse", *sizes.split(), "--workers", "1", "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def standard_input(monkeypatch):
    """Let the command read these bytes as its standard input."""

    def give(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))

    return give


@pytest.fixture
def told(capsys):
    """Return a function that runs a command and returns its status, output and errors."""

    def run(*words):
        capsys.readouterr()
        try:
            status = main([f"{word}" for word in words])
        except SystemExit as ended:  # argparse prints helps and refuses words that it does not know
            status = ended.code
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def refused(told):
    """Return a function that runs a command, which must be refused, and returns the one line that says why."""

    def run(*words):
        status, out, err = told(*words)
        assert (status, out, err[-1:]) == (2, "", "\n"), words
        usage, _, message = err[:-1].rpartition("\n")
        assert not usage or usage.startswith("usage: "), words
        assert message.startswith("minitransformer"), words
        return message

    return run


@pytest.fixture
def measured(monkeypatch):
    """Let the measuring commands find what is made up; return it, by their command lines."""
    import made_up  # loads much

    places = {
        "speed": ("speed.measure_speed", made_up.result()),
        "speed --growth": ("speed.measure_growth", made_up.growth()),
        "speed --processes": ("speed.measure_processes", made_up.processes()),
        "decoding": ("speed.measure_decoding", made_up.decoding()),
        "table1": ("measure_table1", made_up.table1() | {"costs": made_up.COSTS}),
        "paths": ("measure_paths", made_up.table1()),
        "recall": ("measure_recall", made_up.RECALL),
        "extrapolation": ("measure_positions", made_up.POSITIONS),
        "extrapolation --layers": ("measure_extrapolation", made_up.EXTRAPOLATION),
        "table3": ("measure_table3", made_up.table3()),
        "changes": ("measure_changes", made_up.CHANGES),
    }
    for place, found in places.values():
        monkeypatch.setattr(f"minitransformer.apps.cli.measure.{place}", lambda *_, found=found, **__: found)
    return {f"measure {line}": found for line, (_, found) in places.items()}
