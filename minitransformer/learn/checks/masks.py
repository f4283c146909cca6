"""Chapter 7: the masks, of the future and of padding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitransformer.learn.verdict import Wrong, agree


def refuse_numbers(mask: Any) -> None:
    """Raise ``Wrong`` if a mask is not boolean."""
    dtype = np.asarray(mask).dtype
    if dtype.kind != "b":
        raise Wrong(f"mask should be boolean, but its numbers are {dtype}: a comparison is boolean.")


def causal_mask(causal_mask: Callable[..., Any]) -> None:
    """Check that it is boolean, and what it hides."""
    for n in (5, 1):
        found, lower = causal_mask(n), np.tri(n, dtype=bool)
        agree(
            "mask",
            found,
            lower,
            mistakes={
                "every query sees the future and not the past: the queries are the rows": lower.T,
                "a query must see its own position too": np.tri(n, k=-1, dtype=bool),
                "True and False are exchanged: True = may attend": ~lower,
                "this is to be added to the scores; a mask is boolean, True = may attend": np.where(lower, 0, -np.inf),
                "only the own position is seen: compare with >=, not ==": np.eye(n, dtype=bool),
            },
        )
        refuse_numbers(found)


def padding_mask(padding_mask: Callable[..., Any]) -> None:
    """Check what is hidden: padding at the end, at the beginning, in between, everywhere and nowhere."""
    for rows in (
        [[5, 3, 8, 2, 0, 0], [7, 0, 0, 0, 0, 0], [1, 4, 9, 3, 2, 6]],
        [[0, 4, 0, 9, 3], [0, 0, 0, 0, 0]],
        [[3, 1, 0, 2]],
    ):
        ids = np.array(rows)
        seen = ids != 0
        found = padding_mask(ids)
        agree(
            "mask",
            found,
            seen[:, None, None, :],
            mistakes={
                "axes of length 1 are missing, for heads and queries: (B, Tk) has to become (B, 1, 1, Tk)": seen,
                "an axis of length 1 is missing: there is one for the heads and one for the queries": seen[:, None, :],
                "the tokens lie on the axis of the queries; the keys are the last axis": seen[:, None, :, None],
                "the batch has to be the first axis": seen[None, None],
                "True and False are exchanged: True = may attend": ~seen[:, None, None, :],
                "this is to be added to the scores; a mask is boolean, True = may attend": np.where(seen, 0, -np.inf)[
                    :, None, None, :
                ],
                "it takes all padding to be at the end; look at each token by itself": (
                    np.arange(seen.shape[1]) < seen.sum(axis=1, keepdims=True)
                )[:, None, None, :],
                "it is repeated for every query already; broadcasting does that": np.repeat(
                    seen[:, None, None, :], seen.shape[1], axis=2
                ),
                "padding queries are hidden too; the mask is about keys": (
                    seen[:, None, :, None] & seen[:, None, None]
                ),
                "one mask is made for all sentences; each has padding of its own": np.broadcast_to(
                    seen.all(axis=0), seen.shape
                )[:, None, None, :],
            },
        )
        refuse_numbers(found)
