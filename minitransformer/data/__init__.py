"""Vocabularies and tokenisers, parallel text, and batches of sentence pairs by token count."""

from minitransformer.data.batches import Batch as Batch
from minitransformer.data.batches import ParallelBatches as ParallelBatches
from minitransformer.data.batches import TextBatch as TextBatch
from minitransformer.data.batches import WindowBatches as WindowBatches
from minitransformer.data.batches import all_batches as all_batches
from minitransformer.data.batches import decoder_input as decoder_input
from minitransformer.data.batches import pad as pad
from minitransformer.data.batches import token_batches as token_batches
from minitransformer.data.extras import MissingExtraError as MissingExtraError
from minitransformer.data.pieces import Pieces as Pieces
from minitransformer.data.pronunciation import Pronunciations as Pronunciations
from minitransformer.data.pronunciation import as_pairs as as_pairs
from minitransformer.data.pronunciation import hold_out_words as hold_out_words
from minitransformer.data.pronunciation import read_pronalsyl as read_pronalsyl
from minitransformer.data.pronunciation import read_pronunciations as read_pronunciations
from minitransformer.data.published import MULTI30K as MULTI30K
from minitransformer.data.published import KnownFile as KnownFile
from minitransformer.data.published import read_multi30k as read_multi30k
from minitransformer.data.subwords import Bpe as Bpe
from minitransformer.data.subwords import Merges as Merges
from minitransformer.data.subwords import sentencepiece_model as sentencepiece_model
from minitransformer.data.text import LeftOut as LeftOut
from minitransformer.data.text import ParallelText as ParallelText
from minitransformer.data.text import TextError as TextError
from minitransformer.data.text import normalise_text as normalise_text
from minitransformer.data.text import read_lines as read_lines
from minitransformer.data.text import read_parallel as read_parallel
from minitransformer.data.text import references as references
from minitransformer.data.text import split_lines as split_lines
from minitransformer.data.tokenisers import KINDS as KINDS
from minitransformer.data.tokenisers import EncodedPairs as EncodedPairs
from minitransformer.data.tokenisers import encode_pairs as encode_pairs
from minitransformer.data.tokenisers import tokeniser_from_json as tokeniser_from_json
from minitransformer.data.tokenisers import tokenisers_from_json as tokenisers_from_json
from minitransformer.data.tokenisers import tokenisers_to_json as tokenisers_to_json
from minitransformer.data.tokenisers import train_tokeniser as train_tokeniser
from minitransformer.data.tokenisers import train_tokenisers as train_tokenisers
from minitransformer.data.tokenizer_json import TokenizerJson as TokenizerJson
from minitransformer.data.tokenizer_json import order as order
from minitransformer.data.tokenizer_json import read_tokenizer as read_tokenizer
from minitransformer.data.tokens import UNKNOWN as UNKNOWN
from minitransformer.data.tokens import Characters as Characters
from minitransformer.data.tokens import Closed as Closed
from minitransformer.data.tokens import RawCharacters as RawCharacters
from minitransformer.data.tokens import Tokeniser as Tokeniser
from minitransformer.data.tokens import Words as Words
from minitransformer.data.trigram import Trigram as Trigram
from minitransformer.data.vocabulary import END as END
from minitransformer.data.vocabulary import PAD as PAD
from minitransformer.data.vocabulary import SPECIALS as SPECIALS
from minitransformer.data.vocabulary import START as START
from minitransformer.data.vocabulary import UnknownTokenError as UnknownTokenError
from minitransformer.data.vocabulary import Vocabulary as Vocabulary
from minitransformer.public import public_names

__all__ = public_names(globals(), "Pronunciations")
