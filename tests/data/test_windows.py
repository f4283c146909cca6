"""The batches of one long text, its raw characters, and the trigram model."""

from collections import Counter

import numpy as np
import pytest

from minitransformer import data

IDS = np.arange(10, 10 + 39)


def rows_of(batches, number):
    return np.concatenate([batch.target_output for batch in batches.epoch(number)])


def test_a_model_reads_the_start_and_the_window_but_its_last_token():
    batches = data.WindowBatches(IDS, window=5, tokens=16, seed=0)
    for batch in batches.epoch(0):
        assert batch.inputs == (batch.target_input,)
        assert (batch.target_input[:, 0] == data.START).all()
        np.testing.assert_array_equal(batch.target_input[:, 1:], batch.target_output[:, :-1])
        assert batch.target_output.dtype == np.int64
        assert batch.target_output.size <= 16


@pytest.mark.parametrize(
    ("length", "windows", "firsts"), [(5, 1, 1), (6, 1, 2), (9, 1, 5), (10, 1, 6), (14, 2, 5), (37, 6, 8), (39, 7, 5)]
)
def test_the_windows_of_an_epoch_follow_each_other_and_begin_at_any_place(length, windows, firsts):
    batches = data.WindowBatches(IDS[:length], window=5, tokens=16, seed=0)
    found = set()
    for number in range(60):
        rows = rows_of(batches, number)
        assert len(list(batches.epoch(number))) == batches.batches_per_epoch
        ordered = rows[rows[:, 0].argsort()].flatten()
        np.testing.assert_array_equal(ordered, np.arange(ordered[0], ordered[0] + 5 * windows))
        found.add(int(ordered[0]) - 10)
    assert found == set(range(firsts))


def test_an_epoch_depends_on_its_number_and_the_seed_alone():
    first, same, other = (data.WindowBatches(IDS, 5, 16, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(rows_of(first, 7), rows_of(same, 7))
    assert (rows_of(first, 7) != rows_of(first, 8)).any()
    assert (rows_of(first, 7) != np.sort(rows_of(first, 7), axis=0)).any()  # the windows are shuffled
    assert (rows_of(first, 7) != rows_of(other, 7)).any()
    resumed = np.concatenate([batch.target_output for batch in first.epoch(7, 1)])
    np.testing.assert_array_equal(rows_of(first, 7)[3:], resumed)
    assert list(first.epoch(7, first.batches_per_epoch)) == []


# Characters as they are


def test_raw_characters_keep_every_character():
    text = "def f(x):\n\treturn  x\u2028e\u0301\r\n▁"
    tokeniser = data.RawCharacters.train([text])
    assert tokeniser.decode(tokeniser.encode(text)) == text
    again = data.tokeniser_from_json(tokeniser.to_json())
    assert again == tokeniser
    assert again.encode(text) == tokeniser.encode(text)


def test_rare_characters_are_unknown():
    tokeniser = data.RawCharacters.train(["aab", "b\n"], min_count=2)
    assert tokeniser.tokens[data.UNKNOWN + 1 :] == ("a", "b")
    assert tokeniser.encode("a\nb") == [data.UNKNOWN + 1, data.UNKNOWN, data.UNKNOWN + 2]
    assert tokeniser.encode("") == []


# The trigram model


def smoothed(text, vocab, before, token):
    """The same by counting, one probability at a time."""
    if len(before) > 2:
        before = before[-2:]
    lower = 1 / vocab if not before else smoothed(text, vocab, before[1:], token)
    if before == () and not text:
        return lower
    n = len(before)
    followers = Counter(text[i + n] for i in range(len(text) - n) if tuple(text[i : i + n]) == before)
    seen, kinds = sum(followers.values()), len(followers)
    own = (followers[token] + kinds * lower) / (seen + kinds) if seen else lower
    return own


# the last tokens of each vocabulary; two arrays of 50,257² entries would need 37 GiB, and three tokens of 2²¹ - 1 take
# almost all of 64 bits
@pytest.mark.parametrize("vocab", [8, 50_257, 2**21 - 1])
@pytest.mark.parametrize("length", [1, 2, 3, 9, 60])
def test_the_trigram_is_that_of_plain_counting(length, vocab):
    rng = np.random.default_rng(length)
    text, other = (rng.integers(low, 7, n) + vocab - 7 for low, n in ((1, length), (0, 20)))
    trigram = data.Trigram(text, vocab)
    found = trigram.probabilities(other)
    for i, token in enumerate(other):
        before = tuple(other[max(0, i - 2) : i].tolist())
        assert found[i] == pytest.approx(smoothed(text.tolist(), vocab, before, token), rel=1e-12)
        if vocab < 2**16 or i == 2:
            assert trigram.next(np.array(before, dtype=int))[token] == pytest.approx(found[i], rel=1e-12)


def test_the_probabilities_of_a_trigram_sum_to_1():
    trigram = data.Trigram(np.array([3, 4, 5, 3, 4, 4]), 7)
    for before in ([], [3], [6], [3, 4], [6, 6], [4, 5]):
        assert trigram.next(before).sum() == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("length", [0, 1, 2])
def test_a_trigram_of_a_short_text(length):
    trigram = data.Trigram(np.array([3, 4])[:length], 5)
    assert trigram.probabilities(np.array([3, 4, 3])).shape == (3,)
    assert trigram.next(np.array([3, 4])).sum() == pytest.approx(1)
    assert trigram.probabilities(np.array([], dtype=int)).shape == (0,)
