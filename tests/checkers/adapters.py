"""Gradient checkers under one interface: each takes a pair of NumPy functions with inputs and returns a verdict."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from minitransformer import testing

ACCEPTED, KINK, UNDECIDED, REJECTED, CANNOT_RUN = "accepted", "kink", "undecided", "rejected", "cannot run"

Check = Callable[[Any, Any, list[Any]], str]
"""``verdict = check(forward, backward, inputs)``; a check that raises has rejected the gradient."""


class CannotRun(Exception):
    """A checker cannot take a function."""


def moving(inputs: list[Any]) -> list[int]:
    """Return the indices of the inputs that have a gradient."""
    return [i for i, x in enumerate(inputs) if isinstance(x, np.ndarray) and x.dtype.kind == "f"]


def placed(inputs: list[Any], arrays: Any) -> list[Any]:
    """Return the inputs with other arrays in place of those that have a gradient."""
    result = list(inputs)
    for i, x in zip(moving(inputs), arrays, strict=True):
        result[i] = np.array(x)
    return result


def ours(forward: Any, backward: Any, inputs: list[Any]) -> str:
    """Run ``minitransformer.testing.examine``, which computes in the inputs' own precision."""
    report = testing.examine(forward, backward=backward, inputs=inputs)
    if report.verdict == "kink" and not report.subgradient:
        return REJECTED
    return {"right": ACCEPTED, "kink": KINK, "undecided": UNDECIDED}.get(report.verdict, REJECTED)


def torch_gradcheck(forward: Any, backward: Any, inputs: list[Any], **options: Any) -> str:
    """Run ``torch.autograd.gradcheck`` on an autograd function around the pair."""
    import torch

    torch.set_num_threads(1)

    class Pair(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *tensors: Any) -> Any:
            ctx.save_for_backward(*tensors)
            return torch.from_numpy(np.array(forward(*placed(inputs, [x.detach().numpy() for x in tensors]))))

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, d_y: Any) -> Any:
            arrays = placed(inputs, [x.detach().numpy() for x in ctx.saved_tensors])
            gradients = list(backward(*arrays, d_y.detach().numpy()))
            found = [gradients[i] for i in moving(inputs)]
            return tuple(None if g is None else torch.from_numpy(np.array(g)) for g in found)

    tensors = [torch.tensor(inputs[i], requires_grad=True) for i in moving(inputs)]
    try:
        torch.autograd.gradcheck(Pair.apply, tensors, **options)
    except RuntimeError as error:
        if "stride 0" in str(error):
            raise CannotRun("gradcheck does not take an array without entries") from error
        raise
    return ACCEPTED


def jax_check_grads(forward: Any, backward: Any, inputs: list[Any]) -> str:
    """Run ``jax.test_util.check_grads`` on a function with a custom derivative, which calls back to the pair."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax
    from jax.test_util import check_grads

    jax.config.update("jax_enable_x64", True)

    def call(*arrays: Any) -> Any:
        return np.asarray(forward(*placed(inputs, arrays)))

    def pull_back(*arrays: Any) -> Any:
        *xs, d_y = arrays
        gradients = list(backward(*placed(inputs, xs), np.array(d_y)))
        return tuple(
            np.zeros_like(inputs[i]) if gradients[i] is None else np.asarray(gradients[i]) for i in moving(inputs)
        )

    def shape(x: Any) -> Any:
        return jax.ShapeDtypeStruct(x.shape, x.dtype)

    given = [inputs[i] for i in moving(inputs)]
    y_shape, x_shapes = shape(call(*given)), tuple(shape(x) for x in given)

    @jax.custom_vjp
    def function(*xs: Any) -> Any:
        return jax.pure_callback(call, y_shape, *xs)

    function.defvjp(lambda *xs: (function(*xs), xs), lambda xs, d_y: jax.pure_callback(pull_back, x_shapes, *xs, d_y))
    check_grads(function, given, order=1, modes=["rev"])
    return ACCEPTED


def autograd_check_grads(forward: Any, backward: Any, inputs: list[Any]) -> str:
    """Run HIPS autograd's ``check_grads`` on a primitive with derivatives from the pair."""
    from autograd.extend import defvjp, primitive
    from autograd.test_util import check_grads

    @primitive
    def function(*xs: Any) -> Any:
        return np.asarray(forward(*placed(inputs, xs)))

    def rule(i: int) -> Any:
        return lambda y, *xs: lambda d_y: backward(*placed(inputs, xs), np.asarray(d_y))[i]

    defvjp(function, *[rule(i) for i in moving(inputs)])
    given = [inputs[i] for i in moving(inputs)]
    check_grads(function, tuple(range(len(given))), modes=["rev"], order=1)(*given)
    return ACCEPTED


def in_float64(forward: Any, backward: Any, inputs: list[Any]) -> str:
    """Run ``torch.autograd.gradcheck`` after the inputs were cast to float64, as its documentation advises."""
    return torch_gradcheck(forward, backward, placed(inputs, [inputs[i].astype("float64") for i in moving(inputs)]))


def complex_step(forward: Any, backward: Any, inputs: list[Any]) -> str:
    """Compare as the tests of MyGrad do: a complex step of 1e-20 in each entry, relative and absolute errors of 1e-8.

    The function must take complex numbers, and must be analytic.
    """
    rng = np.random.default_rng(0)
    d_y = rng.uniform(-10, 10, np.shape(forward(*inputs)))
    found = list(backward(*[x.copy() if isinstance(x, np.ndarray) else x for x in inputs], d_y))
    base = [x.astype(np.complex128) if i in moving(inputs) else x for i, x in enumerate(inputs)]
    for i in moving(inputs):
        expected = np.zeros(inputs[i].shape)
        for index in np.ndindex(expected.shape):
            moved = [x.copy() if isinstance(x, np.ndarray) else x for x in base]
            moved[i][index] += 1e-20j
            try:
                value = np.asarray(forward(*moved))
            except Exception as error:
                raise CannotRun(f"the function does not take complex numbers: {error}") from error
            expected[index] = (value.imag / 1e-20 * d_y).sum()
        gradient = np.zeros(expected.shape) if found[i] is None else found[i]
        np.testing.assert_allclose(gradient, expected, rtol=1e-8, atol=1e-8)
    return ACCEPTED


class Checker(NamedTuple):
    """A checker of the comparison."""

    check: Check
    package: str
    """What must be installed."""
    dtypes: tuple[str, ...] = ("float64", "float32", "float16")


OURS, TORCH = "minitransformer `check`", "PyTorch `gradcheck`, slow"
LOOSE = {"eps": 1e-3, "atol": 1e-2, "rtol": 1e-2}
"""Options with which float32 is checked in PyTorch's forum, as its defaults are for float64."""

CHECKERS = {
    OURS: Checker(ours, "minitransformer"),
    TORCH: Checker(torch_gradcheck, "torch"),
    "PyTorch `gradcheck`, fast": Checker(partial(torch_gradcheck, fast_mode=True), "torch"),
    "PyTorch `gradcheck`, slow, step 1e-3, tolerances 1e-2": Checker(
        partial(torch_gradcheck, **LOOSE), "torch", ("float32", "float16")
    ),
    "PyTorch `gradcheck`, slow, inputs cast to float64": Checker(in_float64, "torch", ("float32", "float16")),
    "JAX `check_grads`": Checker(jax_check_grads, "jax"),
    "HIPS autograd `check_grads`": Checker(autograd_check_grads, "autograd"),
    "MyGrad's complex step": Checker(complex_step, "numpy", ("float64",)),
}


def quietly(checker: Check, forward: Any, backward: Any, inputs: list[Any]) -> tuple[str, str]:
    """Return a checker's verdict and the reason; an exception is a rejection."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return checker(forward, backward, inputs), ""
        except (CannotRun, TimeoutError) as error:
            return CANNOT_RUN, str(error)
        except Exception as error:  # whatever a checker raises, its user sees a failure
            return REJECTED, f"{type(error).__name__}: {error}"
