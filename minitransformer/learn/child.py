"""Judge a learner's file in a child process, so that an endless loop or a crash ends the child and nothing else.

On Linux the child is a fork: NumPy and the exercises are loaded already, so it costs some milliseconds. Elsewhere it
starts anew, in about half a second, because the matrix products of macOS do not survive a fork and Windows has none.

``faulthandler`` writes down which line is running, every few seconds and when Python crashes. It needs no help from the
interpreter, so a line is found inside one long call of C code too.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

from minitransformer.arrays import blas, use
from minitransformer.learn.bank import Exercise
from minitransformer.learn.referee import Verdict, explain, judge_file

__all__ = ["judge_in_child", "last_save"]

if sys.platform == "linux":
    CONTEXT = multiprocessing.get_context("fork")
else:
    CONTEXT = multiprocessing.get_context("spawn")
LOOK = 0.05
"""How long to wait for the verdict before looking at the clock and the file again, in seconds."""


def last_save(path: Path) -> tuple[int, int] | None:
    """Return when a file was last saved, and its size; None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def judge_in_child(
    exercise: Exercise,
    path: Path,
    *,
    tell: Callable[[str], object] = print,
    patience: float = 5.0,
    seconds: float = 20.0,
    memory: int = 2 * 2**30,
) -> Verdict:
    """Run a learner's file and judge what it defines, in a child process with limits.

    Parameters
    ----------
    exercise : Exercise
        What the file should solve.
    path : Path
        The file. If it is saved again, the child is stopped.
    tell : callable
        Called with the line that is running, once, if there is no verdict after ``patience`` seconds.
    patience, seconds : float
        When to tell that line, and when to stop the child.
    memory : int
        How many bytes the learner's code may add to what Python and NumPy use. Only Linux enforces it.
    """
    saved = last_save(path)
    with TemporaryDirectory() as folder:
        record = Path(folder) / "lines.txt"
        answers, answer = CONTEXT.Pipe(duplex=False)
        arguments = exercise, path, record, answer, patience, seconds, memory
        child = CONTEXT.Process(target=_judge, args=arguments, daemon=True)
        child.start()
        try:
            answer.close()  # the child's is the only one, so its end is noticed
            begin, told = time.monotonic(), False
            while not answers.poll(LOOK):
                if last_save(path) != saved:
                    return Verdict(False, "The file was saved again, so this check was stopped.")
                if not record.exists():  # the child has not begun yet
                    begin = time.monotonic()
                waited = time.monotonic() - begin
                if waited > patience and not told and (place := _find_line(path, record)):
                    told = True
                    words = f"still running after {patience:g} s. {place[0]} is running:{place[1]}"
                    tell(Verdict(False, words).format(exercise.name) + "\n")
                if waited > seconds:
                    return _stopped(path, record, seconds)
            return answers.recv()
        except EOFError:
            child.join()
            return _ended(path, record, child.exitcode or 0)
        finally:
            child.kill()
            child.join()
            answers.close()


def _stopped(path: Path, record: Path, seconds: float) -> Verdict:
    what, source = _find_line(path, record) or ("Your code", "")
    words = f"{what} was still running after {seconds:g} s and was stopped. Does a loop never end?"
    return Verdict(False, words + source)


def _ended(path: Path, record: Path, status: int) -> Verdict:
    """Return the verdict on code that has ended its process."""
    what, source = _find_line(path, record, crash=True) or ("Your code", "")
    if status >= 0:
        return Verdict(False, f"{what} ended Python with status {status}, as os._exit() does.{source}")
    name = signal.Signals(-status).name
    hint = ", which is what a system does that runs out of memory" if name == "SIGKILL" else ""
    return Verdict(False, f"{what} crashed Python: it was ended by {name}{hint}.{source}")


def _find_line(path: Path, record: Path, crash: bool = False) -> tuple[str, str] | None:
    """Return where the learner's file was last seen running, as ``"Line 3, in backward"``, and the source of the line.

    With ``crash`` only the line counts at which Python crashed.
    """
    try:
        dumps = re.split("^(?=Timeout|Fatal|Windows fatal)", record.read_text(encoding="ascii"), flags=re.MULTILINE)
    except OSError:
        return None  # the child has not begun
    name = re.escape(str(path)[:500].encode("ascii", "backslashreplace").decode())  # as faulthandler writes it
    for dump in reversed(dumps):
        found = re.search(rf'^  File "{name}(?:\.\.\.)?", line (\d+) in (.*)\n', dump, re.MULTILINE)
        if found and (not crash or "atal" in dump.partition("\n")[0]):
            return f"Line {found[1]}, in {found[2]},", _source(path, int(found[1]))
    return None


def _source(path: Path, number: int) -> str:
    with suppress(OSError, UnicodeDecodeError, IndexError):
        return f"\n\n    {path.read_text(encoding='utf-8-sig').splitlines()[number - 1].strip()}"
    return ""


# ---------------------------------------------------------------------------------------------------------------------
# In the child


def _judge(
    exercise: Exercise, path: Path, record: Path, answer: Connection, patience: float, seconds: float, memory: int
) -> None:
    """Judge the file and send the verdict."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends the child
    own_end = threading.Timer(2 * seconds, os._exit, (1,))  # in case that the parent was killed
    own_end.daemon = True
    own_end.start()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # what was printed before a crash is seen
            stream.reconfigure(line_buffering=True, errors="replace")
    with record.open("w", encoding="ascii") as file, blas.threads(1):  # BLAS threads would reserve memory
        faulthandler.enable(file)
        faulthandler.dump_traceback_later(patience, repeat=True, file=file)
        use("numpy")  # exercises are plain NumPy, whatever the library for everything else is
        try:
            with _limit_memory(memory):
                verdict = judge_file(exercise, path)
        except (MemoryError, KeyboardInterrupt) as error:  # no memory was left for the words; or the file raises it
            verdict = explain(error.__context__ or error, {str(path)})
        with suppress(Exception):  # the file may have closed or replaced them
            print(end="", flush=True)
        answer.send(verdict)
        faulthandler.cancel_dump_traceback_later()
        faulthandler.disable()


@contextmanager
def _limit_memory(more: int) -> Iterator[None]:
    """Let this process use so many bytes more than it does now, where the system can be told so: on Linux."""
    try:
        import resource

        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limits = (limit for limit in (now + more, soft, hard) if limit != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_AS, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
