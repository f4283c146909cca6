"""A tiny run that has kept its checkpoints, and a session for it."""

from contextlib import contextmanager

import pytest

from minitransformer.apps.explorer import Session
from minitransformer.runs import Configuration, load
from minitransformer.tasks import build
from minitransformer.training import Trainer, create_run

TEXT = "nine thousand and seventy"
SIZES = {"d_model": 8, "n_heads": 2, "n_layers": 1, "d_ff": 12, "dropout": 0.0}
STEPS = {"steps": 2, "warmup_steps": 1, "evaluate_every": 1, "save_every": 1, "keep": 3, "workers": 1}
PAIRS = {"batch_tokens": 64, "train_pairs": 20, "held_out": 4, "valid_pairs": 2}


@pytest.fixture(scope="session")
def make_folder(tmp_path_factory):
    def make(**options):
        trainer = Trainer(Configuration.of_task(build("numbers"), **SIZES | STEPS | PAIRS | options))
        folder = create_run(tmp_path_factory.mktemp("explorer") / "run", trainer.configuration, trainer.corpus)
        trainer.train(folder)
        return folder

    return make


@pytest.fixture(scope="session")
def folder(make_folder):
    return make_folder()


@pytest.fixture(scope="session")
def text_session(tmp_path_factory):
    """A session for a run that continues texts."""
    path = tmp_path_factory.mktemp("texts")
    (path / "a.py").write_text("".join(f"x{i} = {i} + y\n" for i in range(40)), encoding="utf-8")
    data = {"text": [path / "a.py"], "window": 16, "batch_tokens": 64, "min_count": 1}
    trainer = Trainer(Configuration.of_task(build("characters"), **SIZES, **STEPS, **data, norm="rms"))
    folder = create_run(path / "run", trainer.configuration, trainer.corpus)
    trainer.train(folder)
    return Session(load(folder), folder)


@pytest.fixture(scope="session")
def run(folder):
    return load(folder)


@contextmanager
def short():
    """Cut translations off early: weights that are not trained find no end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("minitransformer.decoding.search.MORE_THAN_SOURCE", 1)
        yield


@pytest.fixture(scope="module", autouse=True)
def short_translations():
    with short():
        yield


@pytest.fixture(scope="session")
def session(run, folder):
    return Session(run, folder)


@pytest.fixture(scope="session")
def trace(session):
    """The answer to `trace` for a sentence, as in each module, although it is made before the first one begins."""
    with short():
        return session.trace({"text": TEXT})
