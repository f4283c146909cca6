"""Chapter 6."""

import numpy as np
from learn.answers import Mistakes

wrong = Mistakes()


def mean(x):
    return x.mean(axis=-1, keepdims=True)


def row_sum(x):
    return x.sum(axis=-1, keepdims=True)


def var(x, **options):
    return x.var(axis=-1, keepdims=True, **options)


def norm(scaled):
    """Make a forward pass of what stands in place of x_hat."""
    return lambda x, gain, bias, eps: gain * scaled(x, eps) + bias


def x_hat(x, eps):
    return (x - mean(x)) / np.sqrt(var(x) + eps)


FORWARD = "layer-norm-forward"
wrong(FORWARD, "inside the root, to the variance")(norm(lambda x, eps: (x - mean(x)) / (np.sqrt(var(x)) + eps)))
wrong(FORWARD, "divided by D - 1")(norm(lambda x, eps: (x - mean(x)) / np.sqrt(var(x, ddof=1) + eps)))
wrong(FORWARD, "eps is missing")(norm(lambda x, eps: (x - mean(x)) / np.sqrt(var(x))))
wrong(FORWARD, "take its square root")(norm(lambda x, eps: (x - mean(x)) / (var(x) + eps)))
wrong(FORWARD, "over the first axis")(norm(lambda x, eps: (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + eps)))
wrong(FORWARD, "eps is added outside the root")(norm(lambda x, eps: (x - mean(x)) / (var(x, ddof=1) ** 0.5 + eps)))
wrong(FORWARD, "the variance is that of the first axis")(
    norm(lambda x, eps: (x - mean(x)) / np.sqrt(x.var(axis=0) + eps))
)
wrong(FORWARD, "the variance is that of the whole array")(norm(lambda x, eps: (x - mean(x)) / np.sqrt(x.var() + eps)))
wrong(FORWARD, "that of the centred features")(norm(lambda x, eps: (x - mean(x)) / np.sqrt(mean(x * x) + eps)))
wrong(FORWARD, "divide the centred features")(norm(lambda x, eps: x / np.sqrt(var(x) + eps)))
wrong(FORWARD, "gain and bias are missing")(lambda x, gain, bias, eps: x_hat(x, eps))
wrong(FORWARD, "the bias is missing")(lambda x, gain, bias, eps: gain * x_hat(x, eps))
wrong(FORWARD, "the bias is added last")(lambda x, gain, bias, eps: gain * (x_hat(x, eps) + bias))
wrong(FORWARD, "is float32")(lambda x, gain, bias, eps: (gain * x_hat(x, eps) + bias).astype("f"))
wrong(FORWARD, "could not be broadcast")(norm(lambda x, eps: x / np.sqrt(x.var(axis=-1) + eps)))

SHARED = "gain-and-bias-gradients"
wrong(SHARED, "there are no sums yet")(lambda x_hat, d_y: (d_y * x_hat, d_y))
wrong(SHARED, "only the first axis")(lambda x_hat, d_y: ((d_y * x_hat).sum(axis=0), d_y.sum(axis=0)))
wrong(SHARED, "d_bias has the wrong shape")(lambda x_hat, d_y: ((d_y * x_hat).sum(axis=(0, 1)), d_y))
wrong(SHARED, "axis of positions")(lambda x_hat, d_y: ((d_y * x_hat).sum(axis=(0, 1)), d_y.sum(axis=1)))
wrong(SHARED, "it is the mean over the rows")(
    lambda x_hat, d_y: ((d_y * x_hat).mean(axis=(0, 1)), d_y.sum(axis=(0, 1)))
)
wrong(SHARED, "B = 2 times too small")(lambda x_hat, d_y: ((d_y * x_hat).sum(axis=(0, 1)) / 2, d_y.sum(axis=(0, 1))))
wrong(SHARED, "add up all uses of the bias")(lambda x_hat, d_y: ((d_y * x_hat).sum(axis=(0, 1)), d_y.mean(axis=(0, 1))))
wrong(SHARED, "multiply first, then sum")(
    lambda x_hat, d_y: (d_y.sum(axis=(0, 1)) * x_hat.sum(axis=(0, 1)), d_y.sum(axis=(0, 1)))
)
wrong(SHARED, "d_y is missing")(lambda x_hat, d_y: (x_hat.sum(axis=(0, 1)), d_y.sum(axis=(0, 1))))
wrong(SHARED, "each has its own gain")(lambda x_hat, d_y: ((d_y * x_hat).sum(), d_y.sum(axis=(0, 1))))
wrong(SHARED, "each has its own bias")(lambda x_hat, d_y: ((d_y * x_hat).sum(axis=(0, 1)), d_y.sum()))
wrong(SHARED, "it is the gradient of the bias")(lambda x_hat, d_y: (d_y.sum(axis=(0, 1)), d_y.sum(axis=(0, 1))))
wrong(SHARED, "Return d_gain, d_bias, in this order: expected 2 results")(
    lambda x_hat, d_y: (d_y * x_hat).sum(axis=(0, 1))
)

CENTRING = "centring-backward"
wrong(CENTRING, "also a part of the mean")(lambda d_c: d_c)
wrong(CENTRING, "along the first axis")(lambda d_c: d_c - d_c.mean(axis=0))
wrong(CENTRING, "that of the whole array")(lambda d_c: d_c - d_c.mean())
wrong(CENTRING, "the sum of the row is subtracted")(lambda d_c: d_c - d_c.sum(axis=-1, keepdims=True))
wrong(CENTRING, "only its own share is subtracted")(lambda d_c: d_c * (1 - 1 / d_c.shape[-1]))
wrong(CENTRING, "the sign of the second term")(lambda d_c: d_c + mean(d_c))
wrong(CENTRING, "it is zero everywhere")(np.zeros_like)

BACKWARD = "layer-norm-backward"


def with_d(formula):
    """Make a backward pass of a formula of d_x_hat."""
    return lambda x_hat, r, gain, d_y: formula(x_hat, r, d_y * gain)


wrong(BACKWARD, "the term mean(d_x_hat) is missing")(with_d(lambda x_hat, r, d: r * (d - x_hat * mean(d * x_hat))))
wrong(BACKWARD, "the term with x_hat is missing")(with_d(lambda x_hat, r, d: r * (d - mean(d))))
wrong(BACKWARD, "a product of two means is 0 there")(
    with_d(lambda x_hat, r, d: r * (d - mean(d) - x_hat * mean(d) * mean(x_hat)))
)
wrong(BACKWARD, "the second term has the wrong sign")(
    with_d(lambda x_hat, r, d: r * (d - mean(d) + x_hat * mean(d * x_hat)))
)
wrong(BACKWARD, "the second term has a sum")(with_d(lambda x_hat, r, d: r * (d - mean(d) - x_hat * row_sum(d * x_hat))))
wrong(BACKWARD, "the means run along the first axis")(
    with_d(lambda x_hat, r, d: r * (d - d.mean(axis=0) - x_hat * (d * x_hat).mean(axis=0)))
)
wrong(BACKWARD, "the means are those of the whole array")(
    with_d(lambda x_hat, r, d: r * (d - d.mean() - x_hat * (d * x_hat).mean()))
)
wrong(BACKWARD, "subtract them")(with_d(lambda x_hat, r, d: r * (d + mean(d) + x_hat * mean(d * x_hat))))
wrong(BACKWARD, "d_x is float32")(with_d(lambda x_hat, r, d: (r * (d - mean(d) - x_hat * mean(d * x_hat))).astype("f")))
wrong(BACKWARD, "d_y was changed in place")(lambda x_hat, r, gain, d_y: np.multiply(d_y, gain, out=d_y))
wrong(BACKWARD, "both means are missing")(with_d(lambda x_hat, r, d: r * d))
wrong(BACKWARD, "the factor r in front")(with_d(lambda x_hat, r, d: d - mean(d) - x_hat * mean(d * x_hat)))
wrong(BACKWARD, "r is already 1 over")(with_d(lambda x_hat, r, d: (d - mean(d) - x_hat * mean(d * x_hat)) / r))
wrong(BACKWARD, "not multiplied by x_hat_j")(with_d(lambda x_hat, r, d: r * (d - mean(d) - mean(d * x_hat))))
wrong(BACKWARD, "a factor 1/D is missing in both")(
    with_d(lambda x_hat, r, d: r * (d - row_sum(d) - x_hat * row_sum(d * x_hat)))
)
wrong(BACKWARD, "divided by D - 1")(
    with_d(lambda x_hat, r, d: r * (d - mean(d) - x_hat * mean(d * x_hat) * d.shape[-1] / (d.shape[-1] - 1)))
)
wrong(BACKWARD, "not the whole bracket")(with_d(lambda x_hat, r, d: r * d - mean(d) - x_hat * mean(d * x_hat)))


@wrong(BACKWARD, "the gain is forgotten")
def without_gain(x_hat, r, gain, d_y):
    return r * (d_y - mean(d_y) - x_hat * mean(d_y * x_hat))


@wrong(BACKWARD, "it belongs in d_x_hat, inside the means")
def gain_in_front(x_hat, r, gain, d_y):
    return gain * r * (d_y - mean(d_y) - x_hat * mean(d_y * x_hat))


@wrong(BACKWARD, "take them of d_x_hat")
def means_of_d_y(x_hat, r, gain, d_y):
    return r * (d_y * gain - mean(d_y) - x_hat * mean(d_y * x_hat))


@wrong("layer-norm-forward", "the variance runs along axis 1")
def variance_along_axis_1(x, gain, bias, eps):
    return gain * (x - mean(x)) / np.sqrt(x.var(axis=1, keepdims=True) + eps) + bias


@wrong("layer-norm-forward", "the statistics run along axis 1")
def statistics_along_axis_1(x, gain, bias, eps):
    return gain * (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + eps) + bias


wrong("centring-backward", "the mean runs along axis 1")(lambda d_c: d_c - d_c.mean(axis=1, keepdims=True))
wrong("gain-and-bias-gradients", "summed over the features; sum over the rows")(
    lambda x_hat, d_y: ((x_hat * d_y).sum(axis=-1), d_y.sum(axis=-1))
)
