"""Models of other programs: read into a run folder, and written from one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from minitransformer.apps.interop.ctranslate2 import read_ctranslate2 as read_ctranslate2
from minitransformer.apps.interop.huggingface import read_huggingface as read_huggingface
from minitransformer.apps.interop.llama2c import read_llama2c as read_llama2c
from minitransformer.apps.interop.marian import read_marian as read_marian
from minitransformer.apps.interop.published import Published as Published
from minitransformer.apps.interop.published import write_run as write_run
from minitransformer.apps.interop.pytorch_names import from_pytorch as from_pytorch
from minitransformer.apps.interop.pytorch_names import to_pytorch as to_pytorch
from minitransformer.apps.interop.to_ctranslate2 import QUANTIZATIONS as QUANTIZATIONS
from minitransformer.apps.interop.to_ctranslate2 import write_ctranslate2 as write_ctranslate2
from minitransformer.apps.interop.to_huggingface import write_huggingface as write_huggingface
from minitransformer.apps.interop.writing import ExportError as ExportError
from minitransformer.apps.interop.writing import check_new as check_new
from minitransformer.public import public_names
from minitransformer.runs import TrainedRun

READERS: Mapping[str, Callable[..., Published]] = {
    "huggingface": read_huggingface,
    "marian": read_marian,
    "ctranslate2": read_ctranslate2,
    "llama2c": read_llama2c,
}
"""The function that reads the models of each program from a path; llama2c's takes that of its tokens too."""
WRITERS: Mapping[str, Callable[[TrainedRun, Path], list[str]]] = {
    "huggingface": write_huggingface,
    "ctranslate2": write_ctranslate2,
}
"""The function that writes a run for each program, and returns notes on what differs there."""

__all__ = public_names(globals())
