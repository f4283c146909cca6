"""Each kernel against the operation that it replaces, and against itself with its threads in another order."""

import inspect
import itertools
import math

import numpy as np
import pytest
from fake_cupy import cuda

import minitransformer as mt
from minitransformer import arrays, ops
from minitransformer.arrays import asarray, to_numpy, xp
from minitransformer.kernels import KERNELS, adam, cross_entropy, dropout, embedding, layer_norm, softmax
from minitransformer.kernels.source import Source, threads_for
from minitransformer.optim.adam import update_all

pytestmark = pytest.mark.usefixtures("gpu")

ROW_LENGTHS = (1, 2, 31, 32, 33, 100, 257, 1025)
TOLERANCE = {"float32": 2e-6, "float64": 4e-15}
"""Of the largest entry: sums of a thousand numbers are taken in another order."""


GUARD = 64
"""How many entries of its own surround each array that a kernel writes to."""


@pytest.fixture(autouse=True)
def guards(monkeypatch):
    """Let every array that a kernel writes to lie between two guards, which must be untouched afterwards."""
    lines = []

    def empty(shape, dtype="float64"):
        line = xp.zeros(math.prod(shape if isinstance(shape, tuple) else (shape,)) + 2 * GUARD, dtype=dtype)
        lines.append(line)
        inside = line[GUARD:-GUARD]
        inside[...] = math.nan if line.dtype.kind == "f" else 1
        return inside.reshape(shape)

    monkeypatch.setattr(xp, "empty", empty)
    monkeypatch.setattr(xp, "empty_like", lambda x: empty(x.shape, x.dtype))
    yield
    for line in lines:
        assert not line[:GUARD].any()
        assert not line[-GUARD:].any()


def uniform(rng, dtype, *shape):
    """Return numbers of some spread, on the device."""
    return asarray((3 * rng.standard_normal(shape)).astype(dtype))


def close(found, wanted):
    """Compare one array, or several, of the kernel with those of the operation."""
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


def both(kernel, rng, *inputs, **options):
    """Compare forward and backward of a kernel with those of its operation, on the same saved values."""
    operation = ops.registry[kernel.__name__.rpartition(".")[2]]
    value, saved = in_every_order(lambda: kernel.forward(*inputs, **options))
    wanted, wanted_saved = operation.written.forward(*inputs, **options)
    close((value, saved), (wanted, wanted_saved))
    d_output = uniform(rng, value.dtype, *value.shape)
    close(
        tuple(in_every_order(lambda: kernel.backward(saved, d_output))),
        tuple(operation.written.backward(wanted_saved, d_output)),
    )


dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])


@pytest.fixture
def rng(request):
    return np.random.default_rng(sum(map(ord, request.node.name)))


@dtypes
@pytest.mark.parametrize("n", ROW_LENGTHS)
def test_softmax(rng, dtype, n):
    both(softmax, rng, uniform(rng, dtype, 3, n))


@dtypes
@pytest.mark.parametrize("mask_shape", [(5, 33), (33,), (3, 1, 5, 33), (3, 2, 5, 33), (2, 1, 33), (3, 2, 5, 1), (1,)])
def test_softmax_with_a_mask(rng, dtype, mask_shape):
    mask = rng.random(mask_shape) < 0.5
    mask.reshape(-1, mask_shape[-1])[-1] = False  # a row that may see nothing
    x = uniform(rng, dtype, 3, 2, 5, 33)
    x[..., 7] = xp.where(asarray(np.broadcast_to(mask, x.shape)[..., 7].copy()), x[..., 7], math.inf)
    both(softmax, rng, x, mask=asarray(mask))


def test_softmax_of_transposed_scores_into_themselves(rng):
    x = uniform(rng, "float32", 4, 5, 6).swapaxes(0, 2)
    mask = asarray(rng.random((4,)) < 0.7)
    wanted, _ = ops.softmax.written.forward(x.copy(), mask=mask)
    y, saved = softmax.forward(x, mask=mask, out=x)
    close((y, saved[0]), (wanted, wanted))
    close(x, wanted)


def test_softmax_along_another_axis_is_left_to_the_operation(rng):
    both(softmax, rng, uniform(rng, "float64", 4, 5), axis=0)
    both(softmax, rng, uniform(rng, "float64", 4, 0))
    both(softmax, rng, uniform(rng, "float64", 2, 1, 2, 1, 3))


@pytest.mark.parametrize("mask", [None, [[True], [False], [True]]])
def test_softmax_of_a_row_of_minus_infinity(rng, mask):
    x = uniform(rng, "float64", 3, 40)
    x[0] = -math.inf
    mask = None if mask is None else asarray(np.array(mask))
    both(softmax, rng, x, mask=mask)
    np.testing.assert_array_equal(to_numpy(softmax.forward(x, mask=mask)[0])[0], 0)


def test_what_is_not_a_number_stays_seen(rng):
    for value in (math.nan, math.inf):
        x = uniform(rng, "float64", 2, 40)
        x[0, 33] = value
        y, _ = softmax.forward(x)
        assert np.isnan(to_numpy(y)[0]).all()
        assert np.isfinite(to_numpy(y)[1]).all()


@dtypes
@pytest.mark.parametrize(
    ("shape", "n"),
    # 300 rows are more than all warps of all parts, 33 features more than one block takes
    [*itertools.product([(), (1,), (3, 7)], ROW_LENGTHS), *itertools.product([(300,)], (1, 2, 31, 32, 33))],
)
def test_layer_norm(rng, dtype, n, shape):
    parameters = (uniform(rng, dtype, n) for _ in range(2))
    both(layer_norm, rng, uniform(rng, dtype, *shape, n), *parameters)


def test_layer_norm_far_from_zero_keeps_its_digits(rng):
    x = 1e4 + uniform(rng, "float32", 5, 700)
    y, _ = layer_norm.forward(x, xp.ones(700, dtype="float32"), xp.zeros(700, dtype="float32"))
    exact = to_numpy(x).astype("float64")
    exact = (exact - exact.mean(-1, keepdims=True)) / np.sqrt(exact.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(to_numpy(y), exact, atol=2e-6)


def test_layer_norm_of_equal_features_far_from_zero_is_the_bias():
    x, gain, bias = (xp.full(shape, v, dtype="float32") for shape, v in (((2, 700), 12345.678), (700, 2), (700, 0.5)))
    np.testing.assert_array_equal(to_numpy(layer_norm.forward(x, gain, bias)[0]), 0.5)


def generator(kind, seed, before=0, after=0):
    bits = kind(seed)
    return arrays.RowsGenerator(bits, before, after) if kind is np.random.PCG64DXSM else np.random.Generator(bits)


@dtypes
@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 1), (3, 4), (3, 5), (2, 7, 9), (70, 33)])
@pytest.mark.parametrize("most_blocks", [512, 2])
@pytest.mark.parametrize("residual", [False, True])
def test_dropout_drops_what_the_host_drops(rng, monkeypatch, dtype, shape, residual, most_blocks):
    monkeypatch.setattr(
        dropout, "MOST_BLOCKS", most_blocks
    )  # with 2 of them each thread takes several words of 70 x 33
    x = uniform(rng, dtype, *shape)
    inputs = (x, 0.3, uniform(rng, dtype, *shape) if residual else None)
    ours, theirs = (generator(np.random.PCG64DXSM, 7) for _ in range(2))
    for _ in range(2):
        value, saved = dropout.forward(*inputs[:2], ours, inputs[2])
        wanted, wanted_saved = ops.dropout.written.forward(*inputs[:2], theirs, inputs[2])
        for one, other in zip(flat((value, saved)), flat((wanted, wanted_saved)), strict=True):
            np.testing.assert_array_equal(to_numpy(one), to_numpy(other))
        assert saved[1:] == wanted_saved[1:]
        assert ours.bit_generator.state == theirs.bit_generator.state
    d_y = uniform(rng, dtype, *shape)
    for one, other in zip(dropout.backward(saved, d_y), ops.dropout.written.backward(wanted_saved, d_y), strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_array_equal(to_numpy(one), to_numpy(other))


@pytest.mark.parametrize("p", [0.0, 1e-5, 0.5, 0.99999])
def test_dropout_at_every_probability(rng, p):
    x = uniform(rng, "float32", 4, 50)
    value, _ = in_every_order(lambda: dropout.forward(x, p, generator(np.random.PCG64DXSM, 3)))
    wanted, _ = ops.dropout.written.forward(x, p, generator(np.random.PCG64DXSM, 3))
    np.testing.assert_array_equal(to_numpy(value), to_numpy(wanted))


def test_a_number_equal_to_the_threshold_stays(rng):
    bits = arrays.random_bits(generator(np.random.PCG64DXSM, 3), (4, 50))
    p, x = int(bits[2, 7]) / 65536, uniform(rng, "float32", 4, 50)
    _, (keep, *_) = dropout.forward(x, p, generator(np.random.PCG64DXSM, 3))
    np.testing.assert_array_equal(to_numpy(keep), to_numpy(bits) >= int(bits[2, 7]))
    assert keep[2, 7]


@pytest.mark.parametrize(("before", "after"), [(2, 2), (4, 0), (0, 4)])
def test_a_part_of_the_rows_drops_what_the_whole_drops_and_goes_on_behind_it(rng, before, after):
    x, rows = uniform(rng, "float32", 7, 9), slice(before, 7 - after)
    whole, part = generator(np.random.PCG64DXSM, 3), generator(np.random.PCG64DXSM, 3, before, after)
    expected, _ = dropout.forward(x, 0.4, whole)
    found, _ = dropout.forward(x[rows], 0.4, part)
    np.testing.assert_array_equal(to_numpy(found), to_numpy(expected)[rows])
    assert part.bit_generator.state == whole.bit_generator.state


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.Philox, np.random.MT19937])
def test_other_generators_draw_on_the_host(rng, kind):
    x = uniform(rng, "float32", 7, 9)
    value, _ = dropout.forward(x, 0.4, generator(kind, 3))
    wanted, _ = ops.dropout.written.forward(x, 0.4, generator(kind, 3))
    np.testing.assert_array_equal(to_numpy(value), to_numpy(wanted))


@pytest.mark.parametrize("seed", range(20))
def test_any_state_of_the_generator(rng, seed):
    """States and increments with all 128 bits; some are far down the stream."""
    bits = np.random.PCG64DXSM(seed)
    bits.advance(int(rng.integers(2**63)) * int(rng.integers(2**60)))
    state, x = bits.state, uniform(rng, "float32", 3, 41)
    value, _ = dropout.forward(x, 0.5, np.random.Generator(bits))
    bits.state = state
    wanted, _ = ops.dropout.written.forward(x, 0.5, np.random.Generator(bits))
    np.testing.assert_array_equal(to_numpy(value), to_numpy(wanted))


@dtypes
@pytest.mark.parametrize("v", ROW_LENGTHS)
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 1.0])
def test_cross_entropy(rng, dtype, v, label_smoothing):
    logits, targets = uniform(rng, dtype, 3, 5, v), rng.integers(0, v, (3, 5))
    for ignore_index in (None, 0):
        both(cross_entropy, rng, logits, targets, label_smoothing=label_smoothing, ignore_index=ignore_index)


def test_cross_entropy_where_nothing_counts(rng):
    logits = uniform(rng, "float32", 4, 5)
    value, saved = cross_entropy.forward(logits, np.zeros(4, dtype=int), 0.1, ignore_index=0)
    assert float(value) == 0
    (d_x, _) = cross_entropy.backward(saved, asarray(np.array(1.5, dtype="float32")))
    np.testing.assert_array_equal(to_numpy(d_x), 0)


def test_cross_entropy_of_a_logit_of_minus_infinity(rng):
    logits = uniform(rng, "float64", 2, 6)
    logits[0, 2] = -math.inf
    both(cross_entropy, rng, logits, np.array([1, 3]))
    for row in (logits[0], xp.full(6, -math.inf)):
        for smoothing in (0.0, 0.3, 1.0):
            loss, saved = cross_entropy.forward(row, np.array(2), smoothing)
            assert float(loss) == math.inf
            d_row, _ = cross_entropy.backward(saved, asarray(np.array(1.5)))
            close(d_row, ops.cross_entropy.written.backward(saved, asarray(np.array(1.5)))[0])


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_cross_entropy_of_ignored_rows_that_are_no_numbers(rng, value):
    logits = uniform(rng, "float64", 4, 6)
    logits[1] = value
    both(cross_entropy, rng, logits, np.array([1, 0, 3, 5]), label_smoothing=0.1, ignore_index=0)


@dtypes
@pytest.mark.parametrize("n_features", [1, 31, 32, 33, 100])
@pytest.mark.parametrize("shape", [(), (1,), (3, 7), (300,)])
def test_the_gradient_of_an_embedding(rng, dtype, n_features, shape):
    ids = asarray(rng.integers(0, 9, shape) // 2)  # repeated, the highest ones never
    saved, d_y = (ids, (9, n_features)), uniform(rng, dtype, *shape, n_features)
    (_, found) = in_every_order(lambda: embedding.backward(saved, d_y))
    close(found, ops.embedding.written.backward(saved, d_y)[1])


@pytest.mark.parametrize(("n", "table"), [(0, (4, 5)), (3, (4, 0)), (0, (0, 5))])
def test_the_gradient_of_an_embedding_of_nothing(rng, n, table):
    saved, d_y = (asarray(np.zeros(n, dtype=int)), table), uniform(rng, "float32", n, table[1])
    np.testing.assert_array_equal(to_numpy(embedding.backward(saved, d_y)[1]), np.zeros(table))


@dtypes
@pytest.mark.parametrize("weight_decay", [0.0, 0.7])
def test_adam(rng, dtype, weight_decay, monkeypatch):
    shapes = [(3,), (), (129, 131), (5, 1, 7), (0, 4), (20_001,), (1,), (11, 13)]
    start = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    copies, start_kernel = [], adam.source.start
    for _ in range(2):
        parameters = [mt.Tensor(asarray(value.copy()), requires_grad=True) for value in start]
        copies.append((parameters, mt.optim.Adam(parameters, weight_decay=weight_decay)))
    for step in range(3):
        gradients = [None if i == step else rng.standard_normal(shape).astype(dtype) for i, shape in enumerate(shapes)]
        gradients[2] = np.asfortranarray(gradients[2]) if gradients[2] is not None else None
        for kernels, (parameters, optimiser) in zip((False, True), copies, strict=True):
            arrays.use("cupy", kernels=kernels)
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = None if gradient is None else asarray(gradient)
            starts = []
            monkeypatch.setattr(adam.source, "start", lambda *args, n=starts: (n.append(1), start_kernel(*args)))
            optimiser.step(0.01)
            assert len(starts) == kernels
        (_, second), (_, first) = copies
        for name in ("values", "mean", "mean_square"):
            found, wanted = (to_numpy(getattr(one, name)) for one in (first, second))
            np.testing.assert_allclose(found, wanted, rtol=4 * np.finfo(dtype).eps, atol=1e-3 * np.finfo(dtype).eps)


def parameters_of(function):
    """Return names, kinds and defaults, as far as callers see them."""
    return [(one.name, one.kind, one.default) for one in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_has_the_signature_of_the_pass_that_it_replaces(name):
    passes = ops.registry[name].written._asdict()
    kernels = {one: getattr(KERNELS[name], one) for one in passes if hasattr(KERNELS[name], one)}
    assert kernels
    for one, kernel in kernels.items():
        assert parameters_of(kernel) == parameters_of(passes[one])
    assert parameters_of(adam.step) == parameters_of(update_all)


def test_an_operation_runs_its_kernels_only_where_it_may(rng):
    x = mt.Tensor(uniform(rng, "float32", 2, 5), requires_grad=True)
    modules = {"softmax": softmax, "layer_norm": layer_norm, "dropout": dropout, "cross_entropy": cross_entropy}
    for name, module in modules.items():
        operation = ops.registry[name]
        assert (operation.forward, operation.backward) == (module.forward, module.backward)
        arrays.use("cupy", kernels=False)
        assert (operation.forward, operation.backward) == operation.written
        arrays.use("cupy", kernels=True)
    assert (ops.embedding.forward, ops.embedding.backward) == (ops.embedding.written.forward, embedding.backward)
    assert (ops.linear.forward, ops.linear.backward) == ops.linear.written
    with arrays.using("numpy"):
        assert (ops.softmax.forward, ops.softmax.backward) == ops.softmax.written
    assert ops.softmax.forward is softmax.forward
    d_y = uniform(rng, "float32", 2, 5)
    ops.softmax(x).backward(d_y)
    of_operation = mt.Tensor(x.data, requires_grad=True)
    arrays.use("cupy", kernels=False)
    ops.softmax(of_operation).backward(d_y)
    arrays.use("cupy", kernels=True)
    close(x.grad, of_operation.grad)
    # what one of them has saved serves the other's backward pass
    _, saved = ops.softmax.written.forward(x.data)
    close(softmax.backward(saved, d_y)[0], of_operation.grad)
    _, saved = softmax.forward(x.data)
    close(ops.softmax.written.backward(saved, d_y)[0], of_operation.grad)


def scattered(value):
    """Return a value whose arrays have the same entries, with others between them in memory."""
    if isinstance(value, tuple):
        return tuple(scattered(part) for part in value)
    if not isinstance(value, xp.ndarray) or not value.ndim:
        return value
    larger = xp.full((*value.shape[:-1], 2 * value.shape[-1]), 77, dtype=value.dtype)
    larger[..., ::2] = value
    return larger[..., ::2]


def case(rng, name):
    """Return the module of a kernel, what it is called with, and what it takes as float32 and as float64."""
    x = uniform(rng, "float32", 3, 5, 33)
    if name == "softmax":
        return softmax, (x,)
    if name == "layer_norm":
        return layer_norm, (x, x[0, 0] + 1, x[1, 1] - 1)
    if name == "dropout":
        return dropout, (x, 0.3, generator(np.random.PCG64DXSM, 3), x + 1)
    return cross_entropy, (x, rng.integers(0, 33, (3, 5)))


FORWARD = ("softmax", "layer_norm", "dropout", "cross_entropy")


@pytest.mark.parametrize("name", FORWARD)
def test_arrays_that_are_not_contiguous_are_read_as_they_lie(rng, name):
    kernel, inputs = case(rng, name)
    state = [x.bit_generator.state for x in inputs if isinstance(x, np.random.Generator)]
    value, saved = kernel.forward(*scattered(inputs))
    for x in inputs:
        if isinstance(x, np.random.Generator):
            x.bit_generator.state = state[0]
    wanted, wanted_saved = ops.registry[name].written.forward(*inputs)
    close((value, saved), (wanted, wanted_saved))
    if name != "cross_entropy":  # whose passes save contiguous arrays only
        saved = scattered(saved)
    d_output = uniform(rng, "float32", *value.shape)
    found = kernel.backward(saved, scattered(d_output))
    close(tuple(found), tuple(ops.registry[name].written.backward(wanted_saved, d_output)))


def test_the_gradient_of_an_embedding_reads_rows_as_they_lie(rng):
    saved, d_y = (asarray(rng.integers(0, 9, (3, 5))), (9, 33)), uniform(rng, "float32", 3, 5, 33)
    (_, found) = embedding.backward(scattered(saved), scattered(d_y))
    close(found, ops.embedding.written.backward(saved, d_y)[1])


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "uint64"])
def test_ids_and_targets_of_every_type(rng, kind):
    ids = rng.integers(0, 9, 40)
    saved, d_y = (asarray(ids.astype(kind)), (9, 5)), uniform(rng, "float32", 40, 5)
    close(embedding.backward(saved, d_y)[1], ops.embedding.written.backward(saved, d_y)[1])
    logits = uniform(rng, "float32", 40, 9)
    value, ours = cross_entropy.forward(logits, ids.astype(kind))
    # what the reference implementation has saved serves the kernel, whatever type the targets have there
    wanted, saved = ops.cross_entropy.written.forward(logits, ids.astype(kind))
    close(value, wanted)
    d_loss = asarray(np.float32(1.5))
    for one in (ours, saved):
        close(cross_entropy.backward(one, d_loss)[0], ops.cross_entropy.written.backward(saved, d_loss)[0])


@pytest.mark.parametrize("label_smoothing", [0, 1, np.float64(0.5)])
def test_cross_entropy_with_smoothing_of_another_type(rng, label_smoothing):
    logits, targets = uniform(rng, "float32", 3, 9), rng.integers(0, 9, 3)
    found, _ = cross_entropy.forward(logits, targets, label_smoothing)
    close(found, ops.cross_entropy.written.forward(logits, targets, float(label_smoothing))[0])


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "cross_entropy"])
def test_a_cotangent_of_another_type_is_left_to_the_operation(rng, name):
    kernel, inputs = case(rng, name)
    value, saved = kernel.forward(*inputs)
    d_output = uniform(rng, "float64", *value.shape)
    found, wanted = kernel.backward(saved, d_output), ops.registry[name].written.backward(saved, d_output)
    for one, other in zip(flat(found), flat(wanted), strict=True):
        np.testing.assert_array_equal(to_numpy(one), to_numpy(other))


@pytest.mark.parametrize("name", FORWARD)
def test_no_entries_are_left_to_the_operation(rng, name):
    x, rest = uniform(rng, "float32", 2, 0), ()
    if name == "layer_norm":
        x, rest = uniform(rng, "float32", 0, 3), (xp.ones(3, dtype="float32"), xp.ones(3, dtype="float32"))
    if name == "cross_entropy":
        x, rest = uniform(rng, "float32", 0, 3), (np.zeros(0, dtype=int),)
    if name == "dropout":
        rest = (0.3, generator(np.random.PCG64DXSM, 3))
    kernel, operation = case(rng, name)[0], ops.registry[name]
    value, saved = kernel.forward(x, *rest)
    wanted, wanted_saved = operation.written.forward(x, *rest)
    close(value, wanted)
    d_output = xp.ones(value.shape, dtype="float32")
    close(tuple(kernel.backward(saved, d_output)), tuple(operation.written.backward(wanted_saved, d_output)))


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda x, _: softmax.forward(x, out=xp.empty((1, 2), dtype="float32")), ValueError, "float32"),
        (lambda x, _: softmax.forward(x, out=xp.empty((3, 5), dtype="float64")), ValueError, "float64"),
        (lambda x, _: softmax.forward(x, mask=asarray(np.ones((4, 5), dtype=bool))), ValueError, r"\(4, 5\)"),
        (lambda x, _: layer_norm.forward(x, x[0, :2], x[0]), ValueError, r"\(3, 5\)"),
        (lambda x, _: cross_entropy.forward(x, np.array([1, 9, 2])), IndexError, "id 9"),
        (lambda x, rng: dropout.forward(x, -0.1, rng), ValueError, "-0.1"),
        (lambda x, rng: dropout.forward(x, 1.0, rng), ValueError, "1.0"),
    ],
)
def test_what_the_operation_refuses_is_refused(rng, call, kind, words):
    with pytest.raises(kind, match=words):
        call(uniform(rng, "float32", 3, 5), generator(np.random.PCG64DXSM, 3))


@pytest.mark.parametrize("name", FORWARD)
def test_whole_numbers_are_refused_as_the_operation_refuses_them(rng, name):
    kernel, (_, *rest) = case(rng, name)
    with pytest.raises(TypeError, match="floating-point"):
        kernel.forward(asarray(np.ones((3, 5, 33), dtype=int)), *rest)


@pytest.mark.parametrize(("dtype", "of_gradient"), [("float32", "float64"), ("float32", "float32")])
def test_adam_starts_its_kernel_only_for_all_entries_of_one_type(dtype, of_gradient, monkeypatch):
    """Otherwise the array code does the work."""
    starts, kept, fitting = [], [], 0
    monkeypatch.setattr(adam.source, "start", lambda *args: starts.append(args))
    for sizes, part in (((2, 1), (0, 1)), ((1, 2), (0, 1)), ((0,), (0, 1)), ((3, 2), (1, 2))):
        parameters = [mt.Tensor(xp.ones(n, dtype=dtype), requires_grad=True) for n in sizes]
        for parameter in parameters:
            parameter.grad = xp.ones(parameter.shape, dtype=of_gradient)
        optimiser = mt.optim.Adam(parameters, part=part)
        kept.append(optimiser)  # so that its chunks are kept too
        optimiser.step(0.1)
        fitting += dtype == of_gradient and any(sizes) and part == (0, 1)
        assert len(starts) == fitting
        own = to_numpy(optimiser.values)[optimiser.buffer.own]
        assert (own < 1).all() or starts
    assert [to_numpy(args[5]).tolist() for args in starts] == [[0, 2], [0, 1]][:fitting]


@pytest.mark.parametrize("n", [1, 127, 128, 129, 1000, 1025, 32_000, 500_000])
def test_a_row_has_whole_warps_and_no_more_than_a_block_takes(n):
    threads = threads_for(n)
    assert threads % 32 == 0
    assert 32 <= threads <= 256
    assert threads == 256 or 4 * threads >= n > 4 * (threads - 32)


def test_a_file_is_compiled_once_for_each_library(monkeypatch):
    compiled, started = [], []

    class Module:
        def __init__(self, **options):
            compiled.append(options)

        def get_function(self, name):
            return lambda *call: started.append((name, *call))

    source = Source("softmax.cu", "softmax_backward")
    for module in (Module, Module, type("Another", (Module,), {}), Module):
        monkeypatch.setattr(xp, "RawModule", module)
        source.start("softmax_backward", "float64", 3, 64, None, 5, 2.5)
    assert [options["name_expressions"] for options in compiled] == 2 * [
        ("softmax_backward<float>", "softmax_backward<double>")
    ]
    assert "over_warp" in compiled[0]["code"]  # rows.cuh is in the text
    name, grid, block, parameters = started[0]
    assert (name, grid, block) == ("softmax_backward<double>", (3,), (64,))
    assert [(type(value), value) for value in parameters] == [(np.uint64, 0), (np.int64, 5), (np.float64, 2.5)]
