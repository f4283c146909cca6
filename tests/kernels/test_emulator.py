"""The emulator of CUDA, tested: it tells what a GPU would not."""

from pathlib import Path

import numpy as np
import pytest
from fake_cupy import cuda
from fake_cupy.library import cupy

pytestmark = pytest.mark.skipif(cuda.COMPILER is None, reason=cuda.NO_COMPILER)

SOURCE = Path(__file__).with_name("emulated.cu").read_text(encoding="utf-8")
KERNELS = ("without_barrier", "with_barrier", "without_second_barrier", "half_a_warp_exchanges", "without_a_value")


@pytest.fixture(scope="module")
def module():
    return cuda.RawModule(SOURCE, name_expressions=KERNELS)


def found(module, kernel, order, monkeypatch):
    monkeypatch.setattr(cuda, "order", order)
    y = cupy.zeros(64, dtype="int64")
    module.get_function(kernel)((1,), (64,), (y,))
    return y.get().tolist()


def test_warps_run_to_their_barrier_in_several_orders(module, monkeypatch):
    right = [(i + 32) % 64 for i in range(64)]
    assert all(found(module, "with_barrier", order, monkeypatch) == right for order in range(4))
    forwards, backwards = (found(module, "without_barrier", order, monkeypatch) for order in (0, 1))
    assert (forwards[32:], backwards[:32]) == (right[32:], right[:32])
    assert forwards[:32] != right[:32]
    assert backwards[32:] != right[32:]


def test_a_barrier_missing_before_memory_is_used_again_shows(module, monkeypatch):
    for order in (0, 1):
        assert len(set(found(module, "without_second_barrier", order, monkeypatch))) > 1


def test_threads_that_wait_for_ever_are_an_error(module, monkeypatch):
    with pytest.raises(RuntimeError, match="half_a_warp_exchanges: block 0: some threads wait for others"):
        found(module, "half_a_warp_exchanges", 0, monkeypatch)
    assert found(module, "with_barrier", 0, monkeypatch)[0] == 32  # the next kernel runs as if nothing had been


def test_shared_memory_is_empty_in_each_block(module):
    y = cupy.zeros(2)
    module.get_function("without_a_value")((2,), (64,), (y,))
    np.testing.assert_array_equal(y.get(), [2, np.nan])


@pytest.mark.parametrize(
    ("blocks", "threads", "arguments", "message"),
    [
        (1, 33, (cupy.zeros(64),), "1 blocks of 33 threads: expected whole warps"),
        (0, 32, (cupy.zeros(64),), "0 blocks of 32 threads"),
        (1, 32, (np.int64(3),), "the kernel's parameters are p, it was given i"),
        (1, 32, (), "the kernel's parameters are p, it was given $"),
    ],
)
def test_a_wrong_start_is_an_error(module, blocks, threads, arguments, message):
    with pytest.raises(RuntimeError, match=message):
        module.get_function("with_barrier")((blocks,), (threads,), arguments)


def test_arrays_hold_no_numbers_before_they_are_written():
    assert np.isnan(cupy.empty((2, 3), dtype="float32").get()).all()
    assert np.isnan(cupy.empty_like(cupy.ones(3)).get()).all()
    assert cupy.empty(2, dtype=bool).get().all()
