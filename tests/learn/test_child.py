"""A learner's code runs in a child process: whatever it does, there is a verdict, and it names the line."""

import errno
import multiprocessing
import os
import subprocess
import sys
import sysconfig
import threading
import time

import numpy as np
import pytest
from toml_cases import cases_from_toml

from minitransformer.apps.learn import bank, child, judge_in_child
from minitransformer.apps.learn.calls import judge_apart

EXERCISE = bank()[0]
IN_BACKWARD = "def backward(x, y, d_z):\n    "
DEEP_LISTS = pytest.mark.skipif(
    sys.version_info >= (3, 13) or bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="Python crashes when it takes a deep list apart and its stack cannot grow; without a lock it has reserved "
    "a gigabyte before the limit is set",
)


@pytest.fixture
def judge(tmp_path):
    path = tmp_path / "δ" / EXERCISE.file
    path.parent.mkdir(parents=True)

    def run(text, **options):
        path.write_text(text, encoding="utf-8")
        told = []
        verdict = judge_in_child(EXERCISE, path, tell=told.append, **options)
        assert multiprocessing.active_children() == []
        return verdict, " ".join(verdict.words.split()), told

    run.path = path
    return run


def judge_elsewhere(path, text, options=""):
    """Judge a text in a child of a small process; return its end, with the words of the verdict on stderr."""
    path.write_text(text, encoding="utf-8")
    program = "import sys, pathlib; from minitransformer.apps import learn\nif __name__ == '__main__': "
    program += (
        f"print(learn.judge_in_child(learn.bank()[0], pathlib.Path(sys.argv[1]), {options}).words, file=sys.stderr)"
    )
    unbuffered = {"PYTHONUNBUFFERED": ""}  # the child itself sees to it that nothing printed is lost
    command = [sys.executable, "-c", program, str(path)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | unbuffered)


def test_right_is_right_and_nothing_is_told(judge):
    for text in (EXERCISE.solution, f"import sys\nsys.stdout.close()\n{EXERCISE.solution}"):
        verdict, words, told = judge(text)
        assert (verdict.right, told) == (True, []), words
    assert not judge(EXERCISE.text)[0].solved


@cases_from_toml
def test_an_endless_loop_is_stopped_and_its_line_named(judge, text, line):
    verdict, words, told = judge(text + "\n", patience=0.1, seconds=0.4)
    source = text.splitlines()[-1].strip()
    assert not verdict.right
    assert words == f"{line} was still running after 0.4 s and was stopped. Is there an endless loop? {source}"
    assert " ".join("".join(told).split()) == (
        f"{EXERCISE.name}: still running after 0.1 s. {line} is running: {source}"
    )


@cases_from_toml
@pytest.mark.skipif(sys.platform == "win32", reason="signals have other names on Windows")
def test_code_that_ends_python_is_told(judge, text, said):
    verdict, words, _ = judge(f"{IN_BACKWARD}{text}\n")
    assert not verdict.right
    assert said in words


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process reliably")
@pytest.mark.parametrize("step", ["x = [x] * 2**18, x", pytest.param("x = [x]", marks=DEEP_LISTS)])
def test_memory_has_a_limit(judge, step):
    """Also where so little is left that the error cannot be put into words at first."""
    done = judge_elsewhere(judge.path, f"{IN_BACKWARD}while True: {step}\n", "memory=2**23, seconds=120")
    assert "failed with MemoryError: does a list grow without end?" in done.stderr


def test_a_child_that_ends_itself_because_its_parent_is_late_is_told_as_a_loop(judge, monkeypatch):
    monkeypatch.setattr(child, "LOOK", 20)
    words = judge(f"{IN_BACKWARD}while True: pass\n", seconds=0.1, patience=0.05)[1]
    assert words.startswith("Line 2, in backward, was still running after 0.1 s and was stopped.")


def test_the_time_before_the_child_begins_does_not_count(judge, monkeypatch):
    record_lines = child.record_lines
    monkeypatch.setattr(child, "record_lines", lambda record: time.sleep(0.8) or record_lines(record))
    verdict, words, told = judge(EXERCISE.solution, patience=0.2, seconds=0.5)
    assert (verdict.right, told) == (True, []), words


def test_a_file_that_is_saved_again_stops_its_check(judge):
    judge.path.write_text("while True:\n    pass\n")
    verdict = judge_in_child(EXERCISE, judge.path, tell=lambda words: judge.path.write_text(""), patience=0.02)
    assert verdict.words == "The file was saved again, so this check was stopped."


def test_what_is_printed_is_seen_even_before_a_crash(judge):
    """Also in a pipe, whose buffer would be lost."""
    done = judge_elsewhere(judge.path, "print('so far')\nimport os\nos._exit(1)\n")
    assert done.stdout == "so far\n", done.stderr


def test_where_processes_cannot_fork(judge, monkeypatch):
    """As on Windows and macOS."""
    monkeypatch.setattr(child, "CONTEXT", multiprocessing.get_context("spawn"))
    assert judge(EXERCISE.solution)[0].right


@pytest.mark.parametrize("ending", ["", "import sys\nsys.exit()", "raise KeyboardInterrupt", "1 / 0"])
def test_without_processes_the_code_runs_in_this_one(judge, monkeypatch, ending):
    text = f"import os, numpy as np\n{EXERCISE.solution}\nnp.seterr(all='raise')\n"
    text += f"os.environ['RUNS_IN'] = str(os.getpid())\n{ending}\n"
    here, apart = judge(text)[0], judge_apart(EXERCISE, text.encode(), seconds=20)
    monkeypatch.setenv("RUNS_IN", "")
    monkeypatch.setattr(child, "HAS_PROCESSES", False)
    monkeypatch.setattr(child, "CONTEXT", None)
    before = np.geterr()
    assert judge(text)[0] == here
    assert judge_apart(EXERCISE, text.encode(), seconds=20).words == apart.words
    assert os.environ["RUNS_IN"] == str(os.getpid())
    assert np.geterr() == before


@pytest.mark.skipif(sys.platform != "linux", reason="counts the threads in /proc")
def test_no_thread_reads_the_stack_while_it_changes(tmp_path):
    def work():
        yield len(os.listdir("/proc/self/task"))

    def count():
        with child.record_lines(tmp_path / "lines.txt"):  # in which BLAS may begin threads again
            tell.send(*work())

    usual, tell = child.CONTEXT.Pipe(duplex=False)
    process = child.CONTEXT.Process(target=count)
    process.start()
    process.join()
    limits = child.Limits(patience=0.01, seconds=10)
    found = [*child.run_in_child(work, [tmp_path], limits, tell=print)]
    assert found == [usual.recv() + 1]  # the timer that ends it


@pytest.mark.skipif(sys.platform != "linux", reason="hands a function to a fork")
def test_the_time_limit_of_a_result_ends_with_it(tmp_path):
    def work():
        for _ in range(3):
            yield sum(isinstance(one, threading.Timer) and not one.finished.is_set() for one in threading.enumerate())

    assert [*child.run_in_child(work, [tmp_path], child.Limits(), tell=print)] == [1, 1, 1]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory")
def test_the_limit_of_memory_is_the_earlier_one_afterwards():
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    if before[1] != resource.RLIM_INFINITY:
        pytest.skip("the memory of the tests themselves is limited")
    for limit, more in ((2**45, 2**40), (2**45, 2**46)):
        resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
        try:
            with child.limit_memory(more):
                inside = resource.getrlimit(resource.RLIMIT_AS)
            after = resource.getrlimit(resource.RLIMIT_AS)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)
        assert more < inside[0] < limit if more < limit else inside[0] == limit
        assert (inside[1], after) == (before[1], (limit, before[1]))


@cases_from_toml
def test_a_line_that_ran_before_is_not_called_the_one_that_ended_python(tmp_path, dump, place):
    file, record = tmp_path / ("a" * 250) / ("b" * 250) / "a.py", tmp_path / "record"
    shown = f'\n\n  File "{str(file)[:500]}...", line'  # as faulthandler shortens it
    record.write_text(f"Stack{shown} 1 in f\n{dump}{shown} 2 in f\n")
    assert child.end_of([file], record, 3, child.Limits()).args[0].startswith(f"{place} ended Python with status 3")
    assert child.too_late([file], record, child.Limits()).args[0].startswith("Line 2, in f, was still running")


RIGHT = EXERCISE.solution.encode()


def test_a_process_that_the_system_refuses_is_told_and_blames_nobody(judge, monkeypatch):
    def refuse(_):
        raise BlockingIOError(errno.EAGAIN, "no more processes")

    monkeypatch.setattr(child.CONTEXT.Process, "start", refuse)
    verdict, words, _ = judge(EXERCISE.solution)
    assert not verdict.right
    assert "no more processes" in words
    graded = judge_apart(EXERCISE, RIGHT, seconds=2)
    assert graded.failed
    assert "no more processes" in graded.words


def test_a_clock_that_the_system_refuses_leaves_no_code_running(few_threads):
    few_threads(0)
    graded = judge_apart(EXERCISE, RIGHT, seconds=2)
    assert graded.failed
    assert "can't start new thread" in graded.words
    assert not multiprocessing.active_children()
