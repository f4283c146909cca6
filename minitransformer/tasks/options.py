"""The options of data: which pairs there are, how they are split into tokens, and which of them are held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from minitransformer.data import KINDS
from minitransformer.options import Options, option


@dataclass(frozen=True, kw_only=True)
class DataOptions(Options):
    """The options of a task's data."""

    train_pairs: int | None = option(20_000, "pairs to train on (default: all)", at_least=1, common=True)
    held_out: int = option(2000, "pairs held out to measure the result", at_least=1)
    valid_pairs: int | None = option(200, "held-out pairs to measure during training (default: all)", at_least=1)
    source: str | None = option(None, "file of source sentences, or of source, tab, target", path=True, common=True)
    target: str | None = option(None, "file of target sentences", path=True, common=True)
    valid_source: str | None = option(None, "file of held-out source sentences, or of source, tab, target", path=True)
    valid_target: str | None = option(None, "file of held-out target sentences", path=True)
    dictionary: str | None = option(None, "pronouncing dictionary, lines such as CAT  K AE T", path=True, common=True)
    data: str | None = option(None, "folder of a benchmark's files", path=True, common=True)
    source_tokens: str = option("bpe", "kind of source tokens", choices=tuple(KINDS))
    target_tokens: str = option("bpe", "kind of target tokens", choices=tuple(KINDS))
    vocabulary: int | None = option(None, "maximum number of tokens, or merges (default: that of the kind)", at_least=1)
    min_count: int | None = option(
        None, "how often a token must occur to be in the vocabulary (default: that of the kind)", at_least=1
    )
    share_vocabulary: bool = option(True, "one vocabulary and one embedding for both sides, section 5.1")
    longest: int = option(100, "leave out training pairs with more tokens than this on a side", at_least=1)
    bleu_tokenize: str = option("13a", "how sacrebleu splits texts into words: 13a, or none if they are split")
    text: Sequence[str] | None = option(
        None, "text files to train on (default: the Python sources of the standard library)", path=True,
        common=True, added=True,
    )  # fmt: skip
    window: int = option(
        128, "tokens in a training window; each is predicted from those before it", at_least=2, common=True,
        added=True,
    )  # fmt: skip
    characters: int | None = option(None, "characters to train on (default: all)", at_least=1, added=True)
    held_out_characters: int = option(
        100_000, "characters held out to measure the result, from files that are not trained on", at_least=1, added=True
    )
    valid_characters: int = option(20_000, "held-out characters to measure during training", at_least=1, added=True)
