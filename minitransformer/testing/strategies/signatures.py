"""Inputs for the arrays of a signature, and for an operation."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from hypothesis import strategies as st

from minitransformer.arrays import Array
from minitransformer.autograd import Operation
from minitransformer.testing.examples import Example
from minitransformer.testing.shapes import Inputs, inputs_in, inputs_of
from minitransformer.testing.strategies.operations import STRATEGIES
from minitransformer.testing.strategies.parts import arrays, leading_axes, sizes


@overload
def inputs(
    of: str, extreme: bool = False, *, ties: bool = False, dtype: Any = np.float64
) -> st.SearchStrategy[list[Array]]: ...


@overload
def inputs(of: Operation, extreme: bool = False) -> st.SearchStrategy[Example]: ...


def inputs(
    of: str | Operation, extreme: bool = False, *, ties: bool | None = None, dtype: Any = None
) -> st.SearchStrategy[Any]:
    """Draw the arrays of a signature, or inputs and options of an operation.

    Parameters
    ----------
    of : str or Operation
        A signature such as ``"(B, T, D), (D, F)"`` (see ``minitransformer.testing.shapes``); the drawn sizes of the
        letters differ, and some are 1 or 0. Or an operation with a strategy of its name in ``operations``, or one
        whose inputs are floating-point arrays.
    extreme : bool
        Whether inputs may be large: ±1e4, unless the strategy says something else.
    ties : bool
        For a signature: whether some draws may consist of few distinct values, including zeros. By default the entries
        of an array keep a distance from each other, because many functions have no derivative at ties.
    dtype : dtype
        For a signature: the type of the arrays, real or complex; float64 by default.

    Raises
    ------
    ValueError
        If a part of the signature cannot be read.
    TypeError
        If ``of`` is neither, the type has no fractions, or the options of a signature are given for an operation.
    LookupError
        If there is no strategy for an operation and the docstring does not state the shapes.

    Examples
    --------
    >>> @given(strategies.inputs("(..., T, D), (D, 3), D >= 1", dtype="float32"))  # doctest: +SKIP
    ... def test_my_layer(inputs):
    ...     check(my_layer, inputs=inputs)
    """
    if isinstance(of, str):
        dtype = np.dtype(np.float64 if dtype is None else dtype)
        if np.asarray(0.5).astype(dtype) != 0.5:
            raise TypeError(f"strategies.inputs: found dtype {dtype}, expected a floating-point or complex type")
        return _from_shapes(inputs_in(of), extreme=extreme, ties=bool(ties), dtype=dtype)
    if not isinstance(of, Operation):
        raise TypeError(
            f'strategies.inputs: found {of!r}, expected a signature such as "(B, T, D), (D, F)" or an Operation'
        )
    if ties is not None or dtype is not None:
        raise TypeError(f"strategies.inputs of {of.name}: ties and dtype are for signatures; operations draw their own")
    if of.name in STRATEGIES:
        return STRATEGIES[of.name](extreme)
    return _from_shapes(inputs_of(of), extreme=extreme).map(lambda arrays: Example(tuple(arrays), {}))


@st.composite
def _from_shapes(draw: st.DrawFn, /, wanted: Inputs, **kind: Any) -> list[Array | None]:
    """Draw arrays of some kind; optional ones are sometimes left out."""
    n = draw(leading_axes()) if wanted.any_axes else 0
    lengths = draw(sizes(n + len(wanted.least), min=(*(0,) * n, *wanted.least.values())))
    shapes = wanted.shapes(lengths[:n], lengths[n:])
    kept = {name: name not in wanted.optional or draw(st.booleans()) for name in shapes}
    return [draw(arrays(shapes[name], **kind)) if kept[name] else None for name in shapes]
