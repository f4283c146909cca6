"""A learner's folder: what they wrote stays theirs, and how far they came is kept."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from filelock import FileLock
from toml_cases import cases_from_toml, toml_table

from minitransformer.apps.cli import main
from minitransformer.apps.learn import FOLDER, Book, bank, command, find_folder, notebook
from minitransformer.durable import lock_of

FIRST, SECOND, *_, LAST = bank()


@pytest.fixture
def book(tmp_path):
    return Book.open(tmp_path / "mine")


def test_what_a_learner_wrote_is_never_overwritten(book):
    path = book.path(FIRST)
    assert path.read_text("utf-8") == FIRST.text
    path.write_text("mine")
    Book.open(book.folder)
    assert path.read_text() == "mine"
    kept = []
    for version in ("mine", "mine too", "and this"):
        path.write_text(version)
        kept.append(book.reset(FIRST))
        assert path.read_text("utf-8") == FIRST.text
    assert [place.read_text() for place in kept] == ["mine", "mine too", "and this"]
    assert book.reset(FIRST) is None


def test_a_file_in_the_place_of_an_earlier_version_is_moved_and_not_made_anew(book):
    path, old = book.path(SECOND), book.folder / "77-chapter"
    old.mkdir()
    path.rename(old / f"77_{path.name[3:]}").write_text("mine")
    before = len(list(path.parent.iterdir()))
    Book.open(book.folder)
    assert path.read_text() == "mine"
    assert len(list(path.parent.iterdir())) == before + 1
    assert not old.exists()


@pytest.mark.skipif(os.name == "nt", reason="makes links")
def test_a_link_in_place_of_a_chapter_is_not_written_through(book, tmp_path):
    chapter, earlier, elsewhere = book.path(SECOND).parent, book.folder / "77-chapter", tmp_path / "elsewhere"
    book.path(SECOND).write_text("mine")
    chapter.rename(elsewhere)
    for link, act in ((chapter, lambda: book.reset(SECOND)), (earlier, lambda: Book.open(book.folder))):
        link.symlink_to(elsewhere)
        before = {path: path.read_text("utf-8") for path in elsewhere.iterdir()}
        with pytest.raises(OSError, match="symbolic link"):
            act()
        assert {path: path.read_text("utf-8") for path in elsewhere.iterdir()} == before
        link.unlink()


def test_hints_come_one_after_the_other_and_the_last_one_again(book):
    hints = [book.next_hint(FIRST) for _ in range(len(FIRST.hints) + 2)]
    last = len(FIRST.hints)
    assert hints == [*enumerate(FIRST.hints, start=1), (last, FIRST.hints[-1]), (last, FIRST.hints[-1])]


def test_progress_is_kept(book):
    book.finish(FIRST)
    for exercise in (FIRST, SECOND):
        book.next_hint(exercise)
    again = Book.open(book.folder)
    assert (again.done, again.hints, again.current) == ({FIRST.name}, {FIRST.name: 1, SECOND.name: 1}, SECOND.name)
    again.reset(FIRST)  # in another terminal
    book.reread()
    assert (book.done, book.hints, book.current) == (set(), {SECOND.name: 1}, FIRST.name)


def test_progress_of_exercises_that_are_gone_is_dropped(book):
    path = book.folder / ".progress.json"
    path.write_text(json.dumps({"done": ["gone", FIRST.name], "hints": {"gone": 2}, "current": "gone"}))
    again = Book.open(book.folder)
    assert (again.done, again.hints, again.current) == ({FIRST.name}, {}, FIRST.name)


WRONG = [b"[" * 200_000, b"9" * 5001, *map(str.encode, toml_table(__file__, "WRONG"))]


def is_new(book):
    return (book.done, book.hints, book.current) == (set(), {}, FIRST.name)


@pytest.mark.parametrize("content", WRONG, ids=lambda content: content[:50].decode())
def test_a_progress_that_is_not_what_it_should_be_is_put_aside(tmp_path, content):
    (tmp_path / ".progress.json").write_bytes(content)
    book = Book(tmp_path)
    book.reread()
    assert is_new(book)
    assert (tmp_path / ".progress.json.unreadable").read_bytes() == content
    assert not (tmp_path / ".progress.json").exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no named pipes")
@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_a_folder_or_a_pipe_in_its_place_is_put_aside(tmp_path, make):
    make(tmp_path / ".progress.json")
    book = Book(tmp_path)
    book.reread()
    assert is_new(book)
    book.save()
    assert (tmp_path / ".progress.json").is_file()


def test_the_next_exercise_is_one_that_is_open(book):
    book.finish(LAST)
    assert book.current == FIRST.name  # another one was current
    book.current = LAST.name
    book.done.add(FIRST.name)
    assert book.advance()
    assert book.current == SECOND.name
    book.current = "gain-and-bias"
    assert book.advance()
    assert book.current == "sum-along-an-axis"  # the optional one between them comes last
    book.reset(FIRST)
    assert (book.current, FIRST.name in book.done) == (FIRST.name, False)
    book.done = {exercise.name for exercise in bank() if not exercise.optional}
    for exercise in bank():
        if exercise.optional:
            assert book.advance()
            assert book.current == exercise.name
            book.done.add(book.current)
    assert not book.advance()


def test_what_to_type_names_a_folder_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.chdir(Book.open(tmp_path / FOLDER).folder.parent)  # whatever is beside this checkout
    assert command("hint") == command("hint", folder=FOLDER) == "minitransformer learn hint"
    assert command("hint", folder=Path("my own")) == "minitransformer learn hint --folder 'my own'"


@cases_from_toml
def test_the_folder_is_found_upwards(tmp_path, monkeypatch, here, found):
    for name in ("my-exercises", "of my own"):
        Book.open(tmp_path / name)
    (tmp_path / "notes/deep").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / here)
    assert find_folder() == Path(found)
    assert command("hint", folder=find_folder()) == "minitransformer learn hint"


def test_nothing_above_the_home_folder_and_nothing_of_another_program_is_found(tmp_path, monkeypatch):
    Book.open(tmp_path / FOLDER)
    other = tmp_path / "home" / "other"
    other.mkdir(parents=True)
    (other / ".progress.json").write_text("{}")
    monkeypatch.chdir(other)
    assert find_folder() == Path("../..") / FOLDER
    monkeypatch.setenv("USERPROFILE" if os.name == "nt" else "HOME", str(tmp_path / "home"))
    assert find_folder() == FOLDER
    Book.open(tmp_path / "home" / FOLDER)
    assert find_folder() == Path("..") / FOLDER

    def stat(path, real=Path.stat, **options):
        found = real(path, **options)
        return SimpleNamespace(st_uid=found.st_uid + 1) if path == other.parent else found

    monkeypatch.setattr(Path, "stat", stat)  # the folder above is another user's
    assert find_folder() == FOLDER


CHANGE = """
import sys
from functools import partial
from pathlib import Path
from minitransformer.apps.learn import Book, bank
from minitransformer.apps.learn.clinic.visit import Progress
book = Book.open(Path(sys.argv[1]))
for exercise in bank()[int(sys.argv[2]) :: 4]:
    book.finish(exercise)
    book.next_hint(exercise)
for number in range(int(sys.argv[2]), 40, 4):
    Progress.note(Path(sys.argv[1]), "fixed", number)
"""


def test_changes_of_several_processes_at_once_are_all_kept(tmp_path):
    folder = tmp_path / "mine"
    words = [[sys.executable, "-c", CHANGE, str(folder), str(n)] for n in range(4)]
    (folder / "clinic").mkdir(parents=True)
    running = [subprocess.Popen(one) for one in words]
    assert [one.wait() for one in running] == [0] * 4
    book = Book.open(folder)
    assert book.done == {exercise.name for exercise in bank()}
    assert book.hints == dict.fromkeys(book.done, 1)
    assert json.loads((folder / "clinic" / ".chart.json").read_text())["fixed"] == [*range(40)]


def test_what_another_process_has_solved_meanwhile_stays_in_every_change(book, tmp_path):
    changes = [
        lambda: book.next_hint(SECOND),
        lambda: book.reset(SECOND),
        lambda: book.speak("ko"),
        lambda: main(["learn", "next", "--folder", str(book.folder)]),
    ]
    for change, exercise in zip(changes, bank()[5:], strict=False):
        Book.open(book.folder).finish(exercise)
        change()
        assert exercise.name in Book.open(book.folder).done


def test_a_link_in_place_of_the_lock_is_not_written_through(book, tmp_path):
    (tmp_path / "outside").write_text("precious")
    lock = book.folder / ".progress.json.lock"
    lock.unlink(missing_ok=True)
    lock.symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match="lock"):
        book.finish(FIRST)
    assert (tmp_path / "outside").read_text() == "precious"


def test_a_folder_that_another_process_has_locked_is_not_blamed(book, monkeypatch, capsys):
    monkeypatch.setattr("minitransformer.apps.learn.book.lock_of", partial(lock_of, seconds=0))
    monkeypatch.setattr(notebook, "_folder", lambda: book.folder)
    monkeypatch.setattr(notebook, "_write_file", lambda *_: FIRST.solution)
    with FileLock(book.folder / ".progress.json.lock", is_singleton=False):  # as another process does
        told = [notebook.record(FIRST, [])]
        assert main(["learn", "next", "--folder", str(book.folder)]) == 2
        told.append(" ".join(capsys.readouterr().err.split()))
        with pytest.raises(TimeoutError) as caught:
            book.finish(FIRST)
    told.append(str(caught.value))
    for words in told:
        assert "another process has locked it" in words
        assert "--folder" not in words
    assert caught.value.filename == str(book.folder / ".progress.json")
    assert "kept in" in notebook.record(FIRST, [])
