"""Pieces of sentencepiece with the ids of a separate vocabulary."""

import json

import pytest
from marian_folders import TEXTS, sentencepiece_model, tokens

from minitransformer.data import END, UNKNOWN, Pieces, Vocabulary, tokenisers_from_json, tokenisers_to_json

pytest.importorskip("sentencepiece")


@pytest.fixture
def pieces():
    return Pieces(sentencepiece_model(), Vocabulary(["<unk>", *tokens()[2:-1]]))


def test_a_text_comes_back(pieces):
    for text in TEXTS:
        ids = pieces.encode(text)
        assert pieces.decode([*ids, END, 5]) == text
        assert all(UNKNOWN < number < len(pieces) for number in ids)


def test_a_language_code_is_a_token(pieces):
    code = pieces.tokens.index(">>fra<<")
    assert pieces.encode(">>fra<< the dog") == [code, *pieces.encode("the dog")]
    assert pieces.encode(">>xyz<< the dog") == [UNKNOWN, *pieces.encode("the dog")]
    assert UNKNOWN in pieces.encode(">>fra the dog")  # > is no piece


def test_what_is_not_in_the_vocabulary_is_unknown(pieces):
    assert pieces.encode("a €")[-1] == UNKNOWN
    assert pieces.decode(pieces.encode("a € dog")) == "a <unk> dog"
    assert pieces.decode([UNKNOWN, UNKNOWN]) == "<unk> <unk>"
    smaller = Pieces(sentencepiece_model(), Vocabulary(["<unk>", *tokens()[2:8]]))
    assert UNKNOWN in smaller.encode(TEXTS[0])


def test_half_a_surrogate_pair_is_a_replacement_character(pieces):
    for text in ("a {}", ">>fra<< {}", "{}"):
        assert pieces.encode(text.format("\ud800")) == pieces.encode(text.format("\N{REPLACEMENT CHARACTER}"))


def test_both_sides_are_saved_and_read(pieces):
    value = json.loads(json.dumps(tokenisers_to_json(pieces, Pieces(sentencepiece_model(30), pieces.vocabulary))))
    source, target = tokenisers_from_json(value)
    assert source == pieces
    assert target != pieces
    assert source.encode(TEXTS[0]) == pieces.encode(TEXTS[0])


@pytest.mark.parametrize("change", [{"model": "é"}, {"model": ""}, {"model": "YWJj"}, {"tokens": ["a"]}, {"tokens": 3}])
def test_a_damaged_file_is_refused(pieces, change):
    with pytest.raises(ValueError, match=r"base64|ASCII|not a sentencepiece model|Vocabulary|tokens"):
        Pieces.from_json(pieces.to_json() | change)


def test_the_vocabulary_needs_an_unknown_token():
    with pytest.raises(ValueError, match="must be <unk>"):
        Pieces(sentencepiece_model(), Vocabulary(["a", "b"]))
