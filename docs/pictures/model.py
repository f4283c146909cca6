"""Draw the model after Figure 1 of the paper as docs/pictures/model.svg: ``python docs/pictures/model.py``.

The name of a block is a link to its tutorial, the operation below it a link to its derivation. An SVG that is shown as
an image has no links; the site puts the drawing itself into its HTML (docs/_extensions/links.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

PICTURE = Path(__file__).with_suffix(".svg")
TITLE = "The Transformer: an encoder on the left, a decoder on the right, read from the bottom up"

WIDTH, BLOCK, HEIGHT, GAP = 360, 144, 40, 22
COLOURS = {
    "ground": ("#ffffff", "#131416"),
    "frame": ("#f1f0ec", "#1b1d22"),
    "line": ("#c9c6be", "#454955"),
    "ink": ("#1c1d20", "#ececea"),
    "wire": ("#666870", "#969aa4"),
    "link": ("#055ca8", "#7ab8f5"),
    "attention": ("#fbeadd", "#3a2a1a"),
    "feed": ("#e3eef8", "#1c2f42"),
    "norm": ("#f3f1dc", "#2f2e1d"),
    "embed": ("#f6e6ee", "#36232e"),
    "output": ("#e2f1ea", "#1b322a"),
}
"""Each colour's light and dark form: those of the explorer's figure."""

NORM = ("norm", "Add & norm", "10-layer-norm", "layer_norm")
FEED = ("feed", "Feed-forward", "11-the-transformer", "feed_forward")
EMBEDDING = ("embed", "Embedding", "09-positions-and-embeddings", "embedding")
POSITIONS = ("embed", "Add positions", "09-positions-and-embeddings", "positions")
SELF = ("attention", "Self-attention", "08-many-heads", "multi_head_attention")
MASKED = ("attention", "Masked self-attention", "06-attention", "masking")
CROSS = ("attention", "Cross-attention", "08-many-heads", "multi_head_attention")
LINEAR = ("output", "Linear", "03-arrays", "linear")
SOFTMAX = ("output", "Softmax", "05-softmax", "softmax")


class Column:
    """One side of the drawing, filled from the bottom up; y grows downwards, as in SVG."""

    def __init__(self, left: float, rail: float, bottom: float) -> None:
        self.left, self.rail, self.y = left, rail, bottom
        self.middle = left + BLOCK / 2
        self.wires: list[str] = []
        self.blocks: list[str] = []

    def text(self, words: str) -> None:
        """Write what goes in or comes out."""
        self.blocks.append(f'<text class="side" x="{self.middle:g}" y="{self.y - 4:g}">{words}</text>')
        self.y -= 16

    def arrow(self, length: float = GAP, head: bool = True) -> None:
        """Draw an arrow upwards."""
        self.wires.append(wire([(self.middle, self.y), (self.middle, self.y - length)], head))
        self.y -= length

    def block(self, kind: str, name: str, tutorial: str, operation: str) -> None:
        """Draw a block with its two links."""
        self.y -= HEIGHT
        derivation = operation.replace("_", "-")
        box = f'x="{self.left:g}" y="{self.y:g}" width="{BLOCK}" height="{HEIGHT}" rx="7"'
        low = f'x="{self.left:g}" y="{self.y + 22:g}" width="{BLOCK}" height="{HEIGHT - 22}"'
        self.blocks.append(
            f'<a href="../../tutorials/{tutorial}.ipynb"><title>{escape(name)}: tutorial {int(tutorial[:2])}</title>'
            f'<rect class="{kind}" {box}/>'
            f'<text class="name" x="{self.middle:g}" y="{self.y + 17:g}">{escape(name)}</text></a>\n'
            f'<a href="../derivations/{derivation}.md"><title>Derivation of {operation}</title>'
            f'<rect class="hit" {low}/>'
            f'<text class="code" x="{self.middle:g}" y="{self.y + 32:g}">{operation}</text></a>'
        )

    def layer(self, *sublayers: tuple[str, str, str, str]) -> list[float]:
        """Draw a layer: sub-layers with their residual connections; return the middle of each sub-layer's block."""
        bottom, middles = self.y, []
        for sublayer in sublayers:
            self.arrow(8 * (self.y == bottom), head=False)
            fork = self.y - 6
            attends = sublayer in (SELF, MASKED)
            self.arrow()
            if attends:
                self.wires += [
                    wire([(self.middle, fork - 4), (x, fork - 4), (x, self.y)], head=True)
                    for x in (self.middle - 40, self.middle + 40)
                ]
            self.block(*sublayer)
            middles.append(self.y + HEIGHT / 2)
            self.arrow(12)
            self.block(*NORM)
            side = self.left if self.rail < self.left else self.left + BLOCK
            into = self.y + HEIGHT / 2
            self.wires.append(
                wire([(self.middle, fork), (self.rail, fork), (self.rail, into), (side, into)], head=True)
            )
        self.arrow(10, head=False)
        left = min(self.rail, self.left) - 8
        right = max(self.rail, self.left + BLOCK) + 8
        x = right - 16 if self.rail > self.left else left + 16
        size = f'width="{right - left:g}" height="{bottom - self.y:g}"'
        self.wires.insert(0, f'<rect class="frame" x="{left:g}" y="{self.y:g}" {size} rx="10"/>')
        self.blocks.append(f'<text class="side" x="{x:g}" y="{self.y - 5:g}">N ×</text>')
        return middles


def escape(text: str) -> str:
    """Return text for XML."""
    return text.replace("&", "&amp;")


def wire(points: list[tuple[float, float]], head: bool = False) -> str:
    """Return a line along points."""
    path = "M" + "L".join(f"{x:g} {y:g}" for x, y in points)
    marker = ' marker-end="url(#drawn-head)"' if head else ""
    return f'<path class="wire" d="{path}"{marker}/>'


def style() -> str:
    """Return the colours, light and dark. A site's own switch (data-theme, as in furo) goes before the system's."""
    light, dark = ("".join(f"--{name}:{pair[i]};" for name, pair in COLOURS.items()) for i in (0, 1))
    fills = "".join(f".drawn .{kind}{{fill:var(--{kind})}}" for kind in [*COLOURS][6:])
    return f"""\
.drawn{{{light}}}
@media (prefers-color-scheme:dark){{.drawn{{{dark}}}}}
body[data-theme="light"] .drawn{{{light}}}
body[data-theme="dark"] .drawn{{{dark}}}
.drawn{{max-width:100%;height:auto;font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif}}
.drawn text{{fill:var(--ink);text-anchor:middle;font-size:12.5px}}.drawn a{{text-decoration:none}}
.drawn .code{{fill:var(--link);font-family:ui-monospace,Menlo,Consolas,'Liberation Mono',monospace;font-size:10.5px}}
.drawn .ground{{fill:var(--ground)}}.drawn .frame{{fill:var(--frame);stroke:var(--line)}}.drawn .hit{{fill:transparent}}
.drawn .wire{{fill:none;stroke:var(--wire);stroke-width:1.25}}.drawn .head{{fill:var(--wire)}}{fills}
.drawn a>rect:not(.hit){{stroke:var(--line)}}.drawn a:is(:hover,:focus)>rect:not(.hit){{stroke:var(--link)}}
.drawn a:is(:hover,:focus)>text{{text-decoration:underline}}"""


def draw() -> str:
    """Return the drawing."""
    height = 600
    encoder, decoder = Column(22, 14, height - 6), Column(WIDTH - 22 - BLOCK, WIDTH - 14, height - 6)
    for column, words in ((encoder, "Source tokens"), (decoder, "Target tokens")):
        column.text(words)
        column.arrow(14)
        column.block(*EMBEDDING)
        column.arrow(14)
        column.block(*POSITIONS)
        column.arrow(14, head=False)
    encoder.layer(SELF, FEED)
    _, cross, _ = decoder.layer(MASKED, CROSS, FEED)
    gutter, top = WIDTH / 2, encoder.y - 12
    decoder.wires += [
        wire([(encoder.middle, encoder.y), (encoder.middle, top), (gutter, top), (gutter, cross + 7)]),
        *(wire([(gutter, y), (decoder.left, y)], head=True) for y in (cross - 7, cross + 7)),
    ]
    for block in (LINEAR, SOFTMAX):
        decoder.arrow(16)
        decoder.block(*block)
    decoder.arrow(14)
    decoder.text("Next-token probabilities")
    return "\n".join(document(decoder.y - 6, height, (encoder, decoder))) + "\n"


def document(top: float, bottom: float, columns: Iterable[Column]) -> Iterable[str]:
    """Yield the lines of the file."""
    box = f"0 {top:g} {WIDTH} {bottom - top:g}"
    yield f'<svg xmlns="http://www.w3.org/2000/svg" class="drawn" viewBox="{box}" width="480" role="group">'
    yield f"<title>{TITLE}</title>\n<style>\n{style()}\n</style>"
    yield '<defs><marker id="drawn-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
    yield 'orient="auto" markerUnits="userSpaceOnUse"><path class="head" d="M0 .5L7 4L0 7.5z"/></marker></defs>'
    yield f'<rect class="ground" y="{top:g}" width="{WIDTH}" height="{bottom - top:g}"/>'
    for column in columns:
        yield from column.wires
    for column in columns:
        yield from column.blocks
    yield "</svg>"


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
