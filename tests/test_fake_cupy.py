"""Fake CuPy: what it refuses, what it counts, that it knows what CuPy has, and what a training step costs."""

import argparse
import copy
import json
import operator
import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from fake_cupy import generate, log
from fake_cupy.library import cupy
from small_models import padded_batch
from toml_cases import cases_from_toml

import minitransformer as mt
from minitransformer.apps.cli.processes import find_group
from minitransformer.arrays import to_numpy, use, using, xp
from minitransformer.parallel import MPI
from minitransformer.training import training_step

HOST = np.arange(6.0).reshape(2, 3)
CONVERSION = r"Implicit conversion to a NumPy array is not allowed\. Please use `\.get\(\)`"


@pytest.fixture(autouse=True)
def nothing_logged():
    log.clear()
    yield
    log.clear()


@pytest.fixture
def x():
    return cupy.asarray(HOST)


@pytest.fixture
def on_fake_cupy(monkeypatch):
    before = mt.backend()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    use("cupy")
    yield
    use(before)


# What it has


@pytest.mark.numpy_only("asks the real CuPy")
def test_the_specification_is_that_of_the_installed_cupy():
    pytest.importorskip("cupy")
    found = generate.specification()
    written = json.loads(generate.SPECIFICATION.read_text(encoding="utf-8"))
    if found["cupy"] != written["cupy"]:
        pytest.skip(f"CuPy {found['cupy']} is installed, the specification is of {written['cupy']}")
    assert found == written, "run: python tests/fake_cupy/generate.py"


@pytest.mark.parametrize(
    "name", ["block", "insert", "errstate", "nditer", "vecdot", "unstack", "frompyfunc", "geomspace"]
)
def test_what_cupy_does_not_have_is_missing(name):
    if not hasattr(np, name):
        pytest.skip("this version of NumPy does not have it either")
    assert not hasattr(cupy, name)


@pytest.mark.parametrize("name", ["__index__", "__contains__", "__imatmul__", "ctypes", "resize"])
def test_methods_that_arrays_do_not_have(x, name):
    assert hasattr(HOST, name)
    assert not hasattr(x, name)


def test_it_is_no_array_of_numpys(x):
    assert not isinstance(x, np.ndarray)
    assert not hasattr(x.flags, "writeable")
    assert not hasattr(cupy.random.default_rng(0), "permutation")
    assert cupy.random.default_rng(0).integers(0, 9, size=5).shape == (5,)


# Host and device never mix


@pytest.mark.parametrize(
    "convert", [np.asarray, np.float32, lambda x: np.array([x]), np.random.default_rng(0).permutation]
)
def test_nothing_is_converted_without_being_asked(x, convert):
    with pytest.raises(TypeError, match=CONVERSION):
        convert(x)


@cases_from_toml
def test_host_and_device_do_not_mix(x, mix):
    with pytest.raises(TypeError):
        eval(mix, {"np": np, "cupy": cupy, "operator": operator, "x": x, "host": HOST})


def test_numbers_are_fine(x):
    for number in (2, 2.0, True, np.float64(2), np.int32(2)):
        assert (x * number).get().tolist() == (HOST * number).tolist()
        assert (number * x).get().tolist() == (HOST * number).tolist()
    assert cupy.asarray(HOST.astype("float32")).__mul__(2.0).dtype == np.float32
    assert (cupy.asarray(HOST.astype("float32")) * np.float64(2)).dtype == np.float64


def test_host_arrays_are_not_assigned_unless_they_are_numbers(x):
    x[0] = np.array(7.0)
    x[1, 1] = 8
    assert x.get().tolist() == [[7, 7, 7], [3, 8, 5]]
    for value in (HOST[0], np.ones(1), [1.0, 2.0, 3.0]):
        with pytest.raises(ValueError, match=r"non-scalar numpy\.ndarray cannot be used for fill"):
            x[0] = value


def test_numpys_functions_are_dispatched(x):
    assert isinstance(np.exp(x), cupy.ndarray)
    assert isinstance(np.concatenate([x, x]), cupy.ndarray)
    np.add.at(x, np.array([0, 0]), 1.0)
    assert x.get().tolist() == [[2, 3, 4], [3, 4, 5]]
    with pytest.raises(TypeError, match="no implementation found"):
        np.insert(x, 0, 0)


# Functions


@cases_from_toml
def test_keywords_that_cupy_does_not_take(x, call):
    with pytest.raises(TypeError):
        eval(call, {"cupy": cupy, "x": x})


def test_universal_functions_have_few_methods(x):
    assert cupy.add.reduce(x, axis=0).get().tolist() == [3, 5, 7]
    for call in (
        lambda: cupy.maximum.reduce(x),
        lambda: cupy.maximum.accumulate(x),
        lambda: cupy.multiply.reduceat(x, [0]),
    ):
        with pytest.raises(NotImplementedError, match="is not supported yet"):
            call()


def test_reductions_give_arrays_without_axes(x):
    for value in (x.sum(), x.max(), x[0, 0], x.mean(), cupy.einsum("ij->", x)):
        assert isinstance(value, cupy.ndarray)
        assert value.shape == ()
    with pytest.raises(TypeError, match="list indices must be integers"):
        _ = [1, 2][x.argmax()]


def test_results_lie_in_c_order(x):
    assert HOST.T.__add__(HOST.T).flags.f_contiguous
    assert (x.T + x.T).flags.c_contiguous
    assert x.T.flags.f_contiguous  # a view is a view
    x.T[0, 1] = 99
    assert x[1, 0].item() == 99


def test_indices_out_of_range_are_wrapped_and_reported(x):
    assert x[np.array([2, 3])].get().tolist() == HOST.tolist()
    assert x.take(cupy.asarray([4]), axis=1).get().tolist() == [[1], [4]]
    assert [entry.split(":")[0] for entry in log.wrapped] == ["indexing", "take"]
    with pytest.raises(IndexError):
        x[5]


def test_a_broadcast_array_is_not_written_to(x):
    repeated = cupy.broadcast_to(x[0], (4, 3))
    with pytest.raises(ValueError, match="read-only"):
        repeated += 1


# What it counts


@cases_from_toml
def test_what_waits_for_the_device_is_counted(x, read):
    with log.host_copies() as copies:
        eval(read, {"cupy": cupy, "pickle": pickle, "x": x})
    assert len(copies) == 1


def test_what_does_not_wait_is_not_counted(x):
    with log.host_copies() as copies:
        _ = (x.shape, x.dtype, len(x), x.T, x[0], x + 1, x.sum(), copy.deepcopy(x), cupy.may_share_memory(x, x[1:]))
        x[x > 1] = 0.0
    assert copies == []


@pytest.mark.parametrize("compute", [lambda x: mt.ops.rotary.forward(x)[0], lambda x: mt.ops.alibi(2, 5)])
def test_a_table_belongs_to_the_library_for_which_it_was_computed(compute, monkeypatch, request):
    host = compute(xp.ones((3, 4)))
    request.getfixturevalue("on_fake_cupy")
    found = compute(xp.ones((3, 4)))
    assert isinstance(found, cupy.ndarray)
    np.testing.assert_array_equal(to_numpy(found), to_numpy(host))


@cases_from_toml
@pytest.mark.usefixtures("on_fake_cupy")
def test_a_training_step_does_not_wait_for_the_device(options):
    sizes = {"d_model": 12, "n_heads": 3, "n_layers": 2, "d_ff": 20, "dropout": 0.1}
    model = mt.nn.Transformer(9, 9, **sizes, **options)
    optimiser = mt.optim.Adam(model.parameters())
    before = model.state_dict()
    with log.host_copies() as copies:
        losses = [training_step(model, optimiser, padded_batch(rows=4, vocabulary=9), 0.01, 0.1) for _ in range(3)]
    assert copies == []
    with log.host_copies() as copies:
        numbers = [float(loss) for loss in losses]
    assert copies == ["float"] * 3
    assert numbers[2] < numbers[0]
    assert all((values != before[name]).any() for name, values in model.state_dict().items())


@pytest.mark.parametrize(("local_rank", "gpu"), [(0, 0), (1, 1), (2, 0), (5, 1)])
def test_the_processes_of_a_machine_take_its_gpus_in_turn(monkeypatch, local_rank, gpu):
    group = SimpleNamespace(size=6, rank=local_rank + 1, local_rank=local_rank)
    monkeypatch.setattr("minitransformer.apps.cli.processes.start", lambda name: group)
    monkeypatch.setattr(cupy.cuda.Device, "in_use", 0)
    monkeypatch.setattr(mt.arrays.namespace, "_chosen_device", None)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    find_group(argparse.Namespace(command="train"))
    with using("cupy"):
        assert cupy.cuda.Device().id == gpu


@pytest.mark.usefixtures("on_fake_cupy")
@pytest.mark.parametrize("reads_gpus", [True, False])
def test_mpi_reads_from_a_device_that_has_finished_or_from_the_host(monkeypatch, x, reads_gpus):
    waits, mpi = [], object.__new__(MPI)
    stream = SimpleNamespace(synchronize=lambda: waits.append("the current stream"))
    monkeypatch.setattr(cupy.cuda, "get_current_stream", lambda: stream, raising=False)
    mpi._reads_gpus = reads_gpus
    assert mpi._sendable(HOST) is HOST
    assert waits == []
    sent = mpi._sendable(x)
    assert (sent is x, isinstance(sent, np.ndarray), len(waits)) == (reads_gpus, not reads_gpus, int(reads_gpus))
