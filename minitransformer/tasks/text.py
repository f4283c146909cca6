"""The task of a user's own text: sentences and their translations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitransformer.console import counted
from minitransformer.data import comparable, read_parallel, remarks
from minitransformer.data.text import Pairs
from minitransformer.tasks.corpus import Corpus, Tokenisers, corpus_of_texts, hold_out, sha256_of
from minitransformer.tasks.options import DataOptions
from minitransformer.tasks.task import RECIPES, Task

MOST_HELD_OUT = 20
"""At most one source in this many is held out if no held-out files are given."""
CHARACTERS_TO_A_TOKEN = 4
"""The average number of characters of a subword, roughly."""
SUBWORDS = ("bpe", "merges")
"""The kinds of tokens whose number may be chosen."""
SIZES = RECIPES["text"]["sizes"]
"""The options for texts of different sizes, the smallest first."""
KNOWN_TOKENS, KNOWN_LENGTH = 75_000, 3_300_000
"""The reference: 10,000 short sentences, in tokens on a side, and the tokens of a whole training run on them."""
MOST_STEPS = 20_000


def suit(tokens: int) -> dict[str, Any]:
    """Return options of model and training that suit a text with about this number of tokens on a side.

    Ten times the text takes about six times the training tokens: a large text needs fewer epochs than a small one.
    """
    size = next(size for size in SIZES if tokens < size["below"])
    steps = KNOWN_LENGTH * (tokens / KNOWN_TOKENS) ** 0.75 / size["batch_tokens"]
    steps = 100 * min(max(round(steps / 100), 3), MOST_STEPS // 100)
    chosen = {name: value for name, value in size.items() if name != "below"}
    return chosen | {"steps": steps, "warmup_steps": steps // 10, "evaluate_every": steps // 10}


def text_task() -> Task:
    """Return the task of translating a user's own text."""
    return _TextTask(
        name="text",
        options={},
        title="text of your own",
        noun="sentences",
        reads=("source", "target", "valid_source", "valid_target"),
        measures=("bleu", "chrf"),
        # a rate that ends at zero needs no mean of the last steps
        recipe={**suit(10_000_000), "schedule": "linear", "average_last": 1, "keep": 5, "train_pairs": None},
        sized=(*suit(0), "vocabulary"),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _TextTask(Task):
    def choose_by_size(self, picked: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return options of model, training and vocabulary that suit the size of the text."""
        if "source" not in picked:
            return {}
        pairs = read_parallel(picked["source"], picked.get("target")).pairs[: picked.get("train_pairs")]
        tokens = max(sum(len(pair[side]) for pair in pairs) for side in (0, 1)) // CHARACTERS_TO_A_TOKEN
        chosen = suit(tokens)
        if all(picked.get(f"{side}_tokens", "bpe") in SUBWORDS for side in ("source", "target")):
            letters = len(set().union(*(text for pair in pairs for text in pair)))
            chosen["vocabulary"] = max(100 * min(max(round(tokens / 4000), 5), 80), 2 * letters)
        return chosen

    def _corpus(self, data: DataOptions, seed: int, tokenisers: Tokenisers | None) -> Corpus:
        if data.source is None:
            raise ValueError(
                "task text needs --source FILE, and --target FILE unless the lines of the first are source, tab, target"
            )
        if data.valid_target is not None and data.valid_source is None:
            raise ValueError("found --valid-target without --valid-source, expected both")
        files = sha256_of(data.source, data.target, data.valid_source, data.valid_target)
        given = read_parallel(data.source, data.target)
        notes = [f"text: {given.left_out}", *remarks(given.pairs)]
        if data.valid_source is None:
            train, valid = _hold_out_some(given.pairs, data.held_out, seed)
            notes.append(
                f"held out from the text, because --valid-source is not given: {counted(len(valid), 'pairs')}, "
                f"at most {data.held_out:,} and at most one in {MOST_HELD_OUT}"
            )
        else:
            train = given.pairs
            held_out = read_parallel(data.valid_source, data.valid_target)
            valid = held_out.pairs
            notes.append(f"held-out text: {held_out.left_out}")
            known, measured = ({comparable(source) for source, _ in part} for part in (train, valid))
            if both := len(known & measured):
                notes.append(
                    f"held-out text: {both:,} of its sources are in the training text too, so scores are too high"
                )
        return corpus_of_texts(data, train, valid[: data.valid_pairs], valid, tokenisers, notes, files)


def _hold_out_some(pairs: Pairs, most: int, seed: int) -> tuple[Pairs, Pairs]:
    """Hold out some sources, at most ``most``, with all their translations."""
    sources = list(dict.fromkeys(comparable(source) for source, _ in pairs))
    n = min(most, max(1, len(sources) // MOST_HELD_OUT))
    if len(sources) < 2:
        raise ValueError(
            f"found {counted(len(sources), 'different source sentences')}, expected at least 2: one to train on, one "
            "to measure on"
        )
    chosen = np.random.default_rng(seed).choice(len(sources), size=n, replace=False)
    return hold_out(pairs, {sources[place] for place in chosen.tolist()})


TASKS = {"text": text_task}
