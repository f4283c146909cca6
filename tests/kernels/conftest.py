"""The kernels' source, run on the CPU by the double of CuPy, or on a GPU where the tests are run on one."""

import sys

import pytest
from double import cuda, library

from minitransformer import arrays


@pytest.fixture(scope="module")
def gpu():
    """Use CuPy, or its double, for the tests here."""
    if "cupy" in sys.modules and arrays.backend() == "cupy":
        arrays.use("cupy", kernels=True)
        yield
        return
    if cuda.COMPILER is None:
        pytest.skip(cuda.NO_COMPILER)
    before = arrays.backend()
    missing = object()
    installed = sys.modules.get("cupy", missing)
    sys.modules["cupy"] = library.cupy
    arrays.use("cupy", kernels=True)
    yield
    arrays.use(before)
    if installed is missing:
        del sys.modules["cupy"]
    else:
        sys.modules["cupy"] = installed
