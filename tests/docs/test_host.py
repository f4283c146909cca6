"""What a repository host shows of the Markdown files: links that lead somewhere, and lists that are complete."""

import json
import re
import subprocess
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

from minitransformer import ops

ROOT = Path(__file__).parents[2]
FILES = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
TEXTS = [ROOT / name for name in FILES.stdout.split()] or [*ROOT.glob("*.md"), *ROOT.glob("[dt]*/**/*.md")]
FENCE = re.compile(r"^( *)```.*?^\1``` *$", re.M | re.S)
LINK = re.compile(r"\]\(<?([^)\s>]+)>?\)|(?:src|href|srcset)=\"([^\"]+)\"")
MADE = {"explorer/index.html"}
"""What only the built site has."""


TEXTS = [path for path in TEXTS if path.name != "introduction.md"]  # a part of the gallery


@cache
def anchors(path):
    """Return the addresses inside a file: its headings as a host writes them, HTML anchors, and numbered equations."""
    text = path.with_suffix(".md").read_text(encoding="utf-8")
    found = re.findall(r"<a id=\"([^\"]+)\"", text) + [f"eq-{n}" for n in re.findall(r"\\qquad \((\d+)\)", text)]
    for heading in re.findall(r"^#+ +(.*)$", FENCE.sub("", text), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.lower())
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.append(f"{name}-{found.count(name)}" if name in found else name)
    return {*found}


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(path):
    text = path.read_text(encoding="utf-8")
    if path.parent.name == "ko" and path.name[0].isdigit():  # its source links as the English text does
        cells = json.loads(path.with_suffix(".ipynb").read_text(encoding="utf-8"))["cells"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    prose = re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))
    for link in (found[1] or found[2] for found in LINK.finditer(prose)):
        place, _, anchor = link.partition("#")
        target = path.parent / unquote(place) if place else path
        if not link.startswith(("https://", "mailto:")) and link not in MADE:
            assert target.exists(), link
            assert not anchor or target.suffix not in (".md", ".ipynb") or anchor in anchors(target), link


def title(path):
    return re.search(r"^# (.+)$", path.read_text(encoding="utf-8"), re.M)[1]


@pytest.mark.parametrize(
    ("index", "listed"),
    [
        ("tutorials", sorted((ROOT / "tutorials").glob("[0-9]*.md"))),
        ("derivations", [*(ROOT / "docs" / "derivations").glob("*.md")]),
        ("decisions", [*(ROOT / "docs" / "decisions").glob("*.md")]),
        ("guides", [*(ROOT / "docs" / "guides").glob("*.md")]),
        ("api", [*(ROOT / "docs" / "api").glob("*.md")]),
    ],
)
def test_a_list_names_what_is_there(index, listed):
    text = (ROOT / "docs" / index / "index.md").read_text(encoding="utf-8")
    links = {Path(link).stem: words for words, link in re.findall(r"^\|.*?\[([^]]+)\]\(([^)#]+)\)", text, re.M)}
    expected = {path.stem: title(path) for path in listed if path.stem != "index"}
    assert links == expected or (index == "api" and links.keys() == expected.keys())


def test_the_operations_are_listed_for_a_reader():
    listed = re.findall(
        r"`(\w+)`", " ".join(re.findall(r"^\|.*$", (ROOT / "docs/api/ops.md").read_text(encoding="utf-8"), re.M))
    )
    assert {*listed} == {*ops.__all__} - {"registry", "alibi_slopes"}


def test_the_tutorials_are_listed_with_what_they_say_of_themselves():
    text = (ROOT / "docs" / "tutorials" / "index.md").read_text(encoding="utf-8")
    for path in sorted((ROOT / "tutorials").glob("[0-9]*.md")):
        said = " ".join(path.read_text(encoding="utf-8").split())
        row = re.search(rf"^\| {int(path.name[:2])} \| \[.*?\| (.*?) \| (\d+) \+ (\d+) \|$", text, re.M)
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", said)
        assert f"you can** - {row[1]}" in plain, path.name
        assert f"**Time:** {row[2]} minutes to read, {row[3]} to do" in said, path.name
