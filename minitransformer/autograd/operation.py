"""Operations with a hand-written backward pass."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from minitransformer.arrays import Array, operand
from minitransformer.autograd.graph import _recording
from minitransformer.autograd.tensor import Tensor, edges_to, make_tensor


class Passes(NamedTuple):
    """The two passes of an operation."""

    forward: Callable[..., Any]
    backward: Callable[..., Any]


class Operation:
    """A function of tensors, made from a forward and a backward pass on arrays.

    Parameters
    ----------
    forward : callable
        ``forward(*arrays, **options) -> (value, saved)``: the value, and whatever the backward pass needs.
    backward : callable
        ``backward(saved, d_output) -> gradients``: a gradient, or None, for each positional parameter of ``forward``,
        in order; trailing parameters without a gradient may be left out. It must not write into ``saved`` or
        ``d_output``, which others may use, nor return an array that is stored elsewhere: gradients are added in place.
        With a parameter ``needs`` it is told which of them are wanted, one bool each, and need not compute the others.
    reference : callable, optional
        The same function in elementary operations on tensors, to check value and gradient.
    name : str, optional
        For messages; by default the name of the module that defines ``forward``.

    Attributes
    ----------
    forward, backward : callable
        The passes in use: those that were written, or what replaces them: a kernel of the array library in use, or a
        function given to ``override``.
    written : Passes
        The passes that were written.

    Examples
    --------
    >>> square = Operation(lambda x: (x * x, x), lambda x, d_y: (2 * x * d_y,), name="square")
    >>> x = Tensor([3.0], requires_grad=True)
    >>> square(x).backward()
    >>> x.grad
    array([6.])
    """

    def __init__(
        self,
        forward: Callable[..., tuple[Array, Any]],
        backward: Callable[[Any, Array], Sequence[Array | None]],
        reference: Callable[..., Tensor] | None = None,
        name: str | None = None,
    ) -> None:
        self.written = Passes(forward, backward)
        self.forward, self.backward = self.written
        self._selects = callable(backward) and "needs" in inspect.signature(backward).parameters
        self.reference = reference
        self.name = name or forward.__module__.rpartition(".")[2]
        self.__signature__ = self.signature = inspect.signature(forward)
        self.__doc__ = inspect.getdoc(forward) or self.__doc__

    def __call__(self, *inputs: Any, **options: Any) -> Tensor:
        """Run the forward pass; if an input requires a gradient, record a node with the backward pass.

        Inside `on_arrays` the value is returned as an array.
        """
        if _recording.arrays:
            return self.forward(*[x._data if isinstance(x, Tensor) else x for x in inputs], **options)[0]
        if options and any(isinstance(value, list) or hasattr(value, "dtype") for value in options.values()):
            # An argument passed by keyword is an input too: move it to its position in forward.
            bound = self.signature.bind(*inputs, **options)
            bound.apply_defaults()
            inputs, options = bound.args, bound.kwargs
            if any(isinstance(value, Tensor) for value in options.values()):
                raise TypeError(f"{self.name}: a tensor by keyword gets no gradient; make it positional in forward")
        result = self.forward(*[x._data if isinstance(x, Tensor) else operand(x) for x in inputs], **options)
        if not isinstance(result, tuple):
            raise TypeError(f"{self.name}: forward returned {type(result).__name__}, expected (value, saved)")
        value, saved = result
        edges = edges_to(inputs)
        selected = {"needs": tuple([edge is not None for edge in edges])} if self._selects else {}
        while edges and edges[-1] is None:  # trailing options have no gradient, and backward may leave them out
            edges.pop()
        return make_tensor(self, inputs, options, value, edges, lambda d: self.backward(saved, d, **selected))

    def __repr__(self) -> str:
        return f"Operation({self.name})"
