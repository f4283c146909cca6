"""The guide to proving one's own operation is run, block by block, and what it shows is what happens."""

import re
from pathlib import Path

import pytest

import minitransformer as mt
from minitransformer.pytest_plugin import row

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "prove-your-own-operation.md"
BLOCKS = re.findall(r"^```(python|text)\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.M | re.S)


def numbers_apart(text):
    """Leave out the digits of rounding: they differ from machine to machine."""
    return re.sub(r"\d\.\de-\d+", "#", text.strip())


def test_the_guide_shows_what_happens(capsys):
    kinds = [kind for kind, _ in BLOCKS]
    assert kinds == ["python", "python", "text", "python", "text", "python", "text"]
    (first, check, wrong, right, proof, drawn, table) = (text for _, text in BLOCKS)
    names: dict = {}
    exec(first, names)
    with pytest.raises(AssertionError) as error:
        exec(check, names)
    assert str(error.value) == wrong.strip()
    shown = table.splitlines()[1].split("  ")
    assert [cell.strip() for cell in shown if cell][:-1] == row(error.value.report)[:-1]
    exec(right, names)
    assert numbers_apart(capsys.readouterr().out) == numbers_apart(proof)
    exec(drawn, names)
    names["test_gelu"]()


def test_the_guide_to_the_exercises_counts_them_and_shows_what_they_say(capsys):
    guide = (GUIDE.parent / "exercises.md").read_text(encoding="utf-8")
    words = {80: "Eighty"}
    chapters = {exercise.chapter for exercise in mt.learn.bank()}
    assert f"{words[len(mt.learn.bank())]} exercises in eleven chapters" in guide
    assert len(chapters) == 11
    exec(re.search(r"^```python\n(.*?)^```$", guide, re.M | re.S)[1], {})
    assert capsys.readouterr().out == "softmax-backward: right.\n"

    def backward(q, k, v, w, d_y):
        d_s = w * (d_y @ v.swapaxes(-1, -2))
        root = q.shape[-1] ** 0.5
        return d_s @ k / root, d_s.swapaxes(-1, -2) @ q / root, w.swapaxes(-1, -2) @ d_y

    mt.learn.check("attention-backward", backward)
    shown = re.search(r"^```text\n(.*?)\n\n\(", guide, re.M | re.S)[1]
    assert capsys.readouterr().out.strip() == shown
