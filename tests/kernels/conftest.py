"""The kernels' source, run on the CPU by fake CuPy, or on a GPU where the tests are run on one."""

import sys
from unittest.mock import patch

import pytest
from fake_cupy import cuda, library

from minitransformer import arrays


@pytest.fixture(scope="module")
def gpu():
    """Use CuPy, or fake CuPy, for the tests here."""
    before = arrays.backend()
    if before == "numpy" or hasattr(sys.modules["cupy"], "is_fake"):
        if cuda.COMPILER is None:
            pytest.skip(cuda.NO_COMPILER)
        for_now = {"cupy": library.cupy}
    else:
        for_now = {}
    with patch.dict(sys.modules, for_now):
        arrays.use("cupy", kernels=True)
        yield
    arrays.use(before)
