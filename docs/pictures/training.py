"""Draw the README's moving picture, docs/pictures/training.svg, from a real training run.

``python docs/pictures/training.py`` trains as ``minitransformer train`` does, in a temporary folder, and keeps a
checkpoint every 25 steps. Each checkpoint becomes a frame: the loss so far, what the model writes for one number, and
the cross-attention of its last layer, averaged over the heads, while it reads the right translation. A program that
does not show motion, or a reader who does not want it, sees the last frame.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np

import minitransformer as mt
from minitransformer.data import END, START
from minitransformer.runs import RunFolder
from minitransformer.runs.checkpoints import read_checkpoint

PICTURE = Path(__file__).with_suffix(".svg")
TEXT, RIGHT = "four hundred and thirty-two", "vierhundertzweiunddreißig"
TITLE = "A training of 40 seconds: the loss falls, the translation becomes right, and cross-attention forms"
EVERY, SECONDS, LAST = 25, 0.45, 8
"""Steps between frames, seconds for each, and for how many frames the last one stays."""
WIDTH, HEIGHT, CELL = 760, 372, 36
MAP_LEFT, MAP_TOP = 462, 104
CURVE = (52, 96, 300, 150)
"""Left, top, width and height of the curve."""
INK, SOFT, LINE, BLUE, GREEN, RED = "#1c1d20", "#55575e", "#e2e0da", "#0072B2", "#00714f", "#b3261e"


class Frame(NamedTuple):
    """What a checkpoint shows."""

    step: int
    loss: float
    written: str
    attention: np.ndarray
    """Shape (Tq, Tk)."""


def train(folder: Path) -> None:
    """Train the model of the README's first command."""
    command = ["train", "numbers", "--out", str(folder), "--save-every", f"{EVERY}", "--keep", "1000"]
    subprocess.run([sys.executable, "-m", "minitransformer", *command], check=True)


def frames(folder: Path) -> tuple[list[Frame], list[str], list[str]]:
    """Return the frames of a run, and the tokens of both sentences."""
    run, trained = RunFolder(folder), mt.load(folder)
    logged = {line["step"]: line for line in run.measurements.read() if "loss" in line}
    source, target = [*trained.source.encode(TEXT)], [*trained.target.encode(RIGHT)]
    if trained.model.options.source_end:
        source.append(END)
    found = []
    for step, path in run.checkpoints.files():
        trained.model.load_state_dict(read_checkpoint(path).model)
        maps = trained.model.attention_maps([source], [[START, *target]])["cross"]
        line = logged[max((logged_step for logged_step in logged if logged_step <= step), default=min(logged))]
        (written,) = trained.translate([TEXT])
        found.append(Frame(step, line["loss"], written, np.asarray(maps[-1][0]).mean(axis=0)))
    return found, [trained.source.tokens[i] for i in source], [trained.target.tokens[i] for i in [*target, END]]


def text(x: float, y: float, words: str, **options: str) -> str:
    """Return a text element; keywords are its attributes."""
    attributes = "".join(f' {name.rstrip("_").replace("_", "-")}="{value}"' for name, value in options.items())
    return f'<text x="{x:g}" y="{y:g}"{attributes}>{escape(words)}</text>'


def curve_points(shown: Sequence[Frame], top: float, last: int) -> list[tuple[float, float]]:
    """Return the points of the loss curve."""
    left, above, width, height = CURVE
    return [(left + width * f.step / last, above + height * (1 - f.loss / top)) for f in shown]


def draw_frame(number: int, shown: Sequence[Frame], top: float, last: int) -> str:
    """Return what changes from frame to frame."""
    frame = shown[number]
    points = curve_points(shown[: number + 1], top, last)
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    x, y = points[-1]
    right = frame.written == RIGHT
    written = frame.written if len(frame.written) <= 44 else frame.written[:43] + "…"
    cells = "".join(
        f'<rect x="{MAP_LEFT + CELL * column}" y="{MAP_TOP + CELL * row}" width="{CELL - 1}" height="{CELL - 1}" '
        f'fill-opacity="{weight:.2f}"/>'
        for row, weights in enumerate(frame.attention)
        for column, weight in enumerate(weights)
        if weight >= 0.02
    )
    return (
        f'<polyline points="{line}" class="curve"/><circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{BLUE}"/>'
        + text(CURVE[0] + CURVE[2], CURVE[1] - 12, f"step {frame.step} of {last}", text_anchor="end")
        + text(24, 340, f"{'✓' if right else '✗'} {written}", class_="code good" if right else "code bad")
        + f'<g fill="#7f2e04">{cells}</g>'
    )


def draw(shown: Sequence[Frame], source: Sequence[str], target: Sequence[str]) -> str:
    """Return the whole picture."""
    top, last = max(frame.loss for frame in shown), shown[-1].step
    left, above, width, height = CURVE
    slots = len(shown) + LAST - 1
    parts = [
        text(24, 36, "minitransformer train", class_="code title"),
        text(left, above - 12, "training loss"),
        f'<path d="M{left} {above}v{height}h{width}" fill="none" stroke="{SOFT}"/>',
        text(left - 8, above + 8, f"{top:.0f}", text_anchor="end"),
        text(left - 8, above + height, "0", text_anchor="end"),
        text(24, 296, "minitransformer translate", class_="code title"),
        text(24, 318, TEXT, class_="code"),
        text(MAP_LEFT, 36, "cross-attention", class_="title"),
        *(
            text(0, 0, name, transform=f"translate({MAP_LEFT + CELL * (i + 0.7):g} {MAP_TOP - 7}) rotate(-40)")
            for i, name in enumerate(source)
        ),
        *(text(MAP_LEFT - 8, MAP_TOP + CELL * (i + 0.7), name, text_anchor="end") for i, name in enumerate(target)),
        *(
            f'<g class="frame{" last" if frame is shown[-1] else ""}" '
            f'style="animation-delay:{(i - slots) * SECONDS:.2f}s">{draw_frame(i, shown, top, last)}</g>'
            for i, frame in enumerate(shown)
        ),
    ]
    share = 100 / slots
    style = f"""
text {{ font: 13px system-ui, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; fill: {SOFT}; }}
.code {{ font-family: ui-monospace, Consolas, "Liberation Mono", Menlo, monospace; font-size: 14px; }}
.title {{ fill: {INK}; font-weight: 600; font-size: 15px; }}
.good {{ fill: {GREEN}; }}
.bad {{ fill: {RED}; }}
.curve {{ fill: none; stroke: {BLUE}; stroke-width: 2; }}
.frame {{ visibility: hidden; }}
.last {{ visibility: visible; }}
@media (prefers-reduced-motion: no-preference) {{
.frame {{ animation: show {slots * SECONDS:.2f}s step-end infinite; }}
.last {{ animation-name: stay; }}
}}
@keyframes show {{ 0% {{ visibility: visible; }} {share:.4f}% {{ visibility: hidden; }} }}
@keyframes stay {{ 0% {{ visibility: visible; }} {share * LAST:.4f}% {{ visibility: hidden; }} }}
"""
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{TITLE}">\n'
        f"<title>{TITLE}</title>\n<style>{style}</style>\n"
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#ffffff" stroke="{LINE}"/>\n{body}\n</svg>\n'
    )


def main() -> None:
    """Train unless a run is given, and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, help="a run trained with --save-every 25 --keep 1000")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = args.run or Path(name) / "numbers"
        if args.run is None:
            train(folder)
        PICTURE.write_text(draw(*frames(folder)), encoding="utf-8")
    print(f"wrote {PICTURE}, {PICTURE.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
