"""Training: the learning rate and Adam."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitransformer import optim
from minitransformer.apps.learn.solutions import mistaken_parts, wrong_solutions
from minitransformer.apps.learn.verdict import agree, take
from minitransformer.autograd import Tensor

Moments = tuple[np.ndarray, ...]


def warm_up(learning_rate: Callable[..., Any]) -> None:
    """Check the rate before, at and after the end of the warm-up."""
    steps = np.array([1, 2, 50, 99, 100, 101, 400, 5000])
    for d, w in ((512, 100), (128, 400)):
        _rates(learning_rate, steps, d, w)


def _rates(learning_rate: Callable[..., Any], steps: np.ndarray, d: int, w: int) -> None:
    known = {words: [wrong(step, d, w) for step in steps.tolist()] for words, wrong in wrong_solutions("warm-up")}
    agree(
        f"lr, for d_model = {d} and warmup_steps = {w}, at the steps {', '.join(map(str, steps))},",
        [learning_rate(step, d, w) for step in steps.tolist()],
        np.array([optim.warmup(step, d, w) for step in steps.tolist()]),
        mistakes=known,
    )


def adam_step(step: Callable[..., Any]) -> None:
    """Check two steps against the optimiser; each begins where the optimiser was."""
    rng = np.random.default_rng(87)
    for size, beta1, beta2, eps, lr in ((5, 0.9, 0.98, 0.05, 0.3), (3, 0.8, 0.95, 0.1, 0.02)):
        parameter = Tensor(rng.normal(size=size), requires_grad=True)
        adam = optim.Adam([parameter], betas=(beta1, beta2), eps=eps)
        course = []
        for _ in range(3):
            before = parameter.numpy().copy(), rng.normal(size=size), adam.mean.copy(), adam.mean_square.copy()
            parameter.grad = before[1].copy()
            adam.step(lr)
            course.append((before, (parameter.numpy().copy(), adam.mean.copy(), adam.mean_square.copy())))
        for t in (3, 1):  # the third first: in the first some mistakes look alike, since m and v are 0
            _adam(step, course[t - 1], t, lr, beta1, beta2, eps)


def _adam(
    step: Callable[..., Any], done: tuple[Moments, Moments], t: int, lr: float, beta1: float, beta2: float, eps: float
) -> None:
    (theta, g, m, v), (moved, *both) = done
    names = ("theta", "m", "v")
    new_theta, new_m, new_v = take(names, step(theta, g, m, v, t, lr, beta1, beta2, eps), [x.shape for x in done[1]])
    known = mistaken_parts("adam-step", names, theta, g, m, v, t, lr, beta1, beta2, eps)
    for name, found, expected in zip(("m", "v", "theta"), (new_m, new_v, new_theta), (*both, moved), strict=True):
        agree(f"{name} at step {t}", found, expected, mistakes=known[name])
