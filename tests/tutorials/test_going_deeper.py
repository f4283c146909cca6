"""What the tutorials that go deeper derive holds for the engine: formulas, and bounds for drawn inputs."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import minitransformer as mt
from minitransformer.arrays import asarray, to_numpy

SEEDS = st.integers(0, 999)
UNIT = 2.0**-24  # the unit roundoff of float32
SIZES = {"d_model": 32, "n_heads": 2, "d_ff": 128, "n_layers": 12, "dropout": 0.0, "dtype": "float64"}


def value(operation, *arrays, **options):
    return to_numpy(operation(*map(asarray, arrays), **options).data)


def gradient(operation, x, d_y=None):
    x = mt.Tensor(asarray(x), requires_grad=True)
    operation(x).backward(d_y if d_y is None else asarray(d_y))
    return to_numpy(x.grad)


# Tutorial 19: sizes; tutorial 20: gradients and the length of steps


def test_variances_2_over_d_and_1_over_f_keep_sizes_forward_and_backward():
    rng, d, f = np.random.default_rng(0), 64, 256
    w1, w2 = (asarray(s * rng.normal(size=shape)) for s, shape in (((2 / d) ** 0.5, (d, f)), (f**-0.5, (f, d))))
    x = mt.Tensor(asarray(rng.normal(size=(400, d))), requires_grad=True)
    y = mt.ops.feed_forward(x, w1, asarray(np.zeros(f)), w2, asarray(np.zeros(d)))
    y.backward(asarray(rng.normal(size=(400, d))))
    for found in (y.data, x.grad):
        assert (to_numpy(found) ** 2).mean() == pytest.approx(1, rel=0.1)


def test_the_first_step_of_adam_is_four_times_as_long_as_later_ones_if_gradients_are_noise():
    noise, rng, lengths = mt.nn.Parameter(asarray(np.zeros(5000))), np.random.default_rng(0), []
    adam = mt.optim.Adam([noise])
    for _ in range(100):
        old = to_numpy(noise.data).copy()
        noise.grad = asarray(rng.normal(size=5000))
        adam.step(1.0)
        lengths.append(((to_numpy(noise.data) - old) ** 2).mean() ** 0.5)
    np.testing.assert_allclose([lengths[0], lengths[-1]], [1, (0.1 / 1.9) ** 0.5], rtol=0.06)


def test_only_cross_attention_makes_the_gradients_of_post_norm_unequal():
    def last_over_first(model, *ids):
        mt.ops.cross_entropy(model(*ids), ids[-1]).backward()
        layers = model.decoder.layers
        first, last = (
            sum((to_numpy(p.grad) ** 2).sum() for p in layer.parameters()) for layer in (layers[0], layers[-1])
        )
        return float(np.sqrt(last / first))

    ids = np.random.default_rng(0).integers(3, 20, (2, 4, 8))
    assert last_over_first(mt.nn.Transformer(20, 20, **SIZES), *ids) > 15
    assert 0.3 < last_over_first(mt.nn.LanguageModel(20, **SIZES), ids[0]) < 3


# Tutorial 22: the softmax and attention as maps


def norm_of_jacobian(scores):
    """Return the spectral norm of the softmax's Jacobian, and the weights."""
    rows = np.tile(np.array(scores, dtype=float), (len(scores), 1))
    return np.linalg.norm(gradient(mt.ops.softmax, rows, np.eye(len(rows))), 2), value(mt.ops.softmax, rows)[0]


@given(scores=st.lists(st.floats(-40, 40), min_size=1, max_size=6))
@example(scores=[0.0, 0.0, -800.0])
def test_the_jacobian_of_a_softmax_has_a_norm_of_at_most_a_half(scores):
    norm, p = norm_of_jacobian(scores)
    first = p.argmax()
    second = np.delete(p, first).max(initial=0)
    direction = (p[first] + second) / 2 - (p[first] - second) ** 2 / 2  # the variance of (1, -1, 0, ...) / sqrt(2)
    assert direction - 1e-12 <= norm <= 0.5 + 1e-12


@given(scores=st.lists(st.floats(-40, 40), min_size=1, max_size=6))
@example(scores=[0.0, 0.0, -800.0])
@example(scores=[0.0, -1.0, -1.0, -1.0, -1.0])
def test_the_largest_weight_and_the_entropy_bound_the_jacobian_of_a_softmax(scores):
    norm, p = norm_of_jacobian(scores)
    largest = p.max() * (1 - p.max())
    entropy = -(p * np.log(np.maximum(p, 1e-300))).sum()
    assert largest - 1e-12 <= norm <= 2 * largest + 1e-12
    assert norm <= 1 - np.exp(-entropy) + 1e-12


def attention_on_three_numbers(a):
    """Return d o_0 / d x_0 of self-attention on (0, a, -a)."""
    x = np.array([[0.0], [a], [-a]])
    return gradient(lambda x: mt.ops.scaled_dot_product_attention(x, x, x), x, [[1.0], [0.0], [0.0]])[0, 0]


def gradient_at_the_best_margin(epsilon, n_tokens):
    logits = np.zeros((1, n_tokens))
    logits[0, 2] = np.log(1 + (1 - epsilon) * n_tokens / epsilon)
    return abs(gradient(lambda x: mt.ops.cross_entropy(x, np.array([2]), label_smoothing=epsilon), logits)).max()


def count(n):
    """Return what uniform causal attention makes of a start token, at the last of n positions."""
    start = np.eye(n)[:, :1]
    return value(mt.ops.scaled_dot_product_attention, 0 * start, 0 * start, start, mask=mt.ops.causal_mask(n))[-1, 0]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        *((lambda a=a: attention_on_three_numbers(a), 1 / 3 + 2 / 3 * a**2) for a in (1, 10, 100)),
        *((lambda e=e: gradient_at_the_best_margin(e, 30), 0) for e in (0.01, 0.1, 0.5)),
        (lambda: norm_of_jacobian([0, 0, -800])[0], 0.5),
        (lambda: norm_of_jacobian([0] * 5)[0], 1 / 5),
        *((lambda n=n: count(n), 1 / n) for n in (1, 2, 50)),
    ],
)
def test_a_formula_of_tutorial_22_or_25(found, expected):
    assert found() == pytest.approx(expected, rel=1e-9, abs=1e-12)


# Tutorial 23: attention contracts


@given(n=st.integers(1, 8), scale=st.floats(0, 5), seed=SEEDS)
def test_attention_contracts_the_range_of_each_feature(n, scale, seed):
    scores, v = np.random.default_rng(seed).normal(size=(2, n, n))
    q = scale * np.sqrt(n) * scores  # with unit keys these are the scores
    weights = value(mt.ops.softmax, scale * scores)
    factor = abs(weights[:, None] - weights).sum(axis=-1).max() / 2
    found = np.ptp(value(mt.ops.scaled_dot_product_attention, q, np.eye(n), v), axis=0)
    assert (found <= factor * np.ptp(v, axis=0) + 1e-12).all()


def test_attention_alone_reaches_equal_rows_and_a_residual_connection_delays_it():
    def left(residual):
        """Return the share of the squared norm outside the mean row after six layers."""
        rng = np.random.default_rng(0)
        x = rng.normal(size=(2, 10, 32))
        for _ in range(6):
            y = to_numpy(mt.nn.MultiHeadAttention(mt.nn.ModelOptions(**SIZES), rng)(mt.Tensor(asarray(x))).data)
            x = y + residual * x
            x = x / np.sqrt((x**2).mean())
        return ((x - x.mean(axis=1, keepdims=True)) ** 2).mean()

    assert left(0) < 1e-6
    assert left(1) > 0.1


# Tutorial 24: bounds of the rounding errors of float32, in units


def of_a_product(rng, n, common):
    a, b = rng.normal(size=(3, n)) + common, rng.normal(size=(n, 4))
    return mt.ops.linear, (a, b), lambda a, b, exact: n * abs(a) @ abs(b)


def of_weights(rng, n, common):
    def bound(x, exact):
        return (x.max(axis=-1, keepdims=True) - x + np.log(n) + n + 16) * exact

    return mt.ops.softmax, (common + 5 * rng.normal(size=(4, n)),), bound


def of_a_loss(rng, n, common):
    def bound(x, exact):
        return n + 7 + 9 * np.log(n) + (x.max(axis=-1) - x[:, 0]).max() + exact + len(x)

    x = common + 3 * rng.normal(size=(4, n))
    return lambda x: mt.ops.cross_entropy(x, np.zeros(4, int)), (x,), bound


def of_a_norm(rng, n, common):
    def bound(x, exact):
        far = 1 + n * UNIT * abs(x).mean(axis=-1, keepdims=True) / x.std(axis=-1, keepdims=True)
        return n * far + (n / 2 + 5) * abs(exact)

    def layer_norm(x):
        one = asarray(np.ones(n, to_numpy(x).dtype))
        return mt.ops.layer_norm(x, one, 0 * one, eps=0.0)

    return layer_norm, (common + rng.normal(size=(4, n)),), bound


@pytest.mark.parametrize("case", [of_a_product, of_weights, of_a_loss, of_a_norm])
@given(n=st.integers(8, 300), common=st.sampled_from([0.0, 100.0, 1e4]), seed=SEEDS)
@example(n=300, common=1e4, seed=0)
def test_float32_keeps_the_digits_that_tutorial_24_promises(case, n, common, seed):
    operation, arrays, bound = case(np.random.default_rng(seed), n, common)
    narrow = [a.astype("float32") for a in arrays]
    wide = [a.astype("float64") for a in narrow]
    exact = value(operation, *wide)
    assert (abs(value(operation, *narrow) - exact) <= bound(*wide, exact) * UNIT).all()


# Tutorial 25: what positions can express


@pytest.mark.parametrize("k", [0, 1, 17])
def test_a_rotation_of_sinusoids_or_of_rotary_keys_looks_k_tokens_back(k):
    n, omega = 64, 10000.0 ** (-np.arange(16) / 16)
    places = np.stack([np.sin(omega * k), np.cos(omega * k)], axis=1)
    turns = np.zeros((32, 32))
    for i, (sin, cos) in enumerate(places):
        turns[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[cos, sin], [-sin, cos]]
    e = to_numpy(mt.ops.sinusoidal_positions(n, 32))
    rotated = e @ turns @ e.T
    queries = value(mt.ops.rotary, np.tile([1.0, 0.0], (n, 16)))
    keys = value(mt.ops.rotary, np.tile(places[:, ::-1].ravel(), (n, 1)))
    np.testing.assert_allclose(queries @ keys.T, rotated, atol=1e-9)
    assert (rotated.argmax(axis=1)[k:] == np.arange(n - k)).all()
