"""The page of the gallery, made from its entries: ``python tests/gallery/gallery_page.py`` writes it."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from wrong_core import CORE
from wrong_entry import Entry
from wrong_pages import PAGES

PAGE = Path(__file__).parents[2] / "docs" / "gallery-of-wrong-gradients.md"
COLUMNS = ("name", "operation", "what is wrong", "where it was met", "why tests miss it", "what catches it here")

EXERCISES = {
    "softmax-backward": ("softmax: no row sum", "softmax: along the wrong axis", "softmax: passed through"),
    "a-cotangent-that-shows-it": ("softmax: identically zero",),
    "queries-and-keys-backward": ("attention: no 1/sqrt(Dk) for q", "attention: no 1/sqrt(Dk) for k"),
    "attention-backward": ("attention: nothing for queries and keys", "attention: q and k swapped"),
    "weights-and-values-backward": ("attention: weights not transposed",),
    "scores-backward": ("attention: backward without the mask",),
    "mask-before-softmax": ("attention: mask after the softmax",),
    "a-row-that-sees-nothing": ("attention: a hidden row looks everywhere", "attention: NaN from a hidden row"),
    "self-attention-backward": ("multi-head: x by its queries only",),
    "split-heads": ("multi-head: heads split by a reshape",),
    "layer-norm-backward": (
        "layer norm: right for a uniform gain only",
        "layer norm: gain forgotten",
        "layer norm: no mean term",
        "layer norm: no x̂ term",
        "layer norm: standard deviation forgotten",
    ),
    "matmul-backward": ("linear: weight not transposed", "matmul: not transposed"),
    "relu-and-its-corner": ("feed-forward: output >= 0",),
    "repeated-ids": ("embedding: = for repeated ids", "index: = for repeated indices"),
    "ignored-targets": ("cross-entropy: divided by all tokens", "cross-entropy: padding has a gradient"),
    "label-smoothing-backward": ("cross-entropy: smoothing forgotten",),
    "cross-entropy-backward": ("cross-entropy: sum for mean", "cross-entropy: upstream gradient ignored"),
    "relative-error-with-a-floor": ("a small function: zero",),
    "add-up-the-shares": ("core: = for +=", "core: += into a shared array"),
    "order-of-a-graph": ("core: depth first", "core: by distance"),
    "walk-back": ("core: once for each path",),
    "unbroadcast": (
        "unbroadcast: missing",
        "unbroadcast: the first copy only",
        "unbroadcast: mean for sum",
        "unbroadcast: along the wrong axis",
    ),
    "one-weight-for-a-batch": ("matmul: batch not summed",),
    "tanh-from-its-output": ("tanh: input for output",),
    "sum-along-an-axis": ("sum: spread along the wrong axis",),
    "transpose-and-reshape": ("transpose: order not inverted",),
}
"""The exercises in which a mistake is made most easily, and the names of its entries."""

INTRODUCTION = """\
# Gallery of wrong gradients

A wrong gradient seldom announces itself. The program runs, the loss falls, the shapes are right; the model only learns
less than it could. This page collects {n} mistakes in backward passes, and a few in forward passes, that the tests of
this project must catch. Those that were met in other projects, in code or in tests that could not see them, say where.
The others are typical: they are easily made, but no case is documented.

They are not only described. Each one is code, in `tests/gallery/wrong_pages.py` and `wrong_core.py`, and for each one
`tests/gallery/test_gallery.py` shows that

- the public checker (`mt.testing.prove` for an operation, `mt.testing.gradcheck` for a function) rejects it, with the
  message that belongs to it;
- the same checker accepts the right version on the same inputs;
- a weak test, of the kind that the column "why tests miss it" describes, **accepts** it, where that column ends with ✓
  ({shown} of {n}). The weak test compares with finite differences too, or compares shapes alone; it accepts the right
  version as well; and where the mistake shows in the numbers at all, the same test without its weakness rejects it.

Four weaknesses explain nearly all of them:

1. **A constant cotangent.** With `y.sum()` as the loss, the rows of a softmax and a layer norm with gain 1 have
   gradient zero, so every formula passes that gives zero.
2. **Inputs that hide it.** Gain 1, equal sizes, a batch of one, no padding, no ties, nothing used twice.
3. **A tolerance in the wrong place.** An absolute 1e-2 on gradients that are smaller than that.
4. **Nobody tests the tester.** That is what this gallery is for.

One thing finite differences cannot tell, entry by entry: where several entries tie for a maximum, each by itself may
claim the whole gradient, since that lies between the slopes on its two sides. The ties in this gallery are therefore
made of one number given twice, where the function is smooth.

In the formulas d_x is the gradient of the loss with respect to x; B, T, D, Dk, Dv, Tq and Tk are sizes: batch,
positions, features, features of a key and of a value, queries and keys. Where an exercise is named, you can write the
right version yourself.
"""

AFTERWORD = """\
This page is made from the entries. After a change there, write it again: `python tests/gallery/gallery_page.py`.
"""


def page() -> str:
    """Return the page as Markdown."""
    entries = [*PAGES, *CORE]
    shown = sum(entry.weak is not None for entry in entries)
    parts = (
        INTRODUCTION.format(n=len(entries), shown=shown),
        "## The pages\n",
        table(PAGES),
        "## The autograd core\n",
        table(CORE),
        AFTERWORD,
    )
    return "\n".join(parts)


def anchor(name: str) -> str:
    """Return the address of a mistake on the page."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def core_source(entry: Entry) -> str:
    """Return the file in which a mistake that is not in a hand-derived operation could be made."""
    if entry in CORE:
        return f"minitransformer/autograd/{'graph' if entry.operation == 'the walk' else 'rules'}.py"
    return "minitransformer/testing/gradcheck.py"


def table(entries: Iterable[Entry]) -> str:
    """Return one row for each entry."""
    return "\n".join(lines(entries)) + "\n"


def lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield row(COLUMNS)
    yield row(["---"] * len(COLUMNS))
    for e in entries:
        missed = e.missed + (" ✓" if e.weak else "")
        yield row((e.name, e.operation.replace("_", " "), e.says + to_exercise(e.name), e.met, missed, e.caught))


def to_exercise(entry: str) -> str:
    """Return a link to the exercise that an entry belongs to, if there is one."""
    names = [name for name, entries in EXERCISES.items() if entry in entries]
    return "".join(f" Exercise: [`{name}`](guides/exercises.md)." for name in names)


def row(cells: Iterable[str]) -> str:
    """Return a line of a table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
