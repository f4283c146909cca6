"""The simplest tasks: write a string of digits again, forwards or backwards."""

from __future__ import annotations

from functools import partial

import numpy as np

from minitransformer.tasks.drawn import DrawnTask
from minitransformer.tasks.task import RECIPES, TOY_MODEL

DIGITS = tuple("0123456789")
LONGEST = 10


def _task(name: str, title: str, backwards: bool) -> DrawnTask:
    """Return a task of writing strings of digits again."""
    return DrawnTask(
        name=name,
        options={},
        title=title,
        noun="strings",
        source_tokens=_characters,
        target_tokens=_characters,
        join_target="".join,
        source_alphabet=DIGITS,
        target_alphabet=DIGITS,
        shared=True,
        draw=partial(_draw, backwards),
        population=sum(10**length for length in range(1, LONGEST + 1)),
        shortest_held_out=4,
        example="3141592653",
        recipe={**TOY_MODEL, **RECIPES["copy"]},
    )


def _characters(text: str) -> list[str]:
    return list(text.strip())


def _draw(backwards: bool, n: int, rng: np.random.Generator) -> list[tuple[str, str]]:
    every = np.arange(1, LONGEST + 1)
    # twice as long, twice as often: there are few short strings, and they are the easy ones
    lengths = rng.choice(every, size=n, p=every / every.sum())
    values = rng.integers(0, 10**lengths)
    texts = [f"{value:0{length}d}" for value, length in zip(values.tolist(), lengths.tolist(), strict=True)]
    return [(text, text[:: -1 if backwards else 1]) for text in texts]


TASKS = {
    "copy": partial(_task, "copy", "copying strings of digits", False),
    "reverse": partial(_task, "reverse", "reversing strings of digits", True),
}
