import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitransformer.data import END, PAD, START, UnknownTokenError, Vocabulary

SMALL = Vocabulary(["ein", "und", "zwanzig"])


@given(st.data())
def test_decoding_undoes_encoding(data):
    tokens = data.draw(st.lists(st.text("<aä>두", min_size=1, max_size=3), unique=True, min_size=1, max_size=20))
    vocabulary = Vocabulary(tokens)
    text = data.draw(st.lists(st.sampled_from(tokens), max_size=20))
    ids = vocabulary.encode(text)
    assert vocabulary.decode(ids) == text
    assert vocabulary.decode([START, *ids, END, PAD, PAD]) == text


def test_unknown_tokens_are_each_named_once():
    with pytest.raises(UnknownTokenError) as caught:
        SMALL.encode(["ein", "hund", "x", "hund", "<end>"])
    message = str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert message.count("'hund'") == 1
    assert message.count("'x'") == 1
    assert "'hund' (is 'und' meant?) at position 2, 'x' at position 3" in message
    # a text can never end a sentence by itself
    assert message.count("'<end>'") == 1
    assert "'zwanzig'" in message


@pytest.mark.parametrize("n", [10, 11, 3000])
def test_a_few_of_many_unknown_tokens_are_named(n):
    with pytest.raises(UnknownTokenError) as caught:
        Vocabulary([chr(0x4E00 + i) for i in range(3000)]).encode([str(i) for i in range(n)])
    message = str(caught.value)
    assert (message.count("at position"), message.count("'"), len(message) < 900) == (10, 100, True)
    assert ("others" in message) == (n > 10) == (f" {n - 10:,} others" in message)


def test_json_round_trip():
    written = json.loads(json.dumps(SMALL.to_json()))
    assert written == ["<pad>", "<start>", "<end>", "ein", "und", "zwanzig"]
    again = Vocabulary.from_json(written)
    assert again == SMALL
    assert hash(again) == hash(SMALL)
    assert again.encode(["und"]) == SMALL.encode(["und"])
    assert again != Vocabulary(["ein", "zwanzig", "und"])
