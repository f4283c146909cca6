"""Whole messages of calls that are refused: what was found, what was expected and what to do, word by word."""

import json
from pathlib import Path

import numpy as np
import pytest
from toml_cases import toml_table

from minitransformer import data, decoding, nn, sharding, tasks, training
from minitransformer.files import read_file, read_json
from minitransformer.training import scores
from minitransformer.training.low_rank import adapt, merge
from minitransformer.training.state import AverageState, TrainingState

SIZES = {"d_model": 8, "n_heads": 2, "n_layers": 1, "d_ff": 8, "positions": "learned", "max_length": 6}


def written(content, name="file"):
    """Write a file here and return its name."""
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return name


def configuration(task, **options):
    return training.Configuration.of_task(tasks.build(task), **options)


def corpus(task, **options):
    return tasks.build(task).corpus(configuration(task, **options).data)


MODULES = {
    "np": np,
    "json": json,
    "Path": Path,
    "data": data,
    "decoding": decoding,
    "sharding": sharding,
    "tasks": tasks,
    "training": training,
}
FUNCTIONS = (written, configuration, corpus, read_file, read_json, adapt, merge, AverageState, TrainingState)
NAMES = {
    **MODULES,
    **{function.__name__: function for function in FUNCTIONS},
    "scores": scores,
    "WORDS": data.Words(data.Vocabulary(["<unk>", "a", "b"])),
    "MODEL": nn.Transformer(9, 7, **SIZES),
    "WRITER": nn.LanguageModel(9, **SIZES),
}


@pytest.mark.parametrize(("call", "message"), toml_table(__file__, "CALLS"))
def test_what_is_wrong_is_said_word_by_word(monkeypatch, tmp_path, call, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, TypeError, LookupError, RuntimeError, ArithmeticError, ImportError)) as error:
        eval(call, NAMES.copy())
    if isinstance(error.value, data.MissingExtraError):
        pytest.skip(f"{error.value}")
    assert f"{type(error.value).__name__}: {error.value}" == message
