"""Data from a seed: the same again from the same one, other data from another; and what the fingerprint covers."""

from dataclasses import replace
from functools import cache
from hashlib import sha256

import pytest
from toml_cases import toml_table

from minitransformer.runs import Configuration
from minitransformer.tasks import build

DRAWN = {
    "copy": ("copy", {}),
    "reverse": ("reverse", {}),
    "dates": ("dates", {}),
    **{f"numbers-{to}": ("numbers", {"to": to}) for to in ("de", "fr", "ko")},
}
WORDS = {"source_tokens": "words", "target_tokens": "words", "share_vocabulary": False, "min_count": 1}


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.tsv"
    path.write_text("".join(f"s{n} x{n % 7}\tt{n} y{n % 5}\n" for n in range(200)))
    return path


@pytest.fixture
def dictionary(tmp_path):
    path = tmp_path / "words.dict"
    path.write_text("".join(f"W{chr(65 + n % 26)}{chr(65 + n // 26)}  W P{n}\n" for n in range(100)))
    return path


def corpus_of(task, seed=0, tokenisers=None, **changes):
    configuration = Configuration.of_task(task).changed(seed=seed, **changes)
    return task.corpus(configuration.data, configuration.seed, tokenisers)


@cache
def task_of(kind):
    name, options = DRAWN[kind]
    return build(name, **options)


def draw(kind, text, dictionary, seed):
    if kind == "text":
        return corpus_of(build("text"), seed, source=f"{text}", **WORDS)
    if kind == "pronunciation":
        return corpus_of(build("pronunciation"), seed, dictionary=f"{dictionary}", held_out=10, valid_pairs=10)
    return corpus_of(task_of(kind), seed, train_pairs=30, held_out=20, valid_pairs=10)


@pytest.mark.parametrize("kind", [*DRAWN, "text", "pronunciation"])
def test_one_seed_gives_one_corpus_and_another_seed_another(kind, text, dictionary):
    first, same, other = (draw(kind, text, dictionary, seed) for seed in (3, 3, 4))
    for part in ("train", "ids", "valid", "held_out"):
        assert getattr(first, part) == getattr(same, part), part
        assert getattr(first, part) != getattr(other, part), part
    assert first.fingerprint() == same.fingerprint() != other.fingerprint()
    assert first.source == same.source


@pytest.mark.parametrize("part", ["ids", "valid"])
def test_the_fingerprint_covers_all_that_training_and_measuring_see(part, text, dictionary):
    corpus = draw("text", text, dictionary, 0)
    pairs = getattr(corpus, part)
    for changed in (pairs[1:], pairs[::-1], [(pairs[0][0], pairs[1][1]), *pairs[1:]]):
        assert replace(corpus, **{part: changed}).fingerprint() != corpus.fingerprint()


@pytest.mark.parametrize("kind", ["words", "chars", "bpe", "merges"])
def test_tokenisers_are_learned_from_what_is_trained_on_alone(tmp_path, kind):
    """Nothing of what is held out, and nothing that train_pairs leaves out, is in a vocabulary."""
    for package in {"bpe": ["sentencepiece"], "merges": ["subword_nmt.apply_bpe"]}.get(kind, []):
        pytest.importorskip(package)
    (tmp_path / "train.tsv").write_text("ab ba\tcd dc\n" * 20 + "éé éé\tøø øø\n" * 20)
    (tmp_path / "valid.tsv").write_text("ab ßß\tdc ññ\n" * 20)
    changes = {"source_tokens": kind, "target_tokens": kind, "vocabulary": 16 if kind != "merges" else 4}
    files = {"source": f"{tmp_path}/train.tsv", "valid_source": f"{tmp_path}/valid.tsv"}
    corpus = corpus_of(build("text"), **files, **changes, train_pairs=20)
    for tokeniser in (corpus.source, corpus.target):
        assert not set("".join(tokeniser.tokens)) & set("éøßñ")
        assert set("".join(tokeniser.tokens)) >= set("abcd")


@pytest.mark.parametrize("kind", ["text", "pronunciation"])
def test_a_file_that_changes_has_another_checksum(kind, text, dictionary):
    path = text if kind == "text" else dictionary
    before = draw(kind, text, dictionary, 0).files
    assert before.keys() == {f"{path}"}
    assert draw(kind, text, dictionary, 0).files == before
    path.write_text(path.read_text().replace("1", "2"))
    assert draw(kind, text, dictionary, 0).files[f"{path}"] != before[f"{path}"]


def test_the_example_is_a_sentence_that_can_be_drawn(tmp_path, text):
    (tmp_path / "v.tsv").write_text(f"{'x1 ' * 40}\ty\n{'x2 ' * 30}\ty\nx3\ty\n")
    found = corpus_of(build("text"), source=f"{text}", valid_source=f"{tmp_path}/v.tsv", **WORDS)
    assert found.example == " ".join(["x2"] * 30)
    (tmp_path / "v.tsv").write_text(f"{'x1 ' * 40}\ty\n{'x2 ' * 50}\ty\n")
    found = corpus_of(build("text"), source=f"{text}", valid_source=f"{tmp_path}/v.tsv", **WORDS)
    assert found.example == " ".join(["x1"] * 40)  # all are too long, so the first is shown
    drawn = draw("copy", text, dictionary=None, seed=0)
    assert drawn.valid == drawn.held_out[:10]


def test_every_pronunciation_of_a_word_is_trained_on(tmp_path):
    path = tmp_path / "several.dict"
    path.write_text("".join(f"W{chr(65 + n)}  A P{n}\nW{chr(65 + n)}(2)  B P{n}\n" for n in range(20)))
    found = corpus_of(build("pronunciation"), dictionary=f"{path}", held_out=3, valid_pairs=3)
    assert [len(part) for part in (found.train, found.valid, found.held_out)] == [28, 6, 6]


@pytest.mark.parametrize(("kind", "digest"), toml_table(__file__, "DIGESTS").items())
def test_a_seed_draws_what_it_drew_in_earlier_versions(kind, digest, text, dictionary):
    """Otherwise no run of theirs could be resumed: all parts are drawn in turn, from one generator."""
    corpus = draw(kind, text, dictionary, 3)
    parts = repr([corpus.train, corpus.valid, corpus.held_out])
    assert sha256(parts.encode()).hexdigest()[:12] == digest
