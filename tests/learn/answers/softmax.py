"""Chapter 5."""

import numpy as np
from learn.answers import Mistakes

wrong = Mistakes()


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def hot(logits, targets):
    return np.eye(logits.shape[1])[targets]


def row_sum(a):
    return a.sum(axis=-1, keepdims=True)


wrong("softmax-forward", "each row has its own sum")(lambda x: np.exp(x) / np.exp(x).sum())
wrong("softmax-forward", "along the first axis")(lambda x: np.exp(x) / np.exp(x).sum(axis=0))
wrong("softmax-forward", "these are the exponentials")(np.exp)
wrong("softmax-forward", "could not be broadcast")(lambda x: np.exp(x) / np.exp(x).sum(axis=-1))
wrong("softmax-forward", "is there a `return`")(lambda x: None)
wrong("softmax-forward", "x was changed in place")(lambda x: np.divide(softmax(x), 1, out=x))


wrong("softmax-forward", "it is divided by the sum of the scores")(lambda x: np.exp(x) / row_sum(x))


@wrong("softmax-forward", "maximum of the row instead of its sum")
def by_the_largest(x):
    return np.exp(x) / np.exp(x).max(axis=-1, keepdims=True)


def of_shifted(m):
    def forward(x):
        e = np.exp(x - m(x))
        return e / row_sum(e)

    return forward


wrong("softmax-of-large-scores", "exp still overflows, and")(of_shifted(lambda x: 0))
wrong("softmax-of-large-scores", "Each row needs its own")(of_shifted(np.max))
wrong("softmax-of-large-scores", "scores above the one")(of_shifted(lambda x: x.mean(axis=-1, keepdims=True)))
wrong("softmax-of-large-scores", "the smallest score is subtracted")(
    of_shifted(lambda x: x.min(axis=-1, keepdims=True))
)
wrong("softmax-of-large-scores", "the largest of each column")(of_shifted(lambda x: x.max(axis=0)))
wrong("softmax-of-large-scores", "exp still overflows, and")(of_shifted(lambda x: 500))
wrong("softmax-of-large-scores", "are clipped")(lambda x: softmax(np.clip(x, -700, 700)))

wrong("softmax-backward", "the row sum is missing")(lambda y, d_y: y * d_y)
wrong("softmax-backward", "only the case i = j")(lambda y, d_y: y * (1 - y) * d_y)
wrong("softmax-backward", "along the first axis")(lambda y, d_y: y * (d_y - (d_y * y).sum(axis=0)))
wrong("softmax-backward", "runs over the whole array")(lambda y, d_y: y * (d_y - (d_y * y).sum()))
wrong("softmax-backward", "y_i y_j is not y_j squared")(lambda y, d_y: y * y * row_sum(d_y))
wrong("softmax-backward", "y_j d_y_j, is missing too")(lambda y, d_y: -y * y * row_sum(d_y))
wrong("softmax-backward", "belongs in the sum over i")(lambda y, d_y: y * d_y - y * y * row_sum(d_y))
wrong("softmax-backward", "the case i = j is missing")(lambda y, d_y: -y * row_sum(y * d_y))
wrong("softmax-backward", "the row sum is added")(lambda y, d_y: y * (d_y + row_sum(y * d_y)))
wrong("softmax-backward", "the mean of d_y instead of the sum")(
    lambda y, d_y: y * (d_y - d_y.mean(axis=-1, keepdims=True))
)
wrong("softmax-backward", "adds up d_y alone")(lambda y, d_y: y * (d_y - row_sum(d_y)))
wrong("softmax-backward", "multiply the row sum by y_j too")(lambda y, d_y: y * d_y - row_sum(y * d_y))
wrong("softmax-backward", "the factor y_j in front is missing")(lambda y, d_y: d_y - row_sum(d_y * y))
wrong("softmax-backward", "it has a mean instead of the sum")(
    lambda y, d_y: y * (d_y - (d_y * y).mean(axis=-1, keepdims=True))
)
wrong("softmax-backward", "the softmax is applied twice")(lambda y, d_y: weights_back(softmax(y), d_y))
wrong("softmax-backward", "it is transposed")(lambda y, d_y: weights_back(y, d_y).T)
wrong("softmax-backward", "the sign is wrong")(lambda y, d_y: -weights_back(y, d_y))
wrong("softmax-backward", "it is zero everywhere")(lambda y, d_y: 0 * y)
wrong("softmax-backward", "number of rows = 3 times too small")(lambda y, d_y: weights_back(y, d_y) / len(y))
wrong("softmax-backward", "d_y was changed in place")(lambda y, d_y: np.multiply(y, d_y, out=d_y))


def weights_back(y, d_y):
    return y * (d_y - row_sum(d_y * y))


def log_total(x):
    return np.log(np.exp(x - x.max(axis=-1, keepdims=True)).sum(axis=-1))


wrong("softmax-backward", "d_x is float32")(lambda y, d_y: weights_back(y, d_y).astype("f"))
wrong("softmax-backward", "y was changed in place")(lambda y, d_y: np.multiply(y, d_y - row_sum(d_y * y), out=y))
wrong("softmax-forward", "y is float32")(lambda x: softmax(x).astype("f"))
wrong("softmax-of-large-scores", "y, for small scores, is float32")(lambda x: softmax(x).astype("f"))

wrong("log-sum-exp", "add it again")(log_total)
wrong("log-sum-exp", "added inside the logarithm")(
    lambda x: np.log(np.exp(x - x.max(axis=-1, keepdims=True)).sum(axis=-1) + x.max(axis=-1))
)
wrong("log-sum-exp", "the largest score is subtracted a second time")(lambda x: log_total(x) - x.max(axis=-1))
wrong("log-sum-exp", "take its logarithm")(lambda x: np.exp(log_total(x)))
wrong("log-sum-exp", "the logarithm of a product is a sum")(lambda x: log_total(x) * x.max(axis=-1))
wrong("log-sum-exp", "before the logarithm is taken")(lambda x: np.log(np.exp(x).sum(axis=-1)))
wrong("log-sum-exp", "take the logarithm of total first")(
    lambda x: np.log(np.exp(log_total(x)) * np.exp(x.max(axis=-1)))
)
wrong("log-sum-exp", "wrong shape")(lambda x: (log_total(x) + x.max(axis=-1))[..., None])

wrong("cross-entropy-backward", "N times too large")(lambda x, t, d: (softmax(x) - hot(x, t)) * d)
wrong("cross-entropy-backward", "not yet subtracted")(lambda x, t, d: softmax(x) * d / len(t))
wrong("cross-entropy-backward", "multiply it by d_loss")(lambda x, t, d: (softmax(x) - hot(x, t)) / len(t))
wrong("cross-entropy-backward", "the sign is wrong")(lambda x, t, d: (hot(x, t) - softmax(x)) * d / len(t))
wrong("cross-entropy-backward", "after the multiplication by d_loss")(
    lambda x, t, d: softmax(x) * d / len(t) - hot(x, t)
)
wrong("cross-entropy-backward", "the targets have no gradient")(
    lambda x, t, d: np.where(hot(x, t) > 0, 0, softmax(x)) * d / len(t)
)
wrong("cross-entropy-backward", "not over all N * V")(lambda x, t, d: (softmax(x) - hot(x, t)) * d / x.size)
wrong("cross-entropy-backward", "not over the V tokens")(lambda x, t, d: (softmax(x) - hot(x, t)) * d / x.shape[1])
wrong("cross-entropy-backward", "after the division")(lambda x, t, d: (softmax(x) / len(t) - hot(x, t)) * d)
wrong("cross-entropy-backward", "t was changed in place")(
    lambda x, t, d: [(softmax(x) - hot(x, t)) * d / len(t), t.fill(0)][0]
)
wrong("cross-entropy-backward", "d_logits is float32")(
    lambda x, t, d: ((softmax(x) - hot(x, t)) * d / len(t)).astype("f")
)
wrong("cross-entropy-backward", "is not right yet")(lambda x, t, d: (softmax(x, 0) - hot(x, t)) * d / len(t))


@wrong("cross-entropy-backward", "takes those columns in every row")
def columns(logits, targets, d_loss):
    d_logits = softmax(logits)
    d_logits[:, targets] -= 1
    return d_logits * d_loss / len(targets)


@wrong("smoothed-targets", "a row sums to less than 1")
def without_its_share(targets, v, epsilon):
    q = np.full((len(targets), v), epsilon / v)
    q[np.arange(len(targets)), targets] = 1 - epsilon
    return q


@wrong("smoothed-targets", "V - 1 other tokens")
def among_the_others(targets, v, epsilon):
    q = np.full((len(targets), v), epsilon / (v - 1))
    q[np.arange(len(targets)), targets] = 1 - epsilon
    return q


@wrong("smoothed-targets", "comes from the largest target")
def as_wide_as_the_targets(targets, v, epsilon):
    q = np.zeros((targets.size, targets.max() + 1)) + epsilon / v
    q[np.arange(len(targets)), targets] += 1 - epsilon
    return q


@wrong("smoothed-targets", "your numbers are whole numbers: int64")
def in_whole_numbers(targets, v, epsilon):
    q = np.zeros((len(targets), v), dtype=int)
    q[:] = epsilon / v
    q[np.arange(len(targets)), targets] = 1 - epsilon + epsilon / v
    return q


wrong("smoothed-targets", "a row sums to more than 1")(lambda t, v, epsilon: np.eye(v)[t] + epsilon / v)
wrong("smoothed-targets", "epsilon is not used")(lambda t, v, epsilon: np.eye(v)[t])
wrong("smoothed-targets", "divide it among the V tokens")(lambda t, v, epsilon: np.eye(v)[t] * (1 - epsilon) + epsilon)
wrong("smoothed-targets", "swap them")(lambda t, v, epsilon: np.eye(v)[t] * epsilon + (1 - epsilon) / v)


def entropy(log_p, last=lambda products: -products.sum(axis=-1).mean()):
    return lambda x, q: last(q * log_p(x))


def log_softmax(x, axis=-1):
    largest = x.max(axis=axis, keepdims=True)
    return x - largest - np.log(np.exp(x - largest).sum(axis=axis, keepdims=True))


LOSS = "cross-entropy-forward"
wrong(LOSS, "the losses of the rows")(entropy(log_softmax, lambda products: -products.sum(axis=-1)))
wrong(LOSS, "it is the sum over the rows")(entropy(log_softmax, lambda products: -products.sum()))
wrong(LOSS, "the mean over all N * V entries")(entropy(log_softmax, lambda products: -products.mean()))
wrong(LOSS, "the minus sign is missing")(entropy(log_softmax, lambda products: products.sum(axis=-1).mean()))
wrong(LOSS, "the factor q_v is missing")(lambda x, q: -log_softmax(x).sum(axis=-1).mean())
wrong(LOSS, "the logarithm is missing")(entropy(softmax))
wrong(LOSS, "p and q are swapped")(lambda x, q: -(softmax(x) * np.log(q)).sum(axis=-1).mean())
wrong(LOSS, "the softmax is missing")(entropy(lambda x: x))
wrong(LOSS, "along the first axis")(entropy(lambda x: log_softmax(x, 0)))
wrong(LOSS, "each row has its own")(entropy(lambda x: x - x.max() - np.log(np.exp(x - x.max()).sum())))
wrong(LOSS, "but not the logarithm of the sum")(entropy(lambda x: x - x.max(axis=-1, keepdims=True)))
wrong(LOSS, "exp overflows")(entropy(lambda x: np.log(np.exp(x) / row_sum(np.exp(x)))))
wrong(LOSS, "exp overflows")(entropy(lambda x: x - np.log(row_sum(np.exp(x)))))
wrong(LOSS, "log(0) is -inf")(entropy(lambda x: np.log(softmax(x))))
wrong(LOSS, "1e-12 is added to p")(entropy(lambda x: np.log(softmax(x) + 1e-12)))
wrong(LOSS, "p is raised to at least 1e-07")(entropy(lambda x: np.log(np.clip(softmax(x), 1e-7, 1))))
wrong(LOSS, "is there a `return`")(lambda x, q: None)
wrong(LOSS, "x was changed in place")(lambda x, q: -(q * log_softmax(np.add(x, 1, out=x))).sum(axis=-1).mean())

wrong("label-smoothing-backward", "N times too large")(lambda x, q, d: (softmax(x) - q) * d)
wrong("label-smoothing-backward", "not over all N * V")(lambda x, q, d: (softmax(x) - q) * d / q.size)
wrong("label-smoothing-backward", "not over the V tokens")(lambda x, q, d: (softmax(x) - q) * d / q.shape[1])
wrong("label-smoothing-backward", "multiply it by d_loss")(lambda x, q, d: (softmax(x) - q) / len(q))
wrong("label-smoothing-backward", "not yet subtracted")(lambda x, q, d: softmax(x) * d / len(q))
wrong("label-smoothing-backward", "this is the gradient of p")(lambda x, q, d: -q / softmax(x) * d / len(q))
wrong("label-smoothing-backward", "p is not multiplied by q")(lambda x, q, d: q * (softmax(x) - 1) * d / len(q))
wrong("label-smoothing-backward", "q is a distribution: subtract the whole of it")(
    lambda x, q, d: (softmax(x) - np.eye(q.shape[1])[q.argmax(axis=-1)]) * d / len(q)
)
wrong("label-smoothing-backward", "the sign is wrong")(lambda x, q, d: (q - softmax(x)) * d / len(q))
wrong("label-smoothing-backward", "which is already a distribution")(
    lambda x, q, d: (softmax(x) - softmax(q)) * d / len(q)
)


def ignoring(keep, n):
    def backward(logits, targets, d_loss):
        counts = targets != 0
        return (softmax(logits) - hot(logits, targets)) * keep(counts)[:, None] * d_loss / n(counts)

    return backward


wrong("ignored-targets", "number of all rows")(ignoring(lambda counts: counts, len))
wrong("ignored-targets", "the rows of padding have a gradient")(ignoring(np.ones_like, np.sum))
wrong("ignored-targets", "treated like any other target")(ignoring(np.ones_like, len))
wrong("ignored-targets", "multiply it by d_loss")(
    lambda x, t, d: (softmax(x) - hot(x, t)) * (t != 0)[:, None] / max((t != 0).sum(), 1)
)
wrong("ignored-targets", "the column of token 0 is 0")(
    lambda x, t, d: (softmax(x) - hot(x, t)) * (np.arange(x.shape[1]) != 0) * d / max((t != 0).sum(), 1)
)
wrong("ignored-targets", "it is the wrong way round")(ignoring(np.invert, np.sum))
wrong("ignored-targets", "where every target is padding")(ignoring(lambda counts: counts, np.sum))
wrong("ignored-targets", "divide by their number")(ignoring(lambda counts: counts, lambda counts: 1))

right = [
    ("cross-entropy-forward", lambda x, q: np.mean([-(a * b).sum() for a, b in zip(q, log_softmax(x), strict=True)])),
    ("cross-entropy-forward", lambda x, q: -np.einsum("nv,nv->", q, log_softmax(x)) / len(x)),
]
wrong("softmax-forward", "the sums run along axis 1")(lambda x: np.exp(x) / np.exp(x).sum(axis=1, keepdims=True))
wrong("softmax-forward", "exp is missing")(lambda x: x / row_sum(x))
wrong("softmax-backward", "the sum runs along axis 1")(lambda y, d_y: y * (d_y - (d_y * y).sum(axis=1, keepdims=True)))


@wrong("ignored-targets", "the rows of padding are left out")
def rows_that_count(logits, targets, d_loss):
    counts = targets != 0
    return (softmax(logits) - hot(logits, targets))[counts] * d_loss / counts.sum()
