"""Mistakes in the autograd core: in the walk over the graph, in unbroadcast, and in the elementary rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from wrong_entry import Entry, Weak, case, normal

import minitransformer as mt
from minitransformer import Operation, Tensor
from minitransformer.autograd import graph, rules, tensor

CORE: list[Entry] = []
X, Y = normal(3, 4, seed=1), normal(3, 4, seed=2)


def add(operation: str, function: Callable[..., Tensor], mistake: Any, **texts: Any) -> None:
    """Enter a function whose gradient a mistake in the core makes wrong."""
    CORE.append(Entry(operation=operation, wrong=function, right=function, mistake=mistake, **texts))


def simpler(function: Callable[..., Tensor], *inputs: Any, **options: Any) -> Weak:
    """Return a weak test on another function, which does not bring the mistake to light."""
    return Weak(wrong=function, right=function, example=case(*inputs), **{"cotangent": "random", **options})


# ---------------------------------------------------------------------------------------------------------------------
# The walk over the graph


def walk(order: Callable[[Any], list[Any]], deliver: Callable[..., None], kept: dict[Any, Any] | None = None) -> Any:
    """Return a backward pass made of an order of the nodes and a way to deliver gradients."""

    def backpropagate(root: Any, d_output: Any, release: bool = False) -> None:
        received = {} if kept is None else kept
        received[root] = d_output
        for node in order(root):
            for edge, gradient in zip(node.edges, node.gradients(received[node]), strict=False):
                if edge is not None and gradient is not None:
                    deliver(received, edge.target, gradient)
        for leaf in [target for target in received if isinstance(target, Tensor)]:
            graph.accumulate(leaf, received.pop(leaf))

    return backpropagate


def inner(node: Any) -> Iterator[Any]:
    """Yield the nodes that made a node's inputs."""
    return (edge.target for edge in node.edges if edge is not None and isinstance(edge.target, graph.Node))


def topological(root: Any, found: list[Any] | None = None) -> list[Any]:
    """Return every node after all of its users: right."""
    found = [] if found is None else found
    if root not in found:
        for other in inner(root):
            topological(other, found)
        found.insert(0, root)
    return found


def depth_first(root: Any, found: list[Any] | None = None) -> list[Any]:
    """Return every node when it is first met: wrong."""
    found = [] if found is None else found
    if root not in found:
        found.append(root)
        for other in inner(root):
            depth_first(other, found)
    return found


def breadth_first(root: Any) -> list[Any]:
    """Return the nodes by their distance from the root: wrong."""
    found = [root]
    for node in found:
        found += [other for other in dict.fromkeys(inner(node)) if other not in found]
    return found


def every_path(root: Any) -> list[Any]:
    """Return a node once for each path to it: wrong, as each time it sends on all that it has received."""
    return [root, *(node for other in inner(root) for node in every_path(other))]


def added(received: dict[Any, Any], target: Any, gradient: Any) -> None:
    """Add to what has been received: right."""
    received[target] = received[target] + gradient if target in received else gradient


def replaced(received: dict[Any, Any], target: Any, gradient: Any) -> None:
    """Forget what has been received: wrong."""
    received[target] = gradient


def added_in_place(received: dict[Any, Any], target: Any, gradient: Any) -> None:
    """Add into the array that came first: wrong, as others may hold it."""
    if target in received:
        received[target] += gradient
    else:
        received[target] = gradient


def core(order: Any = topological, deliver: Any = added) -> Callable[[], AbstractContextManager[Any]]:
    """Put another backward pass in place of the core's."""
    return lambda: patch.object(tensor, "backpropagate", walk(order, deliver))


def through_the_core(function: Callable[..., Tensor]) -> Operation:
    """Make an operation whose backward pass is the core's, so that ``prove`` can run it twice on one graph."""

    def forward(*arrays: Any) -> Any:
        leaves = [Tensor(x, requires_grad=True) for x in arrays]
        y = function(*leaves)
        return y.data, (leaves, y)

    def backward(saved: Any, d_y: Any) -> Any:
        leaves, y = saved
        for leaf in leaves:
            leaf.grad = None
        y.backward(d_y)
        return [leaf.grad for leaf in leaves]

    return Operation(forward, backward, name="core")


def diamond(x: Tensor) -> Tensor:
    """Use an inner node twice, on paths of different lengths; the shorter one first."""
    h = x.tanh()
    return h * h.exp()


def chain(x: Tensor) -> Tensor:
    """Use every node once."""
    return x.tanh().exp()


add("the walk", diamond, core(deliver=replaced), name="core: = for +=", example=case(X), weak=simpler(chain, X))
add(
    "the walk",
    diamond,
    core(order=depth_first),
    name="core: depth first",
    example=case(X),
    weak=simpler(lambda x: (h := x.tanh()).exp() * h, X),
)
add(
    "the walk",
    diamond,
    core(order=breadth_first),
    name="core: by distance",
    example=case(X),
    weak=simpler(lambda x: (h := x.tanh()).exp() * h.sigmoid(), X),
)
add(
    "the walk",
    diamond,
    core(order=every_path),
    name="core: once for each path",
    example=case(X),
    weak=simpler(lambda x: x * x.exp(), X),
)


@contextmanager
def gradients_stay_on_nodes() -> Iterator[None]:
    """Let what a node has received stay there for the next backward pass."""
    with patch.object(tensor, "backpropagate", walk(topological, added, kept={})):
        yield


add(
    "the walk",
    through_the_core(diamond),
    gradients_stay_on_nodes,
    name="core: the second backward pass",
    example=case(X),
    message="not the same when backward runs a second time",
    weak=Weak(cotangent="random"),
)
add(
    "the walk",
    lambda x, y: x * y + (x + y),
    core(deliver=added_in_place),
    name="core: += into a shared array",
    example=case(X, Y),
    weak=simpler(lambda x, y: x + y, X, Y),
)


def accumulate_without_copy(leaf: Tensor, gradient: Any, own: bool = False) -> None:
    """Keep the array that arrives; somebody else may hold it."""
    leaf.grad = gradient if leaf.grad is None else leaf.grad + gradient


add(
    "the walk",
    through_the_core(lambda x, y: x + y),
    lambda: patch.object(graph, "accumulate", accumulate_without_copy),
    name="core: two leaves, one array",
    example=case(X, Y),
    message="shares memory with",
    weak=Weak(cotangent="random"),
)


# ---------------------------------------------------------------------------------------------------------------------
# Broadcasting


def unbroadcast_as(function: Callable[..., Any]) -> Callable[[], AbstractContextManager[Any]]:
    """Put another function in place of unbroadcast, where shapes differ."""
    return lambda: patch.object(tensor, "unbroadcast", lambda d, shape: d if d.shape == shape else function(d, shape))


@contextmanager
def never_unbroadcast() -> Iterator[None]:
    """Hand gradients on as they are, without a look at their shape."""
    with (
        patch.object(tensor, "unbroadcast", lambda d, shape: d),
        patch.object(graph.Node, "gradients", lambda self, d_output: list(self.backward(d_output))),
    ):
        yield


def scaled_by_a_row(x: Tensor, y: Tensor) -> Tensor:
    """Multiply: an axis of y is repeated."""
    return x * y


add(
    "unbroadcast",
    scaled_by_a_row,
    never_unbroadcast,
    name="unbroadcast: missing",
    example=case(X, normal(1, 4)),
    message="has shape",
    weak=simpler(scaled_by_a_row, X, Y),
)
add(
    "unbroadcast",
    scaled_by_a_row,
    unbroadcast_as(lambda d, shape: d[:1].reshape(shape)),
    name="unbroadcast: the first copy only",
    example=case(X, normal(1, 4)),
    weak=simpler(scaled_by_a_row, normal(1, 4), normal(4)),
)
add(
    "unbroadcast",
    scaled_by_a_row,
    unbroadcast_as(lambda d, shape: d.mean(axis=0).reshape(shape)),
    name="unbroadcast: mean for sum",
    example=case(X, normal(1, 4)),
    weak=simpler(scaled_by_a_row, normal(1, 4), normal(4)),
)
add(
    "unbroadcast",
    lambda x, y: x + y,
    unbroadcast_as(lambda d, shape: d.sum(axis=0).reshape(shape)),
    name="unbroadcast: along the wrong axis",
    example=case(normal(4, 4), normal(4, 1)),
    weak=Weak(),
)


# ---------------------------------------------------------------------------------------------------------------------
# Elementary rules


def rule(name: str, *gradients: Any, forward: Any = None) -> Callable[[], AbstractContextManager[Any]]:
    """Put other gradients into the table of rules; None keeps the one that is there."""
    right = rules.RULES[name]
    kept = tuple(new or old for new, old in zip(gradients, right.gradients, strict=True))
    return lambda: patch.dict(rules.RULES, {name: rules.Rule(forward or right.forward, kept)})


def full_share(d: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    """Give each of the largest entries the whole gradient."""
    return rules._spread(d, x.shape, axis, keepdims) * (x == x.max(axis=axis, keepdims=True))


add(
    "max",
    lambda x: mt.stack([x, x]).max(axis=0),
    rule("max", full_share),
    name="max: ties each get all",
    example=case(X),
    weak=simpler(lambda x: x.max(axis=0), X),
)
add(
    "maximum",
    lambda x: mt.maximum(x, x),
    rule("maximum", lambda d, x, y: d * (x > y), lambda d, x, y: d * (y > x)),
    name="maximum: ties get nothing",
    example=case(X),
    weak=simpler(lambda x, y: mt.maximum(x, y), X, Y),
)
FLAT_ROW, ZERO_ENTRY = X.copy(), X.copy()
FLAT_ROW[1] = 0
ZERO_ENTRY[1, 2] = 0


def product_over_entry(d: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    """Divide the product by each entry, also by 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return rules._spread(d, x.shape, axis, keepdims) * (x.prod(axis=axis, keepdims=True) / x)


def over_length(d: Any, x: Any, length: Any, axis: Any, keepdims: bool) -> Any:
    """Divide by the length, also by that of a vector of zeros."""
    with np.errstate(invalid="ignore"):
        return rules._spread(d, x.shape, axis, keepdims) * (x / length)


add(
    "prod",
    lambda x: x.prod(axis=1),
    rule("prod", product_over_entry),
    name="prod: divided by the entry",
    example=case(ZERO_ENTRY),
    weak=simpler(lambda x: x.prod(axis=1), X),
)
add(
    "norm",
    lambda x: x.norm(axis=1),
    rule("norm", over_length),
    name="norm: NaN at zero",
    example=case(FLAT_ROW),
    weak=simpler(lambda x: x.norm(axis=1), X),
)
add(
    "cumsum",
    lambda x: x.cumsum(axis=1),
    rule("cumsum", lambda d, shape, axis: d.cumsum(axis).reshape(shape)),
    name="cumsum: not reversed",
    example=case(X),
    weak=Weak(numbers=False),
)
add(
    "matmul",
    lambda x, w: x @ w,
    rule("matmul", None, lambda d, x, y: (x.swapaxes(-1, -2) @ d)[:1].reshape(y.shape)),
    name="matmul: batch not summed",
    example=case(normal(3, 2, 4), normal(4, 5)),
    weak=simpler(lambda x, w: x @ w, normal(1, 2, 4), normal(4, 5)),
)
add(
    "matmul",
    lambda x, w: x @ w,
    rule("matmul", lambda d, x, y: d @ y, None),
    name="matmul: not transposed",
    example=case(normal(4, 4), normal(4, 4, seed=2)),
    weak=Weak(numbers=False),
)
add(
    "divide",
    lambda x, y: x / y,
    rule("divide", None, lambda d, q, y: d * q / y),
    name="divide: sign",
    example=case(X, Y + 4),
    weak=simpler(lambda x: x / 3.0, X),
)
add(
    "power",
    lambda x: x**3,
    rule("power", lambda d, x, p: d * x ** (p - 1), None),
    name="power: factor",
    example=case(X),
    weak=simpler(lambda x: x**1, X),
)


def log_of_base(d: Any, x: Any, p: Any) -> Any:
    """Take the logarithm of 0 as it comes."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return d * x**p * np.log(x)


add(
    "power",
    lambda x, p: x**p,
    rule("power", None, log_of_base),
    name="power: logarithm of zero",
    example=case(np.array([0.0, 0.5, 2.0]), np.array([2.0, 2.5, 3.0])),
    weak=simpler(lambda x, p: x**p, np.array([1.5, 0.5, 2.0]), np.array([2.0, 2.5, 3.0])),
)
add(
    "tanh",
    lambda x: x.tanh(),
    rule("tanh", lambda d, x: d * (1 - x * x), forward=lambda x: (np.tanh(x), (x,))),
    name="tanh: input for output",
    example=case(X),
    weak=Weak(example=case(0.05 * X), absolute=1e-2),
)
add(
    "sum",
    lambda x: x.sum(axis=1),
    rule("sum", lambda d, shape, axis, keepdims: np.broadcast_to(d, shape)),
    name="sum: spread along the wrong axis",
    example=case(normal(4, 4)),
    weak=Weak(),
)
add(
    "transpose",
    lambda x: x.transpose(1, 2, 0),
    rule("transpose", lambda d, axes: d.transpose(axes)),
    name="transpose: order not inverted",
    example=case(normal(3, 3, 3)),
    weak=simpler(lambda x: x.transpose(1, 0, 2), normal(3, 3, 3)),
)


def set_at_index(d: Any, shape: Any, index: Any) -> Any:
    """Put the gradients of ``x[index]`` in their places; where two meet, the last remains."""
    result = np.zeros(shape, dtype=d.dtype)
    result[index] = d
    return result


add(
    "index",
    lambda x: x[np.array([2, 0, 2])],
    rule("index", set_at_index),
    name="index: = for repeated indices",
    example=case(X),
    weak=simpler(lambda x: x[np.array([2, 0])], X),
)


def joined(axis: int, cut: Callable[..., list[Any]]) -> Operation:
    """Return a concatenation along an axis with some way to cut the gradient."""

    def forward(*arrays: Any) -> Any:
        return np.concatenate(arrays, axis=axis), [x.shape for x in arrays]

    return Operation(forward, lambda shapes, d_y: cut(shapes, d_y), name="concatenate")


def cut_in_flat_memory(shapes: Any, d_y: Any) -> list[Any]:
    """Cut the gradient as if its entries lay one input after another."""
    sizes = [int(np.prod(shape)) for shape in shapes]
    parts = np.split(d_y.reshape(-1), np.cumsum(sizes)[:-1])
    return [part.reshape(shape).copy() for part, shape in zip(parts, shapes, strict=True)]


def cut_backwards(shapes: Any, d_y: Any) -> list[Any]:
    """Cut at the right joints and hand out the parts from the last to the first."""
    return [part.copy() for part in np.split(d_y, len(shapes), axis=1)][::-1]


CORE += [
    Entry(
        name="std: the root of the variance",
        operation="std",
        wrong=lambda x: x.var(axis=1).sqrt(),
        right=lambda x: x.std(axis=1),
        example=case(FLAT_ROW),
        mistake=lambda: np.errstate(divide="ignore", invalid="ignore"),
        weak=Weak(example=case(X), cotangent="random"),
    ),
    Entry(
        name="concatenate: cut in flat memory",
        operation="concatenate",
        wrong=lambda x, y: joined(1, cut_in_flat_memory)(x, y),
        right=lambda x, y: mt.concatenate([x, y], axis=1),
        example=case(normal(3, 4), normal(3, 2)),
        weak=Weak(
            wrong=lambda x, y: joined(0, cut_in_flat_memory)(x, y),
            right=lambda x, y: mt.concatenate([x, y]),
            example=case(X, normal(2, 4)),
            cotangent="random",
        ),
    ),
    Entry(
        name="concatenate: parts in the wrong order",
        operation="concatenate",
        wrong=lambda x, y: joined(1, cut_backwards)(x, y),
        right=lambda x, y: mt.concatenate([x, y], axis=1),
        example=case(X, Y),
        weak=Weak(),
    ),
]
