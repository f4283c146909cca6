"""Chapter 8, training: the learning rate and Adam."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitransformer import optim
from minitransformer.autograd import Tensor
from minitransformer.learn.verdict import agree, take

Moments = tuple[np.ndarray, ...]


def warm_up(learning_rate: Callable[..., Any]) -> None:
    """Check the rate before, at and after the end of the warm-up."""
    steps = np.array([1, 2, 50, 99, 100, 101, 400, 5000])
    for d, w in ((512, 100), (128, 400)):
        _rates(learning_rate, steps, d, w)


def _rates(learning_rate: Callable[..., Any], steps: np.ndarray, d: int, w: int) -> None:
    rise, fall = steps * w**-1.5, steps**-0.5
    agree(
        f"lr, for d_model = {d} and warmup_steps = {w}, at the steps {', '.join(map(str, steps))},",
        [learning_rate(step, d, w) for step in steps.tolist()],
        np.array([optim.warmup(step, d, w) for step in steps.tolist()]),
        mistakes={
            "it is the larger of the two; take the smaller": d**-0.5 * np.maximum(rise, fall),
            "there is no warm-up: the second term is missing": d**-0.5 * fall,
            "it never falls: the first term is missing": d**-0.5 * rise,
            "brackets are missing: Python reads a ** -1 / 2 as (a ** -1) / 2; write a ** -0.5": d**-1
            / 2
            * np.minimum(1 / steps / 2, steps * w**-3 / 2),
            "the factor in front is missing: d_model^(-1/2)": np.minimum(rise, fall),
            "the factor in front is sqrt(d_model); it should be 1 / sqrt(d_model)": d**0.5 * np.minimum(rise, fall),
            "the factor in front is 1 / d_model; it should be 1 / sqrt(d_model)": np.minimum(rise, fall) / d,
            "the power of warmup_steps is -3/2": d**-0.5 * np.minimum(steps * w**-0.5, fall),
            "the factor in front is that of 512 features; use d_model": 512**-0.5 * np.minimum(rise, fall),
            "the factor step is missing in the second term, so the rate does not rise": d**-0.5
            * np.minimum(w**-1.5, fall),
        },
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
    corrected = both[0] / (1 - beta1**t), both[1] / (1 - beta2**t)
    agree(
        f"m at step {t}",
        new_m,
        both[0],
        mistakes={
            "beta1 and 1 - beta1 are swapped: the old mean weighs more": (1 - beta1) * m + beta1 * g,
            "the factor 1 - beta1 is missing": beta1 * m + g,
            "the factor beta1 is missing": m + (1 - beta1) * g,
            "m_hat is returned; return the running mean itself": corrected[0],
            "this is v; the order is theta, m, v": both[1],
            "this is theta; the order is theta, m, v": moved,
            "the gradient is squared; that belongs to v": beta1 * m + (1 - beta1) * g * g,
            "it uses beta2 instead of beta1": beta2 * m + (1 - beta2) * g,
        },
    )
    agree(
        f"v at step {t}",
        new_v,
        both[1],
        mistakes={
            "the gradient is not squared": beta2 * v + (1 - beta2) * g,
            "it is the square of the new m; the square of g is needed": beta2 * v + (1 - beta2) * both[0] ** 2,
            "it uses beta1 instead of beta2": beta1 * v + (1 - beta1) * g * g,
            "beta2 and 1 - beta2 are swapped: the old mean weighs more": (1 - beta2) * v + beta2 * g * g,
            "the factor 1 - beta2 is squared as well": beta2 * v + ((1 - beta2) * g) ** 2,
            "v_hat is returned; return the running mean itself": corrected[1],
        },
    )
    agree(
        f"theta at step {t}",
        new_theta,
        moved,
        mistakes=_wrong_steps(theta, g, both, corrected, lr, eps)
        | {
            "the correction uses t + 1: the first step is number 1": theta
            - lr * both[0] / (1 - beta1 ** (t + 1)) / (np.sqrt(both[1] / (1 - beta2 ** (t + 1))) + eps),
            "the correction multiplies by t; beta^t is a power": theta
            - lr * both[0] / (1 - beta1 * t) / (np.sqrt(both[1] / abs(1 - beta2 * t)) + eps),
            "the correction is that of the first step: it needs beta^t": theta
            - lr * both[0] / (1 - beta1) / (np.sqrt(both[1] / (1 - beta2)) + eps),
        },
    )


def _wrong_steps(
    theta: np.ndarray, g: np.ndarray, both: Sequence[Any], corrected: Sequence[Any], lr: float, eps: float
) -> dict[str, np.ndarray]:
    (m, v), (m_hat, v_hat) = both, corrected
    step = m_hat / (np.sqrt(v_hat) + eps)
    with np.errstate(invalid="ignore"):
        root = np.sqrt(m_hat)
    wrong = {
        "the correction of the bias is missing: m and v begin as 0, and are too small at first": m / (np.sqrt(v) + eps),
        "the bias of v is not corrected": m_hat / (np.sqrt(v) + eps),
        "the bias of m is not corrected": m / (np.sqrt(v_hat) + eps),
        "the step has the wrong sign: it goes along the gradient, uphill": -step,
        "eps is inside the root; it is added to the root": m_hat / np.sqrt(v_hat + eps),
        "the root of v_hat is missing": m_hat / (v_hat + eps),
        "the gradient itself is used instead of its running mean m_hat": g / (np.sqrt(v_hat) + eps),
        "eps is missing": m_hat / np.sqrt(v_hat),
        "the learning rate is missing": step / lr,
        "m and v are swapped: m_hat is divided by the root of v_hat": v_hat / (root + eps),
    }
    return {words: theta - lr * other for words, other in wrong.items()} | {
        "this is the step; subtract it from theta": lr * step
    }
