"""Resuming: wherever a run is stopped, it ends with the same weights, to the bit, as if it had never been."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
from run_contents import agree
from toml_cases import toml_table

from minitransformer.apps.cli import main
from minitransformer.arrays import backend
from minitransformer.runs import (
    Configuration,
    RunError,
    RunFolder,
    load,
    locking,
)
from minitransformer.runs.checkpoints import read_checkpoint, write_checkpoint
from minitransformer.runs.locking import lock_folder
from minitransformer.tasks import build
from minitransformer.training import (
    Scores,
    Trainer,
    average,
    create_run,
    has_ended,
    resume,
    training_step,
)

SMALL = [
    *("copy", "--d-model", "8", "--n-heads", "2", "--n-layers", "1", "--d-ff", "12", "--steps", "24"),
    *("--warmup-steps", "8", "--batch-tokens", "128", "--train-pairs", "150", "--held-out", "6", "--dropout", "0.1"),
    *("--evaluate-every", "8", "--save-every", "3", "--average-last", "8", "--keep", "3", "--accumulate", "2"),
    *("--clip", "0.5", "--workers", "2" if backend() == "numpy" else "1"),
]


EDITED = {
    "d_model": 8, "n_heads": 2, "n_layers": 1, "d_ff": 12, "steps": 12, "warmup_steps": 8, "batch_tokens": 64,
    "train_pairs": 60, "held_out": 6, "evaluate_every": 3, "average_last": 4, "keep": 3, "micro_batches": 2,
    "workers": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert main(["train", *SMALL, "--out", str(folder)]) == 0
    return RunFolder(folder)


@pytest.mark.numpy_only("starts processes that choose their library themselves; files are the same with any")
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_kill_at_any_moment_changes_nothing(whole, tmp_path):
    """Kill it eight times, and let it go on each time: with a file half written, just in place, and during a step."""
    folder = RunFolder(tmp_path / "run")
    reached = []
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", bufsize=1
    ) as parent:
        for place, number in PLACES:
            word, pid = start(parent, folder, place, number)
            assert word == "there"
            partial = {path.name for path in folder.path.rglob("*.partial")} - {"configuration.json.partial"}
            assert bool(partial) == (place == "flush_to_disk")
            os.kill(pid, signal.SIGKILL)
            assert answer(parent) == ("ended", -signal.SIGKILL)
            reached.append(folder.checkpoints.load().state["step"] if folder.checkpoints.files() else None)
        assert start(parent, folder) == ("ended", 0)
        parent.stdin.close()
    assert reached == [None, None, 0, 3, 3, 9, 12, 15]
    assert folder.is_finished()
    agree(whole.path, folder.path, but=[".png"])


PLACES = [
    ("flush_to_disk", 2),  # while the run folder is created
    ("flush_folder", 3),
    ("training_step", 2),
    ("flush_folder", 2),
    ("flush_to_disk", 1),
    ("training_step", 8),
    ("flush_folder", 3),
    ("flush_to_disk", 4),
]
"""Where to kill each process: in which call of a function. In `flush_folder`, a file has just got its name."""

# Starts a process for each line that it reads, so that the package is imported once. Each of them never comes back from
# a certain call of a function, if it is told one.
PROGRAM = toml_table(__file__, "PROGRAM")


def start(parent, folder, place=None, number=0):
    """Begin the run, or go on with it; return what is said at that place, or at the end."""
    begun = (folder.path / "configuration.json").exists()
    arguments = ["resume", str(folder.path)] if begun else ["train", *SMALL, "--out", str(folder.path), "--overwrite"]
    print(json.dumps([place, number, *arguments]), file=parent.stdin, flush=True)
    return answer(parent)


def answer(parent):
    """Return the next word of the program, and its number: an exit status is negative for a signal."""
    lines = []
    for line in parent.stdout:
        lines.append(line)
        if line.startswith(("there ", "ended ")):
            word, number = line.split()
            return word, int(number)
    pytest.fail("".join(lines))


TERM = signal.SIGTERM, signal.SIGTERM  # as `timeout` sends it


@pytest.mark.same_bits
@pytest.mark.parametrize(
    ("stop", "signals"), [*((n, [signal.SIGINT]) for n in (1, 5, 8, 17, 23, 24)), (1, TERM), (5, TERM), (24, TERM)]
)
def test_an_interruption_at_any_step_changes_nothing(whole, tmp_path, monkeypatch, stop, signals):
    steps = []

    def interrupted(*arguments, **options):
        for number in signals if len(steps) == stop - 1 else ():
            signal.raise_signal(number)
        steps.append(1)
        return training_step(*arguments, **options)

    monkeypatch.setattr("minitransformer.training.trainer.training_step", interrupted)
    path = tmp_path / "run"
    assert main(["train", *SMALL, "--out", str(path)]) == 130
    monkeypatch.undo()
    assert RunFolder(path).checkpoints.load().state["step"] == stop
    assert main(["resume", str(path)]) == 0
    agree(whole.path, path)


def copy_of(whole, tmp_path):
    shutil.copytree(whole.path, tmp_path / "copy")
    return RunFolder(tmp_path / "copy")


@pytest.mark.same_bits
def test_of_a_torn_checkpoint_the_one_before_goes_on(whole, tmp_path, capsys):
    folder = copy_of(whole, tmp_path)
    newest = folder.last_checkpoints(1)[0]
    newest.write_bytes(newest.read_bytes()[:1000])
    folder.measurements.cut(24)
    capsys.readouterr()
    assert main(["resume", str(folder.path)]) == 0
    captured = capsys.readouterr()
    assert "step-00000024.safetensors is damaged" in captured.err
    assert "continuing after step 21" in captured.out
    agree(whole.path, folder.path)


def test_a_run_that_was_stopped_before_its_result_was_measured(whole, tmp_path, capsys):
    folder = copy_of(whole, tmp_path)
    folder.measurements.cut(24)
    with folder.measurements.path.open("a") as file:
        file.write('{"step": 24, "fin')
    capsys.readouterr()
    assert main(["resume", str(folder.path)]) == 0
    assert "exact match on 6 held-out strings" in capsys.readouterr().out
    agree(whole.path, folder.path)


def test_a_finished_run_says_so(whole, capsys):
    assert [step for step, _ in whole.history.files()] == [*range(0, 25, 1 if backend() == "numpy" else 10)]
    before = {path: path.read_bytes() for path in whole.path.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert main(["resume", str(whole.path)]) == 0
    assert "is finished; there is nothing to resume" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in whole.path.rglob("*") if path.is_file()} == before


EDITS, REFUSED = toml_table(__file__, "EDITS"), toml_table(__file__, "REFUSED")


def trained(path, options, stop=None):
    """Train a tiny model, to the end or until an interruption."""
    trainer = Trainer(Configuration.of_task(build("copy"), **(EDITED | options)))
    folder = create_run(path, trainer.configuration, trainer.corpus)
    with suppress(KeyboardInterrupt):
        trainer.train(folder, lambda *_: signal.raise_signal(signal.SIGINT) if trainer.step == stop else None)
    return folder


def edit(folder, edits):
    path = folder.path / "configuration.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | edits))


@pytest.mark.same_bits
@pytest.mark.parametrize("case", EDITS)
def test_a_run_that_was_edited_ends_as_if_it_had_begun_so(tmp_path, monkeypatch, case):
    """And the newest checkpoints are kept, at whatever interval each of them was saved."""
    monkeypatch.setattr(Trainer, "evaluate", lambda self, *_: Scores(0.5, 0.5, 1.0, []))
    monkeypatch.setattr("os.fsync", lambda number: None)
    options, stop, edits, kept = EDITS[case]
    folder = trained(tmp_path / "edited", options, stop)
    edit(folder, edits)
    assert not has_ended(folder, print)
    resume(folder, print).train(folder)
    assert has_ended(folder, print)
    wanted = trained(tmp_path / "whole", {**options, **edits, "workers": 1}).checkpoints.load()
    found = folder.checkpoints.load()
    for part in ("model", "optimiser", "mean"):
        assert getattr(found, part).keys() == getattr(wanted, part).keys()
        for name, values in getattr(wanted, part).items():
            np.testing.assert_array_equal(getattr(found, part)[name], values, err_msg=f"{part} {name}")
    assert found.state["averaged"] == wanted.state["averaged"]
    assert [step for step, _ in folder.checkpoints.files()] == kept
    assert average(folder, 3)[1] == kept[-3:]


@pytest.mark.parametrize("case", REFUSED)
def test_an_edit_that_no_mean_of_the_last_steps_fits_is_refused(tmp_path, monkeypatch, case):
    monkeypatch.setattr(Trainer, "evaluate", lambda self, *_: Scores(0.5, 0.5, 1.0, []))
    monkeypatch.setattr("os.fsync", lambda number: None)
    options, stop, edits = REFUSED[case]
    folder = trained(tmp_path / "run", options, stop)
    edit(folder, edits)
    before = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}
    monkeypatch.setattr("minitransformer.training.resuming.Trainer", None)  # before any work
    with pytest.raises(RunError, match=r"in configuration\.json"):
        _ = has_ended(folder, print) or resume(folder, print)
    assert {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("option", ["dropout", "n_heads"])
def test_a_finished_run_that_was_changed_is_not_called_finished(whole, tmp_path, capsys, option):
    folder = copy_of(whole, tmp_path)
    path = folder.path / "configuration.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {option: 1 if option == "n_heads" else 0.25}))
    assert main(["resume", str(folder.path)]) == 2
    assert f"configuration.json does not belong to the weights: {option} is" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["vocabulary.json", "held_out.tsv", "data.json"])
def test_what_a_finished_run_lacks_is_made_again(whole, tmp_path, name):
    folder = copy_of(whole, tmp_path)
    assert folder.is_complete()
    (folder.path / name).unlink()
    assert not folder.is_complete()
    assert main(["resume", str(folder.path)]) == 0
    agree(whole.path, folder.path)


def test_a_finished_run_of_which_only_the_best_weights_were_kept_stays_finished(whole, tmp_path, capsys):
    folder = copy_of(whole, tmp_path)
    for _, checkpoint in folder.checkpoints.files():
        checkpoint.unlink()
    assert main(["resume", str(folder.path)]) == 0
    assert "is finished; there is nothing to resume" in capsys.readouterr().out


LOST = toml_table(__file__, "LOST")


@pytest.mark.parametrize("lost", LOST)
def test_a_finished_run_without_its_last_weights_says_what_it_uses(whole, tmp_path, capsys, lost):
    folder, (names, used, kind, missing) = copy_of(whole, tmp_path), LOST[lost]
    for name in names:
        path = folder.path / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    reports = []
    trained = load(folder, report=reports.append)
    assert (trained.checkpoint.path.stem, trained.weights) == (used, kind)
    assert len(reports) == (missing is not None)
    assert all(re.search(f"{missing}.safetensors is missing, although .*{used}.* is used", one) for one in reports)
    load(folder, kind, reports.append)  # best weights that were asked for need no word
    assert len(reports) == bool(missing) * (1 if kind == "best" else 2)
    assert main(["translate", str(folder.path), "21"]) == 0
    assert ("is missing" in capsys.readouterr().err) == bool(missing)
    if missing and kind != "best":
        assert main(["average", str(folder.path), "--last", "1"]) == 2
        assert f"{missing}.safetensors is missing, the last checkpoint of a finished run" in capsys.readouterr().err
        assert main(["resume", str(folder.path)]) == 0
        agree(whole.path, folder.path) if lost == "the newest checkpoint" else None


def test_the_last_weights_stand_in_for_the_best_only_with_a_word(whole, tmp_path):
    folder = copy_of(whole, tmp_path)
    folder.best_path.unlink()
    for _, path in folder.checkpoints.files():
        checkpoint = read_checkpoint(path)
        write_checkpoint(path, checkpoint._replace(mean={}, state=checkpoint.state | {"averaged": 0}))
    reports = []
    assert (load(folder, report=reports.append).weights, len(reports)) == ("last", 1)
    assert "best.safetensors is missing, although the run is finished" in reports[0]


def test_a_copy_under_another_spelling_is_no_second_checkpoint(whole, tmp_path, capsys):
    folder = copy_of(whole, tmp_path)
    main(["average", str(folder.path), "--last", "2"])
    wanted = capsys.readouterr().out
    newest = folder.checkpoints.path / "step-00000024.safetensors"
    for number in ("24", "000000024", "0000002\N{ARABIC-INDIC DIGIT FOUR}"):
        shutil.copy(newest, newest.with_stem(f"step-{number}"))
    assert main(["average", str(folder.path), "--last", "2"]) == 0
    assert capsys.readouterr().out == wanted
    assert "steps 21, 24" in wanted


@pytest.mark.same_bits
def test_a_run_that_was_stopped_while_it_was_being_made(whole, tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    (folder.path / "configuration.json").write_bytes((whole.path / "configuration.json").read_bytes())
    assert main(["resume", str(folder.path)]) == 0
    agree(whole.path, folder.path)


def test_a_checkpoint_of_another_architecture_is_refused(whole, tmp_path):
    folder = copy_of(whole, tmp_path)
    path = folder.path / "configuration.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"n_layers": 2}))
    for _, file in folder.checkpoints.files():  # as earlier versions saved them
        saved = read_checkpoint(file)
        write_checkpoint(file, saved._replace(state=saved.state | {"provenance": None}))
    with pytest.raises(RunError, match=r"does not belong to this configuration: .*missing"):
        resume(folder, print)
    with pytest.raises(RunError, match="do not belong together"):
        load(folder)


@pytest.mark.parametrize("beside", [True] if os.name == "nt" else [False, True])
def test_two_trainings_in_one_folder_are_refused(tmp_path, capsys, monkeypatch, beside):
    monkeypatch.setattr(locking, "BESIDE", beside)  # as on Windows
    path = str(tmp_path / "run")
    with lock_folder(tmp_path / "run"):
        assert main(["train", *SMALL, "--out", path]) == 2
        told = f"another process is training in {path}; wait until it ends, or stop it"
        assert capsys.readouterr().err == f"minitransformer train: {told}\n"
        assert list((tmp_path / "run").iterdir()) == []
    assert main(["train", *SMALL, "--steps", "3", "--out", path]) == 0
    (tmp_path / "run" / "metrics.jsonl").unlink()
    with lock_folder(tmp_path / "run"):
        assert main(["resume", path]) == 2
    assert main(["resume", path]) == 0


def test_a_place_that_is_no_run_is_refused(tmp_path, capsys):
    assert main(["resume", str(tmp_path / "nowhere")]) == 2
    assert "there is no run folder" in capsys.readouterr().err
    assert main(["resume", str(tmp_path)]) == 2
    assert "configuration.json is missing" in capsys.readouterr().err
