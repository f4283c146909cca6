"""Texts in, texts out: limits, and options that reach the search."""

import numpy as np
import pytest

from minitransformer.data import END, Vocabulary, Words
from minitransformer.decoding import (
    PAPER,
    Hypothesis,
    beam_search,
    check_sentence,
    hypotheses,
    texts,
    translate,
    translations,
)


@pytest.fixture
def tokens():
    return Words(Vocabulary(["<unk>", *"abcde"]))  # 9 tokens, as the model's target side has


@pytest.fixture
def learned(make_model):
    return make_model(positions="learned", max_length=60, scale=0.3)


def test_the_longest_sentence_is_one_that_fills_the_learned_positions(learned, tokens):
    fits = " ".join("a" * 59)
    assert len(check_sentence(learned, tokens, fits)) == 60
    assert len(translate(learned, tokens, tokens, [fits])) == 1
    with pytest.raises(ValueError, match="has 61 tokens, its end included, but this model has learned 60 positions"):
        check_sentence(learned, tokens, f"{fits} a")
    with pytest.raises(ValueError, match="has 61 tokens"):
        translate(learned, tokens, tokens, ["a", f"{fits} a"])


def test_without_learned_positions_no_sentence_is_too_long(model, tokens):
    assert check_sentence(model, tokens, "a b") == [4, 5, END]
    assert len(check_sentence(model, tokens, " ".join("a" * 700))) == 701


def test_nothing_is_written_beyond_the_learned_positions(learned, tokens, favour):
    favour(learned, END, -1e4)
    sources = ["a", " ".join("b" * 8), " ".join("c" * 9), " ".join("d" * 10)]
    found = [len(best.tokens) for (best,) in hypotheses(learned, tokens, sources, beam=2)]
    # 50 more than the source with its end, and never more than there are positions
    assert found == [52, 59, 60, 60]
    written = translate(learned, tokens, tokens, sources)
    assert [len(text.split()) for text in written] == [52, 59, 60, 60]
    for limit in (5, 70):  # of the rules
        rules = PAPER.changed(most_written=limit)
        for some in (translate(learned, tokens, tokens, sources, beam, rules=rules) for beam in (1, 2)):
            assert [len(text.split()) for text in some] == 4 * [min(limit, 60)]


def test_texts_are_searched_as_their_ids_are(model, tokens):
    sources = ["a b c", "d", "e e a"]
    ids = [[*tokens.encode(text), END] for text in sources]
    for options in ({"beam": 3}, {"beam": 3, "alpha": 2.0}, {"beam": 4, "alpha": 0.0, "n_best": 3}):
        found = hypotheses(model, tokens, sources, **options)
        expected = [beam_search(model, [sentence], **options)[0] for sentence in ids]
        assert [[h.tokens for h in several] for several in found] == [[h.tokens for h in few] for few in expected]
        np.testing.assert_allclose([h[0].score for h in found], [h[0].score for h in expected], rtol=1e-12)


def test_a_beam_may_be_wider_than_a_batch_and_a_text_empty(make_model, tokens):
    rules = PAPER.changed(most_written=2)
    for source_end in (True, False):
        model = make_model(source_end=source_end)
        assert check_sentence(model, tokens, "") == [END]
        for beam in (1, texts.SENTENCES + 1):
            assert len(hypotheses(model, tokens, ["a", ""], beam, rules=rules)) == 2


@pytest.mark.parametrize("most", [1, 4, None])
@pytest.mark.parametrize("beam", [1, 2])
def test_the_best_translation_is_the_first_hypothesis(model, tokens, favour, beam, most):
    """With its end or without: here the end is likely enough that some have one at the limit, and some have none."""
    sources = [" ".join("abcde"[(i * j) % 5] for j in range(1 + i % 4)) for i in range(12)]
    favour(model, END, 1.0)
    rules = PAPER if most is None else PAPER.changed(most_written=most)
    found = translations(model, tokens, sources, beam, rules=rules)
    expected = hypotheses(model, tokens, sources, beam, rules=rules)
    assert found == [(best.tokens, best.finished) for best, *_ in expected]
    if (beam, most) == (1, 4):
        assert {one.finished for one in found} == {True, False}


@pytest.mark.parametrize("beam", [1, 2, 3])
def test_the_width_of_the_beam_decides_and_every_option_reaches_the_search(model, tokens, monkeypatch, beam):
    asked, rules = [], PAPER.changed(alpha=0.9, penalty="length")

    def noted(name):
        def search(model, ids, **options):
            asked.append((name, options))
            return [[Hypothesis([], 0.0, 0.0, True)] if name == "beam" else []] * len(ids)

        return search

    def spread(function, items):
        asked.append("spread")
        return function(items)

    monkeypatch.setattr(texts, "greedy", noted("greedy"))
    monkeypatch.setattr(texts, "beam_search", noted("beam"))
    whole = {"beam": beam, "alpha": 0.25, "n_best": 1, "rules": rules}
    translate(model, tokens, tokens, ["a"], beam, 0.25, spread, rules)
    hypotheses(model, tokens, ["a"], beam, 0.25, 1, spread, rules)
    first = ("greedy", {"rules": rules}) if beam == 1 else ("beam", whole)
    assert asked == ["spread", first, "spread", ("beam", whole)]
