"""Disks that answer with errors, and readers beside a training that writes."""

import errno
import os
import shutil
import stat

import pytest
from run_contents import agree

from minitransformer.runs import (
    RunError,
    RunFolder,
    checkpoints,
    load,
)
from minitransformer.training import (
    Trainer,
    average,
    averaging,
    create_run,
)
from robustness.kills import run, train

pytestmark = pytest.mark.numpy_only("files are the same with any library")


@pytest.fixture(scope="module")
def new_run(kills):
    """Return the configuration and the data of a run."""
    trainer = Trainer(RunFolder(kills.root / "two").configuration())
    return trainer.configuration, trainer.corpus


@pytest.fixture
def checkpoint(kills):
    """Return what gives the last checkpoint of a run another step."""
    one = RunFolder(kills.root / "two").checkpoints.load()
    return lambda step: one._replace(state=one.state | {"step": step})


def refuse_folders(monkeypatch, call, code):
    """Let a call fail for folders."""
    real = getattr(os, call)

    def refuse(target, *arguments, **named):
        if stat.S_ISDIR(os.fstat(target).st_mode) if call == "fsync" else os.path.isdir(target):
            raise OSError(code, os.strerror(code))
        return real(target, *arguments, **named)

    monkeypatch.setattr(os, call, refuse)


@pytest.mark.parametrize("code", ["EINVAL", "ENOTSUP", "EACCES", "EBADF"])
def test_folders_that_cannot_be_flushed_stop_no_training(new_run, checkpoint, tmp_path, monkeypatch, code):
    refuse_folders(monkeypatch, "fsync", getattr(errno, code))
    configuration, corpus = new_run
    folder = create_run(tmp_path / "run", configuration, corpus)
    folder.measurements.append({"step": 1})
    folder.save(checkpoint(1), configuration.training)
    assert folder.checkpoints.load().state["step"] == 1


def test_folders_that_cannot_be_opened_are_not_flushed(new_run, tmp_path, monkeypatch):
    configuration, corpus = new_run
    refuse_folders(monkeypatch, "open", errno.EACCES)
    create_run(tmp_path / "run", configuration, corpus)


@pytest.mark.parametrize("code", ["EIO", "ENOSPC"])
def test_a_folder_that_is_lost_stops_training(new_run, tmp_path, monkeypatch, code):
    configuration, corpus = new_run
    refuse_folders(monkeypatch, "fsync", getattr(errno, code))
    with pytest.raises(RunError, match="run"):
        create_run(tmp_path / "run", configuration, corpus)


@pytest.mark.parametrize("code", ["EINVAL", "EACCES"])
def test_a_file_that_cannot_be_flushed_stops_training(new_run, tmp_path, monkeypatch, code):
    def refuse(number):
        raise OSError(getattr(errno, code), os.strerror(getattr(errno, code)))

    monkeypatch.setattr("minitransformer.durable.flush_to_disk", refuse)
    configuration, corpus = new_run
    with pytest.raises(RunError, match="run"):
        create_run(tmp_path / "run", configuration, corpus)


@pytest.fixture
def folder(kills, tmp_path):
    shutil.copytree(kills.root / "whole", tmp_path / "run")
    return RunFolder(tmp_path / "run")


def test_a_checkpoint_that_goes_while_it_is_read_is_not_missed(folder, checkpoint, monkeypatch):
    """With --keep 1 the one that was listed may be gone when it is opened; then there is a newer one."""
    real = checkpoints.read_checkpoint
    saved = checkpoint(6)

    def late(path):
        if "00000004" in path.name and path.exists():
            folder.checkpoints.save(saved, folder.configuration().training.changed(steps=6))
            assert not path.exists()
        return real(path)

    monkeypatch.setattr(checkpoints, "read_checkpoint", late)
    folder.checkpoints.file(5).write_bytes(b"torn")  # it goes too, so it is no complaint about what is read then
    reports = []
    assert folder.checkpoints.load(reports.append).state["step"] == 6
    assert reports == []


def test_a_checkpoint_that_goes_while_it_is_averaged_is_not_missed(kills, folder, checkpoint, monkeypatch):
    real, saved = averaging.read_checkpoint, checkpoint(6)
    shutil.copy(kills.root / "two" / "checkpoints" / "step-00000002.safetensors", folder.checkpoints.path)

    def late(path):
        if "00000002" in path.name and path.exists():
            folder.checkpoints.save(saved, folder.configuration().training.changed(steps=6, keep=2))
            folder.measurements.append({"step": 6, "final": True})
        return real(path)

    monkeypatch.setattr(averaging, "read_checkpoint", late)
    assert average(folder, 2)[1] == [4, 6]


def test_a_listing_that_misses_both_is_not_believed(folder, monkeypatch):
    """A folder is read entry by entry: the new checkpoint may come behind the reader, and the old one go before it."""
    real, listings = checkpoints.Checkpoints._list, [[]]
    monkeypatch.setattr(checkpoints.Checkpoints, "_list", lambda self: listings.pop() if listings else real(self))
    assert load(folder, "last").checkpoint.state["step"] == 4


def test_what_a_kill_before_pruning_left_goes_when_the_run_goes_on(kills, tmp_path):
    shutil.copytree(kills.root / "unmeasured", tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    shutil.copy(kills.root / "two" / "checkpoints" / "step-00000002.safetensors", folder.checkpoints.path)
    assert run(("resume", "RUN"), folder.path).status == 0
    agree(folder.path, kills.root / "whole")


def test_what_an_earlier_version_left_while_it_wrote_the_configuration_is_replaced(kills, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "configuration.json.partial").write_text('{"task": "co')
    outcome = run(("resume", "RUN"), folder)
    assert outcome.status == 2
    assert f"minitransformer train --out {folder} --overwrite" in outcome.words
    assert run(train("--keep", "1"), folder).status == 0
    agree(folder, kills.root / "whole")


def test_what_is_no_run_is_still_kept(tmp_path):
    """Files that the user has beside half a run stay; a folder of other files is not taken for half a run."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "configuration.json.partial").write_text("")
    (folder / "notes.txt").write_text("mine")
    assert run(train("--overwrite"), folder).status == 0
    assert (folder / "notes.txt").read_text() == "mine"
    for name in ("data.json", "film.partial", "configuration.partial"):
        other = tmp_path / name / "folder"
        other.mkdir(parents=True)
        (other / name).write_text("mine")
        assert run(train("--overwrite"), other).status == 2
        assert (other / name).read_text() == "mine"
