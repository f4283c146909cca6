"""What broadcasting repeats, matrix products and linear layers, and entries that move."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from minitransformer.apps.learn.comparing import check_backward
from minitransformer.apps.learn.counterexample import (
    claims_of,
    judge_claims,
    measure_gradients,
    read_answer,
    read_arrays,
)
from minitransformer.apps.learn.solutions import mistaken_parts, solution_of
from minitransformer.apps.learn.verdict import check_cases, check_gradients


def sum_along_an_axis(backward: Callable[..., Any]) -> None:
    """Check the gradient of a sum along each axis."""
    x = np.random.default_rng(5).normal(size=(2, 3, 4))
    for summed, axis in ((x, 1), (x, 0), (x, 2), (x, -1), (x[0, 0], 0)):
        check_backward("sum-along-an-axis", backward, partial(np.sum, axis=axis), {"x": summed}, (summed, axis))


def mean_of_what_counts(backward: Callable[..., Any]) -> None:
    """Check the gradient of means over what counts, with padding at the end, then anywhere."""
    rng = np.random.default_rng(6)
    for lists in ([[1, 1, 1, 1, 0], [1, 0, 0, 0, 0], [1, 1, 1, 0, 0]], [[0, 1, 1, 0], [1, 0, 1, 1]]):
        keep = np.array(lists, dtype=bool)
        x = rng.normal(size=keep.shape)
        mean = lambda x, keep=keep: np.where(keep, x, 0.0).sum(axis=1) / keep.sum(axis=1)  # noqa: E731
        check_backward("mean-of-what-counts", backward, mean, {"x": x}, (x, keep))


def unbroadcast(unbroadcast: Callable[..., Any]) -> None:
    """Check the gradient for every way in which a shape can be repeated to (2, 3, 4)."""
    rng = np.random.default_rng(7)
    other = rng.normal(size=(2, 3, 4))
    for shape in ((4,), (3, 1), (3, 4), (1, 4), (2, 1, 4), (2, 1, 1), (1, 1, 4), (1, 3, 1), (1,), (), (2, 3, 4)):
        _unbroadcast(unbroadcast, rng.normal(size=shape), other)
    _unbroadcast(unbroadcast, rng.normal(size=(1, 4)), other[:1, :1])  # an axis of length 1 that is not stretched
    _unbroadcast(unbroadcast, rng.normal(size=(1, 2)), rng.normal(size=(3, 5, 2)))
    for shape in ((3,), (1, 3), (3, 1)):  # an axis that is added, or stretched, is as long as another
        _unbroadcast(unbroadcast, rng.normal(size=shape), rng.normal(size=(3, 3)))


def _unbroadcast(unbroadcast: Callable[..., Any], a: np.ndarray, other: np.ndarray) -> None:
    copies = np.broadcast_shapes(a.shape, other.shape)
    names = [f"unbroadcast(d_y, {a.shape}), with d_y of shape {copies},"]
    check_backward("unbroadcast", unbroadcast, partial(np.add, other), {"a": a}, lambda d: (d, a.shape), names=names)


def add_with_broadcasting(backward: Callable[..., Any]) -> None:
    """Check both gradients of a sum: where one is repeated, where both are, and where none is."""
    rng = np.random.default_rng(17)
    for x, y in (
        ((2, 3, 4), (4,)),
        ((3, 1), (2, 3, 4)),
        ((2, 1, 4), (3, 1)),
        ((5,), ()),
        ((1, 3), (2, 3)),
        ((2, 3), (2, 3)),
        ((3, 3), (3,)),
        ((3, 1), (3, 3)),
    ):
        names = [f"{name}, where x is {x} and y is {y}," for name in ("d_x", "d_y")]
        inputs = {"x": rng.normal(size=x), "y": rng.normal(size=y)}
        check_backward("add-with-broadcasting", backward, np.add, inputs, names=names)


def gain_and_bias(backward: Callable[..., Any]) -> None:
    """Check the gradients of gain * x + bias, with one, two and three axes."""
    rng = np.random.default_rng(8)
    for shape in ((2, 3, 4), (3, 5), (2,)):
        _affine(backward, rng.normal(size=shape), rng.normal(size=shape[-1]), rng.normal(size=shape[-1]))


def _affine(backward: Callable[..., Any], x: np.ndarray, gain: np.ndarray, bias: np.ndarray) -> None:
    def mistakes(d_y: np.ndarray) -> Any:
        known = mistaken_parts("gain-and-bias", ["d_x", "d_gain", "d_bias"], x, gain, d_y)
        features = f"the features are summed as well: x has {x.ndim} axes here; keep the last one"
        known["d_gain"][features], known["d_bias"][features] = (d_y * x).sum(), d_y.sum()
        return known

    check_gradients(
        lambda d_y: backward(x, gain, d_y),
        lambda x, gain, bias: gain * x + bias,
        {"x": x, "gain": gain, "bias": bias},
        mistakes=mistakes,
        solution=partial(solution_of("gain-and-bias"), x, gain),
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
        x, move = rng.normal(size=shape), lambda x, order=order, new=new: x.transpose(order).reshape(new)
        check_backward("transpose-and-reshape", backward, move, {"x": x}, (x, order))


def repeated_ids(backward: Callable[..., Any]) -> None:
    """Check the gradient of a table: rows that are used often, once and never, ids with one axis and with two."""
    rng = np.random.default_rng(12)
    for rows, V, D in (([4, 1, 4, 0], 6, 3), ([[2, 2, 0, 6], [2, 4, 0, 4]], 8, 2)):
        ids, table = np.array(rows), rng.normal(size=(V, D))
        look_up = partial(np.take, indices=ids, axis=0)
        check_backward("repeated-ids", backward, look_up, {"table": table}, (ids, V))


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


def matmul_backward(backward: Callable[..., Any]) -> None:
    """Check both gradients of a matrix product: first of a square one, in which shapes hide a forgotten transpose."""
    rng = np.random.default_rng(9)
    for T, D, F in ((3, 3, 3), (3, 4, 5), (6, 2, 3)):
        inputs = {"x": rng.normal(size=(T, D)), "w": rng.normal(size=(D, F))}
        check_backward("matmul-backward", backward, np.matmul, inputs)


def one_weight_for_a_batch(backward: Callable[..., Any]) -> None:
    """Check both gradients of (B, T, D) @ (D, F): first where all four are equal, and shapes hide a transpose."""
    rng = np.random.default_rng(10)

    def check(B: int, T: int, D: int, F: int) -> None:
        inputs = {"x": rng.normal(size=(B, T, D)), "w": rng.normal(size=(D, F))}
        check_backward("one-weight-for-a-batch", backward, np.matmul, inputs)

    check_cases(check, ((2, 2, 2, 2), (3, 2, 4, 5), (1, 3, 4, 5), (3, 1, 4, 5)))


def linear_backward(backward: Callable[..., Any]) -> None:
    """Check all three gradients of x w + b: first with a square w, in which shapes hide a forgotten transpose."""
    rng = np.random.default_rng(18)

    def check(B: int, T: int, D: int, F: int) -> None:
        x, w, b = rng.normal(size=(B, T, D)), rng.normal(size=(D, F)), rng.normal(size=F)
        inputs, sizes = {"x": x, "w": w, "b": b}, {"B": B, "T": T, "B T": B * T}
        check_backward("linear-backward", backward, lambda x, w, b: x @ w + b, inputs, (x, w), sizes=sizes)

    check_cases(check, ((3, 2, 4, 4), (2, 3, 4, 5), (3, 3, 3, 3), (1, 3, 4, 5), (3, 1, 4, 5)))
