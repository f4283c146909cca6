"""Vocabularies, and batches of sentence pairs by token count."""

from minitransformer.data.batches import Batch, ParallelBatches, pad, token_batches
from minitransformer.data.vocabulary import END, PAD, START, UnknownTokenError, Vocabulary

__all__ = [
    "END",
    "PAD",
    "START",
    "Batch",
    "ParallelBatches",
    "UnknownTokenError",
    "Vocabulary",
    "pad",
    "token_batches",
]
