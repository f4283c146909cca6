"""Files are replaced whole or not at all, and never through a symbolic link."""

import argparse
import os
import stat
from pathlib import Path

import pytest

from minitransformer import durable
from minitransformer.apps.cli.errors import UsageError
from minitransformer.apps.cli.output_paths import check_writable


@pytest.fixture(autouse=True)
def nothing_stays_open():
    numbers = Path("/proc/self/fd")
    before = len(os.listdir(numbers)) if numbers.exists() else 0
    yield
    assert len(os.listdir(numbers) if numbers.exists() else "") == before


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path):
    path = tmp_path / "file"
    for write, data in ((durable.write_durably, b"one"), (durable.write_whole, b"two" * 10**6)):
        write(path, data)
        assert path.read_bytes() == data
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
def test_a_new_file_has_the_permissions_that_the_user_asks_for(tmp_path):
    before = os.umask(0o027)
    try:
        durable.write_durably(tmp_path / "file", b"")
        durable.append(tmp_path / "lines", b"")
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()] == [0o640, 0o640]


@pytest.mark.parametrize("raised", [KeyboardInterrupt, MemoryError, OSError(28, "No space left on device")])
def test_what_stops_a_write_leaves_the_old_file(tmp_path, monkeypatch, raised):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def stop(*_):
        raise raised

    for call in ("write", "fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, stop)
            with pytest.raises(raised if isinstance(raised, type) else type(raised)) as error:
                durable.write_durably(path, b"new")
        assert path.read_bytes() == b"old"
        assert [path.name for path in tmp_path.iterdir()] == ["file"]
        if isinstance(raised, OSError):
            assert f"{error.value}" == f"[Errno 28] No space left on device: '{path}'"


def test_writes_that_are_cut_short_go_on(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda number, data: real(number, data[:3]))
    durable.write_durably(tmp_path / "file", b"0123456789")
    durable.append(tmp_path / "file", b"abcde")
    assert (tmp_path / "file").read_bytes() == b"0123456789abcde"


def test_a_file_that_is_there_is_not_created(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        durable.create(tmp_path / "link", b"")
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_that_is_a_link_or_a_file_is_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    (tmp_path / "file").write_text("")
    durable.make_folder(tmp_path / "folder")
    durable.check_folder(tmp_path / "new")
    with pytest.raises(OSError, match="link"):
        durable.make_folder(tmp_path / "link")
    with pytest.raises(NotADirectoryError):
        durable.make_folder(tmp_path / "file")


def test_only_what_a_killed_process_wrote_is_removed(tmp_path):
    mine = {"film.partial", "notes.txt", ".partial", ".0123.partial"}
    for name in {f".{'0f' * 8}.partial", "step-00000001.safetensors.partial", "metrics.jsonl.partial"} | mine:
        (tmp_path / name).write_text("")
    durable.remove_partial(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == mine


@pytest.mark.parametrize(("option", "name"), [("plot", "picture.png"), ("json", "figures.json")])
def test_to_ask_whether_a_file_can_be_written_changes_nothing(tmp_path, option, name):
    (tmp_path / name).symlink_to(tmp_path / "nowhere")
    (tmp_path / "mine").write_text("precious")
    for path in (tmp_path / name, tmp_path / f"new-{name}", tmp_path / f"new-{name.upper()}"):
        check_writable(argparse.Namespace(**{option: path}), option)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["mine", name])
    assert (tmp_path / name).is_symlink()
    (tmp_path / f"folder-{name}").mkdir()
    with pytest.raises(UsageError, match=f"--{option}: .*folder-{name} .*: Is a directory"):
        check_writable(argparse.Namespace(**{option: tmp_path / f"folder-{name}"}), option)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such links and pipes")
def test_nothing_is_appended_through_a_link_or_to_a_pipe(tmp_path):
    (tmp_path / "elsewhere").write_bytes(b"precious")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)  # so that opening it for writing would succeed
    try:
        for name in ("link", "pipe"):
            with pytest.raises(OSError, match=name):
                durable.append(tmp_path / name, b"more")
    finally:
        os.close(reader)
    assert (tmp_path / "elsewhere").read_bytes() == b"precious"


def test_the_name_of_a_file_is_flushed_after_the_file(tmp_path, monkeypatch):
    done = []
    rename = os.replace
    monkeypatch.setattr(os, "replace", lambda *paths: done.append("rename") or rename(*paths))
    monkeypatch.setattr(durable, "flush_folder", lambda folder: done.append(folder))
    (tmp_path / "aside").write_bytes(b"")
    durable.put_in_place(tmp_path / "aside", tmp_path / "file")
    assert done == ["rename", tmp_path]
