"""Draw the way of a batch through the package as docs/pictures/batch.svg: ``python docs/pictures/batch.py``.

``--print`` prints it instead.

The drawing is made from a run: ``minitransformer train copy --n-layers 1`` trains in this process, and Python's
profiler notes each call of a function of the package from one batch to the next. The drawing has the functions of
`SHOWN`; what the others call takes their place. Equal calls in a row have one line.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from html import escape
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any

import minitransformer
from minitransformer.apps.cli import main

PICTURE = Path(__file__).with_suffix(".svg")
PACKAGE = Path(minitransformer.__file__).parent
TITLE = "One training step: the functions that a batch passes through, in the order of the calls"
COMMAND = ["train", "copy", "--n-layers", "1", "--steps", "5", "--workers", "1"]
STEP = 3
"""The step that is drawn."""
SHOWN = {
    "apps": "main|run|train",
    "training": "Trainer.train",
    "train": "training_step",
    "gradients": "cut_batches|sum_gradients|sum_losses",
    "nn": r".*__call__|.*\.forward|.*\.encode|.*\.decode",
    "ops": "forward|backward|.*_mask",
    "autograd": "Tensor.backward|backpropagate",
    "optim": r"Adam\.(zero_grad|step)|warmup",
    "data": "all_batches",
}
"""By package, the functions that the drawing has, as a pattern."""
COLOURS = {
    "ground": ("#ffffff", "#131416"), "ink": ("#1c1d20", "#ececea"), "soft": ("#666870", "#969aa4"),
    "nn": ("#055ca8", "#7ab8f5"), "ops": ("#00714f", "#5fcfa4"), "autograd": ("#7b3fa0", "#c9a2e8"),
    "optim": ("#a0522d", "#f0a878"),
}  # fmt: skip
"""Each colour's light and dark form; a package without one has that of the ink."""
LINE, INDENT, TOP, COLUMN, FILE = 17, 11, 66, 600, 400


@dataclass
class Call:
    """A call of a function, and the calls that it made."""

    file: str
    name: str
    inner: list[Call] = field(default_factory=list)
    times: int = field(default=1, compare=False)

    @property
    def package(self) -> str:
        """The package, or the module outside packages, that the function belongs to."""
        return self.file.partition("/")[0].removesuffix(".py")

    def drawn(self) -> list[Call]:
        """Return the call with the calls inside that are shown, or these alone if it is not shown itself."""
        inner: list[Call] = []
        for call in (each for one in self.inner for each in one.drawn()):
            if inner and inner[-1] == call:
                inner[-1].times += 1
            else:
                inner.append(call)
        shown = re.fullmatch(SHOWN.get(self.package, ""), self.name)
        return [Call(self.file, self.name, inner)] if shown else inner

    def lines(self, depth: int = 0) -> Iterator[tuple[int, Call]]:
        """Yield all calls with their depth."""
        yield depth, self
        for call in self.inner:
            yield from call.lines(depth + 1)


class Watch:
    """Python's profiler, which notes one step of a training: from the batch to the next one."""

    def __init__(self) -> None:
        self.batches = 0
        self.way: list[Call] = []
        """The functions between the command and the step."""
        self.top = Call("", "")
        self.calls: dict[int, tuple[FrameType | None, Call]] = {}
        """By the numbers of their frames, which are kept, so that no other frame has the same number."""

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call of a function of the package; a generator that goes on is noted already."""
        if event != "call" or (call := call_of(frame)) is None:
            return
        if call.name == "all_batches":  # a generator: it begins with the first batch
            self.batches += 1
            if self.batches == STEP:
                self.way = [found for outer in outside(frame) if (found := call_of(outer))]
        if self.batches == STEP and id(frame) not in self.calls:
            above = next(
                (self.calls[id(outer)][1] for outer in outside(frame)[::-1] if id(outer) in self.calls), self.top
            )
            above.inner.append(call)
            self.calls[id(frame)] = frame, call


def call_of(frame: FrameType) -> Call | None:
    """Return the call of a frame if its function belongs to the package."""
    path = Path(frame.f_code.co_filename)
    return Call(str(path.relative_to(PACKAGE)), frame.f_code.co_qualname) if PACKAGE in path.parents else None


def outside(frame: FrameType) -> list[FrameType]:
    """Return the frames that a frame was called from, the outermost first."""
    found = []
    while frame.f_back is not None:
        frame = frame.f_back
        found.append(frame)
    return found[::-1]


def watched() -> Call:
    """Train, and return the calls from the command to the parts of one step."""
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        sys.setprofile(watch)
        try:
            main([*COMMAND, "--out", f"{folder}/run"])
        finally:
            sys.setprofile(None)
    first = outermost = watch.way[0]
    for call in watch.way[1:]:
        outermost.inner.append(call)
        outermost = call
    outermost.inner = watch.top.inner
    (drawn,) = first.drawn()
    return drawn


def label(call: Call) -> str:
    """Return what a line says: an operation's pass has the name of its file."""
    name = call.name.removesuffix(".__call__")
    name = f"{Path(call.file).stem}.{name}" if call.package == "ops" else name
    return f"{name}  × {call.times}" if call.times > 1 else name


def place_of(call: Call) -> str:
    """Return where a function is; of an operation, the line has the name of the file already."""
    return "ops/" if call.package == "ops" else call.file


def draw(top: Call) -> str:
    """Return the drawing: on the left what runs up to the loss, on the right the backward pass and the update."""
    lines = [*top.lines()]
    middle = next(place for place, (_, call) in enumerate(lines) if call.name == "Tensor.backward")
    rows, columns = [], (lines[:middle], lines[middle:])
    for column, found in enumerate(columns):
        left, least = 14 + column * COLUMN, min(depth for depth, _ in found)
        for row, (depth, call) in enumerate(found):
            y, kind = TOP + row * LINE, call.package if call.package in COLOURS else "ink"
            rows.append(
                f'<text class="{kind}" x="{left + (depth - least) * INDENT}" y="{y}">{escape(label(call))}</text>'
            )
            rows.append(f'<text class="soft" x="{left + FILE}" y="{y}">{escape(place_of(call))}</text>')
    for column, words in enumerate(("Forward, to the loss", "Backward, and the update")):
        rows.append(f'<text class="head" x="{14 + column * COLUMN}" y="40">{words}</text>')
    styles = [
        "".join(f".{name}{{fill:{both[dark]}}}" for name, both in COLOURS.items())
        + f".head{{fill:{COLOURS['ink'][dark]};font-weight:600;font-size:14px}}"
        for dark in (0, 1)
    ]
    width, height = 2 * COLUMN + 14, TOP + LINE * max(map(len, columns))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">\n<title>{TITLE}</title>\n'
        f"<style>text{{font:12px ui-monospace,Menlo,Consolas,monospace}}{styles[0]}"
        f"@media(prefers-color-scheme:dark){{{styles[1]}}}</style>\n"
        f'<rect class="ground" width="{width}" height="{height}"/>\n' + "\n".join(rows) + "\n</svg>\n"
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        sys.stdout.buffer.write(draw(watched()).encode("utf-8"))
    else:
        PICTURE.write_text(draw(watched()), encoding="utf-8")
