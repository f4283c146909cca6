"""What the progress bar of a training is told, step by step, and how a training ends."""

import os
import re
import sys
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from minitransformer.apps.cli import progress
from minitransformer.decoding import Diverged
from minitransformer.training import Sample, Scores

STEPS, FIRST = 9, 2


@pytest.fixture
def train(monkeypatch, capsys):
    """Train three steps with a made-up bar; return the status, its options, what it was told, and the output."""

    def train(terminal=False, columns=80, begun=0, rank=0, seconds=None, ended=None):
        def steps(folder, on_step, *_):
            for loss in (None, 0.5, 0.25):
                trainer.step += 1
                on_step(loss, trainer.step / 1000, 1e4)
            if ended:
                raise ended

        trainer = SimpleNamespace(
            step=begun, finished=begun == STEPS, group=SimpleNamespace(rank=rank), train=steps,
            configuration=SimpleNamespace(training=SimpleNamespace(steps=STEPS)), expected_seconds=lambda: seconds,
        )  # fmt: skip
        folder = SimpleNamespace(path="run\n", checkpoints=SimpleNamespace(path="run\n/checkpoints"))
        bar = MagicMock()
        monkeypatch.setattr("tqdm.tqdm", bar)
        monkeypatch.setattr(progress, "FIRST", FIRST)
        monkeypatch.setattr(progress, "_introduce", lambda trainer: print("introduced"))
        monkeypatch.setattr(progress.shutil, "get_terminal_size", lambda: os.terminal_size((columns, 24)))
        with monkeypatch.context() as patch:
            patch.setattr(sys.stderr, "isatty", lambda: terminal)
            status = progress.train(trainer, folder, "resume")
        made, inside = bar.call_args.kwargs, bar().__enter__()
        told = {
            name: [call.args[0] for call in getattr(inside, name).mock_calls] for name in ("write", "set_postfix_str")
        }
        assert inside.update.call_count == 3
        return status, made, told, *capsys.readouterr()

    return train


@pytest.mark.parametrize(("begun", "rank", "shown"), [(0, 0, True), (5, 0, True), (0, 1, False), (STEPS, 0, False)])
def test_the_bar_begins_where_training_does_and_is_shown_once(train, begun, rank, shown):
    status, made, _, out, err = train(begun=begun, rank=rank)
    assert (status, err) == (0, "")
    assert (made["total"], made["initial"], made["disable"]) == (STEPS, begun, not shown)
    assert ("introduced" in out) == (begun < STEPS)
    assert "run\n" in out


@pytest.mark.parametrize(("terminal", "columns", "wide"), [(False, 40, True), (True, 110, True), (True, 109, False)])
def test_a_narrow_terminal_has_no_room_for_the_rate(train, terminal, columns, wide):
    _, made, told, *_ = train(terminal, columns)
    assert (made["bar_format"] is None) == wide
    assert made["mininterval"] == (0.2 if terminal else 10)  # in a file each refresh is one more line
    rates = [re.search("lr (.*?),", words) for words in told["set_postfix_str"]]
    assert [rate and float(rate[1]) for rate in rates] == ([0.002, 0.003] if wide else [None, None])
    assert [re.findall(r"loss (\S+),.* (\S+) tokens/s", words) for words in told["set_postfix_str"]] == [
        [("0.500", "10,000")],
        [("0.250", "10,000")],
    ]  # not of the first step, which had no loss


@pytest.mark.parametrize(
    ("begun", "seconds", "time"),
    [(0, 600, "10 min"), (5, 3700, "1 h 2 min"), (0, 61, "1 min"), (0, 60, ""), (0, None, "")],
)
def test_the_time_to_come_is_told_after_some_steps_if_it_is_long(train, begun, seconds, time):
    told = train(begun=begun, seconds=seconds)[2]["write"]
    assert [re.findall(rf"step (\d+): .*\b{time}\b.*\b{FIRST} steps", words) for words in told] == (
        [[f"{begun + FIRST}"]] if time else []
    )


@pytest.mark.parametrize(
    ("ended", "status", "words"),
    [
        (KeyboardInterrupt(), 130, [r"`minitransformer resume run\n`", "step 8"]),
        (Diverged("the loss is not finite after step 9"), 1, ["after step 9", r"run\n/checkpoints", "--warmup-steps"]),
    ],
    ids=["interrupted", "diverged"],
)
def test_a_training_that_ends_early_says_how_to_go_on(train, ended, status, words):
    found, *_, out, err = train(begun=5, ended=ended)
    assert (found, out) == (status, "introduced\n")
    assert len(err.splitlines()) == 2  # the first one ends that of the bar
    assert all(word in err for word in words)


@pytest.mark.parametrize(
    ("right", "shown"),
    [
        ([1, 0, 1, 0], [0, 1, 3]),
        ([1, 1, 0, 1], [0, 1, 2]),
        ([1, 1, 1], [0, 1, 2]),
        ([0, 1, 0, 0], [1, 0, 2]),
        ([1, 1, 1, 1, 1], [0, 1, 2]),
        ([0, 0, 0, 0], [0, 1, 2]),
        ([1], [0]),
        ([0], [0]),
    ],
)
def test_an_evaluation_shows_three_samples_of_which_wrong_ones_matter_more(right, shown):
    samples = [Sample(f"s{i}", ["good", "fine"], "good" if is_right else "bad") for i, is_right in enumerate(right)]
    trainer = SimpleNamespace(step=1234, waited=0, task=SimpleNamespace(measures=(), noun="strings"))
    first, *lines = progress._describe_evaluation(Scores(0.25, 0.5, 1.5, samples), trainer)
    number = f"{len(right)} held-out string{'s' if len(right) > 1 else ''}"
    assert re.fullmatch(rf"step 1,234: 25\.0* % .*\b{number}", first)
    expected = [[f"  ✓ s{i}  ->  good"] if right[i] else [f"  ✗ s{i}  ->  bad", "good or fine"] for i in shown]
    found = [line if "->" in line else line.split(maxsplit=3)[3] for line in lines]
    assert found == [line for sample in expected for line in sample]
