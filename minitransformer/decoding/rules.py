"""The rules of a search: what ends it, how hypotheses are compared, and which tokens may be written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from minitransformer.arrays import Array, asarray, xp
from minitransformer.data import END
from minitransformer.decoding.search import Ids, exclude, limits, longest_sentence
from minitransformer.nn import Model
from minitransformer.options import OptionError, Options, option


def length_penalty(length: Any, alpha: float) -> Any:
    """Return ((5 + length) / 6)^alpha, the divisor of log-probabilities.

    Parameters
    ----------
    length : int or integer array
        ``|Y|``, the number of tokens, including the end token.
    alpha : float
        0 for none; the paper has 0.6.
    """
    return ((5 + np.asarray(length)) / 6) ** alpha


_rule = partial(option, flag=False, added=True, editable=True)


@dataclass(frozen=True, kw_only=True)
class SearchOptions(Options):
    """The rules of decoding; the defaults are the paper's (section 6.1).

    Raises
    ------
    OptionError
        If a value is out of its range, or tokens are forbidden whose probability is not redistributed.
    """

    owner: ClassVar[str] = "search"

    beam: int = _rule(
        1, "hypotheses for each sentence, unless a number is given; 1 is greedy search", at_least=1, at_most=10_000
    )
    # beyond these limits, a wide search fills the memory and scores overflow
    alpha: float = _rule(0.6, "exponent of the length penalty, unless one is given", at_least=0, at_most=100)
    penalty: str = _rule(
        "gnmt",
        "divisor of log-probabilities, for a sentence of n tokens: ((5 + n) / 6)^alpha (gnmt), or n^alpha (length)",
        choices=("gnmt", "length"),
    )
    full_beam: bool = _rule(
        False,
        "whether, with a beam above 1, another hypothesis takes the place of a finished one, so that as many as before "
        "are continued",
    )
    stop: str = _rule(
        "exact",
        "when a search ends: when no continuation can change the result (exact), when no live hypothesis would be "
        "among the best if it ended now (heuristic), or when as many are finished as the beam is wide (full)",
        choices=("exact", "heuristic", "full"),
    )
    most_written: int | None = _rule(
        None, "most tokens of a translation, its end included (default: 50 more than its source has)", at_least=1
    )
    least_written: int = _rule(
        0, "fewest tokens of a translation, its end not included; before, the end's probability goes to the others",
        at_least=0,
    )  # fmt: skip
    force_end: bool = _rule(False, "whether the last token that may be written is the end, with probability 1")
    limit_ends: bool = _rule(
        False, "whether a translation of the most tokens is compared with others as if it had ended"
    )
    renormalise: bool = _rule(False, "whether the probability of tokens that are never written is given to the others")
    forbidden: Sequence[int] | None = _rule(None, "ids that are never written, besides padding and the start")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.forbidden and not self.renormalise:
            raise OptionError(
                "search: forbidden tokens need renormalise: their probability goes to the others",
                "forbidden", "renormalise",
            )  # fmt: skip
        if any(token < 0 for token in self.forbidden or ()):
            raise OptionError(f"search: forbidden must be ids of 0 or more, found {self.forbidden}", "forbidden")

    def limits(self, model: Model, source_ids: Ids, max_length: int | None = None) -> Ids:
        """Return the maximum number of tokens for each sentence, including the end token: (B, Tk) -> (B,).

        It is ``max_length``, if given, or else ``most_written``, or 50 more than the source sentence has; and no more
        than the model has learned positions, if it has any.
        """
        most = limits(source_ids, self.most_written if max_length is None else max_length)
        learned = longest_sentence(model)
        return most if learned is None else np.minimum(most, learned)

    def refills(self, beam: int) -> bool:
        """Return whether others take the places of finished hypotheses; a beam of 1 is greedy search, by any rules."""
        return self.full_beam and beam > 1

    def continuations(self, beam: int) -> int:
        """Return how many continuations of K hypotheses are needed: among 2 K, at least K have not ended."""
        return 2 * beam if self.refills(beam) else beam

    def divisor(self, length: Any, alpha: float) -> Any:
        """Return the divisor of the log-probability of a hypothesis with so many tokens."""
        return length_penalty(length, alpha) if self.penalty == "gnmt" else np.asarray(length) ** float(alpha)

    def n_compared(self, beam: int, n_best: int) -> int:
        """Return how many finished hypotheses of a sentence a live one must surpass."""
        return n_best if self.stop == "exact" else beam

    def last_length(self, length: int, most: Any) -> Any:
        """Return the length by which the best score that a live hypothesis may attain is computed.

        The paper's bound is that of the longest sentence, (B,); other programs compare as if all ended now.
        """
        return most if self.stop == "exact" else length

    def may_go_on(self, attainable: Array, worst: Array) -> Any:
        """Return, for each sentence, whether a live hypothesis may surpass the worst of those compared: (B,)."""
        return (attainable > worst) & (self.stop != "full" or worst == -np.inf)

    def ends(self, tokens: Any, at_limit: Any) -> Any:
        """Return which hypotheses (B, W) are finished by their last token."""
        return (tokens == END) | (at_limit[:, None] & self.limit_ends)

    def restrict(self, logits: Array, n_written: int, at_limit: Any) -> None:
        """Change the logits of the next token so that only what may be written is probable, in place.

        Parameters
        ----------
        logits : array, shape (B, ..., V)
            The logits.
        n_written : int
            The number of tokens that are written already.
        at_limit : boolean array, shape (B,)
            For each sentence, whether the next token is the last that may be written.
        """
        if self.renormalise:
            exclude(logits)
            logits[..., list(self.forbidden or ())] = -xp.inf
        if n_written < self.least_written:
            logits[..., END] = -xp.inf
        if self.force_end and np.any(at_limit):
            last = asarray(at_limit)
            logits[last] = -xp.inf
            logits[last, ..., END] = 0


PAPER = SearchOptions()
"""The rules of the paper."""
