"""The paper's Table 1, measured: what a layer costs, how much of it has to wait, and how far apart positions are.

*Operations* are counted as they run: the layer's own page does its forward pass on arrays that account for everything
that is done to them (see ``account``), over a grid of sizes, and a least-squares fit in logarithms gives the exponents.
Counted are matrix products, a multiplication and an addition for each pair, and all other arithmetic. Attention is
given queries, keys and values: the projections, which are of order n d², are left out, as in the paper's table. The
recurrence includes the product with its inputs. Sizes are such that the leading term rules.

*Sequential operations* and *path lengths* are read from recorded graphs (see ``steps``). The recurrence, and kernels
that are causal and dilated by k^l in layer l, look back only: there, inputs after an output are no inputs of it.

*Time* is that of the page's forward pass, in float32 on one thread, the least of several; *gradients* are those of the
last output with respect to each input, through as many stacked layers as join all positions, without residual
connections.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from minitransformer import blas, ops
from minitransformer.arrays import Array
from minitransformer.autograd import Operation, Tensor
from minitransformer.bench.account import Account, accounting
from minitransformer.bench.figures import slope
from minitransformer.bench.machine import describe
from minitransformer.bench.steps import SMALL, STEPS, Sizes, arrows, longest_chain, shortest_paths, stacked

__all__ = ["LAYERS", "Layer", "count", "fit", "measure_table1"]

Powers = Mapping[str, float]

EXAMPLE = Sizes(n=256, d=128, k=5, r=16)
"""Where the counts in the table are from."""
DRAWN = Sizes(n=8, d=SMALL, k=3, r=2)
"""Where the graphs in the picture are from."""
FAR = Sizes(n=64, d=32, k=4, r=4)
"""Where the path lengths in the table are from, and where gradients are measured."""
DRAWS = 8
"""Over how many draws of weights and inputs a gradient's size is averaged."""
TIMED = (64, 128, 256, 512, 1024)
ENOUGH = 0.1
"""How long a point is timed in a turn, in seconds; at least three times."""
TURNS = 3
"""How often all points are timed, one after another: a busy minute then meets no point alone."""


@dataclass(frozen=True)
class Layer:
    """A row of the table: what the paper says, and how the page is called."""

    theory: tuple[str, str, str]
    """Complexity per layer, sequential operations and maximum path length, in the paper's words."""
    operations: Powers
    """The exponent of each size in the complexity."""
    sequential: float
    """The exponent of n in the sequential operations."""
    path: Powers
    """The exponent of each size in the path length; for ``log_k n`` its factor."""
    page: Operation
    arrays: Callable[[Sizes, np.random.Generator], tuple[Array, ...]]
    """Draw the page's arrays; weights have a variance of 1 over the number of their inputs."""
    options: Callable[[Sizes], dict[str, Any]]


def _queries_keys_values(sizes: Sizes, rng: np.random.Generator) -> tuple[Array, ...]:
    return tuple(rng.normal(size=(3, sizes.n, sizes.d)))


def _recurrent(sizes: Sizes, rng: np.random.Generator) -> tuple[Array, ...]:
    n, d = sizes.n, sizes.d
    w, u = rng.normal(size=(2, d, d)) / np.sqrt(d)
    return rng.normal(size=(1, n, d)), w, u, np.zeros(d)


def _kernel(sizes: Sizes, rng: np.random.Generator) -> tuple[Array, ...]:
    n, d, k = sizes.n, sizes.d, sizes.k
    return rng.normal(size=(1, n, d)), rng.normal(size=(k, d, d)) / np.sqrt(k * d)


LAYERS = {
    "self-attention": Layer(
        ("n² d", "1", "1"),
        {"n": 2, "d": 1},
        0,
        {"n": 0},
        ops.scaled_dot_product_attention,
        _queries_keys_values,
        lambda sizes: {},
    ),
    "recurrent": Layer(("n d²", "n", "n"), {"n": 1, "d": 2}, 1, {"n": 1}, ops.recurrence, _recurrent, lambda sizes: {}),
    "convolutional": Layer(
        ("k n d²", "1", "log_k n"),
        {"k": 1, "n": 1, "d": 2},
        0,
        {"log_k n": 1},
        ops.convolution,
        _kernel,
        lambda sizes: {"causal": True},
    ),
    "restricted self-attention": Layer(
        ("r n d", "1", "n / r"),
        {"r": 1, "n": 1, "d": 1},
        0,
        {"n": 1, "r": -1},
        ops.local_attention,
        _queries_keys_values,
        lambda sizes: {"radius": sizes.r},
    ),
}
GRID = {"n": (128, 256, 512, 1024), "d": (64, 128, 256), "k": (3, 5, 9), "r": (8, 16, 32)}
"""Where operations are counted: all combinations of the sizes that a layer has."""
CHAINS = (8, 16, 32, 64)


def _path_sizes(layer: Layer) -> list[Sizes]:
    """Return where path lengths are measured: sizes that whole layers just reach across."""
    if "log_k n" in layer.path:
        sizes = [(k**depth, k) for k in (2, 3, 4) for depth in range(2, 7) if k**depth <= 81]
        return [Sizes(n, SMALL, k, 1) for n, k in sizes]
    return [Sizes(n, SMALL, 1, r) for n in CHAINS for r in ((2, 4) if "r" in layer.path else (1,))]


def count(name: str, sizes: Sizes) -> dict[str, int]:
    """Count the floating-point operations of a layer's forward pass as it runs.

    Parameters
    ----------
    name : str
        A layer of Table 1, as in ``LAYERS``.
    sizes : Sizes
        Of the layer's input.

    Returns
    -------
    dict
        ``"products"``, ``"other"`` arithmetic, and ``"operations"``: both together.
    """
    layer, account = LAYERS[name], Account()
    inputs = [Tensor(x.astype(np.float32)) for x in layer.arrays(sizes, np.random.default_rng(0))]
    with accounting(account, inputs):
        layer.page.forward(*[x.data for x in inputs], **layer.options(sizes))
    return {
        "products": account.flops,
        "other": account.arithmetic,
        "operations": account.flops + account.arithmetic,
    }


def fit(points: Sequence[Mapping[str, float]], names: Sequence[str], what: str) -> dict[str, float]:
    """Return the exponents of a product of powers: least squares of logarithms, over all points at once.

    Parameters
    ----------
    points : sequence of mappings
        With each of the names, and what was measured.
    names : sequence of str
        The sizes whose exponents are wanted.
    what : str
        What was measured.

    Returns
    -------
    dict of str to float
        An exponent for each name.
    """
    sizes = np.log([[point[name] for name in names] for point in points])
    columns = np.column_stack([np.ones(len(points)), sizes])
    found = np.linalg.lstsq(columns, np.log([point[what] for point in points]), rcond=None)[0]
    return dict(zip(names, map(float, found[1:]), strict=True))


def _operations(name: str) -> dict[str, Any]:
    names = list(LAYERS[name].operations)
    points = []
    for values in product(*(GRID[size] for size in names)):
        sizes = dict(zip(names, values, strict=True))
        points.append(sizes | count(name, EXAMPLE._replace(**sizes)))
    return {"points": points, "fit": fit(points, names, "operations")}


def _sequential(name: str) -> dict[str, Any]:
    points = []
    for n in CHAINS:
        layers = stacked(name, Sizes(n, SMALL, 3, 2), most=1)
        points.append({"n": n, "steps": longest_chain(STEPS[name].page.name, layers[-1])})
    return {"points": points, "fit": fit(points, ["n"], "steps")}


def _paths(name: str) -> dict[str, Any]:
    powers = LAYERS[name].path
    points: list[dict[str, Any]] = []
    for sizes in _path_sizes(LAYERS[name]):
        layers = stacked(name, sizes)
        lengths = shortest_paths(STEPS[name].page.name, layers[0], layers[-1])
        length = int(lengths[np.isfinite(lengths)].max())
        points.append({"n": sizes.n, "k": sizes.k, "r": sizes.r, "layers": len(layers) - 1, "steps": length})
    found = {"points": points, "example": max((p for p in points if p["n"] == FAR.n), key=lambda p: (p["k"], p["r"]))}
    if "log_k n" not in powers:
        return found | {"fit": fit(points, list(powers), "steps")}
    x = [np.log(point["n"]) / np.log(point["k"]) for point in points]
    return found | {"fit": {"log_k n": float(np.polyfit(x, [point["steps"] for point in points], 1)[0])}}


def _time(name: str) -> dict[str, Any]:
    layer, least = LAYERS[name], dict.fromkeys(TIMED, np.inf)
    for n in TURNS * TIMED:
        arrays = [x.astype(np.float32) for x in layer.arrays(EXAMPLE._replace(n=n), np.random.default_rng(0))]
        options = layer.options(EXAMPLE)
        seconds: list[float] = []
        with blas.threads(1):
            while len(seconds) < 3 or sum(seconds) < ENOUGH:
                start = time.perf_counter()
                layer.page.forward(*arrays, **options)
                seconds.append(time.perf_counter() - start)
        least[n] = min(least[n], *seconds)
    points = [{"n": n, "seconds": seconds} for n, seconds in least.items()]
    x, y = [point["n"] for point in points], [point["seconds"] for point in points]
    return {"points": points, "slope": slope(x, y, last=len(points))}


def _gradients(name: str) -> dict[str, Any]:
    """Return the norm of the gradient at each input, over its distance from the last output."""
    layer, norms = LAYERS[name], np.zeros(FAR.n)
    depth = len(stacked(name, FAR._replace(d=SMALL))) - 1
    for seed in range(DRAWS):
        rng = np.random.default_rng(seed)
        x = Tensor(rng.normal(size=(1, FAR.n, FAR.d)), requires_grad=True)
        y = x
        for below in range(depth):
            _, *weights = layer.arrays(FAR, rng)
            options = layer.options(FAR)
            if name == "convolutional":
                options["dilation"] = FAR.k**below
            if "attention" in name:
                projections = rng.normal(size=(3, FAR.d, FAR.d)) / np.sqrt(FAR.d)
                y = layer.page(*(ops.linear(y, weight) for weight in projections), **options)
            else:
                y = layer.page(y, *weights, **options)
        d_y = np.zeros(y.shape)
        d_y[0, -1] = rng.normal(size=FAR.d) / np.sqrt(FAR.d)
        y.backward(d_y)
        assert x.grad is not None
        norms += np.linalg.norm(x.grad[0], axis=-1) / DRAWS
    return {"layers": depth, "distances": list(range(FAR.n)), "norms": norms[::-1].tolist()}


def measure_table1(tell: Callable[[str], None]) -> dict[str, Any]:
    """Measure all rows of the table, and what is drawn beside it.

    Parameters
    ----------
    tell : callable
        Called with what is happening.

    Returns
    -------
    dict
        Plain values that can be written as JSON: ``"machine"``, ``"example"``, ``"far"`` and ``"drawn"`` (sizes), and
        ``"layers"`` by name, each with ``"theory"``, ``"operations"``, ``"sequential"``, ``"path"``, ``"time"``,
        ``"gradients"`` and ``"graph"``.
    """
    sizes = {"example": EXAMPLE._asdict(), "far": FAR._asdict(), "drawn": DRAWN._asdict()}
    result: dict[str, Any] = {"machine": describe(), **sizes, "layers": {}}
    for name, layer in LAYERS.items():
        tell(name)
        result["layers"][name] = {
            "theory": {
                "words": list(layer.theory),
                "operations": dict(layer.operations),
                "sequential": {"n": layer.sequential},
                "path": dict(layer.path),
            },
            "operations": _operations(name) | {"example": count(name, EXAMPLE)},
            "sequential": _sequential(name),
            "path": _paths(name),
            "time": _time(name),
            "gradients": _gradients(name),
            "graph": [list(arrow) for arrow in arrows(stacked(name, DRAWN))],
        }
    return result
