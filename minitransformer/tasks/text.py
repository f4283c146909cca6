"""Text of one's own: sentences, and beside each of them its translation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minitransformer.data import read_parallel, references
from minitransformer.data.text import Pairs
from minitransformer.tasks.corpus import Corpus, Tokenisers, corpus_of_texts, hold_out, sha256_of
from minitransformer.tasks.options import DataOptions
from minitransformer.tasks.task import TEXT_TRAINING, Task

__all__ = ["text_task"]

MOST_HELD_OUT = 20
"""At most one source in so many is held out, where no held-out files are given."""


def text_task() -> Task:
    """Return the task of translating a user's own text."""
    return _TextTask(
        name="text",
        options={},
        title="text of your own",
        noun="sentences",
        reads=("source", "target", "valid_source", "valid_target"),
        measures=("bleu", "chrf"),
        recipe={
            "d_model": 256,
            "n_heads": 4,
            "n_layers": 3,
            "d_ff": 1024,
            **TEXT_TRAINING,
            "evaluate_every": 500,
            "keep": 5,
        },
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _TextTask(Task):
    def _corpus(self, data: DataOptions, seed: int, tokenisers: Tokenisers | None) -> Corpus:
        if data.source is None:
            raise ValueError(
                "task text needs --source FILE, and --target FILE unless the lines of the first are source, tab, target"
            )
        if data.valid_target is not None and data.valid_source is None:
            raise ValueError("found --valid-target without --valid-source, expected both")
        files = sha256_of(data.source, data.target, data.valid_source, data.valid_target)
        given = read_parallel(data.source, data.target)
        notes = [f"text: {given.left_out}"]
        if data.valid_source is None:
            train, valid = _hold_out_some(given.pairs, data.held_out, seed)
            notes.append(
                f"held out of the text, as no --valid-source is given: {len(valid):,} pairs of {data.held_out:,} or "
                f"at most one in {MOST_HELD_OUT}"
            )
        else:
            train = given.pairs
            held_out = read_parallel(data.valid_source, data.valid_target)
            valid = held_out.pairs
            notes.append(f"held-out text: {held_out.left_out}")
            known = {source for source, _ in train}
            if both := sum(source in known for source in references(valid)):
                notes.append(f"held-out text: {both:,} of its sources are trained on too, which flatters the scores")
        return corpus_of_texts(data, train, valid[: data.valid_pairs], valid, tokenisers, notes, files)


def _hold_out_some(pairs: Pairs, most: int, seed: int) -> tuple[Pairs, Pairs]:
    """Hold out some sources, at most so many, with all their translations."""
    sources = list(references(pairs))
    n = min(most, max(1, len(sources) // MOST_HELD_OUT))
    if len(sources) < 2:
        raise ValueError(
            f"found {len(sources)} different source sentences, expected at least 2: one to train on, one to measure on"
        )
    chosen = np.random.default_rng(seed).choice(len(sources), size=n, replace=False)
    return hold_out(pairs, {sources[place] for place in chosen.tolist()})


TASKS = {"text": text_task}
