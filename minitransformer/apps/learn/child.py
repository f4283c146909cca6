"""Run a learner's code in a child process, so that an endless loop or a crash ends only the child.

On Linux the child is a fork: NumPy and the exercises are loaded already, so it costs some milliseconds. Elsewhere it
starts anew, in about half a second, because the matrix products of macOS do not survive a fork and Windows has none.

``faulthandler`` writes down which line is running, every few seconds and when Python crashes. It needs no help from the
interpreter, so a line is found inside one long call of C code too. A signal interrupts the code for it: a thread beside
the code would read the stack while it changes, which crashes Python now and then. Windows has only that way.

A browser's Python has no processes. There the code runs in this one, without limits: the page ends its worker.
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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TextIO

import numpy as np

from minitransformer.apps.learn.bank import Exercise
from minitransformer.apps.learn.referee import Verdict, explain, judge_file
from minitransformer.arrays import blas, use, using
from minitransformer.console import accept_all_characters
from minitransformer.files import FileError, read_file, reason

if sys.platform == "linux":
    CONTEXT = multiprocessing.get_context("fork")
else:
    CONTEXT = multiprocessing.get_context("spawn")
HAS_PROCESSES = sys.platform != "emscripten"
"""Whether a learner's code runs in a child process; where it does not, the caller limits its time."""
LOOK = 0.05
"""How long to wait for a result before looking at the clock and the file again, in seconds."""
MEMORY = 2 * 2**30
"""How many bytes a learner's code may add to what Python and NumPy use. Only Linux enforces it."""


class Limits(NamedTuple):
    """The time limits of a child process for each result."""

    patience: float = 5.0
    """Seconds after which the running line is reported."""
    seconds: float = 20.0
    """Seconds after which the child is stopped."""


class Ended(Exception):
    """A child process was stopped or has ended without its result; the message names the line.

    Attributes
    ----------
    file : Path or None
        The learner's file that was running, if it is known.
    """

    def __init__(self, message: str, file: Path | None = None) -> None:
        super().__init__(message)
        self.file = file


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
    patience: float = Limits().patience,
    seconds: float = Limits().seconds,
    memory: int = MEMORY,
) -> Verdict:
    """Run a learner's file and judge what it defines, in a child process with limits if there are processes.

    Parameters
    ----------
    exercise : Exercise
        The exercise of the file.
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

    def look() -> None:
        if last_save(path) != saved:
            raise Ended("The file was saved again, so this check was stopped.")

    def tell_line(words: str) -> None:
        tell(Verdict(False, words).format(exercise.name) + "\n")

    work, limits = partial(_judge, exercise, path, memory), Limits(patience, seconds)
    try:
        [verdict] = run_in_child(work, [path], limits, tell=tell_line, look=look)
    except Ended as ended:
        return Verdict(False, str(ended))
    return verdict


def run_in_child(
    work: Callable[[], Iterable[Any]],
    files: Sequence[Path],
    limits: Limits,
    *,
    tell: Callable[[str], object],
    look: Callable[[], object] = lambda: None,
) -> Iterator[Any]:
    """Yield the results of some work, which a child process does one after another; without processes, this one.

    Parameters
    ----------
    work : callable
        Yields the results, or raises ``Ended``; a function and results that `pickle` can write.
    files : sequence of Path
        The learner's files that may run; a message names the line of them that was running.
    limits : Limits
        The limits for each result.
    tell : callable
        Called with the line that is running, once for each result that takes longer than ``limits.patience``.
    look : callable
        Called repeatedly; an error that it raises stops the child.

    Raises
    ------
    Ended
        If the child is stopped, or ends by itself before its work is done.
    """
    if not HAS_PROCESSES:
        with using("numpy"), np.errstate():
            yield from work()
        return
    with TemporaryDirectory() as folder:
        record = Path(folder) / "lines.txt"
        answers, answer = CONTEXT.Pipe(duplex=False)
        child = CONTEXT.Process(target=_work, args=(work, record, answer, limits), daemon=True)
        start(child)
        try:
            answer.close()  # the child's is the only one, so its end is noticed
            while found := _receive(answers, files, record, limits, tell, look):
                yield from found
        except EOFError:
            child.join()
            raise end_of(files, record, child.exitcode or 0, limits) from None
        finally:
            child.kill()
            child.join()
            answers.close()


def start(one: BaseProcess | threading.Thread) -> None:
    """Start a process or a thread.

    Raises
    ------
    Ended
        If the system refuses it.
    """
    try:
        one.start()
    except (OSError, RuntimeError) as error:  # a RuntimeError of a thread
        words = f"No process could be started for your code: {reason(error)}. End other programs, and try again."
        raise Ended(words) from error


def _receive(
    answers: Connection,
    files: Sequence[Path],
    record: Path,
    limits: Limits,
    tell: Callable[[str], object],
    look: Callable[[], object],
) -> tuple[Any, ...]:
    """Return the next result of the child; nothing after the last one."""
    begin, told = time.monotonic(), False
    while not answers.poll(LOOK):
        look()
        if not record.exists():  # the child has not begun yet
            begin = time.monotonic()
        waited = time.monotonic() - begin
        if waited > limits.patience and not told and (place := find_line(files, record)):
            told = True
            tell(f"still running after {limits.patience:g} s. {place.words} is running:{place.source}")
        if waited > limits.seconds:
            raise too_late(files, record, limits)
    found: tuple[Any, ...] | Ended = answers.recv()
    if isinstance(found, Ended):
        raise found
    return found


def too_late(files: Sequence[Path], record: Path, limits: Limits) -> Ended:
    """Return the error for code that has used up its time."""
    place = find_line(files, record) or UNKNOWN
    words = f"{place.words} was still running after {limits.seconds:g} s and was stopped. Is there an endless loop?"
    return Ended(f"{words}{place.source}", place.file)


def end_of(files: Sequence[Path], record: Path, status: int, limits: Limits) -> Ended:
    """Return the error for code that has ended its process."""
    if status == OWN_END:
        return too_late(files, record, limits)
    what, source, file = find_line(files, record, crash=True) or UNKNOWN
    if status >= WINDOWS_CRASH:
        return Ended(f"{what} crashed Python: it ended with status {status:#x}.{source}", file)
    if status >= 0:
        return Ended(f"{what} ended Python with status {status}, as os._exit() does.{source}", file)
    names = {one.value: one.name for one in signal.Signals}
    name = names.get(-status, f"signal {-status}")
    hint = ", which usually means that memory ran out" if name == "SIGKILL" else ""
    return Ended(f"{what} crashed Python: it was ended by {name}{hint}.{source}", file)


class Place(NamedTuple):
    """Where a learner's code was last seen running."""

    words: str
    """Such as ``Line 3, in backward,``."""
    source: str
    """The line itself, in a block of its own."""
    file: Path | None


LARGEST_RECORD = 2**24
"""The largest file of lines, or of code, that is read to find a line, in bytes."""
OWN_END = 97
"""The status of a child that has ended itself, because the parent was late."""
WINDOWS_CRASH = 0xC0000000
"""The lowest status with which Windows ends a process that crashes."""
UNKNOWN = Place("Your code", "", None)


def find_line(files: Sequence[Path], record: Path, crash: bool = False) -> Place | None:
    """Return where one of a learner's files was last seen running.

    With ``crash`` only the line counts at which Python crashed.
    """
    try:
        text = read_file(record, LARGEST_RECORD).decode("ascii", "replace")
    except FileError:
        return None  # the child has not begun, or its code has replaced the file
    dumps = re.split("^(?=Stack|Timeout|Fatal|Windows fatal)", text, flags=re.MULTILINE)
    names = {str(file)[:500].encode("ascii", "backslashreplace").decode(): file for file in files}  # as in the record
    known = "|".join(map(re.escape, names))
    for dump in reversed(dumps):
        found = re.search(rf'^  File "({known})(?:\.\.\.)?", line (\d+) in (.*)\n', dump, re.MULTILINE)
        if found and (not crash or "atal" in dump.partition("\n")[0]):
            file = names[found[1]]
            return Place(f"Line {found[2]}, in {found[3]},", _source(file, int(found[2])), file)
    return None


def _source(path: Path, number: int) -> str:
    with suppress(ValueError, IndexError):
        return f"\n\n    {read_file(path, LARGEST_RECORD).decode('utf-8-sig').splitlines()[number - 1].strip()}"
    return ""


# ---------------------------------------------------------------------------------------------------------------------
# In the child


def _judge(exercise: Exercise, path: Path, memory: int) -> Iterator[Verdict]:
    """Judge a file: the work of a child that has one result."""
    yield guard(lambda: judge_file(exercise, path), [path], memory)


def guard(judge: Callable[[], Verdict], files: Sequence[Path], memory: int) -> Verdict:
    """Return a verdict with a limit of memory; of code that exceeds it, or interrupts itself, the line that does."""
    try:
        with limit_memory(memory):
            return judge()
    except (MemoryError, KeyboardInterrupt) as error:  # no memory was left for the message; or the file raises it
        return explain(error.__context__ or error, {*map(str, files)})


def _work(work: Callable[[], Iterable[Any]], record: Path, answer: Connection, limits: Limits) -> None:
    """Send the results of the work, each in a tuple, then an empty one."""
    for stream in (sys.stdout, sys.stderr):
        accept_all_characters(stream, line_buffering=True)  # so that output before a crash is shown
    with record_lines(record) as file:
        results = iter(work())
        found: tuple[Any, ...] | Ended = (None,)
        while isinstance(found, tuple) and found:
            file.seek(0)
            file.truncate()  # the lines of the last result
            with limit_time(limits, file):
                try:
                    found = tuple(islice(results, 1))
                except Ended as ended:
                    found = ended
            with suppress(Exception):  # the file may have closed or replaced them
                print(end="", flush=True)
            answer.send(found)


@contextmanager
def record_lines(record: Path) -> Iterator[TextIO]:
    """Make this process one that runs a learner's code; yield the file of the lines that run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends the child
    with record.open("w", encoding="ascii") as file, blas.threads(1):  # BLAS threads would reserve memory
        faulthandler.enable(file)
        use("numpy")  # exercises are plain NumPy, whatever the library for everything else is
        try:
            yield file
        finally:
            _write_lines_every(0, file)
            faulthandler.disable()


@contextmanager
def limit_time(limits: Limits, file: TextIO) -> Iterator[None]:
    """Write down the running line again and again, and end this process if the parent does not: it may be dead."""
    _write_lines_every(limits.patience, file)
    own_end = threading.Timer(2 * limits.seconds, os._exit, (OWN_END,))
    own_end.daemon = True
    with suppress(RuntimeError):  # the system may refuse another thread
        own_end.start()
    try:
        yield
    finally:
        own_end.cancel()


def _write_lines_every(seconds: float, file: TextIO) -> None:
    """Write the running line into a file again and again; never with 0 seconds."""
    if sys.platform != "win32":
        faulthandler.register(signal.SIGALRM, file, all_threads=False)
        signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    elif seconds:
        faulthandler.dump_traceback_later(seconds, repeat=True, file=file)
    else:
        faulthandler.cancel_dump_traceback_later()


@contextmanager
def limit_memory(more: int) -> Iterator[None]:
    """Limit the memory of this process to its present use plus a number of bytes, on Linux only."""
    try:
        import resource

        now = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
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
