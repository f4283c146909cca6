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
