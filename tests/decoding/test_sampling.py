"""Sampling: which tokens may be drawn, how often, and what the model reads beyond its window."""

import math
from itertools import islice

import numpy as np
import pytest
from toml_cases import cases_from_toml

import minitransformer as mt
from minitransformer.decoding import Diverged, SamplingOptions, draw, sample

LOGITS = np.log([0.5, 0.0625, 0.25, 0.125, 0.0625])
SIZES = {"d_model": 8, "n_heads": 2, "n_layers": 1, "d_ff": 8, "dtype": "float64"}


def probabilities(logits=LOGITS, **options):
    return SamplingOptions(**options).probabilities(np.asarray(logits))


def chance(counts, expected):
    """Return how often counts differ from what is expected as much as these, or more: the chi-square test of Pearson.

    For an even number of degrees of freedom, 2 m, the distribution has a closed form: the statistic exceeds x with
    probability e^(-x/2) times the sum of (x/2)^i / i! for i < m. The seeds are fixed, so a test passes always or never.
    """
    expected = np.asarray(expected) * np.sum(counts)
    possible = expected > 0
    assert (np.asarray(counts)[~possible] == 0).all()
    half = ((counts - expected)[possible] ** 2 / expected[possible]).sum() / 2
    m, odd = divmod(int(possible.sum()) - 1, 2)
    assert not odd
    return math.exp(-half) * sum(half**i / math.factorial(i) for i in range(m))


def counts_of(p, n=20_000, seed=1):
    return np.bincount(draw(np.broadcast_to(p, (n, len(p))), np.random.default_rng(seed).random(n)), minlength=len(p))


# What the options mean


ROWS = [LOGITS, np.log([0.0004, 0.6, 0.0996, 0.3]), np.array([1.0, 3.0, 3.0, -np.inf, 2.5]), np.zeros(6)]


def slow_probabilities(logits, temperature, top_k, top_p):
    """Return the probabilities by their definition, token by token: first the temperature, then top-k, then top-p."""
    ranked = sorted(range(len(logits)), key=lambda i: (-logits[i], i))
    weight = {i: math.exp((logits[i] - max(logits)) / temperature) if temperature else 0.0 for i in ranked}
    if not temperature:
        weight[ranked[0]] = 1.0
    kept = ranked[:top_k]
    if top_p not in (None, 1):
        total = math.fsum(weight[i] for i in kept)
        enough = (n for n in range(1, len(kept)) if math.fsum(weight[i] for i in kept[:n]) >= (top_p - 1e-12) * total)
        kept = kept[: next(enough, len(kept))]
    total = math.fsum(weight[i] for i in kept)
    return [weight[i] / total if i in kept else 0.0 for i in range(len(logits))]


@pytest.mark.parametrize("top_p", [None, 1e-300, 0.3, 0.5, 0.5000001, 0.8, 0.9999, 1])
@pytest.mark.parametrize("top_k", [None, 1, 2, 3, 99])
@pytest.mark.parametrize("temperature", [0, 1e-300, 0.1, 0.7, 1, 3.0, 1e6])
def test_all_three_options_together_do_what_a_slow_definition_does(temperature, top_k, top_p):
    for logits in ROWS:
        found = probabilities(logits, temperature=temperature, top_k=top_k, top_p=top_p)
        expected = slow_probabilities(logits.tolist(), temperature, top_k, top_p)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@cases_from_toml
def test_top_p_keeps_the_smallest_set_whose_mass_reaches_p(p, kept):
    found = probabilities(top_p=p)
    assert np.flatnonzero(found).tolist() == kept
    np.testing.assert_allclose(found[kept], np.exp(LOGITS[kept]) / np.exp(LOGITS[kept]).sum(), rtol=1e-12)


def test_top_p_is_not_deceived_by_rounding():
    # 0.7 + 0.2 is 0.8999999999999999
    assert np.flatnonzero(probabilities(np.log([0.1, 0.7, 0.2]), top_p=0.9)).tolist() == [1, 2]
    equal = np.zeros(10)
    for n in range(1, 11):
        assert np.flatnonzero(probabilities(equal, top_p=n / 10)).tolist() == list(range(n))


def test_rows_do_not_depend_on_each_other():
    logits = np.random.default_rng(0).normal(size=(2, 3, 6))
    options = {"temperature": 0.7, "top_k": 4, "top_p": 0.8}
    together = probabilities(logits, **options)
    for i, j in np.ndindex(2, 3):
        np.testing.assert_array_equal(together[i, j], probabilities(logits[i, j], **options))


# How often tokens are drawn


@pytest.mark.parametrize(
    "options", [{}, {"temperature": 0.6}, {"temperature": 2.5}, {"top_k": 3}, {"top_p": 0.8}], ids=str
)
def test_tokens_are_drawn_as_often_as_they_should(options):
    expected = np.exp(LOGITS / options.get("temperature", 1.0))
    expected[np.flatnonzero([0, 1, 0, 0, 1] if {"top_k", "top_p"} & options.keys() else [0] * 5)] = 0
    assert chance(counts_of(probabilities(**options)), expected / expected.sum()) > 0.01


@pytest.mark.parametrize("wrong", [{"temperature": 1.1}, {"temperature": 0.9}, {"top_k": 4}], ids=str)
def test_the_statistic_notices_a_wrong_distribution(wrong):
    drawn = counts_of(probabilities(**wrong))
    assert chance(drawn, np.exp(LOGITS)) < 1e-6


@pytest.mark.parametrize("p", [[0.1] * 10 + [0.0], [0.0, 0.3, 0.3, 0.4, 0.0, 0.0], [0.0, 1.0, 0.0]], ids=len)
def test_the_extreme_random_numbers_draw_the_first_and_the_last_possible_token(p):
    possible = np.flatnonzero(p)
    assert draw(np.array([p]), np.zeros(1)).tolist() == [possible[0]]
    assert draw(np.array([p]), np.nextafter(np.ones(1), 0)).tolist() == [possible[-1]]


def test_the_first_token_follows_the_models_probabilities():
    model = mt.nn.LanguageModel(9, **SIZES).eval()
    logits = model([[1, 5, 3]]).numpy()[0, -1]
    logits[[0, 1, 2, 8]] = -np.inf
    expected = np.exp(logits) / np.exp(logits).sum()
    tokens = next(sample(model, [[5, 3]] * 20_000, 8, rng=np.random.default_rng(2), forbidden=[8]))
    assert chance(np.bincount(tokens, minlength=9), expected) > 0.01


# The text


@pytest.mark.parametrize("window", [2, 6])
@pytest.mark.parametrize("starts", [True, False])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "alibi"])
def test_beyond_the_window_the_model_reads_its_last_half_again(positions, starts, window):
    """A prompt may be longer than the window, too, of which the start token is a part."""
    model = mt.nn.LanguageModel(9, **SIZES, positions=positions, max_length=6, start_token=starts).eval()
    start = [1] * starts

    def read_again(whole):
        fits = len(start) + len(whole) <= window
        return start + whole[0 if fits else len(whole) - window // 2 :] or [1]

    for length in range(9):
        prompts = np.random.default_rng(length).integers(3, 9, (2, length))
        written = np.stack(list(islice(sample(model, prompts, window, SamplingOptions(temperature=0)), 12)), axis=1)
        for text, whole in zip(written.tolist(), prompts.tolist(), strict=True):
            read = read_again(whole)
            for token in text:
                scores = model([read]).numpy()[0, -1]
                scores[:3] = -np.inf
                assert token == scores.argmax()
                whole.append(token)
                read = [*read, token] if len(read) < window else read_again(whole)


def test_the_seed_determines_the_text():
    model = mt.nn.LanguageModel(9, **SIZES).eval()

    def text(seed):
        rng = np.random.default_rng(seed)
        return [tokens.tolist() for tokens in islice(sample(model, [[3]], 8, rng=rng), 20)]

    assert text(1) == text(1) != text(2)
    assert text(0) == [tokens.tolist() for tokens in islice(sample(model, [[3]], 8), 20)]


def test_padding_start_end_and_what_is_forbidden_are_never_written():
    model = mt.nn.LanguageModel(7, **SIZES).eval()
    hot = SamplingOptions(temperature=1e6)
    tokens = np.stack(list(islice(sample(model, np.zeros((200, 0), int), 8, hot, forbidden=[3, 5]), 20)))
    assert set(tokens.flatten().tolist()) == {4, 6}


def test_a_text_ends_at_an_end_whatever_the_others_do():
    model, hot = mt.nn.LanguageModel(7, **SIZES).eval(), SamplingOptions(temperature=1e6)
    written = np.stack(list(sample(model, np.zeros((200, 0), int), 8, hot, ends=[2, 5])), axis=1).tolist()
    lengths = [next(place for place, token in enumerate(text, 1) if token in (2, 5)) for text in written]
    assert max(lengths) == len(written[0])
    for text, n in zip(written, lengths, strict=True):
        assert set(text[: n - 1]) <= {3, 4, 6}
        assert set(text[n:]) <= {0}
    endless = islice(sample(model, np.zeros((200, 0), int), 8, hot.changed(stop=False), ends=[2, 5]), 20)
    assert set(np.stack(list(endless)).flatten().tolist()) == {3, 4, 6}


def test_sampling_uses_no_dropout():
    model = mt.nn.LanguageModel(9, **SIZES, dropout=0.5)
    greedily = SamplingOptions(temperature=0)
    once, again = ([t.tolist() for t in islice(sample(model, [[3]], 8, greedily), 9)] for _ in range(2))
    assert once == again


@pytest.mark.parametrize("logits", [[np.nan, 0.0], [np.inf, 0.0], [-np.inf, -np.inf]])
def test_scores_that_are_not_numbers_are_refused(logits):
    with pytest.raises(Diverged, match="not numbers"):
        probabilities(logits)
