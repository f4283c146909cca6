"""A learner's progress: a file that cannot be read is put aside, and the learner goes on."""

import json
import os

import pytest
from toml_cases import toml_table

from minitransformer.apps.learn.bank import bank
from minitransformer.apps.learn.book import Book

NAME = bank()[3].name
WRONG = [b"[" * 200_000, b"9" * 5001, *map(str.encode, toml_table(__file__, "WRONG"))]


def is_new(book):
    return (book.done, book.hints, book.current) == (set(), {}, bank()[0].name)


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


def test_a_number_of_hints_below_zero_is_none(tmp_path):
    progress = {"done": [], "hints": {NAME: -5}, "current": NAME}
    (tmp_path / ".progress.json").write_text(json.dumps(progress))
    book = Book(tmp_path)
    book.reread()
    assert book.current == NAME
    assert book.next_hint(bank()[3])[0] == 1
