"""The heads of attention, split and merged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitransformer.apps.learn.solutions import mistaken
from minitransformer.apps.learn.verdict import agree


def split_heads(split: Callable[..., Any]) -> None:
    """Check the heads of an array."""
    rng = np.random.default_rng(80)
    for b, t, h, dk in ((2, 4, 3, 5), (3, 2, 4, 5)):
        _split(split, rng.normal(size=(b, t, h * dk)), h)


def _split(split: Callable[..., Any], x: np.ndarray, H: int) -> None:
    heads = np.stack(np.split(x, H, axis=-1), axis=1)
    agree("heads", split(x, H), heads, mistakes=mistaken("split-heads", x, H))


def merge_heads(merge: Callable[..., Any]) -> None:
    """Check the heads laid side by side."""
    rng = np.random.default_rng(81)
    for shape in ((2, 3, 4, 7), (3, 4, 2, 5)):
        _merge(merge, rng.normal(size=shape))


def _merge(merge: Callable[..., Any], heads: np.ndarray) -> None:
    merged = np.concatenate(list(np.moveaxis(heads, 1, 0)), axis=-1)
    agree("merged", merge(heads), merged, mistakes=mistaken("merge-heads", heads))
