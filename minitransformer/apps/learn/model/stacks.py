"""The model as the paper draws it, encoder and decoder as stacks of sub-layers, and the exercises in each of them."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple


class Sublayer(NamedTuple):
    """A sub-layer, or a step of training or decoding, with the exercises that are parts of it."""

    title: str
    parts: tuple[str, ...]
    layered: bool = False
    """Whether each of the N layers has one."""
    reads_encoder: bool = False
    """Whether a decoder alone lacks it."""


def _read() -> dict[str, tuple[Sublayer, ...]]:
    stacks = tomllib.loads(Path(__file__).with_name("stacks.toml").read_text(encoding="utf-8"))
    shared = stacks.pop("parts")
    return {
        name: tuple(
            Sublayer(**{**one, "parts": tuple(part for word in one["parts"] for part in shared.get(word, [word]))})
            for one in sublayers
        )
        for name, sublayers in stacks.items()
    }


STACKS = _read()
"""The stacks; data flows from the first sub-layer to the last."""


class Row(NamedTuple):
    """A line of a sub-layer's box."""

    text: str
    """The name of a part, or a remark on parts of another box."""
    owner: str = ""
    """Whose the part is: ``"yours"``, ``"engine"`` or, of a part of the learner's, ``"wrong"``; nothing of a remark."""
    note: str = ""
    """A word or a number for the part."""


class Box(NamedTuple):
    """A sub-layer as it is drawn."""

    title: str
    rows: list[Row]
    layered: bool


def fill_stacks(
    used: Collection[str],
    mine: Collection[str],
    wrong: Collection[str],
    notes: Mapping[str, str],
    decoder_only: bool = False,
) -> dict[str, list[Box]]:
    """Return what to draw of each stack: each part once, and nothing of a box without parts.

    Parameters
    ----------
    used : collection of str
        The exercises that are parts of this model; the others are left out.
    mine : collection of str
        The parts that are the learner's and right.
    wrong : collection of str
        The learner's parts that are wrong.
    notes : mapping of str to str
        A word or a number for each part.
    decoder_only : bool
        Whether the model is a decoder alone.
    """

    def owner(name: str) -> str:
        return "wrong" if name in wrong else "yours" if name in mine else "engine"

    stacks: dict[str, list[Box]] = {}
    drawn = set[str]()
    for stack, sublayers in STACKS.items():
        if decoder_only and stack == "encoder":
            continue
        stacks[stack], above = [], set[str]()
        for each in sublayers:
            names = [name for name in each.parts if name in used]
            if not names or (decoder_only and each.reads_encoder):
                continue
            new = [name for name in names if name not in drawn]
            rows = [Row(name, owner(name), notes.get(name, "")) for name in new]
            if again := [name for name in names if name in drawn]:
                owners = [owner(name) for name in again]
                where = "as above" if above.issuperset(again) else "as in the encoder"
                rows.append(Row(f"{where}: {owners.count('yours')} of {len(owners)} yours"))
                if "wrong" in owners:
                    rows.append(Row(f"{' ' * len(where)}  {owners.count('wrong')} wrong"))
            stacks[stack].append(Box(each.title, rows, each.layered))
            above |= {*new}
            drawn |= {*new}
    return stacks
