"""The checker for functions of complex arrays: d_x = dL/dRe(x) + i dL/dIm(x)."""

import os

import numpy as np
import pytest
from check_cases import needs

from minitransformer.testing import check, examine

os.environ.setdefault("JAX_PLATFORMS", "cpu")
RNG = np.random.default_rng(0)
Z = RNG.normal(size=(2, 3)) + 1j * RNG.normal(size=(2, 3))
W = RNG.normal(size=3) + 1j * RNG.normal(size=3)
TYPES = pytest.mark.parametrize("dtype", [np.complex128, np.complex64])


def product(z, w):
    return z * z * w


def right_for_z(z, w, d_y):
    return np.conj(2 * z * w) * d_y


def product_backward(z, w, d_y):
    return right_for_z(z, w, d_y), (np.conj(z * z) * d_y).sum(axis=0)


@TYPES
def test_a_right_gradient(dtype):
    report = check(product, backward=product_backward, inputs=[Z.astype(dtype), W.astype(dtype)])
    assert [(record.name, record.shape) for record in report.inputs] == [
        ("z.real", (2, 3)),
        ("z.imag", (2, 3)),
        ("w.real", (3,)),
        ("w.imag", (3,)),
    ]


RIGHT = {
    "a real value": (lambda z: np.abs(z) ** 2, lambda z, d_y: 2 * z * d_y, Z),
    "a conjugate": (np.conj, lambda z, d_y: np.conj(d_y), Z),
    "an angle": (np.angle, lambda z, d_y: 1j * z / np.abs(z) ** 2 * d_y, Z),
    "the Fourier transform": (np.fft.fft, lambda z, d_y: 3 * np.fft.ifft(d_y), Z),
    "real to complex": (lambda x: np.exp(1j * x), lambda x, d_y: (np.conj(1j * np.exp(1j * x)) * d_y).real, Z.real),
    "a real part alone": (lambda z: z.real**2, lambda z, d_y: 2 * z.real * d_y, Z),
    "a small array on the real axis": (np.square, lambda z, d_y: np.conj(2 * z) * d_y, 1e-8 * Z.real + 0j),
    "a scalar": (np.exp, lambda z, d_y: np.conj(np.exp(z)) * d_y, np.array(0.3 + 0.2j)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_gradients(name):
    function, backward, x = RIGHT[name]
    check(function, backward=backward, inputs=[x])


CONJUGATE = "return d_z = dL/dRe(z) + i dL/dIm(z)"
WRONG = {  # the gradient of z, and words of the cause
    "conjugate": (lambda z, w, d_y: np.conj(right_for_z(z, w, d_y)), CONJUGATE),
    "half of it": (lambda z, w, d_y: 0.5 * np.conj(right_for_z(z, w, d_y)), "0.5 times the complex conjugate"),
    "without a conjugate": (lambda z, w, d_y: 2 * z * w * d_y, "the derivative lacks a complex conjugate"),
    "a factor": (lambda z, w, d_y: 1j * right_for_z(z, w, d_y), "1j times"),
    "a real factor": (lambda z, w, d_y: 1.5 * right_for_z(z, w, d_y), "1.5 times"),
    "the real part": (lambda z, w, d_y: right_for_z(z, w, d_y).real, "z.imag"),
}


@TYPES
@pytest.mark.parametrize("name", WRONG)
def test_wrong_gradients_and_their_causes(name, dtype):
    for_z, cause = WRONG[name]

    def backward(z, w, d_y):
        return for_z(z, w, d_y), product_backward(z, w, d_y)[1]

    report = examine(product, backward=backward, inputs=[Z.astype(dtype), W.astype(dtype)])
    assert report.verdict == "wrong"
    assert cause in report.cause


def test_a_conjugated_gradient_of_the_output():
    def backward(x, d_y):
        return (np.conj(1j * np.exp(1j * x)) * np.conj(d_y)).real

    report = examine(lambda x: np.exp(1j * x), backward=backward, inputs=[Z.real])
    assert report.cause == "the gradient would be right for the complex conjugate of d_output"


def test_the_gradient_of_the_output_is_given():
    given = []

    def backward(z, d_y):
        given.append(d_y)
        return np.conj(2 * z) * d_y

    check(np.square, backward=backward, inputs=[W], d_output=W)
    np.testing.assert_array_equal(given[0], W)


def test_a_structure_of_complex_arrays():
    def function(parts):
        return {"y": parts["z"] * parts["x"], "abs": np.abs(parts["z"])}

    def backward(parts, d):
        z, x = parts["z"], parts["x"]
        return ({"z": x * d["y"] + z / np.abs(z) * d["abs"], "x": (np.conj(z) * d["y"]).real},)

    report = check(function, backward=backward, inputs=[{"z": Z, "x": Z.real}], names=["parts"])
    assert [r.name for r in report.inputs] == ["parts['z'].real", "parts['z'].imag", "parts['x']"]

    def conjugated(parts, d):
        return backward(parts, {"y": np.conj(d["y"]), "abs": d["abs"]})

    report = examine(function, backward=conjugated, inputs=[{"z": Z, "x": Z.real}], names=["parts"])
    assert "the output y['y'] " in report.cause


# --- other libraries return the gradient or its conjugate


def arrays(library):
    if library == "torch":
        import torch

        return torch, [torch.tensor(Z), torch.tensor(W)]
    if library == "jax":
        import jax
        import jax.numpy as jnp

        with jax.enable_x64(True):
            return jnp, [jnp.asarray(Z), jnp.asarray(W)]
    import autograd.numpy as anp

    return anp, [Z, W]


@pytest.mark.parametrize("library", [pytest.param(one, marks=needs(one)) for one in ("torch", "jax", "autograd")])
def test_the_convention_of_each_library(library):
    lib, inputs = arrays(library)
    check(lambda z, w: lib.exp(z * lib.conj(w)), inputs=inputs)
    check(lambda z, w: lib.abs(z * z * w), inputs=inputs)
    check(lambda z, w: lib.real(z) * lib.imag(w), inputs=inputs)
    check(lambda z, w: (z * w, lib.sin(z)), inputs=inputs)
