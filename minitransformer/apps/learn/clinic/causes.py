"""Possible causes of a failed training run, and the evidence in a report for or against each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitransformer.data import PAD

Report = Mapping[str, Any]
Finding = tuple[bool, str]
"""Whether a measurement supports the cause, and the measurement in words."""


@dataclass(frozen=True)
class Cause:
    """A possible cause.

    Attributes
    ----------
    text : str
        The cause in a sentence.
    ask : str
        The measurement that shows it.
    finding : callable
        Returns, for a report, whether it supports this cause, and why.
    """

    text: str
    ask: str
    finding: Callable[[Report], Finding]


def _no_warm_up(report: Report) -> Finding:
    first, peak = report["rates"][0], max(report["rates"])
    return first > peak / 2, f"the learning rate is {first:.2g} at the first step, its peak is {peak:.2g}"


def _rate_too_high(report: Report) -> Finding:
    peak = max(report["rates"])
    return peak > 0.05, f"the peak learning rate is {peak:.2g}; models of this size train at 0.001 to 0.03"


def _rate_too_low(report: Report) -> Finding:
    peak = max(report["rates"])
    return peak < 0.001, f"the peak learning rate is {peak:.2g}; models of this size train at 0.001 to 0.03"


def _too_few_steps(report: Report) -> Finding:
    n = len(report["rates"])
    return n < 200, f"training has {n} steps; a healthy training needs about 250"


def _sees_target(report: Report) -> Finding:
    change = report["looks_ahead"]
    return (
        change > 1e-4,
        f"the logits of the first three positions change by {change:.2g} when only later target tokens are changed",
    )


def _padding_in_loss(report: Report) -> Finding:
    labels = np.array(report["batch"]["labels"])
    counted = int(((labels == PAD) & (labels != report["batch"]["ignored"])).sum())
    return counted > 0, f"of {labels.size} labels in six rows, {counted} are padding that counts in the loss"


def _not_shifted(report: Report) -> Finding:
    labels, read = np.array(report["batch"]["labels"]), np.array(report["batch"]["read"])
    same = float((labels == read)[labels != PAD].mean())
    return same > 0.9, f"{same:.0%} of the labels are the token that the decoder reads at the same position"


def _positions_missing(report: Report) -> Finding:
    spread = report["spread"]["positions"]
    return spread < 1e-6, f"the embeddings of one token at different positions differ by {spread:.2g}"


def _not_scaled(report: Report) -> Finding:
    tokens, positions = report["spread"]["tokens"], report["spread"]["positions"]
    return (
        1e-2 < tokens < 2 * positions,
        f"after the first step, embeddings of different tokens at one position differ by {tokens:.2g}, and embeddings "
        f"of one token at different positions by {positions:.2g}",
    )


def _dropout(report: Report) -> Finding:
    same = report["repeated"]
    return same < 1, f"{same:.0%} of the rows are written in the same way the second time"


def _mask_inverted(report: Report) -> Finding:
    tokens, padding = report["on_tokens"], report["on_padding"]
    return (
        padding > 0.5 and tokens < 1e-6,
        f"cross-attention gives {padding:.0%} of its weight to padding and {tokens:.0%} to the source's tokens",
    )


def _mask_missing(report: Report) -> Finding:
    tokens, padding = report["on_tokens"], report["on_padding"]
    return (
        padding > 0 and tokens > 1e-6,
        f"cross-attention gives {padding:.0%} of its weight to padding and {tokens:.0%} to the source's tokens "
        f"(without a mask, some to both); "
        f"{report['alone_score']:.0%} of the rows are right without padding, {report['score']:.0%} with it",
    )


def _equal_weights(report: Report) -> Finding:
    equal = sum(weight["start"][1] < 1e-6 for weight in report["weights"])
    return equal > 0, f"at the start, {equal} of {len(report['weights'])} matrices hold one number only"


def _not_cleared(report: Report) -> Finding:
    return (
        report["clears"] < len(report["rates"]),
        f"gradients are cleared {report['clears']} times in {len(report['rates'])} steps",
    )


def _underflow(report: Report) -> Finding:
    types, zeros = report["gradients"]["types"], report["gradients"]["zeros"]
    return "float16" in types, f"gradients are {', '.join(types)}, and {zeros:.1%} of their entries are exactly 0"


CAUSES = {
    "decoder-sees-its-target": Cause("the decoder sees the tokens that it has to predict", "attention", _sees_target),
    "dropout-in-evaluation": Cause("dropout stays on while the model writes", "repeat", _dropout),
    "embeddings-not-scaled": Cause("embeddings are not multiplied by sqrt(d_model)", "embeddings", _not_scaled),
    "equal-weights": Cause("the entries of a weight matrix start out equal", "weights", _equal_weights),
    "float16-underflow": Cause("gradients are too small for float16 and become 0", "gradients", _underflow),
    "gradients-not-cleared": Cause("each step adds to the gradients of the steps before", "gradients", _not_cleared),
    "labels-not-shifted": Cause("the label is the token that the decoder has just read", "batch", _not_shifted),
    "mask-inverted": Cause(
        "the mask of the source hides the tokens and shows the padding", "attention", _mask_inverted
    ),
    "no-warm-up": Cause("post-norm layers are trained without warm-up", "rate", _no_warm_up),
    "padding-in-the-loss": Cause("padding counts in the loss", "batch", _padding_in_loss),
    "positions-missing": Cause("the model does not know the positions of tokens", "embeddings", _positions_missing),
    "rate-too-high": Cause("the learning rate is too high", "rate", _rate_too_high),
    "rate-too-low": Cause("the learning rate is too low", "rate", _rate_too_low),
    "source-mask-missing": Cause("the padding of the source is not masked", "alone", _mask_missing),
    "too-few-steps": Cause("training ends before the loss has fallen", "rate", _too_few_steps),
}
"""All causes that a diagnosis can name; there are more causes than broken scripts."""
