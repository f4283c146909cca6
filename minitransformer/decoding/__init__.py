"""Decoding: from source sentences to target sentences, as ids or as texts; and texts that a decoder alone continues."""

from minitransformer.decoding.batches import in_batches
from minitransformer.decoding.beam import Hypothesis, beam_search, length_penalty
from minitransformer.decoding.greedy import greedy
from minitransformer.decoding.rules import PAPER, SearchOptions
from minitransformer.decoding.sampling import SamplingOptions, draw, sample
from minitransformer.decoding.search import Diverged
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
    "beam_search",
    "check_sentence",
    "draw",
    "greedy",
    "hypotheses",
    "in_batches",
    "length_penalty",
    "longest_sentence",
    "naming_the_longest",
    "sample",
    "source_sentence",
    "translate",
]
