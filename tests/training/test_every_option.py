"""Every option of training and of data: a run that is stopped and resumed ends as one that never was.

Options and their values come from the classes that declare them, so one that is added tomorrow is tested on that day.
"""

import random
import signal
from contextlib import suppress

import pytest
from option_values import values_of
from run_contents import agree

from minitransformer.runs import Configuration, load
from minitransformer.runs.options import TrainingOptions
from minitransformer.tasks import DataOptions, build
from minitransformer.training import (
    Trainer,
    continue_from,
    create_run,
    resume,
)

pytestmark = pytest.mark.numpy_only("it trains in processes and threads, which need NumPy")

MODEL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "d_ff": 12, "dropout": 0.2, "positions": "rotary"}
TRAINING = {
    "steps": 7, "warmup_steps": 3, "batch_tokens": 40, "evaluate_every": 2, "save_every": 3, "average_last": 3,
    "keep": 9, "workers": 1, "micro_batches": 2, "schedule": "warmup",
}  # fmt: skip
ADAPTING = TRAINING | {"average_last": 1}
NEAR = TRAINING | {"train_pairs": 30, "held_out": 3, "valid_pairs": 2, "longest": 5, "vocabulary": 40, "min_count": 1}
NEAR |= {"window": 12, "characters": 300, "held_out_characters": 90, "valid_characters": 40}
NEAR |= {"epochs": 0.5, "clip": 0.2, "peak": 0.01, "patience": 2, "loss_block": 3, "lora": 2}
"""The numbers near which values of options are drawn."""
BESIDE = {"lora_alpha": {"lora": 2}, "lora_on": {"lora": 2}, "peak": {"schedule": "linear"}}
BESIDE |= {name: {"share_vocabulary": False} for name in ("source_tokens", "target_tokens")}
BESIDE |= {"min_count": {"source_tokens": "words", "target_tokens": "words"}}
"""What an option needs beside it to have an effect."""
WORDS = "the little cat sees a big dog and the old dog hears some small birds here"


@pytest.fixture(autouse=True)
def without_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr("os.fsync", lambda number: None)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Files of text, and a run to train on."""
    folder, rng = tmp_path_factory.mktemp("texts"), random.Random(0)
    lines = [" ".join(rng.choices(WORDS.split(), k=rng.randint(2, 7))) for _ in range(60)]
    (folder / "text.tsv").write_text("".join(f"{line}\t{line.upper()}\n" for line in lines))
    for name in "abc":
        (folder / f"{name}.txt").write_text("\n".join(rng.sample(lines, 40)))
    train(folder / "run", "text", folder, {"steps": 2})
    return folder


def given_to(task, folder):
    """Return the data of a task."""
    if task == "copy":
        return {"train_pairs": 30, "held_out": 3, "valid_pairs": 2}
    if task == "text":
        return {"source": folder / "text.tsv", "held_out": 3, "valid_pairs": 2}
    read = {"text": [folder / f"{name}.txt" for name in "abc"], "window": 12}
    return read | {"characters": 300, "held_out_characters": 90, "valid_characters": 40}


def train(path, task, folder, options, stop=None, start=None):
    """Train a small model, to the end or until an interruption after a step; return its folder."""
    values = (ADAPTING | {"start": folder / "run"} if start else MODEL | TRAINING) | given_to(task, folder) | options
    if any(options.get(name) for name in ("epochs", "minutes")):
        del values["steps"]
    made = continue_from(start, build(task), values) if start else Configuration.of_task(build(task), **values)
    trainer = Trainer(made, start=start)
    run = create_run(path, trainer.configuration, trainer.corpus)
    with suppress(KeyboardInterrupt):
        trainer.train(run, lambda *_: signal.raise_signal(signal.SIGINT) if trainer.step == stop else None)
    return run


def resumes(path, texts, task, name, value):
    """Compare a run that was stopped with a whole one; return False if the task refuses the value before any work."""
    options = {name: value} | BESIDE.get(name, {})
    start = load(texts / "run") if "lora" in options else None
    try:
        whole = train(path / "whole", task, texts, options, start=start)
    except ValueError:
        assert not (path / "whole").exists()
        return False
    last = whole.measurements.read()[-1]["step"]
    stopped = train(path / "stopped", task, texts, options, max(1, last // 2), start)
    trainer = resume(stopped, pytest.fail)
    assert 0 < trainer.step < last or last == 1
    if options.get("minutes"):  # whose number of steps the clock decides
        trainer.train(stopped)
        return True
    assert trainer.configuration == whole.configuration()
    trainer.train(stopped)
    agree(stopped.path, whole.path)
    return True


def all_values(kind):
    """Return the options that have values here, with these."""
    found = {name: values_of(kind, name, NEAR.get(name)) for name in kind.declarations()}
    return [pytest.param(name, values, id=name) for name, values in found.items() if values]


@pytest.mark.parametrize(("name", "values"), all_values(TrainingOptions))
def test_a_run_with_this_option_of_training_resumes_to_the_bit(tmp_path, texts, name, values):
    uses_lora = "lora" in {name, *BESIDE.get(name, ())}
    tasks = {value: "text" if uses_lora or value == "bleu" else "copy" for value in values}
    done = [resumes(tmp_path / f"{value}", texts, task, name, value) for value, task in tasks.items()]
    assert sum(done) > 1 or len(values) == 1  # one value may be too small for the sentences


@pytest.mark.parametrize(("name", "values"), all_values(DataOptions))
def test_a_run_with_this_option_of_data_resumes_to_the_bit(tmp_path, texts, name, values):
    tasks = "text", "characters"
    done = [resumes(tmp_path / f"{task} {value}", texts, task, name, value) for task in tasks for value in values]
    assert sum(done) > 1
