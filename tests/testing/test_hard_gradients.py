"""Right gradients that are hard to see as right, and the same ones made wrong."""

import numpy as np
import pytest
from check_cases import RNG, X, each_type, verdict


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_backward(x, d_y):
    y = softmax(x)
    return y * (d_y - (y * d_y).sum(axis=-1, keepdims=True))


def norm(x):
    return np.sqrt((x * x).sum(axis=-1))


def standard(x):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + x.dtype.type(1e-5))


def standard_backward(x, d_y):
    y = standard(x)
    deviation = np.sqrt(x.var(axis=-1, keepdims=True) + x.dtype.type(1e-5))
    return (d_y - d_y.mean(axis=-1, keepdims=True) - y * (d_y * y).mean(axis=-1, keepdims=True)) / deviation


HARD = {
    "large inputs": (np.square, lambda x, d_y: 2 * x * d_y, 1e6 * X),
    "small inputs": (np.square, lambda x, d_y: 2 * x * d_y, 1e-6 * X),
    "a small function": (
        lambda x: x.dtype.type(1e-9) * np.sin(x),
        lambda x, d_y: x.dtype.type(1e-9) * np.cos(x) * d_y,
        X,
    ),
    "a large function": (
        lambda x: x.dtype.type(1e9) * np.sin(x),
        lambda x, d_y: x.dtype.type(1e9) * np.cos(x) * d_y,
        X,
    ),
    "mixed scales": (np.square, lambda x, d_y: 2 * x * d_y, np.array([1e4, 1.0, 1e-4])),
    "near a kink": (np.abs, lambda x, d_y: np.sign(x) * d_y, np.array([0.003, -0.01, 1.0])),
    "near the end of the domain": (np.log, lambda x, d_y: d_y / x, np.array([1e-3, 1.0, 2.0])),
    "a long sum": (lambda x: x.sum(keepdims=True), lambda x, d_y: d_y + 0 * x, RNG.normal(size=60)),
    "softmax of large scores": (softmax, softmax_backward, np.array([[1e4, 9999.0, -1e4], [0.5, 1.0, 0.0]])),
    "layer norm": (standard, standard_backward, X),
    "layer norm of near-equal features": (standard, standard_backward, 5 + 0.01 * X),
    "a norm": (norm, lambda x, d_y: x * (d_y / norm(x))[:, None], X),
    "a mask": (lambda x: np.where(x > 0, np.exp(x), 0), lambda x, d_y: np.where(x > 0, np.exp(x), 0) * d_y, X),
    "a scalar": (np.sin, lambda x, d_y: np.cos(x) * d_y, np.array(0.7)),
    "no entries": (np.sin, lambda x, d_y: np.cos(x) * d_y, np.zeros((0, 3))),
    "a constant": (lambda x: 0 * x + 1, lambda x, d_y: 0 * d_y, X),
    "strides": (np.sin, lambda x, d_y: np.cos(x) * d_y, X[:, ::2].T),
    "steep": (lambda x: np.tanh(50 * x), lambda x, d_y: 50 * (1 - np.tanh(50 * x) ** 2) * d_y, 0.01 * X),
}


@each_type
@pytest.mark.parametrize("name", HARD)
def test_a_right_gradient_is_never_called_wrong(name, dtype):
    function, backward, x = HARD[name]
    report = verdict(function, backward, x, dtype=dtype)
    assert report.verdict == "right", report


@each_type
@pytest.mark.parametrize("name", [name for name in HARD if name not in ("no entries", "a constant")])
def test_the_same_gradient_made_wrong_is_called_wrong(name, dtype):
    function, backward, x = HARD[name]
    report = verdict(function, lambda x, d_y: dtype(1.1) * backward(x, d_y), x, dtype=dtype)
    assert report.verdict == "wrong", report


def test_a_constant_that_hides_the_slope_in_float32_makes_no_gradient_wrong():
    def bell(x):
        u = 1 / np.sqrt(x * x + np.float32(1e-3))
        return u - u.mean(axis=-1, keepdims=True)

    def backward(x, d_y):
        return (d_y - d_y.mean(axis=-1, keepdims=True)) * -x * (x * x + np.float32(1e-3)) ** np.float32(-1.5)

    for seed in range(6):
        x = 1e-4 * np.random.default_rng(seed).normal(size=(2, 4))
        assert verdict(bell, backward, x, dtype=np.float32, seed=seed).verdict == "right"
        kept = verdict(lambda x: bell(x.astype(np.float32)), backward, x, dtype=np.float32, seed=seed)
        assert kept.verdict in ("right", "undecided")


def test_a_function_that_oscillates_within_a_step_makes_no_gradient_wrong():
    x = np.array([183.2, -97.5, 20.0])
    for phase in range(6):

        def wave(x, phase=phase):
            return np.sin(x * x + x.dtype.type(phase))

        def backward(x, d_y, phase=phase):
            return 2 * x * np.cos(x * x + x.dtype.type(phase)) * d_y

        assert verdict(wave, backward, x, dtype=np.float32).verdict == "right"
        kept = verdict(lambda x, wave=wave: wave(x.astype(np.float32)), backward, x, dtype=np.float32)
        assert kept.verdict in ("right", "undecided"), kept
