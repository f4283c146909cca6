"""From a source sentence to a target sentence."""

from minitransformer.decoding.beam import Hypothesis, beam_search, length_penalty
from minitransformer.decoding.greedy import greedy
from minitransformer.decoding.steps import in_batches

__all__ = ["Hypothesis", "beam_search", "greedy", "in_batches", "length_penalty"]
