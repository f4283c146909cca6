"""The gallery of wrong gradients as Markdown: ``python tests/gallery/gallery_page.py`` writes it.

The number of mistakes in the two READMEs is written too.

With ``--train`` it first trains a small model with each mistake, which takes some minutes.
"""

import copy
import inspect
import re
import sys
from collections.abc import Callable
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
WRITTEN = "`python tests/gallery/gallery_page.py` writes this document; `--train` repeats the trainings.\n"

OWN = {"the walk": "Backward pass over the graph", "unbroadcast": "Broadcasting"}
"""The headings of the core's mistakes that are not in an elementary rule."""


def page() -> str:
    """Return the gallery as Markdown."""
    entries = [*OPERATIONS, *CORE]
    trainings = wrong_training.read()
    silent = [one for one in trainings.values() if wrong_training.is_silent(one)]
    parts = [INTRODUCTION.format(n=len(entries), silent=len(silent), idle=silent.count(None))]
    for title, group in groupby(entries, heading):
        cards = [*group]
        parts += [f"\n## {title}\n\n{links(cards[0])}\n"]
        parts += [card(entry, wrong_training.says(trainings[entry.name])) for entry in cards]
    return "".join(parts) + f"\n{WRITTEN}"


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


def card(entry: Entry, training: str) -> str:
    """Return the card of a mistake."""
    text, name = entry.card, anchor(entry.name)
    on_a_host = re.sub(r"[^\w\- ]", "", entry.name.lower()).replace(" ", "-")
    place = f'<a id="{name}"></a>\n\n' if name != on_a_host else ""
    says = f"{text.says}\n\n" * bool(text.says)
    facts = [f"{text.effect or effect(entry)}."] + [f"Training: {training}."] * (training != "same")
    facts += [f"Missed: {text.missed}"] * bool(text.missed) + [f"Caught by: {text.caught}"]
    facts += [f"Elsewhere: {text.met}"] * bool(text.met)
    facts += [f"Exercise [`{text.exercise}`](guides/exercises.md)."] * bool(text.exercise)
    facts += [f"[Code](../{code(entry)}#{name})"]
    return f"\n{place}### {entry.name}\n\n{says}```diff\n- {text.wrong}\n+ {text.right}\n```\n\n{' '.join(facts)}\n"


def links(entry: Entry) -> str:
    """Return where to read on about the operation of a mistake."""
    files = f"[Operation](../{source(entry)})"
    return f"[Derivation](derivations/{name}.md) · {files}" if (name := derivation(entry)) else files


# ---------------------------------------------------------------------------------------------------------------------
# What a mistake does, in numbers


def effect(entry: Entry) -> str:
    """Return how far the wrong gradient is from the right one, or the wrong value where the forward pass is wrong."""
    right, gradients = run(entry.right, entry.example)
    with entry.mistake():
        value, wrong = run(entry.wrong, entry.example)
    if entry.message == VALUE:
        return f"Output: {difference(value, right)}"
    names = names_of(entry)
    worst = max(wrong, key=lambda place: distance(wrong[place], gradients[place]))
    return f"`{names[worst]}`: {difference(wrong[worst], gradients[worst])}"


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
    """Say how two arrays differ: in direction, as an angle, and in length, as a factor."""
    if not np.isfinite(wrong).all():
        return "NaN"
    lengths = np.linalg.norm(wrong), max(np.linalg.norm(right), 1e-300)
    if lengths[0] == 0:
        return "zero"
    ratio, cosine = lengths[0] / lengths[1], (wrong / lengths[0] * (right / lengths[1])).sum()
    size = f"{ratio:.0f}" if ratio >= 100 else f"{ratio:.2g}"
    if cosine < -1 + 1e-9:
        return "opposite" + f", × {size}" * (size != "1")
    if cosine > 1 - 1e-9 and size != "1":
        return f"× {size}"
    angle, error = np.degrees(np.arccos(min(cosine, 1.0))), distance(wrong, right)
    if angle < 0.5 and size == "1":
        return f"relative error {error:.1g}"
    return ", ".join([f"{angle:.0f}°"] * bool(angle >= 0.5) + [f"× {size}"] * (size != "1"))


if __name__ == "__main__":
    if "--train" in sys.argv:
        wrong_training.write(wrong_training.measure_all([*OPERATIONS, *CORE]))
    PAGE.write_text(page(), encoding="utf-8")
    for name, number in (("README.md", r"\d+(?= mistakes)"), ("README.ko.md", r"(?<=실수 )\d+")):
        readme = PAGE.parents[1] / name
        text = re.sub(number, str(len([*OPERATIONS, *CORE])), readme.read_text(encoding="utf-8"), count=1)
        readme.write_text(text, encoding="utf-8")
