"""Output streams that accept every character, whatever the system's encoding is (cp1252 on many Windows machines)."""

from __future__ import annotations

from typing import TextIO

__all__ = ["accept_all_characters"]


def accept_all_characters(stream: TextIO, line_buffering: bool | None = None) -> None:
    """Let a stream accept every character, such as arrows and letters of any language.

    Files and pipes get UTF-8. A terminal keeps its encoding and shows ? for characters that it cannot show. A stream of
    another kind, such as that of a notebook, accepts them already.
    """
    if hasattr(stream, "reconfigure"):
        encoding = stream.encoding if stream.isatty() else "utf-8"
        stream.reconfigure(encoding=encoding, errors="replace", line_buffering=line_buffering)
