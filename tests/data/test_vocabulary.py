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


@pytest.mark.parametrize(
    ("n", "others"), [(1, ""), (9, ""), (10, ""), (11, ", ... and 1 others"), (3000, ", ... and 2,990 others")]
)
@pytest.mark.parametrize(("known", "more"), [(1, ""), (40, ""), (41, ", ...")])
def test_a_few_of_many_unknown_tokens_are_named(n, others, known, more):
    words = [chr(0x4E00 + i) for i in range(known)]
    with pytest.raises(UnknownTokenError) as caught:
        Vocabulary(words).encode([words[0], *(str(i) for i in range(n))])
    named = ", ".join(f"'{i}' at position {i + 2}" for i in range(min(n, 10)))
    assert str(caught.value) == (
        f"unknown token{'s' if n > 1 else ''} {named}{others}; use only the {known} tokens of the vocabulary: "
        f"{', '.join(map(repr, words[:40]))}{more}"
    )


def test_json_round_trip():
    written = json.loads(json.dumps(SMALL.to_json()))
    assert written == ["<pad>", "<start>", "<end>", "ein", "und", "zwanzig"]
    again = Vocabulary.from_json(written)
    assert again == SMALL
    assert hash(again) == hash(SMALL)
    assert again.encode(["und"]) == SMALL.encode(["und"])
    assert again != Vocabulary(["ein", "zwanzig", "und"])
