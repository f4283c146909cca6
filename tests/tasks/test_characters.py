"""The task of writing text: which files are read, what is held out, and what is refused."""

import os
import platform
import re
import sysconfig
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toml_cases import cases_from_toml

from minitransformer.files import FileError
from minitransformer.options import OptionError
from minitransformer.runs import Configuration
from minitransformer.tasks import build, characters

TASK = build("characters")


def corpus(paths, seed=0, tokenisers=None, **options):
    configuration = Configuration.of_task(TASK, text=paths, **{"window": 4, "min_count": 1} | options)
    return TASK.corpus(configuration.data, seed, tokenisers)


@pytest.fixture
def files(tmp_path):
    paths = []
    for i in range(8):
        paths.append(tmp_path / f"{i}.txt")
        paths[-1].write_text(f"file {i}\n" + f"{chr(97 + i)} = {i}\n" * 5)
    return paths


def test_whole_files_are_held_out(files):
    found = corpus(files)
    texts = [path.read_text() for path in files]
    assert found.held_out in texts
    assert found.held_out not in found.train
    assert len(found.train) == sum(map(len, texts)) - len(found.held_out)
    assert found.target.decode(found.ids.tolist()) == found.train
    for n in (5, 20_000):
        assert corpus(files, valid_characters=n).valid == found.held_out[:n]
    assert found.files.keys() == {str(path) for path in files}
    assert len({corpus(files, seed=seed).held_out for seed in range(20)}) > 4
    assert found.source is found.target
    assert found.shared


@pytest.mark.parametrize("seed", range(200))
def test_as_many_files_are_held_out_as_are_asked_for_up_to_a_twentieth(seed):
    rng = np.random.default_rng(seed)
    texts = [chr(200 + i) * n for i, n in enumerate(rng.integers(1, 4, rng.integers(1, 90)).tolist())]
    asked, most = int(rng.integers(1, 10)), sum(map(len, texts)) // 20
    held_out, train = characters._hold_out(texts, asked, rng)
    if len(texts) == 1:
        cut = len(texts[0]) - max(1, min(asked, most))
        assert (train, held_out) == (texts[0][:cut], texts[0][cut:])
        return
    held, trained = ([len(texts[ord(letter) - 200]) for letter in dict.fromkeys(part)] for part in (held_out, train))
    assert len(held) + len(trained) == len(texts)
    assert len(held_out) == min(asked, sum(held))
    assert sum(held) >= asked or sum(held) + trained[0] > most  # no other file is needed, or fits
    for n in range(1, len(held)):
        assert sum(held[:n]) < asked
        assert sum(held[: n + 1]) <= most


def test_the_notes_count_what_is_read_learned_and_held_out(files, monkeypatch):
    """One of the files is given twice; by default what is rare depends on the text that is trained on."""
    found = corpus([*files, files[2]], characters=150, held_out_characters=20)
    read = sum(len(path.read_text()) for path in files)
    counts = [[int(number) for number in re.findall(r"\d+", note)] for note in found.notes]
    assert counts == [[read, 8, 150, 20], [4 + len({*found.train}), 1]]
    monkeypatch.setattr(characters, "RARE", 10)
    for n, rare in ((50, 5), (9, 2)):
        some = corpus(files, characters=n, min_count=None, held_out_characters=20)
        kept = sum(some.train.count(letter) >= rare for letter in {*some.train})
        assert [int(number) for number in re.findall(r"\d+", some.notes[1])] == [4 + kept, rare]


def test_of_one_file_the_end_is_held_out(tmp_path):
    path = tmp_path / "one.txt"
    path.write_text("".join(f"{i}\n" for i in range(1000, 1080)))
    found = corpus([path])
    assert found.train + found.held_out == path.read_text()
    assert len(found.held_out) == 20
    assert any("the end of the only file" in note for note in found.notes)


def test_a_file_that_occurs_twice_counts_once(files):
    copy = files[0].with_name("copy.txt")
    copy.write_text(files[0].read_text())
    assert corpus([*files, copy]).train == corpus(files).train


def test_only_so_many_characters_are_trained_on(files):
    assert corpus(files, characters=50).train == corpus(files).train[:50]


def test_the_fingerprint_is_that_of_the_data(files):
    found = corpus(files)
    assert found.fingerprint() == corpus(files).fingerprint()
    others = replace(found, window=5), replace(found, ids=found.ids[::-1]), replace(found, valid=found.valid[1:])
    assert len({one.fingerprint() for one in (found, *others)}) == 4
    files[0].write_text(files[0].read_text() + "x")
    assert found.fingerprint() != corpus(files).fingerprint()


def test_line_breaks_of_windows_and_byte_order_marks_are_read(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"\xef\xbb\xbfa\r\nb")
    other.write_bytes(b"c\n")
    found = corpus([one, other])
    assert {found.train, found.held_out} == {"a\nb\n", "c\n"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "missing"),
        (b"", "is empty, expected lines of text"),
        (b"ok\nr\xe9sum\xe9\n", "line 2: the byte 0xE9 is not valid UTF-8"),
        ("folder", "is a folder, expected a regular file"),
        ("pipe", "is a pipe, expected a regular file"),
    ],
)
def test_unreadable_files_are_refused(files, tmp_path, content, message):
    path = tmp_path / "missing"
    if content == "folder":
        path.mkdir()
    elif content == "pipe":
        os.mkfifo(path)
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(FileError, match=message):
        corpus([*files, path])


def test_a_text_shorter_than_a_window_cannot_be_trained_on(files):
    found = corpus(files, window=40, characters=39)
    with pytest.raises(OptionError, match="window 40: found only 39 tokens to train on; give a longer text") as told:
        found.batches(100, 0)
    assert told.value.names == ("window", "text")
    assert corpus(files, window=40, characters=40).batches(100, 0).batches_per_epoch == 1


def test_the_standard_library_is_read_without_its_tests():
    names = [path.relative_to(sysconfig.get_paths()["stdlib"]).as_posix() for path in characters.library_files()]
    assert {"ast.py", "json/decoder.py", "collections/__init__.py"} <= set(names)
    assert not [name for name in names if {"test", "tests", "site-packages", "encodings"} & {*name.split("/")}]


@pytest.fixture
def small_library(monkeypatch):
    library = Path(sysconfig.get_paths()["stdlib"])
    monkeypatch.setattr(characters, "library_files", lambda: [library / name for name in ("bisect.py", "this.py")])


def test_by_default_the_standard_library_is_learned(small_library):
    found = corpus(None)
    assert found.files == {}
    version = ".".join(platform.python_version_tuple()[:2])
    assert f"the standard library of Python {version} (different files: 2)" in found.notes[0]
    assert {found.train, found.held_out} == {path.read_text("utf-8") for path in characters.library_files()}


def test_a_python_without_sources_is_told(monkeypatch):
    monkeypatch.setattr(characters, "library_files", lambda: [])
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": "HERE", "purelib": "THERE"})
    with pytest.raises(
        ValueError, match=r"^found no Python sources of the standard library in HERE; give --text FILE$"
    ):
        corpus(None)


@cases_from_toml
def test_files_that_are_not_read_are_refused(task, options, why):
    configuration = Configuration.of_task(build(task), **options)
    with pytest.raises(ValueError, match=why):
        build(task).corpus(configuration.data)


def test_each_kind_of_task_ignores_the_options_of_the_other():
    for name in ("window", "characters", "held_out_characters", "valid_characters"):
        assert build("numbers").why_ignored(name) == "the task numbers does not use it"
        assert TASK.why_ignored(name) is None
    for name in ("train_pairs", "held_out", "longest", "share_vocabulary"):
        assert TASK.why_ignored(name) == "the task characters does not use it"
