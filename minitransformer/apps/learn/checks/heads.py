"""The heads of attention, split and merged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitransformer.apps.learn.comparing import check_result


def split_heads(split: Callable[..., Any]) -> None:
    """Check the heads of an array."""
    rng = np.random.default_rng(80)
    for b, t, h, dk in ((2, 4, 3, 5), (3, 2, 4, 5)):
        x = rng.normal(size=(b, t, h * dk))
        check_result("split-heads", "heads", split, (x, h), np.stack(np.split(x, h, axis=-1), axis=1))


def merge_heads(merge: Callable[..., Any]) -> None:
    """Check the heads laid side by side."""
    rng = np.random.default_rng(81)
    for shape in ((2, 3, 4, 7), (3, 4, 2, 5)):
        heads = rng.normal(size=shape)
        merged = np.concatenate(list(np.moveaxis(heads, 1, 0)), axis=-1)
        check_result("merge-heads", "merged", merge, (heads,), merged)
