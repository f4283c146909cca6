"""Chapter 7: the heads of attention, split and merged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitransformer.learn.verdict import agree


def split_heads(split: Callable[..., Any]) -> None:
    """Check the heads of an array."""
    rng = np.random.default_rng(80)
    for b, t, h, dk in ((2, 4, 3, 5), (3, 2, 4, 5)):
        _split(split, rng.normal(size=(b, t, h * dk)), h)


def _split(split: Callable[..., Any], x: np.ndarray, H: int) -> None:
    B, T, Dk = len(x), x.shape[1], x.shape[2] // H
    heads = np.stack([x[..., h * Dk : (h + 1) * Dk] for h in range(H)], axis=1)
    woven = x.reshape(B, T, Dk, H)
    agree(
        "heads",
        split(x, H),
        heads,
        mistakes={
            "reshape alone mixes positions and heads: cut the last axis first, (B, T, H, Dk), then move an "
            "axis": x.reshape(B, H, T, Dk),
            "the axes are still (B, T, H, Dk): swap the positions and the heads": heads.swapaxes(1, 2),
            "a head has every H-th feature; keep its features together: (H, Dk), not (Dk, H)": np.moveaxis(woven, 3, 1),
            "the head is the last axis; cut D into (H, Dk), then move the heads beside the batch": woven,
            "the last two axes are swapped: (B, H, Dk, T)": heads.swapaxes(2, 3),
            "the heads come before the batch: (H, B, T, Dk)": heads.swapaxes(0, 1),
        },
    )


def merge_heads(merge: Callable[..., Any]) -> None:
    """Check the heads laid side by side."""
    rng = np.random.default_rng(81)
    for shape in ((2, 3, 4, 7), (3, 4, 2, 5)):
        _merge(merge, rng.normal(size=shape))


def _merge(merge: Callable[..., Any], heads: np.ndarray) -> None:
    B, H, T, Dv = heads.shape
    agree(
        "merged",
        merge(heads),
        np.concatenate([heads[:, h] for h in range(H)], axis=-1),
        mistakes={
            "reshape alone mixes positions and heads: first make H and Dv neighbours, (B, T, H, Dv)": heads.reshape(
                B, T, H * Dv
            ),
            "the features of the heads are interleaved; keep those of a head together": np.moveaxis(
                heads, 1, 3
            ).reshape(B, T, H * Dv),
            "the heads and their features are still two axes": heads.swapaxes(1, 2),
            "the heads are added up; put them side by side": heads.sum(axis=1),
        },
    )
