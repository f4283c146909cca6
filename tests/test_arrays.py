import copy
import math
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from fake_cupy.library import cupy as fake_cupy
from threadpoolctl import threadpool_info

from minitransformer import arrays
from minitransformer.arrays import BackendError, RowsGenerator, backend, blas, heap, reductions, use, xp
from minitransformer.arrays.reductions import max_along

pytestmark = pytest.mark.numpy_only("chooses the library itself, or is about how NumPy does it")


@pytest.fixture(autouse=True)
def numpy_afterwards():
    before = backend()
    use("numpy")
    yield
    use(before)


def run(code, **environment):
    clean = {key: value for key, value in os.environ.items() if key != "MINITRANSFORMER_BACKEND"}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env=clean | environment, check=False)


def a_cupy(available=True, kernel=None):
    """Return a module that passes for CuPy, as far as choosing it goes."""

    class Numbers:
        def __add__(self, other):
            return self

        def sum(self):
            if kernel is not None:
                raise kernel
            return np.float64(3)

    return SimpleNamespace(
        is_available=lambda: available, arange=lambda n: Numbers(), ndarray=Numbers, asarray=lambda x: "on the device"
    )


# The choice of the library


@pytest.mark.parametrize("name", ["torch", "NumPy", "", "numpy "])
def test_use_refuses_an_unknown_name(name):
    with pytest.raises(BackendError, match=f"'{name}': choose one of numpy, cupy"):
        use(name)
    assert backend() == "numpy"


def test_while_a_thread_chooses_the_others_see_one_whole_library(monkeypatch):
    before, seen = backend(), []

    class Environment(dict):
        def get(self, *_):
            with ThreadPoolExecutor(1) as pool:
                seen.append(pool.submit(backend).result())

    monkeypatch.setattr(arrays.namespace, "os", SimpleNamespace(environ=Environment()))
    use(before)
    assert seen == [before]


@pytest.mark.parametrize(
    ("library", "words"),
    [
        (None, r"\[cuda13\].*\[cuda12\].*nvidia-smi"),  # an import of None fails
        (a_cupy(available=False), "GPU.*nvidia-smi"),
        (a_cupy(kernel=RuntimeError("libnvrtc.so is missing")), r"\[ctk\].*libnvrtc.so is missing"),
    ],
    ids=["not installed", "no GPU", "no kernel runs"],
)
def test_use_says_what_is_missing_for_cupy(monkeypatch, library, words):
    monkeypatch.setitem(sys.modules, "cupy", library)
    with pytest.raises(BackendError, match=words):
        use("cupy")
    assert backend() == "numpy"
    assert xp.asarray is np.asarray


def test_use_cupy_where_it_works(monkeypatch):
    library = a_cupy()
    monkeypatch.setitem(sys.modules, "cupy", library)
    use("cupy")
    assert backend() == "cupy"
    assert xp.ndarray is library.ndarray
    assert arrays.asarray([1.0]) == "on the device"
    with pytest.raises(AttributeError):
        _ = xp.exp  # no name of the library before is left
    use("numpy")
    assert xp.exp is np.exp


def test_names_that_the_library_does_not_have():
    with pytest.raises(AttributeError, match="expp"):
        _ = xp.expp


def test_the_environment_variable_is_read_at_the_first_use():
    late = "import os, minitransformer as mt; os.environ['MINITRANSFORMER_BACKEND'] = 'abacus'; mt.backend()"
    assert "unknown array library 'abacus'" in run(late).stderr
    imported = "import minitransformer; print('imported')"
    assert run(imported, MINITRANSFORMER_BACKEND="abacus").stdout == "imported\n"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [({}, "numpy"), ({"MINITRANSFORMER_BACKEND": ""}, "numpy"), ({"MINITRANSFORMER_BACKEND": "numpy"}, "numpy")],
)
def test_the_environment_variable_decides(environment, expected):
    assert run("import minitransformer as mt; print(mt.backend())", **environment).stdout.strip() == expected


def test_a_choice_comes_before_the_environment_variable():
    code = "import minitransformer as mt; mt.use('numpy'); print(mt.Tensor([1.0]).exp().shape, mt.backend())"
    assert run(code, MINITRANSFORMER_BACKEND="abacus").stdout.strip() == "(1,) numpy"


def test_kernels_are_used_on_a_gpu_unless_the_environment_says_off(monkeypatch):
    monkeypatch.delenv(arrays.namespace.KERNELS_VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, "cupy", a_cupy())
    for value, expected in ((None, True), ("on", True), ("off", False)):
        if value:
            monkeypatch.setenv(arrays.namespace.KERNELS_VARIABLE, value)
        use("cupy")
        assert arrays.uses_kernels() == expected
    use("cupy", kernels=True)
    assert arrays.uses_kernels()
    use("cupy", kernels=False)
    assert not arrays.uses_kernels()
    use("numpy", kernels=True)
    assert not arrays.uses_kernels()


def test_a_report_names_the_library_and_the_gpu(monkeypatch):
    assert arrays.library() == f"numpy {np.__version__}"
    waits = []
    runtime = SimpleNamespace(
        getDeviceProperties=lambda device: {"name": b"H200", "totalGlobalMem": device + 8},
        runtimeGetVersion=lambda: 13020,
        driverGetVersion=lambda: 12080,
    )
    device = SimpleNamespace(id=3, synchronize=lambda: waits.append("for the device"))
    library = a_cupy()
    library.cuda, library.__version__ = SimpleNamespace(Device=lambda: device, runtime=runtime), "14.1"
    monkeypatch.setitem(sys.modules, "cupy", library)
    arrays.synchronize()
    assert waits == []
    use("cupy")
    assert arrays.library() == "cupy 14.1"
    assert arrays.device() == {"name": "H200", "memory": 11, "cupy": "14.1", "cuda": "13.2", "driver": "12.8"}
    arrays.synchronize()
    assert waits == ["for the device"]


def test_a_process_takes_its_gpu_before_anything_is_allocated(monkeypatch):
    calls = []
    library = a_cupy()
    library.cuda = SimpleNamespace(
        Device=lambda number: SimpleNamespace(use=lambda: calls.append(number)),
        runtime=SimpleNamespace(getDeviceCount=lambda: 2),
    )
    arange = library.arange
    library.arange = lambda n: calls.append("an array") or arange(n)
    monkeypatch.setitem(sys.modules, "cupy", library)
    monkeypatch.setattr(arrays.namespace, "_chosen_device", None)
    use("cupy")
    assert calls == ["an array"]  # the GPU that is in use stays
    arrays.choose_device(5)  # the sixth process of a machine with two GPUs
    use("cupy")
    assert calls[1:] == [1, "an array"]


def test_the_memory_of_a_gpu_is_what_its_pool_holds(monkeypatch):
    freed = []
    pool = SimpleNamespace(
        total_bytes=lambda: np.int64(7), used_bytes=lambda: 5, free_all_blocks=lambda: freed.append(1)
    )
    library = a_cupy()
    library.get_default_memory_pool = lambda: pool
    monkeypatch.setitem(sys.modules, "cupy", library)
    use("cupy")
    assert arrays.device_memory() == 7
    assert freed == []
    arrays.free_device_memory()
    assert freed == [1]


def test_the_cores_that_this_process_may_use(monkeypatch):
    monkeypatch.setattr(blas.os, "sched_getaffinity", lambda process: {1, 4, 5}, raising=False)
    assert blas.cores() == 3
    monkeypatch.delattr(blas.os, "sched_getaffinity")
    monkeypatch.setattr(blas.os, "cpu_count", lambda: 6)
    assert blas.cores() == 6
    monkeypatch.setattr(blas.os, "cpu_count", lambda: None)
    assert blas.cores() == 1
    assert [blas.default_threads(workers) for workers in (2, 5)] == [1, 1]


def test_matrix_products_use_so_many_threads():
    blas._libraries.cache_clear()  # an earlier test may have loaded PyTorch, and with it another library

    def found():
        return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]

    before = found()
    for number in (1, 2):
        with blas.threads(number):
            assert found() == [number] * len(before)
    assert found() == before


def test_a_report_names_the_libraries_of_matrix_products(monkeypatch):
    known = [
        {"user_api": "blas", "internal_api": "openblas", "version": "0.3", "architecture": "Zen"},
        {"user_api": "blas", "internal_api": "mkl", "version": None},
    ]
    monkeypatch.setattr(blas, "_libraries", lambda: SimpleNamespace(info=lambda: known))
    assert blas.kernels() == "openblas 0.3 (Zen), mkl  (unknown)"
    known.clear()
    assert blas.kernels() == "unknown"
    monkeypatch.undo()
    assert {info["user_api"] for info in blas._libraries().info()} == {"blas"}


def test_full_memory(monkeypatch):
    class OutOfMemoryError(MemoryError):  # as in cupy.cuda.memory
        pass

    error = OutOfMemoryError("Out of memory allocating 1,024 bytes")
    assert arrays.full_memory(error) == "computer"
    monkeypatch.setitem(sys.modules, "cupy", a_cupy())
    use("cupy")
    for full in (
        error,
        RuntimeError("cudaErrorMemoryAllocation: out of memory"),
        RuntimeError("CUBLAS_STATUS_ALLOC_FAILED"),
        RuntimeError("CUBLAS_STATUS_NOT_INITIALIZED"),
    ):
        assert arrays.full_memory(full) == "GPU"
    for other in (RuntimeError("cudaErrorIllegalAddress"), ValueError("memory"), KeyboardInterrupt()):
        assert arrays.full_memory(other) == ""


# Arrays


def test_asarray_takes_arrays_as_they_are():
    x = np.arange(3.0)
    assert arrays.asarray(x) is x
    assert arrays.asarray([1, 2]).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([1j], "real numbers, found list of complex128"),
        ("text", "expected numbers, found str of <U4"),
        (np.array([None]), "expected numbers, found ndarray of object"),
    ],
)
def test_asarray_refuses_what_is_no_number(data, message):
    with pytest.raises(TypeError, match=message):
        arrays.asarray(data)


def test_to_numpy():
    x = np.arange(3.0)
    assert arrays.to_numpy(x) is x
    assert arrays.to_numpy(SimpleNamespace(get=lambda: x)) is x  # as a CuPy array has it
    assert arrays.to_numpy([1, 2]).tolist() == [1, 2]


def test_operand():
    x, ids = np.arange(3.0), np.arange(3)
    assert arrays.operand(x) is x
    assert arrays.operand(ids) is ids
    assert arrays.operand(2.5) == 2.5
    assert arrays.operand(None) is None
    assert arrays.operand("text") == "text"
    assert arrays.operand([1.0, 2.0]).dtype == np.float64
    assert arrays.operand(((1, 2), (3, 4))).shape == (2, 2)


@pytest.mark.parametrize("moved", ["floats", "whole numbers", "booleans"])
def test_operand_keeps_whole_numbers_on_the_host(monkeypatch, moved):
    x = {"floats": np.ones(2), "whole numbers": np.ones(2, int), "booleans": np.ones(2, bool)}[moved]
    monkeypatch.setitem(sys.modules, "cupy", a_cupy())
    use("cupy")
    assert isinstance(arrays.operand(x), str if moved == "floats" else np.ndarray)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.uint64])
def test_as_indices_keeps_the_values_in_a_new_array(dtype):
    ids = np.array([[0, 6, 3], [6, 1, 0]], dtype=dtype)
    found = arrays.as_indices(ids, 7, "embedding")
    assert found.dtype == np.intp
    assert not np.may_share_memory(found, ids)
    assert found.tolist() == arrays.as_indices(ids.tolist(), 7, "embedding").tolist() == ids.tolist()


@pytest.mark.parametrize("empty", [[], [[], []], np.zeros((2, 0)), np.zeros((0, 3), dtype=np.int32)])
def test_as_indices_of_nothing(empty):
    found = arrays.as_indices(empty, 7, "embedding")
    assert found.shape == np.shape(empty)
    assert found.dtype.kind == "i"


@pytest.mark.parametrize(("ids", "culprit"), [([3, 7], 7), ([-1, 3], -1), ([0, 99, 8], 99), ([-5, 99], -5)])
def test_as_indices_names_the_one_that_is_out_of_range(ids, culprit):
    with pytest.raises(IndexError, match=f"gather: id {culprit} is out of range: ids must be from 0 to 6"):
        arrays.as_indices(np.array(ids), 7, "gather")


@pytest.mark.parametrize("ids", [[0.0, 1.0], [True, False], ["a"], [1j], [None]])
def test_as_indices_refuses_what_is_no_whole_number(ids):
    with pytest.raises(TypeError, match="gather: ids must be whole numbers, found an array of"):
        arrays.as_indices(ids, 7, "gather")


@pytest.mark.parametrize("shape", [(), (5,), (1,), (3, 5), (3, 1), (2, 1, 5), (1, 1, 1), (2, 3, 5)])
def test_as_mask_takes_what_broadcasts(shape):
    mask = np.random.default_rng(0).random(shape) < 0.5
    found = arrays.as_mask(mask, (2, 3, 5), "attention")
    assert np.array_equal(found, mask)
    assert np.broadcast_shapes(found.shape, (2, 3, 5)) == (2, 3, 5)


@pytest.mark.parametrize(
    ("shape", "of"), [((4,), (2, 5)), ((2, 2, 5), (2, 5)), ((5, 2), (2, 5)), ((3,), (1,)), ((0,), (5,))]
)
def test_as_mask_refuses_other_shapes(shape, of):
    with pytest.raises(ValueError, match=r"attention: a mask of shape .* cannot be broadcast") as caught:
        arrays.as_mask(np.ones(shape, dtype=bool), of, "attention")
    assert str(shape) in str(caught.value)
    assert str(of) in str(caught.value)


@pytest.mark.parametrize("mask", [np.ones(5), np.ones(5, dtype=int), [1, 0, 1, 1, 1], np.zeros(5, dtype=np.float32)])
def test_as_mask_refuses_numbers(mask):
    with pytest.raises(TypeError, match=r"attention: the mask must be boolean .*mask != 0.*mask == 0"):
        arrays.as_mask(mask, (5,), "attention")


@pytest.mark.parametrize("index", [(np.array([0, 4]),), ([[1], [-5]],), (slice(None), np.array([3])), (7,), (0, 0, 0)])
def test_check_index_looks_where_cupy_does_not(monkeypatch, index):
    assert arrays.check_index(index, (4, 3)) is index  # NumPy refuses by itself
    monkeypatch.setitem(sys.modules, "cupy", a_cupy())
    use("cupy")
    with pytest.raises(IndexError):
        arrays.check_index(index, (4, 3))
    for inside in ((np.array([0, -4, 3]), 2), (None, ..., np.array([True, False, True])), (slice(1, 99),)):
        assert arrays.check_index(inside, (4, 3)) is inside


@pytest.fixture(params=["numpy", "fake_cupy"])
def library(request, monkeypatch):
    """Use NumPy, then fake CuPy."""
    if request.param == "fake_cupy":
        monkeypatch.setitem(sys.modules, "cupy", fake_cupy)
        use("cupy")
    return request.param


@pytest.mark.parametrize("shape", [(5,), (63, 3), (64, 65), (2, 63, 4), (4, 3, 2, 5)])
@pytest.mark.usefixtures("library")
def test_maxima_and_sums_keep_their_axis(shape):
    x = np.random.default_rng(0).standard_normal(shape)
    for axis in range(-len(shape), len(shape)):
        largest, total = (arrays.to_numpy(along(xp.asarray(x), axis)) for along in (max_along, arrays.sum_along))
        np.testing.assert_array_equal(largest, x.max(axis=axis, keepdims=True))
        np.testing.assert_allclose(total, x.sum(axis=axis, keepdims=True), rtol=1e-12, atol=1e-12)
        assert total.shape == largest.shape


@pytest.mark.usefixtures("library")
def test_rows_are_added_on_both_libraries():
    indices, rows = xp.asarray(np.array([2, 0, 2, 2])), xp.asarray(np.arange(8, dtype=np.float32).reshape(4, 2))
    found = arrays.scatter_add((4, 2), indices, rows)
    assert found.dtype == np.float32
    assert found.tolist() == [[2, 3], [0, 0], [10, 13], [0, 0]]
    assert arrays.scatter_add((3, 2), indices[:0], rows[:0]).tolist() == [[0, 0]] * 3


def test_rows_are_added_in_their_order():
    """Another order would change the last bits."""
    rng = np.random.default_rng(0)
    indices, rows = rng.integers(0, 3, 3000), rng.standard_normal(3000).astype("float32")
    expected = [np.add.reduceat(rows[indices == i], [0])[0] for i in range(3)]
    assert arrays.scatter_add((3,), indices, rows).tolist() == expected


@pytest.mark.parametrize("trailing", [(), (3,), (2, 3)])
@pytest.mark.parametrize(("size", "n"), [(7, 40), (7, 1), (50, 7), (1, 5), (7, 0), (0, 0)])
def test_scatter_add(size, n, trailing):
    rng = np.random.default_rng(n)
    indices = rng.integers(0, max(size, 1), n)
    rows = rng.standard_normal((n, *trailing))
    expected = np.zeros((size, *trailing))
    np.add.at(expected, indices, rows)
    before = rows.copy(), indices.copy()
    result = arrays.scatter_add((size, *trailing), indices, rows)
    # both add the same numbers, in another order
    np.testing.assert_allclose(result, expected, rtol=0, atol=n * 4 * np.finfo(float).eps)
    assert np.array_equal(rows, before[0])
    assert np.array_equal(indices, before[1])


# Random numbers and slices


@pytest.mark.parametrize("generator", [np.random.PCG64, np.random.MT19937, np.random.PCG64DXSM])
def test_random_bits_are_uniform(generator):
    n, cells = 400_003, 256
    bits = arrays.random_bits(np.random.Generator(generator(3)), (n,))
    assert bits.dtype == np.uint16
    for part in (bits >> 8, bits & 255, bits[::4] >> 8, bits[3::4] & 255):  # high and low bytes, each quarter of a word
        expected = part.size / cells
        counts = np.bincount(part, minlength=cells)
        chi_square = ((counts - expected) ** 2 / expected).sum()
        # mean cells - 1, variance 2 (cells - 1): five standard deviations to both sides
        assert abs(chi_square - (cells - 1)) < 5 * (2 * (cells - 1)) ** 0.5
    for lag in (1, 2, 4):  # no number tells about the next
        a, b = bits[:-lag] / 65536 - 0.5, bits[lag:] / 65536 - 0.5
        assert abs((a * b).mean()) < 5 / 12 / (n - lag) ** 0.5
    assert bits.min() < 3
    assert bits.max() > 65532


@pytest.mark.parametrize("shape", [(), (1,), (3,), (4,), (5,), (2, 3, 7), (0,), (3, 0, 2)])
def test_random_bits_have_the_shape(shape):
    bits = arrays.random_bits(np.random.default_rng(0), shape)
    assert bits.shape == shape
    assert bits.dtype == np.uint16


@pytest.mark.parametrize("length", [0, 1, 5, 6, 7, 12, 13])
def test_cache_slices(length):
    slices = list(arrays.cache_slices(length, 6))
    assert [i for part in slices for i in range(length)[part]] == list(range(length))
    assert all(0 < part.stop - part.start <= 6 for part in slices)
    assert len(slices) == -(-length // 6)
    assert all(part.stop <= length for part in slices)


def test_a_bias_has_the_type_of_the_scores_and_a_watch_takes_nan_for_itself():
    assert arrays.as_bias(np.ones(3), (2, 3), np.dtype("float32"), "op").dtype == "float32"
    watch = arrays.Watch(x := np.array([np.nan, 1.0]))
    watch.lend()
    assert not watch.has_changed()
    x[1] = 2
    watch.lend()
    assert watch.has_changed()


def test_arrays_are_of_one_floating_point_type_of_four_bytes_or_more():
    names = {"a": np.ones(1, "float32"), "b": None, "c": np.ones(2, "float32")}
    arrays.check_floats("op", **names)
    for name, dtype, words in (
        ("a", "float16", "a must be float32 or float64, found float16"),
        ("c", "float16", "c must be float32 or float64, found float16"),
        ("c", "int32", "c must hold floating-point numbers, found int32"),
        ("c", "bool", "c must hold floating-point numbers, found bool"),
        ("c", "float64", "a is float32 and c float64; convert all to one type"),
    ):
        with pytest.raises(TypeError, match=f"^op: {words}"):
            arrays.check_floats("op", **names | {name: np.ones(2, dtype)})


@pytest.mark.parametrize("length", [0, 1, 16_383, 16_384, 16_385, 32_768, 5 * 16_384, 5 * 16_384 + 3])
def test_above_a_cache_slice_each_entry_keeps_its_place(length, monkeypatch):
    monkeypatch.setattr(reductions, "ROWS", 2)
    x = np.random.default_rng(length).normal(size=length)
    slices = [x[first : first + 16_384] for first in range(0, length, 16_384)]
    squares = [math.fsum(part * part) for part in slices]
    np.testing.assert_allclose(arrays.square_sums(x), squares, rtol=1e-13)
    assert np.isfinite(arrays.square_sums((1e25 * x).astype("float32"))).all()  # in float32 the squares would overflow
    np.testing.assert_allclose(arrays.sigmoid(x), 1 / (1 + np.exp(-x)), rtol=1e-14)
    np.testing.assert_allclose(arrays.erf(x), [math.erf(one) for one in x.tolist()], rtol=1e-14)
    matrix = x[: length // 5 * 5].reshape(-1, 5)
    np.testing.assert_array_equal(arrays.by_columns(matrix), matrix)
    for number in (1, 2, 3, 7):
        parts = arrays.even_parts(length, number)
        assert [i for part in parts for i in range(length)[part]] == list(range(length))
        assert max(len(range(length)[part]) for part in parts) <= -(-max(len(slices), 1) // number) * 16_384
        sums = np.concatenate([arrays.square_sums(x[part]) for part in parts])
        np.testing.assert_array_equal(sums, arrays.square_sums(x))


def test_on_a_device_one_slice_is_enough(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", a_cupy())
    use("cupy")
    assert list(arrays.cache_slices(100_000)) == [slice(0, 100_000)]
    assert list(arrays.cache_slices(0)) == []


# Random numbers for some rows of a batch


SHAPES = [(7, 5, 3), (7, 2), (7,), (7, 4), (7, 1, 1), (7, 0)]


def rows_generator(before=0, after=0):
    return RowsGenerator(np.random.PCG64DXSM(3), before, after)


@pytest.mark.parametrize("cuts", [(0, 7), (0, 3, 7), (0, 1, 2, 6, 7), (0, 0, 7, 7)])
def test_rows_are_given_what_they_are_given_in_the_whole_batch(cuts):
    whole = rows_generator()
    expected = [arrays.random_bits(whole, shape) for shape in SHAPES]
    parts = []
    for first, last in pairwise(cuts):
        rng = rows_generator(first, 7 - last)
        parts.append([arrays.random_bits(rng, (last - first, *shape[1:])) for shape in SHAPES])
        assert rng.bit_generator.state == whole.bit_generator.state
    for i, values in enumerate(expected):
        np.testing.assert_array_equal(np.concatenate([part[i] for part in parts]), values)
        assert values.dtype == np.uint16


@pytest.mark.parametrize(("first", "last"), [(0, 7), (2, 5), (0, 3), (4, 7), (3, 3)])
def test_a_kernel_may_draw_where_the_generator_stands(first, last):
    """It is told the state before its rows; the generator goes on behind all rows, as if it had drawn itself."""
    whole, rng = rows_generator(), rows_generator(first, 7 - last)
    for words in (2, 0, 5):
        expected = arrays.random_bits(whole, (7, 4 * words))
        parts = arrays.generator_state(rng, last - first, words)
        assert rng.bit_generator.state == whole.bit_generator.state
        assert [type(part) for part in parts] == [np.uint64] * 4
        state, inc = (int(parts[i]) * 2**64 + int(parts[i + 1]) for i in (0, 2))
        kernel = np.random.PCG64DXSM()
        kernel.state = {**kernel.state, "state": {"state": state, "inc": inc}}
        drawn = kernel.random_raw((last - first) * words).view(np.uint16)
        np.testing.assert_array_equal(drawn, expected[first:last].ravel())


def test_a_plain_generator_tells_its_state_too():
    rng, other = (np.random.Generator(np.random.PCG64DXSM(5)) for _ in range(2))
    assert arrays.generator_state(rng, 3, 2) is not None
    arrays.random_bits(other, (3, 8))
    assert rng.bit_generator.state == other.bit_generator.state


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.Philox])
def test_other_generators_stay_where_they_are(kind):
    rng = np.random.Generator(kind(3))
    assert arrays.generator_state(rng, 3, 2) is None
    assert rng.random() == np.random.Generator(kind(3)).random()


@pytest.mark.parametrize(
    ("platform", "variables", "asks"),
    [("linux", {}, True), ("linux", {"MALLOC_ARENA_MAX": "2"}, False), ("darwin", {}, False)],
)
def test_freed_memory_is_kept_where_nobody_says_otherwise(monkeypatch, platform, variables, asks):
    """docs/decisions/what-made-it-fast.md; the numbers of the parameters are those of glibc's malloc.h."""
    for name in [name for name in os.environ if name.startswith("MALLOC_")]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    asked = []
    library = SimpleNamespace(mallopt=lambda parameter, value: asked.append((parameter, value)))
    monkeypatch.setattr(heap.ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr(heap.sys, "platform", platform)
    heap.keep_freed_memory()
    assert asked == ([(-4, 0), (-1, 2**31 - 1), (-2, 2**26), (-8, 1)] if asks else [])


FREED = """
import ctypes, os
import numpy as np

asked, load = [], ctypes.CDLL


class Library:
    def __init__(self, *arguments, **options):
        self.loaded = load(*arguments, **options)

    def __getattr__(self, name):
        if name == "mallopt":
            asked.append(name)
        return getattr(self.loaded, name)


ctypes.CDLL = Library


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

"""
USES = {
    "operations": """
import minitransformer as mt
x = mt.Tensor([1.0, 2.0], requires_grad=True)
mt.ops.softmax(x * x).sum().backward()
assert mt.backend() == "numpy"
""",
    "the checker": """
import minitransformer as mt
mt.testing.check(lambda x: x * x, inputs=[np.array([1.0, 2.0])], backward=lambda x, d: 2 * x * d)
""",
    "a training loop": """
import minitransformer as mt
model = mt.nn.LanguageModel(9, d_model=8, n_heads=2, n_layers=1, d_ff=8)
adam = mt.optim.Adam(model.parameters())
ids = np.arange(1, 9)[None]
loss = mt.ops.cross_entropy(model(ids), ids)
loss.backward(release=True)
adam.step(1e-3)
""",
    "a command that a program calls": """
from minitransformer.apps.cli import main
assert main(["learn", "list"]) == 0
""",
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other C libraries are never told")
@pytest.mark.parametrize("used", USES)
def test_a_process_that_uses_the_package_returns_freed_memory(used, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("MALLOC_")]:
        monkeypatch.delenv(name)
    freed = """
before = resident()
arrays = [np.ones(250_000) for _ in range(100)]  # 200 MB
del arrays
assert resident() - before < 60, resident() - before
assert not asked
"""
    done = run(FREED + USES[used] + freed)
    assert not done.returncode, done.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other C libraries are never told")
@pytest.mark.parametrize("module", ["minitransformer", "minitransformer.apps.measure.speed"])
def test_a_command_keeps_freed_memory(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("MALLOC_")]:
        monkeypatch.delenv(name)
    ran = f"""
import atexit, runpy, sys
atexit.register(lambda: print("asked", asked))
sys.argv[1:] = ["learn", "list"]
runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
"""
    done = run(FREED + ran)
    assert "asked ['mallopt']" in done.stdout, done.stderr


@pytest.mark.parametrize("missing", [OSError, AttributeError])
def test_a_c_library_without_mallopt_is_left_alone(monkeypatch, missing):
    for name in [name for name in os.environ if name.startswith("MALLOC_")]:
        monkeypatch.delenv(name)
    asked = []

    def load(name):
        asked.append(name)
        raise missing

    monkeypatch.setattr(heap.ctypes, "CDLL", load)
    monkeypatch.setattr(heap.sys, "platform", "linux")
    heap.keep_freed_memory()
    assert asked == [None]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda rng: pickle.loads(pickle.dumps(rng))])
def test_a_copy_draws_for_the_same_rows(copied):
    rng = rows_generator(2, 3)
    arrays.random_bits(rng, (4, 5))
    other = copied(rng)
    assert type(other) is RowsGenerator
    np.testing.assert_array_equal(arrays.random_bits(other, (4, 5)), arrays.random_bits(rng, (4, 5)))
    assert other.bit_generator.state == rng.bit_generator.state


def test_rows_and_draws_differ():
    rng = rows_generator()
    first, second = (arrays.random_bits(rng, (2, 64)) for _ in range(2))
    for a, b in ((first[0], first[1]), (first[0], second[0]), (first[1], second[0])):
        assert (a != b).mean() > 0.9


@pytest.mark.parametrize("shape", [(), (3, 5), (6, 2, 8)])
def test_a_plain_generator_draws_the_same(shape):
    plain, rows = np.random.Generator(np.random.PCG64DXSM(3)), rows_generator()
    np.testing.assert_array_equal(arrays.random_bits(plain, shape), arrays.random_bits(rows, shape))
    assert plain.bit_generator.state == rows.bit_generator.state


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_relu_in_place_writes_over_its_input_and_keeps_nan(dtype):
    x = xp.asarray(np.array([[-2.0, 0.0, 3.0], [np.nan, -np.inf, np.inf]], dtype=dtype))
    found = arrays.relu_in_place(x)
    assert found is x
    np.testing.assert_array_equal(arrays.to_numpy(x), np.array([[0, 0, 3], [np.nan, 0, np.inf]], dtype=dtype))


def test_erf_is_exact_up_to_rounding():
    x = np.concatenate(
        [np.linspace(-7, 7, 5001), 10.0 ** np.arange(-300, 0, 3), [1e30, -1e30, np.inf, -np.inf, np.nan]]
    )
    x = np.stack([x, x], axis=1)[::2, 0]  # strided
    exact = np.array([math.erf(one) for one in x])
    found = arrays.to_numpy(arrays.erf(xp.asarray(x)))
    assert np.nanmax(np.abs(found - exact)) < 2.3e-16
    np.testing.assert_allclose(found, exact, rtol=5e-16)
    single = x.astype(np.float32)
    found = arrays.to_numpy(arrays.erf(xp.asarray(single)))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [math.erf(one) for one in single], rtol=3e-7, atol=1e-38)


def test_an_optional_mask_may_be_absent_but_not_wrong():
    assert arrays.as_optional_mask(None, (2, 3), "softmax") is None
    assert arrays.as_optional_mask([True, False, True], (2, 3), "softmax").tolist() == [True, False, True]
    with pytest.raises(TypeError, match="softmax: the mask must be boolean"):
        arrays.as_optional_mask([1, 0, 1], (2, 3), "softmax")
