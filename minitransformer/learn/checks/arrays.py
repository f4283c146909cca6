"""Chapter 3: what broadcasting repeats, matrix products, and entries that move."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from minitransformer.learn.verdict import (
    Wrong,
    check_bits,
    check_choice,
    check_gradients,
    refuse_unsolved,
    refuse_writing,
)


def sum_along_an_axis(backward: Callable[..., Any]) -> None:
    """Check the gradient of a sum along each axis."""
    x = np.random.default_rng(5).normal(size=(2, 3, 4))
    for axis in (1, 0, 2, -1):
        _sum(backward, x, axis)
    _sum(backward, x[0, 0], 0)


def _sum(backward: Callable[..., Any], x: np.ndarray, axis: int) -> None:
    def mistakes(d_y: np.ndarray) -> Any:
        once = np.expand_dims(d_y, axis)
        return {
            "d_x": {
                "the axis is back, but with length 1; every entry along it has this gradient": once,
                "it is the gradient of the mean; a sum does not divide": np.broadcast_to(once, x.shape) / x.shape[axis],
                "the right numbers in the wrong places: the axis belongs where it was": np.resize(d_y, x.shape),
                "it is d_y, with the shape of y; the gradient has the shape of x": d_y,
            }
        }

    check_gradients(lambda d_y: backward(x, axis, d_y), lambda x: x.sum(axis), {"x": x}, mistakes=mistakes)


def mean_of_what_counts(backward: Callable[..., Any]) -> None:
    """Check the gradient of means over what counts: zero for padding, each sentence with its own number."""
    x = np.random.default_rng(6).normal(size=(3, 5))
    keep = np.arange(5) < np.array([[4], [1], [3]])
    n, T = keep.sum(axis=1), keep.shape[1]
    check_gradients(
        lambda d_y: backward(x, keep, d_y),
        lambda x: np.where(keep, x, 0.0).sum(axis=1) / n,
        {"x": x},
        mistakes=lambda d_y: {
            "d_x": {
                "padding has a gradient, but y does not depend on it": np.repeat((d_y / n)[:, None], T, axis=1),
                "it is divided by T; the padding does not count": np.where(keep, d_y[:, None] / T, 0.0),
                "the division by n is missing": np.where(keep, d_y[:, None], 0.0),
                "it is divided by all that counts in the batch; each sentence has its own n": np.where(
                    keep, d_y[:, None] / n.sum(), 0.0
                ),
                "each word has the d_y of its sentence, but divided by T, and the padding has it too": np.repeat(
                    d_y[:, None] / T, T, axis=1
                ),
            }
        },
    )


def unbroadcast(unbroadcast: Callable[..., Any]) -> None:
    """Check the gradient for every way in which a shape can be repeated to (2, 3, 4)."""
    rng = np.random.default_rng(7)
    other = rng.normal(size=(2, 3, 4))
    for shape in ((4,), (3, 1), (3, 4), (1, 4), (2, 1, 4), (2, 1, 1), (1, 1, 4), (1, 3, 1), (1,), (), (2, 3, 4)):
        _unbroadcast(unbroadcast, rng.normal(size=shape), other)
    _unbroadcast(unbroadcast, rng.normal(size=(1, 4)), other[:1, :1])  # an axis of length 1 that is not stretched


def _unbroadcast(unbroadcast: Callable[..., Any], a: np.ndarray, other: np.ndarray) -> None:
    copies = np.broadcast_shapes(a.shape, other.shape)
    factor = np.prod(copies) / max(a.size, 1)
    first = tuple(slice(0, 1) if n == 1 else slice(None) for n in a.shape)

    def mistakes(d_y: np.ndarray) -> Any:
        in_front = d_y.ndim - a.ndim
        total = d_y.sum(axis=tuple(range(in_front)))
        right = total.sum(axis=tuple(i for i, n in enumerate(a.shape) if n == 1), keepdims=True)
        return {
            label: {
                "it is the mean over the copies; the shares of all copies add up": right / factor,
                "it is the gradient of the first copy; the shares of all copies add up": d_y[(0,) * in_front][first],
                "the axes in front are summed, but not those of length 1": total,
                "a sum is missing: nothing is summed, but there are copies of each entry": d_y,
            }
        }

    label = f"unbroadcast(d_y, {a.shape}), with d_y of shape {copies},"
    check_gradients(
        lambda d_y: unbroadcast(d_y, a.shape), lambda a: a + other, {"a": a}, names=[label], mistakes=mistakes
    )


def add_with_broadcasting(backward: Callable[..., Any]) -> None:
    """Check both gradients of a sum: where one is repeated, where both are, and where none is."""
    rng = np.random.default_rng(17)
    for x_shape, y_shape in (
        ((2, 3, 4), (4,)),
        ((3, 1), (2, 3, 4)),
        ((2, 1, 4), (3, 1)),
        ((5,), ()),
        ((1, 3), (2, 3)),
        ((2, 3), (2, 3)),
    ):
        _added(backward, rng.normal(size=x_shape), rng.normal(size=y_shape))


def _added(backward: Callable[..., Any], x: np.ndarray, y: np.ndarray) -> None:
    names = [f"{name}, where x is {x.shape} and y is {y.shape}," for name in ("d_x", "d_y")]

    def mistakes(d_z: np.ndarray) -> Any:
        both = []
        for a, other in ((x, y), (y, x)):
            in_front = tuple(range(d_z.ndim - a.ndim))
            right = _sum_to(d_z, a.shape)
            both.append(
                {
                    "a sum is missing: nothing is summed, but there are copies of each entry": d_z,
                    "the axes in front are summed, but not those of length 1": d_z.sum(axis=in_front),
                    "it is the mean over the copies; the shares of all copies add up": right * a.size / d_z.size,
                    "axes of length 1 are summed and lost: they stay, with keepdims=True": right.squeeze(),
                    "it is the gradient of a product: in a sum each part has the factor 1": _sum_to(
                        d_z * other, a.shape
                    ),
                    "it is multiplied by the input itself: in a sum each part has the factor 1": right * a,
                }
            )
        swapped = "the two gradients are exchanged: d_x comes first"
        both[0][swapped], both[1][swapped] = _sum_to(d_z, y.shape), _sum_to(d_z, x.shape)
        return dict(zip(names, both, strict=True))

    check_gradients(lambda d_z: backward(x, y, d_z), np.add, {"x": x, "y": y}, names=names, mistakes=mistakes)


def _sum_to(d: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Sum what broadcasting has repeated."""
    in_front = d.ndim - len(shape)
    axes = (*range(in_front), *(axis + in_front for axis, n in enumerate(shape) if n == 1))
    return np.asarray(d.sum(axis=axes)).reshape(shape)


def gain_and_bias(backward: Callable[..., Any]) -> None:
    """Check the gradients of gain * x + bias, with one, two and three axes."""
    rng = np.random.default_rng(8)
    gain, bias = rng.normal(size=4), rng.normal(size=4)
    for shape in ((2, 3, 4), (3, 4), (4,)):
        _affine(backward, rng.normal(size=shape), gain, bias)


def _affine(backward: Callable[..., Any], x: np.ndarray, gain: np.ndarray, bias: np.ndarray) -> None:
    others, n = tuple(range(x.ndim - 1)), x.size // 4
    check_gradients(
        lambda d_y: backward(x, gain, d_y),
        lambda x, gain, bias: gain * x + bias,
        {"x": x, "gain": gain, "bias": bias},
        mistakes=lambda d_y: {
            "d_x": {
                "it is d_y alone; if x grows by 1, y grows by the gain": d_y,
                "x and gain are exchanged: if x grows by 1, y grows by the gain": d_y * x,
            },
            "d_gain": {
                "a sum is missing: all rows use the same gain, and their shares add up": d_y * x,
                "it is the gradient of the bias; if the gain grows by 1, y grows by x": d_y.sum(axis=others),
                "it is the mean over all rows; every row adds its share": (d_y * x).sum(axis=others) / n,
                "d_y and x are summed before they are multiplied": d_y.sum(axis=others) * x.sum(axis=others),
            },
            "d_bias": {
                "a sum is missing: all rows use the same bias, and their shares add up": d_y,
                "it is the mean over all rows; every row adds its share": d_y.sum(axis=others) / n,
            },
        },
    )


def matmul_backward(backward: Callable[..., Any]) -> None:
    """Check both gradients of a matrix product, and of a square one, in which shapes hide a forgotten transpose."""
    rng = np.random.default_rng(9)
    _matmul(backward, rng.normal(size=(3, 4)), rng.normal(size=(4, 5)))
    _matmul(backward, rng.normal(size=(4, 4)), rng.normal(size=(4, 4)))


def _matmul(backward: Callable[..., Any], x: np.ndarray, w: np.ndarray) -> None:
    def mistakes(d_y: np.ndarray) -> Any:
        if x.shape != w.shape:
            return {}
        return {
            "d_x": {
                "w is not transposed: the sum is over the second index of both": d_y @ w,
                "the factors are exchanged: d_y stands on the left": w.T @ d_y,
            },
            "d_w": {
                "x is not transposed: the sum is over the first index of both": x @ d_y,
                "the factors are exchanged: x stands on the left": d_y @ x.T,
            },
        }

    check_gradients(lambda d_y: backward(x, w, d_y), np.matmul, {"x": x, "w": w}, mistakes=mistakes)


def one_weight_for_a_batch(backward: Callable[..., Any]) -> None:
    """Check both gradients of (B, T, D) @ (D, F)."""
    rng = np.random.default_rng(10)
    B, T, D, F = 3, 2, 4, 5
    x, w = rng.normal(size=(B, T, D)), rng.normal(size=(D, F))
    check_gradients(
        lambda d_y: backward(x, w, d_y),
        np.matmul,
        {"x": x, "w": w},
        mistakes=lambda d_y: {
            "d_w": {
                "it is the gradient from the first sentence alone; all of them add up": x[0].T @ d_y[0],
                "it is the gradient from the last sentence alone; all of them add up": x[-1].T @ d_y[-1],
                "the entries are mixed up: reshape cuts anew and exchanges nothing; reshape first, then transpose": (
                    x.reshape(D, -1) @ d_y.reshape(-1, F)
                ),
            }
        },
        sizes={"B": B, "T": T, "B T": B * T},
    )


def linear_backward(backward: Callable[..., Any]) -> None:
    """Check all three gradients of x w + b: first with a square w, in which shapes hide a forgotten transpose."""
    rng = np.random.default_rng(18)
    for B, T, D, F in ((3, 2, 4, 4), (2, 3, 4, 5)):
        _linear(backward, rng.normal(size=(B, T, D)), rng.normal(size=(D, F)), rng.normal(size=F))


def _linear(backward: Callable[..., Any], x: np.ndarray, w: np.ndarray, b: np.ndarray) -> None:
    (B, T, D), F = x.shape, b.size

    def mistakes(d_y: np.ndarray) -> Any:
        rows, d_rows = x.reshape(-1, D), d_y.reshape(-1, F)
        d_x: dict[str, np.ndarray] = {"w is missing: x_bta reaches y_btf with the factor w_af": d_y}
        d_w = {
            "a sum is missing: there is one gradient for each sentence, and they add up": x.swapaxes(1, 2) @ d_y,
            "it is the gradient from the first sentence alone; all of them add up": x[0].T @ d_y[0],
            "the entries are mixed up: reshape cuts anew and exchanges nothing; reshape first, then transpose": (
                x.reshape(D, -1) @ d_rows
            ),
        }
        if D == F:
            d_x["w is not transposed: the sum is over f, the second index of both"] = d_y @ w
            d_w["it is transposed: x stands on the left"] = d_rows.T @ rows
        return {
            "d_x": d_x,
            "d_w": d_w,
            "d_b": {
                "a sum is missing: all rows share b, and their shares add up": d_y,
                "the positions are summed, but not the sentences: all rows share b": d_y.sum(axis=1),
                "the sentences are summed, but not the positions: all rows share b": d_y.sum(axis=0),
                "it is summed over the features; b_f stands in every row, so the sum is over b and t": d_y.sum(axis=-1),
                "everything is summed to one number; each b_f has its own sum, over b and t": d_y.sum(),
            },
        }

    check_gradients(
        lambda d_y: backward(x, w, d_y),
        lambda x, w, b: x @ w + b,
        {"x": x, "w": w, "b": b},
        sizes={"B": B, "T": T, "B T": B * T},
        mistakes=mistakes,
    )


def transpose_and_reshape(backward: Callable[..., Any]) -> None:
    """Check that gradients go back to where entries came from, for an exchange of two axes and for circles."""
    rng = np.random.default_rng(11)
    for shape, order, new in (
        ((2, 3, 4, 5), (0, 2, 1, 3), (2, 4, 15)),
        ((2, 3, 4), (1, 2, 0), (3, 8)),
        ((2, 3, 4), (2, 0, 1), (24,)),
        ((3, 3, 3), (2, 0, 1), (9, 3)),
    ):
        _moved(backward, rng.normal(size=shape), order, new)


def _moved(backward: Callable[..., Any], x: np.ndarray, order: tuple[int, ...], new: tuple[int, ...]) -> None:
    def mistakes(d_y: np.ndarray) -> Any:
        d_u = d_y.reshape(x.transpose(order).shape)
        words = "the right shape, but the entries are in wrong places: the axes were not put back, only cut anew"
        return {
            "d_x": {
                "the axes are not put back": d_u,
                words: d_y.reshape(x.shape),
                "the axes are moved by the same order once more, which goes on, not back": d_u.transpose(order),
            }
        }

    check_gradients(
        lambda d_y: backward(x, order, d_y), lambda x: x.transpose(order).reshape(new), {"x": x}, mistakes=mistakes
    )


def repeated_ids(backward: Callable[..., Any]) -> None:
    """Check the gradient of a table: rows that are used often, once and never, ids with one axis and with two."""
    table = np.random.default_rng(12).normal(size=(6, 3))
    for ids in ([4, 1, 4, 0], [[2, 2, 0, 5], [2, 4, 0, 4]]):
        _looked_up(backward, np.array(ids), table)


def _looked_up(backward: Callable[..., Any], ids: np.ndarray, table: np.ndarray) -> None:
    def mistakes(d_y: np.ndarray) -> Any:
        last, first, total = np.zeros_like(table), np.zeros_like(table), np.zeros_like(table)
        last[ids] = d_y
        for place in reversed(list(np.ndindex(ids.shape))):
            first[ids[place]] = d_y[place]
        np.add.at(total, ids, d_y)
        counts = np.maximum(np.bincount(ids.ravel(), minlength=len(table)), 1)[:, None]
        return {
            "d_table": {
                "an id that is there twice has the gradient of its last place only; all places add up": last,
                "an id that is there twice has the gradient of its first place only; all places add up": first,
                "each row is divided by how often its id is there; it is the sum, not the mean": total / counts,
            }
        }

    check_gradients(
        lambda d_y: backward(ids, len(table), d_y), lambda table: table[ids], {"table": table}, mistakes=mistakes
    )


AT_LEAST = 10
"""How many times faster; array operations are some 400 times faster there, so a busy machine does not come between."""


def fast_to_the_last_bit(fast: Callable[..., Any]) -> None:
    """Check that the bits are the same, then that it is faster."""
    for T, D in ((5, 3), (1, 4), (60, 200)):
        inputs = _draw(T, D)
        before = {name: array.copy() for name, array in inputs.items()}
        found = fast(**inputs)
        refuse_unsolved(found)
        if not isinstance(found, tuple | list) or len(found) != 2:
            raise Wrong("Return two arrays, d_x and d_gain.")
        refuse_writing(**{name: (array, before[name]) for name, array in inputs.items()})
        expected = _slow(**inputs)
        for name, one, other in zip(("d_x", "d_gain"), found, expected, strict=True):
            check_bits(name, one, other)
    loop, ratio, tries = _seconds(_slow, inputs), 0.0, 0
    while ratio < AT_LEAST and tries < 20:  # one undisturbed try is enough
        ratio, tries = max(ratio, loop / _seconds(fast, inputs)), tries + 1
    if ratio < AT_LEAST:
        words = (
            f"All bits are right, but it is only {ratio:.2g} times as fast as slow. Without a Python loop over the "
            "entries it is more than a hundred times as fast."
        )
        raise Wrong(textwrap.fill(words, 78))


def _draw(T: int, D: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(13)
    shapes = {"x": (T, D), "mean": (T,), "r": (T,), "gain": (D,), "d_y": (T, D)}
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def _seconds(function: Callable[..., Any], inputs: dict[str, np.ndarray]) -> float:
    start = perf_counter()
    function(**inputs)
    return perf_counter() - start


def _slow(
    x: np.ndarray, mean: np.ndarray, r: np.ndarray, gain: np.ndarray, d_y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Do what the exercise's slow does."""
    T, D = x.shape
    d_x, d_gain = np.zeros((T, D)), np.zeros(D)
    for t in range(T):
        for j in range(D):
            d_x[t, j] = d_y[t, j] * gain[j] * r[t]
            d_gain[j] += d_y[t, j] * ((x[t, j] - mean[t]) * r[t])
    return d_x, d_gain


def find_the_wrong_array(WRONG: Any) -> None:
    """Check which gradient was found to be wrong."""
    check_choice("WRONG", WRONG, "c", "abcde")
