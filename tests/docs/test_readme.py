"""What the README shows is what is in the project, and its Python runs."""

import ast
import re
from pathlib import Path

import minitransformer as mt

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"^```python\n(.*?)^```$", README, re.M | re.S)


def functions(source):
    """Return the functions of a source by name, as their code alone: without comments and docstrings."""
    found = {}
    for function in ast.parse(source).body:
        if isinstance(function, ast.FunctionDef):
            if ast.get_docstring(function) is not None:
                function.body = function.body[1:]
            found[function.name] = ast.unparse(function)
    return found


def test_the_code_that_is_shown_is_that_of_the_operation():
    shown = functions(PYTHON[0])
    softmax = functions((ROOT / "minitransformer" / "ops" / "softmax.py").read_text(encoding="utf-8"))
    assert shown == {name: softmax[name] for name in ("forward", "backward")}


def test_the_example_runs(capsys):
    exec(PYTHON[1], {})
    assert capsys.readouterr().out.startswith("[[ 0.04")


def test_every_link_leads_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "tutorials").glob("*.md")]:
        prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        for link in re.findall(r"\]\(([^)#]+)\)", prose):
            assert link.startswith("https://") or (page.parent / link).exists(), f"{page.name}: {link}"


def test_the_packages_are_all_there():
    contributing = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
    packages = set(re.findall(r"^\| \[`([a-z]+)/`\]", contributing, re.M))
    package = Path(mt.__file__).parent
    assert packages == {path.name for path in package.iterdir() if (path / "__init__.py").exists()}
