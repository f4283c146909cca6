"""Beam search, held against full forward passes, against a slow search and against all sentences that there are."""

from itertools import product

import numpy as np
import pytest
from toml_cases import cases_from_toml

import minitransformer as mt
from minitransformer.data import END, PAD, START, pad
from minitransformer.decoding import Diverged, beam, beam_search, greedy, length_penalty

WRITABLE = 3  # the first tokens are PAD, START and END; what follows are words
SOURCES = [[3, 4, END], [7, END], [5, 5, 9, 10, 3, END], [8, 6, 3, 4, END]]


def log_probabilities(model, source, *sentences):
    """Return the logarithms of the probabilities of each token at each place: one pass without a cache, (B, T, V).

    The sentences are of one length.
    """
    model.eval()
    with mt.no_grad():
        logits = model([source] * len(sentences), [[START, *tokens] for tokens in sentences]).numpy().astype(np.float64)
    return logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)


def log_probability(model, source, hypothesis):
    (y,) = log_probabilities(model, source, hypothesis.tokens)
    written = [*hypothesis.tokens, END][: len(hypothesis.tokens) + hypothesis.finished]
    return sum(y[i, token] for i, token in enumerate(written))


def tokens_of(found):
    return [[hypothesis.tokens for hypothesis in of_sentence] for of_sentence in found]


def count_steps(monkeypatch, model):
    calls, step = [], model.step

    def counted(tokens, *args, **options):
        calls.append(tokens.size)
        return step(tokens, *args, **options)

    monkeypatch.setattr(model, "step", counted)
    return calls


def test_the_length_penalty_is_that_of_its_source():
    assert length_penalty(7, 0.6) == pytest.approx(2**0.6)
    np.testing.assert_allclose(length_penalty(np.array([1, 7, 13]), 1), [1, 2, 3])
    np.testing.assert_array_equal(length_penalty(np.array([1, 7, 13]), 0), [1, 1, 1])


@pytest.mark.parametrize("alpha", [0, 0.6, 2])
@pytest.mark.parametrize("seed", range(4))
def test_scores_are_those_of_a_forward_pass_without_a_cache(make_model, seed, alpha):
    model = make_model(seed=seed, scale=0.3)
    found = beam_search(model, pad(SOURCES), 4, alpha, max_length=9, n_best=4)
    for source, hypotheses in zip(SOURCES, found, strict=True):
        assert len(hypotheses) == 4
        for hypothesis in hypotheses:
            expected = log_probability(model, source, hypothesis)
            assert hypothesis.log_probability == pytest.approx(expected, rel=1e-12)
            length = len(hypothesis.tokens) + hypothesis.finished
            assert hypothesis.score == pytest.approx(expected / ((5 + length) / 6) ** alpha, rel=1e-12)


def test_scores_in_single_precision(make_model):
    model = make_model(scale=0.3, dtype="float32")
    for source, (best,) in zip(SOURCES, beam_search(model, pad(SOURCES), max_length=9), strict=True):
        assert best.log_probability == pytest.approx(log_probability(model, source, best), rel=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_a_beam_as_wide_as_all_sentences_orders_them_all(make_model, seed):
    limit, model = 4, make_model(target_vocab=5, seed=seed, scale=0.3)
    whole = [*product(range(WRITABLE, 5), repeat=limit)]
    for source in SOURCES:
        log_p = {}
        for tokens, y in zip(whole, log_probabilities(model, source, *whole), strict=True):
            steps = [y[i, token] for i, token in enumerate(tokens)]
            log_p[*tokens, False] = sum(steps)
            # The beginnings of this sentence, each with an end behind it.
            log_p |= {(*tokens[:n], True): sum(steps[:n]) + y[n, END] for n in range(limit)}
        for alpha in (0, 0.6, 1, 2):
            score = {key: log_p[key] / ((4 + len(key) + key[-1]) / 6) ** alpha for key in log_p}
            ordered = sorted(score, key=lambda key, score=score: (not key[-1], -score[key]))
            (found,) = beam_search(model, [source], beam=64, alpha=alpha, max_length=limit, n_best=64)
            assert [(*h.tokens, h.finished) for h in found] == ordered, alpha
            np.testing.assert_allclose([h.score for h in found], [score[key] for key in ordered], rtol=1e-12)
            (best,) = beam_search(model, [source], beam=64, alpha=alpha, max_length=limit)[0]
            assert (*best.tokens, best.finished) == ordered[0], alpha


@pytest.mark.parametrize("alpha", [0, 0.6, 1, 2, 5])
@pytest.mark.parametrize("n_best", [1, 4])
def test_stopping_early_changes_nothing(make_model, monkeypatch, n_best, alpha):
    steps = {"early": 0, "late": 0}
    for seed in range(4):
        model = make_model(seed=seed, scale=0.25)
        calls = count_steps(monkeypatch, model)
        early = beam_search(model, pad(SOURCES), 4, alpha, max_length=20, n_best=n_best)
        steps["early"] += sum(calls)
        calls.clear()
        with monkeypatch.context() as patch:
            # As long as a hypothesis is live, hope for everything.
            patch.setattr(beam, "_attainable", lambda log_p, *_: np.where(log_p.max(axis=1) > -np.inf, 1, -np.inf))
            late = beam_search(model, pad(SOURCES), 4, alpha, max_length=20, n_best=n_best)
        steps["late"] += sum(calls)
        assert early == late or tokens_of(early) == tokens_of(late)
    assert steps["early"] < steps["late"] or alpha > 1  # a high reward for length is worth waiting for


def test_a_sentence_that_has_ended_leaves_the_batch(model, monkeypatch):
    rows = count_steps(monkeypatch, model)
    beam_search(model, pad(SOURCES), beam=3, max_length=30)
    assert rows[:2] == [4, 12]
    assert rows[1:] == sorted(rows[1:], reverse=True)
    assert rows[-1] < 12
    assert all(n % 3 == 0 for n in rows[1:])


def test_fewer_hypotheses_if_there_are_no_more(make_model, monkeypatch):
    model = make_model(target_vocab=4)  # one word
    (found,) = beam_search(model, [[3, END]], beam=9, alpha=0, max_length=3, n_best=9)
    assert sorted(h.tokens for h in found) == [[], [3], [3, 3], [3, 3, 3]]
    assert [h.finished for h in found] == [True, True, True, False]
    model = make_model(target_vocab=3)  # no word at all
    rows = count_steps(monkeypatch, model)
    assert tokens_of(beam_search(model, [[3, END], [4, END]], n_best=4)) == [[[]], [[]]]
    assert rows == [2]  # nothing is left to go on with


def test_of_equals_the_lower_id_and_the_earlier_hypothesis_come_first(make_model):
    model = make_model(target_vocab=6)
    model.output.data[...] = 0  # all tokens are equally probable
    # First END, 3 and 4 are kept; of their continuations [3, END], [3, 3] and [3, 4]; then [3, 3, END] and so on.
    (found,) = beam_search(model, [[3, END]], beam=3, alpha=0, max_length=3, n_best=3)
    assert [h.tokens for h in found] == [[], [3], [3, 3]]
    np.testing.assert_allclose([h.score for h in found], -np.log(6) * np.array([1, 2, 3]))
    assert greedy(model, [[3, END]]) == [[]]


def test_padding_and_start_are_never_written(model, favour):
    favour(model, PAD, 2000)
    favour(model, START, 1000)
    found = beam_search(model, pad(SOURCES), max_length=10, n_best=4)
    for hypotheses in found:
        for tokens, _, log_p, finished in hypotheses:
            assert all(token > END for token in tokens)
            # Their probability is not given to others: what is written is as improbable as the model says.
            assert log_p < -1900 * (len(tokens) + finished)
    assert tokens_of(beam_search(model, pad(SOURCES), beam=1)) == [[tokens] for tokens in greedy(model, pad(SOURCES))]


@pytest.mark.parametrize("search", [greedy, beam_search])
def test_the_model_decodes_without_dropout_and_keeps_its_mode(model, search):
    first = search(model.train(), pad(SOURCES), max_length=8)
    assert model.training
    assert search(model, pad(SOURCES), max_length=8) == first
    assert search(model.eval(), pad(SOURCES), max_length=8) == first
    assert not model.training


def test_scores_that_are_not_numbers_are_an_error(model):
    model.train()
    model.output.data[4] = np.nan
    for search in (beam_search, greedy):
        with pytest.raises(Diverged, match="diverged"):
            search(model, pad(SOURCES))
    assert model.training


@pytest.mark.parametrize("search", [greedy, beam_search])
def test_no_sentences_give_no_sentences(model, search):
    for nothing in (np.zeros((0, 3), dtype=np.int64), np.zeros((0, 0), dtype=np.int64), []):
        assert search(model, nothing) == []


@cases_from_toml
def test_what_is_wrong_is_refused_before_any_work(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        beam_search(None, **({"source_ids": [[3, END]]} | arguments))


def test_ids_are_whole_numbers(model):
    with pytest.raises(TypeError, match="ids must be whole numbers, found an array of float64"):
        beam_search(model, [[3.5, 2]])
