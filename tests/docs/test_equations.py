"""Docstring, code and derivation of an operation share one numbering of equations."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHARED = ("__init__", "heads")  # heads.py serves two operations, whose derivations have its equations
OPERATIONS = sorted(path for path in (ROOT / "minitransformer" / "ops").glob("*.py") if path.stem not in SHARED)
DERIVATIONS = {path.stem: path for path in (ROOT / "docs" / "derivations").glob("*.md") if path.stem != "index"}

HAT = "\u0302"
NUMBER = re.compile(r"\((\d+)\)")
LATEX = {
    "alpha": "α", "chi": "χ", "Delta": "Δ", "delta": "δ", "ell": "ℓ", "eta": "η", "gamma": "γ", "kappa": "κ",
    "lambda": "λ", "mu": "μ", "nu": "ν", "omega": "ω", "Phi": "Φ", "rho": "ρ", "sigma": "σ", "varphi": "φ", "zeta": "ζ",
}  # fmt: skip
LATEX_NAME = re.compile(r"(\\bar)?\s*\{?\s*(\\hat)?\s*(\\mathrm\{\w+\}|\\(?!hat|bar)[A-Za-z]+|[A-Za-z])\}?")


def derivation_of(operation):
    return DERIVATIONS[operation.stem.replace("_", "-")].read_text(encoding="utf-8")


def equations(derivation):
    """Return what each numbered equation of a derivation defines: a name, or several on one line."""
    found = {}
    prose = re.sub(r"^```.*?^```$", "", derivation, flags=re.M | re.S)
    for block in re.findall(r"^\$\$\n(.*?)^\$\$$", prose, flags=re.M | re.S):
        names = set()
        for line in block.splitlines():
            formula = re.split(r"&&|\\q?quad\s*\(", line)[0]  # reasons and shapes stand behind &&
            parts = [part.split("=") for part in re.split(r"\\q?quad|&(?!=)|,\s", formula) if "=" in part]
            heads = {name_of(part[0]) for part in parts} | {
                "∂" for part in parts for side in part[:-1] if r"\frac{\partial" in side
            }
            if "=" not in line and re.match(r"\\bar|\\frac|\w", line):  # the left-hand side on its own
                heads = {name_of(line)}
            names = heads - {""} or names
            if tag := re.search(r"(?:quad|&|\\;|^)\s*\((\d+)\)[\s\\]*$", line):
                found.setdefault(int(tag[1]), names)
    return found | {int(n): set() for n in re.findall(r"\. \((\d+)\)$", prose, flags=re.M)}  # those in words


def name_of(left):
    """Return a left-hand side of LaTeX as a docstring writes it, without its indices: d_x of \\bar x_{ij}."""
    left = left.replace("&", "").strip()
    if left.startswith(r"\frac{\partial"):
        return "∂"
    match = LATEX_NAME.match(left)
    if not match:
        return ""
    bar, hat, letter = match.groups()
    letter = re.sub(r"\\mathrm\{(\w+)\}", r"\1", letter).lstrip("\\")
    return ("d_" * bool(bar) + LATEX.get(letter, letter) + HAT * bool(hat)).lower()


def quoted(operation):
    """Return the names on the left of each numbered line of a docstring."""
    found = {}
    for line in ast.get_docstring(ast.parse(operation.read_text(encoding="utf-8"))).splitlines():
        formula, *rest = re.split(r" {2,}(?=\(\d+\))", line, maxsplit=1)
        if rest and line.startswith("    "):
            heads = re.findall(r"(?:^|\s{2,}|, )\s*((?:d_)?[^\W\d_]\u0302?(?:[a-z]*)|∂)[^\s=]*\s*(?==)", formula)
            for number in NUMBER.findall(re.match(r"[(\d), ]+", rest[0])[0]):
                found[int(number)] = {head.lower() for head in heads}
    return found


def cited(operation):
    """Return the numbers in an operation's comments and its docstrings."""
    source = operation.read_text(encoding="utf-8")
    comments = [line.partition("  # ")[2] or line.partition("    # ")[2] for line in source.splitlines()]
    tree = ast.parse(source)
    functions = [ast.get_docstring(node) or "" for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {int(n) for text in (*comments, *functions) for n in re.findall(r"(?<![\w)])\((\d+)\)(?!\w)", text)}


@pytest.mark.asks("docs/derivations/NAME.md; docstring and comments cite its equations by number")
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda path: path.stem)
def test_a_docstring_quotes_equations_by_the_numbers_of_its_derivation(operation):
    numbered, lines = equations(derivation_of(operation)), quoted(operation)
    assert lines, "no equation has a number"
    for number, names in lines.items():
        assert number in numbered, f"({number}) is not in the derivation"
        if names and numbered[number]:
            assert names & numbered[number], (number, names, numbered[number])


@pytest.mark.asks("docs/derivations/NAME.md; docstring and comments cite its equations by number")
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda path: path.stem)
def test_comments_cite_equations_of_the_docstring_and_all_of_them_are_in_the_code(operation):
    lines = quoted(operation).keys()
    module = ast.get_docstring(ast.parse(operation.read_text(encoding="utf-8")))
    in_prose = {int(n) for n in re.findall(r"(?<=\w )\((\d+)\)", module)}
    assert cited(operation) <= lines | in_prose
    assert cited(operation) | in_prose <= equations(derivation_of(operation)).keys()


@pytest.mark.parametrize("derivation", DERIVATIONS)
def test_a_derivation_numbers_its_equations_in_order_and_cites_no_others(derivation):
    text = DERIVATIONS[derivation].read_text(encoding="utf-8")
    numbers = sorted(equations(text))
    assert numbers == list(range(1, len(numbers) + 1))
    code = "\n".join(re.findall(r"^```\{code-cell\}.*?^```$", text, flags=re.M | re.S))
    assert {int(n) for n in re.findall(r"# \((\d+)\)", code)} <= set(numbers)
