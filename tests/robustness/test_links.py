"""A run folder or a folder of exercises that a stranger has filled with symbolic links: nothing outside it changes."""

import os
import shutil

import pytest
from matplotlib.figure import Figure
from run_contents import agree

from minitransformer.apps.cli import main
from minitransformer.apps.learn import bank
from minitransformer.apps.plots import saving
from minitransformer.runs import RunError, RunFolder
from robustness.disk import names
from robustness.kills import run, train

pytestmark = [
    pytest.mark.numpy_only("files are the same with any library"),
    pytest.mark.skipif(os.name == "nt", reason="Windows lets few users make symbolic links"),
]
AGAIN = train("--keep", "1", "--overwrite")


@pytest.fixture
def linked(kills, tmp_path):
    """Return what makes a copy of a run outside, and a run folder in which everything is a link to it."""

    def link(before, folder_too=False):
        outside, folder = tmp_path / "outside", tmp_path / "run"
        shutil.copytree(kills.root / before, outside)
        (outside / "training.png").write_bytes(b"precious")
        for name in names(outside):
            path = folder / name
            if path.parent.name != "checkpoints" or not folder_too:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.symlink_to(outside / name)
                if path.suffix != ".png":  # which earlier versions wrote under such names
                    path.with_name(f"{path.name}.partial").symlink_to(outside / f"new-{path.name}")
        if folder_too:
            (folder / "checkpoints").symlink_to(outside / "checkpoints")
        for name in ("average.safetensors", "attention.png", "attention-1.png"):
            if not (folder / name).is_symlink():
                (folder / name).symlink_to(outside / f"new-{name}")
        return outside, folder

    return link


def contents(folder):
    return {name: (folder / name).read_bytes() for name in names(folder)}


@pytest.mark.parametrize(
    ("before", "command", "end"),
    [
        ("interrupted", ("resume", "RUN"), "whole"),
        ("unmeasured", ("resume", "RUN"), "whole"),
        ("other", AGAIN, "whole"),
        ("two", ("average", "RUN", "--last", "2"), None),
    ],
)
def test_files_that_are_links_are_replaced(kills, linked, before, command, end):
    outside, folder = linked(before)
    kept = contents(outside)
    outcome = run(command, folder)
    assert outcome.status == 0, outcome.words
    assert contents(outside) == kept
    if end:
        for path in (folder / "attention-1.png", folder / "average.safetensors"):
            path.unlink(missing_ok=True)  # links that point nowhere
        agree(folder, kills.root / end)


def test_measurements_that_are_a_link_to_nothing_are_replaced_before_training(kills, tmp_path):
    shutil.copytree(kills.root / "interrupted", tmp_path / "run")
    measurements = tmp_path / "run" / "metrics.jsonl"
    measurements.unlink()
    measurements.symlink_to(tmp_path / "outside")
    outcome = run(("resume", "RUN"), tmp_path / "run")
    assert outcome.status == 0, outcome.words
    assert not measurements.is_symlink()
    assert not (tmp_path / "outside").exists()


def test_a_linked_folder_of_checkpoints_is_not_written_through(kills, linked):
    outside, folder = linked("interrupted", folder_too=True)
    kept = contents(outside)
    outcome = run(("resume", "RUN"), folder)
    assert outcome.status == 2
    assert f"cannot write {folder / 'checkpoints'}: it is a symbolic link" in outcome.words
    assert "link the whole run folder instead" in outcome.words
    assert contents(outside) == kept
    assert run(AGAIN, folder).status == 0
    assert contents(outside) == kept
    agree(folder, kills.root / "whole")


def test_measurements_are_not_appended_through_a_link(kills, tmp_path):
    """A link that appears while a run is trained; when a run is resumed, the file is replaced first."""
    (tmp_path / "outside").write_text("precious")
    folder = RunFolder(tmp_path)
    folder.measurements.path.symlink_to(tmp_path / "outside")
    for change in (lambda: folder.measurements.append({"step": 1}), folder.measurements.flush):
        with pytest.raises(RunError, match=r"metrics\.jsonl: .*link"):
            change()
    folder.measurements.path.unlink()
    os.mkfifo(folder.measurements.path)
    with pytest.raises(RunError, match=r"metrics\.jsonl: (.*pipe|No such device)"):
        folder.measurements.append({"step": 1})
    assert (tmp_path / "outside").read_text() == "precious"


def test_the_run_folder_itself_may_be_a_link(kills, tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "disk")
    (tmp_path / "disk" / "far").mkdir()
    (tmp_path / "disk" / "near").symlink_to(tmp_path / "disk" / "far")
    folder = tmp_path / "runs" / "near"
    for command in (AGAIN, AGAIN, ("resume", "RUN")):
        assert run(command, folder).status == 0
    agree(folder, kills.root / "whole")
    assert (tmp_path / "disk" / "far" / "checkpoints").is_dir()
    assert run(("average", "RUN", "--last", "1"), folder).status == 0


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_picture_replaces_a_link(tmp_path, ending):
    (tmp_path / "outside").write_text("precious")
    picture = tmp_path / f"picture.{ending}"
    picture.symlink_to(tmp_path / "outside")
    saving.save(Figure(figsize=(1, 1)), picture, dpi=20)
    assert (tmp_path / "outside").read_text() == "precious"
    assert not picture.is_symlink()
    assert picture.read_bytes()[:5] == {"png": b"\x89PNG\r", "svg": b"<?xml"}[ending]
    assert names(tmp_path) == ["outside", picture.name]


def test_exercises_and_progress_stay_in_their_folder(tmp_path, capsys):
    folder, outside = tmp_path / "my-exercises", tmp_path / "outside"
    outside.mkdir()
    (outside / "progress").write_text('{"done": [], "hints": {}, "current": ""}')
    first, last = bank()[0], bank()[-1]
    (folder / first.file).parent.mkdir(parents=True)
    (folder / first.file).symlink_to(outside / "new")
    (folder / ".progress.json").symlink_to(outside / "progress")
    (folder / ".progress.json.new").symlink_to(outside / "aside")
    kept = contents(outside)
    for words in (("next",), ("reset",), ("hint",), ("reset", first.name)):
        assert main(["learn", *words, "--folder", str(folder)]) == 0
    assert contents(outside) == kept
    chapter = (folder / last.file).parent
    shutil.rmtree(chapter)
    chapter.symlink_to(outside)
    capsys.readouterr()
    for words in (("list",), ("reset", last.name)):
        assert main(["learn", *words, "--folder", str(folder)]) == 2
        assert f"{chapter}" in (words := capsys.readouterr().err)
        assert "symbolic link" in words
    assert contents(outside) == kept
