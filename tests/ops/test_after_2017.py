"""The operations of later models, rms_norm, swiglu and rotary: values by loops, invariances, large inputs."""

import math
from itertools import product

import numpy as np
import pytest
from passes import (
    grouped_query_attention,
    layer_norm,
    multi_head_attention,
    rms_norm,
    rotary,
    scaled_dot_product_attention,
    silu,
    swiglu,
)

import minitransformer as mt
from minitransformer.arrays import to_numpy
from minitransformer.ops.rotary import Rotation

RNG = np.random.default_rng(0)


def test_rms_norm_against_a_loop():
    x, gain = RNG.normal(size=(2, 3, 5)), RNG.normal(size=5)
    y, _ = rms_norm.forward(x, gain, eps=0.01)
    for i, j in np.ndindex(2, 3):
        rms = math.sqrt(sum(one**2 for one in x[i, j]) / 5 + 0.01)
        np.testing.assert_allclose(y[i, j], [gain[n] * x[i, j, n] / rms for n in range(5)], rtol=1e-14)


def test_rms_norm_is_layer_norm_for_rows_of_mean_0():
    x, gain, d_y = RNG.normal(size=(3, 4, 6))[:2].reshape(8, 6), RNG.normal(size=6), RNG.normal(size=(8, 6))
    x -= x.mean(axis=-1, keepdims=True)
    y, saved = rms_norm.forward(x, gain)
    other, other_saved = layer_norm.forward(x, gain, np.zeros(6))
    np.testing.assert_allclose(y, other, rtol=1e-12, atol=1e-14)
    d_x, d_gain = rms_norm.backward(saved, d_y)
    d_other, d_other_gain, _ = layer_norm.backward(other_saved, d_y)
    np.testing.assert_allclose(d_gain, d_other_gain, rtol=1e-12)
    np.testing.assert_allclose(d_x - d_x.mean(axis=-1, keepdims=True), d_other, rtol=1e-10, atol=1e-13)


def test_scaling_does_not_change_rms_norm_and_shifting_does():
    x, gain, d_y = RNG.normal(size=(4, 6)), RNG.normal(size=6), RNG.normal(size=(4, 6))
    y, saved = rms_norm.forward(x, gain, eps=0.0)
    np.testing.assert_allclose(rms_norm.forward(8 * x, gain, eps=0.0)[0], y, rtol=1e-14)
    assert np.abs(rms_norm.forward(x + 1, gain, eps=0.0)[0] - y).max() > 0.1
    d_x, _ = rms_norm.backward(saved, d_y)
    np.testing.assert_allclose((d_x * x).sum(axis=-1), 0, atol=1e-14)
    assert np.abs(d_x.sum(axis=-1)).min() > 1e-3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rms_norm_of_zeros_and_of_huge_rows(dtype):
    x = np.zeros((3, 4), dtype)
    x[1] = np.finfo(dtype).max
    x[2] = [1, 2, 3, 4]
    with np.errstate(over="ignore"):
        y, saved = rms_norm.forward(x, np.ones(4, dtype))
    assert y.dtype == dtype
    assert (y[:2] == 0).all()
    d_x, _ = rms_norm.backward(saved, np.ones((3, 4), dtype))
    np.testing.assert_allclose(d_x[0], 1e-5**-0.5, rtol=1e-6)
    assert (d_x[1] == 0).all()
    assert np.isfinite(d_x).all()


def test_swiglu_is_silu_of_the_first_half_times_the_second():
    x = RNG.normal(size=(2, 3, 8))
    y, _ = swiglu.forward(x)
    np.testing.assert_array_equal(y, silu.forward(x[..., :4])[0] * x[..., 4:])


def test_swiglu_far_away():
    x = np.array([[-1e4, -800.0, 800.0, 1e4, 2.0, 2.0, 2.0, 2.0]])
    y, saved = swiglu.forward(x)
    np.testing.assert_array_equal(y, [[0, 0, 1600, 2e4]])
    np.testing.assert_array_equal(swiglu.backward(saved, np.ones((1, 4)))[0], [[0, 0, 2, 2, 0, 0, 800, 1e4]])


@pytest.mark.parametrize("first", [0, 3, 1000])
@pytest.mark.parametrize(
    ("layout", "base", "factor"),
    [("interleaved", 1e4, 1), ("halves", 1e4, 1), ("halves", 5e5, 8), ("interleaved", 50, 3)],
)
def test_rotary_against_complex_numbers(first, layout, base, factor):
    """Of four pairs, with a factor, one is fast, one slow, and two are between the thresholds of 2 and 30 turns."""
    x = RNG.normal(size=(2, 5, 8))
    length = 2 * math.pi * 40 if base == 50 else 8192
    y, saved = rotary.forward(x, first, rotation=Rotation(layout, base, factor, 2, 30, length))
    for t in range(5):
        for i in range(4):
            speed = base ** (-2 * i / 8)
            turns = length * speed / (2 * math.pi)
            if factor != 1 and turns < 2:
                speed /= factor
            elif factor != 1 and turns < 30:
                speed = speed * (turns - 2) / 28 + speed / factor * (30 - turns) / 28
            a, b = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, i + 4)
            both = (x[:, t, a] + 1j * x[:, t, b]) * np.exp(1j * (first + t) * speed)
            np.testing.assert_allclose(y[:, t, a], both.real, rtol=1e-12, atol=1e-13)
            np.testing.assert_allclose(y[:, t, b], both.imag, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(rotary.backward(saved, y)[0], x, rtol=1e-13)  # the transpose is the inverse


def test_scores_of_rotated_rows_depend_on_the_distance_alone():
    q, k = RNG.normal(size=(2, 1, 8))
    for distance in (-7, 0, 5):
        scores = [
            (rotary.forward(q, at)[0] * rotary.forward(k, at + distance)[0]).sum() for at in (7, 8, 50, 1000, 100_000)
        ]
        np.testing.assert_allclose(scores, scores[0], rtol=1e-9)
    near, far = ((q * rotary.forward(k, at)[0]).sum() for at in (1, 2))
    assert abs(near - far) > 1e-3


def test_angles_of_far_positions_are_not_rounded_to_float32():
    x = np.array([[1.0, 0.0, 1.0, 0.0]], dtype=np.float32)
    y, _ = rotary.forward(x, 100_001)
    angles = (100_001, 1000.01)  # float32 holds the first, but not the second
    np.testing.assert_allclose(y, [[f(angle) for angle in angles for f in (math.cos, math.sin)]], rtol=1e-6)


def test_rotary_writes_where_it_is_told_even_over_its_input():
    x, d_y = RNG.normal(size=(2, 2, 5, 6))
    y, saved = rotary.forward(x, 2)
    (d_x,) = rotary.backward(saved, d_y)
    rotary.forward(x, 2, out=x)
    np.testing.assert_array_equal(x, y)
    rotary.backward(saved, d_y, out=(d_y,))
    np.testing.assert_array_equal(d_y, d_x)


def test_rows_alone_are_as_rows_together():
    x = RNG.normal(size=(5, 6))
    rows = [rotary.forward(x[t : t + 1], np.int64(t))[0] for t in range(5)]
    np.testing.assert_array_equal(np.concatenate(rows), rotary.forward(x)[0])


def test_as_many_heads_of_each_kind_are_multi_head_attention():
    x, memory, d_y = RNG.normal(size=(2, 5, 6)), RNG.normal(size=(2, 7, 6)), RNG.normal(size=(2, 5, 6))
    weights = [RNG.normal(size=shape) for shape in ((6, 30), (12, 6), (30,), (6,))]
    for source in (None, memory):
        y, saved = grouped_query_attention.forward(x, source, *weights, n_heads=3, n_kv_heads=3)
        other, other_saved = multi_head_attention.forward(x, source, *weights, n_heads=3)
        np.testing.assert_array_equal(y, other)
        gradients = grouped_query_attention.backward(saved, d_y)
        for found, wanted in zip(gradients, multi_head_attention.backward(other_saved, d_y), strict=True):
            if wanted is None:
                assert found is None
            else:
                np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-13)


def test_alibi_is_a_line_for_each_head():
    bias = np.asarray(to_numpy(mt.ops.alibi(3, 5)))
    for h, i, j in np.ndindex(3, 5, 5):
        assert bias[h, i, j] == pytest.approx(-(2 ** (-8 * (h + 1) / 3)) * abs(i - j))
    assert to_numpy(mt.ops.alibi(3, 0)).shape == (3, 0, 0)
    assert mt.ops.alibi(2, 4, "float32").dtype == np.float32
    np.testing.assert_array_equal(mt.ops.alibi_slopes(8), 0.5 ** np.arange(1, 9))


@pytest.mark.parametrize("size", [1, 2, 4, None])
def test_attention_by_blocks_keeps_no_weights(size):
    x, w_out = RNG.normal(size=(2, 4, 8)), RNG.normal(size=(8, 8))
    for n_kv_heads, rotate, bias in product((1, 2), (False, True), (None, RNG.normal(size=(4, 4)))):
        options = {"n_heads": 2, "n_kv_heads": n_kv_heads, "rotate": rotate, "bias": bias}
        w_in = RNG.normal(size=(8, 8 + 8 * n_kv_heads))
        wanted, _ = grouped_query_attention.forward(x, None, w_in, w_out, **options)
        y, saved = grouped_query_attention.forward(x, None, w_in, w_out, block_size=size, **options)
        np.testing.assert_allclose(y, wanted, rtol=1e-12, atol=1e-13)
        assert (saved[-1][-1] is None) == (size in (1, 2))  # several blocks compute them again


def test_a_bias_hides_what_a_mask_hides():
    q, k, v = RNG.normal(size=(2, 4, 3)), RNG.normal(size=(2, 6, 3)), RNG.normal(size=(2, 6, 5))
    mask = RNG.random((4, 6)) < 0.6
    mask[:, 0] = True
    wanted, saved = scaled_dot_product_attention.forward(q, k, v, mask)
    d_y = RNG.normal(size=wanted.shape)
    gradients = scaled_dot_product_attention.backward(saved, d_y)
    for block_size in (None, 3):
        found, saved = scaled_dot_product_attention.forward(
            q, k, v, block_size=block_size, bias=np.where(mask, 0, -1e4).astype(np.float32)
        )
        np.testing.assert_allclose(found, wanted, rtol=1e-13)
        for one, other in zip(scaled_dot_product_attention.backward(saved, d_y), gradients, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
