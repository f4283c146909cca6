"""Chapter 3: what broadcasting repeats, matrix products, and entries that move."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from minitransformer.learn.checks.fast import fast_to_the_last_bit as fast_to_the_last_bit
from minitransformer.learn.checks.linear import linear_backward as linear_backward
from minitransformer.learn.checks.linear import matmul_backward as matmul_backward
from minitransformer.learn.checks.linear import one_weight_for_a_batch as one_weight_for_a_batch
from minitransformer.learn.counterexample import claims_of, judge_claims, measure_gradients, read_answer, read_arrays
from minitransformer.learn.verdict import check_gradients


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
                "the axis is back, but with length 1; repeat the gradient along it": once,
                "it is the gradient of the mean; a sum does not divide": np.broadcast_to(once, x.shape) / x.shape[axis],
                "right numbers in wrong places: put the axis back where it was": np.resize(d_y, x.shape),
                "it is d_y, with the shape of y; the gradient has the shape of x": d_y,
                "another axis is repeated: first put the summed axis back": (
                    np.repeat(d_y, x.shape[axis], axis) if axis < d_y.ndim else once
                ),
            }
        }

    check_gradients(lambda d_y: backward(x, axis, d_y), lambda x: x.sum(axis), {"x": x}, mistakes=mistakes)


def mean_of_what_counts(backward: Callable[..., Any]) -> None:
    """Check the gradient of means over what counts, with padding at the end, then anywhere."""
    rng = np.random.default_rng(6)
    _mean(backward, rng.normal(size=(3, 5)), np.arange(5) < np.array([[4], [1], [3]]))
    _mean(backward, rng.normal(size=(2, 4)), np.array([[False, True, True, False], [True, False, True, True]]))


def _mean(backward: Callable[..., Any], x: np.ndarray, keep: np.ndarray) -> None:
    n, T = keep.sum(axis=1), keep.shape[1]
    first = np.arange(T) < n[:, None]
    check_gradients(
        lambda d_y: backward(x, keep, d_y),
        lambda x: np.where(keep, x, 0.0).sum(axis=1) / n,
        {"x": x},
        mistakes=lambda d_y: {
            "d_x": {
                "padding has a gradient, but y does not depend on it": np.repeat((d_y / n)[:, None], T, axis=1),
                "it is divided by T; the padding does not count": np.where(keep, d_y[:, None] / T, 0.0),
                "there is one number for each sentence; give it to each of its words, and 0 to padding": d_y / n,
                "there is one number for each sentence, (B, 1); give it to each of its words, and 0 to padding": (
                    d_y / n
                )[:, None],
                "it is multiplied by x; the mean is a sum of entries of x, each with the factor 1 / n": np.where(
                    keep, x * (d_y / n)[:, None], 0.0
                ),
                "the division by n is missing": np.where(keep, d_y[:, None], 0.0),
                "it is divided by the count of the whole batch; each sentence has its own n": np.where(
                    keep, d_y[:, None] / n.sum(), 0.0
                ),
                "it is d_y / T everywhere; divide by n instead, and give padding 0": np.repeat(
                    d_y[:, None] / T, T, axis=1
                ),
                "the first n entries have a gradient; padding may be anywhere, so use keep": np.where(
                    first, (d_y / n)[:, None], 0.0
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
    _unbroadcast(unbroadcast, rng.normal(size=(1, 2)), rng.normal(size=(3, 5, 2)))


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
                "it is the mean over the copies; add them up": right / factor,
                "it is the gradient of the first copy; add up all copies": d_y[(0,) * in_front][first],
                "the axes in front are summed, but not those of length 1": total,
                "axes of length 1 are lost in the sum: keep them with keepdims=True": right.squeeze(),
                "a sum is missing: add up the copies of each entry": d_y,
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
                    "a sum is missing: add up the copies of each entry": d_z,
                    "the axes in front are summed, but not those of length 1": d_z.sum(axis=in_front),
                    "it is the mean over the copies; add them up": right * a.size / d_z.size,
                    "axes of length 1 are lost in the sum: keep them with keepdims=True": right.squeeze(),
                    "it is the gradient of a product: in a sum each term has the factor 1": _sum_to(
                        d_z * other, a.shape
                    ),
                    "it is multiplied by the input itself: in a sum each term has the factor 1": right * a,
                }
            )
        swapped = "the two gradients are swapped: d_x comes first"
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
    for shape in ((2, 3, 4), (3, 5), (2,)):
        _affine(backward, rng.normal(size=shape), rng.normal(size=shape[-1]), rng.normal(size=shape[-1]))


def _affine(backward: Callable[..., Any], x: np.ndarray, gain: np.ndarray, bias: np.ndarray) -> None:
    others, n = tuple(range(x.ndim - 1)), x.size // gain.size
    features = f"the features are summed as well: x has {x.ndim} axes here; keep the last one"
    check_gradients(
        lambda d_y: backward(x, gain, d_y),
        lambda x, gain, bias: gain * x + bias,
        {"x": x, "gain": gain, "bias": bias},
        mistakes=lambda d_y: {
            "d_x": {
                "it is d_y alone; if x grows by 1, y grows by the gain": d_y,
                "x and gain are swapped: if x grows by 1, y grows by the gain": d_y * x,
            },
            "d_gain": {
                "a sum is missing: all rows use the same gain, so add them up": d_y * x,
                "it is the gradient of the bias; if the gain grows by 1, y grows by x": d_y.sum(axis=others),
                "it is the mean over the rows; add them up": (d_y * x).sum(axis=others) / n,
                "d_y and x are summed before they are multiplied": d_y.sum(axis=others) * x.sum(axis=others),
                features: (d_y * x).sum(),
            },
            "d_bias": {
                "a sum is missing: all rows use the same bias, so add them up": d_y,
                "it is the mean over the rows; add them up": d_y.sum(axis=others) / n,
                features: d_y.sum(),
            },
        },
    )


def transpose_and_reshape(backward: Callable[..., Any]) -> None:
    """Check that gradients go back to where entries came from, for an exchange of two axes and for circles."""
    rng = np.random.default_rng(11)
    for shape, order, new in (
        ((2, 3, 4), (1, 2, 0), (3, 8)),
        ((2, 3, 4), (2, 0, 1), (24,)),
        ((2, 2, 2), (2, 0, 1), (4, 2)),
        ((2, 3, 4, 5), (0, 2, 1, 3), (2, 4, 15)),
    ):
        _moved(backward, rng.normal(size=shape), order, new)


def _moved(backward: Callable[..., Any], x: np.ndarray, order: tuple[int, ...], new: tuple[int, ...]) -> None:
    def mistakes(d_y: np.ndarray) -> Any:
        d_u = d_y.reshape(x.transpose(order).shape)
        words = "the shape is right, but entries are in wrong places: the axes were reshaped, not moved back"
        return {
            "d_x": {
                "the axes are not put back": d_u,
                words: d_y.reshape(x.shape),
                "the same order is applied again; moving the axes back needs the inverse order": d_u.transpose(order),
                "the order is reversed; moving the axes back needs the inverse order": d_u.transpose(order[::-1]),
            }
        }

    check_gradients(
        lambda d_y: backward(x, order, d_y), lambda x: x.transpose(order).reshape(new), {"x": x}, mistakes=mistakes
    )


def repeated_ids(backward: Callable[..., Any]) -> None:
    """Check the gradient of a table: rows that are used often, once and never, ids with one axis and with two."""
    rng = np.random.default_rng(12)
    for ids, V, D in (([4, 1, 4, 0], 6, 3), ([[2, 2, 0, 6], [2, 4, 0, 4]], 8, 2)):
        _looked_up(backward, np.array(ids), rng.normal(size=(V, D)))


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
                "its number of rows comes from the largest id; the table has V rows": total[: ids.max() + 1],
                "a repeated id has the gradient of its last place only; add up all places": last,
                "a repeated id has the gradient of its first place only; add up all places": first,
                "each row is divided by the count of its id; use the sum, not the mean": total / counts,
            }
        }

    check_gradients(
        lambda d_y: backward(ids, len(table), d_y), lambda table: table[ids], {"table": table}, mistakes=mistakes
    )


def find_the_wrong_array(counterexample: Callable[..., Any]) -> str:
    """Check the arrays on which one backward pass is seen to be wrong."""
    pairs = claims_of("find-the-wrong-array")["PAIRS"]
    letter, values = read_answer(counterexample, pairs, ["x", "w", "d_y"])
    arrays = read_arrays(values, {"x": "T D", "w": "D D", "d_y": "T D"})
    x, w, d_y = arrays.values()
    claims = {
        name: measure_gradients(f, partial(backward, x, w, d_y), {"d_x": x, "d_w": w}, d_y)
        for name, (f, backward) in pairs.items()
    }
    return judge_claims(letter, "c", claims, "finite differences")
