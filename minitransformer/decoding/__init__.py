"""Decoding: from source sentences to target sentences, as ids or as texts; and texts that a decoder alone continues."""

from minitransformer.decoding.batches import in_batches
from minitransformer.decoding.beam import Hypothesis, beam_search, best_continuations
from minitransformer.decoding.greedy import greedy
from minitransformer.decoding.rules import PAPER, SearchOptions, length_penalty
from minitransformer.decoding.sampling import SamplingOptions, draw, keep_top_p, sample
from minitransformer.decoding.search import Diverged, as_sources, exclude, limits, to_host
from minitransformer.decoding.texts import (
    check_sentence,
    hypotheses,
    longest_sentence,
    naming_the_longest,
    source_sentence,
    translate,
)

__all__ = [
    "PAPER",
    "Diverged",
    "Hypothesis",
    "SamplingOptions",
    "SearchOptions",
    "as_sources",
    "beam_search",
    "best_continuations",
    "check_sentence",
    "draw",
    "exclude",
    "greedy",
    "hypotheses",
    "in_batches",
    "keep_top_p",
    "length_penalty",
    "limits",
    "longest_sentence",
    "naming_the_longest",
    "sample",
    "source_sentence",
    "to_host",
    "translate",
]
