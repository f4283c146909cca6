"""Right gradients that are hard to see as right, and the same ones made wrong."""

import numpy as np
from check_cases import verdict


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
