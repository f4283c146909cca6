"""What was measured, as text for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from minitransformer.apps.learn.language import said
from minitransformer.console import gather, spread
from minitransformer.data import END, PAD, START

Report = Mapping[str, Any]
WIDTH, HEIGHT = 60, 10
SHADES = " .:-=+*#%@"
SPECIAL = {PAD: "_", START: "<", END: ">"}
LEGEND = "(< start, > end, _ padding)"


def tokens(ids: Sequence[int]) -> str:
    """Return tokens as text, one character each."""
    return "".join(SPECIAL.get(i, str(i - len(SPECIAL))) for i in ids)


def curve(values: Sequence[float], title: str) -> str:
    """Draw a curve over the steps, with as many columns as fit; a column is the mean of its steps."""
    finite = np.nan_to_num(np.array(values), nan=np.inf, posinf=np.inf)
    columns = np.array([part.mean() for part in np.array_split(finite, min(WIDTH, len(finite)))])
    known = columns[np.isfinite(columns)]
    if not known.size:
        return f"{title}: no number is finite"
    low, high = min(0.0, float(known.min())), float(known.max())
    level = np.where(np.isfinite(columns), (columns - low) / ((high - low) or 1) * (HEIGHT - 1), HEIGHT - 1).round()
    lines = [
        f"{high - (high - low) * i / (HEIGHT - 1):8.3f} |" + "".join(" *"[int(at == HEIGHT - 1 - i)] for at in level)
        for i in range(HEIGHT)
    ]
    last = f"{len(values):>{len(columns)}}" if len(values) > 1 else ""
    axis = f"{'':8} +{'-' * len(columns)}\n{'':9}1{last}"
    return "\n".join([title, *(line.rstrip() for line in lines), axis])


def heat(weights: Sequence[Sequence[float]], rows: Sequence[int], columns: Sequence[int], title: str) -> str:
    """Draw an attention map: a row for each query, a column for each key."""
    body = [
        f"  {tokens([row])}  " + " ".join(SHADES[min(int(15 * weight), 9)] for weight in line).rstrip()
        for row, line in zip(rows, weights, strict=False)
    ]
    scale = f"     rows attend to columns; {SHADES.strip()} is a weight of 1/15 to 9/15 and more"
    return "\n".join([title, f"     {' '.join(tokens(columns[: len(weights[0])]))}", *body, scale])


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out a table: the first column to the left, the others to the right."""
    lines = [[spread(said(name)) for name in head], *rows]
    first, *others = [max(map(len, column)) for column in zip(*lines, strict=True)]
    sizes = "  ".join([f"{{:<{first}}}", *(f"{{:>{width}}}" for width in others)])
    return gather("\n".join(sizes.format(*line).rstrip() for line in lines))


def _gradients(report: Report) -> str:
    steps = list(report["norms"])
    rows = [[part, *(f"{report['norms'][step][part]:.2g}" for step in steps)] for part in report["norms"][steps[0]]]
    found = report["gradients"]
    return "\n".join([
        "Norm of the gradient by part of the model", table(["at step", *steps], rows),
        f"type {', '.join(found['types'])}; at the last of these steps {found['zeros']:.1%} of the entries are 0",
        f"gradients were cleared {report['clears']} times in {len(report['rates'])} steps",
    ])  # fmt: skip


def _samples(report: Report, n: int = 8) -> str:
    rows = [[tokens(s["source"]), tokens(s["wanted"]), tokens(s["wide"])] for s in report["samples"][:n]]
    return f"Held-out rows {LEGEND}\n{table(['source', 'wanted', 'written'], rows)}"


def _alone(report: Report) -> str:
    rows = [[tokens(s["source"]), tokens(s["alone"]), tokens(s["wide"])] for s in report["samples"]]
    return "\n".join([
        "Each row written alone, and in a batch where it is padded for a longer row",
        table(["source", "alone", "in a batch"], rows),
        f"right alone: {report['alone_score']:.0%}   right in a batch: {report['score']:.0%}",
    ])  # fmt: skip


def _repeat(report: Report) -> str:
    rows = [[tokens(s["source"]), tokens(s["wide"]), tokens(s["again"])] for s in report["samples"]]
    body = table(["source", "written", "written again"], rows)
    return f"The same rows written twice\n{body}\nthe same both times: {report['repeated']:.0%}"


def _cross(report: Report) -> str:
    title = "Cross-attention of the last layer, mean of the heads, right target given"
    return heat(report["maps"]["cross"], report["map_rows"], report["map_columns"], title)


def _attention(report: Report) -> str:
    maps, read, source = report["maps"], report["map_rows"], report["map_columns"]
    return "\n\n".join([
        _cross(report),
        heat(maps["decoder"], read, read, "Self-attention of the last decoder layer"),
        heat(maps["encoder"], source, source, "Self-attention of the encoder layer"),
        f"Cross-attention's weight: {report['on_tokens']:.0%} to tokens, {report['on_padding']:.0%} to padding.\n"
        f"The logits of positions 1 to 3 change by up to {report['looks_ahead']:.2g}\n"
        "if only the target tokens from position 4 on are changed.",
    ])  # fmt: skip


def _weights(report: Report) -> str:
    cells = [[w["name"], *(f"{value:.3f}" for value in (*w["start"], *w["end"]))] for w in report["weights"]]
    head = ["matrix", "start: mean", "std", "end: mean", "std"]
    return table(head, cells)


def _batch(report: Report) -> str:
    batch = report["batch"]
    labels = [["." if label == batch["ignored"] else tokens([label]) for label in row] for row in batch["labels"]]
    columns = zip_longest(map(tokens, batch["source"]), map(tokens, batch["read"]), map("".join, labels), fillvalue="")
    return "\n".join([
        f"Six rows of the second batch {LEGEND};\na label that does not count in the loss is a dot",
        table(["source", "decoder reads", "label"], [list(row) for row in columns]),
    ])  # fmt: skip


def _rate(report: Report) -> str:
    return curve(report["rates"], f"Learning rate in {len(report['rates'])} steps")


def _embeddings(report: Report) -> str:
    spread = report["spread"]
    return (
        "Standard deviation of the embeddings after the first step\n"
        f"of different tokens at one position:  {spread['tokens']:.3f}\n"
        f"of one token at different positions:  {spread['positions']:.3f}"
    )


def _accuracy(report: Report) -> str:
    return (
        "With the right target given, without dropout\n"
        f"the prediction is the next token:                {report['token_accuracy']:.0%} of positions\n"
        f"the prediction is the token that was just read:  {report['copies_input']:.0%} of positions\n"
        f"Writing on its own: {report['score']:.0%} of rows are right."
    )


def _loss(report: Report) -> str:
    return curve(report["losses"], f"Training loss, nats per target token (at the end {report['losses'][-1]:.3f})")


SHOWN = (
    _accuracy, _alone, _attention, _batch, _embeddings, _gradients, _loss, _rate, _repeat, _samples, _weights,
)  # fmt: skip
ASK: dict[str, Callable[[Report], str]] = {show.__name__[1:]: show for show in SHOWN}
"""Each measurement that can be asked for."""


def overview(report: Report) -> str:
    """Return what a visit shows first."""
    score = f"{report['score']:.0%} of the held-out rows are written exactly."
    norms = _gradients(report).rsplit("\n", 2)[0]
    return "\n\n".join([_loss(report), f"{_samples(report, 4)}\n{score}", _cross(report), norms])
