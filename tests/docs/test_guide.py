"""What the guide to the exercises shows is what happens."""

import re
from pathlib import Path

import pytest

import minitransformer as mt

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "exercises.md"


def test_the_guide_to_the_exercises_shows_what_they_say(capsys):
    guide = GUIDE.read_text(encoding="utf-8")
    exec(re.search(r"^```python\n(.*?)^```$", guide, re.M | re.S)[1], {})
    assert capsys.readouterr().out == "softmax-backward: right.\n"

    def backward(q, k, v, w, d_y):
        d_s = w * (d_y @ v.swapaxes(-1, -2))
        root = q.shape[-1] ** 0.5
        return d_s @ k / root, d_s.swapaxes(-1, -2) @ q / root, w.swapaxes(-1, -2) @ d_y

    mt.learn.check("attention-backward", backward)
    shown = re.search(r"^```text\n(.*?)\n\n\(", guide, re.M | re.S)[1]
    assert capsys.readouterr().out.strip() == shown


@pytest.mark.parametrize("name", ["questions.md", "guides/hangul.md", "guides/hangul.ko.md"])
def test_the_code_of_a_document_runs_and_prints_what_is_shown(name, capsys, monkeypatch):
    monkeypatch.chdir(GUIDE.parents[2])
    text = (GUIDE.parents[1] / name).read_text(encoding="utf-8")
    names: dict = {}
    for code, shown in re.findall(r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", text, re.M | re.S):
        exec(code, names)
        assert capsys.readouterr().out == shown
    table = re.findall(r"^\|.* \| ([\d,]+) \| ([\d.]+) \| ([\d.]+) % \|$", text, re.M)
    for row, found in zip(table, names.get("rows", {}).values(), strict=True):
        shown = [float(cell.replace(",", "")) for cell in row]
        assert shown[:2] == pytest.approx(found[:2], rel=0.05, abs=0.2)
        assert shown[2] == pytest.approx(100 * found[2], rel=0.05, abs=0.5)  # in whole percent
    assert text.count("```text\n") == {"questions.md": text.count("\n## ")}.get(name, 6)
