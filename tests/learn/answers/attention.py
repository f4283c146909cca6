"""Chapter 7."""

import re

import numpy as np
from learn.answers import Mistakes

wrong = Mistakes()


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def turned(x):
    return x.swapaxes(-1, -2)


def row_sum(x, axis=-1):
    return x.sum(axis=axis, keepdims=True)


def root(q):
    return q.shape[-1] ** 0.5


SCORES = "scaled-scores"
wrong(SCORES, "sqrt(Dk) times too large")(lambda q, k: q @ turned(k))
wrong(SCORES, "divided by Dk; divide by sqrt(Dk)")(lambda q, k: q @ turned(k) / q.shape[-1])
wrong(SCORES, "the number of keys")(lambda q, k: q @ turned(k) / k.shape[-2] ** 0.5)
wrong(SCORES, "the number of queries")(lambda q, k: q @ turned(k) / q.shape[-2] ** 0.5)
wrong(SCORES, "multiplied by sqrt(Dk)")(lambda q, k: q @ turned(k) * root(q))
wrong(SCORES, "it is transposed")(lambda q, k: k @ turned(q) / root(q))
wrong(SCORES, "k.T reverses all axes")(lambda q, k: q @ k.T / root(q))
wrong(SCORES, "k is not transposed")(lambda q, k: q @ k / root(q))
wrong(SCORES, "s is float32")(lambda q, k: (q @ turned(k) / root(q)).astype("f"))

CAUSAL = "causal-mask"
wrong(CAUSAL, "sees the future and not the past")(lambda n: np.arange(n)[:, None] <= np.arange(n))
wrong(CAUSAL, "must see its own position")(lambda n: np.arange(n)[:, None] > np.arange(n))
wrong(CAUSAL, "True and False are swapped")(lambda n: np.arange(n)[:, None] < np.arange(n))
wrong(CAUSAL, "mask should be boolean, but its numbers are float64")(lambda n: np.tril(np.ones((n, n))))
wrong(CAUSAL, "only the own position is seen")(lambda n: np.arange(n)[:, None] == np.arange(n))
wrong(CAUSAL, "this would be added to the scores")(lambda n: np.where(np.tri(n) > 0, 0, -np.inf))
wrong(CAUSAL, "wrong shape")(lambda n: np.arange(n) >= np.arange(n))

PADDING = "padding-mask"
wrong(PADDING, "(B, Tk) must become (B, 1, 1, Tk)")(lambda ids: ids != 0)
wrong(PADDING, "one for the heads and one for the queries")(lambda ids: (ids != 0)[:, None])
wrong(PADDING, "on the axis of the queries")(lambda ids: (ids != 0)[:, None, :, None])
wrong(PADDING, "the batch must be the first axis")(lambda ids: (ids != 0)[None, None])
wrong(PADDING, "True and False are swapped")(lambda ids: (ids == 0)[:, None, None])
wrong(PADDING, "this would be added to the scores")(lambda ids: np.where(ids != 0, 0, -np.inf)[:, None, None])
wrong(PADDING, "it assumes that all padding is at the end")(
    lambda ids: (np.arange(ids.shape[1]) < (ids != 0).sum(axis=1)[:, None])[:, None, None]
)
wrong(PADDING, "repeated for every query")(lambda ids: np.repeat((ids != 0)[:, None, None], ids.shape[1], axis=2))
wrong(PADDING, "padding queries are hidden too")(
    lambda ids: (ids != 0)[:, None, None] & (ids != 0)[:, None, :, None],
)
wrong(PADDING, "each has its own padding")(
    lambda ids: np.broadcast_to((ids != 0).all(axis=0), ids.shape)[:, None, None]
)
wrong(PADDING, "mask should be boolean, but its numbers are int64")(lambda ids: (ids != 0)[:, None, None] * 1)
wrong(PADDING, "ids was changed in place")(lambda ids: np.minimum(ids, 1, out=ids)[:, None, None] > 0)

MASK = "mask-before-softmax"


def assign(s, mask):
    if mask.ndim < s.ndim:
        s[:, ~mask] = -np.inf
    else:
        s[~mask] = -np.inf
    return s


wrong(MASK, "applied after the softmax")(lambda s, mask: softmax(s) * mask)
wrong(MASK, "applied after the softmax")(lambda s, mask: np.where(mask, softmax(s), 0))
wrong(MASK, "divided a second time")(lambda s, mask: softmax(s) * mask / row_sum(softmax(s) * mask))
wrong(MASK, "exp(0) is 1")(lambda s, mask: softmax(np.where(mask, s, 0)))
wrong(MASK, "the wrong way round")(lambda s, mask: softmax(np.where(mask, -np.inf, s)))
wrong(MASK, "hides nothing")(lambda s, mask: softmax(s + mask))
wrong(MASK, "not used yet")(lambda s, mask: softmax(s))
for low in (-1e4, -1e9, -1e300, np.finfo(float).min):
    wrong(MASK, "only -inf is low enough")(lambda s, mask, low=low: softmax(np.where(mask, s, low)))
wrong(MASK, re.compile(r"only -inf is low enough: the hidden key at \[0, 2, 4\] has the weight 0.9.*e\+308"))(
    lambda s, mask: softmax(s + (1 - mask) * -1e9)
)
wrong(MASK, re.compile(r"the hidden key at \[0, 0, \d\] has the weight 0.000135, beside"))(
    lambda s, mask: softmax(np.where(mask, s, -10))
)
wrong(MASK, "s was changed in place")(lambda s, mask: softmax(assign(s, np.broadcast_to(mask, s.shape))))
wrong(MASK, "IndexError")(lambda s, mask: softmax(assign(s.copy(), mask)))
wrong(MASK, "w, for scores (2, 4, 6) and a mask (4, 6), is float32")(
    lambda s, mask: softmax(np.where(mask, s, -np.inf)).astype("f")
)


def blind(fill, divide):
    def weights(s, mask):
        s = np.where(mask, s, fill)
        e = np.exp(s - s.max(axis=-1, keepdims=True))
        return divide(e, row_sum(e))

    return weights


def seeing(divide):
    def weights(s, mask):
        s = np.where(mask, s, -np.inf)
        largest = s.max(axis=-1, keepdims=True)
        e = np.exp(s - np.where(largest == -np.inf, 0, largest))
        return divide(e, row_sum(e))

    return weights


ROW = "a-row-that-sees-nothing"
wrong(ROW, "the row that sees nothing is NaN")(blind(-np.inf, lambda e, total: e / total))
wrong(ROW, "the row that sees nothing is NaN")(blind(-np.inf, lambda e, total: e / np.where(total == 0, 1, total)))
wrong(ROW, "attends to everything")(blind(-1e9, lambda e, total: e / total))
wrong(ROW, "a NaN is computed first and replaced later")(blind(-np.inf, lambda e, total: np.nan_to_num(e / total)))
wrong(ROW, "is a small number added to each sum")(seeing(lambda e, total: e / (total + 1e-9)))
wrong(ROW, "is a small number added to each sum")(seeing(lambda e, total: e / (total + 1e-12)))
wrong(ROW, "is a small number added to each sum")(
    lambda s, mask: (lambda e: e / (row_sum(e) + 1e-9))(np.exp(np.where(mask, s, -np.inf)))
)
wrong(ROW, "has weights of 1")(blind(-np.inf, lambda e, total: np.where(total > 0, e / total, 1.0)))
wrong(ROW, "as if there were no mask")(
    lambda s, mask: softmax(np.where(mask | ~mask.any(axis=-1, keepdims=True), s, -np.inf))
)


def hidden(s, mask):
    return softmax(np.where(mask, s, -np.inf))


FORWARD = "attention-forward"
wrong(FORWARD, "not divided by sqrt(Dk)")(lambda q, k, v, mask: hidden(q @ turned(k), mask) @ v)
wrong(FORWARD, "divided by Dk")(lambda q, k, v, mask: hidden(q @ turned(k) / q.shape[-1], mask) @ v)
wrong(FORWARD, "k is not transposed")(lambda q, k, v, mask: hidden(q @ k / root(q), mask) @ v)
wrong(FORWARD, "k.T reverses all axes")(lambda q, k, v, mask: hidden(q @ k.T / root(q), mask) @ v)
wrong(FORWARD, "the mask is not used")(lambda q, k, v, mask: softmax(q @ turned(k) / root(q)) @ v)
wrong(FORWARD, "after the softmax; divide the scores")(lambda q, k, v, mask: hidden(q @ turned(k), mask) @ v / root(q))
wrong(FORWARD, "the mask is applied after the softmax")(
    lambda q, k, v, mask: softmax(q @ turned(k) / root(q)) * mask @ v
)
wrong(FORWARD, "the softmax is missing")(lambda q, k, v, mask: q @ turned(k) / root(q) @ v)
wrong(FORWARD, "these are the weights")(lambda q, k, v, mask: hidden(q @ turned(k) / root(q), mask))

PRODUCT = "weights-and-values-backward"
wrong(PRODUCT, "it is transposed: the queries are the rows")(lambda w, v, d_y: (v @ turned(d_y), turned(w) @ d_y))
wrong(PRODUCT, "it is transposed")(lambda w, v, d_y: (v @ turned(d_y), turned(w) @ d_y))
wrong(PRODUCT, "it is transposed: the keys are the rows")(lambda w, v, d_y: (d_y @ turned(v), turned(d_y) @ w))
wrong(PRODUCT, "the gradient of w comes first")(lambda w, v, d_y: (turned(w) @ d_y, d_y @ turned(v)))
wrong(PRODUCT, "v is not transposed")(lambda w, v, d_y: (d_y @ v, w @ d_y))
wrong(PRODUCT, "w is not transposed")(lambda w, v, d_y: (d_y @ turned(v), w @ d_y))
wrong(PRODUCT, "v.T reverses all axes")(lambda w, v, d_y: (d_y @ v.T, w.T @ d_y))
wrong(PRODUCT, "w.T reverses all axes")(lambda w, v, d_y: (d_y @ turned(v), w.T @ d_y))
wrong(PRODUCT, "d_v is float32")(lambda w, v, d_y: (d_y @ turned(v), (turned(w) @ d_y).astype("f")))
wrong(PRODUCT, "this is already the gradient of the scores")(
    lambda w, v, d_y: (w * (d_y @ turned(v) - row_sum(d_y @ turned(v) * w)), turned(w) @ d_y)
)

WEIGHTS = "scores-backward"
wrong(WEIGHTS, "the row sum is missing")(lambda w, d_w: w * d_w)
wrong(WEIGHTS, "runs over the queries")(lambda w, d_w: w * (d_w - row_sum(d_w * w, axis=-2)))
wrong(WEIGHTS, "the factor w_ij in front is missing")(lambda w, d_w: d_w - row_sum(d_w * w))
wrong(WEIGHTS, "only the case i = j")(lambda w, d_w: w * (1 - w) * d_w)
wrong(WEIGHTS, "this is the gradient of the weights")(lambda w, d_w: d_w.copy())
wrong(WEIGHTS, "it has a mean instead of the sum")(lambda w, d_w: w * (d_w - (d_w * w).mean(axis=-1, keepdims=True)))
wrong(WEIGHTS, "the mean of d_w instead of the sum")(lambda w, d_w: w * (d_w - d_w.mean(axis=-1, keepdims=True)))
wrong(WEIGHTS, "w_i w_j is not w_j squared")(lambda w, d_w: w * w * row_sum(d_w))
wrong(WEIGHTS, "the row sum is added")(lambda w, d_w: w * (d_w + row_sum(d_w * w)))
wrong(WEIGHTS, "adds up d_w alone")(lambda w, d_w: w * (d_w - row_sum(d_w)))
wrong(WEIGHTS, "multiply the row sum by w_ij too")(lambda w, d_w: w * d_w - row_sum(d_w * w))
wrong(WEIGHTS, "entries should be exactly zero")(
    lambda w, d_w: np.where(w > 0, w * (d_w - row_sum(d_w * w)), 1e-3 * d_w)
)
wrong(WEIGHTS, "entries are zero that should not be")(
    lambda w, d_w: np.where(w > 0.2, w * (d_w - row_sum(d_w * w)), 0.0)
)

SCALED = "queries-and-keys-backward"
wrong(SCALED, "sqrt(Dk) times too large")(lambda q, k, d_s: (d_s @ k, turned(d_s) @ q))
wrong(SCALED, "d_k is not right yet")(lambda q, k, d_s: (d_s @ k / root(q), turned(d_s) @ q))
wrong(SCALED, "divided by Dk; divide by sqrt(Dk)")(
    lambda q, k, d_s: (d_s @ k / q.shape[-1], turned(d_s) @ q / q.shape[-1])
)
wrong(SCALED, "it is divided by sqrt(Tk)")(
    lambda q, k, d_s: (d_s @ k / k.shape[-2] ** 0.5, turned(d_s) @ q / k.shape[-2] ** 0.5)
)
wrong(SCALED, "or twice by sqrt(Dk)")(lambda q, k, d_s: (d_s @ k / root(q), turned(d_s) @ q / root(q) ** 2))
wrong(SCALED, "it is transposed")(lambda q, k, d_s: (d_s @ k / root(q), turned(q) @ d_s / root(q)))
wrong(SCALED, "the gradient of q comes first")(lambda q, k, d_s: (turned(d_s) @ q / root(q), d_s @ k / root(q)))
wrong(SCALED, "d_s is not transposed")(lambda q, k, d_s: (d_s @ k / root(q), d_s @ q / root(q)))
wrong(SCALED, "d_s.T reverses all axes")(lambda q, k, d_s: (d_s @ k / root(q), d_s.T @ q / root(q)))
wrong(SCALED, "k is transposed, but")(lambda q, k, d_s: (d_s @ turned(k) / root(q), turned(d_s) @ q / root(q)))
wrong(SCALED, "d_s is transposed, but")(lambda q, k, d_s: (turned(d_s) @ k / root(q), turned(d_s) @ q / root(q)))


def backward(softmax_backward, scale=lambda q: 1 / root(q), values=turned):
    def backward(q, k, v, w, d_y):
        d_s = softmax_backward(w, d_y @ turned(v)) * scale(q)
        return d_s @ k, turned(d_s) @ q, values(w) @ d_y

    return backward


def weights_back(w, d_w):
    return w * (d_w - row_sum(d_w * w))


WHOLE = "attention-backward"
wrong(WHOLE, "sqrt(Dk) times too large")(backward(weights_back, lambda q: 1))
wrong(WHOLE, "divided by sqrt(Dk) twice")(backward(weights_back, lambda q: 1 / q.shape[-1]))
wrong(WHOLE, "the row sum of the softmax is missing")(backward(lambda w, d_w: w * d_w))
wrong(WHOLE, "and so is the division")(backward(lambda w, d_w: w * d_w, lambda q: 1))
wrong(WHOLE, "runs over the queries")(backward(lambda w, d_w: w * (d_w - row_sum(d_w * w, axis=-2))))
wrong(WHOLE, "d_w is used as d_s")(backward(lambda w, d_w: d_w))
wrong(WHOLE, "the factor w in front")(backward(lambda w, d_w: d_w - row_sum(d_w * w)))
wrong(WHOLE, "multiply the row sum by w too")(backward(lambda w, d_w: w * d_w - row_sum(d_w * w)))
wrong(WHOLE, "only queries and keys are")(
    lambda q, k, v, w, d_y: (*backward(weights_back)(q, k, v, w, d_y)[:2], turned(w) @ d_y / root(q))
)
wrong(WHOLE, "it is zero everywhere")(backward(lambda w, d_w: 0 * w))
wrong(WHOLE, "w is not transposed")(backward(weights_back, values=lambda w: w))
wrong(WHOLE, "w.T reverses all axes")(backward(weights_back, values=lambda w: w.T))
wrong(WHOLE, "d_q is float32")(lambda *given: tuple(d.astype("f") for d in backward(weights_back)(*given)))
wrong(WHOLE, "the sign is wrong")(backward(lambda w, d_w: -weights_back(w, d_w)))


@wrong(WHOLE, "this is d_k; the gradient of q comes first")
def exchanged(*given):
    d_q, d_k, d_v = backward(weights_back)(*given)
    return d_k, d_q, d_v


@wrong(WHOLE, "v.T reverses all axes")
def all_axes_round(q, k, v, w, d_y):
    d_s = weights_back(w, d_y @ v.T) / root(q)
    return d_s @ k, d_s.T @ q, w.T @ d_y


@wrong(WHOLE, "v is not transposed")
def nothing_transposed(q, k, v, w, d_y):
    d_s = weights_back(w, d_y @ v) / root(q)
    return d_s @ k, d_s @ q, w @ d_y


@wrong(WHOLE, "d_s is transposed; in d_q")
def queries_from_transposed(q, k, v, w, d_y):
    d_s = weights_back(w, d_y @ turned(v)) / root(q)
    return turned(d_s) @ k, turned(d_s) @ q, turned(w) @ d_y


@wrong(WHOLE, "d_s.T reverses all axes")
def scores_turned_round(q, k, v, w, d_y):
    d_s = weights_back(w, d_y @ turned(v)) / root(q)
    return d_s @ k, d_s.T @ q, turned(w) @ d_y


@wrong(WHOLE, "d_s is not transposed")
def scores_not_transposed(q, k, v, w, d_y):
    d_s = weights_back(w, d_y @ turned(v)) / root(q)
    return d_s @ k, d_s @ q, turned(w) @ d_y


SPLIT = "split-heads"
wrong(SPLIT, "reshape alone mixes")(lambda x, h: x.reshape(len(x), h, x.shape[1], -1))
wrong(SPLIT, "swap the positions and the heads")(lambda x, h: x.reshape(*x.shape[:2], h, -1))
wrong(SPLIT, "every H-th feature")(lambda x, h: np.moveaxis(x.reshape(*x.shape[:2], -1, h), 3, 1))
wrong(SPLIT, "the head is the last axis")(lambda x, h: x.reshape(*x.shape[:2], -1, h))
wrong(SPLIT, "the heads come before the batch")(lambda x, h: np.moveaxis(x.reshape(*x.shape[:2], h, -1), 2, 0))
wrong(SPLIT, "(B, H, Dk, T)")(lambda x, h: np.moveaxis(x.reshape(*x.shape[:2], h, -1), 1, 3))

MERGE = "merge-heads"
wrong(MERGE, "reshape alone mixes")(lambda x: x.reshape(len(x), x.shape[2], -1))
wrong(MERGE, "are interleaved")(lambda x: np.moveaxis(x, 1, 3).reshape(len(x), x.shape[2], -1))
wrong(MERGE, "still two axes")(lambda x: x.swapaxes(1, 2))
wrong(MERGE, "put them side by side")(lambda x: x.sum(axis=1))

THREE = "self-attention-backward"
wrong(THREE, "only the share of the queries")(lambda w_q, w_k, w_v, d_q, d_k, d_v: d_q @ w_q.T)
wrong(THREE, "only the share of the values")(lambda w_q, w_k, w_v, d_q, d_k, d_v: d_v @ w_v.T)
wrong(THREE, "the share of the values is missing")(lambda w_q, w_k, w_v, d_q, d_k, d_v: d_q @ w_q.T + d_k @ w_k.T)
wrong(THREE, "only the share of the keys")(lambda w_q, w_k, w_v, d_q, d_k, d_v: d_k @ w_k.T)
wrong(THREE, "the share of the keys is missing")(lambda w_q, w_k, w_v, d_q, d_k, d_v: d_q @ w_q.T + d_v @ w_v.T)
wrong(THREE, "the share of the queries is missing")(lambda w_q, w_k, w_v, d_q, d_k, d_v: d_k @ w_k.T + d_v @ w_v.T)
wrong(THREE, "the mean of the three")(
    lambda w_q, w_k, w_v, d_q, d_k, d_v: (d_q @ w_q.T + d_k @ w_k.T + d_v @ w_v.T) / 3
)
wrong(THREE, "the weights are not transposed")(lambda w_q, w_k, w_v, d_q, d_k, d_v: d_q @ w_q + d_k @ w_k + d_v @ w_v)

right = [
    ("padding-mask", lambda ids: ids.astype(bool).reshape(len(ids), 1, 1, -1)),
    ("padding-mask", lambda ids: np.array([[[[token > 0 for token in row]]] for row in ids.tolist()])),
]


@wrong(FORWARD, "divided by sqrt(Dv)")
def root_of_the_values(q, k, v, mask):
    return softmax(np.where(mask, q @ k.swapaxes(-1, -2) / np.sqrt(v.shape[-1]), -np.inf)) @ v


def gradients_of_attention(q, k, v, w, d_y):
    d_w = d_y @ v.swapaxes(-1, -2)
    d_s = w * (d_w - (d_w * w).sum(axis=-1, keepdims=True)) / np.sqrt(q.shape[-1])
    return d_s @ k, d_s.swapaxes(-1, -2) @ q, w.swapaxes(-1, -2) @ d_y


@wrong(WHOLE, "it uses q instead of k")
def other_partners(q, k, v, w, d_y):
    return gradients_of_attention(k, q, v, w, d_y)


@wrong(WHOLE, "this is d_v; the gradient of q comes first")
def values_first(q, k, v, w, d_y):
    d_q, d_k, d_v = gradients_of_attention(q, k, v, w, d_y)
    return d_v, d_q, d_k


@wrong("a-row-that-sees-nothing", "where hidden scores are large")
def largest_of_the_hidden(scores, mask):
    e = np.where(mask, np.exp(scores - scores.max(axis=-1, keepdims=True)), 0)
    return e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
