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


def masked(arrays, ours, theirs, text=""):
    """Yield a case for each mask, which both functions take by keyword, as a tensor on the right."""
    for name, mask in MASKS.items():
        yield Case(f"{text}{name}", arrays, partial(ours, mask=mask), partial(theirs, mask=torch.tensor(mask)))


def masking():
    return masked((draw(3, 2, 4, 4),), ops.masking, lambda x, mask: x.masked_fill(~mask, -torch.inf))


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
    yield from masked(
        (q, k, v), operation, lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    )


def heads_of_pytorch(
    x, memory, w_in, w_out, b_in=None, b_out=None, mask=None, causal=False, n_heads=None, n_kv_heads=None
):
    """Attend with any number of heads of keys and values, of sizes that PyTorch's own module cannot have."""
    values = w_out.shape[0] // n_heads * n_kv_heads
    size = (w_in.shape[1] - values) // (n_heads + n_kv_heads)
    widths = n_heads * size, n_kv_heads * size, values
    weights, biases = w_in.split(widths, 1), (0, 0, 0) if b_in is None else b_in.split(widths)
    sources = (x, *2 * [x if memory is None else memory])
    q, k, v = (
        (source @ w + b).unflatten(-1, (n, -1)).transpose(1, 2)
        for source, w, b, n in zip(sources, weights, biases, (n_heads, n_kv_heads, n_kv_heads), strict=True)
    )
    mask = torch.tensor(mask, dtype=x.dtype) if isinstance(mask, np.ndarray) else mask
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=True)
    return y.transpose(1, 2).flatten(2) @ w_out + (0 if b_out is None else b_out)


def multi_head_attention():
    n_heads, d_model, d_k, d_v = 2, 5, 3, 4  # sizes that PyTorch's own module cannot have
    keys, values = n_heads * d_k, n_heads * d_v
    x, memory = draw(3, 4, d_model), draw(3, 6, d_model)
    weights = draw(d_model, 2 * keys + values, scale=0.5), draw(values, d_model, scale=0.5)
    biases = draw(2 * keys + values), draw(d_model)

    theirs = partial(heads_of_pytorch, n_heads=n_heads, n_kv_heads=n_heads)
    for biased in (True, False):
        rest = weights + biases if biased else weights
        text = "with biases" if biased else "without biases"
        yield Case(f"cross, {text}", (x, memory, *rest), partial(ops.multi_head_attention, n_heads=n_heads), theirs)
        yield from masked(
            (x, *rest),
            lambda x, *rest, mask: ops.multi_head_attention(x, None, *rest, n_heads=n_heads, mask=mask),
            lambda x, *rest, mask: theirs(x, x, *rest, mask=mask),
            f"self, {text}, ",
        )


def grouped_query_attention():
    x, memory = draw(2, 4, 5), draw(2, 6, 5)
    weights = (draw(5, 22), draw(20, 5), draw(22), draw(5))  # H 4, G 2, Dk 2, Dv 5
    for name, source, options in (
        ("self", None, {}),
        ("cross", memory, {}),
        ("causal", None, {"causal": True}),
        ("biased", None, {"bias": to_numpy(ops.alibi(4, 4))}),
    ):
        heads = {"n_heads": 4, "n_kv_heads": 2}
        ours, theirs = partial(ops.grouped_query_attention, **heads, **options), partial(heads_of_pytorch, **heads)
        theirs = partial(theirs, causal="causal" in options, mask=options.get("bias"))
        if source is None:
            ours, theirs = (lambda x, *rest, f=f: f(x, None, *rest) for f in (ours, theirs))
        yield Case(name, (x, *weights) if source is None else (x, source, *weights), ours, theirs)


def layer_norm():
    def theirs(x, gain, bias, eps=1e-5):
        return F.layer_norm(x, x.shape[-1:], gain, bias, eps)

    gain, bias = draw(7), draw(7)
    for shape in ((7,), (4, 7), (2, 3, 7), (2, 1, 3, 7), (0, 7)):
        yield Case(f"x {shape}", (draw(*shape), gain, bias), ops.layer_norm, theirs)
    yield Case("far from 0", (100 + draw(4, 7), gain, bias), ops.layer_norm, theirs)
    yield Case("equal features", (np.full((2, 7), 0.5), gain, bias), ops.layer_norm, theirs)
    yield Case("eps 0.1", (draw(4, 7), gain, bias), partial(ops.layer_norm, eps=0.1), partial(theirs, eps=0.1))


def rms_norm():
    def theirs(x, gain, eps=1e-5):
        return F.rms_norm(x, x.shape[-1:], gain, eps)

    gain = draw(7)
    for shape in ((7,), (4, 7), (2, 3, 7), (2, 1, 3, 7), (0, 7)):
        yield Case(f"x {shape}", (draw(*shape), gain), ops.rms_norm, theirs)
    yield Case("zeros", (np.zeros((2, 7)), gain), ops.rms_norm, theirs)
    yield Case("eps 0.1", (draw(4, 7), gain), partial(ops.rms_norm, eps=0.1), partial(theirs, eps=0.1))


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
    yield Case("from position 1000", (draw(3, 5, 6),), partial(ops.rotary, first=1000), partial(theirs, first=1000))


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
        yield Case(name, (draw(8, 5),), partial(ops.embedding, ids), partial(F.embedding, torch.tensor(ids)))


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
            partial(ops.cross_entropy, targets=targets, **options),
            lambda x, t=targets, o=options: F.cross_entropy(x[None].flatten(0, -2), torch.tensor(t).flatten(), **o),
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

        ours = partial(ops.convolution, causal=causal, dilation=dilation)
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
                partial(ops.local_attention, mask=mask, radius=r, causal=causal),
                lambda q, k, v, m=seen: F.scaled_dot_product_attention(q, k, v, attn_mask=torch.tensor(m)),
            )


def additive_attention():
    q, k, v = draw(3, 2, 4, 5), draw(3, 2, 6, 3), draw(3, 2, 6, 7)
    parameters = draw(5, 8), draw(3, 8), draw(8), draw(8)

    def theirs(q, k, v, w_q, w_k, b, w, mask=None):
        scores = torch.tanh((q @ w_q).unsqueeze(-2) + (k @ w_k).unsqueeze(-3) + b) @ w
        if mask is None:
            return torch.softmax(scores, dim=-1) @ v
        mask = mask.expand(scores.shape)
        blind = ~mask.any(dim=-1, keepdim=True)
        weights = torch.softmax(scores.masked_fill(~(mask | blind), -torch.inf), dim=-1)
        return weights.masked_fill(blind, 0.0) @ v

    yield Case("cross, Tq 4, Tk 6, Dq 5, Dkk 3, Dv 7", (q, k, v, *parameters), ops.additive_attention, theirs)
    k, v = k[..., :4, :], v[..., :4, :]
    yield from masked((q, k, v, *parameters), ops.additive_attention, theirs)


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
