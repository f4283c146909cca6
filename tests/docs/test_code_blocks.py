"""Code in the docs says what language it is in, and fits into a column."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "docs/api", "docs/decisions", "docs/guides", "docs/tutorials")
DOCS = [path for folder in FOLDERS for path in (ROOT / folder).glob("*.md")]
CELLS = [*(ROOT / "docs" / "derivations").glob("*.md"), *(ROOT / "tutorials").glob("[0-9]*.md")]
"""Texts whose cells are run."""
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.M | re.S)
COLUMNS = {"text": 100}
"""What a program prints is shown as it is; 100 characters fit at the width of a laptop."""


def name_of(path):
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", [ROOT / "README.md", *DOCS], ids=name_of)
def test_a_block_names_its_language(path):
    for language, code in BLOCK.findall(path.read_text(encoding="utf-8")):
        assert language, code


@pytest.mark.parametrize("path", [*DOCS, *CELLS], ids=name_of)
def test_code_fits_into_a_column(path):
    for language, code in BLOCK.findall(path.read_text(encoding="utf-8")):
        if not language.startswith("{") or path in CELLS:
            lines = [line for line in code.splitlines() if not line.startswith(":")]  # which are options of a cell
            wide = [line for line in lines if len(line) > COLUMNS.get(language, 88)]
            assert not wide, wide


def test_columns_of_tables_in_docstrings_are_apart():
    """A row that touches the next column stops the build of the site."""
    for path in sorted((ROOT / "minitransformer").rglob("*.py")):
        lines = path.read_text(encoding="utf-8").splitlines()
        edges = [i for i, line in enumerate(lines) if re.fullmatch(r" *=+( +=+)+", line)]
        for first, last in pairwise(edges):
            gaps = [match.span() for match in re.finditer(r"(?<==) +(?==)", lines[first])]
            rows = lines[first + 1 : last]
            for line in rows if all(rows) else ():  # not what stands between two tables
                assert all(not line[start:end].strip() for start, end in gaps), f"{path}: {line}"
