"""Vocabularies and tokenisers, parallel text, and batches of sentence pairs by token count."""

from minitransformer.data.batches import (
    Batch,
    ParallelBatches,
    TextBatch,
    WindowBatches,
    all_batches,
    decoder_input,
    pad,
    token_batches,
)
from minitransformer.data.extras import MissingExtraError
from minitransformer.data.known_files import KnownFile
from minitransformer.data.multi30k import MULTI30K, read_multi30k
from minitransformer.data.pieces import Pieces
from minitransformer.data.pronunciation import (
    Pronunciations,
    as_pairs,
    hold_out_words,
    read_pronalsyl,
    read_pronunciations,
)
from minitransformer.data.subwords import Bpe, Merges, sentencepiece_model
from minitransformer.data.text import (
    LeftOut,
    ParallelText,
    TextError,
    normalise_text,
    read_lines,
    read_parallel,
    references,
    split_lines,
)
from minitransformer.data.tokenisers import (
    KINDS,
    EncodedPairs,
    encode_pairs,
    tokeniser_from_json,
    tokenisers_from_json,
    tokenisers_to_json,
    train_tokeniser,
    train_tokenisers,
)
from minitransformer.data.tokens import UNKNOWN, Characters, Closed, RawCharacters, Tokeniser, Words
from minitransformer.data.trigram import Trigram
from minitransformer.data.vocabulary import END, PAD, SPECIALS, START, UnknownTokenError, Vocabulary

__all__ = [
    "END",
    "KINDS",
    "MULTI30K",
    "PAD",
    "SPECIALS",
    "START",
    "UNKNOWN",
    "Batch",
    "Bpe",
    "Characters",
    "Closed",
    "EncodedPairs",
    "KnownFile",
    "LeftOut",
    "Merges",
    "MissingExtraError",
    "ParallelBatches",
    "ParallelText",
    "Pieces",
    "Pronunciations",
    "RawCharacters",
    "TextBatch",
    "TextError",
    "Tokeniser",
    "Trigram",
    "UnknownTokenError",
    "Vocabulary",
    "WindowBatches",
    "Words",
    "all_batches",
    "as_pairs",
    "decoder_input",
    "encode_pairs",
    "hold_out_words",
    "normalise_text",
    "pad",
    "read_lines",
    "read_multi30k",
    "read_parallel",
    "read_pronalsyl",
    "read_pronunciations",
    "references",
    "sentencepiece_model",
    "split_lines",
    "token_batches",
    "tokeniser_from_json",
    "tokenisers_from_json",
    "tokenisers_to_json",
    "train_tokeniser",
    "train_tokenisers",
]
