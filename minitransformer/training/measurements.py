"""The measurements of a run: a file with one of them in each line, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from minitransformer.durable import append, flush_file, write_durably
from minitransformer.training.checkpoints import RunError

__all__ = ["Measurements"]


class Measurements:
    """The measurements of a run, oldest first.

    Parameters
    ----------
    path : Path
        The file; there need not be one yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, measurement: Mapping[str, Any]) -> None:
        """Append a measurement; its ``step`` says when it was made, ``final`` that it is that of the result.

        Raises
        ------
        RunError
            If it cannot be written.
        """
        try:
            append(self.path, f"{json.dumps(measurement)}\n".encode())
        except OSError as error:
            raise RunError(f"cannot write {self.path}: {error.strerror or error}") from error

    def read(self) -> list[dict[str, Any]]:
        """Return the measurements; a line that was cut short is left out."""
        found = []
        for line in self.path.read_bytes().split(b"\n") if self.path.exists() else ():
            with suppress(ValueError):
                if isinstance(value := json.loads(line), dict) and "step" in value:
                    found.append(value)
        return found

    def final(self) -> dict[str, Any] | None:
        """Return the measurement of the result, if the run is finished."""
        return next((line for line in self.read() if line.get("final")), None)

    def cut(self, step: int) -> None:
        """Drop the measurements after a step, and that of the result.

        Raises
        ------
        RunError
            If the file cannot be written.
        """
        if not self.path.exists():
            return
        kept = [line for line in self.read() if line["step"] <= step and not line.get("final")]
        text = "".join(f"{json.dumps(line)}\n" for line in kept)
        try:
            write_durably(self.path, text.encode("utf-8"))
        except OSError as error:
            raise RunError(f"cannot write {self.path}: {error.strerror or error}") from error

    def flush(self) -> None:
        """Wait until all measurements are on the disk.

        Raises
        ------
        RunError
            If they cannot be brought there.
        """
        try:
            flush_file(self.path)
        except OSError as error:
            raise RunError(f"cannot write {self.path}: {error.strerror or error}") from error
