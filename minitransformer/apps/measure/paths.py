"""The graph of a layer, position by position: how long its chains and its paths are.

Each position x_1 ... x_n is its own leaf, and each position of a layer is computed by one call of the operation, on the
positions that it reads: one step of the recurrence, one query with the keys that it sees, one place of the kernel.
Autograd records the graph as in training. Two lengths are read from the recorded nodes and edges:

- the longest chain: how many steps must run one after another, from any input to any output;
- the shortest path from input i to output j: the smallest number of steps between them.

Only calls of the operation are steps. Nodes that put positions side by side or take one out move numbers and compute
nothing: they have length 0. The recurrence looks back only, and so do the kernels, with dilation k^l in layer l:
their outputs do not depend on later inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from minitransformer import ops
from minitransformer.apps.measure.layers import LAYERS, Layer, LayerSizes
from minitransformer.apps.measure.powers import fit_powers
from minitransformer.arrays import Array, xp
from minitransformer.autograd import Node, Operation, Tensor, concatenate, edges_to

WIDTH = 2
"""The width of a position here: a graph is the same at any width."""
DRAWN = LayerSizes(n=8, d=WIDTH, k=3, r=2)
"""Where the graphs in the picture are from."""
FAR = LayerSizes(n=64, d=32, k=4, r=4)
"""Where the path lengths in the table are from, and where Table 1 measures gradients."""
CHAINS = (8, 16, 32, 64)
"""The lengths of the sentences in which chains are measured."""


class Arrow(NamedTuple):
    """One position of a layer reads another; layer 0 is the inputs."""

    from_layer: int
    from_position: int
    layer: int
    position: int


class LayerGraph(NamedTuple):
    """A layer, position by position."""

    operation: Operation
    """The operation; its calls are the steps."""
    build: Callable[[list[Tensor], LayerSizes, int], list[Tensor]]
    """``build(positions, sizes, depth) -> positions``, where depth counts the layers below."""
    one_way: bool = False
    """Whether a position can depend on itself and earlier ones only."""


def _attention(x: list[Tensor], sizes: LayerSizes, depth: int) -> list[Tensor]:
    keys = concatenate(x, axis=1)
    return [ops.scaled_dot_product_attention(query, keys, keys) for query in x]


def _restricted_attention(x: list[Tensor], sizes: LayerSizes, depth: int) -> list[Tensor]:
    y = []
    for i, query in enumerate(x):
        keys = concatenate(x[max(i - sizes.r, 0) : i + sizes.r + 1], axis=1)
        y.append(ops.scaled_dot_product_attention(query, keys, keys))
    return y


def _recurrence(x: list[Tensor], sizes: LayerSizes, depth: int) -> list[Tensor]:
    w, b = xp.eye(sizes.d) / 2, xp.zeros(sizes.d)
    y = [ops.recurrence(x[0], w, w, b)]
    for x_t in x[1:]:
        y.append(ops.recurrence(x_t, w, w, b, y[-1].reshape(1, sizes.d)))
    return y


def _convolution(x: list[Tensor], sizes: LayerSizes, depth: int) -> list[Tensor]:
    """Return a causal kernel: a centred one misses pairs with a path through a place outside the sentence."""
    weight = xp.stack([xp.eye(sizes.d)] * sizes.k) / sizes.k
    outside = Tensor(xp.zeros((1, 1, sizes.d)))
    dilation = sizes.k**depth
    y = []
    for t in range(len(x)):
        read = [t - back * dilation for back in reversed(range(sizes.k))]
        window = concatenate([x[i] if i >= 0 else outside for i in read], axis=1)
        y.append(ops.convolution(window, weight, causal=True)[:, -1:])
    return y


GRAPHS = {
    "self-attention": LayerGraph(ops.scaled_dot_product_attention, _attention),
    "recurrent": LayerGraph(ops.recurrence, _recurrence, one_way=True),
    "convolutional": LayerGraph(ops.convolution, _convolution, one_way=True),
    "restricted self-attention": LayerGraph(ops.scaled_dot_product_attention, _restricted_attention),
}
"""By the names of Table 1."""


def stack_layers(name: str, sizes: LayerSizes, most: int | None = None) -> list[list[Tensor]]:
    """Stack layers until every output depends on every input, or in one-way layers on every input up to its own.

    Parameters
    ----------
    name : str
        A layer of Table 1, as in ``GRAPHS``.
    sizes : LayerSizes
        Kernels have a dilation of k^l in layer l = 0, 1, 2, ...
    most : int, optional
        How many layers to stack at most.

    Returns
    -------
    list of list of Tensor
        The n inputs, then the n positions of each layer.
    """
    graph = GRAPHS[name]
    rng = np.random.default_rng(0)
    inputs = [Tensor(xp.asarray(rng.normal(size=(1, 1, sizes.d))), requires_grad=True) for _ in range(sizes.n)]
    layers = [inputs]
    while len(layers) - 1 < (sizes.n if most is None else most):
        layers.append(graph.build(layers[-1], sizes, len(layers) - 1))
        depends = np.isfinite(shortest_paths(graph.operation.name, inputs, layers[-1]))
        if (depends | np.triu(np.ones_like(depends), 1) if graph.one_way else depends).all():
            break
    return layers


def _target(tensor: Tensor) -> Node | Tensor:
    """Return the node that made a tensor, or the tensor if it is a leaf."""
    (edge,) = edges_to([tensor])
    assert edge is not None
    return edge.target


def _targets(node: Node) -> Iterator[Node | Tensor]:
    return (edge.target for edge in node.edges if edge is not None)


def _inputs_first(outputs: Sequence[Tensor]) -> list[Node]:
    """Return all nodes behind some tensors, each after those that its edges lead to."""
    order: dict[Node, None] = {}
    stack: list[tuple[Node | Tensor, bool]] = [(_target(y), False) for y in outputs]
    while stack:
        node, done = stack.pop()
        if not isinstance(node, Node) or node in order:
            continue
        if done:
            order[node] = None
        else:
            stack += [(node, True), *((target, False) for target in _targets(node))]
    return list(order)


def longest_chain(step: str, outputs: Sequence[Tensor]) -> int:
    """Return the number of steps on the longest path through a recorded graph.

    Parameters
    ----------
    step : str
        The name of the nodes that count.
    outputs : sequence of Tensor
        The ends of the paths.
    """
    length: dict[Node, int] = {}
    for node in _inputs_first(outputs):
        before = max((length[target] for target in _targets(node) if isinstance(target, Node)), default=0)
        length[node] = before + (node.name == step)
    return max(length.values())


def shortest_paths(step: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Array:
    """Return the smallest number of steps between each input and each output.

    Parameters
    ----------
    step : str
        The name of the nodes that count.
    inputs, outputs : sequences of Tensor
        The ends of the paths.

    Returns
    -------
    array, shape (outputs, inputs)
        Infinite where there is no path.
    """
    length: dict[Node | Tensor, Array] = {x: np.full(len(inputs), np.inf) for x in inputs}
    for i, x in enumerate(inputs):
        length[x][i] = 0
    for node in _inputs_first(outputs):
        length[node] = np.min([length[target] for target in _targets(node)], axis=0) + (node.name == step)
    return np.stack([length[_target(y)] for y in outputs])


def arrows(layers: Sequence[Sequence[Tensor]]) -> list[Arrow]:
    """Return which position reads which, from the graph that ``stack_layers`` returned: one arrow for each pair."""
    place = {_target(x): (layer, i) for layer, positions in enumerate(layers) for i, x in enumerate(positions)}
    found: dict[Arrow, None] = {}
    for positions in layers[1:]:
        for x in positions:
            end = _target(x)
            assert isinstance(end, Node)
            stack = list(_targets(end))
            while stack:
                target = stack.pop()
                if target in place:
                    found[Arrow(*place[target], *place[end])] = None
                elif isinstance(target, Node):
                    stack += _targets(target)
    return list(found)


def _path_sizes(layer: Layer) -> list[LayerSizes]:
    """Return the sizes for path lengths: whole numbers of layers just connect all positions."""
    if "log_k n" in layer.path:
        sizes = [(k**depth, k) for k in (2, 3, 4) for depth in range(2, 7) if k**depth <= 81]
        return [LayerSizes(n, WIDTH, k, 1) for n, k in sizes]
    return [LayerSizes(n, WIDTH, 1, r) for n in CHAINS for r in ((2, 4) if "r" in layer.path else (1,))]


def _sequential(name: str) -> dict[str, Any]:
    points = []
    for n in CHAINS:
        layers = stack_layers(name, LayerSizes(n, WIDTH, 3, 2), most=1)
        points.append({"n": n, "steps": longest_chain(GRAPHS[name].operation.name, layers[-1])})
    return {"points": points, "fit": fit_powers(points, ["n"], "steps")}


def _paths(name: str) -> dict[str, Any]:
    powers = LAYERS[name].path
    points: list[dict[str, Any]] = []
    for sizes in _path_sizes(LAYERS[name]):
        layers = stack_layers(name, sizes)
        lengths = shortest_paths(GRAPHS[name].operation.name, layers[0], layers[-1])
        length = int(lengths[np.isfinite(lengths)].max())
        points.append({"n": sizes.n, "k": sizes.k, "r": sizes.r, "layers": len(layers) - 1, "steps": length})
    found = {"points": points, "example": max((p for p in points if p["n"] == FAR.n), key=lambda p: (p["k"], p["r"]))}
    if "log_k n" not in powers:
        return found | {"fit": fit_powers(points, list(powers), "steps")}
    x = [np.log(point["n"]) / np.log(point["k"]) for point in points]
    return found | {"fit": {"log_k n": float(np.polyfit(x, [point["steps"] for point in points], 1)[0])}}


def measure_paths(tell: Callable[[str], None]) -> dict[str, Any]:
    """Measure chains and paths in the layers of Table 1.

    Return plain values that can be written as JSON: ``"far"`` and ``"drawn"`` (sizes), and ``"layers"`` by name, each
    with ``"theory"``, ``"sequential"``, ``"path"`` and ``"graph"``. Progress is passed to ``tell``.
    """
    result: dict[str, Any] = {"far": FAR._asdict(), "drawn": DRAWN._asdict(), "layers": {}}
    for name, layer in LAYERS.items():
        tell(f"paths of {name}")
        result["layers"][name] = {
            "theory": {
                "words": list(layer.theory),
                "operations": dict(layer.complexity),
                "sequential": {"n": layer.sequential},
                "path": dict(layer.path),
            },
            "sequential": _sequential(name),
            "path": _paths(name),
            "graph": [list(arrow) for arrow in arrows(stack_layers(name, DRAWN))],
        }
    return result
