"""Inputs for each hand-derived operation, drawn with a fixed seed: ``minitransformer gradcheck`` uses them.

Operations that take floating-point arrays only need no entry: their examples follow from the shapes in the docstring.
Hypothesis draws far more (``strategies``); these need only NumPy. All sizes of an example differ, so that swapped axes
are caught.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from minitransformer.autograd import Operation
from minitransformer.testing.shapes import inputs_in, inputs_of


class Example(NamedTuple):
    """Inputs and options of one call: ``prove(operation, example.inputs, **example.options)``."""

    inputs: tuple[Any, ...]
    options: dict[str, Any]
    case: str = ""
    """What is special about this example."""


def examples(operation: Operation, seed: int = 0) -> list[Example]:
    """Return the examples of an operation, its own or by the shapes of its inputs; the ``seed`` draws the entries.

    A LookupError says that it has none in ``EXAMPLES``, and that its docstring does not tell the shapes.
    """
    rng = np.random.default_rng(seed)
    return list(EXAMPLES[operation.name](rng) if operation.name in EXAMPLES else _from_shapes(operation, rng))


def examples_of_signature(signature: str, dtype: Any = np.float64, seed: int = 0) -> list[Example]:
    """Return fixed inputs for a function whose arrays have the shapes of a signature, such as ``"(B, T, D), (D, F)"``.

    All sizes differ, but each letter is once 1 and once 0 where that is allowed; the last example consists of views.
    ``testing.shapes`` describes signatures. The ``dtype`` is real or complex; the ``seed`` draws the entries.
    """
    rng, wanted, dtype = np.random.default_rng(seed), inputs_in(signature), np.dtype(dtype)
    leading = (2, 3) if wanted.any_axes else ()
    first = max((2 + len(leading), *wanted.least.values()))
    usual = {letter: first + i for i, letter in enumerate(wanted.least)}

    def example(case: str, leading: tuple[int, ...], special: dict[str, int]) -> Example:
        shapes = wanted.shapes(leading, [*(usual | special).values()]).values()
        drawn = [rng.normal(size=shape) for shape in shapes]
        if dtype.kind == "c":
            drawn = [x + 1j * rng.normal(size=x.shape) for x in drawn]
        return Example(tuple(x.astype(dtype) for x in drawn), {}, case)

    cases = [example("sizes differ", leading, {})]
    cases += [example("no leading axes", (), {})] if leading else []
    cases += [example(f"{letter} = 1", leading, {letter: 1}) for letter, least in wanted.least.items() if least <= 1]
    cases += [example(f"{letter} = 0", leading, {letter: 0}) for letter, least in wanted.least.items() if least == 0]
    views = tuple(np.repeat(x, 2, axis=-1)[..., ::-2] if x.ndim else x for x in example("", leading, {}).inputs)
    return [*cases, Example(views, {}, "views")]


def _from_shapes(operation: Operation, rng: np.random.Generator) -> Iterator[Example]:
    """Draw all arrays of an operation; then leave out each optional one in turn."""
    inputs = inputs_of(operation)
    n = 2 if inputs.any_axes else 0
    shapes = inputs.shapes(range(2, 2 + n), range(2 + n, 2 + n + len(inputs.least)))
    arrays = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    yield Example(tuple(arrays.values()), {}, f"with {', '.join(inputs.optional)}" if inputs.optional else "")
    for missing in inputs.optional:
        yield Example(tuple(None if name == missing else x for name, x in arrays.items()), {}, f"without {missing}")


def _mask(rng: np.random.Generator, *shape: int) -> Any:
    """Return a random mask with a row that may attend to nothing."""
    mask = rng.random(shape) < 0.6
    mask[..., -1] = True
    mask[..., 0, :] = False
    return mask


def _rows(rng: np.random.Generator) -> Iterator[Example]:
    x = rng.normal(size=(2, 3, 5))
    yield Example((x,), {}, "last axis")
    yield Example((x,), {"axis": 0}, "first axis")
    yield Example((np.round(x),), {}, "tied scores")
    yield Example((1e4 * np.sign(x) + x,), {}, "scores of ±10,000")


def _softmax(rng: np.random.Generator) -> Iterator[Example]:
    yield from _rows(rng)
    yield Example((rng.normal(size=(2, 3, 5)),), {"mask": _mask(rng, 2, 3, 5)}, "masked, one row wholly")


def _masking(rng: np.random.Generator) -> Iterator[Example]:
    # No entry may be masked here: -inf has no finite difference. Attention tests such masks.
    yield Example((rng.normal(size=(2, 3, 5)), np.ones((3, 5), dtype=bool)), {}, "all may attend")


def _attention(rng: np.random.Generator) -> Iterator[Example]:
    q, k, v = rng.normal(size=(2, 3, 4, 5)), rng.normal(size=(2, 3, 6, 5)), rng.normal(size=(2, 3, 6, 7))
    yield Example((q, k, v), {}, "no mask")
    yield Example((q, k, v, _mask(rng, 2, 1, 4, 6)), {}, "masked, one row wholly")
    first = (q, k[..., :4, :], v[..., :4, :])
    yield Example((*first, np.tri(4, dtype=bool)), {}, "causal")
    mask = _mask(rng, 2, 3, 4, 6)
    yield Example((q, k, v, mask), {"block_size": 3}, "in blocks of 3, masked")
    yield Example((*first, mask[..., :4]), {"causal": True, "block_size": 3}, "in blocks of 3, causal")


def _multi_head_attention(rng: np.random.Generator) -> Iterator[Example]:
    # D = 2, H = 3, Dk = 4, Dv = 5, B = 6, Tq = 7, Tk = 8
    x, memory = rng.normal(size=(6, 7, 2)), rng.normal(size=(6, 8, 2))
    weights = tuple(0.5 * rng.normal(size=shape) for shape in ((2, 39), (15, 2), (39,), (2,)))
    yield Example((x, None, *weights), {"n_heads": 3, "mask": _mask(rng, 6, 1, 7, 7)}, "self")
    yield Example((x, memory, *weights), {"n_heads": 3, "mask": _mask(rng, 6, 1, 7, 8)}, "cross")
    options = {"n_heads": 3, "causal": True, "block_size": 3}
    yield Example((x, None, *weights), options, "self, causal, in blocks of 3")


def _grouped_query_attention(rng: np.random.Generator) -> Iterator[Example]:
    # D = 2, H = 4, G = 2, Dk = 4, Dv = 5, B = 6, Tq = 7, Tk = 8
    x, memory = rng.normal(size=(6, 7, 2)), rng.normal(size=(6, 8, 2))
    weights = tuple(0.5 * rng.normal(size=shape) for shape in ((2, 34), (20, 2), (34,), (2,)))
    heads = {"n_heads": 4, "n_kv_heads": 2}
    bias = rng.normal(size=(4, 7, 7))
    yield Example((x, None, *weights, _mask(rng, 6, 1, 7, 7)), {**heads, "rotate": True}, "self, rotated")
    from minitransformer.ops.rotary import Rotation  # the package can be used without the operations

    halves = Rotation("halves", 500.0)
    yield Example((x, None, *weights, _mask(rng, 6, 1, 7, 7)), {**heads, "rotate": halves}, "rotated by halves")
    yield Example((x, memory, *weights), heads, "cross")
    options = {**heads, "bias": bias, "causal": True, "block_size": 3}
    yield Example((x, None, *weights), options, "self, biased, causal, in blocks of 3")


def _layer_norm(rng: np.random.Generator) -> Iterator[Example]:
    gain, bias = rng.normal(size=5), rng.normal(size=5)
    yield Example((rng.normal(size=(2, 3, 5)), gain, bias), {}, "random gain")
    yield Example((100 + rng.normal(size=(4, 5)), gain, bias), {}, "far from 0")


def _feed_forward(rng: np.random.Generator) -> Iterator[Example]:
    shapes = {"x": (2, 3, 4), "w1": (4, 6), "b1": (6,), "w2": (6, 5), "b2": (5,)}
    yield Example(tuple(rng.normal(size=shape) for shape in shapes.values()), {})


def _silu(rng: np.random.Generator) -> Iterator[Example]:
    x = 2 * rng.normal(size=(3, 5))
    yield Example((x,), {}, "β 1")
    yield Example((x,), {"beta": 1.702}, "β 1.702")


def _rms_norm(rng: np.random.Generator) -> Iterator[Example]:
    gain = rng.normal(size=5)
    yield Example((rng.normal(size=(2, 3, 5)), gain), {}, "random gain")
    yield Example((0.01 * rng.normal(size=(4, 5)), gain), {"eps": 1e-3}, "eps larger than the mean square")


def _swiglu(rng: np.random.Generator) -> Iterator[Example]:
    yield Example((2 * rng.normal(size=(2, 3, 8)),), {}, "F 4")


def _rotary(rng: np.random.Generator) -> Iterator[Example]:
    from minitransformer.ops.rotary import Rotation

    yield Example((rng.normal(size=(2, 3, 5, 6)),), {}, "from position 0")
    yield Example((rng.normal(size=(5, 6)),), {"first": 40}, "from position 40")
    yield Example((rng.normal(size=(5, 6)),), {"rotation": Rotation("halves", 500.0, 4.0, length=64.0)}, "by halves")


def _embedding(rng: np.random.Generator) -> Iterator[Example]:
    yield Example((np.array([[1, 3, 1], [0, 1, 4]]), rng.normal(size=(6, 2))), {}, "repeated ids")


def _dropout(rng: np.random.Generator) -> Iterator[Example]:
    x, residual = rng.normal(size=(2, 3, 4, 5))
    yield Example((x, 0.3, np.random.default_rng(1)), {}, "p 0.3")
    yield Example((x, 0.3, np.random.default_rng(1), residual), {}, "p 0.3, with a residual")


def _cross_entropy(rng: np.random.Generator) -> Iterator[Example]:
    logits, targets = rng.normal(size=(2, 4, 5)), np.array([[1, 0, 3, 4], [0, 2, 0, 1]])
    yield Example((logits, targets), {}, "plain")
    yield Example((logits, targets), {"label_smoothing": 0.1, "ignore_index": 0}, "smoothed, padded")
    yield Example((np.round(logits), targets), {"label_smoothing": 0.1}, "tied logits")


def _convolution(rng: np.random.Generator) -> Iterator[Example]:
    x, weight, bias = rng.normal(size=(2, 6, 4)), rng.normal(size=(3, 4, 5)), rng.normal(size=5)
    yield Example((x, weight, bias), {}, "centred")
    yield Example((x, weight[:2], bias), {"causal": True, "dilation": 2}, "causal, dilation 2")
    yield Example((x[:, :2], weight), {"dilation": 2}, "kernel longer than the sentence")


def _local_attention(rng: np.random.Generator) -> Iterator[Example]:
    q, k, v = rng.normal(size=(2, 3, 7, 4)), rng.normal(size=(2, 3, 7, 4)), rng.normal(size=(2, 3, 7, 5))
    yield Example((q, k, v), {"radius": 2}, "radius 2")
    mask = rng.random((2, 1, 7)) < 0.7
    mask[0, 0, :3] = False  # the first two queries of a sentence see nothing
    yield Example((q, k, v, mask), {"radius": 1}, "radius 1, masked, two rows")
    yield Example((q, k, v, mask), {"radius": 2, "causal": True}, "radius 2, causal")


def _additive_attention(rng: np.random.Generator) -> Iterator[Example]:
    shapes = {"q": (2, 3, 4), "k": (2, 5, 6), "v": (2, 5, 7), "w_q": (4, 8), "w_k": (6, 8), "b": (8,), "w_s": (8,)}
    inputs = tuple(0.7 * rng.normal(size=shape) for shape in shapes.values())
    yield Example(inputs, {}, "no mask")
    yield Example((*inputs, _mask(rng, 2, 3, 5)), {}, "masked, one row wholly")


EXAMPLES: dict[str, Callable[[np.random.Generator], Iterator[Example]]] = {
    "softmax": _softmax,
    "log_softmax": _rows,
    "masking": _masking,
    "scaled_dot_product_attention": _attention,
    "multi_head_attention": _multi_head_attention,
    "grouped_query_attention": _grouped_query_attention,
    "layer_norm": _layer_norm,
    "feed_forward": _feed_forward,
    "silu": _silu,
    "rms_norm": _rms_norm,
    "swiglu": _swiglu,
    "rotary": _rotary,
    "embedding": _embedding,
    "dropout": _dropout,
    "cross_entropy": _cross_entropy,
    "convolution": _convolution,
    "local_attention": _local_attention,
    "additive_attention": _additive_attention,
}
"""By name: for operations that take more than floating-point arrays, or have special cases."""
