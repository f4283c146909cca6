"""Make the printed sheet of all formulas, docs/pictures/sheet.svg and sheet.pdf, from the TeX of the derivations.

The formulas are those of the derivations, by their numbers; so are the shapes, by their symbols. A browser
typesets them::

    apt-get install chromium poppler-utils
    python docs/sheet.py
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

from formulas import equations

ROOT = Path(__file__).resolve().parents[1]
SVG, PDF = (ROOT / "docs" / "pictures" / f"sheet.{kind}" for kind in ("svg", "pdf"))
LAYOUT = ROOT / "docs" / "sheet-layout.html"
DRAWING = ROOT / "docs" / "pictures" / "model.svg"
TITLE, INK = "The Transformer: every formula, forward and backward", "#1c1d20"


@dataclass(frozen=True)
class Part:
    """An operation on the sheet.

    ``forward`` and ``backward`` are lines of formulas with ``/`` between them. A formula is the number of an equation,
    ``4:1`` the second formula of equation (4), ``dropout:4`` an equation of another source, and ``{\\tau}`` the
    formula in the prose that defines a symbol. ``shapes`` are the symbols that begin rows of the table of symbols.
    """

    kind: str
    name: str
    source: str
    forward: str
    backward: str = ""
    shapes: tuple[str, ...] = ()
    note: str = ""


PARTS = (
    Part(
        "embed", "Embedding and positions", "positions",
        "1 - 2:0 / 4 - 2:1", "14 - 15",
        ("E", r"\mathrm{PE}", "x_{nt}"), "$P$ is PE, or learned",
    ),
    Part(
        "output", "Linear", "linear",
        "1 - 2", "7 8 / 9",
        ("X", "W", "b", "Y"), "the same in entries and in matrices",
    ),
    Part(
        "attention", "Masks", "masking",
        "3 - 1 / 4", "6:1 - 6:0",
        ("x", "M"), r"(3) and (4) in the decoder's self-attention, else (4); $\chi$ is 1 where $M$ is true, else 0",
    ),
    Part(
        "attention", "Softmax", "softmax",
        "2 3 4", "9 - 10",
        ("x", "y"), r"for each row; $x^*$ is its largest entry",
    ),
    Part(
        "attention", "Scaled dot-product attention", "scaled-dot-product-attention",
        "1 - 4:0 / 2 - 4:1 / 3 - 4:2", "10 11 / 12 / 13 14",
        ("q, k, v", "s", "y"), r"a hidden key has $w_{ij} = 0$, so $\bar s_{ij} = 0$",
    ),
    Part(
        "attention", "Multi-head attention", "multi-head-attention",
        r"6:0 6:1 6:2 {\tau} / 2 - / 6:3 - 6:4", "9 11 13:0 15 / 14:0 14:2 14:4 10:0 / 16 - 17",
        ("x", "m", "W_Q, W_K"), r"self-attention: $m = x$, and (17)",
    ),
    Part(
        "norm", "Dropout and residual connection", "dropout",
        "6 4 elementary-rules:46", "10 11 elementary-rules:48",
        (), r"$\chi_i$ is 1 if entry $i$ is kept, else 0; $J$: Jacobian of $\mathrm{Sublayer}$",
    ),
    Part(
        "norm", "Layer normalisation", "layer-norm",
        "1 2 3 / 4 5 6", "14 15 16 / 18 - 21",
        ("x", "g", r"\mu", r"\hat x"), r"$\bar x$ is orthogonal to $\mathbf 1$",
    ),
    Part(
        "feed", "Feed-forward", "feed-forward",
        "1 - 4:0 / 2 - 4:1 / 3 - 4:2", "8:0 8:1 8:2 8:3 / 8:4 8:5 9:1 / 9:0 10",
        ("x", "W_1, b_1", "W_2, b_2", "y"), "two linear layers with a ReLU between them",
    ),
    Part(
        "output", "Tied output embedding", "embedding",
        "10:1 - 10:0", "11:0 - 11:1",
        ("E",), r"$\bar Z$ as in (7) of linear; one table $E$: the gradients of its three uses add up",
    ),
    Part(
        "output", "Cross-entropy with label smoothing", "cross-entropy",
        "1 - 2 / 3 - 4", "10 - 11",
        ("x", "t", "p"), r"$\chi_r$ is 1 if row $r$ counts, else 0; $R'$ rows count",
    ),
)  # fmt: skip
"""From the bottom of the sheet to its top."""
ADAM = Part(
    "feed", "Adam", "07-a-first-training", r"1:0 {\hat m} / 1:1 {\hat v} / 1:2",
    note=r"$m$ and $v$ are running means; step $t = 1, 2, \dots$; tutorial 7",
)  # fmt: skip
SCHEDULE = Part(
    "feed", "Learning rate with warm-up", "12-training", "2", note=r"$t_\text{warm}$ steps of warm-up; tutorial 12"
)
BLOCKS = {
    "embedding": (1,), "positions": (1,), "multi_head_attention": (2, 4, 5, 6), "masking": (2, 3, 4, 5, 6),
    "layer_norm": (7, 8), "feed_forward": (2, 9), "linear": (10,), "softmax": (4, 11),
}  # fmt: skip
"""The numbers that a block of the drawing has on the sheet."""


@cache
def text_of(source: str) -> str:
    """Return the Markdown of a derivation or tutorial."""
    folder = ROOT / ("tutorials" if source[0].isdigit() else "docs/derivations")
    return (folder / f"{source}.md").read_text(encoding="utf-8")


def formulas_of(part: Part, chosen: str) -> list[list[tuple[str, str, str]]]:
    """Return lines of formulas, each with its source and number ('' for one in prose)."""
    return [
        [one for word in re.findall(r"\{.*?\}|\S+", line) for one in find(word, part.source)]
        for line in chosen.split(" / ")
    ]


def find(word: str, source: str) -> list[tuple[str, str, str]]:
    """Return the formulas that one word of `Part` names."""
    if word == "-":
        return [("", "", "")]
    if word.startswith("{"):
        inline = re.findall(r"(?<!\$)\$([^$]+)\$(?!\$)", text_of(source))
        return [(source, "", next(tex for tex in inline if tex.startswith(f"{word[1:-1]} =")))]
    other, number, place = re.fullmatch(r"(?:([a-z-]+):)?(\d+)(?::(\d+))?", word).groups()  # type: ignore[union-attr]
    source = other or source
    found = [equation for row in equations(text_of(source))[int(number)] for equation in row]
    return [(source, number, tex) for tex in (found[int(place) :][:1] if place else found)]


def all_formulas() -> list[tuple[str, str, str]]:
    """Return every formula on the sheet with its source and number."""
    chosen = ((part, side) for part in (*PARTS, ADAM, SCHEDULE) for side in (part.forward, part.backward) if side)
    return [formula for part, side in chosen for line in formulas_of(part, side) for formula in line if formula[0]]


def shapes_of(part: Part) -> list[str]:
    """Return symbols with their shapes, from the table of symbols of a derivation."""
    rows = re.findall(r"^\| (.+?) \| (.+?) \|", text_of(part.source), flags=re.M)
    found = []
    for symbol in part.shapes:
        ((names, shapes),) = {row for row in rows if re.match(rf"\${re.escape(symbol)}(\$|,)", row[0])}
        for name, shape in zip(names.split("; "), shapes.split("; "), strict=True):
            found.append(f"<span>{tex_in(re.sub(', entries.*', '', name))} {tex_in(shape)}</span>")
    return found


def tex_in(text: str) -> str:
    """Return Markdown with its formulas marked for MathJax."""
    return re.sub(r"\$(.+?)\$", lambda found: f"\\({escape(found[1])}\\)", text)


def lines_html(part: Part, chosen: str) -> str:
    """Return lines of formulas, aligned at their relation; a number stands behind the last formula that has it."""
    cells = ""
    for line in formulas_of(part, chosen):
        for place, (source, number, tex) in enumerate(line):
            if not source:
                continue
            left, relation, right = split_relation(tex)
            last = (source, number) != (*line, ("", ""))[place + 1][:2]
            cells += f'<i class="left" style="grid-column:{2 * place + 1}">\\(\\displaystyle {escape(left)}\\)</i>'
            cells += f'<i class="right">\\(\\displaystyle {{}} {relation} {escape(right)}\\)'
            label = {"": number}.get(source.replace(part.source, ""), f"{number}, {source.replace('-', ' ')}")
            cells += f"<b>({label})</b></i>" if number and last else "</i>"
    return f'<div class="lines">{cells}</div>'


def split_relation(tex: str) -> tuple[str, str, str]:
    """Return a formula's left-hand side, its relation and the rest."""
    left, relation, right = re.split(r"\s*(\\leftarrow|=)\s*", tex, maxsplit=1)
    return left, relation, right.rstrip(" .")


def card(number: int, part: Part, side: str) -> str:
    """Return one operation's forward or backward formulas."""
    chosen = part.forward if side == "forward" else part.backward
    small = "".join(shapes_of(part)) if side == "forward" else f"<span>{tex_in(part.note)}</span>"
    title = f'<h2 class="{part.kind}"><em>{number}</em>{escape(part.name)}<small>{small}</small></h2>'
    return f'<section class="{side}">{title}{lines_html(part, chosen)}</section>'


def drawing() -> str:
    """Return the model's drawing, with the numbers of the sheet in its blocks."""
    svg = DRAWING.read_text(encoding="utf-8")
    svg = re.sub(r"@media.*?\n|body\[data-theme.*?\n|</?a\b.*?>(<title>.*?</title>)?", "", svg)
    return re.sub(r'<text class="code" x="(.+?)" y="(.+?)">(\w+)</text>', badges, svg)


def badges(found: re.Match[str]) -> str:
    """Return the numbers that stand in the place of an operation's name."""
    middle, y, numbers = float(found[1]), float(found[2]), BLOCKS[found[3]]
    drawn = ""
    for place, number in enumerate(numbers):
        x = middle + 16 * (place - (len(numbers) - 1) / 2)
        drawn += f'<circle class="badge" cx="{x:g}" cy="{y - 3.5:g}" r="6.3"/>'
        drawn += f'<text class="badge" x="{x:g}" y="{y:g}">{number}</text>'
    return drawn


def page() -> str:
    """Return the sheet as HTML, without MathJax."""
    numbered = reversed([*enumerate(PARTS, start=1)])
    parts = {
        "OPERATIONS": "".join(
            card(number, part, side) for number, part in numbered for side in ("forward", "backward")
        ),
        "DRAWING": drawing(),
        "UPDATE": "".join(
            f'<h2 class="plain">{part.name}<small><span>{tex_in(part.note)}</span></small></h2>'
            f"{lines_html(part, part.forward)}"
            for part in (ADAM, SCHEDULE)
        ),
    }
    return re.sub(
        "<!--(OPERATIONS|DRAWING|UPDATE)-->", lambda found: parts[found[1]], LAYOUT.read_text(encoding="utf-8")
    )


def compact(svg: str, facts: dict[str, object]) -> str:
    """Return the SVG of pdftocairo as a smaller one, on white, with a title and what the sheet was made from."""
    svg = re.sub(r"rgb\(([\d.]+)%,([\d.]+)%,([\d.]+)%\)", hexadecimal, svg)
    svg = re.sub(r'(?<= [xyd]=")[^"]+', lambda found: re.sub(r"-?\d+\.\d+", rounded, found[0]), svg)
    svg = re.sub(r' Z M \S+ \S+ "', 'Z"', svg)
    svg = re.sub(r'(?<= d=")[^"]+', lambda found: re.sub(r" ?([MLCZH-]) ?", r"\1", found[0]), svg)
    glyph = r'<g style="fill:(#\w+);fill-opacity:1;">\n  <use xlink:href="#(.*?)/>\n</g>'
    svg = re.sub(glyph, r'<use href="#\2 fill="\1"/>', svg).replace(f' fill="{INK}"/>', "/>")
    svg = svg.replace(' style="stroke:none;"', "").replace("glyph", "g").replace("<svg ", f'<svg fill="{INK}" ', 1)
    head = f"<title>{TITLE}</title>\n<metadata>{escape(json.dumps(facts), quote=False)}</metadata>\n"
    return svg.replace("<defs>", f'{head}<rect width="100%" height="100%" fill="#fff"/>\n<defs>', 1)


def hexadecimal(found: re.Match[str]) -> str:
    """Return a colour that is given in per cent."""
    return "#" + "".join(f"{round(2.55 * float(part)):02x}" for part in found.groups())


def rounded(found: re.Match[str]) -> str:
    """Return a number with two digits after the point: 0.01 point is 4 micrometres."""
    return f"{float(found[0]):.2f}".rstrip("0").rstrip(".")


def main() -> None:
    """Write both files."""
    package = importlib.util.find_spec("sphinx-mathjax-offline")
    if package is None or package.origin is None:
        sys.exit("sheet.py: found no MathJax; run python -m pip install -e .[docs]")
    html = page()
    mathjax = (Path(package.origin).parent / "static" / "mathjax" / "tex-chtml.js").as_uri()
    browser = shutil.which("chromium") or shutil.which("google-chrome") or "chrome"
    with tempfile.TemporaryDirectory() as folder:
        sheet = Path(folder) / "sheet.html"
        sheet.write_text(html.replace("<!--MATHJAX-->", f'<script src="{mathjax}"></script>'), encoding="utf-8")
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
        options += ["--virtual-time-budget=30000", "--no-pdf-header-footer", f"--print-to-pdf={PDF}"]
        subprocess.run([browser, *options, sheet.as_uri()], check=True)
        if b"/Count 1" not in PDF.read_bytes():
            sys.exit("sheet.py: the formulas fill more than one sheet; show fewer, or change sheet-layout.html")
        subprocess.run(["pdftocairo", "-svg", PDF, SVG], check=True)
    facts = {"page": digest(html.encode()), "pdf": digest(PDF.read_bytes()), "formulas": all_formulas()}
    SVG.write_text(compact(SVG.read_text(encoding="utf-8"), facts), encoding="utf-8")


def digest(data: bytes) -> str:
    """Return what tells whether a file is made from other data."""
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    main()
