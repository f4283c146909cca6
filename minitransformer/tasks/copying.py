"""The simplest tasks: write a string of digits again, forwards or backwards."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from minitransformer.tasks.drawing import check_count, distinct
from minitransformer.tasks.task import Recipe, Task

DIGITS = tuple("0123456789")
LONGEST = 10


def copying_task() -> Task:
    """Make the task of copying strings of digits.

    Returns
    -------
    Task
        The task ``copy``.
    """
    return _task("copy", "copying strings of digits", backwards=False)


def reversing_task() -> Task:
    """Make the task of reversing strings of digits.

    Returns
    -------
    Task
        The task ``reverse``.
    """
    return _task("reverse", "reversing strings of digits", backwards=True)


def _task(name: str, title: str, backwards: bool) -> Task:
    return Task(
        name=name,
        options={},
        title=title,
        noun="strings",
        source_tokens=_characters,
        target_tokens=_characters,
        join_target=_join,
        source_alphabet=DIGITS,
        target_alphabet=DIGITS,
        shared=True,
        draw=partial(_draw, backwards),
        example="3141592653",
        recipe=Recipe(steps=1000, warmup_steps=200),
    )


def _characters(text: str) -> list[str]:
    return list(text.strip())


def _join(tokens: Sequence[str]) -> str:
    return "".join(tokens)


def _draw(backwards: bool, n: int, rng: np.random.Generator) -> list[tuple[str, str]]:
    check_count(n, sum(10**length for length in range(1, LONGEST + 1)), "strings of digits")

    def propose(count: int) -> list[str]:
        # twice as long, twice as often: there are few short strings, and they are the easy ones
        every = np.arange(1, LONGEST + 1)
        lengths = rng.choice(every, size=count, p=every / every.sum())
        values = rng.integers(0, 10**lengths)
        return [f"{value:0{length}d}" for value, length in zip(values.tolist(), lengths.tolist(), strict=True)]

    step = -1 if backwards else 1
    return [(text, text[::step]) for text in distinct(n, propose, rng)]
