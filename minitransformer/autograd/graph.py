"""The graph that a computation leaves behind, and the backward pass over it.

Every operation on tensors makes one ``Node``. A node knows how to turn the gradient of its output, ``d_output``,
into the gradients of its inputs, and its edges lead to the nodes that made those inputs, or to the leaf
tensors themselves. Gradients are named ``d_`` + name and mean the derivative of one number, the loss L, with
respect to each entry: ``d_x[i] = dL/dx[i]``.

The backward pass is the chain rule, walked from the loss to the leaves. A node may be used many times; its
``d_output`` is the *sum* over all uses, so a node's turn comes only when all of its users have had theirs.
The pass first counts the uses and then counts them down. Each node and each edge is visited once, and there
is no recursion, so depth is no limit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from minitransformer.arrays import Array, xp

if TYPE_CHECKING:
    from minitransformer.autograd.tensor import Tensor

__all__ = ["Edge", "Node", "backpropagate", "is_recording", "no_grad"]


class Edge(NamedTuple):
    """The way from a node back to one of its inputs."""

    target: Node | Tensor
    """The node that made the input, or the input itself if it is a leaf."""
    shape: tuple[int, ...]
    dtype: Any


class Node:
    """One operation that was done.

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
        """Run the backward function and hold what it returns against the inputs' shapes."""
        assert self.backward is not None  # backpropagate has looked
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
                f"{self.name}: backward returned {len(gradients)} gradients for {len(self.edges)} inputs; "
                "it must return one for each input, None where there is none"
            )
        for i, (edge, gradient) in enumerate(zip(self.edges, gradients, strict=False)):
            if edge is None or gradient is None:
                continue
            gradients[i] = gradient = xp.asarray(gradient)
            if gradient.shape != edge.shape:
                raise ValueError(
                    f"{self.name}: the gradient of input {i} has shape {gradient.shape}, "
                    f"but the input has shape {edge.shape}"
                )
            if gradient.dtype != edge.dtype:
                gradients[i] = gradient.astype(edge.dtype)
        return gradients


class _Recording(threading.local):
    pauses = 0  # how many no_grad() this thread is inside of


_recording = _Recording()


def is_recording() -> bool:
    """Tell whether operations leave nodes behind, in this thread."""
    return not _recording.pauses


class no_grad:
    """Do without a graph: inside ``with no_grad():`` no operation leaves a node behind."""

    def __enter__(self) -> None:
        _recording.pauses += 1

    def __exit__(self, *exception: object) -> None:
        _recording.pauses -= 1


def backpropagate(root: Node, d_output: Array, release: bool = False) -> None:
    """Carry a gradient from a node back to every leaf that it depends on, and add it to ``leaf.grad``.

    Parameters
    ----------
    root : Node
        Where to start.
    d_output : array
        The gradient of the root's output.
    release : bool
        Let go of each node's saved arrays once it is done, so that memory falls as the pass runs. The graph
        cannot be used a second time then.
    """
    # How many uses of each node's output, and of each leaf, have not yet sent their gradient?
    waiting: dict[Node | Tensor, int] = {root: 0}
    stack = [root]
    while stack:
        node = stack.pop()
        if node.backward is None:  # before any leaf has received anything
            raise RuntimeError(
                f"{node.name}: this part of the graph was released by an earlier backward(release=True); "
                "compute the value again, or leave release out"
            )
        for edge in node.edges:
            if edge is None:
                continue
            if edge.target not in waiting and isinstance(edge.target, Node):
                stack.append(edge.target)
            waiting[edge.target] = waiting.get(edge.target, 0) + 1

    received: dict[Node | Tensor, Array] = {root: d_output}
    own: set[Node | Tensor] = set()  # those whose received sum is an array that nobody else holds
    ready = [root]
    while ready:
        node = ready.pop()
        edges = node.edges
        d_node = received.pop(node, None)
        gradients = [None] * len(edges) if d_node is None else node.gradients(d_node)
        own.discard(node)
        if release:
            node.backward, node.edges = None, ()
        for i, edge in enumerate(edges):
            if edge is None:
                continue
            target, gradient = edge.target, gradients[i]
            if gradient is not None and target in own:
                received[target] += gradient
            elif gradient is not None:
                earlier = received.get(target)
                only = earlier is None and waiting[target] == 1 and isinstance(target, Node)
                new = not only and _is_new(i, gradients, d_node)
                if earlier is not None:
                    gradient, new = xp.add(earlier, gradient, out=gradient if new else None), True
                received[target] = gradient
                if new:
                    own.add(target)
            waiting[target] -= 1
            if waiting[target]:
                continue
            if isinstance(target, Node):
                ready.append(target)
            elif target in received:
                accumulate(target, received.pop(target), target in own)


def _is_new(i: int, gradients: Sequence[Array | None], d_output: Array | None) -> bool:
    """Tell whether backward has made gradient i for this input alone, so that sums may be written into it."""
    gradient: Any = gradients[i]
    flags = gradient.flags
    if not (flags.c_contiguous and getattr(flags, "writeable", True)):  # a broadcast number stands for several
        return False
    for j, other in enumerate(gradients):
        if j != i and other is not None and xp.may_share_memory(gradient, other):
            return False
    return d_output is None or not xp.may_share_memory(gradient, d_output)


def accumulate(leaf: Tensor, gradient: Array, own: bool = False) -> None:
    """Add a gradient to ``leaf.grad``; the first one becomes it, as a copy unless nobody else holds the array."""
    if leaf.grad is not None:
        leaf.grad += gradient
    elif own and isinstance(gradient, xp.ndarray) and gradient.dtype == leaf.data.dtype and gradient.flags.c_contiguous:
        leaf.grad = gradient
    else:
        leaf.grad = xp.array(gradient, dtype=leaf.data.dtype, order="C")
