"""Windows and macOS, acted out on any system: what they lack is taken away, and what they refuse is refused."""

import io
import locale
import os
import re
import subprocess
import sys
import types
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
from toml_cases import cases_from_toml

from minitransformer import durable
from minitransformer.apps.cli.processes import quiet
from minitransformer.apps.learn import child
from minitransformer.apps.learn.clinic import visit
from minitransformer.console import accept_all_characters, break_lines, columns, protect_terminal, spell_out
from minitransformer.runs.checkpoints import Checkpoints
from minitransformer.runs.options import TrainingOptions

ROOT = Path(__file__).parent.parent

WINDOWS = Path(__file__).with_name("windows_in_short.py")


def test_windows_in_short(tmp_path):
    """Without what is not there, every module can be imported, and a model trains and translates."""
    env = os.environ | {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0", "TERM": "dumb", "NO_COLOR": "1", "LC_ALL": ""}
    done = subprocess.run(
        [sys.executable, WINDOWS], cwd=tmp_path, env=env, capture_output=True, encoding="utf-8", check=False
    )
    assert done.stdout.endswith("→ all is well\n"), done.stdout + done.stderr


def test_a_stream_of_another_encoding_accepts_every_character():
    pipe, terminal = (io.TextIOWrapper(io.BytesIO(), encoding="cp1252") for _ in range(2))
    terminal.isatty = lambda: True
    for stream, shown in ((pipe, "é → δ\n".encode()), (terminal, b"\xe9 ? ?\n")):
        accept_all_characters(stream, line_buffering=True)
        print("é → δ", file=stream)
        assert stream.buffer.getvalue().replace(b"\r\n", b"\n") == shown
    accept_all_characters(io.StringIO())


@cases_from_toml
def test_a_terminal_breaks_paragraphs_and_leaves_rows_and_code_alone(text, lines):
    assert break_lines(text, 30).split("\n") == lines


def test_a_report_has_at_most_100_columns_in_a_wide_terminal_too(monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    found = {width: monkeypatch.setenv("COLUMNS", f"{width}") or columns() for width in (60, 100, 140)}
    assert found == {60: 60, 100: 100, 140: 100}


def test_a_terminal_obeys_no_character_of_a_model():
    text = "\x1b]0;title\x07\x9b31m\r\x7f \u2028\ud800 \u202egnp.exe \u2066 é 한 שלום \t\n"
    file, terminal = (io.TextIOWrapper(io.BytesIO(), "utf-8", "replace", "", write_through=True) for _ in range(2))
    terminal.isatty = lambda: True
    for _ in range(2):  # the second time has no effect
        for stream in (file, terminal):
            protect_terminal(stream)
    print(text, file=file)
    print(text, file=terminal)
    terminal.writelines([text])
    assert file.buffer.getvalue().decode() == f"{text}\n".replace("\ud800", "?")
    shown = "\\x1b]0;title\\x07\\x9b31m\\r\\x7f \\u2028\\ud800 \\u202egnp.exe \\u2066 é 한 שלום \t\n"
    assert terminal.buffer.getvalue().decode() == f"{shown}\n{shown}"
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    kept = set(re.sub(r"\\(x|u)[0-9a-f]+|\\[rnt]", "", spell_out(every)))
    assert not {unicodedata.category(letter) for letter in kept} & {"Cc", "Cs", "Zl", "Zp"}
    turning = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    assert not {unicodedata.bidirectional(letter) for letter in kept} & turning  # three marks have no class of theirs
    assert not kept & {"\u061c", "\u200e", "\u200f"}


def test_quiet_processes_print_every_character():
    before = locale.setlocale(locale.LC_CTYPE)
    locale.setlocale(locale.LC_CTYPE, "C")
    try:
        with quiet(1):
            print("é → δ")
    finally:
        locale.setlocale(locale.LC_CTYPE, before)


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_a_clinic_script_may_hold_and_print_every_character(monkeypatch, encoding):
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    monkeypatch.setenv("PYTHONUTF8", "0")
    with pytest.raises(visit.ScriptError, match="line 2, in <module>: ValueError: Größe → δ"):
        visit._train("print('→')\nraise ValueError('Größe → δ')\n", "01_script.py", 60)


def refuse_at_first(real, times):
    """Return a function that refuses a few calls, as Windows does while another process reads the file."""
    calls = iter(range(times))

    def call(*args, **options):
        if next(calls, None) is not None:
            raise PermissionError(13, "The process cannot access the file because it is being used by another process")
        return real(*args, **options)

    return call


def test_a_file_that_another_process_reads_is_replaced_and_removed_a_little_later(tmp_path, monkeypatch):
    path = tmp_path / "file"
    monkeypatch.setattr(durable, "_PAUSES", (0, 0, 0))
    monkeypatch.setattr(os, "replace", refuse_at_first(os.replace, 3))
    durable.write_durably(path, b"new")
    assert path.read_bytes() == b"new"
    monkeypatch.setattr(os, "unlink", refuse_at_first(os.unlink, 3))
    durable.remove(path)
    assert not path.exists()
    monkeypatch.setattr(os, "replace", refuse_at_first(os.replace, 99))
    with pytest.raises(OSError, match="being used by another process"):
        durable.write_whole(path, b"newer")
    assert not [*tmp_path.iterdir()]


def test_a_checkpoint_that_another_process_reads_is_removed_after_the_next_one(tmp_path, monkeypatch):
    options = TrainingOptions(steps=9, save_every=1, keep=1)
    for step in (1, 2, 3):
        (tmp_path / f"step-{step:08d}.safetensors").touch()
    monkeypatch.setattr(os, "unlink", refuse_at_first(os.unlink, 1))
    for left in ([1, 3], [3]):
        Checkpoints(tmp_path).prune(3, options)
        assert [step for step, _ in Checkpoints(tmp_path).files()] == left


def test_where_links_are_followed_when_opened_they_are_refused_before(tmp_path, monkeypatch):
    monkeypatch.setattr(durable, "_NO_LINK", 0)
    (tmp_path / "file").write_bytes(b"mine")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with pytest.raises(OSError, match="symbolic link"):
        durable.append(tmp_path / "link", b"more")
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_macos_waits_for_the_disk(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setitem(
        sys.modules, "fcntl", types.SimpleNamespace(F_FULLFSYNC=51, fcntl=lambda _, what: calls.append(what))
    )
    monkeypatch.setattr(os, "fsync", lambda _: calls.append("fsync"))
    durable.flush_to_disk(0)
    assert calls == [51]
    monkeypatch.setattr(sys.modules["fcntl"], "fcntl", lambda *_: os.close(-1))
    durable.flush_to_disk(0)
    assert calls == [51, "fsync"]


def test_a_crash_on_windows_is_told_as_one(tmp_path):
    crashed, exited = (str(child.end_of([], tmp_path / "none", status, child.Limits())) for status in (0xC0000005, 3))
    assert "0xc0000005" in crashed
    assert "status 3" in exited
    assert "crash" in crashed
    assert "crash" not in exited


def test_file_names_are_possible_on_every_system():
    """Windows forbids some characters and names, ignores the case, and takes paths up to 260 characters."""
    paths = [path.relative_to(ROOT) for folder in ("minitransformer", "tests", "docs", "tutorials")
             for path in (ROOT / folder).rglob("*") if "_build" not in path.parts]  # fmt: skip
    forbidden = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))}
    for path in paths:
        for part in path.parts:
            assert not set(part) & set('<>:"\\|?*'), path
            assert not part.endswith((".", " ")), path
            assert part.lower().partition(".")[0] not in forbidden, path
        assert len(f"{path}") < 120, path
    assert [path for path, n in Counter(f"{path}".lower() for path in paths).items() if n > 1] == []


IMPORT_ALL = """
import importlib, pkgutil, sys
for missing in sys.argv[1:]:
    sys.modules[missing] = None
import minitransformer
failed = []
def load(path, before):
    for found in pkgutil.iter_modules(path, before):
        if not {"exercises", "clinic", "trainings", "__main__"} & {*found.name.split(".")}:
            try:
                module = importlib.import_module(found.name)
                load(module.__path__, f"{found.name}.") if found.ispkg else None
            except ImportError:
                failed.append(found.name)
load(minitransformer.__path__, "minitransformer.")
print(*failed)
"""


def test_what_a_browsers_python_lacks_is_imported_where_it_is_used():
    """It has no extension modules of other packages, no terminal and no processes; pictures and draws need packages."""
    missing = ["safetensors", "filelock", "tqdm", "matplotlib", "hypothesis", "num2words", "sacrebleu", "lzma", "fcntl"]
    missing += ["threadpoolctl", "termios", "tty", "resource", "sqlite3", "ssl", "curses", "pwd"]
    found = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, *missing], check=True, capture_output=True, encoding="utf-8"
    )
    assert {*found.stdout.split()} == {
        f"minitransformer.{name}" for name in ("apps.measure.pictures", "apps.plots", "testing.strategies")
    }
