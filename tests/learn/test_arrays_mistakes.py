"""Chapter 3: wrong answers, each of which must be refused with the words that help."""

import re

import numpy as np
import pytest

from minitransformer.learn import find
from minitransformer.learn.referee import judge


def assigned(ids, V, d_y):
    d_table = np.zeros((V, d_y.shape[-1]))
    d_table[ids] = d_y
    return d_table


def added_once(ids, V, d_y):
    d_table = np.zeros((V, d_y.shape[-1]))
    d_table[ids] += d_y
    return d_table


def added(ids, V, d_y):
    d_table = np.zeros((V, d_y.shape[-1]))
    np.add.at(d_table, ids, d_y)
    return d_table


def divided_by_count(ids, V, d_y):
    return added(ids, V, d_y) / np.maximum(np.bincount(ids.ravel(), minlength=V), 1)[:, None]


def unbroadcast(d_y, shape, *, mean=False, front=True, stretched=True, keepdims=True):
    add = np.mean if mean else np.sum
    d = add(d_y, axis=tuple(range(d_y.ndim - len(shape)))) if front else d_y
    axes = tuple(axis for axis, n in enumerate(shape) if n == 1)
    return add(d, axis=axes, keepdims=keepdims) if stretched else d


def in_place(x, gain, d_y):
    others = tuple(range(x.ndim - 1))
    d_bias = d_y.sum(axis=others)
    d_y *= x
    return d_y / x * gain, d_y.sum(axis=others), d_bias


def last_bits(x, mean, r, gain, d_y):
    return d_y * (gain * r[:, None]), (d_y * ((x - mean[:, None]) * r[:, None])).sum(axis=0)


def last_bits_of_a_sum(x, mean, r, gain, d_y):
    rows = d_y * ((x - mean[:, None]) * r[:, None])
    return d_y * gain * r[:, None], rows[::-1].sum(axis=0)


def no_r(x, mean, r, gain, d_y):
    return d_y * gain, (d_y * ((x - mean[:, None]) * r[:, None])).sum(axis=0)


def slow(x, mean, r, gain, d_y):
    T, D = x.shape
    d_x, d_gain = np.zeros((T, D)), np.zeros(D)
    for t in range(T):
        for j in range(D):
            d_x[t, j] = d_y[t, j] * gain[j] * r[t]
            d_gain[j] += d_y[t, j] * ((x[t, j] - mean[t]) * r[t])
    return d_x, d_gain


def row_by_row(x, mean, r, gain, d_y):
    d_x, d_gain = np.zeros(x.shape), np.zeros(x.shape[1])
    for t in range(len(x)):
        d_x[t] = d_y[t] * gain * r[t]
        d_gain += d_y[t] * ((x[t] - mean[t]) * r[t])
    return d_x, d_gain


def spread(x, axis, d_y):
    return np.broadcast_to(np.expand_dims(d_y, axis), x.shape)


def every(ones):
    return lambda x, keep, d_y: ones(d_y[:, None], keep, keep.sum(axis=1)[:, None])


def moved(back):
    return lambda x, order, d_y: back(x, order, d_y.reshape(x.transpose(order).shape))


def batch(d_w):
    return lambda x, w, d_y: (d_y @ w.T, d_w(x, d_y))


def total(a):
    return a.sum(axis=tuple(range(a.ndim - 1)))


WRONG = [
    ("sum-along-an-axis", lambda x, axis, d_y: np.expand_dims(d_y, axis), "with length 1; every entry along it"),
    ("sum-along-an-axis", lambda x, axis, d_y: spread(x, axis, d_y) / x.shape[axis], "the gradient of the mean"),
    ("sum-along-an-axis", lambda x, axis, d_y: np.resize(d_y, x.shape), "right numbers in the wrong places"),
    ("sum-along-an-axis", lambda x, axis, d_y: d_y, "it is d_y, with the shape of y"),
    ("sum-along-an-axis", lambda x, axis, d_y: np.ones(x.shape), "is not right yet"),
    ("sum-along-an-axis", lambda x, axis, d_y: spread(x, 1, d_y) if d_y.shape == (2, 4) else x, "is not right|shape"),
    ("mean-of-what-counts", every(lambda d, keep, n: d / n + 0 * keep), "padding has a gradient"),
    ("mean-of-what-counts", every(lambda d, keep, n: np.where(keep, d / 5, 0)), "the padding does not count"),
    ("mean-of-what-counts", every(lambda d, keep, n: np.where(keep, d, 0)), "the division by n is missing"),
    ("mean-of-what-counts", every(lambda d, keep, n: np.where(keep, d / n.sum(), 0)), "each sentence has its own n"),
    ("mean-of-what-counts", every(lambda d, keep, n: d / 5 + 0 * keep), "the padding has it too"),
    ("mean-of-what-counts", every(lambda d, keep, n: d / n), "wrong shape"),
    ("mean-of-what-counts", every(lambda d, keep, n: np.where(keep, d / n, 1e-3)), "should be exactly zero"),
    ("unbroadcast", lambda d_y, shape: unbroadcast(d_y, shape, mean=True), "the mean over the copies"),
    ("unbroadcast", lambda d_y, shape: unbroadcast(d_y, shape, stretched=False), "but not those of length 1"),
    ("unbroadcast", lambda d_y, shape: unbroadcast(d_y, shape, keepdims=False), "wrong shape"),
    ("unbroadcast", lambda d_y, shape: d_y, "a sum is missing: nothing is summed"),
    ("unbroadcast", lambda d_y, shape: d_y.ravel()[: int(np.prod(shape))].reshape(shape), "first copy|is not right"),
    ("unbroadcast", lambda d_y, shape: d_y[0] if len(shape) == 1 else unbroadcast(d_y, shape), "is not right|shape"),
    (
        "gain-and-bias",
        lambda x, gain, d_y: (d_y * gain, d_y * x, total(d_y)),
        "a sum is missing: all rows use the same gain",
    ),
    (
        "gain-and-bias",
        lambda x, gain, d_y: (d_y * gain, total(d_y * x), d_y.sum(axis=0)),
        "d_bias has the wrong shape.*a sum is missing: the input was broadcast along axis 0",
    ),
    ("gain-and-bias", lambda x, gain, d_y: (d_y * x, total(d_y * x), total(d_y)), "x and gain are exchanged"),
    ("gain-and-bias", lambda x, gain, d_y: (d_y, total(d_y * x), total(d_y)), "it is d_y alone"),
    ("gain-and-bias", lambda x, gain, d_y: (d_y * gain, total(d_y), total(d_y)), "it is the gradient of the bias"),
    ("gain-and-bias", lambda x, gain, d_y: (d_y * gain, total(d_y) * total(x), total(d_y)), "summed before they are"),
    ("gain-and-bias", lambda x, gain, d_y: (d_y * gain, total(d_y * x) / 6, total(d_y)), "the mean over all rows"),
    ("gain-and-bias", lambda x, gain, d_y: (d_y * gain, total(d_y * x), total(d_y) / 6), "the mean over all rows"),
    ("gain-and-bias", in_place, "d_output was changed in place"),
    ("matmul-backward", lambda x, w, d_y: (w @ d_y.T, x.T @ d_y), "d_x has the wrong shape.*it is transposed"),
    ("matmul-backward", lambda x, w, d_y: (d_y @ w.T, d_y.T @ x), "d_w has the wrong shape.*it is transposed"),
    (
        "matmul-backward",
        lambda x, w, d_y: (d_y @ (w if w.shape[0] == w.shape[1] else w.T), x.T @ d_y),
        "w is not transposed",
    ),
    (
        "matmul-backward",
        lambda x, w, d_y: (d_y @ w.T, (x if w.shape[0] == w.shape[1] else x.T) @ d_y),
        "x is not transposed",
    ),
    ("matmul-backward", lambda x, w, d_y: (x.T @ d_y, d_y @ w.T), "d_x has the wrong shape"),
    ("matmul-backward", lambda x, w, d_y: (d_y @ w.T, np.zeros_like(w)), "it is zero everywhere"),
    ("matmul-backward", lambda x, w, d_y: (d_y @ w.T, -x.T @ d_y), "the sign is wrong"),
    ("one-weight-for-a-batch", batch(lambda x, d_y: x.swapaxes(1, 2) @ d_y), "a sum is missing"),
    ("one-weight-for-a-batch", batch(lambda x, d_y: x[0].T @ d_y[0]), "the first sentence alone"),
    ("one-weight-for-a-batch", batch(lambda x, d_y: x[-1].T @ d_y[-1]), "the last sentence alone"),
    ("one-weight-for-a-batch", batch(lambda x, d_y: (x.swapaxes(1, 2) @ d_y).mean(axis=0)), "B = 3 times too small"),
    ("one-weight-for-a-batch", batch(lambda x, d_y: x.reshape(4, -1) @ d_y.reshape(-1, 5)), "entries are mixed up"),
    ("one-weight-for-a-batch", batch(lambda x, d_y: d_y.reshape(-1, 5).T @ x.reshape(-1, 4)), "it is transposed"),
    ("transpose-and-reshape", lambda x, order, d_y: d_y.reshape(x.shape), "the axes were not put back, only cut anew"),
    ("transpose-and-reshape", moved(lambda x, order, d_u: d_u), "the axes are not put back"),
    ("transpose-and-reshape", moved(lambda x, order, d_u: d_u.transpose(order)), "goes on, not back"),
    ("transpose-and-reshape", moved(lambda x, order, d_u: d_u.T), "shape|not right yet"),
    ("repeated-ids", assigned, "the gradient of its last place only"),
    ("repeated-ids", added_once, "the gradient of its last place only"),
    ("repeated-ids", divided_by_count, "it is the sum, not the mean"),
    ("repeated-ids", lambda ids, V, d_y: added(ids, ids.max() + 1, d_y), "wrong shape"),
    ("repeated-ids", lambda ids, V, d_y: np.add.at(np.zeros((V, 3)), ids, d_y), "is there a `return`"),
    ("fast-to-the-last-bit", last_bits, "entries differ in their last bits"),
    ("fast-to-the-last-bit", last_bits_of_a_sum, "entries differ in their last bits"),
    ("fast-to-the-last-bit", no_r, "d_x is not right yet"),
    ("fast-to-the-last-bit", slow, "times as fast as slow"),
    ("fast-to-the-last-bit", lambda x, mean, r, gain, d_y: d_y, "Return two arrays"),
    ("find-the-wrong-array", "b", "is as it should be"),
    ("find-the-wrong-array", ["c"], "should be one of"),
]


@pytest.mark.parametrize(("name", "answer", "cause"), WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_a_wrong_answer_is_refused_with_its_cause(name, answer, cause):
    verdict = judge(find(name), [answer])
    assert not verdict.right
    assert verdict.solved
    assert re.search(cause, " ".join(verdict.words.split())), verdict.words
    assert max(map(len, verdict.told(name).splitlines())) <= 80


OTHERS = [
    ("sum-along-an-axis", spread),
    ("sum-along-an-axis", lambda x, axis, d_y: np.zeros(x.shape) + np.expand_dims(d_y, axis)),
    ("mean-of-what-counts", lambda x, keep, d_y: keep * (d_y / keep.sum(axis=1))[:, None]),
    ("matmul-backward", lambda x, w, d_y: ((w @ d_y.T).T, np.einsum("ta,tf->af", x, d_y))),
    ("one-weight-for-a-batch", batch(lambda x, d_y: (x.swapaxes(1, 2) @ d_y).sum(axis=0))),
    ("one-weight-for-a-batch", batch(lambda x, d_y: np.tensordot(x, d_y, axes=([0, 1], [0, 1])))),
    ("repeated-ids", lambda ids, V, d_y: np.eye(V)[ids.ravel()].T @ d_y.reshape(-1, d_y.shape[-1])),
    ("fast-to-the-last-bit", row_by_row),
]


@pytest.mark.parametrize(("name", "answer"), OTHERS)
def test_other_right_answers_pass(name, answer):
    """What is right need not look like the solution."""
    verdict = judge(find(name), [answer])
    assert verdict.right, verdict.words


def test_each_exercise_has_two_wrong_answers():
    names = [name for name, *_ in WRONG]
    assert all(names.count(exercise) >= 2 for exercise in names)
    assert {find(name).chapter for name in names} == {find("unbroadcast").chapter}
    assert len(set(names)) == 10


def test_one_pair_is_wrong():
    names = {}
    exec(find("find-the-wrong-array").text.partition('\nif __name__ == "__main__"')[0], names)
    rng, wrong = np.random.default_rng(1), []
    shapes = {"a": (3, 1), "b": (5, 4), "c": (3, 3), "d": (4,), "e": (4,)}
    for letter, (forward, backward) in names["PAIRS"].items():
        x, w = rng.normal(size=(3, 4)), rng.normal(size=shapes[letter])
        d_y = rng.normal(size=forward(x, w).shape)
        d_x, d_w = backward(x, w, d_y)
        assert (d_x.shape, d_w.shape) == (x.shape, w.shape)
        u, v, h = rng.normal(size=x.shape), rng.normal(size=w.shape), 1e-5
        change = (d_y * (forward(x + h * u, w + h * v) - forward(x - h * u, w - h * v))).sum() / (2 * h)
        if not np.isclose((d_x * u).sum() + (d_w * v).sum(), change, rtol=1e-7):
            wrong.append(letter)
    assert wrong == ["c"]
