"""No command opens a connection or writes where docs/privacy-and-safety.md does not say."""

import os
import re
import sys
from pathlib import Path
from tempfile import gettempdir

import pytest

from minitransformer.apps.cli import FIRST_WORDS, main

SENDS = ("socket.", "urllib.", "http.", "ftplib.", "smtplib.", "webbrowser.")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate")
OTHERS = ("matplotlib", "__pycache__", "hypothesis")
"""Parts of paths in which other libraries and Python keep files of their own."""
TRAINING = [
    "--steps", "2", "--train-pairs", "20", "--held-out", "3",
    "--d-model", "8", "--n-heads", "2", "--n-layers", "1", "--d-ff", "8",
]  # fmt: skip

pytestmark = pytest.mark.numpy_only("what is opened does not depend on the arrays")


class Watch:
    """Records connections and written paths while it is on; Python cannot remove such a hook."""

    def __init__(self):
        self.on, self.connections, self.written = False, [], []
        sys.addaudithook(self.note)

    def note(self, event, arguments):
        if not self.on:
            return
        if event.startswith(SENDS):
            self.connections.append((event, arguments))
        elif event == "open":
            path, mode, flags = arguments
            if isinstance(path, str) and ((flags or 0) & WRITES or set(mode or "") & set("wax+")):
                self.written.append(path)
        elif event in CHANGES:
            self.written += [path for path in arguments[:2] if isinstance(path, str | Path)]


@pytest.fixture(scope="module")
def watch():
    return Watch()


@pytest.fixture
def outside(watch, tmp_path, monkeypatch):
    """Call the command line in a folder of its own; return connections, and what was written outside of it."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        watch.connections, watch.written = [], []
        watch.on = True
        try:
            assert main(arguments) == 0
        finally:
            watch.on = False
        places = {Path(os.path.abspath(path)) for path in watch.written} - {Path(os.devnull)}
        assert watch.connections == []
        inside = {place for place in places if place.is_relative_to(tmp_path)}
        left = {place for place in places - inside if place.exists() or not place.is_relative_to(gettempdir())}
        assert not [place for place in left if not any(part in str(place) for part in OTHERS)]
        names = {place.relative_to(tmp_path).parts[0] for place in inside if place != tmp_path}
        return {name for name in names if not name.endswith(".partial")}

    return call


def test_nothing_is_sent_and_each_command_writes_where_it_says(outside, capsys):
    assert outside("train", "copy", "--out", "run", *TRAINING) == {"run"}
    assert outside("resume", "run") <= {"run"}
    assert outside("translate", "run", "31") == set()
    assert outside("evaluate", "run") == set()
    assert outside("attention", "run", "31") == {"run"}
    assert outside("gradcheck", "softmax") == set()
    assert outside("explore", "run", "31", "--save", "page.html") == {"page.html"}
    assert outside("export", "run", "--to", "huggingface", "--out", "theirs") == {"theirs"}
    assert outside("learn", "list") == {"my-exercises"}


def test_the_text_names_every_command():
    text = (Path(__file__).parents[2] / "docs" / "privacy-and-safety.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \|", text.partition("## What is read and written")[2], re.M)
    assert {*FIRST_WORDS} <= {*re.findall(r"`(\w+)`", "".join(rows))}


def test_a_connection_would_be_noticed(watch):
    import socket

    watch.connections, watch.on = [], True
    try:
        with socket.socket() as closed:
            closed.connect_ex(("127.0.0.1", 9))
    finally:
        watch.on = False
    assert any(event == "socket.connect" for event, _ in watch.connections)
