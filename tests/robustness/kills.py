"""Kills at every change of a run folder: training, resuming, replacing and averaging end as if nothing had happened.

``Kills(folder)`` prepares the runs that are changed. Then ``count(name)`` says how many changes a scenario makes, and
``kill(name, point)`` kills it at one of them and checks what is left and what can be done with it.
"""

import io
import shutil
import signal
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from run_contents import agree

from minitransformer.apps import cli
from minitransformer.durable import write_whole
from minitransformer.runs import RunError, RunFolder, load
from minitransformer.runs.folder import SETTING_UP
from minitransformer.training import Scores, check_free, training_step
from robustness.disk import Disk, Killed, changes

SHORT = [
    *("--batch-tokens", "64", "--train-pairs", "6", "--held-out", "2", "--valid-pairs", "2", "--workers", "1"),
    *("--steps", "4", "--warmup-steps", "2", "--evaluate-every", "2", "--save-every", "2", "--average-last", "2"),
]
PARTIAL = (".partial",)
"""What a kill may leave, and stays in a finished run."""
SMALL = ["copy", "--d-model", "4", "--n-heads", "1", "--n-layers", "1", "--d-ff", "4", *SHORT]


class Scenario(NamedTuple):
    """Something that changes a run folder."""

    before: str
    """What is in the folder: ``nothing``, or one of those that `prepare` makes."""
    command: tuple[str, ...]
    """What is done; ``RUN`` stands for the folder, ``START`` for another run, ``TEXT`` for a file of sentences."""
    after: str = "whole"
    """What is in the folder in the end."""


def train(*more):
    return ("train", *SMALL, "--out", "RUN", *more)


SCENARIOS = {
    "train": Scenario("nothing", train("--keep", "1")),
    "resume": Scenario("interrupted", ("resume", "RUN")),
    "measure": Scenario("unmeasured", ("resume", "RUN")),
    "overwrite": Scenario("other", train("--keep", "1", "--overwrite")),
    "overwrite again": Scenario("half replaced", train("--keep", "1", "--overwrite")),
    "average": Scenario("two", ("average", "RUN", "--last", "2"), "averaged"),
    "train on": Scenario(
        "nothing",
        ("train", "copy", *SHORT, "--from", "START", "--keep-good", "TEXT", "TEXT", "--keep", "1", "--out", "RUN"),
        "trained on",
    ),
}
"""Each kind of change to a run folder."""


class Outcome(NamedTuple):
    """What a command came to."""

    status: int | None
    """None if it was killed."""
    words: str
    disk: Disk


_parser = cache(cli.build_parser)


def _scores(model, *_, **__):
    """Score a model by its weights: translating would take longer than all else."""
    total = sum(float(np.abs(parameter.numpy()).sum()) for parameter in model.parameters())
    return Scores(exact_match=0.5, token_accuracy=0.5, loss=total, samples=[])


def _draw(name):
    return lambda folder, *_: write_whole(folder.path / name, b"a picture")


@contextmanager
def cheap():
    """Train without translating and drawing; pictures are still written, by the function that writes real ones."""
    with ExitStack() as stack:
        for target, replacement in (
            ("minitransformer.training.trainer.evaluate", _scores),
            ("minitransformer.apps.cli.progress.draw_curves", _draw("training.png")),
            ("minitransformer.apps.cli.progress.draw_attention", _draw("attention.png")),
            ("minitransformer.apps.cli.build_parser", _parser),
        ):
            stack.enter_context(patch(target, replacement))
        yield


def run(command, folder, last=None):
    """Run a command, killed after so many changes if asked to; return the outcome."""
    out = io.StringIO()
    with cheap(), redirect_stdout(out), redirect_stderr(out), changes(last) as disk:
        try:
            status = cli.main([str(folder) if word == "RUN" else word for word in command])
        except Killed:
            status = None
    return Outcome(status, out.getvalue(), disk)


@contextmanager
def _interrupted_after(steps):
    """Press Ctrl-C in the next step after so many."""
    done = []

    def step(*arguments, **options):
        done.append(1)
        if len(done) == steps:
            signal.raise_signal(signal.SIGINT)
        return training_step(*arguments, **options)

    with patch("minitransformer.training.trainer.training_step", step):
        yield


class Kills:
    """The scenarios with what is in their folders before, and what should be there in the end.

    Parameters
    ----------
    root : Path
        An empty folder to work in.
    """

    def __init__(self, root):
        self.root = Path(root)
        self.turns = 0
        assert run(train("--keep", "1"), self.root / "whole").status == 0
        assert run(train("--keep", "2"), self.root / "two").status == 0
        assert run((*train("--keep", "2"), "--seed", "1"), self.root / "other").status == 0
        assert run(("average", "RUN", "--last", "2"), self.root / "other").status == 0
        with _interrupted_after(3):
            assert run(train("--keep", "1"), self.root / "interrupted").status == 130
        assert run(("average", "RUN", "--last", "1"), self.root / "interrupted").status == 0
        shutil.copytree(self.root / "whole", self.root / "unmeasured")
        RunFolder(self.root / "unmeasured").measurements.cut(4)
        shutil.copytree(self.root / "other", self.root / "half replaced")
        assert run(train("--overwrite"), self.root / "half replaced", last=12).status is None
        assert not (self.root / "half replaced" / "configuration.json").exists()
        shutil.copytree(self.root / "two", self.root / "averaged")
        assert run(("average", "RUN", "--last", "2"), self.root / "averaged").status == 0
        (self.root / "text").write_text("1\n")
        assert run(self._command("train on"), self.root / "trained on").status == 0

    def _command(self, name):
        paths = {"START": str(self.root / "other"), "TEXT": str(self.root / "text")}
        return [paths.get(word, word) for word in SCENARIOS[name].command]

    def prepare(self, scenario):
        """Return a folder as it is before a scenario."""
        self.turns += 1
        folder = self.root / f"turn-{self.turns}" / "run"
        folder.parent.mkdir()
        if scenario.before != "nothing":
            shutil.copytree(self.root / scenario.before, folder)
        return folder

    def count(self, name):
        """Return how many changes a scenario makes; all of them must go through functions that can be counted.

        Of a training that replaces a run, those before the new run stands; from then on it is like any other.
        """
        folder = self.prepare(SCENARIOS[name])
        outcome = run(self._command(name), folder)
        done = outcome.disk.changes
        assert outcome.status == 0, outcome.words
        assert not outcome.disk.unseen
        agree(folder, self.root / SCENARIOS[name].after)
        if "--overwrite" not in SCENARIOS[name].command:
            return len(done)
        in_place = [what == "replace" and path.name == SETTING_UP for what, path in done]
        return in_place.index(True) + 2

    def kill(self, name, point):
        """Kill a scenario after so many changes, and check what is left and what can be done with it."""
        folder = self.prepare(SCENARIOS[name])
        outcome = run(self._command(name), folder, last=point)
        assert outcome.status is None, f"the scenario ended before its change {point}"
        try:
            self._check(name, folder)
        except AssertionError as error:
            raise AssertionError(
                f"{name}, killed after change {point}, at {outcome.disk.changes[point]}: {error}"
            ) from error
        shutil.rmtree(folder.parent)

    def _check(self, name, folder):
        check_readable(folder)
        if folder.exists():
            check_free(folder, overwrite=True)
        if name == "average":
            assert run(("resume", "RUN"), folder).words.endswith("nothing to resume\n")
            assert run(self._command(name), folder).status == 0
            agree(folder, self.root / "averaged", but=PARTIAL)
            return
        outcome = run(("resume", "RUN"), folder)
        replaces = name.startswith("overwrite")
        if outcome.status == 0 and replaces and "is finished" in outcome.words:
            agree(folder, self.root / "other", but=PARTIAL)  # nothing has been touched yet
        elif outcome.status == 0:
            agree(folder, self.root / SCENARIOS[name].after, but=PARTIAL if "is finished" in outcome.words else ())
            return
        else:
            advice = f"train --out {folder} --overwrite" if folder.exists() else f"{folder}"
            assert advice in outcome.words, outcome.words
        outcome = run(self._command(name), folder)
        assert outcome.status == 0, outcome.words
        agree(folder, self.root / SCENARIOS[name].after)


def check_readable(folder):
    """Check that a reader finds a model, or is told in words why there is none."""
    words = ""
    try:
        load(folder)
    except RunError as error:
        words = f"{error}"
    assert not words or str(folder) in words
