"""The printed sheet shows the formulas of the derivations, and is made from what they say now."""

import json
import re
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PDF, SVG = (ROOT / "docs" / "pictures" / f"sheet.{kind}" for kind in ("pdf", "svg"))
FACTS = json.loads(xml.parse(SVG).find("{*}metadata").text)


@pytest.fixture
def sheet(monkeypatch):
    """The program that makes the sheet; ``.ci/run`` installs what it needs."""
    pytest.importorskip("yaml", reason="yaml is not installed: pip install -e .[docs]")
    monkeypatch.syspath_prepend(ROOT / "docs")
    import sheet

    return sheet


def words(text):
    """Return text without spaces and without the marks that align equations."""
    return re.sub(r"[\s&]", "", text)


@pytest.mark.parametrize(("source", "number", "formula"), FACTS["formulas"])
def test_a_formula_stands_in_its_source_word_for_word(sheet, source, number, formula):
    text = sheet.text_of(source)
    blocks = [block for block in re.findall(r"^\$\$\n(.*?)^\$\$$", text, flags=re.M | re.S) if f"({number})" in block]
    left, relation, right = sheet.split_relation(formula)
    parts = [words(part) for part in (left, relation, *re.split(r"\\q?quad", right))]
    assert any(all(part in words(place) for part in parts) for place in (blocks if number else [text]))


def test_the_sheet_is_made_from_the_sources_of_now(sheet):
    assert FACTS["formulas"] == [list(formula) for formula in sheet.all_formulas()], "run python docs/sheet.py"
    assert FACTS["page"] == sheet.digest(sheet.page().encode()), "run python docs/sheet.py"
    assert FACTS["pdf"] == sheet.digest(PDF.read_bytes()), "the PDF and the SVG are of different runs"


def test_every_block_of_the_drawing_leads_to_the_sheet_and_back(sheet):
    drawn = re.findall(r'class="code".*?>(\w+)<', sheet.DRAWING.read_text(encoding="utf-8"))
    assert set(drawn) == set(sheet.BLOCKS)
    assert {number for numbers in sheet.BLOCKS.values() for number in numbers} == {*range(1, len(sheet.PARTS) + 1)}
