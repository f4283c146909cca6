"""What the exercises, the clinic and the grading refuse, by the kind of error and the values found."""

import os
import re
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from toml_cases import cases_from_toml, told

MODULES = "bank calls grading language referee solutions verdict model.parts model.training trainings.engine"
MODULES += " clinic.broken_scripts clinic.show clinic.visit"


def raised(call):
    """Return the error of a call."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 (it is what is looked at)
        eval(compile(call, "<a call>", "eval"), NAMES)
    return caught.value


def where(**variables):
    """Return a decorator, which sets variables of the environment during a call."""
    return patch.dict(os.environ, variables)


NAMES = {name.split(".")[-1]: import_module(f"minitransformer.apps.learn.{name}") for name in MODULES.split()}
NAMES |= {"np": np, "Path": Path, "raised": raised, "where": where}


@cases_from_toml
def test_a_call_says(monkeypatch, tmp_path, call, words):
    monkeypatch.chdir(tmp_path)
    assert re.search(words, told(call, NAMES), re.DOTALL)
