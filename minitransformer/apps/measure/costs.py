"""What the paper says about the cost of layers beside Table 1, counted and timed.

- A separable convolution takes k n d + n d² operations (section 4).
- With k = n that is as much as self-attention and a feed-forward network together (section 4).
- A convolutional layer takes k times as many as a recurrent one (section 4: "generally more expensive").
- H heads of width d / H take as many as one head of width d (section 3.2.2).
- Self-attention is faster than a recurrence where n < d (section 4).

The first four are counted as Table 1 is (see ``layers``), so they are the same on every machine. For sums of terms a
least-squares fit of the relative errors gives their factors.

The last is timed too. In each turn self-attention and the recurrence of one length run one after another, so both see
the same machine; the ratio of their medians is taken within a turn, and then the median over the turns. Self-attention
is timed as in Table 1, from queries, keys and values, and as a layer with its four projections.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.apps.measure.layers import LayerSizes, count, count_operations, time_calls
from minitransformer.apps.measure.means import ratio
from minitransformer.arrays import Array, blas, xp
from minitransformer.autograd import Tensor, concatenate

GRID = {"n": (128, 256, 512), "d": (64, 128, 256), "k": (3, 5, 9)}
"""Where separable convolutions are counted: all combinations; with k = n up to ``LONGEST``."""
LONGEST = 256
KERNELS = (3, 5, 9)
HEADS = (1, 2, 4, 8)
D_FF = 4
"""The width of the feed-forward network, in multiples of d, as in the paper's model."""
BATCH = 16
"""How many sentences are timed together."""
TIMED = (16, 32, 64, 128, 256, 512)
TURNS = 7
ENOUGH = 0.02
"""How long a layer is timed in a turn, in seconds; at least three times."""

TERMS: Mapping[str, Callable[[LayerSizes], float]] = {
    "k n d": lambda sizes: sizes.k * sizes.n * sizes.d,
    "n² d": lambda sizes: sizes.n**2 * sizes.d,
    "n d²": lambda sizes: sizes.n * sizes.d**2,
}


def separable_convolution(x: Tensor, kernel: Tensor, weight: Tensor) -> Tensor:
    """Return a causal separable convolution: each feature by itself over k positions, then a linear layer.

    z_t = Σ_j x_{t - (k - 1) + j} * c_j and y_t = z_t W, with zeros before the sentence. This is a convolution whose
    matrices are W_j = diag(c_j) W.

    Parameters
    ----------
    x : Tensor, shape (B, T, D)
        The inputs.
    kernel : Tensor, shape (k, D)
        c: a number for each place of the kernel and each feature.
    weight : Tensor, shape (D, D_out)
        W.

    Returns
    -------
    Tensor, shape (B, T, D_out)
    """
    (batch, n, d), k = x.shape, kernel.shape[0]
    padded = concatenate([xp.zeros((batch, k - 1, d), dtype=x.dtype), x], axis=1)
    z = sum(padded[:, j : j + n] * kernel[j] for j in range(k))
    return ops.linear(z, weight)


def _count_separable(sizes: LayerSizes) -> dict[str, int]:
    rng = np.random.default_rng(0)
    shapes = (1, sizes.n, sizes.d), (sizes.k, sizes.d), (sizes.d, sizes.d)
    return count(separable_convolution, [rng.normal(size=shape) for shape in shapes])


def _count_attention_and_feed_forward(sizes: LayerSizes) -> dict[str, int]:
    rng, d, d_ff = np.random.default_rng(0), sizes.d, D_FF * sizes.d
    shapes = *3 * ((sizes.n, d),), (d, d_ff), (d_ff,), (d_ff, d), (d,)

    def layers(q: Tensor, k: Tensor, v: Tensor, *weights: Tensor) -> Tensor:
        return ops.feed_forward(ops.scaled_dot_product_attention(q, k, v), *weights)

    return count(layers, [rng.normal(size=shape) for shape in shapes])


def _fit(counts: Callable[[LayerSizes], dict[str, int]], grid: Sequence[LayerSizes], *terms: str) -> dict[str, Any]:
    """Count on a grid, and return the factors of a sum of terms, with its largest relative error."""
    points = [sizes._asdict() | counts(sizes) for sizes in grid]
    shares = np.array([[TERMS[term](s) / p["operations"] for term in terms] for s, p in zip(grid, points, strict=True)])
    factors = np.linalg.lstsq(shares, np.ones(len(grid)), rcond=None)[0]
    return {
        "points": points,
        "fit": dict(zip(terms, map(float, factors), strict=True)),
        "error": float(np.abs(shares @ factors - 1).max()),
    }


def _separable(example: LayerSizes) -> dict[str, Any]:
    grid = [example._replace(n=n, d=d, k=k) for n, d, k in product(*GRID.values())]
    whole = [example._replace(n=n, d=d, k=n) for n, d in product(GRID["n"], GRID["d"]) if n <= LONGEST]
    return {
        "separable convolution": _fit(_count_separable, grid, "k n d", "n d²") | {"example": _count_separable(example)},
        "separable convolution, k = n": _fit(_count_separable, whole, "n² d", "n d²"),
        "self-attention and feed-forward": _fit(_count_attention_and_feed_forward, whole, "n² d", "n d²"),
    }


def _convolution_over_recurrence(example: LayerSizes) -> dict[str, Any]:
    recurrent = count_operations("recurrent", example)["operations"]
    points = []
    for k in KERNELS:
        convolutional = count_operations("convolutional", example._replace(k=k))["operations"]
        points.append({"k": k, "ratio": convolutional / recurrent})
    return {"points": points, "factor": float(np.mean([point["ratio"] / point["k"] for point in points]))}


def _attention_arrays(sizes: LayerSizes, batch: int = 1) -> list[Array]:
    """Return the inputs of multi-head attention: x, and the projections side by side and of the output."""
    rng, d = np.random.default_rng(0), sizes.d
    return [rng.normal(size=(batch, sizes.n, d)), *(rng.normal(size=(d, m * d)) / np.sqrt(d) for m in (3, 1))]


def _count_heads(sizes: LayerSizes, heads: int) -> dict[str, int]:
    def layer(x: Tensor, w_in: Tensor, w_out: Tensor) -> Tensor:
        return ops.multi_head_attention(x, None, w_in, w_out, n_heads=heads)

    return count(layer, _attention_arrays(sizes))


def _layers_to_time(sizes: LayerSizes) -> dict[str, Callable[[], Any]]:
    """Return the forward passes that are compared, on a batch in float32; the recurrence is last."""
    x, w_in, w_out = (a.astype(np.float32) for a in _attention_arrays(sizes, BATCH))
    w, u, b = w_in[:, : sizes.d].copy(), w_out, np.zeros(sizes.d, dtype=np.float32)
    return {
        "self-attention": lambda: ops.scaled_dot_product_attention.forward(x, x, x),
        "with projections": lambda: ops.multi_head_attention.forward(x, None, w_in, w_out, n_heads=1),
        "recurrent": lambda: ops.recurrence.forward(x, w, u, b),
    }


def _attention_over_recurrence(example: LayerSizes) -> dict[str, Any]:
    seconds: dict[int, dict[str, list[list[float]]]] = {n: {} for n in TIMED}
    with blas.threads(1):
        for turn, n in product(range(TURNS), TIMED):
            layers = list(_layers_to_time(example._replace(n=n)).items())
            first = turn % len(layers)
            for name, call in layers[first:] + layers[:first]:
                seconds[n].setdefault(name, []).append(time_calls(call, ENOUGH))
    points: list[dict[str, Any]] = []
    for n, found in seconds.items():
        sizes = example._replace(n=n)
        counts = {
            "self-attention": count_operations("self-attention", sizes),
            "with projections": _count_heads(sizes, 1),
        }
        recurrent = count_operations("recurrent", sizes)["operations"]
        points.append(
            {
                "n": n,
                "operations": {name: counted["operations"] / recurrent for name, counted in counts.items()},
                "time": {name: ratio(found[name], found["recurrent"])._asdict() for name in counts},
            }
        )
    return {"d": example.d, "batch": BATCH, "turns": TURNS, "points": points}


def equal_at(lengths: Sequence[float], ratios: Sequence[float]) -> float | None:
    """Return the n up to which a ratio is below 1, on straight lines between the logarithms; None if there is none."""
    points = [(math.log(n), math.log(ratio)) for n, ratio in zip(lengths, ratios, strict=True)]
    for (n, low), (next_n, high) in pairwise(points):
        if low <= 0 < high:
            return math.exp(n - low * (next_n - n) / (high - low))
    return None


def measure_costs(example: LayerSizes, tell: Callable[[str], None]) -> dict[str, Any]:
    """Count and time what the five claims are about; an example has the sizes of single counts, and the d of times.

    Return plain values that can be written as JSON: ``"sums"`` by name, ``"convolution over recurrence"``, ``"heads"``
    and ``"attention over recurrence"``. Progress is passed to ``tell``.
    """
    tell("separable convolution, heads; self-attention and recurrence in turns")
    one = _count_heads(example, 1)
    heads = []
    for n_heads in HEADS:
        found = _count_heads(example, n_heads)
        heads.append({"heads": n_heads} | {what: found[what] / one[what] for what in ("products", "operations")})
    return {
        "sums": _separable(example),
        "convolution over recurrence": _convolution_over_recurrence(example),
        "heads": heads,
        "attention over recurrence": _attention_over_recurrence(example),
    }
