"""Functions of PyTorch tensors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitransformer.arrays import Array
from minitransformer.testing.adapters.base import Adapter, Flat, Malformed, as_array, library_of
from minitransformer.testing.dtypes import is_bfloat16

REFUSALS = "returned an invalid gradient", "returned an incorrect number of gradients", "expected Variable or None"
"""Words of the errors with which PyTorch refuses what the backward pass of an ``autograd.Function`` returns."""


class PyTorch(Adapter):
    """PyTorch; the caller has imported it, as the inputs are its tensors."""

    name = "torch"

    def recognises(self, x: Any) -> bool:
        """Return whether a value is a PyTorch tensor."""
        return library_of(x) == "torch" and hasattr(x, "detach")

    def to_numpy(self, x: Any) -> Array:
        """Return a tensor's numbers on the host."""
        if not self.recognises(x):
            return as_array(x, "the value")
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
        try:
            found = torch.autograd.grad(
                outputs, [inputs[i] for i in moving], cotangents, allow_unused=True, create_graph=again
            )
        except RuntimeError as error:
            if any(words in str(error) for words in REFUSALS):
                what = "return a tensor of the shape of each input of forward, or None"
                raise Malformed(f"PyTorch refuses a gradient: {error}; {what}") from None
            raise
        gradients = dict(zip(moving, found, strict=True))
        return [gradients.get(i) for i in range(len(inputs))]


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
