"""Chapter 5: softmax, log-sum-exp and cross-entropy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.learn.verdict import agree, check_gradients


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """Return the weights."""
    return np.asarray(ops.softmax.forward(x, axis=axis)[0])


def cross_entropy(logits: np.ndarray, targets: np.ndarray, **options: Any) -> np.ndarray:
    """Return the mean loss."""
    return np.asarray(ops.cross_entropy.forward(logits, targets, **options)[0])


def one_hot(targets: np.ndarray, V: int) -> np.ndarray:
    """Return 1 at each row's target and 0 elsewhere: (N,) -> (N, V)."""
    return np.asarray(np.eye(V)[targets])


def draw(seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield logits and targets: some tokens twice, and in the second case the last ones of the vocabulary never."""
    rng = np.random.default_rng(seed)
    yield rng.normal(size=(5, 4)), np.array([2, 0, 3, 2, 1])
    yield rng.normal(size=(3, 6)), np.array([0, 2, 0])


def softmax_forward(forward: Callable[..., Any]) -> None:
    """Check the softmax of small scores."""
    rng = np.random.default_rng(51)
    for shape in ((3, 4), (2, 3, 5)):
        x = rng.normal(size=shape)
        e = np.exp(x)
        agree(
            "y",
            forward(x),
            softmax(x),
            mistakes={
                "it is divided by the sum of the whole array; each row has its own sum, axis=-1": e / e.sum(),
                "the sums run along the first axis; a row lies along the last one, axis=-1": softmax(x, axis=0),
                "the sums run along axis 1; a row lies along the last axis, axis=-1": softmax(x, axis=1),
                "these are the exponentials; divide them by the sum of their row": e,
                "exp is missing: these are the scores, divided by their sum": x / x.sum(axis=-1, keepdims=True),
                "it is divided by the maximum of the row instead of its sum": e / e.max(axis=-1, keepdims=True),
                "it is divided by the sum of the scores; use the sum of their exponentials": e
                / x.sum(axis=-1, keepdims=True),
            },
        )


def softmax_of_large_scores(forward: Callable[..., Any]) -> None:
    """Check the softmax of scores up to 1e4 of both signs."""
    small = np.random.default_rng(52).normal(size=(3, 4))
    large = small + np.array([1e4, 0.0, -1e4])[:, None]
    large[1] *= 1e4  # scores far apart in one row
    leading = np.random.default_rng(59).normal(size=(2, 3, 5)) - 1e4
    for name, x in (("small scores", small), ("scores of 10000", large), ("scores of -10000", leading)):
        with np.errstate(all="ignore"):
            agree(f"y, for {name},", forward(x), softmax(x), mistakes=_wrong_shifts(x))


def _wrong_shifts(x: np.ndarray) -> dict[str, np.ndarray]:
    def after(shifted: np.ndarray) -> np.ndarray:
        e = np.exp(shifted)
        return np.asarray(e / e.sum(axis=-1, keepdims=True))

    return {
        "one number is subtracted from the whole array: where a row lies far below it, all its exponentials are 0. "
        "Each row needs its own": after(x - x.max()),
        "the largest of each column is subtracted; a row lies along the last axis": after(x - x.max(axis=0)),
        "large scores are clipped, so different scores get equal weights": after(np.clip(x, -700, 700)),
        "exp still overflows, and inf / inf is NaN: subtract so much that no exponent is above 0": after(x),
        "the smallest score is subtracted, and exp still overflows: subtract the largest": after(
            x - x.min(axis=-1, keepdims=True)
        ),
        "exp still overflows in a row: there are scores above the one that is subtracted": after(
            x - x.mean(axis=-1, keepdims=True)
        ),
    }


def softmax_backward(backward: Callable[..., Any]) -> None:
    """Check the gradient of the scores, from the weights."""
    rng = np.random.default_rng(53)
    for shape in ((3, 4), (2, 3, 5)):
        x = rng.normal(size=shape)
        _softmax_gradient(backward, x, softmax(x))


def _softmax_gradient(backward: Callable[..., Any], x: np.ndarray, y: np.ndarray) -> None:
    check_gradients(
        lambda d_y: backward(y, d_y),
        softmax,
        {"x": x},
        sizes={"number of rows": len(x)},
        mistakes=lambda d_y: {
            "d_x": {
                "the row sum is missing: each score also acts on the other weights of its row, through the "
                "denominator": y * d_y,
                "only the case i = j is there: the other weights of the row depend on x_j too": y * (1 - y) * d_y,
                "the sum runs along the first axis; the weights of a row lie along the last one": y
                * (d_y - (d_y * y).sum(axis=0)),
                "the sum runs along axis 1; the weights of a row lie along the last axis": y
                * (d_y - (d_y * y).sum(axis=1, keepdims=True)),
                "the sum runs over the whole array; each row has its own sum": y * (d_y - (d_y * y).sum()),
                "the row sum adds up d_y alone; each term has a factor y_i": y
                * (d_y - d_y.sum(axis=-1, keepdims=True)),
                "it has a mean instead of the sum": y * (d_y - (d_y * y).mean(axis=-1, keepdims=True)),
                "it has the mean of d_y instead of the sum of y_i d_y_i": y * (d_y - d_y.mean(axis=-1, keepdims=True)),
                "the row sum is added; the derivative of y_i by another x_j is -y_i y_j, so subtract it": y
                * (d_y + (d_y * y).sum(axis=-1, keepdims=True)),
                "the case i = j is missing: y_j itself grows with x_j, by y_j d_y_j": -y
                * (d_y * y).sum(axis=-1, keepdims=True),
                **squares(y, d_y, "y"),
                "multiply the row sum by y_j too": y * d_y - (d_y * y).sum(axis=-1, keepdims=True),
                "the factor y_j in front is missing": d_y - (d_y * y).sum(axis=-1, keepdims=True),
                "the softmax is applied twice: y is already softmax(x)": ops.softmax.backward((softmax(y), -1), d_y)[0],
            }
        },
    )


def squares(y: np.ndarray, d_y: np.ndarray, name: str) -> dict[str, np.ndarray]:
    """Return the gradient of a softmax, of that ``name``, with y_j squared where y_i y_j should be."""
    square = y * y * d_y.sum(axis=-1, keepdims=True)
    inside = f"{name}_i {name}_j is not {name}_j squared: the factor {name}_i belongs in the sum over i"
    return {
        f"{inside}; and the case i = j, {name}_j d_{name}_j, is missing": square,
        f"{inside}; the case i = j, {name}_j d_{name}_j, is missing too": -square,
        inside: y * d_y - square,
    }


def log_sum_exp(log_sum_exp: Callable[..., Any]) -> None:
    """Check the logarithm of a sum of exponentials, of large scores too."""
    rng = np.random.default_rng(54)
    for shape, size in (((2, 3, 4), 0), ((2, 5), 0), ((2, 3, 4), 10000)):
        x = rng.normal(size=shape) + size * rng.permuted([1.0, -1.0])[(..., *[None] * (len(shape) - 1))]
        largest = x.max(axis=-1)
        total = np.exp(x - largest[..., None]).sum(axis=-1)
        with np.errstate(all="ignore"):
            agree(
                f"s, for scores of {size}," if size else "s",
                log_sum_exp(x),
                largest + np.log(total),
                mistakes={
                    "the largest score was subtracted inside; add it again": np.log(total),
                    "the largest score is subtracted a second time; add it instead": np.log(total) - largest,
                    "this is total: take its logarithm": total,
                    "the largest score is added inside the logarithm; log(e^-m a) = log(a) - m": np.log(
                        total + largest
                    ),
                    "the logarithm is multiplied by the largest score; the logarithm of a product is a sum": largest
                    * np.log(total),
                    "exp of a large score overflows, or gives 0, before the logarithm is taken: take the logarithm of "
                    "total first": np.log(np.exp(x).sum(axis=-1)),
                },
            )


def cross_entropy_backward(backward: Callable[..., Any]) -> None:
    """Check the gradient of the logits, from the targets."""
    for logits, targets in draw(55):
        _cross_entropy_gradient(backward, logits, targets)


def _cross_entropy_gradient(backward: Callable[..., Any], logits: np.ndarray, targets: np.ndarray) -> None:
    N, V = logits.shape
    p, t = softmax(logits), one_hot(targets, V)
    columns = p.copy()
    columns[:, targets] -= 1
    check_gradients(
        lambda d_loss: backward(logits, targets, float(d_loss)),
        lambda logits: cross_entropy(logits, targets),
        {"logits": logits},
        sizes={"N": N, "V": V},
        mistakes=lambda d_loss: {
            "d_logits": {
                **_wrong_means(p - t, d_loss),
                "1 is not yet subtracted at each row's target: that is the derivative of -x_t": p * d_loss / N,
                "d_logits[:, targets] takes those columns in every row; d_logits[rows, targets] takes one entry of "
                "each row": columns * d_loss / N,
                "1 is subtracted after the division by N; subtract it before": (p / N - t) * d_loss,
                "1 is subtracted after the multiplication by d_loss; subtract it before": p * d_loss / N - t,
                "p_t is subtracted instead of 1, so the targets have no gradient": p * (1 - t) * d_loss / N,
            }
        },
    )


def _wrong_means(d_of_rows: np.ndarray, d_loss: Any) -> dict[str, np.ndarray]:
    """Return the gradient of the logits, with mistakes in the mean, from that of each row's own loss."""
    N, V = d_of_rows.shape
    return {
        "the loss is a mean over N rows, and the division by N is missing: every entry is N times too large": (
            d_of_rows * d_loss
        ),
        "this holds for d_loss = 1; multiply it by d_loss": d_of_rows / N,
        "the mean is over the N rows, not over all N * V entries": d_of_rows * d_loss / (N * V),
        "the mean is over the N rows, not over the V tokens": d_of_rows * d_loss / V,
    }


def smoothed_targets(wanted: Callable[..., Any]) -> None:
    """Check the wanted distribution, with and without smoothing."""
    for (logits, targets), epsilon in zip((*draw(56), *draw(56)), (0.3, 0.1, 0.0, 1.0), strict=True):
        V = logits.shape[1]
        t = one_hot(targets, V)
        q = (1 - epsilon) * t + epsilon / V
        agree(
            f"q, for epsilon = {epsilon}, n_tokens = {V},",
            wanted(targets, V, epsilon),
            q,
            mistakes={
                "its number of columns comes from the largest target; the vocabulary has n_tokens": q[
                    :, : targets.max() + 1
                ],
                "a row sums to less than 1: the target gets epsilon / V like the others, in addition to "
                "1 - epsilon": np.where(t == 1, 1 - epsilon, epsilon / V),
                "epsilon is spread over the V - 1 other tokens, which is another definition; here the target "
                "gets its share too": np.where(t == 1, 1 - epsilon, epsilon / (V - 1)),
                "a row sums to more than 1: the target keeps its whole 1": t + epsilon / V,
                "it is not smoothed: epsilon is not used": t,
                "every token gets epsilon; divide it among the V tokens": (1 - epsilon) * t + epsilon,
                "1 - epsilon is spread, and epsilon stays at the target: swap them": epsilon * t + (1 - epsilon) / V,
            },
        )


def cross_entropy_forward(loss: Callable[..., Any]) -> None:
    """Check the loss for smoothed and unsmoothed targets, and for logits up to 1e4."""
    rng = np.random.default_rng(59)
    small, wide, targets = rng.normal(size=(5, 4)), rng.normal(size=(3, 7)), np.array([2, 0, 3, 2, 1])
    random = rng.uniform(0.1, 1, size=wide.shape)
    large = 1e3 * wide + np.array([1e4, 0.0, -1e4])[:, None]
    for name, logits, q in (
        ("the loss", small, 0.7 * one_hot(targets, 4) + 0.3 / 4),
        ("the loss, for one target in each row,", small, one_hot(targets, 4)),
        ("the loss, for logits of 10000,", large, random / random.sum(axis=-1, keepdims=True)),
    ):
        with np.errstate(all="ignore"):
            agree(
                name,
                loss(logits, q),
                -(q * ops.log_softmax.forward(logits)[0]).sum(axis=-1).mean(),
                mistakes=_wrong_losses(logits, q),
            )


def _wrong_losses(logits: np.ndarray, q: np.ndarray) -> dict[str, np.ndarray]:
    """Return the loss with one mistake each."""
    log_p, p = np.asarray(ops.log_softmax.forward(logits)[0]), softmax(logits)
    shifted = logits - logits.max(axis=-1, keepdims=True)
    overflowed = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    rows = -(q * log_p).sum(axis=-1)

    def mean(products: np.ndarray) -> np.ndarray:
        return np.asarray(-products.sum(axis=-1).mean())

    wrong = {
        "these are the losses of the rows; return their mean": rows,
        "it is the sum over the rows; the loss is their mean": rows.sum(),
        "it is the mean over all N * V entries; sum over the tokens, then take the mean over the rows": rows.mean()
        / logits.shape[1],
        "the minus sign is missing": -rows.mean(),
        "the factor q_v is missing": mean(log_p),
        "the logarithm is missing: this is the sum of q_v p_v": mean(q * p),
        "p and q are swapped: the logarithm is that of p": mean(p * np.log(q)),
        "the softmax is missing: log p_v is x_v - s": mean(q * logits),
        "the softmax runs along the first axis; a row lies along the last one": mean(
            q * ops.log_softmax.forward(logits, axis=0)[0]
        ),
        "one log-sum-exp is taken of the whole array; each row has its own": mean(
            q * (logits - logits.max() - np.log(np.exp(logits - logits.max()).sum()))
        ),
        "the largest logit is subtracted, but not the logarithm of the sum": mean(q * shifted),
        "exp overflows, and inf / inf is NaN: subtract the largest logit of each row": mean(q * np.log(overflowed)),
        "p becomes 0, and log(0) is -inf: compute log p_v = x_v - s, without p": mean(q * np.log(p)),
    }
    for least in (
        1e-300,
        np.finfo(float).tiny,
        1e-20,
        1e-16,
        np.finfo(float).eps,
        1e-15,
        1e-12,
        1e-10,
        1e-9,
        1e-8,
        1e-7,
    ):
        words = f"p is raised to at least {least:.3g}; log p_v = x_v - s needs no such limit"
        wrong[words] = mean(q * np.log(np.maximum(p, least)))
        wrong[f"{least:.3g} is added to p, which changes small p; log p_v = x_v - s needs no such number"] = mean(
            q * np.log(p + least)
        )
    return wrong


def label_smoothing_backward(backward: Callable[..., Any]) -> None:
    """Check the gradient of the logits, for any distribution."""
    first, second = (logits for logits, _ in draw(57))
    targets, random = np.array([2, 0, 3, 2, 1]), np.random.default_rng(57).uniform(0.1, 1, size=second.shape)
    _any_distribution(backward, first, 0.7 * one_hot(targets, 4) + 0.3 / 4)
    _any_distribution(backward, second, random / random.sum(axis=-1, keepdims=True))


def _any_distribution(backward: Callable[..., Any], logits: np.ndarray, q: np.ndarray) -> None:
    N, V = logits.shape
    p = softmax(logits)

    def loss(logits: np.ndarray) -> np.ndarray:
        return np.asarray(-(q * ops.log_softmax.forward(logits)[0]).sum(axis=-1).mean())

    check_gradients(
        lambda d_loss: backward(logits, q, float(d_loss)),
        loss,
        {"logits": logits},
        sizes={"N": N, "V": V},
        mistakes=lambda d_loss: {
            "d_logits": {
                **_wrong_means(p - q, d_loss),
                "q is not yet subtracted: that is the derivative of -sum_v q_v x_v": p * d_loss / N,
                "this is the gradient of p; the logits are before the softmax": -q / p * d_loss / N,
                "s depends on every x_v, also where q_v is small: p is not multiplied by q": q * (p - 1) * d_loss / N,
                "1 is subtracted at the likeliest token of q; q is a distribution: subtract the whole of it": (
                    p - one_hot(q.argmax(axis=-1), V)
                )
                * d_loss
                / N,
                "a softmax is applied to q, which is already a distribution": (p - softmax(q)) * d_loss / N,
            }
        },
    )


def ignored_targets(backward: Callable[..., Any]) -> None:
    """Check the gradient of the logits where some targets, or all, are padding."""
    for logits, targets in draw(58):  # each has a 0 among its targets
        _ignoring_gradient(backward, logits, targets)
    with np.errstate(all="ignore"):
        found = backward(logits, np.zeros_like(targets), 1.5)
        agree("d_logits where every target is padding", found, np.zeros_like(logits))
    _ignoring_gradient(backward, logits, np.array([5, 1, 5]))


def _ignoring_gradient(backward: Callable[..., Any], logits: np.ndarray, targets: np.ndarray) -> None:
    N, V = logits.shape
    p, t = softmax(logits), one_hot(targets, V)
    counts = targets != 0
    n = int(counts.sum())
    keep = counts[:, None]
    check_gradients(
        lambda d_loss: backward(logits, targets, float(d_loss)),
        lambda logits: cross_entropy(logits, targets, ignore_index=0),
        {"logits": logits},
        mistakes=lambda d_loss: {
            "d_logits": {
                "it is divided by the number of all rows; padding must not count in the mean": (p - t)
                * keep
                * d_loss
                / N,
                "the rows of padding have a gradient; it should be 0": (p - t) * d_loss / n,
                "padding is treated like any other target: its rows should be 0 and not count": (p - t) * d_loss / N,
                "the loss is a mean over the rows that count; divide by their number": (p - t) * keep * d_loss,
                "this holds for d_loss = 1; multiply it by d_loss": (p - t) * keep / n,
                "the rows of padding are left out; keep them, with a gradient of 0": (p - t)[counts] * d_loss / n,
                "only the rows of padding have a gradient; it is the wrong way round": (p - t) * ~keep * d_loss / n,
                "the column of token 0 is 0; set the rows with target 0 to 0 instead": (p - t)
                * (np.arange(V) != 0)
                * d_loss
                / n,
            }
        },
    )
