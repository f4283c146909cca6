"""What operations say when they refuse their input: their name, what was found, what was expected, what to do.

These facts are compared, not the sentence around them: a better wording needs no other test.
"""

import re

import numpy as np
import pytest

import minitransformer as mt
from minitransformer import ops


def a(*shape):
    return np.zeros(shape)


def single(*shape):
    return np.zeros(shape, dtype=np.float32)


def whole(*shape):
    return np.zeros(shape, dtype=np.int64)


def mask(*shape):
    return np.ones(shape, dtype=bool)


def shapes(**of):
    """Match each name followed by its shape."""
    return [rf"\b{name}\b[^()]*{re.escape(f'{shape}')}" for name, shape in of.items()]


def expected(*words):
    """Match what was expected: the words in this order, after "expected" or "must"."""
    return r"\b(?:expected|must)\b.*?" + ".*?".join(re.escape(f"{word}") for word in words)


def found(*words):
    """Match what was found instead."""
    return r"\bfound\b[^;]*?" + "[^;]*?".join(re.escape(f"{word}") for word in words)


def says(*words):
    """Match words wherever they are."""
    return ".*?".join(rf"(?<!\w){re.escape(f'{word}')}(?!\w)" for word in words)


CASES = []


def refuses(error, operation, call, *facts):
    """Note that a call is to raise an error that begins with the operation's name and holds these facts."""
    facts = [fact for some in facts for fact in ([some] if isinstance(some, str) else some)]
    CASES.append(pytest.param(error, operation, call, facts, id=f"{operation}-{len(CASES)}"))


for axis in (2, -3):
    refuses(ValueError, "softmax", lambda axis=axis: ops.softmax(a(2, 3), axis=axis),
            says("axis", axis), shapes(x=(2, 3)), says("2 axes"))  # fmt: skip
refuses(ValueError, "log_softmax", lambda: ops.log_softmax(a(2), axis=1),
        says("axis 1"), shapes(x=(2,)), says("1 axes"))  # fmt: skip
refuses(TypeError, "softmax", lambda: ops.softmax(a(3), axis=None), says("axis"), expected("whole"), found(None))
refuses(ValueError, "softmax", lambda: ops.softmax.forward(a(2, 3), out=a(2, 2)),
        says("out"), expected("float64", (2, 3)), found("float64", (2, 2)))  # fmt: skip
refuses(ValueError, "softmax", lambda: ops.softmax.forward(a(1, 3), out=single(1, 3)),
        says("out"), expected("float64", (1, 3)), found("float32", (1, 3)))  # fmt: skip

for x, weight in (((2, 3), (4, 5)), ((2, 3), (3,)), ((), (3, 4))):
    refuses(ValueError, "linear", lambda x=x, weight=weight: ops.linear(a(*x), a(*weight)),
            shapes(x=x, weight=weight), expected("(D_in, D_out)"))  # fmt: skip
refuses(ValueError, "linear", lambda: ops.linear(a(2, 3), a(3, 4), a(5)),
        shapes(weight=(3, 4), bias=(5,)), expected("bias must be (4,)"))  # fmt: skip
for one, other in (((3, 2), (3, 5)), ((4, 2), (2, 5)), ((3, 0), (0, 5))):
    refuses(ValueError, "low_rank_linear",
            lambda one=one, other=other: ops.low_rank_linear(a(2, 3), a(3, 5), a(*one), a(*other)),
            shapes(a=one, b=other), expected("(D_in, r)", "(r, D_out)", "r at least 1"))  # fmt: skip

for x, w1, w2 in (
    ((2, 6), (3, 4), (4, 5)),
    ((2, 3), (3, 4), (6, 5)),
    ((2, 3), (3,), (4, 5)),
    ((2, 3), (3, 4), (4,)),
    ((2, 3), (3, 4, 1), (4, 5)),
    ((), (3, 4), (4, 5)),
):
    refuses(ValueError, "feed_forward",
            lambda x=x, w1=w1, w2=w2: ops.feed_forward(a(*x), a(*w1), a(4), a(*w2), a(5)),
            shapes(x=x, w1=w1, w2=w2), expected("(..., D)", "(D, F)", "(F, D_out)"))  # fmt: skip
for b1, b2 in (((6,), (5,)), ((4,), (6,)), ((1, 4), (5,))):
    refuses(ValueError, "feed_forward",
            lambda b1=b1, b2=b2: ops.feed_forward(a(2, 3), a(3, 4), a(*b1), a(4, 5), a(*b2)),
            shapes(w1=(3, 4), b1=b1, w2=(4, 5), b2=b2),
            expected("b2 must be (5,)" if b2 == (6,) else "b1 must be (4,)"))  # fmt: skip

for x, gain, bias in (
    ((2, 3), (4,), (3,)),
    ((2, 3), (3,), (4,)),
    ((2, 3), (1, 3), (3,)),
    ((2, 0), (0,), (0,)),
    ((), (1,), (1,)),
):
    refuses(ValueError, "layer_norm",
            lambda x=x, gain=gain, bias=bias: ops.layer_norm(a(*x), a(*gain), a(*bias)),
            shapes(x=x, gain=gain, bias=bias), expected("(..., D)", "(D,)", "(D,)", "D at least 1"))  # fmt: skip

for x, gain in (((2, 3), (4,)), ((2, 3), (1, 3)), ((2, 0), (0,)), ((), (1,))):
    refuses(ValueError, "rms_norm", lambda x=x, gain=gain: ops.rms_norm(a(*x), a(*gain)),
            shapes(x=x, gain=gain), expected("(..., D)", "(D,)", "D at least 1"))  # fmt: skip

for heads in ((4, 3), (4, 0), (0, 1), (4, 1.5)):
    refuses(ValueError, "grouped_query_attention",
            lambda n=heads: ops.grouped_query_attention(
                a(2, 3, 4), None, a(4, 12), a(4, 4), n_heads=n[0], n_kv_heads=n[1]
            ), says("n_heads", "n_kv_heads", "divide"), found(*heads))  # fmt: skip
for x, memory, w_in, w_out in (
    ((2, 3, 4), None, (4, 9), (4, 4)), ((2, 3, 5), None, (4, 8), (4, 4)), ((2, 3, 4), (1, 3, 4), (4, 8), (4, 4)),
    ((2, 3, 4), None, (4, 8), (3, 4)), ((3, 4), None, (4, 8), (4, 4)), ((2, 3, 4), None, (4, 2), (4, 4)),
):  # fmt: skip
    refuses(ValueError, "grouped_query_attention",
            lambda x=x, memory=memory, w_in=w_in, w_out=w_out: ops.grouped_query_attention(
                a(*x), None if memory is None else a(*memory), a(*w_in), a(*w_out), n_heads=2, n_kv_heads=1
            ), shapes(x=x, w_in=w_in, w_out=w_out), expected("(B, Tq, D)", "(D, H Dk + G (Dk + Dv))"))  # fmt: skip
for memory in (a(2, 3, 4), x := a(2, 3, 4)):
    refuses(ValueError, "grouped_query_attention",
            lambda x=x, memory=memory: ops.grouped_query_attention(
                x, memory, a(4, 8), a(4, 4), n_heads=2, n_kv_heads=1, rotate=True
            ), says("rotate", "self-attention"), found("a memory"))  # fmt: skip
for n_heads, length in ((0, 3), (2.5, 3), (2, -1), (2, 0.5)):
    refuses(ValueError, "alibi", lambda n=n_heads, t=length: ops.alibi(n, t), says("whole number", "at least"),
            found(length if n_heads == 2 else n_heads))  # fmt: skip
refuses(ValueError, "alibi", lambda: ops.alibi(2, 3, "int64"), expected("floating-point"), found("int64"))
refuses(ValueError, "scaled_dot_product_attention",
        lambda: ops.scaled_dot_product_attention(a(2, 3), a(4, 3), a(4, 5), bias=a(3, 4)),
        says("a bias of shape (3, 4)", "(2, 4)"))  # fmt: skip

for x in ((2, 3), (1,), ()):
    refuses(ValueError, "swiglu", lambda x=x: ops.swiglu(a(*x)), shapes(x=x), expected("(..., 2F)"))  # fmt: skip

for x in ((2, 3), (4,), ()):
    refuses(ValueError, "rotary", lambda x=x: ops.rotary(a(*x)), shapes(x=x), expected("(..., T, D)", "even D"))
for first in (-1, 0.5):
    refuses(ValueError, "rotary", lambda first=first: ops.rotary(a(2, 4), first=first),
            says("first must be", "whole", "at least 0"), found(first))  # fmt: skip

for logits, targets in (((2, 3), (3,)), ((2, 3), (2, 1)), ((2, 0), (2,)), ((), ())):
    refuses(ValueError, "cross_entropy",
            lambda logits=logits, targets=targets: ops.cross_entropy(a(*logits), np.zeros(targets, dtype=int)),
            shapes(logits=logits, targets=targets), expected("(..., V)", "(...)", "V at least 1"))  # fmt: skip
for smoothing in (-0.1, 1.1):
    refuses(ValueError, "cross_entropy",
            lambda smoothing=smoothing: ops.cross_entropy(a(2, 3), [0, 1], label_smoothing=smoothing),
            says("label_smoothing"), expected("from 0 to 1"), found(smoothing))  # fmt: skip
refuses(TypeError, "cross_entropy", lambda: ops.cross_entropy(a(3), 1.5), expected("whole"), found("float64"))

for wrong in (3, -1):
    call = lambda wrong=wrong: ops.cross_entropy(a(2, 3), [wrong, 1])  # noqa: E731
    refuses(IndexError, "cross_entropy", call, says("id", wrong), expected("from 0 to 2"))
for embed in (ops.embedding, lambda ids, table: ops.embedding.composed(ids, mt.Tensor(table))):
    refuses(IndexError, "embedding", lambda embed=embed: embed([0, 3], a(3, 4)), says("id 3"), expected("from 0 to 2"))
for table in ((3,), (3, 4, 5)):
    refuses(ValueError, "embedding", lambda table=table: ops.embedding([0], a(*table)),
            says("table"), expected("(V, D)"), found(table))  # fmt: skip
refuses(IndexError, "embedding", lambda: ops.embedding([0], a(0, 4)), found("ids"), says("axis of length 0"))
refuses(TypeError, "embedding", lambda: ops.embedding(np.array([0.5]), a(3, 4)), expected("whole"), found("float64"))

ATTENTION = "scaled_dot_product_attention"
for q, k, v in (
    ((2, 3, 4), (2, 5, 6), (2, 5, 7)),
    ((2, 3, 4), (2, 5, 4), (2, 6, 7)),
    ((2, 3, 4), (1, 5, 4), (2, 5, 7)),
    ((2, 3, 4), (2, 5, 4), (1, 5, 7)),
    ((3, 0), (5, 0), (5, 7)),
    ((4,), (5, 4), (5, 7)),
    ((3, 4), (4,), (5, 7)),
    ((3, 4), (5, 4), (5,)),
):
    refuses(ValueError, ATTENTION,
            lambda q=q, k=k, v=v: ops.scaled_dot_product_attention(a(*q), a(*k), a(*v)), shapes(q=q, k=k, v=v),
            expected("(..., Tq, Dk)", "(..., Tk, Dk)", "(..., Tk, Dv)", "same leading axes",
                     "Dk at least 1"))  # fmt: skip
refuses(ValueError, ATTENTION,
        lambda: ops.scaled_dot_product_attention(a(2, 3, 4), a(2, 5, 4), a(2, 5, 6), mask(3, 4)),
        shapes(mask=(3, 4), scores=(2, 3, 5)), says("broadcast"))  # fmt: skip
refuses(ValueError, ATTENTION,
        lambda: ops.scaled_dot_product_attention.composed(*map(mt.Tensor, (a(3, 4), a(5, 4), a(5, 6))), mask(3, 4)),
        shapes(mask=(3, 4), scores=(3, 5)), says("broadcast"))  # fmt: skip
refuses(TypeError, ATTENTION,
        lambda: ops.scaled_dot_product_attention(a(3, 4), a(5, 4), a(5, 6), np.ones((3, 5))),
        says("mask"), expected("boolean", "True"), found("float64"), "`mask != 0`", "`mask == 0`")  # fmt: skip

refuses(ValueError, "matmul", lambda: mt.matmul(a(2, 3), a(4, 5)), says("(2, 3)", "(4, 5)"), expected("as long as"))

HEADS = ("(B, Tq, D)", "(B, Tk, D)", "(D, H (2 Dk + Dv))", "(H Dv, D)", "Dk at least 1")
for x, memory, w_in, w_out, h in (
    ((3, 4), None, (4, 24), (8, 4), 2),
    ((2, 3, 5), None, (4, 24), (8, 4), 2),
    ((2, 3, 4), (3, 4), (4, 24), (8, 4), 2),
    ((2, 3, 4), (1, 5, 4), (4, 24), (8, 4), 2),
    ((2, 3, 4), (2, 5, 6), (4, 24), (8, 4), 2),
    ((2, 3, 4), None, (4, 25), (8, 4), 2),
    ((2, 3, 4), None, (4, 24), (8, 4), 3),
    ((2, 3, 4), None, (4, 20), (6, 4), 2),
    ((2, 3, 4), None, (4, 19), (7, 4), 2),
    ((2, 3, 4), None, (4, 8), (8, 4), 2),
    ((2, 3, 4), None, (4, 24), (8, 4), 0),
    ((2, 3, 4), None, (24,), (8, 4), 2),
    ((2, 3, 4), None, (4, 24), (8,), 2),
    ((2, 3, 4), None, (4, 6), (8, 4), 2),
    ((2, 3, 4), None, (4, 25), (8,), 1),
):
    refuses(ValueError, "multi_head_attention",
            lambda x=x, memory=memory, w_in=w_in, w_out=w_out, h=h: ops.multi_head_attention(
                a(*x), None if memory is None else a(*memory), a(*w_in), a(*w_out), n_heads=h),
            shapes(x=x, memory=memory, w_in=w_in, w_out=w_out), says(f"{h} heads"), expected(*HEADS))  # fmt: skip
refuses(ValueError, "multi_head_attention",
        lambda: ops.multi_head_attention.composed(a(2, 3, 4), a(1, 5, 4), a(4, 24), a(8, 4), n_heads=2),
        shapes(x=(2, 3, 4), memory=(1, 5, 4), w_in=(4, 24), w_out=(8, 4)), says("2 heads"),
        expected(*HEADS))  # fmt: skip
for heads in (ops.multi_head_attention, ops.multi_head_attention.composed):
    refuses(ValueError, "multi_head_attention",
            lambda heads=heads: heads(a(2, 3, 4), None, a(4, 24), a(8, 4), a(23), n_heads=2),
            expected("b_in", (24,)), found((23,)))  # fmt: skip
    refuses(ValueError, "multi_head_attention",
            lambda heads=heads: heads(a(2, 3, 4), None, a(4, 24), a(8, 4), None, a(1, 4), n_heads=2),
            expected("b_out", (4,)), found((1, 4)))  # fmt: skip

refuses(ValueError, "recurrence", lambda: ops.recurrence(a(2, 3, 4), a(5, 6), a(6, 6), a(6)),
        shapes(x=(2, 3, 4), w=(5, 6), u=(6, 6), b=(6,)),
        expected("(B, T, D)", "(D, D_h)", "(D_h, D_h)", "(D_h,)"))  # fmt: skip
refuses(ValueError, "recurrence", lambda: ops.recurrence(a(2, 3, 4), a(4, 6), a(6, 6), a(6), a(6)),
        shapes(h0=(6,)), expected("h0 must be (2, 6)"))  # fmt: skip

refuses(ValueError, "convolution", lambda: ops.convolution(a(2, 3, 4), a(4, 5)),
        shapes(x=(2, 3, 4), weight=(4, 5)), expected("(B, T, D_in)", "(k, D_in, D_out)", "k at least 1"))  # fmt: skip
refuses(ValueError, "convolution", lambda: ops.convolution(a(2, 3, 4), a(3, 4, 5), a(4)),
        shapes(bias=(4,)), expected("bias must be (5,)"))  # fmt: skip
refuses(ValueError, "convolution", lambda: ops.convolution(a(2, 3, 4), a(2, 4, 5)),
        says("even size 2"), says("odd"), says("causal=True"))  # fmt: skip
refuses(ValueError, "convolution", lambda: ops.convolution(a(2, 3, 4), a(3, 4, 5), dilation=0),
        says("dilation"), expected("at least 1"), found(0))  # fmt: skip

refuses(ValueError, "local_attention", lambda: ops.local_attention(a(3, 4), a(5, 4), a(5, 6), radius=1),
        shapes(q=(3, 4), k=(5, 4), v=(5, 6)),
        expected("(..., T, Dk)", "(..., T, Dk)", "(..., T, Dv)", "same leading axes", "Dk at least 1"))  # fmt: skip
refuses(ValueError, "local_attention", lambda: ops.local_attention(a(3, 4), a(3, 4), a(3, 6), radius=-1),
        says("radius"), expected("at least 0"), found(-1))  # fmt: skip
refuses(ValueError, "local_attention",
        lambda: ops.local_attention(a(2, 3, 4), a(2, 3, 4), a(2, 3, 6), mask(3, 3), radius=1),
        shapes(mask=(3, 3), keys=(2, 3)), says("broadcast"))  # fmt: skip

refuses(ValueError, "additive_attention",
        lambda: ops.additive_attention(a(3, 4), a(5, 6), a(2, 7), a(4, 8), a(6, 8), a(8), a(8)),
        shapes(q=(3, 4), k=(5, 6), v=(2, 7)),
        expected("(..., Tq, Dq)", "(..., Tk, Dkk)", "(..., Tk, Dv)", "same leading axes"))  # fmt: skip
refuses(ValueError, "additive_attention",
        lambda: ops.additive_attention(a(3, 4), a(5, 6), a(5, 7), a(4, 8), a(4, 8), a(8), a(8)),
        shapes(w_q=(4, 8), w_k=(4, 8), b=(8,), w_s=(8,)), expected("(A,)", "(A,)", "w_k must be (6, 8)"))  # fmt: skip

refuses(ValueError, "masking", lambda: ops.masking(a(3, 4), mask(4, 3)),
        shapes(mask=(4, 3), scores=(3, 4)), says("broadcast"))  # fmt: skip
for p in (-0.1, 1, 1.5):
    refuses(ValueError, "dropout", lambda p=p: ops.dropout(a(3), p, np.random.default_rng(0)),
            expected("at least 0", "below 1"), found(p))  # fmt: skip
refuses(TypeError, "dropout", lambda: ops.dropout(a(3), 0.5, 0),
        says("rng"), expected("numpy.random.Generator", "default_rng"), found("int"))  # fmt: skip
for n in (2.5, -1):
    refuses(ValueError, "causal_mask", lambda n=n: ops.causal_mask(n), expected("whole", "at least 0"), found(n))
for sizes in ((-1, 4), (3, 0)):
    refuses(ValueError, "sinusoidal_positions", lambda sizes=sizes: ops.sinusoidal_positions(*sizes),
            expected("length >= 0", "d_model >= 1"), found(*sizes))  # fmt: skip

for options in ({"layout": "alternating"}, {"scale": "d_model - 2"}):
    refuses(ValueError, "sinusoidal_positions", lambda options=options: ops.sinusoidal_positions(3, 4, **options),
            expected("'interleaved'", "'halves'", "'d_model'", "'d_model-2'"), found(*options.values()))  # fmt: skip
for d_model in (2, 5):
    refuses(ValueError, "sinusoidal_positions",
            lambda d_model=d_model: ops.sinusoidal_positions(3, d_model, scale="d_model-2"),
            says("even", "at least 4"), found(d_model))  # fmt: skip
for first in (-1, 0.5):
    refuses(ValueError, "sinusoidal_positions", lambda first=first: ops.sinusoidal_positions(3, 4, first=first),
            says("first"), expected("whole", "at least 0"), found(first))  # fmt: skip

for operation, name, call in (
    ("softmax", "x", lambda: ops.softmax([1, 2, 3])),
    ("silu", "x", lambda: ops.silu([1, 2, 3])),
    ("silu", "x", lambda: ops.silu.composed(mt.Tensor(whole(2, 3)))),
    ("gelu", "x", lambda: ops.gelu([1, 2, 3])),
    ("gelu_tanh", "x", lambda: ops.gelu_tanh([1, 2, 3])),
    ("gelu_tanh", "x", lambda: ops.gelu_tanh.composed(mt.Tensor(whole(2, 3)))),
    ("rms_norm", "gain", lambda: ops.rms_norm(a(2, 3), whole(3))),
    ("swiglu", "x", lambda: ops.swiglu([1, 2])),
    ("swiglu", "x", lambda: ops.swiglu.composed(mt.Tensor(whole(2, 4)))),
    ("rotary", "x", lambda: ops.rotary(whole(2, 4))),
    ("rotary", "x", lambda: ops.rotary.composed(mt.Tensor(whole(2, 4)))),
    ("gelu", "x", lambda: ops.gelu.composed(mt.Tensor(whole(2, 3)))),
    ("log_softmax", "x", lambda: ops.log_softmax([1, 2, 3])),
    ("cross_entropy", "logits", lambda: ops.cross_entropy([[1, 2]], [0])),
    ("linear", "weight", lambda: ops.linear(a(2, 3), whole(3, 4))),
    ("feed_forward", "b2", lambda: ops.feed_forward(a(2, 3), a(3, 4), a(4), a(4, 3), whole(3))),
    (ATTENTION, "q", lambda: ops.scaled_dot_product_attention(whole(2, 3), a(4, 3), a(4, 5))),
    ("multi_head_attention", "x", lambda: ops.multi_head_attention(whole(2, 3, 4), None, a(4, 12), a(4, 4))),
    ("recurrence", "x", lambda: ops.recurrence(whole(2, 3, 4), a(4, 5), a(5, 5), a(5))),
    ("convolution", "x", lambda: ops.convolution(whole(2, 3, 4), a(3, 4, 5))),
    ("local_attention", "v", lambda: ops.local_attention(a(2, 3), a(2, 3), whole(2, 4), radius=1)),
    (
        "additive_attention", "b",
        lambda: ops.additive_attention(a(3, 4), a(5, 6), a(5, 7), a(4, 8), a(6, 8), whole(8), a(8)),
    ),
):  # fmt: skip
    refuses(TypeError, operation, call, says(name), expected("floating-point"), found("int64"), says("astype(float)"))

for operation, names, call in (
    ("linear", ("x", "bias"), lambda: ops.linear(single(2, 3), single(3, 4), a(4))),
    (
        "feed_forward", ("x", "b2"),
        lambda: ops.feed_forward(single(2, 3), single(3, 4), single(4), single(4, 5), a(5)),
    ),
    ("layer_norm", ("x", "bias"), lambda: ops.layer_norm(single(2, 3), single(3), a(3))),
    ("rms_norm", ("x", "gain"), lambda: ops.rms_norm(single(2, 3), a(3))),
    ("dropout", ("x", "residual"), lambda: ops.dropout(single(2, 3), 0.5, np.random.default_rng(0), a(2, 3))),
    (
        "multi_head_attention", ("x", "w_in"),
        lambda: ops.multi_head_attention(single(2, 3, 4), None, a(4, 12), a(4, 4)),
    ),
    (ATTENTION, ("q", "v"), lambda: ops.scaled_dot_product_attention(single(2, 3), single(4, 3), a(4, 5))),
):  # fmt: skip
    refuses(TypeError, operation, call, says(names[0], "float32", names[1], "float64"), says("astype"))


for operation, name, call in (
    ("embedding", "table", lambda: ops.embedding([0], whole(2, 3))),
    ("embedding", "table", lambda: ops.embedding.composed([0], mt.Tensor(whole(2, 3)))),
    ("masking", "x", lambda: ops.masking(whole(2, 3), mask(2, 3))),
    ("masking", "x", lambda: ops.masking.composed(mt.Tensor(whole(2, 3)), mask(2, 3))),
    ("log_softmax", "x", lambda: ops.log_softmax.composed(mt.Tensor(whole(2, 3)))),
    ("layer_norm", "x", lambda: ops.layer_norm.composed(*(mt.Tensor(whole(*s)) for s in ((2, 3), (3,), (3,))))),
):
    refuses(TypeError, operation, call, says(name), expected("floating-point"), found("int64"))


def half(*shape):
    return np.zeros(shape, dtype=np.float16)


for operation, name, call in (
    ("softmax", "x", lambda: ops.softmax(half(8000, 4), axis=0)),
    ("layer_norm", "x", lambda: ops.layer_norm(half(2, 3), half(3), half(3))),
    ("cross_entropy", "logits", lambda: ops.cross_entropy(half(1, 2), [0])),
    ("dropout", "x", lambda: ops.dropout(half(3), 0.5, np.random.default_rng(0))),
    ("embedding", "table", lambda: ops.embedding([0], half(2, 3))),
    ("masking", "x", lambda: ops.masking(half(2, 3), mask(2, 3))),
    (ATTENTION, "q", lambda: ops.scaled_dot_product_attention(half(2, 3), half(4, 3), half(4, 5))),
):
    refuses(TypeError, operation, call, says(name), expected("float32", "float64"), found("float16"),
            says(".astype('float32')"))  # fmt: skip

for axis in (True, False, 1.0, np.True_):
    for softmax in (ops.softmax, ops.softmax.composed, ops.log_softmax, ops.log_softmax.composed):
        name = "softmax" if softmax in (ops.softmax, ops.softmax.composed) else "log_softmax"
        refuses(TypeError, name, lambda axis=axis, softmax=softmax: softmax(mt.Tensor(a(2, 3)), axis=axis),
                says("axis"), expected("whole"), found(axis))  # fmt: skip
for n in (True, 2.0):
    refuses(ValueError, "causal_mask", lambda n=n: ops.causal_mask(n), expected("whole", "at least 0"), found(n))
    refuses(TypeError, "padding_mask", lambda n=n: ops.padding_mask([[1, 2]], pad=n), says("pad"), expected("whole"),
            found(n))  # fmt: skip
    refuses(TypeError, "cross_entropy", lambda n=n: ops.cross_entropy(a(1, 3), [0], ignore_index=n),
            says("ignore_index"), expected("whole"), found(n))  # fmt: skip
    refuses(ValueError, "multi_head_attention",
            lambda n=n: ops.multi_head_attention(a(1, 3, 4), None, a(4, 12), a(4, 4), n_heads=n),
            says("n_heads"), expected("whole"), found(n))  # fmt: skip
    for sizes in ((n, 4), (3, n)):
        refuses(ValueError, "sinusoidal_positions", lambda sizes=sizes: ops.sinusoidal_positions(*sizes),
                expected("whole"), found(*sizes))  # fmt: skip
refuses(ValueError, "cross_entropy", lambda: ops.cross_entropy(a(1, 3), [0], label_smoothing=True),
        says("label_smoothing"), expected("0 to 1"), found(True))  # fmt: skip
refuses(ValueError, "sinusoidal_positions", lambda: ops.sinusoidal_positions(3, 4, int),
        expected("floating-point"), found("int"))  # fmt: skip


@pytest.mark.parametrize(("error", "operation", "call", "facts"), CASES)
def test_bad_input_is_refused_with_what_was_found_and_expected(error, operation, call, facts):
    for _ in range(2):  # what was refused once is not remembered as right
        with pytest.raises(error) as caught:
            call()
    message = str(caught.value.args[0])
    assert message.startswith(f"{operation}: "), message
    assert [fact for fact in facts if not re.search(fact, message)] == [], message
