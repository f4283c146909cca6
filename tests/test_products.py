"""Products of many matrices through cuBLAS, with fake CuPy, which reads and writes by address as cuBLAS does."""

import itertools
import sys

import numpy as np
import pytest
from fake_cupy import cuda
from fake_cupy.device_array import wrap
from fake_cupy.library import cupy

from minitransformer import arrays
from minitransformer.arrays import products
from minitransformer.arrays.products import COMPUTE_TYPE_TF32, batched_matmul
from minitransformer.ops import feed_forward, linear

HEADS = (3, 5, 2, 4)  # (B, T, H, Dk), from which heads are cut


def device(values):
    """Return an array over the same memory as fake CuPy's."""
    return wrap(values)


def views(rng, shape, dtype):
    """Yield arrays (B, H, rows, columns) of the same shape that lie in memory in every way that occurs."""
    for order in itertools.permutations(range(4)):
        memory = rng.standard_normal([shape[axis] for axis in order]).astype(dtype)
        yield memory.transpose(np.argsort(order))
    wide = rng.standard_normal((*shape[:-1], 3 * shape[-1])).astype(dtype)
    yield wide[..., shape[-1] : 2 * shape[-1]]
    yield rng.standard_normal((*shape[:-1], 2 * shape[-1])).astype(dtype)[..., ::2]
    for axis in (1, 2, 3):
        yield np.flip(rng.standard_normal(shape).astype(dtype), axis)


def overlapping(rng, shape, dtype):
    """Yield arrays to read from whose entries share memory: axes at a distance of 0, and rows that overlap."""
    for axis in range(4):
        one = [1 if i == axis else size for i, size in enumerate(shape)]
        yield np.broadcast_to(rng.standard_normal(one).astype(dtype), shape)
        transposed = rng.standard_normal([one[i] for i in (0, 1, 3, 2)]).astype(dtype).swapaxes(2, 3)
        yield np.broadcast_to(transposed, shape)
    # each row begins one place after the last one, in the middle of it; and the same of the columns
    line = rng.standard_normal((*shape[:2], shape[2] + shape[3] - 1)).astype(dtype)
    yield np.lib.stride_tricks.sliding_window_view(line, shape[3], axis=2, writeable=True)
    yield np.lib.stride_tricks.sliding_window_view(line, shape[2], axis=2, writeable=True).swapaxes(2, 3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "sizes", [(3, 2, 4, 5, 6), (1, 2, 4, 5, 6), (3, 1, 1, 5, 6), (3, 2, 4, 1, 6), (3, 2, 4, 5, 1), (2, 3, 1, 1, 1)]
)
def test_every_way_in_which_operands_lie(dtype, sizes):
    rng, scale = np.random.default_rng(0), 1 / 3**0.5
    rounding = {"rtol": 0, "atol": 64 * np.finfo(dtype).eps}  # sums of at most 5 products of numbers up to 4
    b, h, m, k, n = sizes
    plain_x, plain_y = (rng.standard_normal((b, h, *shape)).astype(dtype) for shape in ((m, k), (k, n)))
    for x in (*views(rng, (b, h, m, k), dtype), *overlapping(rng, (b, h, m, k), dtype)):
        found = batched_matmul(cupy, device(x), device(plain_y), scale=scale)
        np.testing.assert_allclose(found.get(), scale * np.matmul(x, plain_y), **rounding)
    for y in (*views(rng, (b, h, k, n), dtype), *overlapping(rng, (b, h, k, n), dtype)):
        found = batched_matmul(cupy, device(plain_x), device(y))
        np.testing.assert_allclose(found.get(), np.matmul(plain_x, y), **rounding)
    for out in views(rng, (b, h, m, n), dtype):
        around = out.base.copy() if out.base is not None and out.base.size > out.size else None
        returned = device(out)
        assert batched_matmul(cupy, device(plain_x), device(plain_y), returned) is returned
        np.testing.assert_allclose(out, np.matmul(plain_x, plain_y), **rounding)
        if around is not None:
            changed = out.base != around
            assert changed.sum() <= out.size


def test_heads_are_multiplied_without_a_copy(monkeypatch):
    """One call for each head, or for all at once where one distance leads from each matrix to the next."""
    rng = np.random.default_rng(0)
    q, k = (rng.standard_normal(HEADS).swapaxes(1, 2) for _ in range(2))  # (B, H, T, Dk), as views
    monkeypatch.setattr(cupy, "array", lambda *_, **__: pytest.fail("an operand was copied"))
    cuda.Cublas.calls = 0
    scores = batched_matmul(cupy, device(q), device(k.swapaxes(-1, -2)))
    assert cuda.Cublas.calls == 2
    np.testing.assert_allclose(scores.get(), np.matmul(q, k.swapaxes(-1, -2)), rtol=1e-12)
    concat = np.empty(HEADS)
    batched_matmul(cupy, scores, device(k), device(concat.swapaxes(1, 2)))
    assert cuda.Cublas.calls == 4
    np.testing.assert_allclose(concat.swapaxes(1, 2), np.matmul(scores.get(), k), rtol=1e-12)
    batched_matmul(cupy, scores, scores)
    assert cuda.Cublas.calls == 5


@pytest.fixture
def on_fake_cupy(monkeypatch):
    before = arrays.backend()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    arrays.use("cupy")
    yield
    arrays.use(before)


@pytest.mark.usefixtures("on_fake_cupy")
@pytest.mark.parametrize(("x_type", "y_type"), [("float32", "float64"), ("float64", "float32"), ("float32", "float32")])
@pytest.mark.parametrize("out_type", [None, "float32", "float64"])
def test_cublas_is_given_arrays_of_one_type_only(x_type, y_type, out_type):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 3, 4)).astype(x_type), rng.standard_normal((2, 4, 5)).astype(y_type)
    product = np.matmul(x, y)
    out = None if out_type is None else cupy.empty((2, 3, 5), dtype=out_type)
    cuda.Cublas.calls = 0
    found = arrays.matmul(device(x), device(y), out, scale=0.5)
    assert out is None or found is out
    assert found.dtype == (out_type or product.dtype)
    np.testing.assert_allclose(found.get(), product / 2, rtol=1e-5)
    assert cuda.Cublas.calls == (x_type == y_type == (out_type or x_type))


@pytest.mark.usefixtures("on_fake_cupy")
@pytest.mark.parametrize(
    ("x_shape", "y_shape"), [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (1, 4, 5)), ((4,), (2, 4, 5))]
)
def test_what_has_no_leading_axes_in_common_is_left_to_cupy(x_shape, y_shape):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(x_shape), rng.standard_normal(y_shape)
    cuda.Cublas.calls = 0
    np.testing.assert_allclose(arrays.matmul(device(x), device(y), scale=3.0).get(), 3 * np.matmul(x, y), rtol=1e-12)
    assert cuda.Cublas.calls == 0


@pytest.mark.usefixtures("on_fake_cupy")
def test_whole_numbers_are_left_to_cupy():
    x = cupy.asarray(np.arange(12).reshape(2, 2, 3))
    cuda.Cublas.calls = 0
    np.testing.assert_array_equal(arrays.matmul(x, x.swapaxes(1, 2)).get(), np.matmul(x.get(), x.get().swapaxes(1, 2)))
    assert cuda.Cublas.calls == 0


@pytest.mark.usefixtures("on_fake_cupy")
def test_shapes_that_do_not_fit_are_refused_before_cublas_reads_beyond_an_array():
    x, y = cupy.ones((2, 3, 4)), cupy.ones((2, 5, 6))
    with pytest.raises(ValueError, match="mismatch"):
        arrays.matmul(x, y)
    for shape in ((2, 3, 7), (2, 2, 6), (1, 3, 6)):
        with pytest.raises(ValueError, match=r"mismatch|broadcast"):
            arrays.matmul(x, y[:, :4], cupy.empty(shape))


def test_an_out_that_is_transposed_is_written_without_a_copy(monkeypatch):
    rng = np.random.default_rng(0)
    x, y, out = rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 4, 5)), np.empty((2, 5, 3)).swapaxes(1, 2)
    monkeypatch.setattr(cupy, "array", lambda *_, **__: pytest.fail("an array was copied"))
    batched_matmul(cupy, device(x), device(y), device(out))
    np.testing.assert_allclose(out, np.matmul(x, y), rtol=1e-12)


@pytest.mark.numpy_only("BLAS is NumPy's")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_without_blas_two_matrices_are_multiplied_by_einsum(monkeypatch, dtype):
    rng = np.random.default_rng(0)
    x, y, batch = (rng.standard_normal(shape).astype(dtype) for shape in ((3, 4), (5, 4), (2, 4, 3)))
    expected = [x @ y.T, 3 * (x @ y.T), batch @ x]
    monkeypatch.setattr(products, "WITHOUT_BLAS", True)
    calls, einsum = [], np.einsum
    monkeypatch.setattr(np, "einsum", lambda *inputs, **options: calls.append(inputs[0]) or einsum(*inputs, **options))
    out = np.empty((5, 3), dtype=dtype).T
    found = [arrays.matmul(x, y.T, out=out), arrays.matmul(x, y.T, scale=3.0), arrays.matmul(batch, x)]
    assert found[0] is out
    assert len(calls) == 2
    for one, right in zip(found, expected, strict=True):
        assert one.dtype == dtype
        np.testing.assert_allclose(one, right, rtol=1e-5)


@pytest.mark.numpy_only("BLAS is NumPy's")
def test_linear_layers_do_not_need_blas(monkeypatch):
    monkeypatch.setattr(products, "WITHOUT_BLAS", True)
    monkeypatch.setattr(np, "matmul", lambda *_, **__: pytest.fail("BLAS was called"))
    rng = np.random.default_rng(0)
    x, w1, b1, w2, b2 = (rng.standard_normal(shape) for shape in ((2, 3, 4), (4, 5), 5, (5, 4), 4))
    for operation, inputs in ((linear, (x, w1, b1)), (feed_forward, (x, w1, b1, w2, b2))):
        y, saved = operation.forward(*inputs)
        assert [d.shape for d in operation.backward(saved, y)] == [np.shape(one) for one in inputs]


def test_nothing_to_multiply():
    cuda.Cublas.calls = 0
    assert batched_matmul(cupy, cupy.zeros((2, 0, 3)), cupy.zeros((2, 3, 4))).shape == (2, 0, 4)
    assert batched_matmul(cupy, cupy.zeros((0, 2, 3)), cupy.zeros((0, 3, 4))).shape == (0, 2, 4)
    out = cupy.ones((2, 3, 4))
    np.testing.assert_array_equal(batched_matmul(cupy, cupy.zeros((2, 3, 0)), cupy.zeros((2, 0, 4)), out).get(), 0)
    assert cuda.Cublas.calls == 0


@pytest.mark.parametrize(("kind", "wanted"), [(1, 68), (COMPUTE_TYPE_TF32, 77)])
def test_tf32_is_cupys_own_setting(monkeypatch, kind, wanted):
    seen = []
    monkeypatch.setattr(cuda.Cublas, "gemmStridedBatchedEx", lambda *arguments: seen.append(arguments[-2]))
    monkeypatch.setattr(cupy._core, "get_compute_type", lambda dtype: kind)
    for dtype in ("float32", "float64"):
        x = cupy.ones((2, 3, 3), dtype=dtype)
        batched_matmul(cupy, x, x)
    assert seen == [wanted, 70]
