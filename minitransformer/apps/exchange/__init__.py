"""Models of other programs: read into a run folder, and written from one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from minitransformer.apps.exchange.ctranslate2 import read_ctranslate2
from minitransformer.apps.exchange.huggingface import read_huggingface
from minitransformer.apps.exchange.marian import read_marian
from minitransformer.apps.exchange.published import Published, write_run
from minitransformer.apps.exchange.pytorch_names import from_pytorch, to_pytorch
from minitransformer.apps.exchange.to_ctranslate2 import QUANTIZATIONS, write_ctranslate2
from minitransformer.apps.exchange.to_huggingface import write_huggingface
from minitransformer.apps.exchange.writing import ExportError, check_new
from minitransformer.training import TrainedRun

__all__ = [
    "QUANTIZATIONS",
    "READERS",
    "WRITERS",
    "ExportError",
    "Published",
    "check_new",
    "from_pytorch",
    "read_ctranslate2",
    "read_huggingface",
    "read_marian",
    "to_pytorch",
    "write_ctranslate2",
    "write_huggingface",
    "write_run",
]

READERS: Mapping[str, Callable[[Path], Published]] = {
    "huggingface": read_huggingface,
    "marian": read_marian,
    "ctranslate2": read_ctranslate2,
}
"""The function that reads the models of each program."""
WRITERS: Mapping[str, Callable[[TrainedRun, Path], list[str]]] = {
    "huggingface": write_huggingface,
    "ctranslate2": write_ctranslate2,
}
"""The function that writes a run for each program, and returns notes on what differs there."""
