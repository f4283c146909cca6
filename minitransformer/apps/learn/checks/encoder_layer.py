"""The backward pass of a whole encoder layer, gradient by gradient."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from math import sqrt
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.apps.learn.solutions import mistaken_parts
from minitransformer.apps.learn.verdict import Wrong, agree, refuse_unsolved
from minitransformer.autograd import Tensor

Arrays = dict[str, np.ndarray]

INSIDE = ("d_s2", "d_h", "d_a", "d_u", "d_s1", "d_c", "d_weights", "d_v", "d_scores", "d_q", "d_k")
"""Gradients that need not be returned."""
ORDER = (
    *("d_gain2", "d_bias2", "d_s2", "d_w2", "d_b2", "d_h", "d_a", "d_w1", "d_b1", "d_u", "d_gain1", "d_bias1", "d_s1"),
    *("d_w_o", "d_c", "d_weights", "d_v", "d_scores", "d_q", "d_k", "d_w_q", "d_w_k", "d_w_v", "d_x"),
)
"""All gradients, each after those that it is computed from."""
ALL = "    return d\n", f"    found = locals() | d\n    return [found[name] for name in {ORDER}]\n"
"""The edit with which the solution returns all gradients, in order."""


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
        mistakes = cache(partial(mistaken_parts, "encoder-layer-backward", ORDER, p, kept, d_y, edits=(ALL,)))
        _compare(found, expected, sizes, mistakes)


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
    weights = at("weights", ops.softmax.reference(scores, mask=mask))  # type: ignore[misc]
    c = at("c", (weights @ v).swapaxes(1, 2).reshape((*x.shape[:2], -1)))
    u = at("u", normalise(at("s1", t["x"] + c @ t["w_o"]), 1))
    h = at("h", at("a", u @ t["w1"] + t["b1"]).relu())
    y = normalise(at("s2", u + h @ t["w2"] + t["b2"]), 2)
    y.backward(d_y)
    for name in ("scores", "s1", "a", "s2"):  # the backward pass does without them
        del kept[name]
    return kept, {name: np.asarray(leaves[name.removeprefix("d_")].grad) for name in ORDER}


def _compare(found: Any, expected: Arrays, sizes: Mapping[str, int], mistakes: Callable[[], dict[str, Arrays]]) -> None:
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
        known = lambda name=name: mistakes()[name]  # noqa: E731
        agree(name, found[name], gradient, mistakes=known, sizes=sizes, advice=_advice(right, skipped))
        right.append(name)
        skipped.clear()
    missing = [name for name in expected if name not in found and name not in INSIDE]
    if missing:
        others = [str(name) for name in found if name not in expected]
        words = f"All gradients in d are right. Still missing: {', '.join(missing)}."
        raise Wrong(words + (f"\n\nThese names are not known: {', '.join(others)}." if others else ""))


def _advice(right: list[str], skipped: list[str]) -> list[str]:
    words = [f"Right so far: {', '.join(right)}."] if right else []
    inside = [name for name in skipped if name in INSIDE]
    if inside:
        words.append(f"To see where the mistake begins, return {', '.join(inside)} as well.")
    return words
