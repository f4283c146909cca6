"""Files that the user names: a device or a pipe gets the contents, and a link stays a link."""

import csv
import errno
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from minitransformer import durable
from minitransformer.apps.cli import main, output_paths
from minitransformer.apps.learn.course import write_plan

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no such links and pipes")
GRADE = ("course", "--grade", "class", "--week", "5")
PATHS = ("measure", "paths")


@pytest.fixture(autouse=True)
def a_class_of_two(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for student in ("Ada", "Ben"):
        Path("class", student).mkdir(parents=True)


@pytest.fixture
def device():
    """A device that swallows what is written, as /dev/null does."""
    path = Path("null.png")
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        path.open("ab").close()
    except OSError:
        pytest.skip("only root may make a device, and not in every container")
    return path


def from_pipe(path, command):
    """Run a command that writes into a pipe; return what comes out of it."""
    read = []
    reader = threading.Thread(target=lambda: read.append(path.read_bytes()))
    reader.start()
    assert main(command) == 0
    reader.join()
    return read[0]


@pytest.mark.parametrize("command", [(*GRADE, "--out"), (*GRADE, "--json"), (*PATHS, "--json"), (*PATHS, "--plot")])
def test_a_device_stays_a_device_and_a_link_a_link(device, command):
    link, target = Path("link.png"), Path("target.png")
    link.symlink_to(target)
    to_device = Path("to-device.png")
    to_device.symlink_to(device)
    for path in (device, to_device, link, link):
        assert main([*command, str(path)]) == 0
    assert stat.S_ISCHR(device.lstat().st_mode)
    assert link.is_symlink()
    assert to_device.is_symlink()
    assert target.read_bytes()
    assert {path.name for path in Path().iterdir()} == {"class", *(map(str, (device, to_device, link, target)))}


@pytest.mark.parametrize("command", [(*GRADE, "--out"), (*GRADE, "--json"), (*PATHS, "--json"), (*PATHS, "--plot")])
def test_an_existing_file_keeps_its_permissions_and_other_names(command):
    path, other = Path("out.png"), Path("other.png")
    path.write_text("before" * 100_000)
    path.chmod(0o600)
    os.link(path, other)
    before = path.stat()
    assert main([*command, str(path)]) == 0
    after = path.stat()
    assert [after.st_ino, after.st_mode, after.st_nlink] == [before.st_ino, before.st_mode, 2]
    assert other.read_bytes() == path.read_bytes()
    assert b"before" not in path.read_bytes()


def test_a_file_with_one_name_keeps_its_permissions_and_is_never_half_written(monkeypatch):
    path = Path("out.txt")
    path.write_text("before")
    path.chmod(0o640)
    output_paths.write_output(path, b"after")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("after", 0o640)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(durable, "_write_all", full)
        with pytest.raises(OSError, match="space"):
            output_paths.write_output(path, b"lost")
    assert (path.read_text(), sorted(os.listdir())) == ("after", ["class", "out.txt"])
    monkeypatch.setattr(durable, "replace", lambda *_: (_ for _ in ()).throw(OSError(errno.EBUSY, "a mount")))
    output_paths.write_output(path, b"in place")
    assert (path.read_text(), sorted(os.listdir())) == ("in place", ["class", "out.txt"])


def test_a_file_that_must_not_be_written_is_refused_before_anybody_is_graded(monkeypatch, told):
    Path("grades.csv").touch()
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everything
    status, out, err = told(*GRADE, "--out", "grades.csv")
    assert (status, out, "grades.csv cannot be written" in err) == (2, "", True)


@pytest.mark.parametrize(("command", "option"), [("explore", "--save"), ("attention", "--out")])
def test_pages_and_pictures_of_a_run_go_through_links_and_into_pipes(small_run, command, option):
    name = {"explore": "page.html", "attention": "map.svg"}[command]
    Path(name).symlink_to("target")
    words = [command, str(small_run), "12", option]
    assert main([*words, name]) == 0
    assert Path(name).is_symlink()
    os.mkfifo(f"pipe-{name}")
    assert from_pipe(Path(f"pipe-{name}"), [*words, f"pipe-{name}"])[:5] == Path("target").read_bytes()[:5]


def test_a_pipe_gets_the_table_once():
    Path("pipe").unlink(missing_ok=True)
    os.mkfifo("pipe")
    rows = [*csv.reader(from_pipe(Path("pipe"), [*GRADE, "--out", "pipe"]).decode("utf-8-sig").splitlines())]
    assert [row[0] for row in rows] == ["student", "Ada", "Ben"]
    assert len(json.loads(from_pipe(Path("pipe"), [*GRADE, "--json", "pipe"]))["students"]) == 2
    assert stat.S_ISFIFO(os.lstat("pipe").st_mode)


@pytest.mark.parametrize("to", ["pipe", "file"])
def test_the_output_of_the_program_itself(to):
    Path("link").symlink_to("/proc/self/fd/1")
    if not Path("link").exists():
        pytest.skip("there is no /proc")
    with open("told", "wb") as told:
        done = subprocess.run(
            [sys.executable, "-m", "minitransformer", *GRADE, "--json", "link"],
            stdout=told if to == "file" else subprocess.PIPE,
            check=True,
        )
    text = (Path("told").read_bytes() if to == "file" else done.stdout).decode()
    assert "Ada" in text.partition("{")[0]
    assert len(json.JSONDecoder().raw_decode(text[text.index("{\n") :])[0]["students"]) == 2
    assert "What was wrong is in link." in text.rpartition("}")[2]
    assert os.readlink("link") == "/proc/self/fd/1"


def test_a_disk_is_refused(monkeypatch, told):
    Path("disk").touch()
    real = os.stat

    def as_disk(path, *args, **options):
        found = real(path, *args, **options)
        if not str(path).endswith("disk"):
            return found
        return os.stat_result((stat.S_IFBLK | 0o666, *found[1:]))

    monkeypatch.setattr(os, "stat", as_disk)
    status, _, err = told(*GRADE, "--out", "disk")
    assert (status, "disk cannot be written" in err) == (2, True)


def test_a_device_is_never_replaced_inside_a_folder_either(device):
    for write in (durable.write_whole, durable.write_durably, lambda path, _: durable.check_replaceable(path)):
        with pytest.raises(OSError, match=r"null.png"):
            write(device, b"data")
    assert stat.S_ISCHR(device.lstat().st_mode)


def test_a_plan_is_not_written_over_links(tmp_path):
    plan = tmp_path / "plan"
    [first, *_] = write_plan(plan)
    first.rename(tmp_path / "moved")
    first.symlink_to(tmp_path / "moved")
    write_plan(plan)  # it is there already
    assert first.is_symlink()
    (tmp_path / "moved").unlink()
    with pytest.raises(FileExistsError, match="README"):
        write_plan(plan)
    assert first.is_symlink()


def test_feedback_that_cannot_be_written_is_refused_before_anybody_is_graded(told):
    Path("file").touch()
    status, out, err = told(*GRADE, "--feedback", "file")
    assert (status, out, "--feedback" in err) == (2, "", True)
