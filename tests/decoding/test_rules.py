"""The rules of a search that other programs have, held against a slow search with lists."""

import random
from functools import cache
from itertools import combinations, product

import numpy as np
import pytest
from option_values import values_of

import minitransformer as mt
from minitransformer import tracing
from minitransformer.data import END, PAD, START, pad
from minitransformer.decoding import PAPER, SearchOptions, beam_search, greedy, search
from minitransformer.options import OptionError
from minitransformer.runs import Configuration

SOURCES = [[3, 4, END], [7, END], [5, 5, 9, 3, END]]
MORE = 2
"""The tokens by which a target sentence may exceed its source here, so that each sentence has a limit of its own."""
NEAR = {"beam": 2, "alpha": 0.6, "most_written": 4, "least_written": 2}
VALUES = {"n_best": [1, 3], "max_length": [None, 3, 0]}
VALUES |= {name: values_of(SearchOptions, name, NEAR.get(name)) for name in SearchOptions.declarations()}
"""Two arguments of a search, and all its rules, by their declarations."""


def rules_of(values):
    return SearchOptions(**{name: value for name, value in values.items() if name in SearchOptions.declarations()})


def is_possible(values):
    try:
        return bool(rules_of(values))
    except OptionError:
        return False


def draw():
    """Return values of all rules, such that every two possible values of two rules occur together."""
    rng, found, seen = random.Random(0), [], set()
    for one, other in combinations(VALUES, 2):
        for pair in product(VALUES[one], VALUES[other]):
            given = dict(zip((one, other), pair, strict=True))
            if repr(given) in seen or not is_possible({"renormalise": True} | given):
                continue
            while not is_possible(values := {name: rng.choice(some) for name, some in VALUES.items()} | given):
                pass
            found.append(values)
            seen |= {repr({a: values[a], b: values[b]}) for a, b in combinations(VALUES, 2)}
    return found


DRAWN = draw()


def step(logits, n_written, last, rules):
    """Return the log-probabilities of the next token."""
    y = logits.copy()
    if rules.renormalise:
        y[[PAD, START, *(rules.forbidden or ())]] = -np.inf
    if n_written < rules.least_written:
        y[END] = -np.inf
    if rules.force_end and last:
        y = np.where(np.arange(len(y)) == END, 0, -np.inf)
    y = y - np.logaddexp.reduce(y)
    y[[PAD, START]] = -np.inf
    return y


def slow_search(logits, most, beam, alpha, n_best, rules):
    """Search with lists and without a cache: the best hypotheses as score, tokens and whether they have ended."""
    n_compared, live, found = n_best if rules.stop == "exact" else beam, [([], 0.0)], []

    def divisor(length):
        return ((5 + length) / 6) ** alpha if rules.penalty == "gnmt" else length**alpha

    if not most:
        return [(0.0, [], False)]
    for length in range(1, most + 1):
        last, continued = length == most, []
        for tokens, log_p in live:
            y = step(logits(tokens), length - 1, last, rules)
            continued += [([*tokens, token], log_p + y[token]) for token in range(len(y)) if y[token] > -np.inf]
        continued = sorted(continued, key=lambda one: -one[1])[: 2 * beam if rules.full_beam and beam > 1 else beam]
        ends = [tokens[-1] == END or (last and rules.limit_ends) for tokens, _ in continued]
        found += [
            (log_p / divisor(length), [token for token in tokens if token != END], tokens[-1] == END)
            for (tokens, log_p), ended in zip(continued[:beam], ends, strict=False)
            if ended
        ]
        found = sorted(found, key=lambda one: -one[0])[:n_compared]
        live = [one for one, ended in zip(continued, ends, strict=True) if not ended][:beam]
        enough = rules.stop != "exact" and len(found) == n_compared
        if enough and (rules.stop == "full" or not live or live[0][1] / divisor(length) <= found[-1][0]):
            break
    else:
        found += [(log_p / divisor(most), tokens, False) for tokens, log_p in live][: n_compared - len(found)]
    return found[:n_best]


def slow_greedy(logits, most, rules):
    tokens = []
    while len(tokens) < most:
        y = step(logits(tokens), len(tokens), len(tokens) + 1 == most, rules)
        if y.argmax() == END:
            break
        tokens.append(int(y.argmax()))
    return tokens


@pytest.mark.parametrize("seed", range(4))
def test_a_search_by_any_rules_finds_what_a_slow_one_finds(make_model, monkeypatch, seed):
    monkeypatch.setattr(search, "MORE_THAN_SOURCE", MORE)
    model = make_model(seed=seed, scale=0.25).eval()

    @cache
    def logits(source, *tokens):
        with mt.no_grad():
            return model([source], [[START, *tokens]]).numpy()[0, -1].astype(np.float64)

    for drawn in DRAWN[seed % 2 :: 2]:
        rules, max_length, beam, alpha = rules_of(drawn), drawn["max_length"], drawn["beam"], drawn["alpha"]
        n_best = min(drawn["n_best"], beam)
        limit = rules.most_written if max_length is None else max_length
        most = [len(source) + MORE if limit is None else limit for source in SOURCES]
        of = [lambda tokens, source=source: logits(tuple(source), *tokens) for source in SOURCES]
        wanted = [slow_search(f, n, beam, alpha, n_best, rules) for f, n in zip(of, most, strict=True)]
        found = beam_search(model, pad(SOURCES), beam, alpha, max_length, n_best, rules)
        assert [[(one.tokens, one.finished) for one in several] for several in found] == [
            [(tokens, finished) for _, tokens, finished in several] for several in wanted
        ], drawn
        for several, expected in zip(found, wanted, strict=True):
            np.testing.assert_allclose([one.score for one in several], [one[0] for one in expected], atol=1e-12)
        written = greedy(model, pad(SOURCES), max_length, rules)
        assert written == [slow_greedy(f, n, rules) for f, n in zip(of, most, strict=True)], drawn


@pytest.mark.parametrize("most", [None, 4, 200])
def test_a_beam_of_1_is_greedy_search_by_any_rules_and_within_the_learned_positions(make_model, favour, most):
    model, names = make_model(scale=0.25, positions="learned", max_length=6), ("stop", "penalty", "force_end")
    favour(model, END, 1)
    for full_beam, alpha, *values in product((False, True), (0.0, 0.6, 2.0), *(VALUES[name] for name in names)):
        rules = SearchOptions(
            most_written=most, full_beam=full_beam, alpha=alpha, **dict(zip(names, values, strict=True))
        )
        written = greedy(model, pad(SOURCES), rules=rules)
        found = beam_search(model, pad(SOURCES), 1, rules.alpha, rules=rules)
        assert [best.tokens for (best,) in found] == written, rules
        assert max(map(len, written)) == min(most or 6, 6) - rules.force_end
        tree = tracing.beam_tree(model, SOURCES[:1], 1, rules.alpha, rules=rules)
        assert tree.tokens(tree.winner) == written[0]
        assert [one.step for one in tree.nodes if "dropped" not in one.fate] == [*range(1 + tree.nodes[-1].step)]


def test_the_rules_of_the_paper_are_the_default(model):
    found = beam_search(model, pad(SOURCES), 3)
    assert found == beam_search(model, pad(SOURCES), 3, rules=PAPER)
    assert Configuration(task="copy").search == PAPER


def test_tokens_are_forbidden_only_where_their_probability_goes_to_others():
    with pytest.raises(OptionError, match="forbidden tokens need renormalise"):
        SearchOptions(forbidden=[3])
    with pytest.raises(OptionError, match="ids of 0 or more"):
        SearchOptions(forbidden=[-1], renormalise=True)
    assert SearchOptions(forbidden=[0], renormalise=True).forbidden == [0]
