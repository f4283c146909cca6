"""Chapter 8, the last exercise: the backward pass of a whole encoder layer, gradient by gradient."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from math import sqrt
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.autograd import Tensor
from minitransformer.learn.verdict import Wrong, agree, refuse_unsolved

Arrays = dict[str, np.ndarray]

INSIDE = ("d_s2", "d_h", "d_a", "d_u", "d_s1", "d_c", "d_weights", "d_v", "d_scores", "d_q", "d_k")
"""Gradients that need not be returned."""


def encoder_layer_backward(backward: Callable[..., Any]) -> None:
    """Check the gradients in the order in which they come into being.

    First with square matrices, in which shapes hide a forgotten transpose; then with padding, all sizes distinct.
    """
    for seed, (B, T, H, Dk, D, F), lengths in ((94, (3, 5, 2, 2, 4, 4), 5), (95, (2, 4, 3, 5, 6, 7), [[2], [4]])):
        p, x, d_y = _draw(seed, (B, T, H, Dk, D, F))
        mask = (np.arange(T) < np.full((B, 1), lengths))[:, None, None]  # (B, 1, 1, T)
        kept, expected = differentiate(p, x, mask, d_y, H)
        found = backward(p, kept, d_y)
        sizes = {"Dk": Dk, "T": T, "B": B, "B T": B * T, "H": H, "D": D}
        _compare(found, expected, sizes, partial(_wrong_layers, p, kept, d_y))


def _draw(seed: int, sizes: tuple[int, ...]) -> tuple[Arrays, np.ndarray, np.ndarray]:
    """Return parameters, an input and the gradient of the output."""
    B, T, H, Dk, D, F = sizes
    rng, inner = np.random.default_rng(seed), H * Dk
    shapes: dict[str, tuple[int, ...]] = {"w_q": (D, inner), "w_k": (D, inner), "w_v": (D, inner), "w_o": (inner, D)}
    shapes |= {"gain1": (D,), "bias1": (D,), "w1": (D, F), "b1": (F,), "w2": (F, D), "b2": (D,)}
    shapes |= {"gain2": (D,), "bias2": (D,)}
    p = {name: rng.uniform(0.5, 1.5, shape) * rng.choice([-1, 1], shape) for name, shape in shapes.items()}
    return p, rng.normal(size=(B, T, D)), np.round(rng.normal(size=(B, T, D)), 2)


def differentiate(p: Arrays, x: np.ndarray, mask: np.ndarray, d_y: np.ndarray, n_heads: int) -> tuple[Arrays, Arrays]:
    """Return what the forward pass keeps, and all gradients, by automatic differentiation of elementary operations."""
    leaves = {name: Tensor(value, requires_grad=True) for name, value in (p | {"x": x}).items()}
    t, kept = dict(leaves), {"x": x}

    def at(name: str, value: Tensor) -> Tensor:
        """Name a value, and add a zero to it whose gradient is that of the value."""
        kept[name] = value.numpy()
        leaves[name] = Tensor(np.zeros(value.shape), requires_grad=True)
        return value + leaves[name]

    def normalise(s: Tensor, number: int) -> Tensor:
        centred = s - s.mean(axis=-1, keepdims=True)
        r = ((centred * centred).mean(axis=-1, keepdims=True) + 1e-5) ** -0.5
        kept[f"r{number}"], kept[f"x_hat{number}"] = r.numpy(), (centred * r).numpy()
        return t[f"gain{number}"] * (centred * r) + t[f"bias{number}"]

    def heads(z: Tensor) -> Tensor:
        return z.reshape((*z.shape[:2], n_heads, -1)).swapaxes(1, 2)

    q, k, v = (at(name, heads(t["x"] @ t[f"w_{name}"])) for name in "qkv")
    scores = at("scores", q @ k.swapaxes(-1, -2) / sqrt(q.shape[-1]))
    weights = at("weights", ops.softmax.composed(scores, mask=mask))  # type: ignore[misc]
    c = at("c", (weights @ v).swapaxes(1, 2).reshape((*x.shape[:2], -1)))
    u = at("u", normalise(at("s1", t["x"] + c @ t["w_o"]), 1))
    h = at("h", at("a", u @ t["w1"] + t["b1"]).relu())
    y = normalise(at("s2", u + h @ t["w2"] + t["b2"]), 2)
    y.backward(d_y)
    for name in ("scores", "s1", "a", "s2"):  # the backward pass does without them
        del kept[name]
    order = walk(p, kept, d_y)  # each after those that it is computed from
    return kept, {name: np.asarray(leaves[name.removeprefix("d_")].grad) for name in order}


def _compare(
    found: Any, expected: Arrays, sizes: Mapping[str, int], wrong_layers: Callable[[], dict[str, Arrays]]
) -> None:
    """Raise ``Wrong`` at the first gradient that is wrong; say which are right, and which one would tell more."""
    refuse_unsolved(found)
    if not isinstance(found, dict):
        raise Wrong(f"Return the dict of gradients, d, found {type(found).__name__}.")
    refuse_unsolved(list(found.values()) or ...)
    right: list[str] = []
    skipped: list[str] = []
    for name, gradient in expected.items():
        if name not in found:
            skipped.append(name)
            continue
        try:
            agree(name, found[name], gradient)
        except Wrong:
            _explain(name, found[name], gradient, sizes, wrong_layers(), _advice(right, skipped))
        right.append(name)
        skipped.clear()
    missing = [name for name in expected if name not in found and name not in INSIDE]
    if missing:
        others = [str(name) for name in found if name not in expected]
        words = f"All gradients in d are right. Still missing: {', '.join(missing)}."
        raise Wrong(words + (f" These names are not known: {', '.join(others)}." if others else ""))


def _explain(
    name: str, found: Any, expected: np.ndarray, sizes: Mapping[str, int], wrong: dict[str, Arrays], advice: list[str]
) -> None:
    """Raise ``Wrong`` with the likely cause and some advice."""
    try:
        agree(name, found, expected, mistakes={words: layer[name] for words, layer in wrong.items()}, sizes=sizes)
    except Wrong as error:
        raise Wrong("\n\n".join([str(error), *advice])) from None


def _advice(right: list[str], skipped: list[str]) -> list[str]:
    words = [f"Right so far: {', '.join(right)}."] if right else []
    inside = [name for name in skipped if name in INSIDE]
    if inside:
        words.append(f"To see where the mistake begins, return {', '.join(inside)} as well.")
    return [textwrap.fill(line, 78) for line in words]


def _turn(a: np.ndarray) -> np.ndarray:
    return a.swapaxes(-1, -2)


def _row_mean(a: np.ndarray) -> np.ndarray:
    return np.asarray(a.mean(axis=-1, keepdims=True))


def _row_sum(a: np.ndarray) -> np.ndarray:
    return np.asarray(a.sum(axis=-1, keepdims=True))


def _through(d: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.asarray(d @ w.T)


def _norm(d: np.ndarray, gain: np.ndarray, x_hat: np.ndarray, r: np.ndarray) -> np.ndarray:
    d = d * gain
    return np.asarray(r * (d - _row_mean(d) - x_hat * _row_mean(d * x_hat)))


STEPS: dict[str, Callable[..., Any]] = {
    "norm2": _norm,
    "norm1": _norm,
    "gain": lambda d, x_hat: d * x_hat,
    "total": lambda d: d.sum(axis=(0, 1)),
    "matrix": lambda a, d: np.einsum("bti,btj->ij", a, d),
    "relu": lambda d_h, h: d_h * (h > 0),
    "d_u": lambda d_s2, inside, d_y: d_s2 + inside,
    "split": lambda d, h: d.reshape(*d.shape[:2], h, -1).swapaxes(1, 2),
    "merge": lambda d: d.swapaxes(1, 2).reshape(len(d), d.shape[2], -1),
    "softmax": lambda w, d: w * (d - _row_sum(w * d)),
    "scale": lambda d, dk: d / sqrt(dk),
    "d_v": lambda w, d: _turn(w) @ d,
    "d_k": lambda d, q: _turn(d) @ q,
    "d_x": lambda d_s1, q, k, v, d_u: d_s1 + q + k + v,
    **dict.fromkeys(("w2", "w1", "w_o", "w_q", "w_k", "w_v"), _through),
}
"""The steps of the backward pass, of which a wrong one has another."""


def walk(p: Arrays, kept: Arrays, d_y: np.ndarray, **others: Callable[..., Any]) -> Arrays:
    """Return all gradients, where some steps are others."""
    do = STEPS | others
    total, matrix = do["total"], do["matrix"]
    d = {"d_gain2": total(do["gain"](d_y, kept["x_hat2"])), "d_bias2": total(d_y)}
    d["d_s2"] = d_s2 = do["norm2"](d_y, p["gain2"], kept["x_hat2"], kept["r2"])
    d["d_w2"], d["d_b2"], d["d_h"] = matrix(kept["h"], d_s2), total(d_s2), do["w2"](d_s2, p["w2"])
    d["d_a"] = d_a = do["relu"](d["d_h"], kept["h"])
    d["d_w1"], d["d_b1"] = matrix(kept["u"], d_a), total(d_a)
    d["d_u"] = d_u = do["d_u"](d_s2, do["w1"](d_a, p["w1"]), d_y)
    d["d_gain1"], d["d_bias1"] = total(do["gain"](d_u, kept["x_hat1"])), total(d_u)
    d["d_s1"] = d_s1 = do["norm1"](d_u, p["gain1"], kept["x_hat1"], kept["r1"])
    d["d_w_o"], d["d_c"] = matrix(kept["c"], d_s1), do["w_o"](d_s1, p["w_o"])
    q, k, v, w = (kept[name] for name in ("q", "k", "v", "weights"))
    d_heads = do["split"](d["d_c"], q.shape[1])
    d["d_weights"], d["d_v"] = d_heads @ _turn(v), do["d_v"](w, d_heads)
    d["d_scores"] = do["softmax"](w, d["d_weights"])
    d_scaled = do["scale"](d["d_scores"], q.shape[-1])
    d["d_q"], d["d_k"] = d_scaled @ k, do["d_k"](d_scaled, q)
    back = {name: do["merge"](d[f"d_{name}"]) for name in "qkv"}
    d |= {f"d_w_{name}": matrix(kept["x"], back[name]) for name in "qkv"}
    d["d_x"] = do["d_x"](d_s1, *(do[f"w_{name}"](back[name], p[f"w_{name}"]) for name in "qkv"), d_u)
    return d


NORMS: dict[str, Callable[..., Any]] = {
    "both means of the layer norm are missing": lambda d, gain, x_hat, r: r * d * gain,
    "the term x_hat mean(d_x_hat x_hat) of the layer norm is missing": lambda d, gain, x_hat, r: (
        r * (d * gain - _row_mean(d * gain))
    ),
    "the term mean(d_x_hat) of the layer norm is missing": lambda d, gain, x_hat, r: (
        r * (d * gain - x_hat * _row_mean(d * gain * x_hat))
    ),
    "the factor gain is missing in the layer norm": lambda d, gain, x_hat, r: _norm(d, np.ones_like(gain), x_hat, r),
    "the factor r is missing in the layer norm": lambda d, gain, x_hat, r: _norm(d, gain, x_hat, np.ones_like(r)),
    "the layer norm is left out": lambda d, gain, x_hat, r: d,
    "the layer norm has sums instead of means": lambda d, gain, x_hat, r: (
        r * (d * gain - _row_sum(d * gain) - x_hat * _row_sum(d * gain * x_hat))
    ),
}
FAULTS: dict[str, dict[str, Callable[..., Any]]] = {
    "a sum is missing: all B T rows share it": {"total": lambda d: d},
    "the positions are summed, but not the sentences": {"total": lambda d: d.sum(axis=1)},
    "the sentences are summed, but not the positions": {"total": lambda d: d.sum(axis=0)},
    "the factor x_hat is missing": {"gain": lambda d, x_hat: d},
    "a sum is missing: there is one gradient for each sentence; add them up": {"matrix": lambda a, d: _turn(a) @ d},
    "the factors are swapped, so it is transposed": {"matrix": lambda a, d: np.einsum("bti,btj->ji", a, d)},
    "the ReLU is missing: where h is 0, no gradient passes": {"relu": lambda d_h, h: d_h},
    "the ReLU is applied to the gradient; pass the gradient where h > 0": {"relu": lambda d_h, h: np.maximum(0, d_h)},
    "d_h is multiplied by h; the slope of the ReLU is 1 where h > 0, else 0": {"relu": lambda d_h, h: d_h * h},
    "the shortcut around the feed-forward network is missing in d_u: u is used twice": {
        "d_u": lambda d_s2, inside, d_y: inside
    },
    "the share of the feed-forward network is missing in d_u: u is used twice": {"d_u": lambda d_s2, inside, d_y: d_s2},
    "the shortcut passes on d_s2, not d_y: it is inside the norm": {"d_u": lambda d_s2, inside, d_y: d_y + inside},
    "reshape alone mixes heads and positions: first cut the features into heads, then swap axes": {
        "split": lambda d, h: d.reshape(len(d), h, d.shape[1], -1)
    },
    "reshape alone mixes heads and positions: first swap the axes, then join": {
        "merge": lambda d: d.reshape(len(d), d.shape[2], -1)
    },
    "the row sum of the softmax is missing": {"softmax": lambda w, d: w * d},
    "the row sum of the softmax runs over the queries; sum along the keys": {
        "softmax": lambda w, d: w * (d - (w * d).sum(axis=-2, keepdims=True))
    },
    "the softmax is left out: d_weights is not d_scores": {"softmax": lambda w, d: d},
    "the factor weights in front of the softmax's bracket is missing": {"softmax": lambda w, d: d - _row_sum(w * d)},
    "the division by sqrt(Dk) is missing": {"scale": lambda d, dk: d},
    "it is divided by Dk; divide by sqrt(Dk)": {"scale": lambda d, dk: d / dk},
    "weights is not transposed: d_v has the keys as rows": {"d_v": lambda w, d: w @ d},
    "d_scores is not transposed: d_k has the keys as rows": {"d_k": lambda d, q: d @ q},
    "the shortcut around the attention is missing in d_x": {"d_x": lambda d_s1, q, k, v, d_u: q + k + v},
    "only the shortcut is there: queries, keys and values depend on x too": {"d_x": lambda d_s1, q, k, v, d_u: d_s1},
    "the share of the queries is missing": {"d_x": lambda d_s1, q, k, v, d_u: d_s1 + k + v},
    "the share of the keys is missing": {"d_x": lambda d_s1, q, k, v, d_u: d_s1 + q + v},
    "the share of the values is missing": {"d_x": lambda d_s1, q, k, v, d_u: d_s1 + q + k},
    "the shortcut passes on d_s1, not d_u: it is inside the norm": {"d_x": lambda d_s1, q, k, v, d_u: d_u + q + k + v},
    **{f"{name} is not transposed": {name: np.matmul} for name in ("w2", "w1", "w_o", "w_q", "w_k", "w_v")},
    "w_q, w_k and w_v are not transposed": dict.fromkeys(("w_q", "w_k", "w_v"), np.matmul),
}
"""Likely mistakes: a sentence, and the steps that are wrong."""


def _wrong_layers(p: Arrays, kept: Arrays, d_y: np.ndarray) -> dict[str, Arrays]:
    """Return all gradients for each likely mistake; without those that shapes do not allow."""
    faults = dict(FAULTS)
    for words, norm in NORMS.items():
        faults[f"{words} (norm 2, or both)"] = {"norm2": norm, "norm1": norm}
        faults[f"{words} (norm 1)"] = {"norm1": norm}
    wrong = {}
    for words, steps in faults.items():
        with suppress(ValueError):
            wrong[words] = walk(p, kept, d_y, **steps)
    return wrong
