"""From a source sentence to a target sentence."""

from minitransformer.decoding.greedy import greedy

__all__ = ["greedy"]
