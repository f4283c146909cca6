"""The parts of a layer: heads, embedding, dropout, feed-forward network and initial weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import sqrt
from typing import Any

import numpy as np

from minitransformer.apps.learn.comparing import check_backward, check_result
from minitransformer.apps.learn.solutions import mistaken
from minitransformer.apps.learn.verdict import Wrong, agree, check_cases
from minitransformer.nn import xavier as package_xavier


def embedding_scale(embedded: Callable[..., Any]) -> None:
    """Check the input of the first layer, for batches of two sizes."""
    rng = np.random.default_rng(90)
    for B, T, D in ((2, 3, 5), (4, 1, 6)):
        rows, positions = rng.normal(size=(B, T, D)) / sqrt(D), rng.normal(size=(T, D))
        check_result("embedding-scale", "x", embedded, (rows, positions), rows * sqrt(D) + positions)


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
        check_result("dropout-forward", f"y, for p = {p},", forward, (x, keep, p), np.where(keep, x / (1 - p), 0.0))


def dropout_backward(backward: Callable[..., Any]) -> None:
    """Check the gradient for the same draws."""
    for x, keep, p in _draws(92):
        kept, names = keep / (1 - p), [f"d_x, for p = {p},"]
        check_backward("dropout-backward", backward, partial(np.multiply, kept), {"x": x}, (keep, p), names=names)


def feed_forward_backward(backward: Callable[..., Any]) -> None:
    """Check all five gradients: first with square weights, in which shapes hide a forgotten transpose."""
    rng = np.random.default_rng(93)

    def check(B: int, T: int, D: int, F: int) -> None:
        shapes = {"x": (B, T, D), "w1": (D, F), "b1": (F,), "w2": (F, D), "b2": (D,)}
        inputs = {name: rng.normal(size=shape) for name, shape in shapes.items()}
        x, w1, b1, w2, _ = inputs.values()
        given, sizes = (x, np.maximum(0, x @ w1 + b1), w1, w2), {"B": B, "T": T, "B T": B * T}
        check_backward("feed-forward-backward", backward, _network, inputs, given, sizes=sizes)

    check_cases(check, ((3, 2, 4, 4), (2, 3, 4, 5), (3, 3, 3, 3), (1, 3, 4, 5), (3, 1, 4, 5)))


def _network(x: np.ndarray, w1: np.ndarray, b1: np.ndarray, w2: np.ndarray, b2: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(0, x @ w1 + b1) @ w2 + b2)


def xavier(draw: Callable[..., Any]) -> None:
    """Check what is drawn from the generator that is given, for three shapes."""
    for seed, (n_in, n_out) in enumerate(((4, 7), (6, 2), (5, 5))):
        rng = np.random.default_rng(seed)
        found = draw(rng, n_in, n_out)
        expected = package_xavier(np.random.default_rng(seed), n_in, n_out)
        unused = rng.bit_generator.state == np.random.default_rng(seed).bit_generator.state
        wrong = mistaken("xavier", np.random.default_rng(seed), n_in, n_out)
        if unused:
            wrong["rng has drawn none of these numbers: use the generator that is given"] = found
        agree(f"W, for n_in = {n_in} and n_out = {n_out},", found, expected, mistakes=wrong)
        if unused:
            raise Wrong("The numbers are right, but rng has drawn none of them: use the generator that is given.")


def split_heads(split: Callable[..., Any]) -> None:
    """Check the heads of an array."""
    rng = np.random.default_rng(80)
    for b, t, h, dk in ((2, 4, 3, 5), (3, 2, 4, 5)):
        x = rng.normal(size=(b, t, h * dk))
        check_result("split-heads", "heads", split, (x, h), np.stack(np.split(x, h, axis=-1), axis=1))


def merge_heads(merge: Callable[..., Any]) -> None:
    """Check the heads laid side by side."""
    rng = np.random.default_rng(81)
    for shape in ((2, 3, 4, 7), (3, 4, 2, 5)):
        heads = rng.normal(size=shape)
        merged = np.concatenate(list(np.moveaxis(heads, 1, 0)), axis=-1)
        check_result("merge-heads", "merged", merge, (heads,), merged)
