"""Multi30k, task 1, English to German: a benchmark with published numbers."""

from __future__ import annotations

from dataclasses import dataclass

from minitransformer.data import read_multi30k
from minitransformer.tasks.corpus import Corpus, Tokenisers, corpus_of_texts
from minitransformer.tasks.options import DataOptions
from minitransformer.tasks.task import Task


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
        recipe={
            "d_model": 128,
            "n_heads": 4,
            "n_layers": 4,
            "d_ff": 256,
            "dropout": 0.3,
            "steps": 20_000,
            "warmup_steps": 2000,
            "learning_rate_factor": 1.0,
            "batch_tokens": 4096,
            "average_last": 1,
            "train_pairs": None,
            "evaluate_every": 200,
            "keep": 10,
            "valid_pairs": None,
            "source_tokens": "merges",
            "target_tokens": "merges",
            "vocabulary": 10_000,
            "bleu_tokenize": "none",
        },
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
