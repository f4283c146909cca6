"""A recipe: a model, a training and a preparation of data, each value with the words that explain it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["PATHS", "Recipe", "option"]


def option(default: Any, text: str) -> Any:
    """Return a dataclass field that is also an option of the command line, with its help text."""
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that a training depends on but for the task; each field's help says what it is."""

    d_model: int = option(64, "D, the number of features of each position")
    n_heads: int = option(4, "H, the number of attention heads")
    n_layers: int = option(2, "N, the number of layers in the encoder and in the decoder")
    d_ff: int = option(256, "F, the number of features inside the feed-forward networks")
    d_k: int | None = option(None, "size of a head's queries and keys (default: D / H)")
    d_v: int | None = option(None, "size of a head's values (default: D / H)")
    norm: str = option("post", "layer norm after each residual connection as in the paper (post), or before (pre)")
    positions: str = option("sinusoidal", "sinusoidal or learned positions, section 3.5")
    attention_block: int | None = option(None, "queries at a time in attention, to save memory (default: all)")
    recompute: bool = option(False, "compute each layer again in the backward pass, to save memory")
    dropout: float = option(0.1, "probability of dropping an entry, section 5.4")
    label_smoothing: float = option(0.1, "share of the wanted probability that is spread over all tokens, section 5.4")

    seed: int = option(0, "seed of the data, the initial weights, the batches and dropout")
    workers: int | None = option(None, "threads that share each batch (default: one a core, if each has enough to do)")
    steps: int = option(900, "training steps")
    batch_tokens: int = option(2048, "the most tokens of one side in a batch, padding included")
    accumulate: int = option(1, "batches whose gradients make one step")
    schedule: str = option(
        "warmup", "learning rate: warmup as in section 5.3, inverse_sqrt, told by its peak, or linear down to zero"
    )
    warmup_steps: int = option(250, "steps during which the learning rate rises, section 5.3")
    learning_rate_factor: float = option(0.6, "what the learning rate of section 5.3 is multiplied by (warmup)")
    peak: float = option(0.001, "the highest learning rate (inverse_sqrt, linear)")
    clip: float | None = option(None, "the largest norm of a step's gradient; longer ones are shortened (default: off)")
    weight_decay: float = option(0.0, "each step takes the rate times this share off every weight but biases and gains")
    average_last: int = option(
        300, "keep the mean of the weights over so many last steps, section 6.1; it is the model (1: off)"
    )
    evaluate_every: int = option(150, "steps between measurements on held-out pairs")
    valid_pairs: int | None = option(200, "pairs that are measured then")
    save_every: int | None = option(None, "steps between checkpoints (default: as --evaluate-every)")
    keep: int = option(2, "how many of the last checkpoints are kept, beside the best")
    best_by: str = option("loss", "what makes a checkpoint the best: loss, exact_match or bleu, on held-out pairs")
    patience: int | None = option(None, "stop after so many measurements without a better one (default: off)")

    train_pairs: int | None = option(20_000, "pairs to train on")
    held_out: int = option(2000, "pairs kept apart, to measure on")
    source: str | None = option(None, "file of source sentences, or of source, tab, target")
    target: str | None = option(None, "file of target sentences")
    valid_source: str | None = option(None, "file of held-out source sentences, or of source, tab, target")
    valid_target: str | None = option(None, "file of held-out target sentences")
    dictionary: str | None = option(None, "pronouncing dictionary, lines such as CAT  K AE T")
    data: str | None = option(None, "folder of a benchmark's files")
    source_tokens: str = option("bpe", "kind of source tokens: bpe, words, chars or merges")
    target_tokens: str = option("bpe", "kind of target tokens")
    vocabulary: int | None = option(None, "the most tokens, or merges (default: what suits the kind)")
    min_count: int | None = option(None, "how often a token has to occur (default: what suits the kind)")
    share_vocabulary: bool = option(True, "one vocabulary and one embedding for both sides, section 5.1")
    longest: int = option(100, "leave out training pairs with more tokens than this on a side")
    bleu_tokenize: str = option("13a", "how sacrebleu splits texts into words: 13a, or none if they are split")


PATHS = ("source", "target", "valid_source", "valid_target", "dictionary", "data")
"""The fields that name files or folders."""
