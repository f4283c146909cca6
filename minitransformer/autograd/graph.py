"""The graph that a computation records, and the backward pass over it.

Every operation on tensors makes one ``Node``. A node knows how to turn the gradient of its output, ``d_output``, into
the gradients of its inputs, and its edges lead to the nodes that made those inputs, or to the leaf tensors themselves.
The gradient of ``x`` is named ``d_x``: the derivative of one number, the loss L, with respect to each entry, ``d_x[i] =
dL/dx[i]``.

The backward pass applies the chain rule from the loss to the leaves. A node may be used many times; its ``d_output`` is
the *sum* over all uses, so a node runs only after all of its users. The pass first counts the
uses and then counts them down. Each node and each edge is visited once. There is no recursion, so the depth of the
graph is not limited.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeAlias, TypeVar

from minitransformer.arrays import Array, Watch, xp

P = ParamSpec("P")
R = TypeVar("R")

if TYPE_CHECKING:
    from minitransformer.autograd.tensor import Tensor

    Target: TypeAlias = "Node | Tensor"
    Watching: TypeAlias = Callable[[Any, Sequence[Any], Mapping[str, Any], Tensor], None]


class Edge(NamedTuple):
    """The link from a node back to one of its inputs."""

    target: Target
    """The node that made the input, or the input itself if it is a leaf."""
    shape: tuple[int, ...]
    dtype: Any
    watch: Watch | None
    """Detects changes of a leaf's values."""


class Node:
    """One executed operation.

    Parameters
    ----------
    name : str
        The operation, for messages and pictures.
    edges : sequence of Edge or None
        One for each input; None where no gradient is wanted.
    backward : callable
        ``backward(d_output) -> gradients``, one for each input; None where there is none.
    """

    __slots__ = ("backward", "edges", "name")

    def __init__(
        self, name: str, edges: Sequence[Edge | None], backward: Callable[[Array], Sequence[Array | None]]
    ) -> None:
        self.name = name
        self.edges = edges
        self.backward: Callable[[Array], Sequence[Array | None]] | None = backward

    def gradients(self, d_output: Array) -> Sequence[Array | None]:
        """Run the backward function and compare the shapes of its gradients with those of the inputs."""
        assert self.backward is not None  # checked by backpropagate
        try:
            returned = self.backward(d_output)
        except Exception as error:
            error.add_note(f"(in the backward pass of {self.name}, d_output of shape {d_output.shape})")
            raise
        if not isinstance(returned, tuple | list):
            raise TypeError(f"{self.name}: backward returned {type(returned).__name__}, expected a tuple of gradients")
        gradients = list(returned)
        if len(gradients) < len(self.edges):
            raise ValueError(
                f"{self.name}: the number of gradients from backward ({len(gradients)}) is below that of the inputs "
                f"({len(self.edges)}); return one for each input, None where there is none"
            )
        for i, (edge, gradient) in enumerate(zip(self.edges, gradients, strict=False)):
            if edge is None or gradient is None:
                continue
            gradients[i] = gradient = xp.asarray(gradient, dtype=edge.dtype)
            if gradient.shape != edge.shape:
                raise ValueError(
                    f"{self.name}: the gradient of input {i} has shape {gradient.shape}, "
                    f"but the input has shape {edge.shape}"
                )
        return gradients


class _Recording(threading.local):
    pauses = 0  # the number of nested no_grad() blocks of this thread
    arrays = 0  # of which are on_arrays() blocks
    watch: Watching | None = None  # the hook of this thread


_recording = _Recording()


@contextmanager
def watching_operations(watch: Watching) -> Iterator[None]:
    """Call a hook after each operation and elementary rule that runs inside the ``with`` block, in this thread.

    `on_arrays` leaves it out, so it sees nothing of ``Model.step``.

    Parameters
    ----------
    watch : callable
        ``watch(operation, inputs, options, result)``: the `Operation`, or the name of the rule; what it was called
        with; and the tensor, whose node has the backward pass with all that was saved. The hook may replace the
        tensor's values and the node's backward pass. It replaces the hook of an outer block.
    """
    outer, _recording.watch = _recording.watch, watch
    try:
        yield
    finally:
        _recording.watch = outer


def is_recording() -> bool:
    """Return whether operations record nodes in this thread."""
    return not _recording.pauses


class no_grad:
    """Record no graph: inside ``with no_grad():``, or a function after ``@no_grad()``, operations create no nodes."""

    def __enter__(self) -> None:
        _recording.pauses += 1

    def __exit__(self, *exception: object) -> None:
        _recording.pauses -= 1

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return the function so that it records no graph.

        Raises
        ------
        TypeError
            For a generator or a coroutine, whose code runs after the call.
        """
        if isgeneratorfunction(function) or iscoroutinefunction(function) or isasyncgenfunction(function):
            raise TypeError(
                f"no_grad: the code of {function.__name__} runs after the call; write `with no_grad():` inside it"
            )

        @wraps(function)
        def without_graph(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return without_graph


class on_arrays(no_grad):
    """Compute on arrays: inside ``with on_arrays():`` operations record no graph and return arrays, not tensors.

    A step of decoding computes so little that making its tensors would take a third of the time. Results lack the
    methods of tensors, so code inside calls functions: ``mt.relu(x)``, not ``x.relu()``. No hook is called.
    """

    def __enter__(self) -> None:
        _recording.pauses += 1
        _recording.arrays += 1

    def __exit__(self, *exception: object) -> None:
        _recording.pauses -= 1
        _recording.arrays -= 1


def backpropagate(root: Node, d_output: Array, release: bool = False) -> None:
    """Propagate a gradient from a node back to every leaf that it depends on, and add it to ``leaf.grad``.

    Parameters
    ----------
    root : Node
        Where to start.
    d_output : array
        The gradient of the root's output.
    release : bool
        Free each node's saved arrays once it is done, so that memory falls as the pass runs. The graph cannot be used a
        second time then.
    """
    waiting = count_uses(root)
    sums = GradientSums(root, d_output)
    ready = [root]
    while ready:
        node = ready.pop()  # all of its users have sent their gradient
        edges, d_node = node.edges, sums.take(node)
        gradients = [None] * len(edges) if d_node is None else node.gradients(d_node)
        if release:
            node.backward, node.edges = None, ()
        for edge, gradient in zip(edges, gradients, strict=False):
            if edge is None:
                continue
            target = edge.target
            if gradient is not None:
                sums.add(target, gradient, gradients, d_node)
            waiting[target] -= 1
            if not waiting[target]:
                if isinstance(target, Node):
                    ready.append(target)
                elif (d_leaf := sums.take(target)) is not None:
                    accumulate(target, d_leaf, target in sums.own)


def count_uses(root: Node) -> dict[Target, int]:
    """Return how often each node's output, and each leaf, is used in computing the root's output."""
    uses: dict[Target, int] = {root: 0}
    stack = [root]
    while stack:
        node = stack.pop()
        if node.backward is None:  # before any leaf has received anything
            raise RuntimeError(
                f"{node.name}: this part of the graph was released by an earlier backward(release=True); "
                "compute the value again, or leave release out"
            )
        for edge in filter(None, node.edges):
            if edge.watch is not None and edge.watch.has_changed():
                raise RuntimeError(
                    f"{node.name}: an input was changed in place after it was used: its .data was written to, or "
                    "an optimiser made a step; compute the value again, or assign a new array to .data"
                )
            if edge.target not in uses and isinstance(edge.target, Node):
                stack.append(edge.target)
            uses[edge.target] = uses.get(edge.target, 0) + 1
    return uses


class GradientSums:
    """The sum of the gradients that each node, and each leaf, has received so far.

    The first gradient is kept without a copy. Others may refer to the same array (an addition passes its ``d_output``
    to both inputs), so the second gradient is added into a new array. From then on the sum is written in place.
    """

    def __init__(self, root: Node, d_output: Array) -> None:
        self._sums: dict[Target, Array] = {root: d_output}
        self.own: set[Target] = set()
        """The targets whose sum is an array that nothing else refers to."""

    def add(self, target: Target, gradient: Array, gradients: Sequence[Array | None], d_node: Array | None) -> None:
        """Add to a target's sum one of the gradients that a node has returned for ``d_node``."""
        earlier = self._sums.get(target)
        if earlier is None:
            self._sums[target] = gradient
            if not isinstance(target, Node) and _is_new(gradient, gradients, d_node):
                self.own.add(target)  # it may become leaf.grad
        elif target in self.own:
            self._sums[target] += gradient  # by its key: NumPy's sum of arrays without axes is a number
        else:
            out = gradient if _is_new(gradient, gradients, d_node) else None
            self._sums[target] = xp.add(earlier, gradient, out=out)
            self.own.add(target)

    def take(self, target: Target) -> Array | None:
        """Return a target's sum and remove it; None if it has received no gradient."""
        return self._sums.pop(target, None)


def _is_new(gradient: Any, gradients: Sequence[Array | None], d_node: Array | None) -> bool:
    """Return whether a node computed this gradient for one input only, so that others may be added into it."""
    if not (gradient.flags.c_contiguous and getattr(gradient.flags, "writeable", True)):  # a broadcast number
        return False
    return sum(other is not None and xp.may_share_memory(gradient, other) for other in (d_node, *gradients)) == 1


def accumulate(leaf: Tensor, gradient: Array, own: bool = False) -> None:
    """Add a gradient to ``leaf.grad``; the first one is stored, as a copy if anything else refers to the array."""
    leaf._watch = None  # from here on its values may change
    if leaf.grad is not None:
        leaf.grad += gradient
    elif own and isinstance(gradient, xp.ndarray) and gradient.dtype == leaf.dtype and gradient.flags.c_contiguous:
        leaf.grad = gradient
    else:
        leaf.grad = xp.array(gradient, dtype=leaf.dtype, order="C")
