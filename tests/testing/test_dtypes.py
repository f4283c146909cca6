"""Numbers of bfloat16 on the host, where NumPy does not know the type."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from minitransformer.testing.adapters import PyTorch
from minitransformer.testing.dtypes import precision_of


class Bfloat16:
    """Stands in for a tensor of PyTorch, which has no form in NumPy before it is one of float32."""

    dtype, device, layout = "torch.bfloat16", "cuda:1", "strided"

    def detach(self):
        return self

    to_dense = cpu = resolve_conj = resolve_neg = detach

    def float(self):
        return SimpleNamespace(numpy=lambda: np.float32([1.5]))

    def numpy(self):
        raise TypeError("Got unsupported ScalarType BFloat16")


Bfloat16.__module__ = "torch"


def test_tensors_of_pytorch_keep_their_type_and_place(monkeypatch):
    torch = SimpleNamespace(strided="strided", tensor=lambda array, **options: (array.tolist(), options))
    monkeypatch.setitem(sys.modules, "torch", torch)
    read = PyTorch().to_numpy(Bfloat16())
    assert (read.tolist(), read.dtype) == ([1.5], np.float32)
    for dtype, kept in ((np.float32, "torch.bfloat16"), (np.float64, None), (np.int64, None)):
        made = PyTorch().like(np.ones(1, dtype), Bfloat16())
        assert made == ([1], {"device": "cuda:1", "dtype": kept})
    assert PyTorch().like(np.float32([2]), 2.0) == ([2], {"device": None, "dtype": None})


def test_rounding_to_bfloat16():
    precision = precision_of(Bfloat16(), np.zeros(1, np.float32))
    numbers = [0.0, 1.0, 1 + 2**-8, 1 + 3 * 2**-8, -(1 + 2**-7), 1e30, -np.inf, np.nan, 3]
    rounded = precision.round(numbers)
    assert rounded.dtype == np.float32
    expected = [0.0, 1.0, 1.0, 1 + 2**-6, -(1 + 2**-7), 1.00025555e30, -np.inf, np.nan, 3]
    np.testing.assert_allclose(rounded, expected, rtol=1e-6)
    assert (str(precision), precision.eps) == ("bfloat16", 2**-7)


def test_rounding_as_another_package_does():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    x = np.random.default_rng(0).normal(size=1000) * 10.0 ** np.arange(-20, 20).repeat(25)
    np.testing.assert_array_equal(precision_of(x.astype(bfloat16), np.float32([])).round(x), x.astype(bfloat16))
    assert precision_of(x.astype(bfloat16), np.float32([])).eps == float(np.asarray(1, bfloat16) * 2**-7)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_types_of_numpy(dtype):
    x = np.ones(2, dtype)
    precision = precision_of(x, x)
    assert (str(precision), precision.eps, precision.round([0.1]).dtype) == (dtype, np.finfo(dtype).eps, dtype)
