"""A learner's functions are loaded from their files, and what cannot be loaded is named."""

import re

import numpy as np
import pytest

from minitransformer.apps.learn import find
from minitransformer.apps.learn.answers import Missing, is_open, load_answers


def write(folder, name, text):
    path = folder / find(name).file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_functions_come_by_the_names_of_their_exercises(tmp_path):
    for name in ("product-rule", "unbroadcast"):
        write(tmp_path, name, "\ufeff" * (name == "unbroadcast") + find(name).solution)  # as some editors save it
    loaded = load_answers(tmp_path, ["unbroadcast", "product-rule"])
    assert list(loaded) == ["unbroadcast", "product-rule"]
    assert loaded["product-rule"](2.0, 3.0, 1.0) == (3.0, 2.0)
    assert loaded["unbroadcast"](np.ones((2, 3)), (3,)).tolist() == [2, 2, 2]


def test_all_that_is_missing_is_named_with_its_file_and_reason(tmp_path):
    solution = find("scaled-scores").solution
    write(tmp_path, "product-rule", "# a comment of mine\n" + find("product-rule").text)
    write(tmp_path, "chain-rule", "def backward(:\n")
    write(tmp_path, "softmax-backward", "import sys\nsys.exit()\n")
    write(tmp_path, "split-heads", "split = 3\n")
    write(tmp_path, "merge-heads", "")
    write(tmp_path, "scaled-scores", solution)
    names = ["product-rule", "chain-rule", "softmax-backward", "split-heads", "merge-heads", "unbroadcast"]
    with pytest.raises(Missing) as caught:
        load_answers(tmp_path, ["scaled-scores", *names])
    assert caught.value.names == tuple(names)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith(f"{len(names)} ")
    reasons = ["TODO", "Line 1 is not Python", "Line 2.*SystemExit", "split .*int", "merge", "learn reset unbroadcast"]
    for name, reason, line, place in zip(names, reasons, lines[1::2], lines[2::2], strict=True):
        assert re.search(f"^  {name}: .*{reason}", line), line
        assert place.strip() == str(tmp_path / find(name).file)


def test_an_answer_of_any_depth_is_no_open_exercise(tmp_path):
    exercise = find("product-rule")
    path = tmp_path / exercise.file
    path.parent.mkdir()
    path.write_text("def backward(x, y, d_z):\n    return y * d_z, x * d_z" + " + 0" * 3000 + "\n", encoding="utf-8")
    assert not is_open(exercise, path)
