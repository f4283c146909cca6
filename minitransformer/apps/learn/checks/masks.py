"""The masks, of the future and of padding, and softmax with a mask."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.apps.learn.solutions import mistaken
from minitransformer.apps.learn.verdict import Wrong, agree

B, H, Tq, Tk, Dk, Dv = 2, 3, 4, 6, 5, 7
MASK = np.array(  # (Tq, Tk), each query with at least one key
    [[1, 0, 0, 0, 0, 0], [1, 1, 0, 1, 0, 0], [0, 1, 1, 1, 0, 1], [1, 1, 1, 1, 1, 1]], dtype=bool
)
NOTHING = MASK & np.array([True, False, True, True])[:, None]
"""The same, where query 1 sees nothing."""


def refuse_numbers(mask: Any) -> None:
    """Raise ``Wrong`` if a mask is not boolean."""
    dtype = np.asarray(mask).dtype
    if dtype.kind != "b":
        raise Wrong(f"mask should be boolean, but its numbers are {dtype}: a comparison is boolean.")


def causal_mask(causal_mask: Callable[..., Any]) -> None:
    """Check that it is boolean, and what it hides."""
    for n in (5, 1):
        found, lower = causal_mask(n), np.tri(n, dtype=bool)
        agree("mask", found, lower, mistakes=mistaken("causal-mask", n))
        refuse_numbers(found)


def padding_mask(padding_mask: Callable[..., Any]) -> None:
    """Check what is hidden: padding at the end, at the beginning, in between, everywhere and nowhere."""
    for rows in (
        [[5, 3, 8, 2, 0, 0], [7, 0, 0, 0, 0, 0], [1, 4, 9, 3, 2, 6]],
        [[0, 4, 0, 9, 3], [0, 0, 0, 0, 0]],
        [[3, 1, 0, 2]],
    ):
        ids = np.array(rows)
        found = padding_mask(ids)
        agree("mask", found, (ids != 0)[:, None, None, :], mistakes=mistaken("padding-mask", ids))
        refuse_numbers(found)


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """Return the weights of a softmax."""
    return np.asarray(ops.softmax.forward(x, axis=axis)[0])


def weigh(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the weights of a masked softmax."""
    return np.asarray(ops.softmax.forward(x, mask=mask)[0])


def masks(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield scores and masks that can be broadcast to them: for each query, and for each sentence, (B, 1, Tk)."""
    yield rng.normal(size=(B, Tq, Tk)), MASK
    keys = np.array([[1, 1, 1, 1, 0, 0], [0, 1, 1, 0, 1, 1]], dtype=bool)
    yield rng.normal(size=(B, H, Tq, Tk)), MASK
    yield rng.normal(size=(B, H, Tq, Tk)), keys[:, None, None]
    yield rng.normal(size=(B, 3, Tk)), keys[:, None]


def mask_before_softmax(weights: Callable[..., Any]) -> None:
    """Check the weights, for small scores, for hidden ones that are much larger, and beside the lowest there are."""
    for small, mask in masks(np.random.default_rng(73)):
        name = f"w, for scores {small.shape} and a mask {mask.shape}"
        _masked(weights, name, small, mask, mistaken("mask-before-softmax", small, mask))
    small, mask = next(masks(np.random.default_rng(73)))
    large = np.where(MASK, small - 1e4, 1e4)
    _masked(weights, "w, where hidden scores are large", large, mask, mistaken("mask-before-softmax", large, mask))
    lowest = np.where(MASK, np.finfo(np.float64).min, small)  # no finite number is below these
    _masked(weights, "w, where visible scores are the lowest finite numbers", lowest, mask, {})


def _masked(
    weights: Callable[..., Any], name: str, scores: np.ndarray, mask: np.ndarray, mistakes: Mapping[str, Any]
) -> None:
    with np.errstate(all="ignore"):
        found = weights(scores, mask)
    right, hidden = weigh(scores, mask), np.broadcast_to(~mask, scores.shape)
    leaks: dict[str, Any] = {}
    numeric = isinstance(found, np.ndarray) and found.dtype.kind in "fiub" and found.shape == scores.shape
    if numeric and (found[hidden] > 0).any():
        place = np.unravel_index(int(np.argmax(np.where(hidden, found, -1.0))), found.shape)
        highest = scores[place[:-1]][~hidden[place[:-1]]].max()
        words = f"the hidden key at [{', '.join(map(str, place))}] has the weight {found[place]:.3g}"
        leaks[f"only -inf is low enough: {words}, beside visible scores of at most {highest:.3g}"] = found
    agree(f"{name},", found, right, mistakes={**mistakes, **leaks})


def a_row_that_sees_nothing(weights: Callable[..., Any]) -> None:
    """Check the weights where one query, or every query of a sentence, sees nothing; no NaN may occur on the way."""
    rng = np.random.default_rng(74)
    padded = np.array([[True, False, True], [False, False, False]])[:, None, None]
    for scores, mask in ((rng.normal(size=(B, Tq, Tk)), NOTHING), (rng.normal(size=(B, H, 4, 3)), padded)):
        right = weigh(scores, mask)
        with np.errstate(all="ignore"):
            found = weights(scores, mask)
            _refuse_small_number(found, np.broadcast_to(mask.any(axis=-1), scores.shape[:-1]))
            agree("w", found, right, mistakes=mistaken("a-row-that-sees-nothing", scores, mask))
        _refuse_nan(weights, scores, mask)
        with np.errstate(invalid="raise", divide="raise"):
            agree("w, where hidden scores are large,", weights(np.where(mask, scores, 1e4), mask), right)
            agree("w, for scores of 10000,", weights(scores + 1e4, mask), weigh(scores + 1e4, mask))


def _refuse_small_number(found: Any, seeing: np.ndarray) -> None:
    """Raise ``Wrong`` if the weights of rows that see something nearly sum to 1."""
    if not isinstance(found, np.ndarray) or found.dtype != np.float64 or found.shape[:-1] != seeing.shape:
        return
    sums = found.sum(axis=-1)[seeing]
    if 1e-13 < np.abs(1 - sums).max() < 1e-3 and sums.max() <= 1 + 1e-13:
        raise Wrong(
            f"The weights of a row sum to {sums.min():.16g}, not to 1: is a small number added to each sum, to avoid a "
            "division by 0? It makes all weights a little too small. Replace a sum of 0 by 1, and leave the others as "
            "they are."
        )


def _refuse_nan(weights: Callable[..., Any], scores: np.ndarray, mask: np.ndarray) -> None:
    """Raise ``Wrong`` if the weights are right, but there was a NaN on the way to them."""
    with np.errstate(all="ignore"), np.errstate(invalid="raise", divide="raise"):
        try:
            weights(scores, mask)
        except FloatingPointError as error:
            raise Wrong(
                "The weights are right, but in the row that sees nothing a NaN is computed first and replaced later. "
                f"NumPy warns of it ({error}), and a backward pass would compute it again. To avoid it, replace a "
                "maximum of -inf by 0, and a sum of 0 by 1."
            ) from error
