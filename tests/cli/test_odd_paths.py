"""Paths that no file can have, or that no file of JSON can hold: refused by option, before anything is made."""

import json
import os
import sys

import pytest

from minitransformer.apps.cli.options import OPTIONS, flag_of
from minitransformer.apps.learn import find
from minitransformer.options import OptionError
from minitransformer.runs import Configuration, RunError, load

LATIN_1 = os.fsdecode(b"caf\xe9")
PATHS = [name for name, declared in Configuration.declarations().items() if declared.metadata.get("path")]
any_name = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has file names that are no UTF-8")


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize(("path", "what"), [("caf\udce9", "UTF-8"), ("a\0b", "U\\+0000")])
def test_a_configuration_has_no_path_that_it_could_not_record(name, path, what):
    for value in [[path], ["x", path]] if name in ("text", "keep_good") else [path]:
        with pytest.raises(OptionError, match=f"{name} must be a path .*{what}.*, found"):
            Configuration.check({name: value})


@any_name
@pytest.mark.parametrize("name", sorted(OPTIONS.keys() & {*PATHS} - {"keep_good"}))
def test_a_text_whose_name_is_no_utf_8_leaves_no_folder(refused, name):
    task = {"text": "characters", "dictionary": "pronunciation", "data": "multi30k"}.get(name, "text")
    others = ["--source", "x"] if "target" in name or name == "valid_source" else []
    message = refused("train", task, *others, flag_of(name), LATIN_1, "--out", "run")
    assert flag_of(name) in message
    assert "UTF-8" in message
    assert not os.listdir()


@any_name
def test_a_run_in_a_folder_whose_name_is_no_utf_8_trains_and_translates(told, small_run):
    """Its own place is in none of its files."""
    sizes = [*("--d-model", 8, "--n-heads", 2, "--n-layers", 1, "--d-ff", 8, "--steps", 1, "--batch-tokens", 64)]
    assert told("train", "reverse", *sizes, "--train-pairs", 40, "--held-out", 4, "--out", LATIN_1)[0] == 0
    assert told("translate", LATIN_1, "12")[0] == 0
    status, out, error = told("train", "reverse", "--from", LATIN_1, "--out", "on")
    assert (status, out) == (2, "")
    assert "--from must be a path in UTF-8" in error
    assert not os.path.exists("on")


@any_name
@pytest.mark.numpy_only("--with needs NumPy")
def test_functions_from_a_folder_whose_name_is_no_utf_8_are_refused(refused):
    path = os.path.join(LATIN_1, find("warm-up").file)
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write(find("warm-up").solution)
    assert "--with must be a path in UTF-8" in refused("train", "reverse", "--with", LATIN_1, "--out", "run")
    assert os.listdir() == [LATIN_1]


@pytest.mark.parametrize("path", ["base\0x", "caf\udce9", "loop", "x" * 5000])
def test_a_start_that_somebody_wrote_into_a_run_is_refused_with_its_file(small_run, told, path):
    os.symlink("loop", "loop")
    assert told("train", "reverse", "--from", small_run, "--lora", 2, "--steps", 1, "--out", "run")[0] == 0
    file = os.path.join("run", "configuration.json")
    with open(file, encoding="utf-8") as opened:
        options = json.load(opened)
    with open(file, "w", encoding="utf-8") as opened:
        json.dump(options | {"start": path}, opened)
    with pytest.raises(RunError, match=r"configuration\.json|whose weights another run starts from"):
        load("run")
    for line in (["translate", "run", "12"], ["resume", "run"], ["train", "reverse", "--from", "run", "--out", "on"]):
        status, _, error = told(*line)
        assert status == 2, line
        assert len(error.splitlines()) == 1
