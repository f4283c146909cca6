"""Chapter 8, the parts of a layer: embedding, dropout, feed-forward network and initial weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt
from typing import Any

import numpy as np

from minitransformer.learn.checks.linear import unlike_rows
from minitransformer.learn.verdict import Wrong, agree, check_cases, check_gradients, refuse_unsolved
from minitransformer.nn.module import xavier as package_xavier


def embedding_scale(embedded: Callable[..., Any]) -> None:
    """Check the input of the first layer, for batches of two sizes."""
    rng = np.random.default_rng(90)
    for B, T, D in ((2, 3, 5), (4, 1, 6)):
        rows, positions = rng.normal(size=(B, T, D)) / sqrt(D), rng.normal(size=(T, D))
        agree(
            "x",
            embedded(rows, positions),
            rows * sqrt(D) + positions,
            mistakes={
                "the factor sqrt(D) is missing": rows + positions,
                "it is divided by sqrt(D); multiply the rows by it": rows / sqrt(D) + positions,
                "the factor is D; it should be sqrt(D)": rows * D + positions,
                "the factor is sqrt(T), of the number of positions; D is the length of the last axis": rows * sqrt(T)
                + positions,
                "the factor is sqrt(B), of the number of sentences; D is the length of the last axis": rows * sqrt(B)
                + positions,
                "the positions are multiplied too; multiply first, then add": (rows + positions) * sqrt(D),
                "the positions are multiplied instead of the rows": rows + positions * sqrt(D),
                "the positions are missing": rows * sqrt(D),
                "the positions are subtracted; add them": rows * sqrt(D) - positions,
                "the rows are multiplied by the positions; add them": rows * sqrt(D) * positions,
                "the rows are multiplied by the positions; add them. The factor sqrt(D) is missing too": rows
                * positions,
            },
        )


def _draws(seed: int) -> list[tuple[np.ndarray, np.ndarray, float]]:
    """Return values, which of them are kept, and the probability of dropping one; the last draw keeps everything."""
    rng, draws = np.random.default_rng(seed), []
    for shape, p in (((3, 5), 0.2), ((2, 3, 4), 0.7), ((4,), 0.0)):
        x = rng.normal(size=shape)
        keep = rng.random(shape) >= p
        keep.flat[:2] = p == 0, True  # one is dropped, one is kept, whatever was drawn
        draws.append((x, keep, p))
    return draws


def _wrong_dropout(x: np.ndarray, keep: np.ndarray, p: float) -> dict[str, np.ndarray]:
    """Return dropout with one mistake each; forwards and backwards they are the same."""
    kept = x * keep
    return {
        "nothing is scaled: divide the kept entries by 1 - p": kept,
        "it is multiplied by 1 - p; divide by it": kept * (1 - p),
        "it is divided by p, the probability of dropping an entry; divide by 1 - p": kept / (p or 1),
        "it is multiplied by p; divide by 1 - p": kept * p,
        "keep is the wrong way round: True = the entry is kept": x * ~keep / (1 - p),
        "it is divided by p where entries are dropped; those should be 0, and the others divided by 1 - p": x
        * ~keep
        / (p or 1),
        "nothing is dropped: keep is not used": x / (1 - p),
        "dropped entries stay as they are; they should be 0": np.where(keep, x / (1 - p), x),
        "the factor comes from the entries kept in this draw; it is always 1 / (1 - p)": kept * keep.size / keep.sum(),
        "the factor is applied twice": kept / (1 - p) ** 2,
    }


def dropout_forward(forward: Callable[..., Any]) -> None:
    """Check what is dropped and by how much the rest grows, for three probabilities, one of them 0."""
    for x, keep, p in _draws(91):
        agree(
            f"y, for p = {p},",
            forward(x, keep, p),
            np.where(keep, x / (1 - p), 0.0),
            mistakes=_wrong_dropout(x, keep, p),
        )


def dropout_backward(backward: Callable[..., Any]) -> None:
    """Check the gradient for the same draws."""
    for x, keep, p in _draws(92):
        _dropout_gradient(backward, x, keep, p)


def _dropout_gradient(backward: Callable[..., Any], x: np.ndarray, keep: np.ndarray, p: float) -> None:
    name = f"d_x, for p = {p},"
    check_gradients(
        lambda d_y: backward(keep, p, d_y),
        lambda x: np.where(keep, x / (1 - p), 0.0),
        {"x": x},
        names=[name],
        mistakes=lambda d_y: {name: _wrong_dropout(d_y, keep, p)},
    )


def feed_forward_backward(backward: Callable[..., Any]) -> None:
    """Check all five gradients: first with square weights, in which shapes hide a forgotten transpose."""
    rng = np.random.default_rng(93)

    def check(B: int, T: int, D: int, F: int) -> None:
        shapes = {"x": (B, T, D), "w1": (D, F), "b1": (F,), "w2": (F, D), "b2": (D,)}
        _feed_forward(backward, {name: rng.normal(size=shape) for name, shape in shapes.items()})

    check_cases(check, ((3, 2, 4, 4), (2, 3, 4, 5), (3, 3, 3, 3), (1, 3, 4, 5), (3, 1, 4, 5)))


def _network(x: np.ndarray, w1: np.ndarray, b1: np.ndarray, w2: np.ndarray, b2: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(0, x @ w1 + b1) @ w2 + b2)


def _feed_forward(backward: Callable[..., Any], inputs: dict[str, np.ndarray]) -> None:
    x, w1, b1, w2, _ = inputs.values()
    h = np.maximum(0, x @ w1 + b1)
    check_gradients(
        lambda d_y: backward(x, h, w1, w2, d_y),
        _network,
        inputs,
        sizes={"B": x.shape[0], "T": x.shape[1], "B T": x.shape[0] * x.shape[1]},
        mistakes=lambda d_y: _wrong_networks(x, h, w1, w2, d_y),
    )


def _wrong_networks(
    x: np.ndarray, h: np.ndarray, w1: np.ndarray, w2: np.ndarray, d_y: np.ndarray
) -> Mapping[str, Mapping[str, np.ndarray]]:
    d_h, on = d_y @ w2.T, h > 0
    d_a = d_h * on
    inside = {
        "the ReLU is missing: where h is 0, no gradient passes": d_h,
        "the ReLU is applied to the gradient; pass the gradient where h > 0": np.maximum(0, d_h),
        "d_h is multiplied by h; the slope of the ReLU is 1 where h > 0, else 0": d_h * h,
        "the ReLU is the wrong way round: no gradient passes where h is 0": d_h * ~on,
    }
    square = d_y.shape == h.shape
    if square:
        inside |= {"w2 is not transposed": (d_y @ w2) * on, "w2 is missing: d_h is d_y w2^T": d_y * on}
    d_x = {words: d @ w1.T for words, d in inside.items()} | {"w1 is missing: this is d_a, the gradient of a": d_a}
    if square:
        d_x["w1 is not transposed"] = d_a @ w1
    each = "a sum is missing: there is one gradient for each sentence; add them up"
    of_w1 = {words: np.einsum("btd,btf->df", x, d) for words, d in inside.items()}
    shared = "a sum is missing: all rows share the bias, so add them up"
    return {
        "d_x": d_x,
        "d_w1": of_w1 | {**unlike_rows(x, d_a, "x", "d_a"), each: x.swapaxes(1, 2) @ d_a},
        "d_b1": {words: d.sum(axis=(0, 1)) for words, d in inside.items()} | {shared: d_a},
        "d_w2": {**unlike_rows(h, d_y, "h", "d_y"), each: h.swapaxes(1, 2) @ d_y},
        "d_b2": {shared: d_y, "this is d_b1; the order is d_x, d_w1, d_b1, d_w2, d_b2": d_a.sum(axis=(0, 1))},
    }


def xavier(draw: Callable[..., Any]) -> None:
    """Check what is drawn from the generator that is given, for three shapes."""
    for seed, (n_in, n_out) in enumerate(((4, 7), (6, 2), (5, 5))):
        rng = np.random.default_rng(seed)
        found = draw(rng, n_in, n_out)
        refuse_unsolved(found)
        expected = package_xavier(np.random.default_rng(seed), n_in, n_out)
        unused = rng.bit_generator.state == np.random.default_rng(seed).bit_generator.state
        wrong = _wrong_weights(seed, n_in, n_out)
        if unused:
            wrong["rng has drawn none of these numbers: use the generator that is given"] = found
        agree(f"W, for n_in = {n_in} and n_out = {n_out},", found, expected, mistakes=wrong)
        if unused:
            raise Wrong("The numbers are right, but rng has drawn none of them: use the generator that is given.")


def _wrong_weights(seed: int, n_in: int, n_out: int) -> dict[str, np.ndarray]:
    def uniform(low: float, high: float, shape: tuple[int, ...] = (n_in, n_out)) -> np.ndarray:
        return np.random.default_rng(seed).uniform(low, high, shape)

    limits = {
        "the root is missing: a = sqrt(6 / (n_in + n_out))": 6 / (n_in + n_out),
        "the standard deviation is used as the limit: a is sqrt(3) times as large": sqrt(2 / (n_in + n_out)),
        "the variance is used as the limit": 2 / (n_in + n_out),
        "the limit has n_in only: use n_in + n_out": sqrt(6 / n_in),
        "the limit has n_out only: use n_in + n_out": sqrt(6 / n_out),
        "the limit has the product of the sizes; use their sum": sqrt(6 / (n_in * n_out)),
        "brackets are missing: put them around n_in + n_out": sqrt(6 / n_in + n_out),
        "the limit is upside down: the larger the matrix, the smaller its entries": sqrt((n_in + n_out) / 6),
        "the limits are -1 and 1": 1.0,
    }
    a = sqrt(6 / (n_in + n_out))
    deviation = sqrt(2 / (n_in + n_out))
    numbers = np.random.default_rng(seed)
    return {words: uniform(-limit, limit) for words, limit in limits.items()} | {
        "the lower limit is 0; it is -a": uniform(0, a),
        "a is the lower limit, and the upper one is 1: rng.uniform takes both": uniform(a, 1),
        "the shape is (n_out, n_in); it should be (n_in, n_out)": uniform(-a, a, (n_out, n_in)),
        "the entries are drawn column by column; draw an array of the shape (n_in, n_out)": uniform(
            -a, a, (n_out, n_in)
        ).T,
        "the numbers are normal; they should be uniform": numbers.normal(0, deviation, (n_in, n_out)),
        "there is one number for each output; draw a whole matrix": uniform(-a, a, (n_out,)),
    }
