"""The measurements of a run, in a file with one JSON object per line."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minitransformer.durable import append, flush_file, write_durably
from minitransformer.files import FileError, parse_json, read_file
from minitransformer.options import Options, option
from minitransformer.runs.errors import refusing, writing


class Measurements:
    """The measurements of a run, oldest first.

    Parameters
    ----------
    path : Path
        The file; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, measurement: Mapping[str, Any]) -> None:
        """Append a measurement; ``step`` is the training step, ``final`` marks the measurement of the result.

        Raises
        ------
        RunError
            If it cannot be written.
        """
        with writing(self.path):
            append(self.path, f"{json.dumps(measurement)}\n".encode())

    def read(self) -> list[dict[str, Any]]:
        """Return the measurements, without an incomplete last line that a crash may have left.

        Raises
        ------
        RunError
            If the file cannot be read, or a line is not a measurement; the message names it.
        """
        return self._parse()

    def final(self) -> dict[str, Any] | None:
        """Return the measurement of the result, if the run is finished: then it is the last; only that one is read."""
        last = self._parse(only_last=True)
        return last[0] if last and last[0].get("final") else None

    def _parse(self, only_last: bool = False) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        with refusing(FileError):
            lines = read_file(self.path).split(b"\n")
        whole = [number for number, line in enumerate(lines, 1) if line.startswith(b"{") and line.endswith(b"}")]
        end = max(whole, default=0)
        found = []
        for number in range(max(1, end) if only_last else 1, end + 1):
            with refusing(ValueError, f"{self.path}, line {number} is not a measurement: ", "; remove the line"):
                found.append(_measurement(lines[number - 1]))
        return found

    def cut(self, step: int) -> None:
        """Drop the measurements after a step, and the measurement of the result.

        Raises
        ------
        RunError
            If the file cannot be written.
        """
        if not os.path.lexists(self.path):  # a link that leads nowhere is replaced too
            return
        kept = [line for line in self.read() if line["step"] <= step and not line.get("final")]
        text = "".join(f"{json.dumps(line)}\n" for line in kept)
        with writing(self.path):
            write_durably(self.path, text.encode("utf-8"))

    def flush(self) -> None:
        """Wait until all measurements are on the disk.

        Raises
        ------
        RunError
            If they cannot be written.
        """
        with writing(self.path):
            flush_file(self.path)


@dataclass(frozen=True, kw_only=True)
class _Measurement(Options):
    step: int = option(0, "training steps so far", at_least=0)
    final: bool = option(False, "whether this is the measurement of the result", added=True)
    values: Mapping[str, float]


def _measurement(line: bytes) -> dict[str, Any]:
    """Return the measurement of a line, or raise a ValueError."""
    found: dict[str, Any] = parse_json(line)
    if not isinstance(found, dict):
        raise ValueError(f"found {type(found).__name__}, expected an object")
    own = {name: value for name, value in found.items() if name in ("step", "final")}
    _Measurement.from_flat({**own, "values": {name: value for name, value in found.items() if name not in own}})
    return found
