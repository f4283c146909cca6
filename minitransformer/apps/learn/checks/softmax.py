"""Softmax, log-sum-exp and cross-entropy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.apps.learn.solutions import mistaken, mistaken_parts
from minitransformer.apps.learn.verdict import agree, check_gradients


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """Return the weights."""
    return np.asarray(ops.softmax.forward(x, axis=axis)[0])


def cross_entropy(logits: np.ndarray, targets: np.ndarray, **options: Any) -> np.ndarray:
    """Return the mean loss."""
    return np.asarray(ops.cross_entropy.forward(logits, targets, **options)[0])


def one_hot(targets: np.ndarray, V: int) -> np.ndarray:
    """Return 1 at each row's target and 0 elsewhere: (N,) -> (N, V)."""
    return np.asarray(np.eye(V)[targets])


def draw(seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield logits and targets: some tokens twice, and in the second case the last ones of the vocabulary never."""
    rng = np.random.default_rng(seed)
    yield rng.normal(size=(5, 4)), np.array([2, 0, 3, 2, 1])
    yield rng.normal(size=(3, 6)), np.array([0, 2, 0])


def softmax_forward(forward: Callable[..., Any]) -> None:
    """Check the softmax of small scores."""
    rng = np.random.default_rng(51)
    for shape in ((3, 4), (2, 3, 5)):
        x = rng.normal(size=shape)
        agree("y", forward(x), softmax(x), mistakes=mistaken("softmax-forward", x))


def softmax_of_large_scores(forward: Callable[..., Any]) -> None:
    """Check the softmax of scores up to 1e4 of both signs."""
    small = np.random.default_rng(52).normal(size=(3, 4))
    large = small + np.array([1e4, 0.0, -1e4])[:, None]
    large[1] *= 1e4  # scores far apart in one row
    leading = np.random.default_rng(59).normal(size=(2, 3, 5)) - 1e4
    for name, x in (("small scores", small), ("scores of 10000", large), ("scores of -10000", leading)):
        with np.errstate(all="ignore"):
            agree(f"y, for {name},", forward(x), softmax(x), mistakes=mistaken("softmax-of-large-scores", x))


def softmax_backward(backward: Callable[..., Any]) -> None:
    """Check the gradient of the scores, from the weights."""
    rng = np.random.default_rng(53)
    for shape in ((3, 4), (2, 3, 5)):
        x = rng.normal(size=shape)
        _softmax_gradient(backward, x, softmax(x))


def _softmax_gradient(backward: Callable[..., Any], x: np.ndarray, y: np.ndarray) -> None:
    check_gradients(
        lambda d_y: backward(y, d_y),
        softmax,
        {"x": x},
        sizes={"number of rows": len(x)},
        mistakes=lambda d_y: mistaken_parts("softmax-backward", ["d_x"], y, d_y),
    )


def log_sum_exp(log_sum_exp: Callable[..., Any]) -> None:
    """Check the logarithm of a sum of exponentials, of large scores too."""
    rng = np.random.default_rng(54)
    for shape, size in (((2, 3, 4), 0), ((2, 5), 0), ((2, 3, 4), 10000)):
        x = rng.normal(size=shape) + size * rng.permuted([1.0, -1.0])[(..., *[None] * (len(shape) - 1))]
        largest = x.max(axis=-1)
        total = np.exp(x - largest[..., None]).sum(axis=-1)
        with np.errstate(all="ignore"):
            agree(
                f"s, for scores of {size}," if size else "s",
                log_sum_exp(x),
                largest + np.log(total),
                mistakes=mistaken("log-sum-exp", x),
            )


def cross_entropy_backward(backward: Callable[..., Any]) -> None:
    """Check the gradient of the logits, from the targets."""
    for logits, targets in draw(55):
        _cross_entropy_gradient(backward, logits, targets)


def _cross_entropy_gradient(backward: Callable[..., Any], logits: np.ndarray, targets: np.ndarray) -> None:
    N, V = logits.shape
    check_gradients(
        lambda d_loss: backward(logits, targets, float(d_loss)),
        lambda logits: cross_entropy(logits, targets),
        {"logits": logits},
        sizes={"N": N, "V": V},
        mistakes=lambda d_loss: mistaken_parts("cross-entropy-backward", ["d_logits"], logits, targets, float(d_loss)),
    )


def smoothed_targets(wanted: Callable[..., Any]) -> None:
    """Check the wanted distribution, with and without smoothing."""
    for (logits, targets), epsilon in zip((*draw(56), *draw(56)), (0.3, 0.1, 0.0, 1.0), strict=True):
        V = logits.shape[1]
        agree(
            f"q, for epsilon = {epsilon}, n_tokens = {V},",
            wanted(targets, V, epsilon),
            (1 - epsilon) * one_hot(targets, V) + epsilon / V,
            mistakes=mistaken("smoothed-targets", targets, V, epsilon),
        )


def cross_entropy_forward(loss: Callable[..., Any]) -> None:
    """Check the loss for smoothed and unsmoothed targets, and for logits up to 1e4."""
    rng = np.random.default_rng(59)
    small, wide, targets = rng.normal(size=(5, 4)), rng.normal(size=(3, 7)), np.array([2, 0, 3, 2, 1])
    random = rng.uniform(0.1, 1, size=wide.shape)
    large = 1e3 * wide + np.array([1e4, 0.0, -1e4])[:, None]
    for name, logits, q in (
        ("the loss", small, 0.7 * one_hot(targets, 4) + 0.3 / 4),
        ("the loss, for one target in each row,", small, one_hot(targets, 4)),
        ("the loss, for logits of 10000,", large, random / random.sum(axis=-1, keepdims=True)),
    ):
        with np.errstate(all="ignore"):
            agree(
                name,
                loss(logits, q),
                -(q * ops.log_softmax.forward(logits)[0]).sum(axis=-1).mean(),
                mistakes=mistaken("cross-entropy-forward", logits, q) | _limited(logits, q),
            )


LIMITS = (1e-300, np.finfo(float).tiny, 1e-20, 1e-16, np.finfo(float).eps, 1e-15, 1e-12, 1e-10, 1e-9, 1e-8, 1e-7)
"""Numbers that learners put below p, or add to it."""


def _limited(logits: np.ndarray, q: np.ndarray) -> dict[str, np.ndarray]:
    """Return the loss where small p are changed."""
    p, losses = softmax(logits), {}
    for least in LIMITS:
        raised = f"p is raised to at least {least:.3g}; log p_v = x_v - s needs no such limit"
        added = f"{least:.3g} is added to p, which changes small p; log p_v = x_v - s needs no such number"
        for words, changed in ((raised, np.maximum(p, least)), (added, p + least)):
            losses[words] = -(q * np.log(changed)).sum(axis=-1).mean()
    return losses


def label_smoothing_backward(backward: Callable[..., Any]) -> None:
    """Check the gradient of the logits, for any distribution."""
    first, second = (logits for logits, _ in draw(57))
    targets, random = np.array([2, 0, 3, 2, 1]), np.random.default_rng(57).uniform(0.1, 1, size=second.shape)
    _any_distribution(backward, first, 0.7 * one_hot(targets, 4) + 0.3 / 4)
    _any_distribution(backward, second, random / random.sum(axis=-1, keepdims=True))


def _any_distribution(backward: Callable[..., Any], logits: np.ndarray, q: np.ndarray) -> None:
    N, V = logits.shape

    def loss(logits: np.ndarray) -> np.ndarray:
        return np.asarray(-(q * ops.log_softmax.forward(logits)[0]).sum(axis=-1).mean())

    check_gradients(
        lambda d_loss: backward(logits, q, float(d_loss)),
        loss,
        {"logits": logits},
        sizes={"N": N, "V": V},
        mistakes=lambda d_loss: mistaken_parts("label-smoothing-backward", ["d_logits"], logits, q, float(d_loss)),
    )


def ignored_targets(backward: Callable[..., Any]) -> None:
    """Check the gradient of the logits where some targets, or all, are padding."""
    for logits, targets in draw(58):  # each has a 0 among its targets
        _ignoring_gradient(backward, logits, targets)
    with np.errstate(all="ignore"):
        found = backward(logits, np.zeros_like(targets), 1.5)
        agree("d_logits where every target is padding", found, np.zeros_like(logits))
    _ignoring_gradient(backward, logits, np.array([5, 1, 5]))


def _ignoring_gradient(backward: Callable[..., Any], logits: np.ndarray, targets: np.ndarray) -> None:
    check_gradients(
        lambda d_loss: backward(logits, targets, float(d_loss)),
        lambda logits: cross_entropy(logits, targets, ignore_index=0),
        {"logits": logits},
        mistakes=lambda d_loss: mistaken_parts("ignored-targets", ["d_logits"], logits, targets, float(d_loss)),
    )
