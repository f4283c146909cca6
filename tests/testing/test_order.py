"""The checker for backward passes of backward passes: ``order=2``."""

import os

import numpy as np
import pytest
from check_cases import needs

from minitransformer.testing import CheckError, check, examine

os.environ.setdefault("JAX_PLATFORMS", "cpu")
RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(2, 3)), RNG.normal(size=3)


def layer(x, w):
    return np.sin(x) * w


def first(x, w, d_y):
    return np.cos(x) * w * d_y, (np.sin(x) * d_y).sum(axis=0)


def second(x, w, d_y, g):
    g_x, g_w = g
    d_x = -np.sin(x) * w * d_y * g_x + np.cos(x) * d_y * g_w
    return d_x, (np.cos(x) * d_y * g_x).sum(axis=0), np.cos(x) * w * g_x + np.sin(x) * g_w


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_two_backward_passes(dtype):
    report = check(layer, backward=(first, second), inputs=[X.astype(dtype), W.astype(dtype)], order=2)
    assert (report.order, report.name) == (2, "the backward pass of layer")
    assert [record.name for record in report.inputs] == ["x", "w", "d_y"]
    assert str(report).startswith("the backward pass of layer (order 2): the gradient is right")
    assert check(layer, backward=(first, second), inputs=[X, W]).order == 1


def test_the_order_that_failed():
    def wrong_first(x, w, d_y):
        return 2 * first(x, w, d_y)[0], first(x, w, d_y)[1]

    report = examine(layer, backward=(wrong_first, second), inputs=[X, W], order=2)
    assert (report.order, report.verdict, report.name) == (1, "wrong", "layer")

    def wrong_second(x, w, d_y, g):
        d_x, d_w, d_d_y = second(x, w, d_y, g)
        return d_x, d_w, -d_d_y

    with pytest.raises(CheckError, match=r"pass of layer \(order 2\).*\n.*sign") as e:
        check(layer, backward=(first, wrong_second), inputs=[X, W], order=2)
    assert (e.value.report.order, e.value.report.worst.input) == (2, "d_y")


def test_the_gradient_at_fault():
    report = examine(
        layer, backward=(first, lambda x, w, d_y, g: second(x, w, d_y, (g[0], 2 * g[1]))), inputs=[X, W], order=2
    )
    assert "the output gradients[1] is wrong" in report.cause
    assert "2 times" in report.cause


def test_one_input_options_and_what_has_no_gradient():
    def power(x, n, mask, *, scale):
        return scale * x**n * mask

    def power_first(x, n, mask, d_y):
        return n * 3.0 * x ** (n - 1) * mask * d_y, None, None

    def power_second(x, n, mask, d_y, g):
        g_x, g_n, g_mask = g
        assert g_n is g_mask is None
        return n * (n - 1) * 3.0 * x ** (n - 2) * mask * d_y * g_x, None, None, n * 3.0 * x ** (n - 1) * mask * g_x

    inputs = [X, 3, X > 0]
    report = check(power, backward=(power_first, power_second), inputs=inputs, options={"scale": 3.0}, order=2)
    assert report.constants == ["gradients[1] (None)", "gradients[2] (None)"]
    single = (lambda x, d_y: np.cos(x) * d_y, lambda x, d_y, g_x: (-np.sin(x) * d_y * g_x, np.cos(x) * g_x))
    assert check(np.sin, backward=single, inputs=[X], order=2).verdict == "right"


def test_several_outputs_and_complex_numbers():
    def two(z):
        return {"square": z * z, "abs": np.abs(z) ** 2}

    def two_first(z, d):
        return np.conj(2 * z) * d["square"] + 2 * z * d["abs"]

    def two_second(z, d, g):
        d_z = 2 * np.conj(np.conj(d["square"]) * g) + 2 * d["abs"] * g
        return d_z, {"square": 2 * z * g, "abs": (2 * np.conj(z) * g).real}

    z = X + 1j * X[::-1]
    report = check(two, backward=(two_first, two_second), inputs=[z], order=2)
    names = ["z.real", "z.imag", "d_y['square'].real", "d_y['square'].imag", "d_y['abs']"]
    assert [record.name for record in report.inputs] == names


def test_a_backward_pass_that_keeps_what_the_forward_pass_saw():
    kept = {}

    def square(x):
        kept["x"] = x
        return x * x

    def square_first(x, d_y):
        return 2 * kept["x"] * d_y

    report = check(square, backward=(square_first, lambda x, d_y, g: (2 * d_y * g, 2 * x * g)), inputs=[X], order=2)
    assert report.verdict == "right"


def test_a_kink_of_the_function_and_of_the_backward_pass():
    def relu_second(x, d_y, g):
        return 0 * x, (x > 0) * g

    backward = (lambda x, d_y: (x > 0) * d_y, relu_second)
    report = examine(lambda x: np.maximum(x, 0), backward=backward, inputs=[np.array([1.0, 0.0])], order=2)
    assert (report.order, report.verdict) == (1, "kink")
    accepted = examine(
        lambda x: np.maximum(x, 0), backward=backward, inputs=[np.array([1.0, 0.0])], order=2, kinks="accept"
    )
    assert (accepted.order, accepted.verdict) == (2, "kink")
    assert "the value jumps as x[1] moves" in accepted.cause


# --- libraries that differentiate their backward passes


def cube(torch, derivative):
    """Return x³ in PyTorch with a backward pass of its own."""

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, d_y):
            return derivative(ctx.saved_tensors[0], d_y)

    return lambda x: torch.tanh(Cube.apply(torch.sin(x)))


def pytorch(derivative, **arguments):
    torch = pytest.importorskip("torch")
    return examine(cube(torch, derivative), inputs=[torch.tensor(X)], order=2, **arguments)


def test_pytorch():
    report = pytorch(lambda x, d_y: 3 * x**2 * d_y)
    assert (report.order, report.verdict) == (2, "right")


def test_a_second_derivative_in_pytorch_that_is_cut_off():
    for derivative in (lambda x, d_y: 3 * x.detach() ** 2 * d_y, lambda x, d_y: 3 * x**2 * d_y.detach()):
        report = pytorch(derivative)
        assert (report.order, report.verdict) == (2, "wrong")


def test_a_second_derivative_in_pytorch_that_is_wrong():
    torch = pytest.importorskip("torch")

    class Derivative(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return 3 * x**2

        @staticmethod
        def backward(ctx, d_y):
            return 3 * ctx.saved_tensors[0] * d_y  # 6 x d_y

    report = pytorch(lambda x, d_y: Derivative.apply(x) * d_y)
    assert (report.order, report.verdict, report.worst.input) == (2, "wrong", "x")


def test_each_gradient_is_differentiated_in_pytorch():
    torch = pytest.importorskip("torch")
    cut_off = cube(torch, lambda x, d_y: 3 * x.detach() ** 2 * d_y)
    report = examine(lambda x, w: x * x + cut_off(w), inputs=[torch.tensor(X), torch.tensor(W)], order=2)
    assert (report.verdict, report.order) == ("wrong", 2)


def test_backward_passes_that_pytorch_cannot_differentiate():
    torch = pytest.importorskip("torch")
    report = pytorch(torch.autograd.function.once_differentiable(lambda x, d_y: 3 * x**2 * d_y))
    assert (report.order, report.verdict) == (2, "malformed")
    assert report.cause.endswith("it is marked as once_differentiable")

    def in_numpy(x, d_y):
        return torch.tensor(3 * x.detach().numpy() ** 2 * d_y.detach().numpy())

    assert pytorch(in_numpy).verdict == "wrong"
    report = examine(lambda x: x.double().clone(), inputs=[torch.tensor(X)], order=2)
    assert (report.order, report.verdict) == (2, "right")


@needs("jax")
def test_jax():
    import jax
    import jax.numpy as jnp

    def examine_cube(derivative):
        cube = jax.custom_vjp(lambda x: x**3)
        cube.defvjp(lambda x: (x**3, x), derivative)
        with jax.enable_x64(True):
            x = jnp.asarray(X)
        return examine(lambda x: jnp.tanh(cube(x)), inputs=[x], order=2)

    report = examine_cube(lambda x, d_y: (3 * x**2 * d_y,))
    assert (report.order, report.verdict) == (2, "right")
    with jax.enable_x64(True):
        z = jnp.asarray(X + 1j * X[::-1])
    report = examine(lambda z: jnp.exp(jnp.conj(z)), inputs=[z], order=2)
    assert (report.order, report.verdict) == (2, "right")
    report = examine_cube(lambda x, d_y: (3 * jax.lax.stop_gradient(x) ** 2 * d_y,))
    assert (report.order, report.verdict) == (2, "wrong")

    def in_numpy(x, d_y):
        return (jax.pure_callback(lambda x, d: 3 * x**2 * d, jax.ShapeDtypeStruct(x.shape, x.dtype), x, d_y),)

    report = examine_cube(in_numpy)
    assert (report.order, report.verdict) == (2, "malformed")
    assert report.cause.startswith("the backward pass cannot be differentiated: ")


@needs("autograd")
def test_autograd():
    import autograd.numpy as anp
    from autograd.extend import defvjp, primitive

    def examine_cube(derivative):
        cube = primitive(lambda x: x**3)
        defvjp(cube, lambda y, x: lambda d_y: derivative(x, d_y))
        return examine(lambda x: anp.tanh(cube(x)), inputs=[X], order=2)

    assert examine_cube(lambda x, d_y: 3 * x**2 * d_y).verdict == "right"
    report = examine(lambda z: anp.exp(anp.conj(z)).sum(), inputs=[X + 1j * X[::-1]], order=2)
    assert (report.order, report.verdict) == (2, "right")
    report = examine_cube(lambda x, d_y: 3 * getattr(x, "_value", x) ** 2 * d_y)
    assert (report.order, report.verdict) == (2, "wrong")
