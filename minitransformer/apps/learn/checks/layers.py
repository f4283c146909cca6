"""The parts of a layer: embedding, dropout, feed-forward network and initial weights."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np

from minitransformer.apps.learn.solutions import mistaken, mistaken_parts
from minitransformer.apps.learn.verdict import Wrong, agree, check_cases, check_gradients, refuse_unsolved
from minitransformer.nn import xavier as package_xavier


def embedding_scale(embedded: Callable[..., Any]) -> None:
    """Check the input of the first layer, for batches of two sizes."""
    rng = np.random.default_rng(90)
    for B, T, D in ((2, 3, 5), (4, 1, 6)):
        rows, positions = rng.normal(size=(B, T, D)) / sqrt(D), rng.normal(size=(T, D))
        expected, known = rows * sqrt(D) + positions, mistaken("embedding-scale", rows, positions)
        agree("x", embedded(rows, positions), expected, mistakes=known)


def _draws(seed: int) -> list[tuple[np.ndarray, np.ndarray, float]]:
    """Return values, which of them are kept, and the probability of dropping one; the last draw keeps everything."""
    rng, draws = np.random.default_rng(seed), []
    for shape, p in (((3, 5), 0.2), ((2, 3, 4), 0.7), ((4,), 0.0)):
        x = rng.normal(size=shape)
        keep = rng.random(shape) >= p
        keep.flat[:2] = p == 0, True  # one is dropped, one is kept, whatever was drawn
        draws.append((x, keep, p))
    return draws


def dropout_forward(forward: Callable[..., Any]) -> None:
    """Check what is dropped and by how much the rest grows, for three probabilities, one of them 0."""
    for x, keep, p in _draws(91):
        agree(
            f"y, for p = {p},",
            forward(x, keep, p),
            np.where(keep, x / (1 - p), 0.0),
            mistakes=mistaken("dropout-forward", x, keep, p),
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
        mistakes=lambda d_y: mistaken_parts("dropout-backward", [name], keep, p, d_y),
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
        mistakes=lambda d_y: mistaken_parts(
            "feed-forward-backward", ["d_x", "d_w1", "d_b1", "d_w2", "d_b2"], x, h, w1, w2, d_y
        ),
    )


def xavier(draw: Callable[..., Any]) -> None:
    """Check what is drawn from the generator that is given, for three shapes."""
    for seed, (n_in, n_out) in enumerate(((4, 7), (6, 2), (5, 5))):
        rng = np.random.default_rng(seed)
        found = draw(rng, n_in, n_out)
        refuse_unsolved(found)
        expected = package_xavier(np.random.default_rng(seed), n_in, n_out)
        unused = rng.bit_generator.state == np.random.default_rng(seed).bit_generator.state
        wrong = mistaken("xavier", np.random.default_rng(seed), n_in, n_out)
        if unused:
            wrong["rng has drawn none of these numbers: use the generator that is given"] = found
        agree(f"W, for n_in = {n_in} and n_out = {n_out},", found, expected, mistakes=wrong)
        if unused:
            raise Wrong("The numbers are right, but rng has drawn none of them: use the generator that is given.")
