"""Greedy decoding, held against decoding without a cache, one sentence at a time."""

import numpy as np

import minitransformer as mt
from minitransformer.data import END, PAD, START, pad
from minitransformer.decoding import greedy


def slow_greedy(model, source, max_length):
    """Compute everything anew at each step."""
    model.eval()
    written = []
    with mt.no_grad():
        while len(written) < max_length:
            scores = model([source], [[START, *written]]).numpy()[0, -1]
            scores[[PAD, START]] = -np.inf
            token = int(scores.argmax())
            if token == END:
                break
            written.append(token)
    return written


def test_cached_and_batched_decoding_writes_what_slow_decoding_writes(model):
    rng = np.random.default_rng(0)
    sources = [[*rng.integers(3, 11, n), END] for n in (1, 7, 4, 2, 5, 3, 6, 1, 2, 8)]
    expected = [slow_greedy(model, source, 15) for source in sources]
    assert len({len(sentence) for sentence in expected}) > 1, "the test needs sentences that end at different steps"
    assert greedy(model, pad(sources), max_length=15) == expected


def test_the_model_decodes_without_dropout_and_keeps_its_mode(model):
    sources = pad([[3, 4, 5, END], [6, END]])
    model.train()
    first = greedy(model, sources, max_length=8)
    assert model.training
    assert greedy(model, sources, max_length=8) == first
    model.eval()
    assert greedy(model, sources, max_length=8) == first
    assert not model.training


def test_no_sentence_is_longer_than_the_source_plus_fifty(model):
    model.output.data[END] = 0  # its score is 0, and some other token's is above
    lengths = [len(sentence) for sentence in greedy(model, pad([[3, 4, END]]))]
    assert lengths == [53]


def test_a_sentence_has_the_same_limit_in_every_batch(model):
    model.output.data[END] = 0
    together = greedy(model, pad([[3, 4, END], [3, 4, 5, 6, 7, 8, END]]))
    assert [len(sentence) for sentence in together] == [53, 57]
    assert greedy(model, [[3, 4, END]]) == together[:1]
    assert greedy(model, [[3, 4, END]], max_length=0) == [[]]


def test_no_sentences_give_no_sentences(model):
    assert greedy(model, np.zeros((0, 3), dtype=np.int64)) == []
    assert greedy(model, []) == []


def test_padding_and_start_are_never_written(model, favour):
    sources = pad([[3, 4, 5, END], [6, END]])
    expected = greedy(model, sources, max_length=10)
    favour(model, PAD, 2000)
    favour(model, START, 1000)
    assert any(expected)
    assert greedy(model, sources, max_length=10) == expected
