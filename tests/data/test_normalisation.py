"""A model of sentencepiece that is handed to other programs reads a text as the run did."""

import sys
import unicodedata
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitransformer.data import Bpe, normalise_text

sentencepiece = pytest.importorskip("sentencepiece")

TEXT = [
    "le chat est très âgé, où ça naïf ; Tiếng Việt ạ ớ ữ ỗ ẵ; ọ́jọ́ ẹ̀kọ́ ń; ᾂ ῶ ΐ",
    "שָׁלוֹם בְּרֵאשִׁית; مُحَمَّدٌ شُكْرًا; 한국어 각 가; हिन्दी क़",
]
EVERY = [chr(i) for i in range(1, sys.maxunicode + 1) if not 0xD800 <= i < 0xE000]
KNOWN = sorted({*normalise_text(" ".join(TEXT))})
MARKS = sorted({one for known in KNOWN for one in unicodedata.normalize("NFD", known) if unicodedata.combining(one)})
LETTERS = sorted({unicodedata.normalize("NFD", one)[0] for one in KNOWN} - set(MARKS))
SPACES = [one for one in EVERY if one.isspace()]


@pytest.fixture(scope="module")
def both():
    model = Bpe.train(TEXT, size=400)
    return model, sentencepiece.SentencePieceProcessor(model_proto=model.normalising_model())


def test_every_character(both):
    ours, theirs = both
    for text in (f"a{one}b{one} {one}" for one in EVERY):
        assert theirs.normalize(text) == f"▁{normalise_text(text)}".replace(" ", "▁"), ascii(text)
    for one in (*SPACES, *"é\u0301\u1100\u212b\u2581\0"):
        assert theirs.encode(f"le{one}chat {one}") == ours.encode(f"le{one}chat {one}")


def test_every_letter_in_pieces(both):
    """Those of Unicode's own decompositions, with the first or the last piece composed."""
    _, theirs = both
    for one in EVERY:
        pieces = unicodedata.normalize("NFD", one)
        for i in range(0 if pieces == one or one.isspace() else len(pieces)):
            text = unicodedata.normalize("NFC", pieces[:i]) + pieces[i:]
            assert theirs.normalize(text) == f"▁{unicodedata.normalize('NFC', one)}", ascii(text)


def test_known_letters_with_two_known_marks(both):
    _, theirs = both
    for letter, (one, other) in product([*LETTERS, *SPACES], product(MARKS, repeat=2)):
        for text in (letter + one + other, unicodedata.normalize("NFC", letter + one) + other, f" {one}{other}"):
            assert theirs.normalize(f"b{text}") == f"▁{normalise_text(f'b{text}')}".replace(" ", "▁"), ascii(text)


@given(st.lists(st.sampled_from([*TEXT[0], *TEXT[1], *SPACES]) | st.characters(exclude_categories=["Cs", "Mn", "Mc"])))
def test_any_text(both, characters):
    ours, theirs = both
    text = "".join(characters)
    for form in ("NFC", "NFD"):
        assert theirs.encode(unicodedata.normalize(form, text)) == ours.encode(text)


def test_a_model_with_rules_of_its_own_keeps_them(tmp_path):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c"]), model_prefix=f"{tmp_path / 'own'}", vocab_size=9, hard_vocab_limit=False,
        pad_id=0, bos_id=1, eos_id=2, unk_id=3, model_type="bpe", minloglevel=2,
    )  # fmt: skip
    model = (tmp_path / "own.model").read_bytes()
    assert Bpe(model).normalising_model() == model
