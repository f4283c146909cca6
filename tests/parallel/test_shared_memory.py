"""Processes that share memory: the same bits, and nothing stays behind, whatever ends one of them.

Each test starts a program, because a process with more threads, as of pytest-xdist, is not divided.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from toml_cases import toml_table

from minitransformer.arrays import blas

from .test_process_group import train

pytestmark = [
    pytest.mark.numpy_only("processes share the cores of a CPU"),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks safely"),
]
HEAD = toml_table(__file__, "HEAD")
ROOT = Path(__file__).parents[2]


def start(body, **options):
    """Return the program, which has written its first line if it writes one."""
    options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    paths = [str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return subprocess.Popen([sys.executable, "-c", HEAD + body], cwd=ROOT, env=environment, **options)


def run(body):
    """Return what a program has written, and its errors, after it and its children have ended."""
    program = start(body)
    out, errors = program.communicate(timeout=60)
    wait_until_gone(program.pid)
    return out, errors


def wait_until_gone(session):
    """Fail if processes of a session live on."""
    for _ in range(100):
        found = subprocess.run(["ps", "-o", "pid=", "-s", str(session)], capture_output=True, text=True)
        if not found.stdout.strip():
            return
        time.sleep(0.05)
    pytest.fail(f"still running: {found.stdout}")


@pytest.mark.parametrize(
    ("size", "micro_batches", "clip", "accumulate"), [(2, 4, None, 1), (3, 4, 0.3, 2), (3, 8, 0.3, 1)]
)
def test_processes_that_share_memory_change_no_bit(size, micro_batches, clip, accumulate):
    losses, values, _, mean = train(clip=clip, accumulate=accumulate, micro_batches=micro_batches)
    out, errors = run(f"""
from tests.parallel.test_process_group import model_of, train
with forked({size}, model_of(32).parameters(), {micro_batches}) as group:
    found = train(group, clip={clip}, accumulate={accumulate}, micro_batches={micro_batches})
    means = group.all_gather(found[3])
losses, values, _, _ = found
print(json.dumps([group.size, losses, values.tolist(), np.concatenate(means).tolist()]))
""")
    assert not errors
    assert json.loads(out) == [size, losses, values.tolist(), mean.tolist()]


def test_values_arrays_and_errors_go_between_processes():
    """Only the first process leaves the block, and with a private array all have all parts."""
    out, errors = run(toml_table(__file__, "EXCHANGES"))
    assert not errors
    first, values, *errors, alone = out.splitlines()
    assert first == "only the first prints"
    assert json.loads(values) == [[0, [0, 1, 4, 9, 16], [0, 0, 2, 2, 2], max(1, blas.cores() // 3), None]] * 3
    assert errors == ["'only here' of another process", "Odd: cannot be sent", "no space", "no child is left"]
    assert alone == "True"


HALF_A_MESSAGE = "os._exit(os.write(group._others[0][1].fileno(), b'12'))"
WAITING = toml_table(__file__, "WAITING")


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("kill the last", "ProcessLostError process 2 of 3 was ended by signal 9"),
        ("os._exit(3)", "ProcessLostError process 1 of 3 was ended by status 3"),
        (HALF_A_MESSAGE, "ProcessLostError process 1 of 3 was ended by status 2"),
        ("1 / 0", "ZeroDivisionError division by zero"),
        ("time.sleep(60); kill the first", ""),
        ("interrupt all", "KeyboardInterrupt"),
        ("interrupt the last", "KeyboardInterrupt"),
    ],
)
def test_all_processes_end_when_one_does(what, told):
    ending = what.split(";")[0] if "(" in what or "/" in what else "pass"
    program = start(WAITING.replace("ENDING", f"if group.rank == 1: {ending}"))
    pids = json.loads(program.stdout.readline())
    assert len(set(pids)) == 3
    if "kill" in what:
        os.kill(pids[0 if "first" in what else 2], signal.SIGKILL)
    elif "interrupt" in what:
        (os.killpg if "all" in what else os.kill)(pids[0 if "all" in what else 2], signal.SIGINT)
    begun = time.monotonic()
    out, errors = program.communicate(timeout=30)
    wait_until_gone(program.pid)
    assert time.monotonic() - begun < 10
    assert out.startswith(told) if told else not out
    assert ("`minitransformer resume`" in out) == ("ProcessLostError" in out)
    assert not errors


def test_a_process_with_threads_is_not_divided():
    out, _ = run("""
import threading
threading.Thread(target=time.sleep, args=[0.5]).start()
with forked(2) as group:
    print(group is SINGLE_PROCESS)
""")
    assert out == "True\n"


@pytest.mark.parametrize("refused", [1, 2])
def test_where_the_system_refuses_processes_one_works_alone(refused):
    """As in a container that limits their number; those that were started before have ended."""
    out, errors = run(f"""
import errno
fork, calls = os.fork, []
def limited():
    calls.append(1)
    if len(calls) >= {refused}:
        raise BlockingIOError(errno.EAGAIN, "no more")
    return fork()
os.fork = limited
with forked(4) as group:
    print(group is SINGLE_PROCESS, len(calls), flush=True)
    try:
        print(os.waitpid(-1, os.WNOHANG))
    except ChildProcessError:
        print("no child")
""")
    assert out == f"True {refused}\nno child\n"
    assert "more processes (no more)" in errors
