"""Sessions at the command line, from `test_sessions.toml`: the status and the whole text of every command.

In an expected text, `<...>` stands for anything in a line, such as a measured figure; alone in a line, for any lines;
`<d>` for a digit.
The files that a step shows are compared with `approved_files/`.
"""

import json
import os
import re
import shlex
import time
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from approved import check_approved
from toml_cases import toml_table

from minitransformer import __version__
from minitransformer.apps.cli import main
from minitransformer.apps.explorer.saved import _gradients
from minitransformer.apps.learn import bank, find

SESSIONS = toml_table(__file__, "SESSIONS")
REPORT = Path(__file__).with_name("clinic_report.json")
"""What the examination of a healthy training of four steps has measured."""
pytestmark = [
    pytest.mark.numpy_only("exercises are in NumPy, and what is printed does not depend on the array library"),
    pytest.mark.skipif(os.name == "nt", reason="the paths in the texts are those of Unix"),
]


def prepare(solve=(), edit=(), write=None, open=None, encoding="utf-8"):
    """Do between two commands what a person does with an editor; all exercises are done except the open ones."""
    for name in [exercise.name for exercise in bank()] if solve == "all" else solve:
        Path("my-exercises", find(name).file).write_text(find(name).solution, encoding="utf-8")
    for name, old, new in edit:
        assert find(name).solution.count(old) == 1
        Path("my-exercises", find(name).file).write_text(find(name).solution.replace(old, new), encoding="utf-8")
    for hours, (path, text) in enumerate((write or {}).items()):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        solution = re.fullmatch("<solution of (.*)>", text)
        Path(path).write_text(find(solution[1]).solution if solution else text, encoding=encoding)
        os.utime(path, (0, 1e9 + 3600 * hours))
    if open is not None:
        done = [exercise.name for exercise in bank() if exercise.name not in open]
        progress = {"done": done, "hints": {}, "current": open[0]}
        Path("my-exercises/.progress.json").write_text(json.dumps(progress), encoding="utf-8")


def pattern_of(text):
    lines = (re.escape(line).replace(re.escape("<...>"), ".*").replace("<d>", r"\d") for line in text.split("\n"))
    return "\n".join("(?s:.*)" if line == ".*" else line for line in lines)


def stop(seconds):
    raise KeyboardInterrupt


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_prints_what_is_expected(name, tmp_path, monkeypatch, capsys, standard_input):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "sleep", stop)  # what waits for another saved file gets Ctrl-C

    def examine(command, input, **_):
        report = json.loads(REPORT.read_text(encoding="utf-8")) | json.loads(input.partition("# report ")[2] or "{}")
        return CompletedProcess(command, report.get("status", 0), f"shown\n{json.dumps(report)}", "a\nlast\n")

    stand_ins = {"learn.clinic.visit.subprocess.run": examine}
    stand_ins["explorer.saved._gradients"] = lambda *of, few, all=_gradients: all(*of, few)[::-20]
    stand_ins |= {"plots.step_sizes": lambda *_: None, "cli.text_runs.LENGTH": 50}  # which other tests draw and write
    for place, stand_in in stand_ins.items():
        monkeypatch.setattr(f"minitransformer.apps.{place}", stand_in)
    shown = []
    for step in SESSIONS[name]:
        prepare(**{key: step[key] for key in ("solve", "edit", "write", "open", "encoding") if key in step})
        standard_input(step.get("input", "").encode())
        try:
            status = main(shlex.split(step["command"]))
        except SystemExit as ended:
            status = ended.code
        expected = [step["command"], f"{step.get('status', 0)}", step.get("out", ""), step.get("err", "")]
        found = [step["command"], f"{status}", *capsys.readouterr()]
        for one, other in zip(expected, found, strict=True):
            if not re.fullmatch(pattern_of(one), other):
                assert other == one, step["command"]
        for path in sorted(path for pattern in step.get("show", ()) for path in Path().glob(pattern)):
            shown.append(f"==> {path.as_posix()} <==\n{path.read_text(encoding='utf-8')}")
    if shown:
        text = "\n".join(shown).replace(f'"{__version__}"', '"VERSION"')
        check_approved(Path(__file__).with_name("approved_files") / f"{'-'.join(name.split())}.txt", text)
