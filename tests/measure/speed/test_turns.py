"""Programs take turns, and one that fails does not stop the others."""

import os
import sys
import time

import pytest
from toml_cases import toml_table

from minitransformer.apps.measure.speed.turns import Entrant, Process, ProcessError, steps_in_a_turn, take_turns

GOOD = toml_table(__file__, "GOOD")
DIES = toml_table(__file__, "DIES")
FAILS = """print('{"failed": "PyTorch is not installed"}', flush=True)"""
WAITS = toml_table(__file__, "WAITS")


def fake(name, code):
    return Entrant(name, name.title(), [sys.executable, "-S", "-c", code])


def test_they_take_turns_and_the_others_go_on(tmp_path):
    log, said = tmp_path / "log", []
    programs = [
        fake("quick", GOOD.format(name="quick", slow=0, seconds=0.1, log=log)),
        fake("slow", GOOD.format(name="slow", slow=0.5, seconds=0.3, log=log)),
        fake("dies", DIES),
        fake("absent", FAILS),
        Entrant("nowhere", "Nowhere", [str(tmp_path / "nothing-here")]),
    ]
    outcomes = take_turns(programs, 3, said.append, pause=0)
    assert log.read_text().split() == ["quick", "slow", "quick", "slow", "slow", "quick", "quick", "slow"]
    assert [len(answer["seconds"]) for answer in outcomes["quick"].answers] == [12, 12, 12]
    assert [len(answer["seconds"]) for answer in outcomes["slow"].answers] == [4, 4, 4]
    assert outcomes["quick"].failed is outcomes["slow"].failed is None
    assert outcomes["slow"].description == {"name": "slow"}
    assert outcomes["dies"].failed == "in round 2: ended with status 1: the disk is on fire"
    assert len(outcomes["dies"].answers) == 1
    assert outcomes["absent"].failed == "PyTorch is not installed"
    assert outcomes["nowhere"].failed.startswith("it cannot be started: [")  # Errno or WinError
    assert "Absent cannot take part: PyTorch is not installed" in said


@pytest.mark.skipif(os.name == "nt", reason="asks for a process by its number")
def test_an_interruption_ends_the_programs(tmp_path):
    log = tmp_path / "pid"

    def tell(what):
        if what.startswith("round"):
            raise KeyboardInterrupt

    code = GOOD.format(name="good", slow=0, seconds=1, log=log).replace('"good\\n"', "str(os.getpid())")
    program = fake("good", f"import os{code}")
    with pytest.raises(KeyboardInterrupt):
        take_turns([program], 1, tell, pause=0)
    pid = int(log.read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_program_that_works_is_ended_too(tmp_path):
    log = tmp_path / "pid"
    start = time.perf_counter()
    with Process([sys.executable, "-S", "-c", WAITS.format(log=log)]) as process:
        process.read()
    assert time.perf_counter() - start < 30
    assert process._process.returncode is not None
    assert process._errors.closed


def test_a_program_that_has_gone_cannot_be_asked():
    command = [sys.executable, "-S", "-c", "import os; os.abort()"]
    with Process(command) as process, pytest.raises(ProcessError, match="ended"):
        process.read()


@pytest.mark.parametrize(("seconds", "steps"), [(0.05, 24), (1.0, 2), (5.0, 2), (1e-6, 100), (0.0, 100)])
def test_a_turn_has_at_least_two_steps(seconds, steps):
    assert steps_in_a_turn(seconds) == steps
