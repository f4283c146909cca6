"""What the pages say when they refuse their input: the whole message, for it is part of what a user gets."""

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


REFUSED = [
    (lambda: ops.softmax(a(2, 3), axis=2), "softmax: axis 2 is out of range: x of shape (2, 3) has 2 axes"),
    (lambda: ops.softmax(a(2, 3), axis=-3), "softmax: axis -3 is out of range: x of shape (2, 3) has 2 axes"),
    (lambda: ops.log_softmax(a(2), axis=1), "log_softmax: axis 1 is out of range: x of shape (2,) has 1 axes"),
    (
        lambda: ops.linear(a(2, 3), a(4, 5)),
        "linear: x of shape (2, 3) and weight of shape (4, 5) do not match: "
        "the last axis of x must be as long as the first of weight (D_in, D_out)",
    ),
    (
        lambda: ops.linear(a(2, 3), a(3)),
        "linear: x of shape (2, 3) and weight of shape (3,) do not match: "
        "the last axis of x must be as long as the first of weight (D_in, D_out)",
    ),
    (
        lambda: ops.linear(a(), a(3, 4)),
        "linear: x of shape () and weight of shape (3, 4) do not match: "
        "the last axis of x must be as long as the first of weight (D_in, D_out)",
    ),
    (
        lambda: ops.linear(a(2, 3), a(3, 4), a(5)),
        "linear: bias of shape (5,) and weight of shape (3, 4) do not match: expected a bias of shape (4,)",
    ),
    *(
        (
            lambda x=x, w1=w1, w2=w2: ops.feed_forward(a(*x), a(*w1), a(4), a(*w2), a(5)),
            f"feed_forward: x of shape {x}, w1 of shape {w1} and w2 of shape {w2} do not match: "
            "expected (..., D), (D, F) and (F, D)",
        )
        for x, w1, w2 in (
            ((2, 6), (3, 4), (4, 5)),
            ((2, 3), (3, 4), (6, 5)),
            ((2, 3), (3,), (4, 5)),
            ((2, 3), (3, 4), (4,)),
            ((2, 3), (3, 4, 1), (4, 5)),
            ((), (3, 4), (4, 5)),
        )
    ),
    *(
        (
            lambda b1=b1, b2=b2: ops.feed_forward(a(2, 3), a(3, 4), a(*b1), a(4, 5), a(*b2)),
            f"feed_forward: b1 of shape {b1} and b2 of shape {b2} do not match w1 of shape (3, 4) "
            "and w2 of shape (4, 5): expected (4,) and (5,)",
        )
        for b1, b2 in (((6,), (5,)), ((4,), (6,)), ((1, 4), (5,)))
    ),
    *(
        (
            lambda x=x, gain=gain, bias=bias: ops.layer_norm(a(*x), a(*gain), a(*bias)),
            f"layer_norm: x of shape {x}, gain of shape {gain} and bias of shape {bias} "
            "do not match: expected (..., D), (D,) and (D,) with D at least 1",
        )
        for x, gain, bias in (
            ((2, 3), (4,), (3,)),
            ((2, 3), (3,), (4,)),
            ((2, 3), (1, 3), (3,)),
            ((2, 0), (0,), (0,)),
            ((), (1,), (1,)),
        )
    ),
    *(
        (
            lambda logits=logits, targets=targets: ops.cross_entropy(a(*logits), np.zeros(targets, dtype=int)),
            f"cross_entropy: logits of shape {logits} and targets of shape {targets} do not match: "
            "expected (..., V) and (...) with V at least 1",
        )
        for logits, targets in (((2, 3), (3,)), ((2, 3), (2, 1)), ((2, 0), (2,)), ((), ()))
    ),
    *(
        (
            lambda smoothing=smoothing: ops.cross_entropy(a(2, 3), [0, 1], label_smoothing=smoothing),
            f"cross_entropy: label_smoothing must be from 0 to 1, found {smoothing}",
        )
        for smoothing in (-0.1, 1.1)
    ),
    (lambda: ops.cross_entropy(a(2, 3), [0, 3]), "cross_entropy: id 3 is out of range: ids must be from 0 to 2"),
    (lambda: ops.cross_entropy(a(2, 3), [-1, 1]), "cross_entropy: id -1 is out of range: ids must be from 0 to 2"),
    *(
        (
            lambda q=q, k=k, v=v: ops.scaled_dot_product_attention(a(*q), a(*k), a(*v)),
            f"scaled_dot_product_attention: q of shape {q}, k of shape {k} and v of shape {v} do not match: "
            "expected (..., Tq, Dk), (..., Tk, Dk) and (..., Tk, Dv) with the same leading axes and Dk at least 1",
        )
        for q, k, v in (
            ((2, 3, 4), (2, 5, 6), (2, 5, 7)),
            ((2, 3, 4), (2, 5, 4), (2, 6, 7)),
            ((2, 3, 4), (1, 5, 4), (2, 5, 7)),
            ((2, 3, 4), (2, 5, 4), (1, 5, 7)),
            ((3, 0), (5, 0), (5, 7)),
            ((4,), (5, 4), (5, 7)),
            ((3, 4), (4,), (5, 7)),
            ((3, 4), (5, 4), (5,)),
        )
    ),
    (
        lambda: ops.scaled_dot_product_attention(a(2, 3, 4), a(2, 5, 4), a(2, 5, 6), np.ones((3, 4), dtype=bool)),
        "scaled_dot_product_attention: a mask of shape (3, 4) cannot be broadcast to the scores' shape (2, 3, 5)",
    ),
    (
        lambda: ops.scaled_dot_product_attention(a(3, 4), a(5, 4), a(5, 6), np.ones((3, 5))),
        "scaled_dot_product_attention: the mask must be boolean (True = may attend), found float64; "
        "write `mask != 0` for a mask of ones and zeros, `mask == 0` for one to be added",
    ),
    (
        lambda: ops.scaled_dot_product_attention.composed(
            mt.Tensor(a(3, 4)), mt.Tensor(a(5, 4)), mt.Tensor(a(5, 6)), np.ones((3, 4), dtype=bool)
        ),
        "scaled_dot_product_attention: a mask of shape (3, 4) cannot be broadcast to the scores' shape (3, 5)",
    ),
    (
        lambda: mt.matmul(a(2, 3), a(4, 5)),
        "matmul: shapes (2, 3) and (4, 5) do not match: "
        "the last axis of the first must be as long as the last but one of the second",
    ),
    *(
        (
            lambda x=x, memory=memory, w_in=w_in, w_out=w_out, h=h: ops.multi_head_attention(
                a(*x), None if memory is None else a(*memory), a(*w_in), a(*w_out), n_heads=h
            ),
            f"multi_head_attention: x of shape {x}, memory of shape {memory}, w_in of shape {w_in} "
            f"and w_out of shape {w_out} do not match for {h} heads: expected "
            "(B, Tq, D), (B, Tk, D), (D, H (2 Dk + Dv)) and (H Dv, D), with Dk at least 1",
        )
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
        )
    ),
    (
        lambda: ops.multi_head_attention(a(2, 3, 4), None, a(4, 24), a(8, 4), a(23), n_heads=2),
        "multi_head_attention: expected b_in of shape (24,), found (23,)",
    ),
    (
        lambda: ops.multi_head_attention(a(2, 3, 4), None, a(4, 24), a(8, 4), a(24), a(1, 4), n_heads=2),
        "multi_head_attention: expected b_out of shape (4,), found (1, 4)",
    ),
    (
        lambda: ops.multi_head_attention(a(2, 3, 4), None, a(4, 25), a(8), n_heads=1),
        "multi_head_attention: x of shape (2, 3, 4), memory of shape None, w_in of shape (4, 25) "
        "and w_out of shape (8,) do not match for 1 heads: expected "
        "(B, Tq, D), (B, Tk, D), (D, H (2 Dk + Dv)) and (H Dv, D), with Dk at least 1",
    ),
    (
        lambda: ops.multi_head_attention.composed(a(2, 3, 4), a(1, 5, 4), a(4, 24), a(8, 4), n_heads=2),
        "multi_head_attention: x of shape (2, 3, 4), memory of shape (1, 5, 4), w_in of shape (4, 24) "
        "and w_out of shape (8, 4) do not match for 2 heads: expected "
        "(B, Tq, D), (B, Tk, D), (D, H (2 Dk + Dv)) and (H Dv, D), with Dk at least 1",
    ),
    (
        lambda: ops.multi_head_attention.composed(a(2, 3, 4), None, a(4, 24), a(8, 4), a(23), n_heads=2),
        "multi_head_attention: expected b_in of shape (24,), found (23,)",
    ),
    (
        lambda: ops.multi_head_attention.composed(a(2, 3, 4), None, a(4, 24), a(8, 4), None, a(1, 4), n_heads=2),
        "multi_head_attention: expected b_out of shape (4,), found (1, 4)",
    ),
    (
        lambda: ops.recurrence(a(2, 3, 4), a(5, 6), a(6, 6), a(6)),
        "recurrence: x of shape (2, 3, 4), w of shape (5, 6), u of shape (6, 6) and b of shape (6,) do not match: "
        "expected (B, T, D), (D, D_h), (D_h, D_h) and (D_h,)",
    ),
    (
        lambda: ops.recurrence(a(2, 3, 4), a(4, 6), a(6, 6), a(6), a(6)),
        "recurrence: expected h0 of shape (2, 6), a state (D_h,) for each sentence, found (6,)",
    ),
    (
        lambda: ops.convolution(a(2, 3, 4), a(4, 5)),
        "convolution: x of shape (2, 3, 4) and weight of shape (4, 5) do not match: "
        "expected (B, T, D_in) and (k, D_in, D_out) with k at least 1",
    ),
    (
        lambda: ops.convolution(a(2, 3, 4), a(3, 4, 5), a(4)),
        "convolution: expected a bias of shape (5,), found (4,)",
    ),
    (
        lambda: ops.convolution(a(2, 3, 4), a(2, 4, 5)),
        "convolution: a kernel of even size 2 has no middle: "
        "use an odd size, or causal=True, which looks to the left only",
    ),
    (
        lambda: ops.convolution(a(2, 3, 4), a(3, 4, 5), dilation=0),
        "convolution: dilation must be a whole number of at least 1, found 0",
    ),
    (
        lambda: ops.local_attention(a(3, 4), a(5, 4), a(5, 6), radius=1),
        "local_attention: q of shape (3, 4), k of shape (5, 4) and v of shape (5, 6) do not match: "
        "expected (..., T, Dk), (..., T, Dk) and (..., T, Dv) with the same leading axes and Dk at least 1",
    ),
    (
        lambda: ops.local_attention(a(3, 4), a(3, 4), a(3, 6), radius=-1),
        "local_attention: radius must be a whole number of at least 0, found -1",
    ),
    (
        lambda: ops.local_attention(a(2, 3, 4), a(2, 3, 4), a(2, 3, 6), np.ones((3, 3), dtype=bool), radius=1),
        "local_attention: a mask of shape (3, 3) cannot be broadcast to the keys' shape (2, 3)",
    ),
    (
        lambda: ops.additive_attention(a(3, 4), a(5, 6), a(2, 7), a(4, 8), a(6, 8), a(8), a(8)),
        "additive_attention: q of shape (3, 4), k of shape (5, 6) and v of shape (2, 7) do not match: "
        "expected (..., Tq, Dq), (..., Tk, Dkk) and (..., Tk, Dv) with the same leading axes",
    ),
    (
        lambda: ops.additive_attention(a(3, 4), a(5, 6), a(5, 7), a(4, 8), a(4, 8), a(8), a(8)),
        "additive_attention: w_q of shape (4, 8), w_k of shape (4, 8), b of shape (8,) and w_s of shape (8,) "
        "do not match: expected (4, A), (6, A), (A,) and (A,)",
    ),
    (lambda: ops.embedding([0], a(3)), "embedding: expected a table of shape (V, D), found (3,)"),
    (lambda: ops.embedding([0], a(3, 4, 5)), "embedding: expected a table of shape (V, D), found (3, 4, 5)"),
    (lambda: ops.embedding([0, 3], a(3, 4)), "embedding: id 3 is out of range: ids must be from 0 to 2"),
    (
        lambda: ops.embedding.composed([0, 3], mt.Tensor(a(3, 4))),
        "embedding: id 3 is out of range: ids must be from 0 to 2",
    ),
    (
        lambda: ops.embedding(np.array([0.5]), a(3, 4)),
        "embedding: ids must be whole numbers, found an array of float64",
    ),
    *(
        (
            lambda p=p: ops.dropout(a(3), p, np.random.default_rng(0)),
            f"dropout: the probability must be at least 0 and below 1, found {p}",
        )
        for p in (-0.1, 1, 1.5)
    ),
    (
        lambda: ops.masking(a(3, 4), np.ones((4, 3), dtype=bool)),
        "masking: a mask of shape (4, 3) cannot be broadcast to the scores' shape (3, 4)",
    ),
    (
        lambda: ops.embedding([0], a(0, 4)),
        "embedding: found ids, but there is nothing to choose from: an axis of length 0",
    ),
    (
        lambda: ops.dropout(a(3), 0.5, 0),
        "dropout: rng must be a numpy.random.Generator, such as np.random.default_rng(0), found int",
    ),
    (lambda: ops.softmax(a(3), axis=None), "softmax: axis must be a whole number, found None"),
    (
        lambda: ops.cross_entropy(a(3), 1.5),
        "cross_entropy: ids must be whole numbers, found an array of float64",
    ),
    *(
        (
            call,
            f"{name} must hold floating-point numbers, found int64; write 1.0 for 1, or use .astype(float)",
        )
        for name, call in (
            ("softmax: x", lambda: ops.softmax([1, 2, 3])),
            ("log_softmax: x", lambda: ops.log_softmax([1, 2, 3])),
            ("cross_entropy: logits", lambda: ops.cross_entropy([[1, 2]], [0])),
            ("linear: weight", lambda: ops.linear(a(2, 3), whole(3, 4))),
            ("feed_forward: b2", lambda: ops.feed_forward(a(2, 3), a(3, 4), a(4), a(4, 3), whole(3))),
            (
                "scaled_dot_product_attention: q",
                lambda: ops.scaled_dot_product_attention(whole(2, 3), a(4, 3), a(4, 5)),
            ),
            ("multi_head_attention: x", lambda: ops.multi_head_attention(whole(2, 3, 4), None, a(4, 12), a(4, 4))),
            ("recurrence: x", lambda: ops.recurrence(whole(2, 3, 4), a(4, 5), a(5, 5), a(5))),
            ("convolution: x", lambda: ops.convolution(whole(2, 3, 4), a(3, 4, 5))),
            ("local_attention: v", lambda: ops.local_attention(a(2, 3), a(2, 3), whole(2, 4), radius=1)),
            (
                "additive_attention: b",
                lambda: ops.additive_attention(a(3, 4), a(5, 6), a(5, 7), a(4, 8), a(6, 8), whole(8), a(8)),
            ),
        )
    ),
    *(
        (call, f"{operation} float64; give all one type, by .astype")
        for operation, call in (
            ("linear: x is float32 and bias", lambda: ops.linear(single(2, 3), single(3, 4), a(4))),
            (
                "feed_forward: x is float32 and b2",
                lambda: ops.feed_forward(single(2, 3), single(3, 4), single(4), single(4, 5), a(5)),
            ),
            ("layer_norm: x is float32 and bias", lambda: ops.layer_norm(single(2, 3), single(3), a(3))),
            (
                "dropout: x is float32 and residual",
                lambda: ops.dropout(single(2, 3), 0.5, np.random.default_rng(0), a(2, 3)),
            ),
            (
                "multi_head_attention: x is float32 and w_in",
                lambda: ops.multi_head_attention(single(2, 3, 4), None, a(4, 12), a(4, 4)),
            ),
            (
                "scaled_dot_product_attention: q is float32 and v",
                lambda: ops.scaled_dot_product_attention(single(2, 3), single(4, 3), a(4, 5)),
            ),
        )
    ),
    (
        lambda: ops.softmax.forward(a(2, 3), out=a(2, 2)),
        "softmax: expected an out of float64 and shape (2, 3), found float64 and (2, 2)",
    ),
    (
        lambda: ops.softmax.forward(a(1, 3), out=single(1, 3)),
        "softmax: expected an out of float64 and shape (1, 3), found float32 and (1, 3)",
    ),
    (lambda: ops.causal_mask(2.5), "causal_mask: the number of positions must be 0 or more, and whole, found 2.5"),
    (lambda: ops.causal_mask(-1), "causal_mask: the number of positions must be 0 or more, and whole, found -1"),
    (
        lambda: ops.sinusoidal_positions(-1, 4),
        "sinusoidal_positions: expected length >= 0 and d_model >= 1, found -1 and 4",
    ),
    (
        lambda: ops.sinusoidal_positions(3, 0),
        "sinusoidal_positions: expected length >= 0 and d_model >= 1, found 3 and 0",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message[:60] for _, message in REFUSED])
def test_bad_input_is_refused_with_this_message(call, message):
    with pytest.raises((ValueError, TypeError, IndexError), match=f"^{re.escape(message)}$"):
        call()
