"""The parts of strategies: sizes, arrays, masks, ids and cotangents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from minitransformer.arrays import Array
from minitransformer.testing.case import draw_cotangent

LAYOUTS = ("C", "transposed", "strided", "reversed", "read-only")
MASKS = ("none", "full", "causal", "padding", "per-head", "random")
LARGE = 1e4


@st.composite
def sizes(draw: st.DrawFn, n: int, min: int | Sequence[int] = 0, max: int = 6) -> tuple[int, ...]:
    """Draw the sizes of n axes, all different, so that swapped axes are caught.

    In half of the draws one of the sizes is replaced by 1 or 0, where ``min`` allows it.

    Parameters
    ----------
    n : int
        How many.
    min : int or sequence of int
        The least size, of all axes or of each.
    max : int
        The largest size; raised if there are fewer than n sizes from 2 to it.

    Examples
    --------
    >>> batch, length, width = draw(sizes(3, min=(0, 0, 1)))  # doctest: +SKIP
    """
    least = (min,) * n if isinstance(min, int) else tuple(min)
    if len(least) != n:
        raise ValueError(f"sizes: {len(least)} least sizes for {n} axes; give one for each, or one for all")
    smallest = np.max((2, *least))
    pool = range(int(smallest), int(np.max((max, smallest + n - 1))) + 1)
    found = list(draw(st.permutations(pool)))[:n]
    special = draw(st.sampled_from((None, None, 1, 0)))
    places = [i for i in range(n) if special is not None and special >= least[i]]
    if special is not None and places:
        found[draw(st.sampled_from(places))] = special
    return tuple(found)


def generators() -> st.SearchStrategy[np.random.Generator]:
    """Draw a seeded NumPy generator."""
    return st.integers(0, 2**32 - 1).map(np.random.default_rng)


@st.composite
def arrays(
    draw: st.DrawFn,
    shape: Sequence[int],
    *,
    low: float = -2.0,
    high: float = 2.0,
    away_from: float | None = None,
    distance: float = 0.05,
    ties: bool = True,
    layouts: Sequence[str] = LAYOUTS,
    extreme: bool = False,
    large: float = LARGE,
    dtype: Any = np.float64,
) -> Array:
    """Draw an array of floating-point numbers.

    Parameters
    ----------
    shape : sequence of int
        Its shape.
    low, high : float
        The range of its entries.
    away_from : float, optional
        A kink: entries nearer to it than ``distance`` are moved away by as much.
    distance : float
        How far.
    ties : bool
        Whether some draws may consist of few distinct values, including zeros. Without, the entries of an array keep
        a distance from each other, so that no maximum is near a tie.
    layouts : sequence of {"C", "transposed", "strided", "reversed", "read-only"}
        The possible memory layouts.
    extreme : bool
        Whether entries may be large; then about half of them are.
    large : float
        The size of large ones, of both signs.
    dtype : dtype
        The type of the entries.

    Examples
    --------
    >>> x = draw(arrays((3, 4), away_from=0.0))  # doctest: +SKIP
    """
    rng = draw(generators())
    values: Array = rng.uniform(low, high, tuple(shape))
    if not ties:
        places = rng.permutation(values.size).reshape(values.shape) + rng.uniform(0.25, 0.75, values.shape)
        values = low + (high - low) * places / max(values.size, 1)
    elif draw(st.sampled_from((False, False, True))):
        values = np.clip(np.round(2 * values) / 2 + 0.0, low, high)
    if extreme and draw(st.booleans()):
        larger = rng.choice((-large, large), values.shape) if ties else values * (large / max(abs(low), abs(high)))
        values = np.where(rng.random(values.shape) < 0.5, values, larger)
    if away_from is not None:
        near = np.abs(values - away_from) < distance
        values += near * np.where(values < away_from, -distance, distance)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.permutation(values.ravel()).reshape(values.shape)
    return lay_out(values.astype(dtype, copy=False), draw(st.sampled_from(tuple(layouts))))


def lay_out(values: Array, layout: str) -> Array:
    """Return an array with the same entries in another memory layout.

    Parameters
    ----------
    values : array
        The entries.
    layout : {"C", "transposed", "strided", "reversed", "read-only"}
        The usual order; the axes in reverse order; every other entry of a larger array; with steps backwards in
        memory; the usual order, not to be written to.
    """
    values = np.asarray(values)
    if not values.ndim:  # a single number has only one layout
        layout = "read-only" if layout == "read-only" else "C"
    if layout == "transposed":
        return np.array(values, order="F")
    if layout == "strided":
        every_other = (slice(None, None, 2),) * values.ndim
        larger = np.full([2 * n for n in values.shape], np.nan, values.dtype)  # the entries between must never be read
        larger[every_other] = values
        return larger[every_other]
    if layout == "reversed":
        backwards = (slice(None, None, -1),) * values.ndim
        return np.array(values[backwards], order="C")[backwards]
    result = np.array(values, order="C")
    result.flags.writeable = layout != "read-only"
    return result


@st.composite
def masks(draw: st.DrawFn, shape: Sequence[int], *, kinds: Sequence[str] = MASKS) -> Array | None:
    """Draw a mask for scores, True = may attend; often one of its rows is all False.

    Parameters
    ----------
    shape : sequence of int
        The scores' shape, (..., Tq, Tk).
    kinds : sequence of {"none", "full", "causal", "padding", "per-head", "random"}
        What it may be: None; all True; the causal triangle; one row for each entry of the first axis, the same for
        all queries; one for each head (the axis before Tq), the same in all batches; random entries, with any of the
        axes of length 1 and any number of the leading ones left out. Padding and per-head need scores of three axes or
        more and are random ones where there are fewer.
    """
    shape = tuple(shape)
    kind = draw(st.sampled_from(tuple(kinds)))
    if kind == "none":
        return None
    if kind == "full":
        return np.ones(shape, dtype=bool)
    mask: Array
    if kind == "causal":
        mask = np.tri(shape[-2], shape[-1]) > 0
    elif kind == "padding" and len(shape) > 2:
        lengths = draw(generators()).integers(0, shape[-1] + 1, shape[0])
        mask = (np.arange(shape[-1]) < lengths[:, None]).reshape(shape[0], *(1,) * (len(shape) - 2), shape[-1])
    elif kind == "per-head" and len(shape) > 2:
        mask = draw(generators()).random(shape[-3:]) < 0.6
    else:
        kept = [n if draw(st.booleans()) else 1 for n in shape]
        mask = draw(generators()).random(kept[draw(st.integers(0, len(shape) - 1)) :]) < 0.6
    if mask.ndim > 1 and mask.size and draw(st.booleans()):
        rows = mask.reshape(-1, mask.shape[-1])
        rows[draw(st.integers(0, len(rows) - 1))] = False
        mask = rows.reshape(mask.shape)
    return mask


@st.composite
def ids(draw: st.DrawFn, shape: Sequence[int], n: int) -> Array:
    """Draw token ids; often most of them are repeated.

    Parameters
    ----------
    shape : sequence of int
        The shape.
    n : int
        How many tokens there are: ids are from 0 to n - 1.
    """
    rng = draw(generators())
    few = draw(st.booleans())
    chosen = rng.permutation(n)[: 2 if few else n]
    return rng.choice(chosen, tuple(shape)) if len(chosen) else np.zeros(tuple(shape), dtype=np.int64)


@st.composite
def cotangents(draw: st.DrawFn, shape: Sequence[int]) -> Array:
    """Draw a gradient of an output: random, both signs, all entries different, none near 0.

    Parameters
    ----------
    shape : sequence of int
        The output's shape.
    """
    values = draw_cotangent(draw(generators()), shape)
    return lay_out(values, draw(st.sampled_from(LAYOUTS)))


def leading_axes(most: int = 2) -> st.SearchStrategy[int]:
    """Draw the number of leading axes."""
    return st.integers(0, most)
