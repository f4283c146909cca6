"""Folders of models for other programs."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from minitransformer.data import Bpe, Pieces
from minitransformer.durable import replace
from minitransformer.nn import ModelOptions
from minitransformer.training import RunError, TrainedRun

__all__ = ["ExportError", "head_sizes", "new_folder", "require_same", "sentencepiece_models"]


class ExportError(ValueError):
    """A model computes what the other program cannot."""


def require_same(program: str, options: Sequence[tuple[str, Any, Any]]) -> None:
    """Raise an ExportError unless each option, given with its value, has the only value that a program knows."""
    for name, found, expected in options:
        if found != expected:
            raise ExportError(
                f"{program} has only {name} {expected!r}, found {found!r}; this model cannot be written for it"
            )


def head_sizes(options: ModelOptions) -> list[tuple[str, int, float]]:
    """Return the sizes of heads, for `require_same`: other programs have only D / H."""
    size = options.d_model / options.n_heads
    size = int(size) if size.is_integer() else size
    return [("d_k", options.key_size, size), ("d_v", options.value_size, size)]


def sentencepiece_models(run: TrainedRun) -> tuple[dict[str, bytes], str]:
    """Return the sentencepiece models of a run by their file names; if it has none, a text that names its kinds."""
    if isinstance(run.source, Bpe | Pieces) and isinstance(run.target, Bpe | Pieces):
        return {"source.spm": run.source.model, "target.spm": run.target.model}, ""
    return {}, " and ".join(sorted({run.source.kind, run.target.kind}))


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Give an empty folder that gets the name ``out`` when its files are written; if that fails, none is left.

    Raises
    ------
    RunError
        If there is something at the path already, or it cannot be written.
    """
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise RunError(f"{out} exists already; choose another --out")
        aside = out.with_name(f".{secrets.token_hex(8)}.partial")
        aside.mkdir(parents=True)
        try:
            yield aside
            if out.exists():
                out.rmdir()  # it is empty; Windows replaces no folder
            replace(aside, out)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        raise RunError(f"cannot write {out}: {error.strerror or error}") from error
