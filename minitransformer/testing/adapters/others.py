"""Functions of the arrays of other libraries: PyTorch, JAX, MyGrad and HIPS autograd.

None of them is imported here: whoever passes its arrays has done so.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from minitransformer.arrays import Array
from minitransformer.testing.adapters.base import Adapter, as_array, in_short, library_of
from minitransformer.testing.dtypes import is_bfloat16
from minitransformer.testing.layout import leaves
from minitransformer.testing.report import Malformed

if TYPE_CHECKING:
    from minitransformer.testing.case import FlatFunction as Flat

REFUSALS = "returned an invalid gradient", "returned an incorrect number of gradients", "expected Variable or None"
"""Words of the errors with which PyTorch refuses what the backward pass of an ``autograd.Function`` returns."""


class PyTorch(Adapter):
    """PyTorch."""

    name = "torch"

    def recognises(self, x: Any) -> bool:
        """Return whether a value is a PyTorch tensor."""
        return library_of(x) == "torch" and hasattr(x, "detach")

    def to_numpy(self, x: Any) -> Array:
        """Return a tensor's numbers on the host."""
        if not self.recognises(x):
            return as_array(x)
        x = x.detach().to_dense().cpu().resolve_conj().resolve_neg()
        return np.asarray((x.float() if is_bfloat16(x) else x).numpy())

    def like(self, array: Array, x: Any) -> Any:
        """Return a tensor on the device of x; raise ``Malformed`` if x is sparse."""
        layout = getattr(x, "layout", sys.modules["torch"].strided)
        if layout != sys.modules["torch"].strided:
            raise Malformed(
                f"found a tensor of layout {layout}, expected dense tensors; return x.to_dense(), or give the dense "
                "tensor as the input and call x.to_sparse() inside the function"
            )
        dtype = x.dtype if is_bfloat16(x) and array.dtype == np.float32 else None
        return sys.modules["torch"].tensor(array, device=getattr(x, "device", None), dtype=dtype)

    def vjp(self, function: Flat, inputs: Sequence[Any], moving: Sequence[int], d_outputs: Sequence[Any]) -> list[Any]:
        """Run the backward pass of PyTorch's graph."""
        torch = sys.modules["torch"]
        for i in moving:
            inputs[i].requires_grad_()
        # A function may write into its input, which PyTorch forbids for leaves of the graph.
        pairs = [
            (y, d_y)
            for y, d_y in zip(function(*inputs), d_outputs, strict=True)
            if self.recognises(y) and y.requires_grad
        ]
        if not pairs:
            raise Malformed("the value has no graph behind it: it was detached, or does not depend on any input")
        outputs, cotangents = zip(*pairs, strict=True)
        if _is_once_differentiable(outputs):
            raise Malformed(
                "PyTorch cannot differentiate a backward pass on the way: it is marked as once_differentiable"
            )
        again = any(d_y.requires_grad for d_y in cotangents)  # the backward pass is to be differentiated
        moved = [inputs[i] for i in moving]
        try:
            return list(torch.autograd.grad(outputs, moved, cotangents, allow_unused=True, create_graph=again))
        except RuntimeError as error:
            if any(words in str(error) for words in REFUSALS):
                what = "return a tensor of the shape of each input of forward, or None"
                raise Malformed(f"PyTorch refuses a gradient: {error}; {what}") from None
            raise


def _is_once_differentiable(outputs: Sequence[Any]) -> bool:
    """Return whether there is a node in the graph that raises an error.

    PyTorch raises it only where it visits the node, which is on no way to the inputs.
    """
    waiting, seen = [y.grad_fn for y in outputs], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        if node.name() == "torch::autograd::Error":
            return True
        seen.add(node)
        waiting += [following for following, _ in node.next_functions]
    return False


class Jax(Adapter):
    """JAX; float64 is switched on for each call with inputs in float64, and for no other."""

    name = "jax"

    def recognises(self, x: Any) -> bool:
        """Return whether a value is a JAX array of numbers; a random key is not one."""
        return library_of(x) in ("jax", "jaxlib") and hasattr(getattr(x, "dtype", None), "kind")

    def like(self, array: Array, x: Any) -> Any:
        """Return an array on the device of x."""
        with _precision([array]):
            # JAX shares the memory of aligned NumPy arrays.
            array = in_short(array, x).copy()
            return sys.modules["jax"].device_put(array, x.sharding if self.recognises(x) else None)

    def prepare(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function in the precision of its inputs."""

        @functools.wraps(function)
        def run(*inputs: Any, **options: Any) -> Any:
            with _precision([x for _, x in leaves(inputs)]):
                return function(*inputs, **options)

        return run

    def vjp(self, function: Flat, inputs: Sequence[Any], moving: Sequence[int], d_outputs: Sequence[Any]) -> list[Any]:
        """Call ``jax.vjp``."""

        def of_moving(*moved: Any) -> list[Any]:
            places = dict(zip(moving, moved, strict=True))
            return function(*[places.get(i, x) for i, x in enumerate(inputs)])

        with _precision(inputs):
            _, pull_back = sys.modules["jax"].vjp(of_moving, *[inputs[i] for i in moving])
            return [_conjugate(gradient) for gradient in pull_back([_conjugate(d_output) for d_output in d_outputs])]


def _conjugate(x: Any) -> Any:
    """Return the complex conjugate, which JAX calls the gradient; a real array itself."""
    return x.conjugate() if np.iscomplexobj(x) else x


def _precision(inputs: Sequence[Any]) -> Any:
    """Return a context in which float64 is kept if one of the inputs has it."""
    jax = sys.modules["jax"]
    if not any(str(getattr(x, "dtype", "")) in ("float64", "complex128") for x in inputs):
        return nullcontext()  # the caller's own setting
    return (jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64)(True)


class MyGrad(Adapter):
    """MyGrad, whose tensors are NumPy arrays with a graph behind them."""

    name = "mygrad"
    why_no_second_order = "MyGrad's backward passes leave no graph"

    def recognises(self, x: Any) -> bool:
        """Return whether a value is a MyGrad tensor."""
        return library_of(x) == "mygrad" and hasattr(x, "dtype")

    def to_numpy(self, x: Any) -> Array:
        """Return a tensor's numbers."""
        return np.asarray(x.data) if self.recognises(x) else as_array(x)

    def like(self, array: Array, x: Any) -> Any:
        """Return a tensor."""
        return sys.modules["mygrad"].tensor(array)

    def vjp(self, function: Flat, inputs: Sequence[Any], moving: Sequence[int], d_outputs: Sequence[Any]) -> list[Any]:
        """Run the backward pass of MyGrad's graph."""
        terms = []
        for output, d_output in zip(function(*inputs), d_outputs, strict=True):
            if not self.recognises(output):
                kind = type(output).__name__
                raise Malformed(f"the value is of type {kind}, without a graph; return a MyGrad tensor")
            terms.append((output * self.to_numpy(d_output)).sum())
        sum(terms).backward()
        return [inputs[i].grad for i in moving]


class Autograd(Adapter):
    """HIPS autograd; its functions take and return NumPy arrays, and use ``autograd.numpy``."""

    name = "autograd"

    def recognises(self, x: Any) -> bool:
        """Return whether a value is a NumPy array or number."""
        return isinstance(x, np.ndarray | np.inexact)

    def like(self, array: Array, x: Any) -> Any:
        """Return a copy."""
        return array.copy(order="K")

    def vjp(self, function: Flat, inputs: Sequence[Any], moving: Sequence[int], d_outputs: Sequence[Any]) -> list[Any]:
        """Call ``autograd.make_vjp``."""
        autograd = sys.modules["autograd"]

        def conjugate(x: Any) -> Any:
            return sys.modules["autograd.numpy"].conj(x) if np.iscomplexobj(x) else x  # x may be under a derivative

        try:
            pull_back, _ = autograd.make_vjp(lambda *x: autograd.list(function(*x)), tuple(moving))(*inputs)
        except (TypeError, ValueError) as error:
            error.add_note("check: if this function does not use autograd.numpy, give its backward pass: backward=")
            raise
        return [conjugate(gradient) for gradient in pull_back([conjugate(d_output) for d_output in d_outputs])]
