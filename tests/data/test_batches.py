from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitransformer.data import END, PAD, START, ParallelBatches, pad, token_batches

SENTENCE = st.lists(st.integers(END + 1, 99), max_size=9)
PAIRS = st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=40)


def rng(seed=0):
    return np.random.default_rng(seed)


def many_pairs(n=500):
    draw = rng(5)
    # the first id numbers the pair, so that it can be found again
    return [
        (
            [10 + i, *draw.integers(3, 9, draw.integers(0, 12)).tolist()],
            draw.integers(3, 9, draw.integers(0, 12)).tolist(),
        )
        for i in range(n)
    ]


def same(one, other):
    return len(one) == len(other) and all(
        np.array_equal(a, b) for x, y in zip(one, other, strict=True) for a, b in zip(x, y, strict=True)
    )


@pytest.mark.parametrize(
    ("sequences", "padded"),
    [([[5, 6, 7], [], [8]], [[5, 6, 7], [0, 0, 0], [8, 0, 0]]), ([], np.zeros((0, 0))), ([[], []], np.zeros((2, 0)))],
)
def test_pad(sequences, padded):
    np.testing.assert_array_equal(pad(sequences), np.array(padded, dtype=np.int64), strict=True)


def test_pad_does_not_cut_off_fractions():
    with pytest.raises(TypeError):
        pad([[3, 4.5]])


@given(st.lists(st.integers(0, 20), max_size=60), st.integers(20, 60), st.integers(0, 9))
def test_each_sentence_is_in_one_batch_within_the_limit(lengths, tokens, seed):
    batches = token_batches(lengths, tokens, rng(seed))
    known = np.array(lengths, dtype=int)
    assert sorted(i for batch in batches for i in batch.tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert batch.dtype == np.int64
        assert batch.size > 0
        assert batch.size * known[batch].max() <= tokens
    # batches are as large as they may be: the next longer sentence would not fit in
    ordered = sorted(batches, key=lambda batch: (known[batch].max(), known[batch].min(), -batch.size))
    for batch, following in pairwise(ordered):
        assert known[batch].max() <= known[following].min()
        assert (batch.size + 1) * known[following].min() > tokens


def test_batches_depend_on_the_generator_alone():
    lengths = rng(1).integers(1, 15, 400)
    one, again, other = (token_batches(lengths, 128, rng(seed)) for seed in (3, 3, 4))
    assert [batch.tolist() for batch in one] == [batch.tolist() for batch in again]
    assert [batch.tolist() for batch in one] != [batch.tolist() for batch in other]
    # both the company and the order change
    assert {tuple(sorted(batch)) for batch in one} != {tuple(sorted(batch)) for batch in other}
    longest = [lengths[batch].max() for batch in one]
    assert longest != sorted(longest)


def test_a_sentence_that_cannot_fit_is_refused():
    with pytest.raises(ValueError, match=r"sentence 1 has 9 tokens.* 8 at most \(too long: 2 of 3"):
        token_batches([3, 9, 10], 8, rng())
    assert [batch.tolist() for batch in token_batches([8], 8, rng())] == [[0]]
    with pytest.raises(ValueError, match="length -1"):
        token_batches([3, -1], 8, rng())


def test_a_pair_is_framed():
    (batch,) = ParallelBatches([([5, 6], [7, 8, 9])], 16, seed=0).epoch(0)
    assert batch.source.tolist() == [[5, 6, END]]
    assert batch.target_input.tolist() == [[START, 7, 8, 9]]
    assert batch.target_output.tolist() == [[7, 8, 9, END]]


@given(PAIRS, st.integers(10, 80), st.integers(0, 5))
def test_an_epoch_holds_every_pair_once(pairs, tokens, number):
    batches = ParallelBatches(pairs, tokens, seed=1)
    epoch = list(batches.epoch(number))
    assert len(epoch) == batches.batches_per_epoch
    seen = []
    for source, target_input, target_output in epoch:
        assert source.dtype == target_input.dtype == target_output.dtype == np.int64
        assert target_input.shape == target_output.shape
        assert source.size <= tokens
        assert target_output.size <= tokens
        # no column is padding only
        assert (source != PAD).any(axis=0).all()
        assert (target_output != PAD).any(axis=0).all()
        for row, given_row, said_row in zip(source, target_input, target_output, strict=True):
            source_ids, given_ids, said_ids = (ids[ids != PAD].tolist() for ids in (row, given_row, said_row))
            assert source_ids.pop() == END
            assert said_ids.pop() == END
            assert given_ids == [START, *said_ids]
            seen.append((source_ids, said_ids))
    assert sorted(seen) == sorted(pairs)


def test_an_epoch_depends_on_seed_and_number_alone():
    pairs = many_pairs()
    batches = ParallelBatches(pairs, 128, seed=7)
    third = list(batches.epoch(3))
    list(batches.epoch(0))
    assert same(third, list(batches.epoch(3)))
    assert same(third, list(ParallelBatches(pairs, 128, seed=7).epoch(3)))
    places = [(seed, number) for seed in range(4) for number in range(4)]
    epochs = [list(ParallelBatches(pairs, 128, seed).epoch(number)) for seed, number in places]
    assert not any(same(one, other) for one, other in combinations(epochs, 2))  # also not seed 1, 2 and seed 2, 1
    assert same(third[5:], list(batches.epoch(3, start=5)))
    assert {len(list(batches.epoch(number))) for number in range(4)} == {batches.batches_per_epoch}


def test_a_batch_may_be_written_to():
    batches = ParallelBatches(many_pairs(20), 64, seed=0)
    before = [tuple(array.copy() for array in batch) for batch in batches.epoch(0)]
    for batch in batches.epoch(0):
        for array in batch:
            array[:] = 77
    assert same(before, list(batches.epoch(0)))


def test_the_end_of_a_source_counts_only_where_it_follows_one():
    assert ParallelBatches([([3, 4], [5])], 2, 0, source_end=False).batches_per_epoch == 1
    with pytest.raises(ValueError, match="sentence 0 has 3 tokens, but a batch may hold 2"):
        ParallelBatches([([3, 4], [5])], 2, 0)
