"""Chapter 8."""

import numpy as np
from learn.answers import Mistakes

START, END = 1, 2
wrong = Mistakes()


def angles(length, d, exponent=1.0, first=0):
    return (np.arange(length)[:, None] + first) / 10000 ** (exponent * np.arange(0, d, 2) / d)


def woven(angle, one=np.sin, other=np.cos):
    return np.stack((one(angle), other(angle)), axis=-1).reshape(len(angle), -1)


WAVES = "sinusoidal-positions"
wrong(WAVES, "they alternate")(lambda t, d: np.concatenate((np.sin(angles(t, d)), np.cos(angles(t, d))), axis=1))
wrong(WAVES, "sine and cosine are swapped")(lambda t, d: woven(angles(t, d), np.cos, np.sin))
wrong(WAVES, "the exponent is 4i/D")(lambda t, d: woven(angles(t, d, exponent=2)))
wrong(WAVES, "the exponent is i/D")(lambda t, d: woven(angles(t, d, exponent=0.5)))
wrong(WAVES, "divide by it")(lambda t, d: woven(angles(t, d, exponent=-1)))
wrong(WAVES, "the positions begin at 1")(lambda t, d: woven(angles(t, d, first=1)))
wrong(WAVES, "each feature has its own exponent")(
    lambda t, d: np.where(
        np.arange(d) % 2,
        np.cos(np.arange(t)[:, None] / 10000 ** (np.arange(d) / d)),
        np.sin(np.arange(t)[:, None] / 10000 ** (np.arange(d) / d)),
    )
)

SCALE = "embedding-scale"
wrong(SCALE, "the factor sqrt(D) is missing")(lambda rows, positions: rows + positions)
wrong(SCALE, "divided by sqrt(D)")(lambda rows, positions: rows / rows.shape[-1] ** 0.5 + positions)
wrong(SCALE, "the factor is D")(lambda rows, positions: rows * rows.shape[-1] + positions)
wrong(SCALE, "of the number of positions")(lambda rows, positions: rows * len(positions) ** 0.5 + positions)
wrong(SCALE, "of the number of sentences")(lambda rows, positions: rows * len(rows) ** 0.5 + positions)
wrong(SCALE, "the positions are multiplied too")(lambda rows, positions: (rows + positions) * rows.shape[-1] ** 0.5)
wrong(SCALE, "instead of the rows")(lambda rows, positions: rows + positions * rows.shape[-1] ** 0.5)
wrong(SCALE, "multiplied by the positions; add them")(lambda rows, at: rows * rows.shape[-1] ** 0.5 * at)
wrong(SCALE, "add them")(lambda rows, positions: rows * positions)
wrong(SCALE, "the positions are missing")(lambda rows, positions: rows * rows.shape[-1] ** 0.5)
wrong(SCALE, "the positions are subtracted")(lambda rows, positions: rows * rows.shape[-1] ** 0.5 - positions)


@wrong(SCALE, "rows was changed in place")
def scaled_in_place(rows, positions):
    rows *= rows.shape[-1] ** 0.5
    return rows + positions


def dropping(drop):
    wrong("dropout-forward", drop[0])(lambda x, keep, p: drop[1](x, keep, p))
    wrong("dropout-backward", drop[0])(lambda keep, p, d_y: drop[1](d_y, keep, p))


for drop in (
    ("nothing is scaled", lambda x, keep, p: x * keep),
    ("it is multiplied by 1 - p", lambda x, keep, p: x * keep * (1 - p)),
    ("it is divided by p, the probability", lambda x, keep, p: x * keep / p),
    ("it is multiplied by p", lambda x, keep, p: x * keep * p),
    ("keep is the wrong way round", lambda x, keep, p: np.where(keep, 0, x / (1 - p))),
    ("it is divided by p where entries are dropped", lambda x, keep, p: np.where(keep, 0, x / p)),
    ("nothing is dropped", lambda x, keep, p: x / (1 - p)),
    ("dropped entries stay as they are", lambda x, keep, p: np.where(keep, x / (1 - p), x)),
    ("the entries kept in this draw", lambda x, keep, p: x * keep / keep.mean()),
    ("the factor is applied twice", lambda x, keep, p: x * keep / (1 - p) ** 2),
    ("in place", lambda x, keep, p: np.divide(x * keep, 1 - p, out=x)),
):
    dropping(drop)


def network(d_h=lambda w2, d_y: d_y @ w2.T, gate=lambda h, d_h: d_h * (h > 0), d_x=lambda w1, d_a: d_a @ w1.T, **other):
    """Make a backward pass of the feed-forward network in which a part is another."""
    total = other.get("total", lambda d: d.sum(axis=(0, 1)))
    matrix = other.get("matrix", lambda a, d: np.einsum("bti,btj->ij", a, d))

    def backward(x, h, w1, w2, d_y):
        d_a = gate(h, d_h(w2, d_y))
        return d_x(w1, d_a), matrix(x, d_a), total(d_a), matrix(h, d_y), total(d_y)

    return backward


def rows(a):
    return a.reshape(-1, a.shape[-1])


def second(matrix):
    """Make a backward pass in which the gradient of w2 is another."""
    return lambda x, h, w1, w2, d_y: (*network()(x, h, w1, w2, d_y)[:3], matrix(h, d_y), d_y.sum(axis=(0, 1)))


FFN = "feed-forward-backward"
wrong(FFN, "the ReLU is missing")(network(gate=lambda h, d_h: d_h))
wrong(FFN, "the ReLU is applied to the gradient")(network(gate=lambda h, d_h: np.maximum(0, d_h)))
wrong(FFN, "d_h is multiplied by h")(network(gate=lambda h, d_h: d_h * h))
wrong(FFN, "the ReLU is the wrong way round")(network(gate=lambda h, d_h: d_h * (h == 0)))
wrong(FFN, "w2 is not transposed")(network(d_h=lambda w2, d_y: d_y @ w2))
wrong(FFN, "w2 is missing")(network(d_h=lambda w2, d_y: d_y))
wrong(FFN, "w1 is not transposed")(network(d_x=lambda w1, d_a: d_a @ w1))
wrong(FFN, "w1 is missing")(network(d_x=lambda w1, d_a: d_a))
wrong(FFN, "there is one gradient for each sentence")(network(matrix=lambda a, d: a.swapaxes(1, 2) @ d))
wrong(FFN, "x.T reverses all three axes")(network(matrix=lambda a, d: a.T @ d))
wrong(FFN, "x is one matrix of all rows, and d_a is not: reshape")(network(matrix=lambda a, d: rows(a).T @ d))
wrong(FFN, "d_a is one matrix of all rows, and x is not: x.T")(network(matrix=lambda a, d: a.T @ rows(d)))
wrong(FFN, "h.T reverses all three axes")(second(lambda a, d: a.T @ d))
wrong(FFN, "h is one matrix of all rows, and d_y is not: reshape")(second(lambda a, d: rows(a).T @ d))
wrong(FFN, "all rows share the bias")(network(total=lambda d: d))
wrong(FFN, "d_b1 has the wrong shape")(network(total=lambda d: d.sum(axis=0)))
wrong(FFN, "B T = 6 times too small")(network(total=lambda d: d.mean(axis=(0, 1))))
wrong(FFN, "d_w1 is not right yet")(lambda *given: (lambda d: (d[0], d[3], d[4], d[1], d[2]))(network()(*given)))
wrong(FFN, "Return d_x, d_w1, d_b1, d_w2, d_b2, in this order: expected 5 results, found 3")(
    lambda *given: network()(*given)[:3]
)


def drawn(limit, draw=lambda rng, a, shape: rng.uniform(-a, a, shape)):
    return lambda rng, n_in, n_out: draw(rng, limit(n_in, n_out), (n_in, n_out))


def glorot(n_in, n_out):
    return (6 / (n_in + n_out)) ** 0.5


WEIGHTS = "xavier"
wrong(WEIGHTS, "the root is missing")(drawn(lambda n, m: 6 / (n + m)))
wrong(WEIGHTS, "standard deviation is used as the limit")(drawn(lambda n, m: (2 / (n + m)) ** 0.5))
wrong(WEIGHTS, "the variance is used as the limit")(drawn(lambda n, m: 2 / (n + m)))
wrong(WEIGHTS, "the limit has n_in only")(drawn(lambda n, m: (6 / n) ** 0.5))
wrong(WEIGHTS, "the limit has n_out only")(drawn(lambda n, m: (6 / m) ** 0.5))
wrong(WEIGHTS, "the product of the sizes")(drawn(lambda n, m: (6 / (n * m)) ** 0.5))
wrong(WEIGHTS, "brackets are missing")(drawn(lambda n, m: (6 / n + m) ** 0.5))
wrong(WEIGHTS, "upside down")(drawn(lambda n, m: ((n + m) / 6) ** 0.5))
wrong(WEIGHTS, "the limits are -1 and 1")(drawn(lambda n, m: 1))
wrong(WEIGHTS, "the lower limit is 0")(drawn(glorot, lambda rng, a, shape: rng.uniform(0, a, shape)))
wrong(WEIGHTS, "a is the lower limit")(drawn(glorot, lambda rng, a, shape: rng.uniform(a, size=shape)))
wrong(WEIGHTS, "the shape is (n_out, n_in)")(drawn(glorot, lambda rng, a, shape: rng.uniform(-a, a, shape[::-1])))
wrong(WEIGHTS, "column by column")(drawn(glorot, lambda rng, a, shape: rng.uniform(-a, a, shape[::-1]).T))
wrong(WEIGHTS, "the numbers are normal")(drawn(glorot, lambda rng, a, shape: rng.normal(0, a / 3**0.5, shape)))
wrong(WEIGHTS, "draw a whole matrix")(drawn(glorot, lambda rng, a, shape: rng.uniform(-a, a, shape[1])))
wrong(WEIGHTS, "is not right yet")(drawn(glorot, lambda rng, a, shape: np.random.default_rng(9).uniform(-a, a, shape)))
wrong(WEIGHTS, "TypeError")(drawn(glorot, lambda rng, a, shape: rng.uniform(-a, a, *shape)))


def anew():
    seeds = iter(range(3))  # the seeds of the check, found out by chance
    return drawn(glorot, lambda rng, a, shape: np.random.default_rng(next(seeds)).uniform(-a, a, shape))


wrong(WEIGHTS, "rng has drawn none of them")(anew())
wrong(WEIGHTS, "rng has drawn none of these numbers")(
    lambda rng, n_in, n_out: np.random.default_rng(99).uniform(-1, 1, (n_in, n_out)) * np.sqrt(6 / (n_in + n_out))
)

AROUND = "residual-connection"
wrong(AROUND, "y is float32")(lambda x, sublayer, norm: norm(x + sublayer(x)).astype("f"))
wrong(AROUND, "x was changed in place")(lambda x, sublayer, norm: norm(np.add(x, sublayer(x), out=x)))
wrong(AROUND, "this is pre-norm")(lambda x, sublayer, norm: x + sublayer(norm(x)))
wrong(AROUND, "the shortcut is missing")(lambda x, sublayer, norm: norm(sublayer(x)))
wrong(AROUND, "the norm is missing")(lambda x, sublayer, norm: x + sublayer(x))
wrong(AROUND, "before the addition")(lambda x, sublayer, norm: x + norm(sublayer(x)))
wrong(AROUND, "in post-norm it gets x itself")(lambda x, sublayer, norm: norm(x + sublayer(norm(x))))
wrong(AROUND, "the sub-layer is applied after the norm")(lambda x, sublayer, norm: sublayer(norm(x)))
wrong(AROUND, "x is normalised instead of the sum")(lambda x, sublayer, norm: norm(x) + sublayer(x))

BACK = "residual-backward"
wrong(BACK, "the shortcut is missing")(lambda d, norm, sublayer: sublayer(norm(d)))
wrong(BACK, "the sub-layer is missing")(lambda d, norm, sublayer: norm(d))
wrong(BACK, "the shortcut is inside the norm")(lambda d, norm, sublayer: d + sublayer(norm(d)))
wrong(BACK, "the norm is skipped")(lambda d, norm, sublayer: d + sublayer(d))
wrong(BACK, "the sub-layer gets d_y")(lambda d, norm, sublayer: norm(d) + sublayer(d))
wrong(BACK, "it is the mean of the two")(lambda d, norm, sublayer: (norm(d) + sublayer(norm(d))) / 2)
wrong(BACK, "the order is wrong")(lambda d, norm, sublayer: norm(d + sublayer(d)))
wrong(BACK, "multiplied; add them")(lambda d, norm, sublayer: norm(d) * sublayer(norm(d)))


def started(rest):
    return np.concatenate((np.full((len(rest), 1), START), rest), axis=1)


SEEN = "shifted-targets"
wrong(SEEN, "wanted was changed in place")(lambda wanted: wanted.put(0, START))
wrong(SEEN, "nothing is shifted")(lambda wanted: wanted)
wrong(SEEN, "the decoder sees what comes after")(
    lambda wanted: np.concatenate((wanted[:, 1:], np.zeros((len(wanted), 1), dtype=int)), axis=1)
)
wrong(SEEN, "START takes the place")(lambda wanted: started(wanted[:, 1:]))
wrong(SEEN, "the last column is still there")(started)
wrong(SEEN, "START is missing")(lambda wanted: wanted[:, :-1])
wrong(SEEN, "the last token is moved to the front")(lambda wanted: np.roll(wanted, 1, axis=1))
wrong(SEEN, "is there a `return`")(lambda wanted: None)
wrong(SEEN, "is not right yet")(lambda wanted: started(wanted[:, :-1]) - 1)

RATE = "warm-up"
wrong(RATE, "that of 512 features")(lambda step, d, w: 512**-0.5 * min(step**-0.5, step * w**-1.5))
wrong(RATE, "lr, for d_model = 128 and warmup_steps = 400, at")(
    lambda step, d, w: d**-0.5 * min(step**-0.5, step * 100**-1.5)
)
wrong(RATE, "the larger of the two")(lambda step, d, w: d**-0.5 * max(step**-0.5, step * w**-1.5))
wrong(RATE, "there is no warm-up")(lambda step, d, w: d**-0.5 * step**-0.5)
wrong(RATE, "brackets are missing")(lambda step, d, w: d**-1 / 2 * min(step**-1 / 2, step * w**-3 / 2))
wrong(SEEN, "the first column is padding")(lambda wanted: np.roll(wanted, 1, axis=1) * (np.arange(wanted.shape[1]) > 0))
wrong(SEEN, "START comes last")(
    lambda wanted: np.concatenate((wanted[:, 1:], np.full((len(wanted), 1), START)), axis=1)
)
wrong(RATE, "it never falls")(lambda step, d, w: d**-0.5 * step * w**-1.5)
wrong(RATE, "the factor in front is missing")(lambda step, d, w: min(step**-0.5, step * w**-1.5))
wrong(RATE, "the factor in front is sqrt")(lambda step, d, w: d**0.5 * min(step**-0.5, step * w**-1.5))
wrong(RATE, "the factor in front is 1 / d_model")(lambda step, d, w: min(step**-0.5, step * w**-1.5) / d)
wrong(RATE, "the power of warmup_steps")(lambda step, d, w: d**-0.5 * min(step**-0.5, step * w**-0.5))
wrong(RATE, "the factor step is missing")(lambda step, d, w: d**-0.5 * min(step**-0.5, w**-1.5))


def adam(move=None, mean=lambda m, g, b: b * m + (1 - b) * g, square=lambda v, g, b: b * v + (1 - b) * g * g):
    """Make a step of Adam of one in which a part is another."""

    def step(theta, g, m, v, t, lr, beta1, beta2, eps):
        m, v = mean(m, g, beta1), square(v, g, beta2)
        m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
        moved = lr * m_hat / (np.sqrt(v_hat) + eps) if move is None else move(g, m, v, m_hat, v_hat, lr, eps)
        return theta - moved, m, v

    return step


ADAM = "adam-step"
wrong(ADAM, "the correction of the bias is missing")(
    adam(lambda g, m, v, m_hat, v_hat, lr, eps: lr * m / (np.sqrt(v) + eps))
)
wrong(ADAM, "the bias of v")(adam(lambda g, m, v, m_hat, v_hat, lr, eps: lr * m_hat / (np.sqrt(v) + eps)))
wrong(ADAM, "the bias of m")(adam(lambda g, m, v, m_hat, v_hat, lr, eps: lr * m / (np.sqrt(v_hat) + eps)))
wrong(ADAM, "eps is inside the root")(adam(lambda g, m, v, m_hat, v_hat, lr, eps: lr * m_hat / np.sqrt(v_hat + eps)))
wrong(ADAM, "the root of v_hat")(adam(lambda g, m, v, m_hat, v_hat, lr, eps: lr * m_hat / (v_hat + eps)))
wrong(ADAM, "the wrong sign")(adam(lambda g, m, v, m_hat, v_hat, lr, eps: -lr * m_hat / (np.sqrt(v_hat) + eps)))
wrong(ADAM, "instead of its running mean")(adam(lambda g, m, v, m_hat, v_hat, lr, eps: lr * g / (np.sqrt(v_hat) + eps)))
wrong(ADAM, "this is the step")(
    lambda theta, g, m, v, t, lr, *rest: (
        theta - adam()(theta, g, m, v, t, lr, *rest)[0],
        *adam()(theta, g, m, v, t, lr, *rest)[1:],
    )
)
wrong(ADAM, "eps is missing")(adam(lambda g, m, v, m_hat, v_hat, lr, eps: lr * m_hat / np.sqrt(v_hat)))
wrong(ADAM, "m and v are swapped: m_hat is divided")(
    adam(lambda g, m, v, m_hat, v_hat, lr, eps: lr * v_hat / (np.sqrt(m_hat) + eps))
)
wrong(ADAM, "this is v; the order is theta, m, v")(lambda *given: (lambda theta, m, v: (theta, v, m))(*adam()(*given)))
wrong(ADAM, "this is theta; the order")(lambda *given: (lambda theta, m, v: (m, theta, v))(*adam()(*given)))
wrong(ADAM, "that belongs to v")(adam(mean=lambda m, g, b: b * m + (1 - b) * g * g))
wrong(ADAM, "it uses beta2 instead of beta1")(
    lambda theta, g, m, v, t, lr, beta1, beta2, eps: adam()(theta, g, m, v, t, lr, beta2, beta2, eps)
)
wrong(ADAM, "the learning rate is missing")(adam(lambda g, m, v, m_hat, v_hat, lr, eps: m_hat / (np.sqrt(v_hat) + eps)))
wrong(ADAM, "the factor 1 - beta1 is missing")(adam(mean=lambda m, g, b: b * m + g))
wrong(ADAM, "beta2 and 1 - beta2 are swapped")(adam(square=lambda v, g, b: (1 - b) * v + b * g * g))
wrong(ADAM, "the factor 1 - beta2 is squared")(adam(square=lambda v, g, b: b * v + ((1 - b) * g) ** 2))


def corrected_by(factor):
    """Make a step of Adam with another correction of the bias."""

    def step(theta, g, m, v, t, lr, beta1, beta2, eps):
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        m_hat, v_hat = m / factor(beta1, t), v / abs(factor(beta2, t))
        return theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v

    return step


wrong(ADAM, "the first step is number 1")(corrected_by(lambda beta, t: 1 - beta ** (t + 1)))
wrong(ADAM, "beta^t is a power")(corrected_by(lambda beta, t: 1 - beta * t))
wrong(ADAM, "it needs beta^t")(corrected_by(lambda beta, t: 1 - beta))


@wrong(ADAM, "it uses beta1 instead of beta2")
def one_beta(theta, g, m, v, t, lr, beta1, beta2, eps):
    return adam()(theta, g, m, v, t, lr, beta1, beta1, eps)


@wrong(ADAM, "it is the square of the new m")
def square_of_the_mean(theta, g, m, v, t, lr, beta1, beta2, eps):
    new_theta, new_m, _ = adam()(theta, g, m, v, t, lr, beta1, beta2, eps)
    return new_theta, new_m, beta2 * v + (1 - beta2) * new_m**2


@wrong(ADAM, "v_hat is returned")
def corrected_square(theta, g, m, v, t, lr, beta1, beta2, eps):
    theta, m, v = adam()(theta, g, m, v, t, lr, beta1, beta2, eps)
    return theta, m, v / (1 - beta2**t)


wrong(ADAM, "beta1 and 1 - beta1 are swapped")(adam(mean=lambda m, g, b: (1 - b) * m + b * g))
wrong(ADAM, "the factor beta1 is missing")(adam(mean=lambda m, g, b: m + (1 - b) * g))
wrong(ADAM, "the gradient is not squared")(adam(square=lambda v, g, b: b * v + (1 - b) * g))
wrong(ADAM, "Return theta, m, v, in this order: expected 3 results, found an array of shape (5,)")(
    lambda *given: adam()(*given)[0]
)


@wrong(ADAM, "theta was changed in place")
def in_place(theta, g, m, v, t, lr, beta1, beta2, eps):
    m *= beta1
    m += (1 - beta1) * g
    v *= beta2
    v += (1 - beta2) * g * g
    theta -= lr * m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps)
    return theta, m, v


@wrong(ADAM, "m was changed in place")
def moments_in_place(theta, g, m, v, t, lr, beta1, beta2, eps):
    new_theta, m[:], v[:] = adam()(theta, g, m, v, t, lr, beta1, beta2, eps)
    return new_theta, m, v


wrong(ADAM, "theta at step 3 is float32")(
    lambda theta, *rest: (adam()(theta, *rest)[0].astype("f"), *adam()(theta, *rest)[1:])
)


@wrong(ADAM, "m_hat is returned")
def corrected_twice(theta, g, m, v, t, lr, beta1, beta2, eps):
    theta, m, v = adam()(theta, g, m, v, t, lr, beta1, beta2, eps)
    return theta, m / (1 - beta1**t), v / (1 - beta2**t)


GREEDY = "greedy-decoding"


def loop(best=np.argmax, before=True, start=1, limit=True):
    def greedy(next_scores, max_length):
        tokens = [START]
        for _ in range(max_length if limit else 1000):
            token = int(best(next_scores(tokens)))
            if before and token == END:
                break
            tokens.append(token)
            if token == END:
                break
        return tokens[start:]

    return greedy


wrong(GREEDY, "it contains END, token 2")(loop(before=False))
wrong(GREEDY, "it contains START")(loop(start=0))
wrong(GREEDY, "it contains START and END")(loop(start=0, before=False))
wrong(GREEDY, "The token with the lowest score")(loop(best=np.argmin))
wrong(GREEDY, "each step appends the token with the highest score")(loop(best=lambda scores: np.argsort(scores)[-2]))
wrong(GREEDY, "more than max_length = 3 times")(loop(limit=False))


@wrong(GREEDY, "it stops at once")
def one_token(next_scores, max_length):
    token = int(np.argmax(next_scores([START])))
    return [token] if token != END else []


wrong(GREEDY, "its last token is missing")(lambda next_scores, n: loop()(next_scores, n)[:-1])


@wrong(GREEDY, "it continues after END")
def never_stops(next_scores, max_length):
    tokens = [START]
    for _ in range(max_length):
        tokens.append(int(np.argmax(next_scores(tokens))))
    return tokens[1:]


@wrong(GREEDY, "should begin with START, 1")
def only_the_last(next_scores, max_length):
    token, sentence = START, []
    for _ in range(max_length):
        token = int(np.argmax(next_scores([token])))
        sentence.append(token)
    return sentence


def beam(order=lambda totals: np.argsort(-totals, axis=None), divisor=1, added=True):
    def step(log_p, next_log_p, k):
        totals = log_p[:, None] * added + next_log_p
        parents, tokens = np.divmod(order(totals)[:k], next_log_p.shape[divisor])
        return parents, tokens, (log_p[:, None] + next_log_p).reshape(-1)[order(totals)[:k]]

    return step


BEAM = "beam-step"
wrong(BEAM, "the lowest are kept")(beam(lambda totals: np.argsort(totals, axis=None)))
wrong(BEAM, "the worst comes first")(beam(lambda totals: np.argsort(totals, axis=None)[-3:]))
wrong(BEAM, "a row has V entries")(beam(divisor=0))
wrong(BEAM, "are not added: use totals")(beam(added=False))


@wrong(BEAM, "these are places in the flattened array")
def not_divided(log_p, next_log_p, k):
    totals = log_p[:, None] + next_log_p
    places = np.argsort(-totals, axis=None)[:k]
    return places, places, totals.reshape(-1)[places]


@wrong(BEAM, "these belong to the last tokens alone")
def of_tokens(log_p, next_log_p, k):
    parents, tokens, _ = beam()(log_p, next_log_p, k)
    return parents, tokens, next_log_p[parents, tokens]


@wrong(BEAM, "these belong to the hypotheses alone")
def of_hypotheses(log_p, next_log_p, k):
    parents, tokens, _ = beam()(log_p, next_log_p, k)
    return parents, tokens, log_p[parents]


@wrong(BEAM, "return their logarithms")
def probabilities(log_p, next_log_p, k):
    parents, tokens, totals = beam()(log_p, next_log_p, k)
    return parents, tokens, np.exp(totals)


@wrong(BEAM, "the parents come first")
def tokens_first(log_p, next_log_p, k):
    parents, tokens, totals = beam()(log_p, next_log_p, k)
    return tokens, parents, totals


@wrong(BEAM, "each hypothesis keeps its best one")
def one_each(log_p, next_log_p, k):
    tokens = next_log_p.argmax(axis=1)
    totals = log_p + next_log_p.max(axis=1)
    return np.arange(len(log_p))[:k], tokens[:k], totals[:k]


def penalised(score, best=np.argmax):
    return lambda log_p, length, alpha: (score(log_p, length, alpha), int(best(score(log_p, length, alpha))))


def lp(length, alpha):
    return ((5 + length) / 6) ** alpha


PENALTY = "length-penalty"
wrong(PENALTY, "multiplied by the penalty")(penalised(lambda p, n, alpha: p * lp(n, alpha)))
wrong(PENALTY, "it is divided by length^alpha")(penalised(lambda p, n, alpha: p / n**alpha))
wrong(PENALTY, "5 + length comes first")(penalised(lambda p, n, alpha: p / (5 + n / 6) ** alpha))
wrong(PENALTY, "the power belongs to the whole fraction")(penalised(lambda p, n, alpha: p / ((5 + n) / 6**alpha)))
wrong(PENALTY, "the power is missing")(penalised(lambda p, n, alpha: p / ((5 + n) / 6)))
wrong(PENALTY, "alpha is a factor")(penalised(lambda p, n, alpha: p / ((5 + n) / 6 * alpha)))
wrong(PENALTY, "the penalty is subtracted")(penalised(lambda p, n, alpha: p - lp(n, alpha)))
wrong(PENALTY, "the lowest score")(penalised(lambda p, n, alpha: p / lp(n, alpha), np.argmin))
wrong(PENALTY, "compare the scores, not log_p")(
    lambda p, n, alpha: (p / lp(n, alpha), int(np.argmax(p))),
)
wrong(PENALTY, "Return scores, best, in this order: expected 2 results, found an array of shape (5,)")(
    lambda p, n, alpha: p / lp(n, alpha)
)
wrong(PENALTY, "best should be the number of a sentence")(lambda p, n, alpha: (p / lp(n, alpha), max(p)))

right = [
    ("adam-step", lambda *given: np.stack(adam()(*given))),
    ("residual-connection", lambda x, sublayer, norm: norm(sublayer(x) + x)),
    # END moves into the input of a shorter sentence; where nothing is wanted, padding is as good
    ("shifted-targets", lambda wanted: started(np.where(wanted == END, 0, wanted)[:, :-1])),
    ("embedding-scale", lambda rows, positions: np.stack([positions + row * row.shape[1] ** 0.5 for row in rows])),
    ("dropout-forward", lambda x, keep, p: keep / (1 - p) * x),
    ("dropout-backward", lambda keep, p, d_y: d_y * keep * (1 / (1 - p))),
    ("feed-forward-backward", network(gate=lambda h, d_h: np.sign(h) * d_h)),
    ("xavier", drawn(glorot, lambda rng, a, shape: a * rng.uniform(-1, 1, shape))),
    (
        "xavier",
        drawn(glorot, lambda rng, a, shape: [[rng.uniform(-a, a) for _ in range(shape[1])] for _ in range(shape[0])]),
    ),
]
