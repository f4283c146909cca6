"""The parts around attention; training: its targets, learning rate and Adam; decoding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitransformer import ops, optim
from minitransformer.apps.learn.comparing import check_backward, check_result
from minitransformer.apps.learn.solutions import mistaken, mistaken_parts, wrong_solutions
from minitransformer.apps.learn.verdict import Wrong, agree, as_array, refuse_unsolved, take
from minitransformer.autograd import Tensor
from minitransformer.data import END, PAD, START
from minitransformer.decoding import length_penalty as penalty


def sinusoidal_positions(positions: Callable[..., Any]) -> None:
    """Check the waves."""
    for length, d_model in ((5, 6), (40, 8)):
        name = f"PE, for length = {length} and d_model = {d_model},"
        expected = ops.sinusoidal_positions(length, d_model)
        check_result("sinusoidal-positions", name, positions, (length, d_model), expected)


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

    check_result("residual-connection", "y", surrounded, (x, sublayer, norm), norm(x + sublayer(x)))


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

    check_backward(
        "residual-backward",
        backward,
        lambda x: ops.layer_norm.forward(x + np.tanh(x @ w), gain, bias)[0],
        {"x": x},
        lambda d_y: (d_y, norm_backward, sublayer_backward),
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
        known = array.shape == counts.shape and array.dtype.kind in "fiu"
        return np.where(counts, array, PAD) if known else array

    found = seen(wanted)
    refuse_unsolved(found)
    agree(
        "seen",
        found if found is None else blank(as_array(found)),
        blank(np.concatenate((start, wanted[:, :-1]), axis=1)),
        mistakes={words: blank(other) for words, other in mistaken("shifted-targets", wanted).items()},
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
    agree(
        "the sentence" if sentence else "the sentence, where END is the best token at once,",
        found,
        np.array(right, dtype=int),
        mistakes=mistaken("greedy-decoding", lambda tokens: all_scores[len(tokens) - 1], max_length),
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
        parents, tokens, kept = take(("parents", "tokens", "log-probabilities"), step(log_p, next_log_p, beam))
        rows, columns = np.divmod(np.argsort(-totals, axis=None)[:beam], vocabulary)
        known = mistaken_parts("beam-step", ["parents", "tokens", "kept"], log_p, next_log_p, beam)
        agree("parents", parents, rows, mistakes=known["parents"])
        agree("tokens", tokens, columns, mistakes=known["tokens"])
        agree("log-probabilities", kept, totals[rows, columns], mistakes=known["kept"])


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
            mistakes=mistaken_parts("length-penalty", ["scores", "best"], log_p, length, alpha)["scores"],
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


Moments = tuple[np.ndarray, ...]


def warm_up(learning_rate: Callable[..., Any]) -> None:
    """Check the rate before, at and after the end of the warm-up."""
    steps = [1, 2, 50, 99, 100, 101, 400, 5000]
    for d, w in ((512, 100), (128, 400)):
        agree(
            f"lr, for d_model = {d} and warmup_steps = {w}, at the steps {', '.join(map(str, steps))},",
            [learning_rate(step, d, w) for step in steps],
            np.array([optim.warmup(step, d, w) for step in steps]),
            mistakes={words: [wrong(step, d, w) for step in steps] for words, wrong in wrong_solutions("warm-up")},
        )


def adam_step(step: Callable[..., Any]) -> None:
    """Check two steps against the optimiser; each begins where the optimiser was."""
    rng = np.random.default_rng(87)
    for size, beta1, beta2, eps, lr in ((5, 0.9, 0.98, 0.05, 0.3), (3, 0.8, 0.95, 0.1, 0.02)):
        parameter = Tensor(rng.normal(size=size), requires_grad=True)
        adam = optim.Adam([parameter], betas=(beta1, beta2), eps=eps)
        course = []
        for _ in range(3):
            before = parameter.numpy().copy(), rng.normal(size=size), adam.mean.copy(), adam.mean_square.copy()
            parameter.grad = before[1].copy()
            adam.step(lr)
            course.append((before, (parameter.numpy().copy(), adam.mean.copy(), adam.mean_square.copy())))
        for t in (3, 1):  # the third first: in the first some mistakes look alike, since m and v are 0
            _adam(step, course[t - 1], t, lr, beta1, beta2, eps)


def _adam(
    step: Callable[..., Any], done: tuple[Moments, Moments], t: int, lr: float, beta1: float, beta2: float, eps: float
) -> None:
    (theta, g, m, v), (moved, *both) = done
    names = ("theta", "m", "v")
    new_theta, new_m, new_v = take(names, step(theta, g, m, v, t, lr, beta1, beta2, eps), [x.shape for x in done[1]])
    known = mistaken_parts("adam-step", names, theta, g, m, v, t, lr, beta1, beta2, eps)
    for name, found, expected in zip(("m", "v", "theta"), (new_m, new_v, new_theta), (*both, moved), strict=True):
        agree(f"{name} at step {t}", found, expected, mistakes=known[name])
