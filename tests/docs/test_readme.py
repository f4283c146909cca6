"""What the README shows is what is in the project, and its Python runs."""

import re
from pathlib import Path

import minitransformer as mt

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"^```python\n(.*?)^```$", README, re.M | re.S)


def test_the_page_is_the_page():
    page = (ROOT / "minitransformer" / "ops" / "softmax.py").read_text(encoding="utf-8")
    docstring = page[: page.index("from __future__")].rstrip()
    functions = page[page.index("def forward") :].rstrip()
    assert PYTHON[0].rstrip() == f"{docstring}\n\n\n{functions}"


def test_the_example_runs(capsys):
    exec(PYTHON[1], {})
    assert capsys.readouterr().out.startswith("[[ 0.04")


def test_every_link_leads_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "tutorials").glob("*.md")]:
        prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        for link in re.findall(r"\]\(([^)#]+)\)", prose):
            assert link.startswith("https://") or (page.parent / link).exists(), f"{page.name}: {link}"


def test_the_packages_are_all_there():
    rooms = set(re.findall(r"^\| \[`([a-z]+)/`\]", README, re.M))
    package = Path(mt.__file__).parent
    assert rooms == {path.name for path in package.iterdir() if (path / "__init__.py").exists()}
