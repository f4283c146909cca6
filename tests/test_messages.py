"""Calls that are refused, with what their messages must name, and calls that are answered.

Only those that no test of their own package makes.
"""

# ruff: noqa: F401
# The calls of the tables use what is imported here.
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from toml_cases import toml_table

from minitransformer import console, data, decoding, gradients, nn, optim, parallel, runs, tasks, training
from minitransformer.apps.measure import changes, machine, means, pictures, positions, recall, recall_model, seeds
from minitransformer.apps.measure.speed import gpu, program
from minitransformer.apps.plots import attention, curves
from minitransformer.files import read_file, read_json
from minitransformer.runs.checkpoints import write_checkpoint
from minitransformer.runs.low_rank import adapt, merge
from minitransformer.runs.state import AverageState, TrainingState
from minitransformer.training import scores

SIZES = {"d_model": 8, "n_heads": 2, "n_layers": 1, "d_ff": 8, "positions": "learned", "max_length": 6}


def written(content, name="file"):
    """Write a file here and return its name."""
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return name


def configuration(task, **options):
    return runs.Configuration.of_task(tasks.build(task), **options)


def corpus(task, **options):
    return tasks.build(task).corpus(configuration(task, **options).data)


def edit(name, **values):
    """Change values in a JSON file of the run."""
    path = Path("../run", name)
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def rewrite(name="checkpoints/step-00000004.safetensors", state=(), **parts):
    """Change parts and the state of a checkpoint of the run."""
    found = runs.read_checkpoint(Path("../run", name))
    write_checkpoint(found.path, found._replace(**parts, state=found.state | dict(state)))


REFUSALS = (ValueError, TypeError, LookupError, RuntimeError, ArithmeticError, ImportError, RuntimeWarning)
SIX = recall_model.RecallSizes(n=6)
RUN = runs.RunFolder("../run")
WORDS = data.Words(data.Vocabulary(["<unk>", "a", "b"]))
MODEL = nn.Transformer(9, 7, **SIZES)
WRITER = nn.LanguageModel(9, **SIZES)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    sizes = {"d_model": 8, "n_heads": 2, "n_layers": 1, "d_ff": 8, "train_pairs": 20, "held_out": 4, "micro_batches": 1}
    steps = {"steps": 4, "evaluate_every": 2, "average_last": 2, "workers": 1, "blas_threads": 1}
    trainer = training.Trainer(configuration("reverse", **sizes, **steps))
    folder = training.create_run(tmp_path_factory.mktemp("trained") / "run", trainer.configuration, trainer.corpus)
    trainer.train(folder)
    return folder.path


@pytest.fixture
def _here(monkeypatch, tmp_path, run, request):
    """Be in an empty folder beside a copy of the run, for a call that looks for it."""
    if "run" in request.node.callspec.params["call"].lower():
        shutil.copytree(run, tmp_path / "run")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.usefixtures("_here")
@pytest.mark.parametrize(("call", "kind", "words"), toml_table(__file__, "REFUSED"))
def test_what_is_wrong_is_named(call, kind, words):
    with pytest.raises(REFUSALS) as error:
        eval(call, globals().copy())
    if isinstance(error.value, data.MissingExtraError):
        pytest.skip(f"{error.value}")
    assert type(error.value).__name__ == kind
    assert [word for word in words if word not in f"{error.value}"] == [], f"{error.value}"


@pytest.mark.numpy_only("the answers are the same with any library")
@pytest.mark.usefixtures("_here")
@pytest.mark.parametrize(("call", "answer"), toml_table(__file__, "ANSWERS"))
def test_what_is_right_is_answered(call, answer):
    found = eval(call, globals().copy())
    assert repr(found) == answer
