"""What the progress bar of a training is told, step by step, and how a training ends."""

import os
import sys
from types import SimpleNamespace
from unittest.mock import MagicMock

from toml_cases import cases_from_toml

from minitransformer.apps.cli import progress
from minitransformer.decoding import Diverged
from minitransformer.training import Sample, Scores

ENDS = {"interrupted": KeyboardInterrupt(), "diverged": Diverged("the loss is not a finite number after step 9")}


@cases_from_toml
def test_a_training_is_told_to_the_bar(monkeypatch, capsys, terminal, columns, begun, rank, seconds, ended, expected):
    def train(folder, on_step, *_):
        for loss in (None, 0.5, 0.25):
            trainer.step += 1
            on_step(loss, trainer.step / 1000, 1e4)
        if ended:
            raise ENDS[ended]

    bar, training = MagicMock(), SimpleNamespace(steps=9)
    trainer = SimpleNamespace(step=begun, finished=begun == 9, ranks=SimpleNamespace(rank=rank), train=train)
    vars(trainer).update(configuration=SimpleNamespace(training=training), expected_seconds=lambda: seconds)
    folder = SimpleNamespace(path="run\n", checkpoints=SimpleNamespace(path="run\n/checkpoints"))
    for name, stand_in in (("FIRST", 2), ("_introduce", lambda trainer: print("introduced"))):
        monkeypatch.setattr(progress, name, stand_in)
    monkeypatch.setattr("tqdm.tqdm", bar)
    monkeypatch.setattr(progress.shutil, "get_terminal_size", lambda: os.terminal_size((columns, 24)))
    with monkeypatch.context() as patch:
        patch.setattr(sys.stderr, "isatty", lambda: terminal)
        status = progress.train(trainer, folder, "resume")
    calls = [str(call).removeprefix("call().__enter__().") for call in bar.mock_calls if "__exit__" not in str(call)]
    assert [status, *calls, *capsys.readouterr()] == expected


@cases_from_toml
def test_an_evaluation_shows_three_samples_of_which_wrong_ones_matter_more(right, expected):
    samples = [Sample(f"s{i}", ["good", "fine"], "good" if is_right else "bad") for i, is_right in enumerate(right)]
    trainer = SimpleNamespace(step=1234, waited=0, task=SimpleNamespace(measures=(), noun="strings"))
    assert progress._describe_evaluation(Scores(0.25, 0.5, 1.5, samples), trainer) == expected
