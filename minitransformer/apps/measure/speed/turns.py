"""Several processes that take turns, so that a noisy minute of the machine affects all of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from statistics import median
from typing import Any

TURN = 1.2
"""How long a turn should take, in seconds."""
PAUSE = 0.2
"""How long to wait between turns, in seconds: threads of the last program may still be spinning."""


@dataclass(frozen=True)
class Entrant:
    """A program that takes turns: its name, its name in reports, and its command line."""

    name: str
    label: str
    command: Sequence[str]


@dataclass
class Outcome:
    """The result of a program."""

    label: str
    description: dict[str, Any] = field(default_factory=dict)
    """Its description when it was ready."""
    answers: list[dict[str, Any]] = field(default_factory=list)
    """One for each round: ``"seconds"``, the time of each step, ``"peak"``, bytes or None, and what else it said."""
    failed: str | None = None
    """Why it did not finish, if it did not."""


class ProcessError(Exception):
    """A program has ended, or could not start; the message says why."""


class Process(AbstractContextManager["Process"]):
    """A running program.

    Parameters
    ----------
    command : sequence of str
        Its command line. It must follow the protocol of ``program.py``.

    Raises
    ------
    ProcessError
        If it cannot be started.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (it is closed with the process)
        # In its own session, Ctrl-C does not reach it directly, and its own child processes can be stopped with it.
        separate: dict[str, Any] = (
            {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
            if sys.platform == "win32"
            else {"start_new_session": True}
        )
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                encoding="utf-8",
                **separate,
            )
        except OSError as error:
            self._errors.close()
            raise ProcessError(f"it cannot be started: {error}") from error

    def __exit__(self, *exception: object) -> None:
        self.close()

    def read(self) -> dict[str, Any]:
        """Wait for an answer.

        Raises
        ------
        ProcessError
            If the process has ended.
        """
        assert self._process.stdout is not None  # it is a pipe
        line = self._process.stdout.readline()
        if not line:
            raise ProcessError(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise ProcessError(answer["failed"])
        return answer

    def ask(self, times: int) -> dict[str, Any]:
        """Request some steps and return the answer.

        Raises
        ------
        ProcessError
            If there is none.
        """
        assert self._process.stdin is not None  # it is a pipe
        try:
            self._process.stdin.write(f"{times}\n")
            self._process.stdin.flush()
        except OSError:  # it has gone
            raise ProcessError(self._last_words()) from None
        return self.read()

    def close(self) -> None:
        """End the process and its child processes."""
        if self._process.poll() is None:
            if sys.platform == "win32":
                self._process.kill()
            else:
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):  # nobody reads the remaining output
                pipe.close()
        self._errors.close()

    def _last_words(self) -> str:
        status = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", errors="replace").strip().splitlines()
        end = f"ended by signal {-status}" if status < 0 else f"ended with status {status}"
        if -status == getattr(signal, "SIGKILL", None):
            end += ", which usually means that memory ran out"
        return f"{end}: {lines[-1].strip()}"[:300] if lines else end


def prefixed(tell: Callable[[str], None], name: str) -> Callable[[str], None]:
    """Return a function that passes messages on, each with a name and a colon before it."""
    return lambda text: tell(f"{name}: {text}")


def steps_in_a_turn(seconds: float) -> int:
    """Return the number of steps in a turn of about 1.2 s, given the seconds of a step: 2 to 100."""
    return min(max(round(TURN / max(seconds, 1e-9)), 2), 100)


def take_turns(
    programs: Sequence[Entrant],
    rounds: int,
    tell: Callable[[str], None],
    steps: Callable[[float], int] = steps_in_a_turn,
    pause: float = PAUSE,
) -> dict[str, Outcome]:
    """Let programs do steps, one program at a time, in rounds.

    All are started first, one after the other, and each has a warm-up turn of two steps, which decides how many steps
    its turns have. Each round begins with another program. A program that cannot start, or ends, is left out
    afterwards.

    Parameters
    ----------
    programs : sequence of Entrant
        Who takes part.
    rounds : int
        How many turns each has.
    tell : callable
        Called with each message about the progress.
    steps : callable
        From the seconds that a step takes to the number of steps in a turn.
    pause : float
        Seconds to wait before each turn.

    Returns
    -------
    dict of str to Outcome
        By the programs' names.
    """
    outcomes = {program.name: Outcome(program.label) for program in programs}
    running: dict[str, tuple[Process, int]] = {}
    with ExitStack() as stack:  # Ctrl-C, or any error, ends all of them
        for program in programs:
            tell(f"starting {program.label}")
            try:
                process = stack.enter_context(Process(program.command))
                outcomes[program.name].description = process.read()["ready"]
                running[program.name] = process, steps(median(process.ask(2)["seconds"]))
            except ProcessError as death:
                outcomes[program.name].failed = str(death)
                tell(f"{program.label} cannot take part: {death}")
        for number in range(rounds):
            tell(f"round {number + 1} of {rounds}")
            names = [program.name for program in programs]
            first = number % max(len(names), 1)
            for name in names[first:] + names[:first]:
                if name not in running:
                    continue
                process, times = running[name]
                time.sleep(pause)
                try:
                    outcomes[name].answers.append(process.ask(times))
                except ProcessError as death:
                    outcomes[name].failed = f"in round {number + 1}: {death}"
                    tell(f"{outcomes[name].label} failed {outcomes[name].failed}")
                    process.close()
                    del running[name]
    return outcomes
