"""What can only be seen on a GPU: ``python -m pytest -m gpu``."""

import os
import statistics
import subprocess
import sys
import time

import numpy as np
import pytest

import minitransformer as mt
from minitransformer import arrays
from minitransformer.apps.cli import main
from minitransformer.apps.measure.speed import CONFIGURATIONS
from minitransformer.apps.measure.speed.ours import build, random_batch
from minitransformer.arrays import BackendError, asarray, device_memory, free_device_memory, synchronize, to_numpy, xp
from minitransformer.training import training_step

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def on_the_gpu():
    before = arrays.backend()
    if hasattr(sys.modules.get("cupy"), "is_fake"):
        pytest.skip("fake CuPy stands in for it here")
    try:
        arrays.use("cupy", kernels=True)
    except BackendError as error:
        pytest.skip(f"there is no GPU: {error}")
    free_device_memory()
    yield
    free_device_memory()
    arrays.use(before)


def stepper(name):
    sizes = CONFIGURATIONS[name]
    model, batch = build(sizes), random_batch(sizes)
    optimiser = mt.optim.Adam(model.parameters())
    return lambda: training_step(model, optimiser, batch, 1e-4, 0.1)


def time_of(step, times=20, rounds=5):
    """The median of some blocks of steps, in seconds a step."""
    for _ in range(3):
        step()
    found = []
    for _ in range(rounds):
        synchronize()
        start = time.perf_counter()
        for _ in range(times):
            step()
        synchronize()
        found.append((time.perf_counter() - start) / times)
    return statistics.median(found)


# Memory


def test_the_pool_does_not_grow_from_step_to_step():
    step = stepper("small")
    for _ in range(5):
        step()
    synchronize()
    before = device_memory()
    for _ in range(30):
        step()
    synchronize()
    assert before > 0
    assert device_memory() <= 1.01 * before


def test_recomputing_takes_less_memory():
    batch = random_batch(CONFIGURATIONS["base"])
    found = []
    for recompute in (False, True):
        free_device_memory()
        model = mt.nn.Transformer(8000, 8000, dropout=0.1, recompute=recompute)
        optimiser = mt.optim.Adam(model.parameters())
        training_step(model, optimiser, batch, 1e-4, 0.1)
        synchronize()
        found.append(device_memory())
        del model, optimiser
    assert found[1] < found[0]


def test_a_gpu_that_is_too_small_says_so(tmp_path, capsys):
    """With a limit on the pool; the program ends in words and can go on afterwards."""
    pool = xp.get_default_memory_pool()
    limit = pool.get_limit()
    command = ["train", "copy", "--d-model", "1024", "--steps", "2", "--train-pairs", "100", "--held-out", "5"]
    command += ["--out", str(tmp_path / "run"), "--backend", "cupy"]
    try:
        pool.set_limit(size=device_memory() + 50 * 2**20)
        assert main(command) == 1
    finally:
        pool.set_limit(size=limit)
    assert "The GPU's memory is full. Make the batches smaller" in capsys.readouterr().err
    small = ["--d-model", "16", "--n-heads", "2", "--n-layers", "1", "--d-ff", "16", "--overwrite"]
    assert main([*command, *small]) == 0


# Numbers


def test_tf32_is_off_unless_it_is_asked_for():
    """With it, products of float32 keep 10 bits of their factors: an error of about 1e-3 instead of 1e-6."""
    code = (
        "import numpy as np, minitransformer as mt\n"
        "from minitransformer.arrays import asarray, to_numpy, xp\n"
        "mt.use('cupy')\n"
        "a, b = (np.random.default_rng(i).standard_normal((512, 512)).astype('float32') for i in range(2))\n"
        "found = to_numpy(xp.matmul(asarray(a), asarray(b)))\n"
        "exact = a.astype('float64') @ b.astype('float64')\n"
        "print(abs(found - exact).max() / abs(exact).max())"
    )
    error = {}
    for tf32 in ("0", "1"):
        environment = os.environ | {"CUPY_TF32": tf32}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        error[tf32] = float(done.stdout)
    assert error["0"] < 1e-5
    if int(xp.cuda.Device().compute_capability) >= 80:
        assert 1e-5 < error["1"] < 1e-2


@pytest.mark.parametrize("shape", [(3, 4, 7, 5), (64, 8, 32, 64)])
def test_products_of_views_are_those_of_numpy(shape):
    """Heads are views: the product must not depend on how they lie in memory."""
    rng = np.random.default_rng(0)
    q, k = (rng.standard_normal((shape[0], shape[2], shape[1], shape[3])) for _ in range(2))
    expected = q.swapaxes(1, 2) @ k.swapaxes(1, 2).swapaxes(2, 3)
    found = arrays.matmul(asarray(q).swapaxes(1, 2), asarray(k).swapaxes(1, 2).swapaxes(2, 3))
    np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-12, atol=1e-12)


def test_dropout_drops_its_share_there_too():
    x = mt.Tensor(xp.ones((512, 512), dtype="float32"))
    y = to_numpy(mt.ops.dropout(x, 0.3, np.random.default_rng(0)).data)
    assert abs((y == 0).mean() - 0.3) < 5 * (0.3 * 0.7 / y.size) ** 0.5
    np.testing.assert_allclose(y[y != 0], 1 / 0.7, rtol=1e-3)


# Time


def test_kernels_are_no_slower_than_the_operations_that_they_replace():
    times = {}
    for kernels in (True, False):
        arrays.use("cupy", kernels=kernels)
        times[kernels] = time_of(stepper("small"))
    assert times[True] < 1.1 * times[False], times


def test_a_step_is_faster_than_on_the_processor():
    there = time_of(stepper("base"), times=5)
    arrays.use("numpy")
    step = stepper("base")
    step()
    start = time.perf_counter()
    step()
    assert there < time.perf_counter() - start


def test_the_speed_is_measured(capsys):
    assert main(["measure", "speed", "toy", "--rounds", "1", "--backend", "cupy"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "the whole step of minitransformer reaches" in out
