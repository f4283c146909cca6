"""Code in the docs says what language it is in, and fits into a column."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = [
    ROOT / "README.md",
    *(ROOT / "docs").glob("*.md"),
    *(path for folder in ("api", "decisions", "guides", "tutorials") for path in (ROOT / "docs" / folder).glob("*.md")),
]
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.M | re.S)
COLUMNS = {"text": 100}
"""What a program prints is shown as it is; 100 characters fit at the width of a laptop."""

by_document = pytest.mark.parametrize("path", DOCS, ids=lambda path: path.relative_to(ROOT).as_posix())


@by_document
def test_a_block_names_its_language(path):
    for language, code in BLOCK.findall(path.read_text(encoding="utf-8")):
        assert language, code


@by_document
def test_code_fits_into_a_column(path):
    if path.name == "README.md":
        pytest.skip("the README is not on the site")
    for language, code in BLOCK.findall(path.read_text(encoding="utf-8")):
        if not language.startswith("{"):
            wide = [line for line in code.splitlines() if len(line) > COLUMNS.get(language, 88)]
            assert not wide, wide
