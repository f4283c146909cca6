"""Each kernel against the page that it stands in for, and against itself with its threads in another order."""

import math

import numpy as np
import pytest
from double import cuda

import minitransformer as mt
from minitransformer import arrays, ops
from minitransformer.arrays import asarray, to_numpy, xp
from minitransformer.kernels import cross_entropy, dropout, embedding, layer_norm, softmax, sources
from minitransformer.kernels.source import FOLDER

pytestmark = pytest.mark.usefixtures("gpu")

ROW_LENGTHS = (1, 2, 31, 32, 33, 100, 257, 1025)
TOLERANCE = {"float32": 2e-6, "float64": 4e-15}
"""Of the largest entry: sums of a thousand numbers are taken in another order."""


def uniform(rng, dtype, *shape):
    """Return numbers of some spread, on the device."""
    return asarray((3 * rng.standard_normal(shape)).astype(dtype))


def close(found, wanted):
    """Compare one array, or several, of the kernel with those of the page."""
    if not isinstance(found, xp.ndarray):
        assert type(found) is type(wanted)
        if isinstance(found, tuple):
            assert len(found) == len(wanted)
            for one, other in zip(found, wanted, strict=True):
                close(one, other)
        else:
            assert found == wanted
        return
    assert found.shape == wanted.shape
    assert found.dtype == wanted.dtype
    found, wanted = to_numpy(found), to_numpy(wanted)
    if found.dtype.kind != "f":
        np.testing.assert_array_equal(found, wanted)
    elif found.size:
        largest = np.abs(wanted[np.isfinite(wanted)]).max(initial=0)
        np.testing.assert_allclose(
            found, wanted, rtol=TOLERANCE[found.dtype.name], atol=largest * TOLERANCE[found.dtype.name]
        )


def in_every_order(run):
    """Run something with the threads in three orders; the results must be the same to the bit. Return them."""
    results = []
    for cuda.order in (0, 1, 2):
        results.append(run())
    cuda.order = 0
    for other in results[1:]:
        for one, another in zip(flat(results[0]), flat(other), strict=True):
            np.testing.assert_array_equal(to_numpy(one), to_numpy(another))
    return results[0]


def flat(value):
    """List the arrays of a result."""
    if isinstance(value, tuple | list):
        return [array for part in value for array in flat(part)]
    return [value] if isinstance(value, xp.ndarray) else []


def both(stand_in, operation, cotangents, *inputs, **options):
    """Hold forward and backward of a kernel to those of its page, on the same saved values."""
    value, saved = in_every_order(lambda: stand_in.forward(*inputs, **options))
    wanted, wanted_saved = operation.reference[0](*inputs, **options)
    close((value, saved), (wanted, wanted_saved))
    d_output = cotangents(value.shape)
    close(
        tuple(in_every_order(lambda: stand_in.backward(saved, d_output))),
        tuple(operation.reference[1](wanted_saved, d_output)),
    )


dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])


@pytest.fixture
def rng(request):
    return np.random.default_rng(sum(map(ord, request.node.name)))


@dtypes
@pytest.mark.parametrize("n", ROW_LENGTHS)
def test_softmax(rng, dtype, n):
    both(softmax, ops.softmax, lambda shape: uniform(rng, dtype, *shape), uniform(rng, dtype, 3, n))


@dtypes
@pytest.mark.parametrize("mask_shape", [(5, 33), (33,), (3, 1, 5, 33), (3, 2, 5, 33), (2, 1, 33), (3, 2, 5, 1), (1,)])
def test_softmax_with_a_mask(rng, dtype, mask_shape):
    mask = rng.random(mask_shape) < 0.5
    mask.reshape(-1, mask_shape[-1])[-1] = False  # a row that may see nothing
    x = uniform(rng, dtype, 3, 2, 5, 33)
    x[..., 7] = xp.where(asarray(np.broadcast_to(mask, x.shape)[..., 7].copy()), x[..., 7], math.inf)
    both(softmax, ops.softmax, lambda shape: uniform(rng, dtype, *shape), x, mask=asarray(mask))


def test_softmax_of_transposed_scores_into_themselves(rng):
    x = uniform(rng, "float32", 4, 5, 6).swapaxes(0, 2)
    mask = asarray(rng.random((4,)) < 0.7)
    wanted, _ = ops.softmax.reference[0](x.copy(), mask=mask)
    y, saved = softmax.forward(x, mask=mask, out=x)
    close((y, saved[0]), (wanted, wanted))
    close(x, wanted)


def test_softmax_along_another_axis_is_left_to_the_page(rng):
    both(softmax, ops.softmax, lambda shape: uniform(rng, "float64", *shape), uniform(rng, "float64", 4, 5), axis=0)
    both(softmax, ops.softmax, lambda shape: uniform(rng, "float64", *shape), uniform(rng, "float64", 4, 0))
    both(softmax, ops.softmax, lambda shape: uniform(rng, "float64", *shape), uniform(rng, "float64", 2, 1, 2, 1, 3))


def test_softmax_writes_into_nothing_that_does_not_fit(rng):
    x = uniform(rng, "float32", 3, 5)
    for out in (xp.empty((1, 2), dtype="float32"), xp.empty((3, 5), dtype="float64")):
        with pytest.raises(ValueError, match="softmax: expected an out of float32 and shape"):
            softmax.forward(x, out=out)


def test_what_is_not_a_number_stays_seen(rng):
    for value in (math.nan, math.inf):
        x = uniform(rng, "float64", 2, 40)
        x[0, 33] = value
        y, _ = softmax.forward(x)
        assert np.isnan(to_numpy(y)[0]).all()
        assert np.isfinite(to_numpy(y)[1]).all()


@dtypes
@pytest.mark.parametrize("n", ROW_LENGTHS)
@pytest.mark.parametrize("shape", [(), (1,), (3, 7), (300,)])
def test_layer_norm(rng, dtype, n, shape):
    parameters = (uniform(rng, dtype, n) for _ in range(2))
    both(
        layer_norm,
        ops.layer_norm,
        lambda shape: uniform(rng, dtype, *shape),
        uniform(rng, dtype, *shape, n),
        *parameters,
    )


def test_layer_norm_far_from_zero_keeps_its_digits(rng):
    x = 1e4 + uniform(rng, "float32", 5, 700)
    y, _ = layer_norm.forward(x, xp.ones(700, dtype="float32"), xp.zeros(700, dtype="float32"))
    exact = to_numpy(x).astype("float64")
    exact = (exact - exact.mean(-1, keepdims=True)) / np.sqrt(exact.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(to_numpy(y), exact, atol=2e-6)


def test_layer_norm_of_equal_features_far_from_zero_is_the_bias():
    x, gain, bias = (xp.full(shape, v, dtype="float32") for shape, v in (((2, 700), 12345.678), (700, 2), (700, 0.5)))
    np.testing.assert_array_equal(to_numpy(layer_norm.forward(x, gain, bias)[0]), 0.5)


def test_layer_norm_refuses_what_the_page_refuses(rng):
    with pytest.raises(ValueError, match="layer_norm: x of shape"):
        layer_norm.forward(uniform(rng, "float32", 2, 3), uniform(rng, "float32", 2), uniform(rng, "float32", 3))


def generator(kind, seed, before=0, after=0):
    bits = kind(seed)
    return arrays.RowsGenerator(bits, before, after) if kind is np.random.PCG64DXSM else np.random.Generator(bits)


@dtypes
@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 1), (3, 4), (3, 5), (2, 7, 9), (70, 33), (600, 1024)])
@pytest.mark.parametrize("residual", [False, True])
def test_dropout_drops_what_the_host_drops(rng, dtype, shape, residual):
    x = uniform(rng, dtype, *shape)
    inputs = (x, 0.3, uniform(rng, dtype, *shape) if residual else None)
    ours, pages = (generator(np.random.PCG64DXSM, 7) for _ in range(2))
    for _ in range(2):
        value, saved = dropout.forward(*inputs[:2], ours, inputs[2])
        wanted, wanted_saved = ops.dropout.reference[0](*inputs[:2], pages, inputs[2])
        for one, other in zip(flat((value, saved)), flat((wanted, wanted_saved)), strict=True):
            np.testing.assert_array_equal(to_numpy(one), to_numpy(other))
        assert saved[1:] == wanted_saved[1:]
        assert ours.bit_generator.state == pages.bit_generator.state
    d_y = uniform(rng, dtype, *shape)
    for one, other in zip(dropout.backward(saved, d_y), ops.dropout.reference[1](wanted_saved, d_y), strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_array_equal(to_numpy(one), to_numpy(other))


@pytest.mark.parametrize("p", [0.0, 1e-5, 0.5, 0.99999])
def test_dropout_at_every_probability(rng, p):
    x = uniform(rng, "float32", 4, 50)
    value, _ = in_every_order(lambda: dropout.forward(x, p, generator(np.random.PCG64DXSM, 3)))
    wanted, _ = ops.dropout.reference[0](x, p, generator(np.random.PCG64DXSM, 3))
    np.testing.assert_array_equal(to_numpy(value), to_numpy(wanted))


def test_a_part_of_the_rows_drops_what_the_whole_drops(rng):
    x = uniform(rng, "float32", 7, 9)
    whole, _ = dropout.forward(x, 0.4, generator(np.random.PCG64DXSM, 3))
    part, _ = dropout.forward(x[2:5], 0.4, generator(np.random.PCG64DXSM, 3, before=2, after=2))
    np.testing.assert_array_equal(to_numpy(part), to_numpy(whole)[2:5])


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.Philox, np.random.MT19937])
def test_other_generators_draw_on_the_host(rng, kind):
    x = uniform(rng, "float32", 7, 9)
    value, _ = dropout.forward(x, 0.4, generator(kind, 3))
    wanted, _ = ops.dropout.reference[0](x, 0.4, generator(kind, 3))
    np.testing.assert_array_equal(to_numpy(value), to_numpy(wanted))


@pytest.mark.parametrize("seed", range(20))
def test_any_state_of_the_generator(rng, seed):
    """States and increments with all 128 bits; some are far down the stream."""
    bits = np.random.PCG64DXSM(seed)
    bits.advance(int(rng.integers(2**63)) * int(rng.integers(2**60)))
    state, x = bits.state, uniform(rng, "float32", 3, 41)
    value, _ = dropout.forward(x, 0.5, np.random.Generator(bits))
    bits.state = state
    wanted, _ = ops.dropout.reference[0](x, 0.5, np.random.Generator(bits))
    np.testing.assert_array_equal(to_numpy(value), to_numpy(wanted))


@dtypes
@pytest.mark.parametrize("v", ROW_LENGTHS)
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 1.0])
def test_cross_entropy(rng, dtype, v, label_smoothing):
    logits, targets = uniform(rng, dtype, 3, 5, v), rng.integers(0, v, (3, 5))
    for ignore_index in (None, 0):
        both(
            cross_entropy, ops.cross_entropy, lambda shape: uniform(rng, dtype, *shape), logits, targets,
            label_smoothing=label_smoothing, ignore_index=ignore_index,
        )  # fmt: skip


def test_cross_entropy_where_nothing_counts(rng):
    logits = uniform(rng, "float32", 4, 5)
    value, saved = cross_entropy.forward(logits, np.zeros(4, dtype=int), 0.1, ignore_index=0)
    assert float(value) == 0
    (d_x, _) = cross_entropy.backward(saved, asarray(np.array(1.5, dtype="float32")))
    np.testing.assert_array_equal(to_numpy(d_x), 0)


def test_cross_entropy_of_a_logit_of_minus_infinity(rng):
    logits = uniform(rng, "float64", 2, 6)
    logits[0, 2] = -math.inf
    both(cross_entropy, ops.cross_entropy, lambda shape: uniform(rng, "float64", *shape), logits, np.array([1, 3]))
    for row in (logits[0], xp.full(6, -math.inf)):
        for smoothing in (0.0, 0.3, 1.0):
            loss, saved = cross_entropy.forward(row, np.array(2), smoothing)
            assert float(loss) == math.inf
            d_row, _ = cross_entropy.backward(saved, asarray(np.array(1.5)))
            close(d_row, ops.cross_entropy.reference[1](saved, asarray(np.array(1.5)))[0])


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_cross_entropy_of_ignored_rows_that_are_no_numbers(rng, value):
    logits = uniform(rng, "float64", 4, 6)
    logits[1] = value
    both(
        cross_entropy, ops.cross_entropy, lambda shape: uniform(rng, "float64", *shape), logits,
        np.array([1, 0, 3, 5]), label_smoothing=0.1, ignore_index=0,
    )  # fmt: skip


def test_cross_entropy_refuses_what_the_page_refuses(rng):
    with pytest.raises(IndexError, match="cross_entropy: id 9 is out of range"):
        cross_entropy.forward(uniform(rng, "float32", 2, 6), np.array([1, 9]))


@dtypes
@pytest.mark.parametrize("n_features", [1, 31, 32, 33, 100])
@pytest.mark.parametrize("shape", [(), (1,), (3, 7), (300,)])
def test_the_gradient_of_an_embedding(rng, dtype, n_features, shape):
    ids = asarray(rng.integers(0, 9, shape) // 2)  # repeated, the highest ones never
    saved, d_y = (ids, (9, n_features)), uniform(rng, dtype, *shape, n_features)
    (_, found) = in_every_order(lambda: embedding.backward(saved, d_y))
    close(found, ops.embedding.reference[1](saved, d_y)[1])


def test_the_gradient_of_an_embedding_of_nothing(rng):
    saved = (asarray(np.zeros((0,), dtype=int)), (4, 5))
    np.testing.assert_array_equal(
        to_numpy(embedding.backward(saved, uniform(rng, "float32", 0, 5))[1]), np.zeros((4, 5))
    )


@dtypes
@pytest.mark.parametrize("weight_decay", [0.0, 0.7])
def test_adam(rng, dtype, weight_decay):
    shapes = [(3,), (), (129, 131), (5, 1, 7), (0, 4), (20_001,), (1,), (11, 13)]
    start = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    copies = []
    for kernels in (True, False):
        arrays.use("cupy", kernels=kernels)
        parameters = [mt.Tensor(asarray(value.copy()), requires_grad=True) for value in start]
        copies.append((parameters, mt.optim.Adam(parameters, weight_decay=weight_decay)))
    arrays.use("cupy", kernels=True)
    for step in range(3):
        gradients = [None if i == step else rng.standard_normal(shape).astype(dtype) for i, shape in enumerate(shapes)]
        gradients[2] = np.asfortranarray(gradients[2]) if gradients[2] is not None else None
        for parameters, adam in copies:
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = None if gradient is None else asarray(gradient)
            adam.step(0.01)
        (_, first), (_, second) = copies
        for name in ("values", "mean", "mean_square"):
            found, wanted = (to_numpy(getattr(adam, name)) for adam in (first, second))
            np.testing.assert_allclose(found, wanted, rtol=4 * np.finfo(dtype).eps, atol=1e-3 * np.finfo(dtype).eps)
    assert first._fused is not None
    assert second._fused is None


def test_an_operation_uses_its_stand_in_only_where_it_may(rng):
    x = mt.Tensor(uniform(rng, "float32", 2, 5), requires_grad=True)
    for name in ("softmax", "layer_norm", "dropout", "cross_entropy", "embedding"):
        operation = ops.registry[name]
        assert operation.passes == operation.stand_in
        arrays.use("cupy", kernels=False)
        assert operation.passes == operation.reference
        arrays.use("cupy", kernels=True)
    assert ops.linear.passes == ops.linear.reference
    d_y = uniform(rng, "float32", 2, 5)
    ops.softmax(x).backward(d_y)
    page = mt.Tensor(x.data, requires_grad=True)
    arrays.use("cupy", kernels=False)
    ops.softmax(page).backward(d_y)
    arrays.use("cupy", kernels=True)
    close(x.grad, page.grad)
    # what one of them has saved serves the other's backward pass
    _, saved = ops.softmax.reference[0](x.data)
    close(softmax.backward(saved, d_y)[0], page.grad)
    _, saved = softmax.forward(x.data)
    close(ops.softmax.reference[1](saved, d_y)[0], page.grad)


def test_the_environment_turns_kernels_off(monkeypatch):
    monkeypatch.setenv(arrays.namespace.KERNELS_VARIABLE, "off")
    arrays.use("cupy")
    assert not arrays.uses_kernels()
    arrays.use("cupy", kernels=True)
    assert arrays.uses_kernels()


def test_nothing_is_written_beside_the_results(rng):
    """Every output lies between two guards."""
    n = 37
    room = xp.full((5, n), 123.0, dtype="float32")
    x = uniform(rng, "float32", 3, n)
    softmax.forward(x, out=room[1:4])
    np.testing.assert_array_equal(to_numpy(room)[[0, 4]], 123)
    close(room[1:4], ops.softmax.reference[0](x)[0])


def test_every_file_of_kernels_is_known():
    files = {path.name for path in FOLDER.glob("*.cu")}
    assert files == set(sources)
