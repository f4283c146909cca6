"""Values that a stranger wrote into a run folder are not told as options of the command line."""

import json
import re
import shutil

import pytest

from minitransformer.apps.cli import main
from minitransformer.console import counted


@pytest.fixture
def run(small_run, tmp_path):
    return shutil.copytree(small_run, tmp_path / "run")


def edit(run, **changes):
    path = run / "configuration.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


VALUES = [("beam", 10**9), ("beam", 0), ("alpha", 1e300), ("alpha", -1), ("most_written", 0), ("workers", 10**6),
          ("bleu_tokenize", "\x1b[2J"), ("stop", "\u202eexact"), ("keep", 0)]  # fmt: skip


@pytest.mark.parametrize(
    "command", [["translate", "RUN", "12"], ["evaluate", "RUN"], ["resume", "RUN"]], ids=lambda c: c[0]
)
@pytest.mark.parametrize(("name", "value"), VALUES)
def test_a_value_of_the_folder_is_no_option_that_somebody_gave(run, capsys, command, name, value):
    edit(run, **{name: value})
    capsys.readouterr()
    status = main([str(run) if word == "RUN" else word for word in command])
    err = capsys.readouterr().err
    assert f"--{name.replace('_', '-')}" not in err
    assert not {"\x1b", "\u202e"} & set(err)
    if name != "bleu_tokenize":  # which only texts use
        assert status == 2
        assert "configuration.json" in err
        assert name in err


def test_the_search_has_the_rules_of_the_run(run, capsys):
    for most in (1, 3):
        edit(run, most_written=most)
        assert main(["translate", str(run), "12"]) == 0
        assert f"did not end and was cut off after {counted(most, 'tokens')}\n" in capsys.readouterr().err
        assert main(["evaluate", str(run)]) == 0
        assert {len(text) for text in re.findall("✗ .* -> *(.*)", capsys.readouterr().out)} == {most}
    edit(run, beam=3)
    assert main(["translate", str(run), "12", "--n-best", "3"]) == 0
    assert main(["translate", str(run), "12", "--n-best", "4"]) == 2
    assert "--n-best must be at most the beam, 3, found 4; or widen --beam" in capsys.readouterr().err
