"""The elementary rules of differentiation, as a table.

Each rule reads::

    name    forward:  arrays -> (value, saved)
            gradient of input 0:  (d, *saved) -> d_x
            gradient of input 1:  (d, *saved) -> d_y
            doc:  the docstring, for an element-wise function

``d`` is the gradient of the value. ``saved`` holds what the gradients need and nothing else. A rule may ignore
broadcasting: ``unbroadcast`` is applied to the gradients that it returns, here and nowhere else. For an element-wise
function the rule is enough: the method of ``Tensor`` and the function of the package are generated from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from minitransformer.arrays import Array, check_index, xp


@dataclass(eq=False)
class Rule:
    """How to compute an elementary operation and the gradient of each input."""

    forward: Callable[..., tuple[Array, tuple[Any, ...]]]
    gradients: tuple[Callable[..., Array] | None, ...]
    doc: str = ""


def unbroadcast(d: Array, shape: tuple[int, ...]) -> Array:
    """Sum a gradient over the axes along which an input of this shape was repeated.

    Broadcasting copies an entry to many places, and each copy adds its share to the loss. So the gradient of the
    entry is the sum over the copies.

    Parameters
    ----------
    d : array
        The gradient in the shape of the output.
    shape : tuple of int
        The shape of the input.

    Returns
    -------
    array of that shape
    """
    if d.shape == shape:
        return d
    new = d.ndim - len(shape)  # axes that broadcasting put in front
    stretched = tuple(i for i in range(new, d.ndim) if shape[i - new] == 1 and d.shape[i] != 1)
    return d.sum(axis=(*range(new), *stretched), keepdims=True).reshape(shape)


def _spread(d: Array, shape: tuple[int, ...], axis: Any, keepdims: bool) -> Array:
    """Repeat the gradient of a reduction along the axis, to the shape of the reduced array."""
    if axis is not None and not keepdims:
        d = xp.expand_dims(d, axis)
    return xp.broadcast_to(d, shape)


def _share(d: Array, x: Any, y: Any) -> Array:
    """Return the factor of x in the gradient of ``maximum(x, y)``."""
    return xp.where(x == y, d / 2, xp.where(x > y, d, 0))


def _share_of_maximum(x: Array, axis: Any) -> Array:
    """Return 1 where x is the maximum along the axis, 1/n where n entries tie for it, else 0."""
    is_largest = (x == x.max(axis=axis, keepdims=True)).astype(x.dtype)
    return is_largest / is_largest.sum(axis=axis, keepdims=True)


def _product_of_others(x: Array, axis: Any) -> Array:
    """Return, for each entry, the product of the others along the axis: without a division, as x may contain 0."""
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    last = tuple(range(-len(axes), 0))
    moved = xp.moveaxis(x, axes, last)
    kept = moved.shape[: x.ndim - len(axes)]
    rows = moved.reshape(*kept, prod(moved.shape[len(kept) :]))
    before, after = (
        xp.cumprod(xp.concatenate([xp.ones_like(r[..., :1]), r[..., :-1]], axis=-1), axis=-1)
        for r in (rows, rows[..., ::-1])
    )
    return xp.moveaxis((before * after[..., ::-1]).reshape(moved.shape), last, axes)


def _norm(x: Array, axis: Any, keepdims: bool) -> tuple[Array, tuple[Any, ...]]:
    """Compute the Euclidean norm. Dividing by the largest entry first keeps squares from over- or underflowing."""
    largest = abs(x).max(axis=axis, keepdims=True) if x.size else x.sum(axis=axis, keepdims=True)
    largest = xp.where((largest > 0) & xp.isfinite(largest), largest, 1)
    x = x / largest
    length = xp.sqrt((x * x).sum(axis=axis, keepdims=True))
    y = largest * length
    return y if keepdims else y.squeeze(axis), (x, length, axis, keepdims)


def _place(d: Array, shape: tuple[int, ...], index: tuple[Any, ...]) -> Array:
    """Put the gradient of ``x[index]`` back where it came from; an entry taken twice receives both."""
    result = xp.zeros(shape, dtype=d.dtype)
    if all(part is None or part is Ellipsis or isinstance(part, int | slice) for part in index):
        result[index] = d
    else:
        xp.add.at(result, index, d)
    return result


def _d_base(d: Array, x: Array, p: Any) -> Array:
    """Gradient of ``x ** p`` with respect to x; an exponent of 0 gives 0, also where x is 0."""
    return d * p * x ** xp.where(p == 0, 0, p - 1) if isinstance(p, xp.ndarray) else d * p * x ** (p - 1 if p else 0)


def _d_exponent(d: Array, x: Any, p: Array) -> Array:
    """Gradient of ``x ** p`` with respect to p; where x is 0 and p above 0 it is 0."""
    return d * x**p * xp.log(x + (x == 0))


RULES: dict[str, Rule] = {}


def _rule(name: str, forward: Callable[..., Any], *gradients: Callable[..., Array] | None, doc: str = "") -> None:
    RULES[name] = Rule(forward, gradients, doc)


# fmt: off
# Arithmetic. The saved arrays follow the value; the gradients take d and the saved arrays.
_rule("add",         lambda x, y: (x + y, ()),           lambda d: d,                lambda d: d)
_rule("subtract",    lambda x, y: (x - y, ()),           lambda d: d,                lambda d: -d)
_rule("multiply",    lambda x, y: (x * y, (x, y)),       lambda d, x, y: d * y,      lambda d, x, y: d * x)
_rule("divide",      lambda x, y: ((q := x / y), (q, y)), lambda d, q, y: d / y,     lambda d, q, y: -d * q / y)
_rule("power",       lambda x, p: (x**p, (x, p)),        _d_base,                    _d_exponent)
_rule("negative",    lambda x: (-x, ()),                 lambda d: -d)
_rule("matmul",      lambda x, y: (x @ y, (x, y)),
      lambda d, x, y: d @ y.swapaxes(-1, -2),            lambda d, x, y: x.swapaxes(-1, -2) @ d)

# Element-wise functions. Those whose derivative is cheapest in terms of their value save the value.
_rule("exp",         lambda x: ((y := xp.exp(x)), (y,)),             lambda d, y: d * y,
      doc="Return e to the power of each entry.")
_rule("log",         lambda x: (xp.log(x), (x,)),                    lambda d, x: d / x,
      doc="Return the natural logarithm of each entry.")
_rule("sqrt",        lambda x: ((y := xp.sqrt(x)), (y,)),            lambda d, y: d / (2 * y),
      doc="Return the square root of each entry.")
_rule("tanh",        lambda x: ((y := xp.tanh(x)), (y,)),            lambda d, y: d * (1 - y * y),
      doc="Return the hyperbolic tangent of each entry.")
_rule("sigmoid",     lambda x: (xp.where(x >= 0, 1, z := xp.exp(-abs(x))) / (1 + z), (z,)),
      lambda d, z: d * (z / (1 + z) ** 2),
      doc="Return 1 / (1 + exp(-x)) of each entry x.")
_rule("relu",        lambda x: (xp.maximum(x, 0), (x,)),             lambda d, x: xp.where(x > 0, d, 0),
      doc="Return max(x, 0) of each entry x; the gradient at 0 is 0.")
_rule("abs",         lambda x: (abs(x), (x,)),         lambda d, x: xp.where(x > 0, d, xp.where(x < 0, -d, 0)),
      doc="Return the absolute value of each entry; the gradient at 0 is 0.")

# Choices. Where two entries tie for the maximum or the minimum, each receives half of the gradient.
_rule("maximum",     lambda x, y: (xp.maximum(x, y), (x, y)),
      lambda d, x, y: _share(d, x, y),                   lambda d, x, y: _share(d, y, x))
_rule("minimum",     lambda x, y: (xp.minimum(x, y), (x, y)),
      lambda d, x, y: _share(d, y, x),                   lambda d, x, y: _share(d, x, y))
_rule("where",       lambda c, x, y: (xp.where(c, x, y), (c,)),
      None,          lambda d, c: xp.where(c, d, 0),     lambda d, c: xp.where(c, 0, d))

# Reductions.
_rule("sum",         lambda x, axis, keepdims: (x.sum(axis=axis, keepdims=keepdims), (x.shape, axis, keepdims)),
      _spread)
_rule("mean",        lambda x, axis, keepdims: (x.mean(axis=axis, keepdims=keepdims), (x.shape, axis, keepdims)),
      lambda d, shape, axis, keepdims: _spread(d * (d.size / max(prod(shape), 1)), shape, axis, keepdims))
_rule("max",         lambda x, axis, keepdims: (x.max(axis=axis, keepdims=keepdims), (x, axis, keepdims)),
      lambda d, x, axis, keepdims: _spread(d, x.shape, axis, keepdims) * _share_of_maximum(x, axis))
_rule("min",         lambda x, axis, keepdims: (x.min(axis=axis, keepdims=keepdims), (x, axis, keepdims)),
      lambda d, x, axis, keepdims: _spread(d, x.shape, axis, keepdims) * _share_of_maximum(-x, axis))
_rule("prod",        lambda x, axis, keepdims: (x.prod(axis=axis, keepdims=keepdims), (x, axis, keepdims)),
      lambda d, x, axis, keepdims: _spread(d, x.shape, axis, keepdims) * _product_of_others(x, axis))
_rule("norm",        _norm,  # of a vector of zeros, the gradient is 0
      lambda d, x, length, axis, keepdims: _spread(d, x.shape, axis, keepdims) * (x / (length + (length == 0))))
_rule("cumsum",      lambda x, axis: (x.cumsum(axis), (x.shape, axis)),
      lambda d, shape, axis: xp.flip(xp.flip(d, axis).cumsum(axis), axis).reshape(shape))

# Shapes.
_rule("reshape",     lambda x, shape: (x.reshape(shape), (x.shape,)),  lambda d, shape: d.reshape(shape))
_rule("transpose",   lambda x, axes: (x.transpose(axes), (axes,)),
      lambda d, axes: xp.moveaxis(d, tuple(range(d.ndim)), axes))
_rule("swapaxes",    lambda x, axes: (x.swapaxes(*axes), (axes,)),     lambda d, axes: d.swapaxes(*axes))
_rule("index",       lambda x, index: (x[check_index(index, x.shape)], (x.shape, index)),  _place)
# fmt: on
