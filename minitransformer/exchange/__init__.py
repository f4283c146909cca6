"""Models of other programs: read into a run folder, and written from one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from minitransformer.exchange.huggingface import read_huggingface
from minitransformer.exchange.published import Published, write_run

__all__ = ["READERS", "Published", "read_huggingface", "write_run"]

READERS: Mapping[str, Callable[[Path], Published]] = {"huggingface": read_huggingface}
"""The function that reads the models of each program."""
