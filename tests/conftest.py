"""What holds for all tests."""

import os

# Small arrays gain nothing from threads, and many test processes would fight over them. This must come before numpy.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ["MINITRANSFORMER_LANG"] = "en"  # whatever the locale
for variable in ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR"):  # some terminals and services set them
    os.environ.pop(variable, None)
os.environ["MINITRANSFORMER_RECORD"] = "0"  # a library that starts IPython makes this process one that records answers

from hypothesis import HealthCheck, Phase, settings  # noqa: E402

settings.register_profile(
    "fast", max_examples=25, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "thorough", max_examples=400, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
# The second array library is to meet every line, not every number.
settings.register_profile(
    "fake_cupy", max_examples=6, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
# A mutant has to fail, not to be understood: no time is spent on a smaller example.
settings.register_profile(
    "mutation",
    max_examples=25,
    derandomize=True,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
# pytest's own option --hypothesis-profile comes after this and wins.
BACKEND = os.environ.get("MINITRANSFORMER_TEST_BACKEND") or "numpy"
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("fake_cupy" if BACKEND == "fake_cupy" else "fast"))


# ---------------------------------------------------------------------------------------------------------------------
# Another array library, for all tests: MINITRANSFORMER_TEST_BACKEND=fake_cupy, or cupy where there is a GPU

import functools  # noqa: E402
import gc  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
from contextlib import contextmanager  # noqa: E402
from pathlib import Path  # noqa: E402
from zlib import crc32  # noqa: E402

import numpy as np  # noqa: E402
import pytest  # noqa: E402

from minitransformer import arrays, testing  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))  # so that tests can import what they share
pytest.register_assert_rewrite("approved")

COMPARISONS = ("assert_allclose", "assert_array_equal", "assert_equal", "assert_array_less")


def _on_the_host(comparison):
    """Let one of NumPy's comparisons take arrays of the device too: it is the test that asks for them, not the code."""

    @functools.wraps(comparison)
    def compare(*values, **options):
        return comparison(*(arrays.to_numpy(x) if isinstance(x, arrays.xp.ndarray) else x for x in values), **options)

    return compare


def _with_few_entries(gradcheck):
    """Let finite differences move a few entries only: each one makes the same calls again."""

    @functools.wraps(gradcheck)
    def check(*arguments, max_entries=3, n_directions=1, **options):
        return gradcheck(*arguments, max_entries=min(max_entries, 3), n_directions=min(n_directions, 1), **options)

    return check


NO_GPU = ""
"""Why CuPy cannot run here, where the tests were to run on it."""
if BACKEND not in ("numpy", "fake_cupy", "cupy"):
    raise pytest.UsageError(f"MINITRANSFORMER_TEST_BACKEND must be numpy, fake_cupy or cupy, found {BACKEND}")
if BACKEND != "cupy":
    # Fake CuPy runs kernels, but slowly: only the tests that are about them turn them on.
    os.environ.setdefault(arrays.namespace.KERNELS_VARIABLE, "off")
if BACKEND == "fake_cupy":
    from fake_cupy import library

    sys.modules["cupy"] = library.cupy
    testing.gradcheck = sys.modules["minitransformer.testing.prove"].gradcheck = _with_few_entries(testing.gradcheck)
if BACKEND != "numpy":
    try:
        arrays.use("cupy")
    except arrays.BackendError as error:
        NO_GPU = f"{error}"
    for name in COMPARISONS:
        setattr(np.testing, name, _on_the_host(getattr(np.testing, name)))


# ---------------------------------------------------------------------------------------------------------------------
# Two circles of tests; circles.py says what belongs where

from circles import LEFT_OUT  # noqa: E402


def pytest_addoption(parser):
    group = parser.getgroup("minitransformer")
    group.addoption("--all", action="store_true", dest="all_tests", help="run all tests, as a path does below it")
    group.addoption("--rest", action="store_true", help="run only what a run without a path leaves out")


def pytest_ignore_collect(collection_path, config):
    if collection_path.is_dir():
        return None
    is_second = not LEFT_OUT.isdisjoint({collection_path, *collection_path.parents})
    is_wanted = is_second if config.option.rest else config.option.all_tests or not is_second
    return None if is_wanted else True


def pytest_configure(config):
    chosen = getattr(config, "workerinput", {}).get("all_tests")  # in a process of pytest-xdist
    config.option.all_tests |= config.args_source is config.ArgsSource.ARGS if chosen is None else chosen
    config.addinivalue_line("markers", "numpy_only(reason): says something about NumPy, or about all backends at once")
    config.addinivalue_line("markers", "same_bits: equal to the bit only where sums are always added in the same order")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    node.workerinput["all_tests"] = node.config.option.all_tests


def pytest_collection_finish():
    gc.freeze()  # the garbage collector need not look through thousands of tests that stay


def pytest_report_header():
    if NO_GPU:
        return f"array library: every test is skipped: {NO_GPU}"
    return f"array library: {'fake ' if BACKEND == 'fake_cupy' else ''}{arrays.library()}"


def pytest_collection_modifyitems(items):
    seen = set()
    for item in items if BACKEND != "numpy" else ():
        params = dict(item.callspec.params) if hasattr(item, "callspec") else {}
        seed = params.pop("seed", None)
        same_but_for_the_seed = (item.function, repr(sorted(params.items(), key=str)))
        marker = item.get_closest_marker("numpy_only")
        if NO_GPU:
            item.add_marker(pytest.mark.skip(reason=NO_GPU))
        elif marker is not None:
            item.add_marker(pytest.mark.skip(reason=f"NumPy only: {marker.args[0]}"))
        elif BACKEND == "fake_cupy" and seed is not None and same_but_for_the_seed in seen:
            item.add_marker(pytest.mark.skip(reason="with fake CuPy, one seed meets every line"))
        elif BACKEND == "cupy" and item.get_closest_marker("same_bits") is not None and not arrays.uses_kernels():
            reason = "without kernels a GPU adds the gradients of an embedding in no fixed order"
            item.add_marker(pytest.mark.xfail(reason=reason, strict=False))
        seen.add(same_but_for_the_seed)


@pytest.fixture(scope="session", autouse=True)
def drawing():
    """Train without drawing pictures, which takes longer than a small training; return a context for drawing them."""

    @contextmanager
    def drawing():
        patch.undo()
        try:
            yield
        finally:
            leave_out()

    def leave_out():
        for name in ("progress.draw_curves", "progress.draw_attention", "train.draw_parts"):
            patch.setattr(f"minitransformer.apps.cli.{name}", lambda *_: None)

    with pytest.MonkeyPatch.context() as patch:
        leave_out()
        yield drawing


@pytest.fixture(autouse=True)
def drawn_from_its_name(request):
    """Begin a module's generator anew for each test, so that what is drawn does not depend on the tests before it."""
    rng = getattr(request.module, "RNG", None)
    if rng is not None:
        rng.bit_generator.state = type(rng.bit_generator)(crc32(request.node.nodeid.encode())).state


@pytest.fixture(autouse=BACKEND == "fake_cupy")
def indices_in_range():
    """With fake CuPy: no test may index out of range, which CuPy would not say."""
    from fake_cupy import log

    log.clear()
    yield
    wrapped, log.wrapped[:] = list(log.wrapped), []
    assert not wrapped, f"CuPy would take these indices modulo the length without a word: {wrapped}"


@pytest.fixture
def few_threads(monkeypatch):
    """Let the system start so many more threads only, as in a container that limits their number."""

    def limit(most):
        start, begun = threading.Thread.start, []

        def limited(thread):
            if len(begun) >= most:
                raise RuntimeError("can't start new thread")
            begun.append(thread)
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", limited)

    return limit
