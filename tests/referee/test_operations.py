"""Every hand-derived operation against PyTorch: values and gradients, in float64."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import minitransformer as mt
from minitransformer import ops
from minitransformer.arrays import to_numpy

torch = pytest.importorskip("torch")
F = torch.nn.functional
pytestmark = [pytest.mark.referee, pytest.mark.filterwarnings("error")]

RNG = np.random.default_rng(17)
PAD = 0
IDS = np.array([[3, 1, 6, 2], [2, 5, PAD, PAD], [4, 4, 1, PAD]])
TARGETS = np.array([[1, PAD, 3, 4], [PAD, 2, PAD, 1]])


class Case(NamedTuple):
    name: str
    arrays: tuple[Any, ...]
    ours: Any
    theirs: Any


def draw(*shape, scale=1.0):
    return scale * RNG.normal(size=shape)


def some_hidden(x):
    """Return scores some of which are -inf, but not all of a row."""
    return np.where((RNG.random(x.shape) < 0.3) & (np.arange(x.shape[-1]) > 0), -np.inf, x)


# Not here, because PyTorch gives NaN where we give 0: a softmax of nothing but -inf, and a loss without any target
# that counts. A query that may attend to nothing is 0 in both libraries.


def of_rows(ours, theirs):
    x = draw(2, 3, 5)
    for axis in (-1, 0, 1):
        yield Case(f"axis {axis}", (x,), lambda x, a=axis: ours(x, axis=a), lambda x, a=axis: theirs(x, dim=a))
    for name, scores in {
        "tied scores": np.round(x),
        "scores of ±10,000": 1e4 * np.sign(x) + x,
        "some scores -inf": some_hidden(x),
        "one row": x[0, 0],
        "rows of one": x[..., :1],
        "no rows": x[:0],
    }.items():
        yield Case(name, (scores,), ours, lambda x: theirs(x, dim=-1))


MASKS = {
    "causal": to_numpy(ops.causal_mask(4)),
    "padding": to_numpy(ops.padding_mask(IDS)),  # (B, 1, 1, Tk)
    "causal and padding": to_numpy(ops.causal_mask(4) & ops.padding_mask(IDS)),
    "random, one for each head": RNG.random((3, 2, 4, 4)) < 0.7,
}
SEES_NOTHING = np.array([[False] * 4, [True] * 4, [False, True, False, True], [True, False, False, False]])
MASKS["random, one for each head"][..., 0] = True
MASKS["a query that may attend to nothing"] = SEES_NOTHING
MASKS["nobody may attend to anything"] = np.zeros((4, 4), dtype=bool)


def masking():
    for name, mask in MASKS.items():
        yield Case(
            name,
            (draw(3, 2, 4, 4),),
            lambda x, m=mask: ops.masking(x, m),
            lambda x, m=mask: x.masked_fill(torch.tensor(~m), -torch.inf),
        )


def scaled_dot_product_attention():
    operation = ops.scaled_dot_product_attention
    q, k, v = draw(3, 2, 4, 5), draw(3, 2, 6, 5), draw(3, 2, 6, 7)
    yield Case("cross, Tq 4, Tk 6, Dk 5, Dv 7", (q, k, v), operation, F.scaled_dot_product_attention)
    yield Case("large scores", (30 * q, k, v), operation, F.scaled_dot_product_attention)
    x = draw(2, 3, 5)
    yield Case(
        "q, k and v are one", (x,), lambda x: operation(x, x, x), lambda x: F.scaled_dot_product_attention(x, x, x)
    )
    k, v = k[..., :4, :], v[..., :4, :]
    for name, mask in MASKS.items():
        yield Case(
            name,
            (q, k, v),
            lambda q, k, v, m=mask: operation(q, k, v, m),
            lambda q, k, v, m=mask: F.scaled_dot_product_attention(q, k, v, attn_mask=torch.tensor(m)),
        )


def multi_head_attention():
    n_heads, d_model, d_k, d_v = 2, 5, 3, 4  # sizes that PyTorch's own module cannot have
    keys, values = n_heads * d_k, n_heads * d_v
    x, memory = draw(3, 4, d_model), draw(3, 6, d_model)
    weights = draw(d_model, 2 * keys + values, scale=0.5), draw(values, d_model, scale=0.5)
    biases = draw(2 * keys + values), draw(d_model)

    def theirs(x, memory, w_in, w_out, b_in=None, b_out=None, mask=None):
        parts = (0, keys), (keys, 2 * keys), (2 * keys, 2 * keys + values)
        q, k, v = (
            (source @ w_in[:, a:b] + (0 if b_in is None else b_in[a:b])).unflatten(-1, (n_heads, -1)).transpose(1, 2)
            for source, (a, b) in zip((x, memory, memory), parts, strict=True)
        )
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return heads.transpose(1, 2).flatten(2) @ w_out + (0 if b_out is None else b_out)

    operation = ops.multi_head_attention
    for biased in (True, False):
        rest = weights + biases if biased else weights
        text = "with biases" if biased else "without biases"
        yield Case(
            f"cross, {text}",
            (x, memory, *rest),
            lambda x, memory, *rest: operation(x, memory, *rest, n_heads=n_heads),
            theirs,
        )
        for name, mask in MASKS.items():
            yield Case(
                f"self, {text}, {name}",
                (x, *rest),
                lambda x, *rest, m=mask: operation(x, None, *rest, n_heads=n_heads, mask=m),
                lambda x, *rest, m=mask: theirs(x, x, *rest, mask=torch.tensor(m)),
            )


def grouped_query_attention():
    def theirs(x, memory, w_in, w_out, b_in, b_out, causal=False, bias=None, n_heads=4, n_kv_heads=2):
        source = x if memory is None else memory
        size = (w_in.shape[1] - w_out.shape[0] * n_kv_heads // n_heads) // (n_heads + n_kv_heads)
        queries, keys = n_heads * size, n_kv_heads * size
        q = x @ w_in[:, :queries] + b_in[:queries]
        k = source @ w_in[:, queries : queries + keys] + b_in[queries : queries + keys]
        v = source @ w_in[:, queries + keys :] + b_in[queries + keys :]
        q, k, v = (
            t.unflatten(-1, (n, -1)).transpose(1, 2) for t, n in ((q, n_heads), (k, n_kv_heads), (v, n_kv_heads))
        )
        bias = None if bias is None else torch.tensor(bias, dtype=x.dtype)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=causal, enable_gqa=True)
        return y.transpose(1, 2).flatten(2) @ w_out + b_out

    x, memory = draw(2, 4, 5), draw(2, 6, 5)
    weights = (draw(5, 22), draw(20, 5), draw(22), draw(5))  # H 4, G 2, Dk 2, Dv 5
    for name, source, options in (
        ("self", None, {}),
        ("cross", memory, {}),
        ("causal", None, {"causal": True}),
        ("biased", None, {"bias": np.asarray(ops.alibi(4, 4))}),
    ):
        one = [None] if source is None else []
        yield Case(
            name,
            (x, *weights) if source is None else (x, source, *weights),
            lambda x, *rest, m=one, o=options: ops.grouped_query_attention(x, *m, *rest, **o, n_heads=4, n_kv_heads=2),
            lambda x, *rest, m=one, o=options: theirs(x, *m, *rest, **o),
        )


def layer_norm():
    def theirs(x, gain, bias, eps=1e-5):
        return F.layer_norm(x, x.shape[-1:], gain, bias, eps)

    gain, bias = draw(7), draw(7)
    for shape in ((7,), (4, 7), (2, 3, 7), (2, 1, 3, 7), (0, 7)):
        yield Case(f"x {shape}", (draw(*shape), gain, bias), ops.layer_norm, theirs)
    yield Case("far from 0", (100 + draw(4, 7), gain, bias), ops.layer_norm, theirs)
    yield Case("equal features", (np.full((2, 7), 0.5), gain, bias), ops.layer_norm, theirs)
    yield Case(
        "eps 0.1",
        (draw(4, 7), gain, bias),
        lambda *inputs: ops.layer_norm(*inputs, eps=0.1),
        lambda *inputs: theirs(*inputs, eps=0.1),
    )


def rms_norm():
    def theirs(x, gain, eps=1e-5):
        return F.rms_norm(x, x.shape[-1:], gain, eps)

    gain = draw(7)
    for shape in ((7,), (4, 7), (2, 3, 7), (2, 1, 3, 7), (0, 7)):
        yield Case(f"x {shape}", (draw(*shape), gain), ops.rms_norm, theirs)
    yield Case("zeros", (np.zeros((2, 7)), gain), ops.rms_norm, theirs)
    yield Case(
        "eps 0.1",
        (draw(4, 7), gain),
        lambda *inputs: ops.rms_norm(*inputs, eps=0.1),
        lambda *inputs: theirs(*inputs, eps=0.1),
    )


def swiglu():
    def theirs(x):
        a, b = x.chunk(2, dim=-1)
        return F.silu(a) * b

    for shape in ((6,), (4, 6), (2, 3, 6), (0, 6), (4, 0)):
        yield Case(f"x {shape}", (2 * draw(*shape),), ops.swiglu, theirs)


def rotary():
    def theirs(x, first=0):
        """Multiply complex numbers, as Llama's code does."""
        t, d = x.shape[-2:]
        angles = torch.arange(first, first + t)[:, None] * 10000.0 ** (-torch.arange(0, d, 2, dtype=x.dtype) / d)
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).reshape(x.shape)

    for shape in ((5, 2), (1, 6), (4, 5, 6), (2, 3, 5, 8)):
        yield Case(f"x {shape}", (draw(*shape),), ops.rotary, theirs)
    yield Case(
        "from position 1000", (draw(3, 5, 6),), lambda x: ops.rotary(x, first=1000), lambda x: theirs(x, first=1000)
    )


def linear():
    def theirs(x, weight, bias=None):
        return F.linear(x, weight.T, bias)

    for shape in ((4,), (3, 4), (2, 3, 4), (0, 4)):
        yield Case(f"x {shape}", (draw(*shape), draw(4, 5), draw(5)), ops.linear, theirs)
    yield Case("without bias", (draw(2, 3, 4), draw(4, 5)), ops.linear, theirs)


def low_rank_linear():
    def theirs(x, weight, a, b, alpha=1.0):
        return F.linear(x, weight.T) + alpha / a.shape[1] * F.linear(F.linear(x, a.T), b.T)

    for shape, alpha in (((4,), 1.0), ((2, 3, 4), 8.0), ((0, 4), 1.0)):
        arrays = draw(*shape), draw(4, 5), draw(4, 3), draw(3, 5)
        passes = (partial(function, alpha=alpha) for function in (ops.low_rank_linear, theirs))
        yield Case(f"x {shape}, alpha {alpha}", arrays, *passes)


def feed_forward():
    def theirs(x, w1, b1, w2, b2):
        return F.linear(F.relu(F.linear(x, w1.T, b1)), w2.T, b2)

    for shape in ((4,), (2, 3, 4)):
        yield Case(f"x {shape}", (draw(*shape), draw(4, 6), draw(6), draw(6, 5), draw(5)), ops.feed_forward, theirs)
    zero = np.zeros((2, 6))
    yield Case("ReLU at 0", (draw(3, 2), zero, zero[0], draw(6, 5), draw(5)), ops.feed_forward, theirs)


def activation(ours, theirs):
    for name, x in {
        "x": 2 * draw(3, 5),
        "±10,000": 1e4 * np.sign(draw(4)),
        "a number": draw(),
        "none": draw(0, 2),
    }.items():
        yield Case(name, (x,), ours, theirs)


def embedding():
    for name, ids in {"repeated ids": IDS, "one id": np.array(3), "no ids": IDS[:0]}.items():
        yield Case(
            name,
            (draw(8, 5),),
            lambda table, ids=ids: ops.embedding(ids, table),
            lambda table, ids=ids: F.embedding(torch.tensor(ids), table),
        )


class Replay:
    """A generator that draws what makes dropout keep the entries of a mask."""

    def __init__(self, keep):
        self.bits = np.where(keep, 65535, 0).astype(np.uint16)

    def integers(self, low, high, size, dtype):
        assert (low, high, dtype) == (0, 2**64, np.uint64)
        words = np.zeros(size, dtype)  # each row begins with a new word
        rows = self.bits.reshape(size[0], -1)
        words.view(np.uint16)[:, : rows.shape[1]] = rows
        return words


def dropout():
    x = draw(3, 4, 5)
    for p in (0.0, 0.25, 0.5):  # multiples of 1 / 65,536, so that neither library rounds p
        torch.manual_seed(3)
        keep = F.dropout(torch.ones(x.shape), p).numpy() != 0
        assert p == 0 or 0 < keep.mean() < 1

        def theirs(x, p=p):
            torch.manual_seed(3)
            return F.dropout(x, p)

        yield Case(f"p {p}", (x,), lambda x, p=p, keep=keep: ops.dropout(x, p, Replay(keep)), theirs)


def cross_entropy():
    logits = draw(2, 4, 5)
    for name, x, targets, options in (
        ("plain", logits, TARGETS, {}),
        ("smoothed", logits, TARGETS, {"label_smoothing": 0.1}),
        ("padded", logits, TARGETS, {"ignore_index": PAD}),
        ("smoothed and padded", logits, TARGETS, {"label_smoothing": 0.1, "ignore_index": PAD}),
        ("all of it smoothed away", logits, TARGETS, {"label_smoothing": 1.0}),
        ("ignored ones out of range", logits, np.where(TARGETS, TARGETS, -100), {"ignore_index": -100}),
        ("one row", logits[0, 0], TARGETS[0, 0], {"label_smoothing": 0.3}),
        ("one token", logits[..., :1], 0 * TARGETS, {"label_smoothing": 0.3}),
        ("tied logits", np.round(logits), TARGETS, {"label_smoothing": 0.1}),
        ("logits of ±10,000", 1e4 * np.sign(logits) + logits, TARGETS, {"label_smoothing": 0.1}),
        ("some logits -inf", np.where(np.arange(5) == 2 - 2 * (TARGETS[..., None] == 2), -np.inf, logits), TARGETS, {}),
    ):
        yield Case(
            name,
            (x,),
            lambda x, t=targets, o=options: ops.cross_entropy(x, t, **o),
            lambda x, t=targets, o=options: F.cross_entropy(
                x.reshape(-1, x.shape[-1]), torch.tensor(t).reshape(-1), **o
            ),
        )


def recurrence():
    x, w, u, b, h0 = draw(3, 6, 4), draw(4, 5, scale=0.5), draw(5, 5, scale=0.5), draw(5), draw(3, 5)

    def theirs(x, w, u, b, h0=None):
        # torch.nn.RNN, with weights of ours; it has a second bias, which is zero.
        layer = torch.nn.RNN(w.shape[0], w.shape[1], batch_first=True, dtype=x.dtype)
        zero = torch.zeros_like(b)
        weights = {"weight_ih_l0": w.T, "weight_hh_l0": u.T, "bias_ih_l0": b, "bias_hh_l0": zero}
        states = () if h0 is None else (h0[None],)
        return torch.func.functional_call(layer, weights, (x, *states))[0]

    yield Case("from zero", (x, w, u, b), ops.recurrence, theirs)
    yield Case("from h0", (x, w, u, b, h0), ops.recurrence, theirs)
    yield Case("one position", (x[:, :1], w, u, b, h0), ops.recurrence, theirs)
    yield Case("a long sentence", (draw(2, 60, 4), w, u, b, h0[:2]), ops.recurrence, theirs)
    yield Case("flat parts of the tanh", (3 * x, w, u, b, h0), ops.recurrence, theirs)


def convolution():
    centred, last = [(1, 1), (3, 1), (3, 2), (5, 3)], [(1, 2), (2, 1), (3, 2), (4, 3)]
    for k, dilation, causal in [*((*sizes, False) for sizes in centred), *((*sizes, True) for sizes in last)]:

        def theirs(x, weight, bias=None, k=k, causal=causal, dilation=dilation):
            around = (k - 1) * dilation
            before = around if causal else around // 2
            padded = F.pad(x.mT, (before, around - before))
            return F.conv1d(padded, weight.permute(2, 1, 0), bias, dilation=dilation).mT

        def ours(*inputs, causal=causal, dilation=dilation):
            return ops.convolution(*inputs, causal=causal, dilation=dilation)

        kind = "causal" if causal else "centred"
        for length in (7, 2):
            inputs = draw(3, length, 4), draw(k, 4, 5), draw(5)
            yield Case(f"k {k}, {kind}, dilation {dilation}, T {length}", inputs, ours, theirs)
        yield Case(f"k {k}, {kind}, dilation {dilation}, without bias", (draw(3, 7, 4), draw(k, 4, 5)), ours, theirs)


def local_attention():
    keys = {"all": None, "padding": np.arange(9) < np.array([9, 4, 1])[:, None, None], "none": np.zeros(9, dtype=bool)}
    for r, causal in ((0, False), (1, False), (2, False), (4, False), (20, False), (1, True), (3, True), (20, True)):
        for name, mask in keys.items():
            i, j = np.arange(9)[:, None], np.arange(9)
            seen = (i - r <= j) & (j <= (i if causal else i + r)) & (True if mask is None else mask[..., None, :])
            yield Case(
                f"r {r}, {'causal, ' if causal else ''}keys: {name}",
                (draw(3, 2, 9, 5), draw(3, 2, 9, 5), draw(3, 2, 9, 7)),
                lambda q, k, v, r=r, causal=causal, m=mask: ops.local_attention(q, k, v, m, radius=r, causal=causal),
                lambda q, k, v, m=seen: F.scaled_dot_product_attention(q, k, v, attn_mask=torch.tensor(m)),
            )


def additive_attention():
    q, k, v = draw(3, 2, 4, 5), draw(3, 2, 6, 3), draw(3, 2, 6, 7)
    parameters = draw(5, 8), draw(3, 8), draw(8), draw(8)

    def theirs(q, k, v, w_q, w_k, b, w, mask=None):
        scores = torch.tanh((q @ w_q).unsqueeze(-2) + (k @ w_k).unsqueeze(-3) + b) @ w
        if mask is None:
            return torch.softmax(scores, dim=-1) @ v
        mask = torch.tensor(np.broadcast_to(mask, scores.shape).copy())
        blind = ~mask.any(dim=-1, keepdim=True)
        weights = torch.softmax(scores.masked_fill(~(mask | blind), -torch.inf), dim=-1)
        return weights.masked_fill(blind, 0.0) @ v

    yield Case("cross, Tq 4, Tk 6, Dq 5, Dkk 3, Dv 7", (q, k, v, *parameters), ops.additive_attention, theirs)
    k, v = k[..., :4, :], v[..., :4, :]
    for name, mask in MASKS.items():
        yield Case(
            name,
            (q, k, v, *parameters),
            lambda *inputs, m=mask: ops.additive_attention(*inputs, m),
            lambda *inputs, m=mask: theirs(*inputs, mask=m),
        )


CASES = {
    "softmax": list(of_rows(ops.softmax, torch.softmax)),
    "log_softmax": list(of_rows(ops.log_softmax, torch.log_softmax)),
    "masking": list(masking()),
    "scaled_dot_product_attention": list(scaled_dot_product_attention()),
    "multi_head_attention": list(multi_head_attention()),
    "grouped_query_attention": list(grouped_query_attention()),
    "layer_norm": list(layer_norm()),
    "rms_norm": list(rms_norm()),
    "swiglu": list(swiglu()),
    "rotary": list(rotary()),
    "linear": list(linear()),
    "low_rank_linear": list(low_rank_linear()),
    "feed_forward": list(feed_forward()),
    "silu": [
        *activation(ops.silu, F.silu),
        Case("β 1.702", (2 * draw(3, 5),), lambda x: ops.silu(x, beta=1.702), lambda x: x * torch.sigmoid(1.702 * x)),
    ],
    "gelu": list(activation(ops.gelu, F.gelu)),
    "gelu_tanh": list(activation(ops.gelu_tanh, lambda x: F.gelu(x, approximate="tanh"))),
    "embedding": list(embedding()),
    "dropout": list(dropout()),
    "cross_entropy": list(cross_entropy()),
    "recurrence": list(recurrence()),
    "convolution": list(convolution()),
    "local_attention": list(local_attention()),
    "additive_attention": list(additive_attention()),
}


@pytest.mark.asks("the same function in PyTorch, in CASES of tests/referee/test_operations.py")
def test_every_operation_is_here():
    missing = CASES.keys() ^ mt.ops.registry.keys()
    assert not missing


@pytest.mark.parametrize(
    ("name", "case"),
    [pytest.param(name, case, id=f"{name}: {case.name}") for name, cases in CASES.items() for case in cases],
)
def test_values_and_gradients(name, case, agree):
    makes = set()

    def ours(*inputs):
        output = case.ours(*inputs)
        makes.add(output._node.name)
        return output

    agree(ours, case.theirs, case.arrays)
    assert makes == {name}  # the operation itself, not something made of others
