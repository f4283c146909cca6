"""The guide to proving one's own operation is run, block by block, and what it shows is what happens."""

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "prove-your-own-operation.md"
BLOCKS = re.findall(r"^```(python|text)\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.M | re.S)


def numbers_apart(text):
    """Leave out the digits of rounding: they differ from machine to machine."""
    return re.sub(r"\d\.\de-\d+", "#", text.strip())


def test_the_guide_shows_what_happens(capsys):
    kinds = [kind for kind, _ in BLOCKS]
    assert kinds == ["python", "python", "text", "python", "text", "python"]
    (first, check, wrong, right, proof, drawn) = (text for _, text in BLOCKS)
    names: dict = {}
    exec(first, names)
    with pytest.raises(AssertionError) as error:
        exec(check, names)
    assert str(error.value) == wrong.strip()
    exec(right, names)
    assert numbers_apart(capsys.readouterr().out) == numbers_apart(proof)
    exec(drawn, names)
    names["test_gelu"]()
