"""Write the formulas that the explorer shows, as MathML, from the TeX of the derivations.

The first lines of each derivation name the equations that are an operation's forward and backward formulas, by their
numbers. Of an equation that is derived in several steps, the left-hand side and the last step are shown::

    python docs/formulas.py                   # write minitransformer/apps/explorer/formulas.json
    python docs/formulas.py --check           # write nothing, fail if the file differs
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from itertools import chain, repeat
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import yaml

HERE = Path(__file__).parent
TARGET = HERE.parent / "minitransformer" / "apps" / "explorer" / "formulas.json"

NUMBER = re.compile(r"(?:\\q?quad|&|^)\s*\((\d+)\)")
SIDES = ("forward", "backward")
Rows = list[list[str]]
"""The equations under one number, in TeX: some rows, each with the equations that stand side by side."""
CORE = [
    # Letters that are one word; letters that browsers have only as characters of their own; a prime, upright.
    (
        r'<mrow>((?:<mi mathvariant="normal">\w</mi>){2,})</mrow>',
        lambda match: f"<mi>{re.sub('<.*?>', '', match[1])}</mi>",
    ),
    ('<mn mathvariant="bold">1</mn>', "<mn>𝟏</mn>"),
    ('<mi mathvariant="script">K</mi>', "<mi>𝒦</mi>"),
    ("<mi>′</mi>", "<mo>′</mo>"),
    # A function is a name, with a space before what is not in brackets.
    ("<mo>max</mo>", "<mi>max</mi>"),
    ("(<mi>(?:exp|log|tanh)</mi>)(?!<mo)", r'\1<mspace width="0.17em" />'),
]
"""What latex2mathml writes and MathML Core lacks, and what to write instead."""


def split(tex: str, separator: str) -> list[str]:
    """Return the parts of a formula between separators, leaving groups, environments and brackets whole."""
    parts, depth, last = [], 0, 0
    for match in re.finditer(rf"\\begin|\\end|\\left|\\right|\\Bigl|\\Bigr|\\[{{}}]|{separator}|[{{}}(\[\])]", tex):
        token = match[0]
        depth += token in ("{", "(", "[", r"\begin")
        depth -= token in ("}", ")", "]", r"\end")
        if depth == 0 and re.fullmatch(separator, token):
            parts.append(tex[last : match.start()])
            last = match.end()
    return [part.strip() for part in [*parts, tex[last:]]]


def equations(derivation: str) -> dict[int, Rows]:
    """Return the numbered equations of a derivation: under each number rows of equations, in TeX."""
    found: dict[int, Rows] = {}
    prose = re.sub(r"^```.*?^```$", "", derivation, flags=re.M | re.S)
    for block in re.findall(r"^\$\$\n(.*?)^\$\$$", prose, flags=re.M | re.S):
        rows: Rows = []
        aligned = re.fullmatch(r"\s*\\begin\{aligned\}(.*)\\end\{aligned\}(.*)", block, flags=re.S)
        lines = split(aligned[1], r"\\\\") if aligned else [block]
        for line in lines + ([aligned[2]] if aligned else []):
            numbers = [int(number) for number in NUMBER.findall(line)]
            formula = split(NUMBER.sub("", line), "&&")[0]
            if formula:
                add_row(rows, formula)
            # A line with two equations may number each of them.
            share = len(rows[-1]) // len(numbers) if numbers and len(rows) == 1 else 0
            for place, number in enumerate(numbers):
                found.setdefault(number, [rows[0][place * share : (place + 1) * share]] if len(numbers) > 1 else rows)
            rows = [] if numbers else rows
    return found


def add_row(rows: Rows, formula: str) -> None:
    """Append the equations of a line; one without a left-hand side goes on with the line before."""
    if formula.startswith("&") and rows:
        rows[-1][-1] = shorten(f"{rows[-1][-1]} {formula.lstrip('& ')}")
        return
    cells = split(formula, "&")
    pairs = [" ".join(cells[place : place + 2]) for place in range(0, len(cells), 2)]
    parts = [part.rstrip(",") for pair in pairs for part in split(pair, r"\\q?quad") if part]
    row: list[str] = []
    for part in parts:
        if "=" in part or not row:
            row.append(shorten(part))
        else:
            row[-1] += rf" \quad {part}"  # a condition
    rows.append(row)


def shorten(equation: str) -> str:
    """Return a chain of equalities as one: of a = b = c, a = c."""
    sides = split(equation, "=")
    return f"{sides[0]} = {sides[-1]}" if len(sides) > 1 else equation


def chosen(derivation: Path) -> dict[str, dict[str, dict[int, Rows]]]:
    """Return what a derivation names as formulas: operation -> side -> number of an equation -> rows.

    A number may be a list: an equation, and the numbers that its lines have in the operation's source.
    """
    text = derivation.read_text(encoding="utf-8")
    names = yaml.safe_load(text.split("---\n")[1]).get("formulas", {}) if text.startswith("---\n") else {}
    numbered = equations(text)
    return {
        operation: {
            side: dict(chain.from_iterable(_renumbered(number, numbered) for number in numbers.get(side, [])))
            for side in SIDES
        }
        for operation, numbers in names.items()
    }


def _renumbered(number: int | list[int], numbered: dict[int, Rows]) -> list[tuple[int, Rows]]:
    """Return the rows of an equation under its number, or each row under a number of its own."""
    if isinstance(number, int):
        return [(number, numbered[number])]
    first, *own = number
    return [(name, [row]) for name, row in zip(own, numbered[first], strict=True)]


def all_chosen() -> dict[str, dict[str, dict[int, Rows]]]:
    """Return the formulas of all derivations in TeX, in the order of the names."""
    derivations = (HERE / "derivations").glob("*.md")
    return dict(sorted(chain.from_iterable(chosen(derivation).items() for derivation in derivations)))


def tex(numbered: dict[int, Rows]) -> str:
    """Return numbered equations as TeX: the alternative text of their MathML."""
    return r" \\ ".join(
        rf"({number}) " + r" \\ ".join(map(r" \qquad ".join, rows)) for number, rows in numbered.items()
    )


def mathml(numbered: dict[int, Rows]) -> str:
    """Return numbered equations as one formula in MathML; '' for none."""
    if not numbered:
        return ""
    lines = ""
    for number, rows in numbered.items():
        for row, label in zip(rows, chain([f"<mtext>({number})</mtext>"], repeat("")), strict=False):
            lines += f"<mtr><mtd>{label}</mtd>{''.join(f'<mtd>{convert(equation)}</mtd>' for equation in row)}</mtr>"
    return (
        f'<math display="block" alttext={quoteattr(tex(numbered))}><mtable displaystyle="true">{lines}</mtable></math>'
    )


def convert(equation: str) -> str:
    """Return an equation in MathML, in the subset that browsers draw (MathML Core)."""
    from latex2mathml.converter import convert as latex2mathml

    text = re.sub(r"</?math[^>]*>", "", latex2mathml(equation, display="block"))
    text = re.sub(r"&#x([0-9A-F]+);", lambda match: escape(chr(int(match[1], 16))), text)
    for pattern, replacement in CORE:
        text = re.sub(pattern, replacement, text)
    return text


def formulas() -> dict[str, dict[str, str]]:
    """Return the formulas of all derivations in MathML."""
    return {name: {side: mathml(rows) for side, rows in sides.items()} for name, sides in all_chosen().items()}


def main() -> int:
    """Run what the command line asks for; return 1 if the file is out of date."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the file differs")
    check = parser.parse_args().check
    text = json.dumps(formulas(), indent=1, ensure_ascii=False) + "\n"
    if not check:
        TARGET.write_text(text, encoding="utf-8")
    elif not TARGET.exists() or TARGET.read_text(encoding="utf-8") != text:
        print(f"{TARGET.name} differs from the derivations; run python docs/formulas.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
