"""The paper's Table 1, measured: the operations of a layer, the sequential ones, and the path lengths.

*Operations* are counted as they run: the layer's own forward pass works on arrays that count their own arithmetic (see
``speed.account``), over a grid of sizes, and a least-squares fit in logarithms gives the exponents.
Counted are matrix products, a multiplication and an addition for each pair, and all other arithmetic. Attention is
given queries, keys and values: the projections, which are of order n d², are left out, as in the paper's table. The
recurrence includes the product with its inputs. Sizes are such that the leading term dominates.

*Sequential operations* and *path lengths* are read from recorded graphs (see ``paths``).

*Time* is that of the operation's forward pass, in float32 on one thread, the minimum of several; *gradients* are those
of the last output with respect to each input, through enough layers to connect all positions, without residual
connections.

What the paper says about costs beside the table is counted and timed as well (see ``costs``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.apps.measure.costs import measure_costs
from minitransformer.apps.measure.layers import LAYERS, LayerSizes, count_operations, time_calls
from minitransformer.apps.measure.paths import FAR, WIDTH, measure_paths, stack_layers
from minitransformer.apps.measure.powers import fit_powers, slope
from minitransformer.arrays import blas
from minitransformer.autograd import Tensor

EXAMPLE = LayerSizes(n=256, d=128, k=5, r=16)
"""Where the counts in the table are from."""
DRAWS = 8
"""Over how many draws of weights and inputs a gradient's size is averaged."""
TIMED = (64, 128, 256, 512, 1024)
ENOUGH = 0.1
"""How long a point is timed in a turn, in seconds; at least three times."""
TURNS = 3
"""How often all points are timed, one after another: a busy minute then affects all of them."""


GRID = {"n": (128, 256, 512, 1024), "d": (64, 128, 256), "k": (3, 5, 9), "r": (8, 16, 32)}
"""Where operations are counted: all combinations of the sizes that a layer has."""


def _operations(name: str) -> dict[str, Any]:
    names = list(LAYERS[name].complexity)
    points = []
    for values in product(*(GRID[size] for size in names)):
        sizes = dict(zip(names, values, strict=True))
        points.append(sizes | count_operations(name, EXAMPLE._replace(**sizes)))
    return {"points": points, "fit": fit_powers(points, names, "operations")}


def _time(name: str) -> dict[str, Any]:
    layer, least = LAYERS[name], dict.fromkeys(TIMED, np.inf)
    for n in TURNS * TIMED:
        arrays = [x.astype(np.float32) for x in layer.arrays(EXAMPLE._replace(n=n), np.random.default_rng(0))]
        with blas.threads(1):
            seconds = time_calls(partial(layer.operation.forward, *arrays, **layer.options(EXAMPLE)), ENOUGH)
        least[n] = min(least[n], *seconds)
    points = [{"n": n, "seconds": seconds} for n, seconds in least.items()]
    x, y = [point["n"] for point in points], [point["seconds"] for point in points]
    return {"points": points, "slope": slope(x, y, last=len(points))}


def _gradients(name: str) -> dict[str, Any]:
    """Return the norm of the gradient at each input, over its distance from the last output."""
    layer, norms = LAYERS[name], np.zeros(FAR.n)
    depth = len(stack_layers(name, FAR._replace(d=WIDTH))) - 1
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
                y = layer.operation(*(ops.linear(y, weight) for weight in projections), **options)
            else:
                y = layer.operation(y, *weights, **options)
        d_y = np.zeros(y.shape)
        d_y[0, -1] = rng.normal(size=FAR.d) / np.sqrt(FAR.d)
        y.backward(d_y)
        assert x.grad is not None
        norms += np.linalg.norm(x.grad[0], axis=-1) / DRAWS
    return {"layers": depth, "distances": list(range(FAR.n)), "norms": norms[::-1].tolist()}


def measure_table1(tell: Callable[[str], None]) -> dict[str, Any]:
    """Measure all rows of the table, and the additional values of the picture.

    Return what ``measure_paths`` does, with ``"example"`` (sizes), for each layer ``"operations"``, ``"time"`` and
    ``"gradients"`` too, and ``"costs"``: what ``measure_costs`` returns. Progress is passed to ``tell``.
    """
    result = measure_paths(tell) | {"example": EXAMPLE._asdict()}
    for name, row in result["layers"].items():
        tell(f"operations, time and gradients of {name}")
        row["operations"] = _operations(name) | {"example": count_operations(name, EXAMPLE)}
        row["time"] = _time(name)
        row["gradients"] = _gradients(name)
    return result | {"costs": measure_costs(EXAMPLE, tell)}
