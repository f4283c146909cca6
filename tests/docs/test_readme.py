"""What the README shows is what is in the project, and its Python runs."""

import re
import tomllib
from pathlib import Path

import minitransformer as mt

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"^```python\n(.*?)^```$", README, re.M | re.S)


def test_the_example_runs(capsys):
    (example,) = PYTHON
    exec(example, {})
    assert capsys.readouterr().out.startswith("[[ 0.04")


def test_the_moving_picture_ends_with_what_the_second_command_prints():
    picture = (ROOT / "docs" / "pictures" / "training.svg").read_text(encoding="utf-8")
    assert "✓ vierhundertzweiunddreißig" in picture.split('class="frame last"')[1]
    assert "<script" not in picture


def test_its_numbers_are_those_of_the_project():
    cards = tomllib.loads((ROOT / "tests" / "gallery" / "cards.toml").read_text(encoding="utf-8"))
    assert re.search(r"(\d+) mistakes", README)[1] == str(len(cards))
    korean = (ROOT / "README.ko.md").read_text(encoding="utf-8")
    assert re.search(r"실수 (\d+)개", korean)[1] == str(len(cards))
    for n in (re.search(r"(\d+)\+ exercises", README)[1], re.search(r"문제 (\d+)여 개", korean)[1]):
        assert (
            0.8 * len(mt.learn.bank()) <= int(n) <= len(mt.learn.bank())
        )  # a round number, which one more leaves true
