"""The Korean texts have the structure, the code and the numbers of the English ones."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAIRS = [("README.md", "README.ko.md")]
PAIRS += [(f"tutorials/{path.name}", f"tutorials/ko/{path.name}") for path in (ROOT / "tutorials" / "ko").glob("*.md")]
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)]+)\)")


def structure(text: str) -> list[str]:
    """Return what begins each block: heading level, list, table, picture, formula, code or prose."""
    text = FENCE.sub("```", text.split("\n---\n", 1)[-1])
    blocks = [block.strip() for block in re.split(r"\n\n+", text) if block.strip()]
    return [re.match(r"#+|- |\||!\[|\$\$|```|<details>|</details>|\+\+\+|\d+\. |", block)[0] for block in blocks]


def code(text: str) -> list[str]:
    """Return the blocks of code without their comments, descriptions of pictures and strings for people."""
    return [re.sub(r"#.*|^:.*\n|\"[^\"\n]*\"", "", block, flags=re.M) for block in FENCE.findall(text)]


def targets(text: str) -> list[str]:
    """Return where links lead, without the way out of a folder and without the languages of each other."""
    found = [re.sub(r"^(\.\./)+", "", target) for target in LINK.findall(FENCE.sub("", text))]
    return sorted(target for target in found if not re.search(r"README|/ko$", target))


def numbers(text: str) -> list[str]:
    """Return the numbers of the prose: those with a decimal point, thousands, per cent or in a formula."""
    prose = FENCE.sub("", text)
    return sorted(re.findall(r"\d[\d,]*\.\d+|\d{1,3}(?:,\d{3})+", prose))


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(("english", "korean"), PAIRS, ids=[korean for _, korean in PAIRS])
class TestKorean:
    def test_the_blocks_are_the_same(self, english, korean):
        assert structure(read(korean)) == structure(read(english))

    def test_the_code_is_the_same(self, english, korean):
        assert code(read(korean)) == code(read(english))

    def test_links_and_formulas_are_the_same(self, english, korean):
        assert targets(read(korean)) == targets(read(english))
        formulas = [re.findall(r"\$\$.*?\$\$", FENCE.sub("", read(name)), re.S) for name in (english, korean)]
        assert len(formulas[0]) == len(formulas[1])
        for ours, theirs in zip(*formulas, strict=True):
            assert re.sub(r"\\text\{[^}]*\}", "", ours) == re.sub(r"\\text\{[^}]*\}", "", theirs)

    def test_the_numbers_are_the_same(self, english, korean):
        assert numbers(read(korean)) == numbers(read(english))
