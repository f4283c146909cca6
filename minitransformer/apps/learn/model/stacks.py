"""The model as the paper draws it, encoder and decoder as stacks of sub-layers, and the exercises in each of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple


class Sublayer(NamedTuple):
    """A sub-layer, or a step of training or decoding, with the exercises that are parts of it."""

    title: str
    parts: tuple[str, ...]
    layered: bool = False
    """Whether each of the N layers has one."""
    reads_encoder: bool = False
    """Whether a decoder alone lacks it."""


EMBEDDING = ("repeated-ids", "embedding-scale", "sinusoidal-positions")
DROPOUT = ("dropout-forward", "dropout-backward")
ATTENTION = (
    "padding-mask", "split-heads", "scaled-scores", "softmax-of-large-scores", "a-row-that-sees-nothing", "merge-heads",
    "weights-and-values-backward", "softmax-backward", "queries-and-keys-backward", "one-weight-for-a-batch",
    "grouped-heads-backward",
)  # fmt: skip
SELF_ATTENTION = (*ATTENTION, "self-attention-backward", "rotary-forward", "rotary-backward")
NORM = (
    "residual-connection", "layer-norm-forward", "layer-norm-backward", "gain-and-bias-gradients", "rms-norm-forward",
    "rms-norm-backward",
)  # fmt: skip
FEED_FORWARD = ("feed-forward-backward", "swiglu-backward")
ADD_AND_NORM = Sublayer("add & norm", (*NORM, *DROPOUT), layered=True)

STACKS: dict[str, tuple[Sublayer, ...]] = {
    "encoder": (
        Sublayer("embedding + positions", (*EMBEDDING, *DROPOUT)),
        Sublayer("self-attention", SELF_ATTENTION, layered=True),
        ADD_AND_NORM,
        Sublayer("feed-forward", FEED_FORWARD, layered=True),
        ADD_AND_NORM,
    ),
    "decoder": (
        Sublayer("embedding + positions", ("shifted-targets", *EMBEDDING, *DROPOUT)),
        Sublayer("masked self-attention", ("causal-mask", *SELF_ATTENTION), layered=True),
        ADD_AND_NORM,
        Sublayer("cross-attention", ATTENTION, layered=True, reads_encoder=True),
        ADD_AND_NORM._replace(reads_encoder=True),
        Sublayer("feed-forward", FEED_FORWARD, layered=True),
        ADD_AND_NORM,
        Sublayer("linear", ("linear-backward",)),
        Sublayer("softmax", ("softmax-of-large-scores",)),
        Sublayer("loss", ("cross-entropy-forward", "smoothed-targets", "label-smoothing-backward")),
    ),
    "training": (
        Sublayer("initial weights", ("xavier",)),
        Sublayer(
            "walk over the graph",
            (
                "order-of-a-graph", "walk-back", "add-with-broadcasting", "product-rule", "transpose-and-reshape",
                "unbroadcast",
            ),
        ),
        Sublayer("Adam", ("adam-step",)),
        Sublayer("warm-up", ("warm-up",)),
    ),
    "decoding": (
        Sublayer("greedy", ("greedy-decoding",)),
        Sublayer("beam search", ("beam-step", "length-penalty")),
        Sublayer("sampling", ("top-p",)),
    ),
}  # fmt: skip
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
