"""Check a learner's functions that run in another process, so that the verdict is out of their reach.

The learner's file runs in a child process, the check in this one. The check calls stand-ins: each sends its arguments
to the child and receives the result; a function among the arguments is called back in the same way. So nothing that the
file prints, changes in this package or does at its end has an influence on the verdict. Messages consist of data alone:
nothing that the child sends can run here.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import mkdtemp
from types import UnionType
from typing import Any

import numpy as np

from minitransformer.apps.learn import child
from minitransformer.apps.learn.bank import Exercise
from minitransformer.apps.learn.messages import Function, Reader, Writer
from minitransformer.apps.learn.referee import Failed, Verdict, execute, explain, judge
from minitransformer.apps.learn.verdict import Unsolved, Wrong
from minitransformer.apps.learn.watch import watch

LONGEST_MESSAGE = 16 * 2**20
"""The largest result of a learner's function, in bytes."""
LONGEST_WORDS = 4000
"""The longest message about an answer, in characters."""
LARGEST_FILE = 16 * 2**20
"""The largest file that a learner's code can write, in bytes. Windows does not enforce it."""
FAILED: dict[str, type[Failed]] = {
    kind.__name__: type(kind.__name__, (Failed, kind), {})
    for kind in (ArithmeticError, FloatingPointError, RecursionError, RuntimeError, ValueError, ZeroDivisionError)
}
"""The error to raise for one of the other process, by its name. Others, such as those of Unicode, take no text."""

CONTENTS: dict[str, tuple[type | UnionType, ...]] = {
    "call": (int | str, tuple, dict, dict),
    "value": (object, list),
    "error": (str, str, str, bool),
}
"""The types of what follows the kind of a message."""


def judge_apart(exercise: Exercise, text: bytes, *, seconds: float, memory: int = child.MEMORY) -> Verdict:
    """Judge a learner's file: its functions run in a child process, the check in this one.

    Without processes all of it runs in this one, so the verdict is within the code's reach.

    Parameters
    ----------
    exercise : Exercise
        The exercise.
    text : bytes
        The contents of the file. A copy of it runs, in a temporary folder; its output is discarded.
    seconds : float
        When to stop the child.
    memory : int
        How many bytes the learner's code may add to what Python and NumPy use. Only Linux enforces it.
    """
    with _temporary_folder() as folder:
        path = folder / "submission" / exercise.file
        path.parent.mkdir(parents=True)
        path.write_bytes(text)
        limits = child.Limits(seconds / 2, seconds)
        try:
            if not child.HAS_PROCESSES:
                return _shorten(child.judge_in_child(exercise, path), path)
            with child.limit_memory(2 * memory), _open_port(exercise, path, limits, memory) as port:
                answers = port.call("load")
                if not isinstance(answers, list) or len(answers) != len(exercise.asks_for):
                    raise _no_message(TypeError("it should be a list of functions"))
                verdict = judge(exercise, answers)
        except Wrong as wrong:  # while the file was loaded
            verdict = Verdict(False, str(wrong), solved=not isinstance(wrong, Unsolved))
        except Failed as failed:
            verdict = failed.verdict
        return _shorten(verdict, path)


def _shorten(verdict: Verdict, path: Path) -> Verdict:
    """Return a verdict without the folder of the file, and with at most `LONGEST_WORDS` characters."""
    words = verdict.words.replace(str(path), path.name)
    return replace(verdict, words=words if len(words) < LONGEST_WORDS else f"{words[:LONGEST_WORDS]} ...")


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    """Yield a folder, and remove it with whatever the code has made in it."""
    folder = Path(mkdtemp(prefix="exercise-"))
    try:
        yield folder
    finally:
        with suppress(OSError):  # processes that have escaped may still write
            _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a folder; those inside it are moved to its top first, so neither depth nor a long path is in the way."""
    numbers, waiting = count(), [folder]
    while waiting:
        here = waiting.pop()
        with os.scandir(here) as entries:
            found = [*entries]
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                os.chmod(entry.path, 0o700)
                moved = folder / f"{secrets.token_hex(8)}-{next(numbers)}"
                os.rename(entry.path, moved)
                waiting.append(moved)
            else:
                os.unlink(entry.path)
        if here != folder:
            here.rmdir()
    folder.rmdir()


@contextmanager
def _open_port(exercise: Exercise, path: Path, limits: child.Limits, memory: int) -> Iterator[Port]:
    """Run a child process that loads a learner's file, and calls its functions when it is asked to."""
    record = path.parents[2] / "lines.txt"
    ours, theirs = child.CONTEXT.Pipe()
    process = child.CONTEXT.Process(target=_serve, args=(exercise, path, record, theirs, limits, memory), daemon=True)
    _start(process)
    theirs.close()  # the child's is the only one, so its end is noticed

    def fail(late: bool) -> Failed:
        if late:
            return Failed(Verdict(False, str(child.too_late([path], record, limits))))
        process.join(1)  # it is ending
        _kill(process)
        process.join()
        return Failed(Verdict(False, str(child.end_of([path], record, process.exitcode or 0, limits))))

    def stop() -> None:
        """End a child that has sent half of a message; if its own processes escape, the connection is cut."""
        _kill(process)
        if hasattr(socket, "AF_UNIX"):
            with suppress(OSError), socket.socket(fileno=os.dup(ours.fileno())) as wire:
                wire.shutdown(socket.SHUT_RDWR)

    clock = threading.Timer(limits.seconds + 1, stop)
    try:
        with suppress(EOFError):
            ours.recv_bytes()  # it is ready
        _start(clock)
        yield Port(ours, time.monotonic() + limits.seconds, fail=fail)
    finally:
        clock.cancel()
        if clock.ident:
            clock.join()  # a fork should have no other threads
        _kill(process)
        process.join()
        ours.close()


def _start(one: BaseProcess | threading.Thread) -> None:
    try:
        child.start(one)
    except child.Ended as ended:
        raise Failed(Verdict(False, str(ended), failed=True)) from ended


def _kill(process: BaseProcess) -> None:
    """End a child and the processes that it has started; one that wants to escape can."""
    process.kill()
    if hasattr(os, "killpg") and process.pid:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)


class Port:
    """One end of a connection over which two processes call each other's functions, one at a time.

    Parameters
    ----------
    connection : Connection
        The connection.
    deadline : float
        When to stop waiting, as of `time.monotonic`.
    functions : mapping
        The functions that the other end may call by name.
    files : frozenset of str
        The learner's files, for the messages of errors.
    fail : callable
        Returns the error if the other process is late, with True, or has ended, with False.
    """

    def __init__(
        self,
        connection: Connection,
        deadline: float,
        *,
        functions: Mapping[str | int, Function] | None = None,
        files: frozenset[str] = frozenset(),
        fail: Callable[[bool], Exception] = lambda late: EOFError(),
    ) -> None:
        self.connection, self.deadline, self.files, self.fail = connection, deadline, files, fail
        self.functions: dict[str | int, Function] = {**(functions or {})}

    def call(self, name: str | int, *inputs: Any, **options: Any) -> Any:
        """Call a function of the other process.

        Raises
        ------
        Wrong
            If it raises this.
        Failed
            If it raises anything else, or the process has ended or does not answer in time.
        """
        message, generators = self._write("call", name, inputs, options, np.geterr())
        self._send(message)
        return self.wait(generators)

    def _stand_in(self, number: int) -> Function:
        return lambda *inputs, **options: self.call(number, *inputs, **options)

    def wait(self, generators: Sequence[np.random.Generator] = ()) -> Any:
        """Answer the calls of the other process until it returns a result; update the states of these generators."""
        while True:
            (kind, *content), received = self._receive()
            if kind == "value":
                value, states = content
                try:
                    for generator, state in zip(generators, states, strict=True):
                        generator.bit_generator.state = state
                except Exception as error:
                    raise _no_message(error) from None
                return value
            if kind == "error":
                raise _error(*content)
            self._send(self._answer(received, *content))

    def _write(self, *message: Any) -> tuple[bytes, list[np.random.Generator]]:
        """Return a message, and the generators of random numbers in it."""
        writer = Writer(self.functions)
        written = writer.write([*message])
        if len(written) > LONGEST_MESSAGE:
            raise Wrong(f"Your code returned {len(written):,} bytes, expected at most {LONGEST_MESSAGE:,}.")
        return written, writer.generators

    def _answer(
        self, generators: list[np.random.Generator], name: str | int, inputs: Any, options: Any, errors: Any
    ) -> bytes:
        """Call a function of this process; return the message with its result or its error."""
        try:
            with np.errstate(**errors):
                value = self.functions[name](*inputs, **options)
            return self._write("value", value, [generator.bit_generator.state for generator in generators])[0]
        except BaseException as error:  # such as sys.exit()
            if isinstance(error, MemoryError):
                error = error.__context__ or error
            verdict = explain(error, self.files)
            kinds = " ".join(kind.__name__ for kind in type(error).__mro__)
            text = str(error)[:LONGEST_WORDS]
            return self._write("error", kinds, text, verdict.words[:LONGEST_WORDS], verdict.solved)[0]

    def _send(self, message: bytes) -> None:
        try:
            self.connection.send_bytes(message)
        except OSError:
            raise self.fail(False) from None

    def _receive(self) -> tuple[Any, list[np.random.Generator]]:
        """Return a message, and the generators of random numbers in it."""
        try:
            left = self.deadline - time.monotonic()
            if left <= 0 or not self.connection.poll(left):
                raise self.fail(True)
            message = self.connection.recv_bytes(LONGEST_MESSAGE)
        except (EOFError, OSError):
            raise self.fail(False) from None
        try:
            reader = Reader(self._stand_in)
            found = reader.read(message)
            if not all(map(isinstance, found[1:], CONTENTS[found[0]])) or len(found) != 1 + len(CONTENTS[found[0]]):
                raise TypeError("its parts are of other types")
            return found, reader.generators
        except Exception as error:
            raise _no_message(error) from None


def _error(kinds: str, text: str, words: str, solved: bool) -> Exception:
    """Return the error of the other process, which is also of the kinds that checks catch."""
    text, words = text[:LONGEST_WORDS], words[:LONGEST_WORDS]  # the other process need not keep to it
    names = kinds[:LONGEST_WORDS].split()
    if "Wrong" in names:
        return (Unsolved if "Unsolved" in names else Wrong)(text)
    kind = next((FAILED[name] for name in names if name in FAILED), Failed)
    return kind(Verdict(False, words, solved), next(iter(names), ""), text)


def _no_message(error: Exception) -> Failed:
    return Failed(Verdict(False, f"Your code returned something that is not data: {error}."))


# ---------------------------------------------------------------------------------------------------------------------
# In the child


def _serve(
    exercise: Exercise, path: Path, record: Path, connection: Connection, limits: child.Limits, memory: int
) -> None:
    """Load the file when it is asked for, and call its functions, until the other process has its verdict."""
    if hasattr(os, "setsid"):
        os.setsid()  # the processes that the code starts end with this one
    _discard_streams()
    os.chdir(path.parents[1])

    def load() -> list[Any]:
        names = execute(exercise, path)
        return [watch(names[name]) for name in exercise.asks_for]

    port = Port(
        connection, time.monotonic() + 2 * limits.seconds, functions={"load": load}, files=frozenset([f"{path}"])
    )
    with child.record_lines(record) as file, child.limit_time(limits, file), child.limit_memory(memory):
        _limit_files()
        connection.send_bytes(b"ready")
        with suppress(EOFError):
            port.wait()


def _discard_streams() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _limit_files() -> None:
    """Limit the size of files that this process writes."""
    try:
        import resource
    except ImportError:
        return
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    most = LARGEST_FILE if hard == resource.RLIM_INFINITY else min(hard, LARGEST_FILE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
