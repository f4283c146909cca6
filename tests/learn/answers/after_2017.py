"""Chapter 9."""

import numpy as np
from learn.answers import Mistakes

wrong = Mistakes()


def mean(x):
    return x.mean(axis=-1, keepdims=True)


def norm(scaled):
    """Make a forward pass of what stands in place of x_hat."""
    return lambda x, gain, eps: gain * scaled(x, eps)


FORWARD = "rms-norm-forward"
wrong(FORWARD, "this is layer norm")(norm(lambda x, eps: (x - mean(x)) / np.sqrt(x.var(-1, keepdims=True) + eps)))
wrong(FORWARD, "divided by the standard deviation")(norm(lambda x, eps: x / np.sqrt(x.var(-1, keepdims=True) + eps)))
wrong(FORWARD, "RMSNorm does not centre")(norm(lambda x, eps: (x - mean(x)) / np.sqrt(mean(x * x) + eps)))
wrong(FORWARD, "by the length of the row")(norm(lambda x, eps: x / np.sqrt((x * x).sum(-1, keepdims=True) + eps)))
wrong(FORWARD, "inside the root")(norm(lambda x, eps: x / (np.sqrt(mean(x * x)) + eps)))
wrong(FORWARD, "eps is missing")(norm(lambda x, eps: x / np.sqrt(mean(x * x))))
wrong(FORWARD, "take its square root")(norm(lambda x, eps: x / (mean(x * x) + eps)))
wrong(FORWARD, "mean of the absolute values")(norm(lambda x, eps: x / (mean(np.abs(x)) + eps)))
wrong(FORWARD, "that of the first axis")(norm(lambda x, eps: x / np.sqrt((x * x).mean(axis=0) + eps)))
wrong(FORWARD, "runs along axis 1")(
    lambda x, gain, eps: gain * x / np.sqrt((x * x).mean(axis=min(1, x.ndim - 1), keepdims=True) + eps)
)
wrong(FORWARD, "that of the whole array")(norm(lambda x, eps: x / np.sqrt((x * x).mean() + eps)))
wrong(FORWARD, "the gain is missing")(lambda x, gain, eps: x / np.sqrt(mean(x * x) + eps))
wrong(FORWARD, "divided by the gain")(lambda x, gain, eps: x / np.sqrt(mean(x * x) + eps) / gain)

BACKWARD = "rms-norm-backward"


def with_d(bracket, gain=lambda x_hat, d_y: (d_y * x_hat).reshape(-1, x_hat.shape[-1]).sum(axis=0)):
    """Make a backward pass of what stands in the bracket."""

    def backward(x_hat, r, g, d_y):
        return r * bracket(x_hat, d_y * g, mean(d_y * g * x_hat)), gain(x_hat, d_y)

    return backward


def with_gain(gain):
    return with_d(lambda x_hat, d, along: d - x_hat * along, gain)


wrong(BACKWARD, "as in layer norm")(with_d(lambda x_hat, d, along: d - mean(d) - x_hat * along))
wrong(BACKWARD, "the term with x_hat is missing: x_j acts on r too")(with_d(lambda x_hat, d, along: d))
wrong(BACKWARD, "there is no mean in RMSNorm")(with_d(lambda x_hat, d, along: d - mean(d)))
wrong(BACKWARD, "a factor 1/D is missing")(with_d(lambda x_hat, d, along: d - x_hat * along * d.shape[-1]))
wrong(BACKWARD, "wrong sign: if x_j grows, r falls")(with_d(lambda x_hat, d, along: d + x_hat * along))
wrong(BACKWARD, "not multiplied by x_hat_j")(with_d(lambda x_hat, d, along: d - along))
wrong(BACKWARD, "runs along the first axis")(with_d(lambda x_hat, d, along: d - x_hat * (d * x_hat).mean(axis=0)))
wrong(BACKWARD, "that of the whole array")(with_d(lambda x_hat, d, along: d - x_hat * (d * x_hat).mean()))
wrong(BACKWARD, "a factor 1/2 is left")(with_d(lambda x_hat, d, along: d - x_hat * along / 2))
wrong(BACKWARD, "a factor 2 is left")(with_d(lambda x_hat, d, along: d - x_hat * along * 2))
wrong(BACKWARD, "there are no sums yet")(with_gain(lambda x_hat, d_y: d_y * x_hat))
wrong(BACKWARD, "gradient of a bias")(with_gain(lambda x_hat, d_y: d_y.reshape(-1, x_hat.shape[-1]).sum(axis=0)))
wrong(BACKWARD, "the mean over the rows")(
    with_gain(lambda x_hat, d_y: (d_y * x_hat).reshape(-1, x_hat.shape[-1]).mean(axis=0))
)
wrong(BACKWARD, "only the first axis is summed over")(with_gain(lambda x_hat, d_y: (d_y * x_hat).sum(axis=0)))


@wrong(BACKWARD, "the gain is forgotten")
def without_gain(x_hat, r, gain, d_y):
    return r * (d_y - x_hat * mean(d_y * x_hat)), (d_y * x_hat).sum(axis=0)


@wrong(BACKWARD, "the gain multiplies the whole bracket")
def gain_in_front(x_hat, r, gain, d_y):
    return gain * r * (d_y - x_hat * mean(d_y * x_hat)), (d_y * x_hat).sum(axis=0)


@wrong(BACKWARD, "take it of d_x_hat * x_hat")
def mean_of_d_y(x_hat, r, gain, d_y):
    return r * (d_y * gain - x_hat * mean(d_y * x_hat)), (d_y * x_hat).sum(axis=0)


@wrong(BACKWARD, "the factor r in front is missing")
def without_r(x_hat, r, gain, d_y):
    return d_y * gain - x_hat * mean(d_y * gain * x_hat), (d_y * x_hat).sum(axis=0)


@wrong(BACKWARD, "r is already 1 over")
def divided_by_r(x_hat, r, gain, d_y):
    return (d_y * gain - x_hat * mean(d_y * gain * x_hat)) / r, (d_y * x_hat).sum(axis=0)


@wrong(BACKWARD, "not the whole bracket")
def r_of_the_first_term(x_hat, r, gain, d_y):
    return r * d_y * gain - x_hat * mean(d_y * gain * x_hat), (d_y * x_hat).sum(axis=0)


@wrong(BACKWARD, "x instead of x_hat")
def x_for_x_hat(x_hat, r, gain, d_y):
    x = x_hat / r
    return r * (d_y * gain - x * mean(d_y * gain * x)), (d_y * x_hat).sum(axis=0)


@wrong(BACKWARD, "x is used instead of x_hat")
def gain_of_x(x_hat, r, gain, d_y):
    return r * (d_y * gain - x_hat * mean(d_y * gain * x_hat)), (d_y * x_hat / r).sum(axis=0)


SWIGLU = "swiglu-backward"


def gated(d_a=lambda d_y, a, b, z: d_y * b * (z + a * z * (1 - z)), d_b=lambda d_y, a, b, z: d_y * a * z, join=None):
    """Make a backward pass of SwiGLU in which a part is another."""

    def backward(x, d_y):
        a, b = np.split(x, 2, axis=-1)
        z = 1 / (1 + np.exp(-a))
        parts = d_a(d_y, a, b, z), d_b(d_y, a, b, z)
        return join(*parts) if join else np.concatenate(parts, axis=-1)

    return backward


def sloped(slope):
    return gated(lambda d_y, a, b, z: d_y * b * slope(a, z))


wrong(SWIGLU, "the derivative of u is z alone")(sloped(lambda a, z: z))
wrong(SWIGLU, "that of the sigmoid alone")(sloped(lambda a, z: z * (1 - z)))
wrong(SWIGLU, "lacks the factor a in its second term")(sloped(lambda a, z: z + z * (1 - z)))
wrong(SWIGLU, "the first factor has a derivative too")(sloped(lambda a, z: a * z * (1 - z)))
wrong(SWIGLU, "second term of du/da has the wrong sign")(sloped(lambda a, z: z - a * z * (1 - z)))
wrong(SWIGLU, "as if it were a ReLU")(sloped(lambda a, z: a > 0))
wrong(SWIGLU, "dz/da is z (1 + z) there")(sloped(lambda a, z: z + a * z * (1 + z)))
wrong(SWIGLU, "dz/da is z there")(sloped(lambda a, z: z + a * z))
wrong(SWIGLU, "lacks the factor b")(gated(lambda d_y, a, b, z: d_y * (z + a * z * (1 - z))))
wrong(SWIGLU, "in place of its derivative")(gated(lambda d_y, a, b, z: d_y * b * a * z))
wrong(SWIGLU, "d_b has the factor z")(gated(d_b=lambda d_y, a, b, z: d_y * z))
wrong(SWIGLU, "d_b has the factor a;")(gated(d_b=lambda d_y, a, b, z: d_y * a))
wrong(SWIGLU, "d_b has the factor b")(gated(d_b=lambda d_y, a, b, z: d_y * b))
wrong(SWIGLU, "d_b is d_y")(gated(d_b=lambda d_y, a, b, z: d_y))
wrong(SWIGLU, "the halves are swapped")(gated(join=lambda d_a, d_b: np.concatenate((d_b, d_a), axis=-1)))
wrong(SWIGLU, "gates and values alternate")(
    gated(join=lambda d_a, d_b: np.stack((d_a, d_b), -1).reshape(*d_a.shape[:-1], -1))
)
wrong(SWIGLU, "this is d_a alone")(gated(join=lambda d_a, d_b: d_a))
wrong(SWIGLU, "they belong side by side")(gated(join=lambda d_a, d_b: d_a + d_b))
wrong(SWIGLU, "expected one result")(gated(join=lambda d_a, d_b: (d_a, d_b)))

TURN, BACK = "rotary-forward", "rotary-backward"


def woven(even, odd):
    return np.stack((even, odd), axis=-1).reshape(*even.shape[:-1], -1)


def table(positions, d):
    angle = positions[:, None] / 10000 ** (np.arange(0, d, 2) / d)
    return np.cos(angle), np.sin(angle)


def turning(words, turn):
    """Add a mistake that can be made forwards and backwards; ``turn`` is of even and odd features, cos and sin."""
    wrong(TURN, words)(lambda x, positions: turn(x, *table(positions, x.shape[-1])))
    wrong(BACK, words)(lambda cos, sin, d_y: turn(d_y, cos, -sin))


def halves(x, cos, sin):
    left, right = np.split(x, 2, axis=-1)
    return np.concatenate((left * cos - right * sin, left * sin + right * cos), axis=-1)


def pairs(even_of, odd_of, join=woven):
    """Make a rotation of two formulas of the even and odd features, cos and sin."""

    def turn(x, cos, sin):
        even, odd = x[..., 0::2], x[..., 1::2]
        return join(even_of(even, odd, cos, sin), odd_of(even, odd, cos, sin))

    return turn


def first(e, o, c, s):
    return e * c - o * s


def second(e, o, c, s):
    return e * s + o * c


turning("here neighbours are a pair", halves)
turning("put each where it belongs", pairs(first, second, lambda e, o: np.concatenate((e, o), axis=-1)))
turning("new value of the first", pairs(first, lambda e, o, c, s: first(e, o, c, s) * s + o * c))
turning("new value of the second", pairs(lambda e, o, c, s: e * c - second(e, o, c, s) * s, second))
turning("the terms with the sine are missing", pairs(lambda e, o, c, s: e * c, lambda e, o, c, s: o * c))
turning("sine and cosine are swapped", lambda x, cos, sin: pairs(first, second)(x, sin, cos))
turning("exactly one of the two sines has a minus", pairs(lambda e, o, c, s: e * c + o * s, second))
turning("exactly one of the two sines has a minus", pairs(first, lambda e, o, c, s: o * c - e * s))
turning("reflected, not turned", pairs(first, lambda e, o, c, s: e * s - o * c))
turning("the two features of each pair are swapped", pairs(second, first))
wrong(TURN, "it turns the other way")(lambda x, positions: pairs(first, second)(x, *table(-positions, x.shape[-1])))
wrong(TURN, "the rows are counted from 0")(
    lambda x, positions: pairs(first, second)(x, *table(np.arange(x.shape[-2]), x.shape[-1]))
)
wrong(TURN, "here they multiply")(lambda x, positions: x + woven(*table(positions, x.shape[-1])[::-1]))
wrong(TURN, "nothing is turned")(lambda x, positions: x.copy())
wrong(BACK, "it is turned forwards")(lambda cos, sin, d_y: pairs(first, second)(d_y, cos, sin))
wrong(BACK, "x_2i is in y_2i and in y_2i+1")(lambda cos, sin, d_y: d_y.copy())


@wrong(TURN, "x was changed in place")
def turned_in_place(x, positions):
    cos, sin = table(positions, x.shape[-1])
    even, odd = x[..., 0::2].copy(), x[..., 1::2].copy()
    x[..., 0::2], x[..., 1::2] = first(even, odd, cos, sin), second(even, odd, cos, sin)
    return x


GROUPS = "grouped-heads-backward"


def grouped(shared, queries=lambda d, n_kv_heads: d):
    """Make a backward pass in which keys and values, or queries, are treated otherwise."""
    return lambda d_q, d_k, d_v, n: (queries(d_q, n), shared(d_k, n), shared(d_v, n))


def by_group(d, n):
    return d.reshape(len(d), n, -1, *d.shape[2:])


def added(d, n):
    return by_group(d, n).sum(axis=2)


wrong(GROUPS, "nothing is summed yet")(grouped(lambda d, n: d))
wrong(GROUPS, "one head of queries is taken")(grouped(lambda d, n: by_group(d, n)[:, :, 0]))
wrong(GROUPS, "(here the last one)")(grouped(lambda d, n: by_group(d, n)[:, :, -1]))
wrong(GROUPS, "the first G heads are taken")(grouped(lambda d, n: d[:, :n]))
wrong(GROUPS, "the mean over a group")(grouped(lambda d, n: by_group(d, n).mean(axis=2)))
wrong(GROUPS, "not h % G")(grouped(lambda d, n: d.reshape(len(d), -1, n, *d.shape[2:]).sum(axis=1)))
wrong(GROUPS, "each head of keys has its own group")(
    grouped(lambda d, n: np.repeat(d.sum(axis=1, keepdims=True), n, axis=1))
)
wrong(GROUPS, "there are G groups")(grouped(lambda d, n: d.sum(axis=1, keepdims=True)))
wrong(GROUPS, "return G heads")(grouped(lambda d, n: np.repeat(added(d, n), d.shape[1] // n, axis=1)))
wrong(GROUPS, "the axis of the group is still there")(grouped(by_group))
wrong(GROUPS, "none is summed")(grouped(added, added))
wrong(GROUPS, "its own gradient")(grouped(added, lambda d, n: np.repeat(added(d, n), d.shape[1] // n, axis=1)))
wrong(GROUPS, "each head of queries is used once")(grouped(added, lambda d, n: d * n / d.shape[1]))

TOP = "top-p"


def kept(p, tokens):
    new = np.zeros_like(p)
    new[tokens] = p[tokens]
    return new


def share(p, tokens):
    return kept(p, tokens) / kept(p, tokens).sum()


def needed(p, top_p, more=0):
    """Return the most probable tokens, as many as are needed."""
    order = np.argsort(-p)
    return order[: 1 + np.searchsorted(np.cumsum(p[order]), top_p) + more]


wrong(TOP, "the sum reaches top_p is missing")(lambda p, top_p: share(p, needed(p, top_p, -1)))
wrong(TOP, "one token too many is kept")(
    lambda p, top_p: share(p, np.argsort(-p)[: 1 + np.searchsorted(np.cumsum(np.sort(p)[::-1]), top_p, "right")])
)
wrong(TOP, "the rest is not divided by its sum")(lambda p, top_p: kept(p, needed(p, top_p)))
wrong(TOP, "divided by top_p; divide it by its sum")(lambda p, top_p: kept(p, needed(p, top_p)) / top_p)
wrong(TOP, "each probability is compared with top_p by itself")(lambda p, top_p: share(p, p >= 1 - top_p))
wrong(TOP, "add up those of the most probable tokens")(lambda p, top_p: share(p, p >= top_p))
wrong(TOP, "the least probable tokens are kept")(
    lambda p, top_p: share(p, np.argsort(p)[: 1 + np.searchsorted(np.cumsum(np.sort(p)), top_p)])
)
wrong(TOP, "in the order of the vocabulary")(
    lambda p, top_p: share(p, np.arange(p.size) < 1 + np.searchsorted(np.cumsum(p), top_p))
)
wrong(TOP, "put them back where their tokens are")(
    lambda p, top_p: (lambda new: np.sort(new / new.sum())[::-1])(kept(p, needed(p, top_p)))
)
wrong(TOP, "however probable they are")(lambda p, top_p: share(p, np.argsort(-p)[: int(np.ceil(top_p * p.size))]))
wrong(TOP, "the softmax of the rest")(
    lambda p, top_p: (lambda new: np.where(new > 0, np.exp(new), 0) / np.exp(new[new > 0]).sum())(
        kept(p, needed(p, top_p))
    )
)
wrong(TOP, "nothing is cut off")(lambda p, top_p: p.copy())
wrong(TOP, "True and False")(lambda p, top_p: kept(p, needed(p, top_p)) > 0)

right = [
    (TOP, lambda p, top_p: share(p, [t for t in range(p.size) if p[p > p[t]].sum() < top_p])),
    (TURN, lambda x, positions: (lambda z: woven(z.real, z.imag))(
        (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * np.arctan2(*table(positions, x.shape[-1])[::-1]))
    )),
    (GROUPS, grouped(lambda d, n: np.add.reduceat(d, np.arange(0, d.shape[1], d.shape[1] // n), axis=1))),
]  # fmt: skip
"""Answers in other forms: tokens with less than top_p before them, complex numbers, sums of segments."""
