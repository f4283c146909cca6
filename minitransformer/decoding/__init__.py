"""Decoding: from source sentences to target sentences, as ids or as texts; and texts that a decoder alone continues."""

from minitransformer.decoding.batches import in_batches as in_batches
from minitransformer.decoding.beam import Hypothesis as Hypothesis
from minitransformer.decoding.beam import beam_search as beam_search
from minitransformer.decoding.beam import best_continuations as best_continuations
from minitransformer.decoding.greedy import greedy as greedy
from minitransformer.decoding.rules import PAPER as PAPER
from minitransformer.decoding.rules import SearchOptions as SearchOptions
from minitransformer.decoding.rules import length_penalty as length_penalty
from minitransformer.decoding.sampling import SamplingOptions as SamplingOptions
from minitransformer.decoding.sampling import draw as draw
from minitransformer.decoding.sampling import keep_top_p as keep_top_p
from minitransformer.decoding.sampling import sample as sample
from minitransformer.decoding.search import Diverged as Diverged
from minitransformer.decoding.search import as_sources as as_sources
from minitransformer.decoding.search import exclude as exclude
from minitransformer.decoding.search import limits as limits
from minitransformer.decoding.search import longest_sentence as longest_sentence
from minitransformer.decoding.search import to_host as to_host
from minitransformer.decoding.texts import Translation as Translation
from minitransformer.decoding.texts import check_sentence as check_sentence
from minitransformer.decoding.texts import hypotheses as hypotheses
from minitransformer.decoding.texts import naming_the_longest as naming_the_longest
from minitransformer.decoding.texts import source_sentence as source_sentence
from minitransformer.decoding.texts import translate as translate
from minitransformer.decoding.texts import translations as translations
from minitransformer.public import public_names

__all__ = public_names(globals())
