"""Multi30k, task 1, English to German: a benchmark with published numbers."""

from __future__ import annotations

from dataclasses import dataclass

from minitransformer.data import read_multi30k
from minitransformer.tasks.corpus import Corpus, Tokenisers, corpus_of_texts
from minitransformer.tasks.options import DataOptions
from minitransformer.tasks.task import RECIPES, Task


def multi30k_task() -> Task:
    """Return the task of translating Multi30k's descriptions of pictures.

    Trained on the training part, measured during training on the validation part, and at the end on test_2016_flickr.
    """
    return _Multi30kTask(
        name="multi30k",
        options={},
        title="Multi30k, English to German",
        noun="sentences",
        reads=("data",),
        measures=("bleu", "chrf"),
        recipe={**RECIPES["multi30k"], "train_pairs": None, "valid_pairs": None},
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Multi30kTask(Task):
    def _corpus(self, data: DataOptions, seed: int, tokenisers: Tokenisers | None) -> Corpus:
        if data.data is None:
            raise ValueError(
                "task multi30k needs --data FOLDER, with train.lc.norm.tok.en and the like, plain or with .gz, from "
                "github.com/multi30k/dataset, data/task1/tok"
            )
        train, valid, test = (read_multi30k(data.data, part) for part in ("train", "val", "test_2016_flickr"))
        return corpus_of_texts(data, train, valid[: data.valid_pairs], test, tokenisers)


TASKS = {"multi30k": multi30k_task}
