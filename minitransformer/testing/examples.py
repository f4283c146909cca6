"""Inputs for each hand-derived operation, fixed by a seed: what ``minitransformer gradcheck`` proves them on.

Hypothesis draws far more (``strategies``); these need nothing but NumPy. All sizes of an example differ, so that no
axis can be taken for another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

__all__ = ["EXAMPLES", "Example"]


class Example(NamedTuple):
    """Inputs and options of one call: ``prove(operation, inputs, names=names, **options)``."""

    case: str
    inputs: tuple[Any, ...]
    names: tuple[str, ...]
    options: dict[str, Any]


def _mask(rng: np.random.Generator, *shape: int) -> Any:
    """Return a random mask with a row that may attend to nothing."""
    mask = rng.random(shape) < 0.6
    mask[..., -1] = True
    mask[..., 0, :] = False
    return mask


def _rows(rng: np.random.Generator) -> Iterator[Example]:
    x = rng.normal(size=(2, 3, 5))
    yield Example("last axis", (x,), ("x",), {})
    yield Example("first axis", (x,), ("x",), {"axis": 0})
    yield Example("tied scores", (np.round(x),), ("x",), {})
    yield Example("scores of ±10,000", (1e4 * np.sign(x) + x,), ("x",), {})


def _softmax(rng: np.random.Generator) -> Iterator[Example]:
    yield from _rows(rng)
    yield Example("masked, one row wholly", (rng.normal(size=(2, 3, 5)),), ("x",), {"mask": _mask(rng, 2, 3, 5)})


def _masking(rng: np.random.Generator) -> Iterator[Example]:
    # Nothing may be hidden here: -inf has no finite difference. Attention proves masks that hide.
    yield Example("all may attend", (rng.normal(size=(2, 3, 5)), np.ones((3, 5), dtype=bool)), ("x", "mask"), {})


def _attention(rng: np.random.Generator) -> Iterator[Example]:
    names = ("q", "k", "v", "mask")
    q, k, v = rng.normal(size=(2, 3, 4, 5)), rng.normal(size=(2, 3, 6, 5)), rng.normal(size=(2, 3, 6, 7))
    yield Example("no mask", (q, k, v), names[:3], {})
    yield Example("masked, one row wholly", (q, k, v, _mask(rng, 2, 1, 4, 6)), names, {})
    first = (q, k[..., :4, :], v[..., :4, :])
    yield Example("causal", (*first, np.tri(4, dtype=bool)), names, {})
    mask = _mask(rng, 2, 3, 4, 6)
    yield Example("in blocks of 3, masked", (q, k, v, mask), names, {"block_size": 3})
    yield Example("in blocks of 3, causal", (*first, mask[..., :4]), names, {"causal": True, "block_size": 3})


def _multi_head_attention(rng: np.random.Generator) -> Iterator[Example]:
    # D = 2, H = 3, Dk = 4, Dv = 5, B = 6, Tq = 7, Tk = 8
    names = ("x", "memory", "w_in", "w_out", "b_in", "b_out")
    x, memory = rng.normal(size=(6, 7, 2)), rng.normal(size=(6, 8, 2))
    weights = tuple(0.5 * rng.normal(size=shape) for shape in ((2, 39), (15, 2), (39,), (2,)))
    yield Example("self", (x, None, *weights), names, {"n_heads": 3, "mask": _mask(rng, 6, 1, 7, 7)})
    yield Example("cross", (x, memory, *weights), names, {"n_heads": 3, "mask": _mask(rng, 6, 1, 7, 8)})
    options = {"n_heads": 3, "causal": True, "block_size": 3}
    yield Example("self, causal, in blocks of 3", (x, None, *weights), names, options)


def _layer_norm(rng: np.random.Generator) -> Iterator[Example]:
    gain, bias = rng.normal(size=5), rng.normal(size=5)
    yield Example("random gain", (rng.normal(size=(2, 3, 5)), gain, bias), ("x", "gain", "bias"), {})
    yield Example("far from 0", (100 + rng.normal(size=(4, 5)), gain, bias), ("x", "gain", "bias"), {})


def _linear(rng: np.random.Generator) -> Iterator[Example]:
    x, weight, bias = rng.normal(size=(2, 3, 4)), rng.normal(size=(4, 5)), rng.normal(size=5)
    yield Example("with bias", (x, weight, bias), ("x", "weight", "bias"), {})
    yield Example("without", (x, weight), ("x", "weight"), {})


def _feed_forward(rng: np.random.Generator) -> Iterator[Example]:
    shapes = {"x": (2, 3, 4), "w1": (4, 6), "b1": (6,), "w2": (6, 5), "b2": (5,)}
    yield Example("", tuple(rng.normal(size=shape) for shape in shapes.values()), tuple(shapes), {})


def _embedding(rng: np.random.Generator) -> Iterator[Example]:
    yield Example("repeated ids", (np.array([[1, 3, 1], [0, 1, 4]]), rng.normal(size=(6, 2))), ("ids", "table"), {})


def _dropout(rng: np.random.Generator) -> Iterator[Example]:
    names = ("x", "p", "rng", "residual")
    x, residual = rng.normal(size=(2, 3, 4, 5))
    yield Example("p 0.3", (x, 0.3, np.random.default_rng(1)), names[:3], {})
    yield Example("p 0.3, with a residual", (x, 0.3, np.random.default_rng(1), residual), names, {})


def _cross_entropy(rng: np.random.Generator) -> Iterator[Example]:
    names = ("logits", "targets")
    logits, targets = rng.normal(size=(2, 4, 5)), np.array([[1, 0, 3, 4], [0, 2, 0, 1]])
    yield Example("plain", (logits, targets), names, {})
    yield Example("smoothed, padded", (logits, targets), names, {"label_smoothing": 0.1, "ignore_index": 0})
    yield Example("tied logits", (np.round(logits), targets), names, {"label_smoothing": 0.1})


def _recurrence(rng: np.random.Generator) -> Iterator[Example]:
    shapes = {"x": (2, 4, 3), "w": (3, 5), "u": (5, 5), "b": (5,), "h0": (2, 5)}
    inputs = tuple(0.7 * rng.normal(size=shape) for shape in shapes.values())
    yield Example("from zero", inputs[:4], tuple(shapes)[:4], {})
    yield Example("from h0", inputs, tuple(shapes), {})
    yield Example("one position", (inputs[0][:, :1], *inputs[1:]), tuple(shapes), {})


def _convolution(rng: np.random.Generator) -> Iterator[Example]:
    names = ("x", "weight", "bias")
    x, weight, bias = rng.normal(size=(2, 6, 4)), rng.normal(size=(3, 4, 5)), rng.normal(size=5)
    yield Example("centred", (x, weight, bias), names, {})
    yield Example("causal, dilation 2", (x, weight[:2], bias), names, {"causal": True, "dilation": 2})
    yield Example("kernel longer than the sentence", (x[:, :2], weight), names[:2], {"dilation": 2})


def _local_attention(rng: np.random.Generator) -> Iterator[Example]:
    names = ("q", "k", "v", "mask")
    q, k, v = rng.normal(size=(2, 3, 7, 4)), rng.normal(size=(2, 3, 7, 4)), rng.normal(size=(2, 3, 7, 5))
    yield Example("radius 2", (q, k, v), names[:3], {"radius": 2})
    mask = rng.random((2, 1, 7)) < 0.7
    mask[0, 0, :3] = False  # the first two queries of a sentence see nothing
    yield Example("radius 1, masked, two rows", (q, k, v, mask), names, {"radius": 1})
    yield Example("radius 2, causal", (q, k, v, mask), names, {"radius": 2, "causal": True})


def _additive_attention(rng: np.random.Generator) -> Iterator[Example]:
    shapes = {"q": (2, 3, 4), "k": (2, 5, 6), "v": (2, 5, 7), "w_q": (4, 8), "w_k": (6, 8), "b": (8,), "w_s": (8,)}
    inputs = tuple(0.7 * rng.normal(size=shape) for shape in shapes.values())
    yield Example("no mask", inputs, tuple(shapes), {})
    yield Example("masked, one row wholly", (*inputs, _mask(rng, 2, 3, 5)), (*shapes, "mask"), {})


EXAMPLES: dict[str, Callable[[np.random.Generator], Iterator[Example]]] = {
    "softmax": _softmax,
    "log_softmax": _rows,
    "masking": _masking,
    "scaled_dot_product_attention": _attention,
    "multi_head_attention": _multi_head_attention,
    "layer_norm": _layer_norm,
    "linear": _linear,
    "feed_forward": _feed_forward,
    "embedding": _embedding,
    "dropout": _dropout,
    "cross_entropy": _cross_entropy,
    "recurrence": _recurrence,
    "convolution": _convolution,
    "local_attention": _local_attention,
    "additive_attention": _additive_attention,
}
"""For each operation in the registry, a function that yields its examples."""
