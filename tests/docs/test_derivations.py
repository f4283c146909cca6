"""Derivations are short, begin with a picture that has a description, and keep one order of sections."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "derivations"
DERIVATIONS = sorted(path for path in FOLDER.glob("*.md") if path.read_text(encoding="utf-8").startswith("---\n"))
SECTIONS = [
    "What it computes", "Jacobian", "Backward pass", "Cost and memory", "Numerical stability", "The code",
    "Worked example", "Formulas, run", "Common mistakes", "See also",
]  # fmt: skip


def words(text):
    """Return how many words are read: everything but the first lines and what stands in fences."""
    text = re.sub(r"\A---\n.*?^---\n", "", text, flags=re.M | re.S)
    return len(re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S).split())


def test_words_are_counted_without_first_lines_and_fences():
    assert words("---\na: b\n---\n# One\n\ntwo $three$\n```{code-cell}\nx = 1\n```\nfour\n") == 5


@pytest.mark.parametrize("path", DERIVATIONS, ids=lambda path: path.stem)
def test_a_derivation_has_at_most_2000_words(path):
    assert words(path.read_text(encoding="utf-8")) <= 2000


def test_how_to_read_a_derivation_comes_first_and_is_short():
    assert words((FOLDER / "how-to-read-a-derivation.md").read_text(encoding="utf-8")) <= 700
    listed = re.findall(r"^[a-z-]+$", (FOLDER / "index.md").read_text(encoding="utf-8"), flags=re.M)
    assert listed[0] == "how-to-read-a-derivation"


@pytest.mark.parametrize("path", DERIVATIONS, ids=lambda path: path.stem)
def test_a_picture_with_a_description_comes_before_the_first_section(path):
    beginning = path.read_text(encoding="utf-8").split("\n## ")[0]
    cell = re.search(r"^```\{code-cell\}.*?^```$", beginning, flags=re.M | re.S)
    assert cell
    assert re.search(r'^:mystnb: \{image: \{alt: "[^"]{40,}"\}\}$', cell[0], flags=re.M)
    assert "mt.plots.use_style()" in cell[0]
    assert ":tags: [hide-input]" in cell[0]


@pytest.mark.parametrize("path", DERIVATIONS, ids=lambda path: path.stem)
def test_sections_keep_their_order(path):
    found = re.findall(r"^## (.*)$", path.read_text(encoding="utf-8"), flags=re.M)
    shared = [name for name in found if name in SECTIONS]
    assert shared == [name for name in SECTIONS if name in shared]
    assert {"What it computes", "Formulas, run", "Common mistakes", "See also"} <= set(shared)


@pytest.mark.parametrize("path", DERIVATIONS, ids=lambda path: path.stem)
def test_lines_of_cells_fit_in_88_columns(path):
    text = path.read_text(encoding="utf-8")
    for cell in re.findall(r"^```\{code-cell\}.*?^```$", text, flags=re.M | re.S):
        assert not [line for line in cell.splitlines() if len(line) > 88 and not line.startswith(":mystnb:")]
