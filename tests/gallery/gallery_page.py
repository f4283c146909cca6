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

INTRODUCTION = Path(__file__).with_name("introduction.md").read_text(encoding="utf-8")

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
    if entry.card.exercise:
        yield f"exercise [`{entry.card.exercise}`](guides/exercises.md)"
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
