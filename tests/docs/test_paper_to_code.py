"""The files and names that paper-to-code, the glossary and the guarantees link to exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("paper-to-code.md", "glossary.md", "promises.md")

LINK = re.compile(r"\[((?:[^][]|\[[^]]*\])*?)\]\(([^)\s]+)\)")
SECTIONS = [
    *("1", "2", "3", "3.1", "3.2", "3.2.1", "3.2.2", "3.2.3", "3.3", "3.4", "3.5", "4"),
    *("5", "5.1", "5.2", "5.3", "5.4", "6", "6.1", "6.2", "6.3"),
]


def text_of(page):
    return (DOCS / page).read_text(encoding="utf-8")


def tables(page):
    """Return a page's tables by their heading: rows of cells, without the line below the column titles."""
    found, heading = {}, ""
    for line in text_of(page).splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith("|") and not set(line) <= set("|- "):
            found.setdefault(heading, []).append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def links(page):
    """Return the links that lead to a file: what is to be read, and where it leads."""
    return [(text, target) for text, target in LINK.findall(text_of(page)) if "://" not in target]


def names_in(tree):
    """Return the names that a module or a class defines, and what defines each."""
    found = {}
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            found[statement.name] = statement
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            found |= {target.id: statement for target in targets if isinstance(target, ast.Name)}
    return found


@cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def is_defined(path, names):
    tree = parsed(path)
    for name in names:
        tree = names_in(tree).get(name) if isinstance(tree, ast.Module | ast.ClassDef) else None
    return tree is not None


@pytest.mark.parametrize("page", PAGES)
def test_every_name_is_defined_where_it_is_said_to_be(page):
    seen = 0
    for text, target in links(page):
        match = re.fullmatch(r"`(\w+)((?:\.\w+)+)`", text)
        if not target.endswith(".py") or not match or match[2] == ".py":
            continue
        path = (DOCS / target).resolve()
        assert match[1] == path.stem, (text, target)
        assert is_defined(path, match[2].strip(".").split(".")), (text, target)
        seen += 1
    assert seen > 10


def test_every_word_in_code_is_in_a_file_of_its_row():
    """An argument such as `share_embeddings` has no definition here: it must occur in a file that is linked."""
    seen = 0
    for heading, rows in tables("paper-to-code.md").items():
        for row in rows:
            line = " ".join(row)
            files = [DOCS / target for _, target in LINK.findall(line) if target.endswith((".py", ".toml"))]
            text = "".join(file.read_text(encoding="utf-8") for file in files)
            for code in re.findall(r"`([^`]+)`", LINK.sub("", line)):
                if command := re.fullmatch(r"minitransformer (\w+)", code):
                    assert (DOCS.parent / "minitransformer" / "apps" / "cli" / f"{command[1]}.py").is_file(), code
                elif not code.startswith(("--", '"')):
                    for word in re.findall(r"[A-Za-z_]\w*(?==)|^\w+", code):
                        assert re.search(rf"\b{word}\b", text), (heading, row[0], code)
                seen += 1
    assert seen > 10


def test_all_of_the_paper_is_there():
    found = tables("paper-to-code.md")
    assert [row[0] for row in found["Equations"][1:]] == ["(1)", "multi-head", "(2)", "positional", "(3)"]
    assert [row[0] for row in found["Sections"][1:] if row[0]] == SECTIONS
    assert [row[0] for row in found["Figures"][1:] if row[0]] == [f"Figure {n}" for n in range(1, 6)]
    rows = [(row[0], row[1]) for row in found["Tables"][1:]]
    assert sorted({table for table, _ in rows}) == [f"Table {n}" for n in range(1, 5)]
    assert [row for table, row in rows if table == "Table 1"] == [
        "Self-Attention", "Recurrent", "Convolutional", "Self-Attention (restricted)"
    ]  # fmt: skip
    of_table_3 = [row.split()[0] for table, row in rows if table == "Table 3"]
    assert of_table_3 == ["base", "(A)", "(B)", "(C)", "(C)", "(D)", "(E)", "big"]
