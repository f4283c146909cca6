"""Exit statuses, options that reach what they are for, and files that are left as they were: without a training."""

import argparse
import errno
import io
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from toml_cases import cases_from_toml

from minitransformer.apps.cli import COMMANDS, main, own_parts, pictures, progress
from minitransformer.apps.cli.configuration import read_configuration
from minitransformer.apps.cli.errors import UsageError
from minitransformer.apps.cli.options import describe
from minitransformer.arrays import BackendError
from minitransformer.data import MissingExtraError, TextError, UnknownTokenError
from minitransformer.decoding import Diverged
from minitransformer.parallel import ProcessLostError
from minitransformer.runs import RunError
from minitransformer.training import Scores


def ending(monkeypatch, command, what):
    """Let a command end with a status or an error."""

    def run(args):
        if isinstance(what, BaseException):
            raise what
        return what

    monkeypatch.setattr(COMMANDS[command], "run", run)


CAUSED = MemoryError("8 PB")
CAUSED.__cause__ = ValueError("another error")


@pytest.mark.parametrize(
    ("what", "status", "said"),
    [
        (0, 0, ""),
        (1, 1, ""),
        (UsageError("wrong words"), 2, "minitransformer measure paths: wrong words\n"),
        (RunError("no run"), 2, "minitransformer measure paths: no run\n"),
        (TextError("no text"), 2, "minitransformer measure paths: no text\n"),
        (UnknownTokenError("no token"), 2, "minitransformer measure paths: no token\n"),
        (BackendError("no GPU"), 2, "minitransformer measure paths: no GPU\n"),
        (MissingExtraError("This", "that", "extra"), 2, "minitransformer measure paths: This "),
        (Diverged("the loss is nan"), 1, "minitransformer measure paths: the loss is nan"),
        (ProcessLostError("a process has ended"), 1, "minitransformer measure paths: a process has ended\n"),
        (OSError(errno.ENOSPC, "the disk is full"), 1, "the disk is full"),
        (OSError(errno.ENOSPC, "it is full", "h.json"), 1, "minitransformer measure paths: h.json: it is full\n"),
        (BrokenPipeError(), 141, ""),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (MemoryError("9 PB"), 1, "MemoryError: 9 PB"),
        (CAUSED, 1, "MemoryError: 8 PB"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_how_a_command_ends(monkeypatch, capsys, what, status, said):
    discarded = []
    monkeypatch.setattr("minitransformer.apps.cli.running.discard_output", lambda: discarded.append(True))
    ending(monkeypatch, "measure paths", what)
    assert main(["measure", "paths"]) == status
    assert said in capsys.readouterr().err
    assert bool(discarded) == isinstance(what, OSError)


def test_output_that_cannot_be_written_is_told_at_the_end(monkeypatch, capsys):
    monkeypatch.setattr("minitransformer.apps.cli.running.discard_output", lambda: None)

    class Full(io.StringIO):
        def flush(self):
            raise OSError(errno.ENOSPC, "No space left on device")

    ending(monkeypatch, "measure paths", 0)
    monkeypatch.setattr(sys, "stdout", Full())
    assert main(["measure", "paths"]) == 1
    assert "No space left on device" in capsys.readouterr().err


def test_an_error_of_the_program_is_not_hidden(monkeypatch):
    ending(monkeypatch, "measure paths", ZeroDivisionError("a mistake of ours"))
    with pytest.raises(ZeroDivisionError, match="a mistake of ours"):
        main(["measure", "paths"])


@cases_from_toml
def test_all_words_of_a_text_arrive(monkeypatch, arguments, words):
    seen = []
    monkeypatch.setattr(COMMANDS["translate"], "run", lambda args: seen.append(args.text) or 0)
    assert main(["translate", *arguments]) == 0
    assert seen == [words]


def test_the_array_library_is_the_one_that_was_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr("minitransformer.apps.cli.running.use", asked.append)
    ending(monkeypatch, "measure paths", 0)
    main(["measure", "paths"])
    main(["measure", "paths", "--backend", "cupy"])
    assert asked == ["cupy"]


# Files


# What a training says


def test_the_last_measurement_is_in_the_picture(monkeypatch, tmp_path):
    drawn = []
    monkeypatch.setattr("minitransformer.apps.plots.training_curves", lambda *of: drawn.append(of))
    folder = SimpleNamespace(path=tmp_path, measurements=SimpleNamespace(read=lambda: [{"step": 1}]))
    assert pictures.draw_curves(folder, {"step": 2}, "title") == tmp_path / "training.png"
    assert drawn == [([{"step": 1}, {"step": 2}], tmp_path / "training.png", "title")]


# Configurations


def arguments(**options):
    return argparse.Namespace(**options)


def test_options_win_over_a_recipe_and_the_recipe_over_the_task(tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('task = "numbers"\nsteps = 77\nd_ff = 33\ntask_options = {to = "fr"}\n')
    found = read_configuration(arguments(config=f"{recipe}", steps=5))
    assert (found.task, found.training.steps, found.model.d_ff, found.task_options) == ("numbers", 5, 33, {"to": "fr"})
    assert read_configuration(arguments(config=f"{recipe}", to="ko")).task_options == {"to": "ko"}
    assert read_configuration(arguments()).task == "numbers"
    with pytest.raises(ValueError, match=r"task copy.*recipe\.toml.*task numbers"):
        read_configuration(arguments(config=f"{recipe}", task="copy"))


def test_options_without_effect_are_refused(tmp_path):
    (tmp_path / "recipe.toml").write_text('task = "copy"\nlongest = 5\n')
    with pytest.raises(ValueError, match=r"^longest in .*recipe\.toml"):
        read_configuration(arguments(config=f"{tmp_path}/recipe.toml"))
    with pytest.raises(ValueError, match=r"^--longest"):
        read_configuration(arguments(task="copy", longest=5))
    with pytest.raises(ValueError, match=r"^--peak"):
        read_configuration(arguments(task="copy", peak=0.5))
    (tmp_path / "peak.toml").write_text('task = "copy"\nschedule = "linear"\npeak = 0.1\n')
    # here it is the command line that takes the effect away
    found = read_configuration(arguments(config=f"{tmp_path}/peak.toml", schedule="warmup"))
    assert found.training.schedule == "warmup"
    with pytest.raises(ValueError, match=r"^steps ") as error:
        read_configuration(arguments(task="copy", steps=0))
    assert describe(error.value, arguments(task="copy", steps=0)) == f"--{error.value}"
    assert describe(error.value, arguments(task="copy")) == f"{error.value}"


# Exercises and proofs


def test_the_word_error_rate_is_the_share_of_wrong_words():
    lines = progress.describe_scores(Scores(0.25, 0.5, 1.0, [], phone_error_rate=0.125))
    assert [line.rpartition(": ")[2] for line in lines] == ["75.00 %", "12.50 %"]


class Kept(SimpleNamespace):
    """Stands in for the record of a run with three parts of a learner."""

    parts, folder = ("a", "b", "c"), "/mine"

    def open(self, own):
        broken = {"softmax-backward": "line 1\nline 2", "causal-mask": "line 3"}
        return SimpleNamespace(broken=broken, functions={"a": 1}, folder=own)

    def gone(self, parts):
        return ["softmax-backward", "warm-up", "xavier"]

    def edited(self, parts):
        return ["adam-step", "top-p"]


@cases_from_toml
def test_what_is_said_of_the_parts_of_a_run(tmp_path, monkeypatch, capsys, size, library, kept, own, needed, said):
    (tmp_path / "mine").mkdir()
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(own_parts, "backend", lambda: library)
    monkeypatch.setattr(own_parts.model, "read_record", lambda run: Kept(folder=kept) if kept else None)
    monkeypatch.setattr(own_parts, "in_place", lambda parts: "in place")
    given = {"own": Path(own)} if own else {}
    group = SimpleNamespace(size=size, broadcast=lambda call: call())
    try:
        found = own_parts.parts_of_run(argparse.Namespace(run="run", group=group, **given), needed)
        ending = found if found == "in place" else "the engine's"
    except UsageError as error:
        ending = f"{error}"
    lines = (capsys.readouterr().err + ending).replace("\\", "/").splitlines()
    assert len(lines) == len(said), lines
    assert [words for words, line in zip(said, lines, strict=True) if not re.match(words, line)] == [], lines
