"""Softmax, log-sum-exp and cross-entropy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.apps.learn.comparing import check_backward, check_result
from minitransformer.apps.learn.solutions import mistaken
from minitransformer.apps.learn.verdict import agree


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """Return the weights."""
    return np.asarray(ops.softmax.forward(x, axis=axis)[0])


def cross_entropy(logits: np.ndarray, targets: np.ndarray, **options: Any) -> np.ndarray:
    """Return the mean loss."""
    return np.asarray(ops.cross_entropy.forward(logits, targets, **options)[0])


def loss_of(logits: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the mean loss for any distribution of the targets."""
    return np.asarray(-(q * ops.log_softmax.forward(logits)[0]).sum(axis=-1).mean())


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
        check_result("softmax-forward", "y", forward, (x,), softmax(x))


def softmax_of_large_scores(forward: Callable[..., Any]) -> None:
    """Check the softmax of scores up to 1e4 of both signs."""
    small = np.random.default_rng(52).normal(size=(3, 4))
    large = small + np.array([1e4, 0.0, -1e4])[:, None]
    large[1] *= 1e4  # scores far apart in one row
    leading = np.random.default_rng(59).normal(size=(2, 3, 5)) - 1e4
    for name, x in (("small scores", small), ("scores of 10000", large), ("scores of -10000", leading)):
        with np.errstate(all="ignore"):
            check_result("softmax-of-large-scores", f"y, for {name},", forward, (x,), softmax(x))


def softmax_backward(backward: Callable[..., Any]) -> None:
    """Check the gradient of the scores, from the weights."""
    rng = np.random.default_rng(53)
    for shape in ((3, 4), (2, 3, 5)):
        x = rng.normal(size=shape)
        sizes = {"number of rows": len(x)}
        check_backward("softmax-backward", backward, softmax, {"x": x}, (softmax(x),), sizes=sizes)


def log_sum_exp(log_sum_exp: Callable[..., Any]) -> None:
    """Check the logarithm of a sum of exponentials, of large scores too."""
    rng = np.random.default_rng(54)
    for shape, size in (((2, 3, 4), 0), ((2, 5), 0), ((2, 3, 4), 10000)):
        x = rng.normal(size=shape) + size * rng.permuted([1.0, -1.0])[(..., *[None] * (len(shape) - 1))]
        largest = x.max(axis=-1)
        total = np.exp(x - largest[..., None]).sum(axis=-1)
        with np.errstate(all="ignore"):
            name = f"s, for scores of {size}," if size else "s"
            check_result("log-sum-exp", name, log_sum_exp, (x,), largest + np.log(total))


def cross_entropy_backward(backward: Callable[..., Any]) -> None:
    """Check the gradient of the logits, from the targets."""
    for logits, targets in draw(55):
        _loss_gradient("cross-entropy-backward", backward, partial(cross_entropy, targets=targets), logits, targets)


def _loss_gradient(
    exercise: str, backward: Callable[..., Any], loss: Callable[..., Any], logits: np.ndarray, wanted: np.ndarray
) -> None:
    N, V = logits.shape
    inputs, given, sizes = {"logits": logits}, (logits, wanted), {"N": N, "V": V}
    check_backward(exercise, backward, loss, inputs, given, floats=True, sizes=sizes)


def smoothed_targets(wanted: Callable[..., Any]) -> None:
    """Check the wanted distribution, with and without smoothing."""
    for (logits, targets), epsilon in zip((*draw(56), *draw(56)), (0.3, 0.1, 0.0, 1.0), strict=True):
        V = logits.shape[1]
        name = f"q, for epsilon = {epsilon}, n_tokens = {V},"
        expected = (1 - epsilon) * one_hot(targets, V) + epsilon / V
        check_result("smoothed-targets", name, wanted, (targets, V, epsilon), expected)


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
                loss_of(logits, q),
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
    for logits, q in (
        (first, 0.7 * one_hot(targets, 4) + 0.3 / 4),
        (second, random / random.sum(axis=-1, keepdims=True)),
    ):
        _loss_gradient("label-smoothing-backward", backward, partial(loss_of, q=q), logits, q)


def ignored_targets(backward: Callable[..., Any]) -> None:
    """Check the gradient of the logits where some targets, or all, are padding."""
    for logits, targets in draw(58):  # each has a 0 among its targets
        _ignoring_gradient(backward, logits, targets)
    with np.errstate(all="ignore"):
        found = backward(logits, np.zeros_like(targets), 1.5)
        agree("d_logits where every target is padding", found, np.zeros_like(logits))
    _ignoring_gradient(backward, logits, np.array([5, 1, 5]))


def _ignoring_gradient(backward: Callable[..., Any], logits: np.ndarray, targets: np.ndarray) -> None:
    loss, given = partial(cross_entropy, targets=targets, ignore_index=0), (logits, targets)
    check_backward("ignored-targets", backward, loss, {"logits": logits}, given, floats=True)
