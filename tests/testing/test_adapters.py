"""The checker for functions of other libraries: each is recognised, and a wrong gradient of its own kind is found.

Each class of tests holds the same questions for one library; those of a library that is not installed are skipped.
"""

import importlib
import os
import sys
from contextlib import suppress

import numpy as np
import pytest
from check_cases import needs
from fake_cupy.library import cupy

import minitransformer as mt
from minitransformer.testing import check, examine

os.environ.setdefault("JAX_PLATFORMS", "cpu")
X, W = np.random.default_rng(0).normal(size=(2, 3)), np.random.default_rng(1).normal(size=3)
IDS = np.array([1, 0, 1])
KINDS = ("right", "wrong", "zero")
FACTORS = {"right": 1.0, "wrong": 1.5, "zero": 0.0}


def assert_found(report, kind, dtype="float64"):
    if kind == "right":
        assert report.verdict == "right", report
        return
    assert report.verdict == "wrong", report
    assert report.worst.input == "x"
    assert ("1.5 times" in report.cause) == (kind == "wrong")
    assert (report.worst.found == 0) == (kind == "zero")


@needs("jax")
class TestJax:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("dtype", ["float64", "float32"])
    @pytest.mark.parametrize("given", ["jax", "numpy"])
    def test_a_custom_vjp(self, kind, dtype, given):
        import jax
        import jax.numpy as jnp

        @jax.custom_vjp
        def layer(x, w):
            assert x.dtype == dtype
            return jnp.tanh(x * w)

        def backward(saved, d_y):
            x, w = saved
            d_u = d_y * (1 - jnp.tanh(x * w) ** 2)
            return FACTORS[kind] * d_u * w, (d_u * x).sum(0)

        layer.defvjp(lambda x, w: (layer(x, w), (x, w)), backward)
        with jax.enable_x64(dtype == "float64"):
            make = jnp.asarray if given == "jax" else np.asarray
            inputs = [make(X.astype(dtype)), make(W.astype(dtype))]
        assert_found(examine(layer, inputs=inputs), kind)
        assert jnp.ones(1).dtype == "float32"

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize("dtypes", [("float32", "float64"), ("float64", "float32")])
    def test_one_input_in_float64_is_enough(self, dtypes):
        import jax
        import jax.numpy as jnp

        @jax.custom_vjp
        def times(x, w):
            assert (x.dtype, w.dtype) == dtypes
            return jnp.multiply(x, w)

        def backward(saved, d_y):
            x, w = saved
            assert (d_y * w).dtype == "float64"
            return (d_y * w).astype(x.dtype), (d_y * x).sum(0).astype(w.dtype)

        times.defvjp(lambda x, w: (times(x, w), (x, w)), backward)
        check(times, inputs=[X.astype(dtypes[0]), W.astype(dtypes[1])])

    def test_float32_stays_float32_and_other_inputs_stay_as_they_are(self):
        import jax
        import jax.numpy as jnp

        def take(x, ids, key, unused):
            assert (x.dtype, ids.dtype, unused.dtype) == ("float32", "int32", "float32")
            return x[:, ids] * jnp.ones(3) * jax.random.normal(key, (3,))

        inputs = [jnp.asarray(X, "float32"), jnp.asarray(IDS), jax.random.key(0), jnp.ones(2)]
        report = examine(jax.jit(take), inputs=inputs)
        assert report.verdict == "right", report
        assert [record.name for record in report.inputs] == ["x", "unused"]


@needs("mygrad")
class TestMyGrad:
    def layer(self, kind):
        import mygrad
        from mygrad.operation_base import Operation

        class Tanh(Operation):
            def __call__(self, x):
                self.variables = (x,)
                self.y = np.tanh(x.data)
                return self.y

            def backward_var(self, grad, index, **options):
                return FACTORS[kind] * grad * (1 - self.y**2)

        return lambda x, w: mygrad.Tensor._op(Tanh, x) * w

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("dtype", ["float64", "float32"])
    def test_an_operation(self, kind, dtype):
        import mygrad

        inputs = [mygrad.tensor(X, dtype=dtype), mygrad.tensor(W, dtype=dtype)]
        assert_found(examine(self.layer(kind), inputs=inputs), kind)

    def test_numpy_inputs_and_whole_numbers(self):
        import mygrad

        def take(x, ids, unused):
            assert (x.dtype, ids.dtype) == ("float64", "int64")
            return mygrad.sin(x)[:, ids]

        for make in (np.asarray, mygrad.tensor):
            report = examine(take, inputs=[make(X), make(IDS), make(W)])
            assert report.verdict == "right", report
            assert [record.name for record in report.inputs] == ["x", "unused"]


@needs("autograd")
class TestAutograd:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("dtype", ["float64", "float32"])
    def test_a_primitive(self, kind, dtype):
        from autograd.extend import defvjp, primitive

        @primitive
        def tanh(x):
            return np.tanh(x)

        factor = np.dtype(dtype).type(FACTORS[kind])
        defvjp(tanh, lambda y, x: lambda d_y: factor * d_y * (1 - y**2))
        report = examine(lambda x, w: tanh(x) * w, inputs=[X.astype(dtype), W.astype(dtype)])
        assert_found(report, kind)

    def test_whole_numbers_and_inputs_without_effect(self):
        import autograd.numpy as anp

        report = examine(lambda x, ids, unused: anp.sin(x)[:, ids], inputs=[X, IDS, W])
        assert report.verdict == "right", report
        assert [record.name for record in report.inputs] == ["x", "unused"]

    def test_a_function_that_autograd_does_not_know(self):
        import autograd  # noqa: F401

        with pytest.raises(ValueError, match="setting an array element") as error:
            examine(lambda x: np.interp(x, [0, 1], [0, 3]), inputs=[X])
        assert "backward=" in error.value.__notes__[0]


def _double_in_place(d_y):
    d_y *= 2
    return d_y


@needs("autograd")
def test_a_rule_of_autograd_that_writes_into_the_gradient_of_its_output():
    from autograd.extend import defvjp, primitive

    double = primitive(lambda x: 2 * x)
    defvjp(double, lambda y, x: _double_in_place)
    assert examine(double, inputs=[X]).verdict == "mutates"


@needs("torch")
def test_a_backward_pass_of_pytorch_that_writes_into_the_gradient_of_its_output():
    import torch

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, d_y):
            return _double_in_place(d_y)

    assert examine(Double.apply, inputs=[torch.tensor(X)]).verdict == "mutates"


class TestCuPy:
    @pytest.fixture(autouse=True)
    def fake_cupy(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "cupy", cupy)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("dtype", ["float64", "float32"])
    def test_a_pair_of_functions(self, kind, dtype):
        def backward(x, w, d_y):
            assert all(isinstance(a, cupy.ndarray) for a in (x, w, d_y))
            return FACTORS[kind] * d_y * w / cupy.cosh(x) ** 2, (d_y * cupy.tanh(x)).sum(axis=0)

        inputs = [cupy.asarray(X.astype(dtype)), cupy.asarray(W.astype(dtype))]
        assert_found(examine(lambda x, w: cupy.tanh(x) * w, backward=backward, inputs=inputs), kind)

    def test_who_writes_into_what(self):
        def backward(x, d_y):
            d_y *= 2
            return d_y

        report = examine(lambda x: 2 * x, backward=backward, inputs=[cupy.asarray(X)])
        assert report.verdict == "mutates"


# --- low precisions: float64 shows whether the formula is right, where the function runs in it

FEW_DIGITS = pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
SIGNS = pytest.mark.parametrize("sign", [1, -1])


def assert_low(report, sign):
    assert report.verdict in (("right", "undecided") if sign == 1 else ("wrong",)), report
    if report.verdict == "undecided":
        assert "float64" in report.cause


@FEW_DIGITS
@SIGNS
def test_few_digits_in_numpy(dtype, sign):
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    seen = []

    def backward(x, d_y):
        seen.append((str(x.dtype), str(d_y.dtype)))
        return x.dtype.type(sign) * d_y * (x.dtype.type(1) - np.tanh(x) ** 2)

    assert_low(examine(np.tanh, backward=backward, inputs=[X.astype(dtype)]), sign)
    assert seen[0] == (dtype, dtype)


@needs("torch")
@FEW_DIGITS
@SIGNS
def test_few_digits_in_pytorch(dtype, sign):
    import torch

    seen = []

    class Tanh(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(torch.tanh(x))
            return torch.tanh(x)

        @staticmethod
        def backward(ctx, d_y):
            seen.append(d_y.dtype)
            return sign * d_y * (1 - ctx.saved_tensors[0] ** 2)

    inputs = [torch.tensor(X).to(getattr(torch, dtype)), torch.tensor(W, dtype=torch.float32)]
    assert_low(examine(lambda x, w: Tanh.apply(x) * w.to(x.dtype), inputs=inputs), sign)
    assert seen[0] == getattr(torch, dtype)


@needs("torch")
def test_inputs_and_value_may_differ_in_precision():
    import torch

    inputs = [torch.tensor(X, dtype=torch.bfloat16), torch.tensor(W, dtype=torch.float32)]
    assert_low(examine(lambda x, w: (torch.tanh(x).float() * w).sum(), inputs=inputs), 1)


@needs("jax")
@FEW_DIGITS
@SIGNS
def test_few_digits_in_jax(dtype, sign):
    import jax
    import jax.numpy as jnp

    seen = []

    @jax.custom_vjp
    def tanh(x):
        return jnp.tanh(x)

    def backward(x, d_y):
        seen.append(d_y.dtype)
        return (sign * d_y * (1 - jnp.tanh(x) ** 2),)

    tanh.defvjp(lambda x: (tanh(x), x), backward)
    assert_low(examine(tanh, inputs=[jnp.asarray(X, dtype)]), sign)
    assert seen[0] == dtype


@pytest.mark.parametrize("backward", [None, lambda x, d_y: d_y])
def test_inputs_stay_as_they_are_whatever_a_function_writes(backward):
    pytest.importorskip("torch")  # beside which the library is found out by a call

    def doubled(x):
        x *= 2
        return x

    x = X.copy()
    with suppress(TypeError):
        examine(doubled, inputs=[x], backward=backward)
    np.testing.assert_array_equal(x, X)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_function_of_tensors_alone_is_checked_at_numpy_arrays(dtype):
    torch = pytest.importorskip("torch")
    x = np.array([[0.5, -1.0], [2.0, 0.3]], dtype)
    check(torch.sin, inputs=[x])
    check(lambda w, i: torch.nn.functional.embedding(torch.as_tensor(i), w), inputs=[x, np.array([0, 1, 1])])
    check(lambda x: x.exp() if isinstance(x, mt.Tensor) else x.missing, inputs=[x])
    check(lambda pair: torch.mul(*pair["a"]), inputs=[{"a": [x, x + 1]}])


LIBRARIES = ("jax.numpy", "mygrad", "autograd.numpy", "torch", "minitransformer")


@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(name.partition(".")[0])) for name in LIBRARIES])
def test_outputs_of_every_shape(name):
    library = importlib.import_module(name)
    check(lambda x, w: [library.tanh(x) * w, (x * w).sum(), library.tanh(w)], inputs=[X, W])
