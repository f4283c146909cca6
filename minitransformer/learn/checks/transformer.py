"""Chapter 8: the parts around attention, training and decoding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.data import END, PAD, START
from minitransformer.decoding.beam import length_penalty as penalty
from minitransformer.learn.checks.encoder_layer import encoder_layer_backward as encoder_layer_backward
from minitransformer.learn.checks.layers import dropout_backward as dropout_backward
from minitransformer.learn.checks.layers import dropout_forward as dropout_forward
from minitransformer.learn.checks.layers import embedding_scale as embedding_scale
from minitransformer.learn.checks.layers import feed_forward_backward as feed_forward_backward
from minitransformer.learn.checks.layers import xavier as xavier
from minitransformer.learn.checks.training import adam_step as adam_step
from minitransformer.learn.checks.training import warm_up as warm_up
from minitransformer.learn.verdict import Wrong, agree, check_gradients, refuse_unsolved, take


def sinusoidal_positions(positions: Callable[..., Any]) -> None:
    """Check the waves."""
    for length, d_model in ((5, 6), (40, 8)):
        pos, two_i = np.arange(length)[:, None], np.arange(0, d_model, 2)

        def waves(angle: np.ndarray) -> np.ndarray:
            return np.stack((np.sin(angle), np.cos(angle)), axis=-1).reshape(len(angle), -1)

        def powers(exponent: np.ndarray) -> np.ndarray:
            return np.asarray(10000.0**exponent)

        angle = pos / powers(two_i / d_model)
        agree(
            f"PE, for length = {length} and d_model = {d_model},",
            positions(length, d_model),
            ops.sinusoidal_positions(length, d_model),
            mistakes={
                "the sines fill the first half and the cosines the second; they alternate: even and odd features": (
                    np.concatenate((np.sin(angle), np.cos(angle)), axis=1)
                ),
                "sine and cosine are swapped: the even features are sines": np.stack(
                    (np.cos(angle), np.sin(angle)), axis=-1
                ).reshape(length, d_model),
                "the exponent is 4i/D: two_i is 2i already": waves(pos / powers(2 * two_i / d_model)),
                "the exponent is i/D: two_i is the 2i of the formula": waves(pos / powers(two_i / 2 / d_model)),
                "each feature has its own exponent; sine and cosine of a pair share one": np.where(
                    np.arange(d_model) % 2 == 0,
                    np.sin(pos / powers(np.arange(d_model) / d_model)),
                    np.cos(pos / powers(np.arange(d_model) / d_model)),
                ),
                "the position is multiplied by the power; divide by it": waves(pos * powers(two_i / d_model)),
                "the positions begin at 1; the first is 0": waves((pos + 1) / powers(two_i / d_model)),
            },
        )


def residual_connection(surrounded: Callable[..., Any]) -> None:
    """Check post-norm."""
    rng = np.random.default_rng(85)
    for shape in ((3, 5), (4, 2)):
        _post_norm(surrounded, rng.normal(size=shape), rng)


def _post_norm(surrounded: Callable[..., Any], x: np.ndarray, rng: np.random.Generator) -> None:
    D = x.shape[1]
    w, gain, bias = rng.normal(size=(D, D)), rng.normal(size=D), rng.normal(size=D)

    def norm(x: np.ndarray) -> np.ndarray:
        return np.asarray(ops.layer_norm.forward(x, gain, bias)[0])

    def sublayer(x: np.ndarray) -> np.ndarray:
        return np.asarray(np.tanh(x @ w))

    agree(
        "y",
        surrounded(x, sublayer, norm),
        norm(x + sublayer(x)),
        mistakes={
            "this is pre-norm; in the paper the norm comes last, after the addition": x + sublayer(norm(x)),
            "the shortcut is missing: add x to the sub-layer's output": norm(sublayer(x)),
            "the norm is missing": x + sublayer(x),
            "the norm is taken before the addition; add first": x + norm(sublayer(x)),
            "x is normalised instead of the sum": norm(x) + sublayer(x),
            "the sub-layer gets the norm of x; in post-norm it gets x itself": norm(x + sublayer(norm(x))),
            "the sub-layer is applied after the norm": sublayer(norm(x)),
        },
    )


def residual_backward(backward: Callable[..., Any]) -> None:
    """Check the gradient of x, which is used twice."""
    rng = np.random.default_rng(86)
    for shape in ((3, 5), (4, 3)):
        _residual_gradient(backward, rng.normal(size=shape), rng)


def _residual_gradient(backward: Callable[..., Any], x: np.ndarray, rng: np.random.Generator) -> None:
    D = x.shape[1]
    w, gain, bias = rng.normal(size=(D, D)), rng.normal(size=D), rng.normal(size=D)
    _, saved = ops.layer_norm.forward(x + np.tanh(x @ w), gain, bias)

    def norm_backward(d: np.ndarray) -> np.ndarray:
        refuse_unsolved(d)
        return np.asarray(ops.layer_norm.backward(saved, d)[0])

    def sublayer_backward(d: np.ndarray) -> np.ndarray:
        refuse_unsolved(d)
        return np.asarray((d * (1 - np.tanh(x @ w) ** 2)) @ w.T)

    def mistakes(d_y: np.ndarray) -> dict[str, dict[str, np.ndarray]]:
        d_s = norm_backward(d_y)
        return {
            "d_x": {
                "the shortcut is missing: x is also added unchanged": sublayer_backward(d_s),
                "the sub-layer is missing: only the shortcut is there": d_s,
                "the shortcut is inside the norm: it passes on d_s, not d_y": d_y + sublayer_backward(d_s),
                "the norm is skipped: both get d_s, not d_y": d_y + sublayer_backward(d_y),
                "the sub-layer gets d_y; it is inside the norm, so it gets d_s": d_s + sublayer_backward(d_y),
                "the order is wrong: the norm was last in the forward pass, so it is first here": norm_backward(
                    d_y + sublayer_backward(d_y)
                ),
                "the two gradients are multiplied; add them": d_s * sublayer_backward(d_s),
                "it is the mean of the two gradients; add them": (d_s + sublayer_backward(d_s)) / 2,
            }
        }

    check_gradients(
        lambda d_y: backward(d_y, norm_backward, sublayer_backward),
        lambda x: ops.layer_norm.forward(x + np.tanh(x @ w), gain, bias)[0],
        {"x": x},
        mistakes=mistakes,
    )


def shifted_targets(seen: Callable[..., Any]) -> None:
    """Check the decoder's input, wherever a token is wanted."""
    for wanted in ([[7, 4, 9, 5, END], [6, 8, END, PAD, PAD]], [[3, END, PAD, PAD], [5, 6, 3, END], [9, 4, END, PAD]]):
        _shifted(seen, np.array(wanted))


def _shifted(seen: Callable[..., Any], wanted: np.ndarray) -> None:
    start = np.full((len(wanted), 1), START)
    counts = wanted != PAD

    def blank(array: np.ndarray) -> np.ndarray:
        """Leave out what is seen where nothing is wanted: it does not matter."""
        return np.where(counts, array, PAD) if array.shape == counts.shape else array

    found = seen(wanted)
    refuse_unsolved(found)
    agree(
        "seen",
        found if found is None else blank(np.asarray(found)),
        blank(np.concatenate((start, wanted[:, :-1]), axis=1)),
        mistakes={
            "nothing is shifted: the decoder sees the token that it has to predict": blank(wanted),
            "it is shifted the other way: the decoder sees what comes after": blank(
                np.concatenate((wanted[:, 1:], np.full_like(start, PAD)), axis=1)
            ),
            "START takes the place of the first token; it comes before it": blank(
                np.concatenate((start, wanted[:, 1:]), axis=1)
            ),
            "the last column is still there: the last token is wanted, never seen": np.concatenate(
                (start, wanted), axis=1
            ),
            "START is missing: the first token is wanted, so something has to come before it": wanted[:, :-1],
            "the first column is padding; it should be START": blank(
                np.concatenate((np.full_like(start, PAD), wanted[:, :-1]), axis=1)
            ),
            "it is shifted the other way, and START comes last; it comes first": blank(
                np.concatenate((wanted[:, 1:], start), axis=1)
            ),
            "the last token is moved to the front; START should be there": blank(np.roll(wanted, 1, axis=1)),
        },
    )


def greedy_decoding(greedy: Callable[..., Any]) -> None:
    """Check sentences that end soon, at the limit, at once and never."""
    for sentence, max_length in (([5, 3, 6, 3], 9), ([4, 7], 3), ([], 6), ([5, 3, 6, 3, 4], 3)):
        _greedy_sentence(greedy, sentence, max_length)


def _greedy_sentence(greedy: Callable[..., Any], sentence: list[int], max_length: int) -> None:
    rng = np.random.default_rng(88)
    all_scores = rng.normal(size=(max_length + 1, 8))
    wanted = [*sentence, END, *[4] * max_length]  # for answers that continue after END
    for scores, token in zip(all_scores, wanted, strict=False):
        scores[token] = scores.max() + 1
        scores[PAD] = scores.min() - 1  # what the smallest score would give
    calls = 0

    def next_scores(tokens: Any) -> np.ndarray:
        nonlocal calls
        refuse_unsolved(list(tokens))
        if not len(tokens) or tokens[0] != START:
            raise Wrong(f"The model sees {list(tokens)}: its input should begin with START, {START}.")
        if len(tokens) - 1 != calls or list(tokens[1:]) != wanted[: len(tokens) - 1]:
            _refuse_path(list(tokens), [START, *wanted[:calls]])
        if calls == max_length:
            raise Wrong(f"The model is asked more than max_length = {max_length} times.")
        calls += 1
        return np.array(all_scores[calls - 1])

    found = greedy(next_scores, max_length)
    right = sentence[:max_length]
    refuse_unsolved(found)
    agree(
        "the sentence" if sentence else "the sentence, where END is the best token at once,",
        found,
        np.array(right, dtype=int),
        mistakes={
            f"it contains END, token {END}; check a token before you append it": np.array([*right, END]),
            "it contains START": np.array([START, *right]),
            "it contains START and END": np.array([START, *right, END]),
            f"it continues after END, token {END}": np.array(wanted[:max_length]),
            "it stops at once, whatever the token is": np.array(right[:1]),
            "its last token is missing": np.array(right[:-1]),
        },
    )


def _refuse_path(found: list[Any], expected: list[int]) -> None:
    if found[1:] and found[-1] == PAD:
        raise Wrong(f"The token with the lowest score is chosen: the model sees {found}, expected {expected}.")
    raise Wrong(f"The model sees {found}, expected {expected}: each step appends the token with the highest score.")


def beam_step(step: Callable[..., Any]) -> None:
    """Check the K best continuations, of four hypotheses and of one."""
    rng = np.random.default_rng(89)
    for width, vocabulary, beam in ((4, 7, 3), (1, 7, 4)):
        log_p = np.sort(rng.uniform(-3, -1, size=width))[::-1]
        next_log_p = np.asarray(ops.log_softmax.forward(2 * rng.normal(size=(width, vocabulary)))[0])
        totals = log_p[:, None] + next_log_p
        places = np.argsort(-totals, axis=None)
        best, worst = places[:beam], places[::-1][:beam]
        alone = np.argsort(-next_log_p, axis=None)[:beam]
        parents, tokens, kept = take(("parents", "tokens", "log-probabilities"), step(log_p, next_log_p, beam))
        rows, columns = np.divmod(best, vocabulary)
        agree(
            "parents",
            parents,
            rows,
            mistakes={
                "the lowest are kept; the best continuations have the highest log-probability": worst // vocabulary,
                "the worst comes first; put the best first": rows[::-1],
                "these are the tokens; the parents come first": columns,
                "these are places in the flattened array: the parent is the place divided by V, rounded down": best,
                "the place is divided by W; a row has V entries": best // width,
                "the log-probabilities of the hypotheses are not added: use totals": alone // vocabulary,
                "each hypothesis keeps its best one; keep the K best of all together": np.arange(width)[:beam],
            },
        )
        agree(
            "tokens",
            tokens,
            columns,
            mistakes={
                "these are places in the flattened array: the token is the remainder of the division by V": best,
                "the place is divided by W; a row has V entries": best % width,
                "the log-probabilities of the hypotheses are not added: use totals": alone % vocabulary,
                "these are the parents": rows,
            },
        )
        agree(
            "log-probabilities",
            kept,
            totals[rows, columns],
            mistakes={
                "these belong to the last tokens alone; add those of the hypotheses": next_log_p[rows, columns],
                "these belong to the hypotheses alone; add those of the tokens": log_p[rows],
                "these are probabilities; return their logarithms": np.exp(totals[rows, columns]),
            },
        )


def length_penalty(best: Callable[..., Any]) -> None:
    """Check the scores of sentences of several lengths, and which one wins."""
    five = np.array([-6.0, -3.5, -5.0, -3.2, -9.0]), np.array([9, 4, 12, 2, 7])
    three = np.array([-4.0, -9.0, -8.0]), np.array([3, 20, 15])
    for (log_p, length), alpha in ((five, 0.6), (five, 0.0), (five, 2.0), (three, 1.0)):
        lp = np.asarray(penalty(length, alpha))
        scores, winner = take(("scores", "best"), best(log_p, length, alpha))
        agree(
            f"scores, for alpha = {alpha},",
            scores,
            log_p / lp,
            mistakes={
                "log_p is multiplied by the penalty, or divided by its inverse; divide by it": log_p * lp,
                "it is divided by length^alpha; the penalty is ((5 + length) / 6)^alpha": log_p / length**alpha,
                "a bracket is missing: 5 + length comes first, then the division by 6": log_p
                / (5 + length / 6) ** alpha,
                "a bracket is missing: the power belongs to the whole fraction": log_p / ((5 + length) / 6**alpha),
                "alpha is a factor; it should be the power": log_p / ((5 + length) / 6 * (alpha or 1)),
                "the power is missing: this is alpha = 1": log_p / ((5 + length) / 6),
                "the penalty is subtracted; divide by it": log_p - lp,
            },
            inputs=f"log_p = {log_p}, length = {length}",
        )
        right = int(np.argmax(log_p / lp))
        refuse_unsolved(winner)
        if not isinstance(winner, int | np.integer) or isinstance(winner, bool):
            raise Wrong(f"best should be the number of a sentence, from 0 to {len(log_p) - 1}, found {winner!r}.")
        if winner == int(np.argmin(log_p / lp)):
            raise Wrong("best is the sentence with the lowest score; the best has the highest, the one nearest to 0.")
        if winner != right:
            raise Wrong(f"best is {winner}, but sentence {right} has the highest score: compare the scores, not log_p.")
