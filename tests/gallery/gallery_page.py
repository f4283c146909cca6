"""The gallery of wrong gradients as Markdown: ``python tests/gallery/gallery_page.py`` writes it.

With ``--train`` it first trains a small model with each mistake, which takes some minutes.
"""

import copy
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import wrong_training
from wrong_core import CORE
from wrong_entry import VALUE, Entry, is_float
from wrong_operations import EDITS, OPERATIONS

from minitransformer import Operation, Tensor

PAGE = Path(__file__).parents[2] / "docs" / "gallery-of-wrong-gradients.md"

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
    "rms-norm-backward": ("rms norm: the mean term of layer norm", "rms norm: no x̂ term"),
    "swiglu-backward": ("swiglu: the other half is the gate", "swiglu: the gate's sigmoid as a constant"),
    "rotary-forward": ("rotary: halves for pairs",),
    "rotary-backward": ("rotary: the gradient rotated forwards",),
    "grouped-heads-backward": ("grouped-query: one head of each group", "grouped-query: other groups"),
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

A wrong gradient rarely announces itself. The program runs, the shapes are right, the loss falls; the model only learns
less than it could. Here are {n} mistakes, most of them in backward passes, that the tests of this project must catch.
Where a mistake was found in another project, or a test there could not see it, the card says so.

Each mistake is code, and a test shows that

- the public checker (`mt.testing.prove` for an operation, `mt.testing.gradcheck` for a function) rejects it;
- the checker accepts the right version on the same inputs;
- a weak test of the kind that the card describes accepts both the mistake and the right version. Without its weakness
  it rejects the mistake, if the mistake changes any number.

Four weaknesses explain nearly all of them:

1. **A constant cotangent.** With `y.sum()` as the loss, softmax and a layer norm with gain 1 have gradient zero. Every
   formula that returns zero passes.
2. **Inputs that hide the mistake.** Gain 1, equal sizes, a batch of one, no padding, no ties, nothing used twice.
3. **A tolerance in the wrong place.** An absolute 1e-2 on gradients that are smaller than that.
4. **A checker that nobody tested.**

Finite differences have a limit of their own: where several entries tie for a maximum, each share from 0 to 1 lies
between the slopes on the two sides. The ties in this gallery are therefore one number given twice, where the function
is smooth.

`d_x` is the gradient of the loss with respect to `x`. B, T, D, Dk, Dv, Tq and Tk are sizes: batch, positions, features,
features of a key and of a value, queries and keys. Under **Effect** the wrong gradient is compared with the right one,
on the inputs of the test and with a random cotangent: that of the input which differs most. "28° off" is the angle
between the two.

**In training**: a small model, one layer of the Transformer, learns to repeat the symbol two positions back, in 250
steps of Adam. It is trained with the mistake and without, in a form that uses the operation: with a recurrence in place
of attention, for example. {silent} of the {n} mistakes do not show there: the model learns as much as without them, and
{idle} of these change none of its numbers. Adam hides wrong factors, and the other parameters make up for a wrong
direction. So a loss that falls proves nothing.

This file is generated from `tests/gallery`: `python tests/gallery/gallery_page.py` writes it, and `--train` repeats the
trainings.
"""

OWN = {"the walk": "Backward pass over the graph", "unbroadcast": "Broadcasting"}
"""The headings of the core's mistakes that are not in an elementary rule."""


def page() -> str:
    """Return the gallery as Markdown."""
    entries = [*OPERATIONS, *CORE]
    trainings = wrong_training.read()
    silent = [one for one in trainings.values() if wrong_training.is_silent(one)]
    parts = [INTRODUCTION.format(n=len(entries), silent=len(silent), idle=silent.count(None))]
    for title, group in groupby(entries, heading):
        parts += [f"## {title}\n", *(card(entry, trainings) for entry in group)]
    return "\n".join(parts)


def heading(entry: Entry) -> str:
    """Return the section that a mistake belongs to."""
    if entry in CORE:
        return OWN.get(entry.operation, "Elementary rules")
    hand_derived = entry.operation.isidentifier()
    return entry.operation.replace("_", " ").capitalize() if hand_derived else "Tolerances"


def anchor(name: str) -> str:
    """Return the address of a mistake."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def derivation(entry: Entry) -> str:
    """Return the derivation that a mistake belongs to, or nothing for one that shows the limits of a checker."""
    if entry in CORE:
        return "elementary-rules"
    return entry.operation.replace("_", "-") if entry.operation.isidentifier() else ""


def source(entry: Entry) -> str:
    """Return the file in which a mistake could be made."""
    if entry in CORE:
        return f"minitransformer/autograd/{'graph' if entry.operation == 'the walk' else 'rules'}.py"
    if entry.operation.isidentifier():
        return f"minitransformer/ops/{entry.operation}.py"
    return "minitransformer/testing/gradcheck.py"


def code(entry: Entry) -> str:
    """Return the file that has a mistake as code."""
    if entry.name in EDITS:
        return "tests/gallery/edits.toml"
    return f"tests/gallery/{'wrong_core' if entry in CORE else 'wrong_operations'}.py"


def card(entry: Entry, trainings: Mapping[str, wrong_training.Training | None]) -> str:
    """Return the card of a mistake."""
    text = entry.card
    rows = {
        "Effect": text.effect or effect(entry),
        "In training": wrong_training.says(trainings[entry.name]),
        "Why weak tests pass": text.missed,
        "What catches it": text.caught,
        "Elsewhere": text.met,
        "See": ", ".join(links(entry)) + ".",
    }
    told = "\n".join(f"- **{name}:** {row}" for name, row in rows.items() if row)
    return f"### {entry.name}\n\n{text.says}\n\n```diff\n- {text.wrong}\n+ {text.right}\n```\n\n{told}\n"


def links(entry: Entry) -> Iterator[str]:
    """Yield where to read on, and where the right version can be written."""
    if name := derivation(entry):
        yield f"[derivation](derivations/{name}.md)"
    yield f"[`{source(entry).removeprefix('minitransformer/')}`](../{source(entry)})"
    for name, entries in EXERCISES.items():
        if entry.name in entries:
            yield f"exercise [`{name}`](guides/exercises.md)"
    yield f"[the mistake as code](../{code(entry)}#{anchor(entry.name)})"
    yield "[its test](../tests/gallery/test_gallery.py#test_the_mistake_is_caught)"


# ---------------------------------------------------------------------------------------------------------------------
# What a mistake does, in numbers


def effect(entry: Entry) -> str:
    """Return how far the wrong gradient is from the right one, or the wrong value where the forward pass is wrong."""
    right, gradients = run(entry.right, entry.example)
    with entry.mistake():
        value, wrong = run(entry.wrong, entry.example)
    if entry.message == VALUE:
        return f"The output {difference(value, right)}."
    names = names_of(entry)
    worst = max(wrong, key=lambda place: distance(wrong[place], gradients[place]))
    return f"The gradient of `{names[worst]}` {difference(wrong[worst], gradients[worst])}."


def names_of(entry: Entry) -> list[str]:
    """Return the names of an operation's or function's inputs."""
    subject: Callable[..., Any] = entry.right.forward if isinstance(entry.right, Operation) else entry.right
    return list(inspect.signature(subject).parameters)


def run(function: Callable[..., Tensor], at: Any) -> tuple[Any, dict[int, Any]]:
    """Return a function's value, and the gradient of each input against a random cotangent."""
    given = [copy.deepcopy(x) for x in at.inputs]
    given = [Tensor(x, requires_grad=True) if is_float(x) else x for x in given]
    y = function(*given, **at.options)
    y.backward(np.random.default_rng(5).standard_normal(y.shape))
    leaves = {place: x for place, x in enumerate(given) if isinstance(x, Tensor)}
    return y.numpy(), {place: np.zeros(x.shape) if x.grad is None else x.grad for place, x in leaves.items()}


def distance(wrong: Any, right: Any) -> float:
    """Return the relative error; infinite where it is no number."""
    error = np.linalg.norm(wrong - right) / max(np.linalg.norm(right), 1e-300)
    return float(error) if np.isfinite(error) else np.inf


def difference(wrong: Any, right: Any) -> str:
    """Say how two arrays differ: in length, in direction, or in both."""
    if not np.isfinite(wrong).all():
        return "contains NaN"
    lengths = np.linalg.norm(wrong), max(np.linalg.norm(right), 1e-300)
    if lengths[0] == 0:
        return "is zero"
    ratio, cosine = lengths[0] / lengths[1], (wrong / lengths[0] * (right / lengths[1])).sum()
    size = f"{ratio:.0f}" if ratio >= 100 else f"{ratio:.2g}"
    if cosine < -1 + 1e-9:
        return "points the opposite way" + f" and is {size} times as long" * (size != "1")
    if cosine > 1 - 1e-9 and size != "1":
        return f"has the right direction and is {size} times as long"
    angle, error = np.degrees(np.arccos(min(cosine, 1.0))), distance(wrong, right)
    if angle < 0.5 and size == "1":
        return f"has a relative error of {error:.1g}"
    parts = [f"{angle:.0f}° off"] * bool(angle >= 0.5) + [f"{size} times as long"] * (size != "1")
    return f"is {' and '.join(parts)} (relative error {error:.2g})"


if __name__ == "__main__":
    if "--train" in sys.argv:
        wrong_training.write(wrong_training.measure_all([*OPERATIONS, *CORE]))
    PAGE.write_text(page(), encoding="utf-8")
