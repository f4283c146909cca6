"""One of these scores depends on more than the distance: show it.

Row n of q and k stands at position t[n]. Below are five ways to compute the
scores (T, T) of all queries and keys. In four of them a score depends on the
distance between query and key alone, whatever q and k are: if all positions
grow by the same number, no score changes.

Give the letter of the other one, q and k (T, D) with an even D, and a number,
first. Its scores at the positions first, first + 1, ... have to differ by more
than one per cent from those at 0, 1, ... T and D are up to 8. Some inputs hide
it.
"""

import numpy as np


def angles(t, d):
    """Return the angles at the positions t: (T, D/2)."""
    return t[:, None] / 10000 ** (np.arange(0, d, 2) / d)


def turn(x, angle):
    """Return x, with its pairs of features as complex numbers turned."""
    z = (x[:, 0::2] + 1j * x[:, 1::2]) * np.exp(1j * angle)
    return np.stack((z.real, z.imag), axis=-1).reshape(x.shape)


def a(q, k, t):
    """Turn both, by rotary positions: neighbours are a pair."""
    angle = angles(t, q.shape[-1])
    return turn(q, angle) @ turn(k, angle).T


def b(q, k, t):
    """Turn both: the features i and i + D/2 are a pair."""
    order = np.arange(q.shape[-1]).reshape(2, -1).T.ravel()
    return a(q[:, order], k[:, order], t)


def c(q, k, t):
    """Turn the first half of the features only."""
    n = q.shape[-1] // 4 * 2
    return a(q[:, :n], k[:, :n], t) + q[:, n:] @ k[:, n:].T


def d(q, k, t):
    """Add sinusoidal positions to queries and keys."""
    angle = angles(t, q.shape[-1])
    waves = np.stack((np.sin(angle), np.cos(angle)), -1).reshape(q.shape)
    return (q + waves) @ (k + waves).T


def e(q, k, t):
    """Subtract a penalty for the distance, as ALiBi does."""
    return q @ k.T - 0.5 * np.abs(t[:, None] - t)


def counterexample():
    """Return the letter, and q, k and first that show it."""
    # [solution
    # q times the waves at the key depends on the key's own position; for
    # q = k = 0 only sums of cos(w_i (t - u)) are left, which hides it
    q, k = np.random.default_rng(0).normal(size=(2, 3, 4))
    return "d", q, k, 5
    # solution] in the exercise:
    #: # TODO: "a", "b", "c", "d" or "e", two arrays and a number
    #: return ..., ..., ..., ...
