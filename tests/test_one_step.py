"""How far a reader must follow one training step: its files, its functions, and the calls from the command to it."""

import sys
from pathlib import Path

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.apps.cli import main
from minitransformer.data import Batch
from minitransformer.train import training_step

ROOT = str(Path(mt.__file__).parent)
FILES, FUNCTIONS, CALLS = 36, 118, 8
"""Lower these when there are fewer; functions without a name, such as comprehensions, do not count."""
SMALL = ["--d-model", "8", "--n-heads", "2", "--n-layers", "1", "--d-ff", "8", "--steps", "1", "--workers", "1"]


@pytest.mark.numpy_only("CuPy's double has functions of its own")
def test_one_step_of_the_smallest_model_runs_through_few_files_and_functions():
    model = mt.nn.Transformer(20, 20, d_model=16, n_heads=2, n_layers=1, d_ff=32)
    optimiser, rng = mt.optim.Adam(model.parameters()), np.random.default_rng(0)
    source, target = rng.integers(3, 20, (4, 5)), rng.integers(3, 20, (4, 7))
    batch, found = Batch(source, target[:, :-1], target[:, 1:]), set()
    training_step(model, optimiser, batch, 1e-3, 0.1)  # fills what is computed once

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOT) and not code.co_name.startswith("<"):
            found.add((code.co_filename, code.co_firstlineno))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        training_step(model, optimiser, batch, 1e-3, 0.1)
    finally:
        sys.setprofile(before)
    assert len({file for file, _ in found}) <= FILES, sorted(found)
    assert len(found) <= FUNCTIONS, sorted(found)
    assert len(found) > 80  # the test itself measures something


def test_few_calls_lie_between_the_command_and_a_step(monkeypatch, tmp_path):
    chain = []

    def step(*_):
        frame = sys._getframe(1)
        while frame.f_code is not main.__code__:
            chain.append(frame.f_code.co_name)
            frame = frame.f_back
        raise KeyboardInterrupt

    monkeypatch.setattr("minitransformer.training.trainer.shared_step", step)
    assert main(["train", "copy", *SMALL, "--out", str(tmp_path / "run")]) == 130
    assert 0 < len(chain) <= CALLS, chain[::-1]
