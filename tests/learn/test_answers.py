"""Wrong answers are refused, and the cause is named; what is right need not look like the solution."""

import re

import numpy as np
import pytest
from learn.answers import (
    arrays,
    attention,
    encoder_layer,
    finite_differences,
    graph,
    layer_norm,
    scalars,
    softmax,
    transformer,
)

from minitransformer.learn import bank, find
from minitransformer.learn.referee import judge

WRONG = [
    answer
    for chapter in (
        scalars,
        graph,
        arrays,
        finite_differences,
        softmax,
        layer_norm,
        attention,
        transformer,
        encoder_layer,
    )
    for answer in chapter.wrong
]
RIGHT = [
    answer
    for chapter in (graph, arrays, finite_differences, softmax, attention, transformer, encoder_layer)
    for answer in chapter.right
]


def some_of(words):
    return getattr(words, "pattern", words)[:40]


@pytest.mark.parametrize(("name", "words", "answer"), [pytest.param(*a, id=f"{a[0]}: {some_of(a[1])}") for a in WRONG])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_wrong_answer_is_told_why(name, words, answer):
    verdict = judge(find(name), [answer])
    assert not verdict.right
    assert verdict.solved
    told = " ".join(verdict.words.split())
    assert words.search(told) if isinstance(words, re.Pattern) else words in told, told
    lines = verdict.format(name).splitlines()
    assert max(len(line) for line in lines if not line.startswith("    ")) <= 80  # but for lines of the answer itself


def test_every_exercise_has_two_wrong_answers():
    names = [name for name, *_ in WRONG]
    assert [exercise.name for exercise in bank() if names.count(exercise.name) < 2] == []


@pytest.mark.parametrize(("name", "answer"), RIGHT)
def test_another_right_answer_passes(name, answer):
    verdict = judge(find(name), [answer])
    assert verdict.right, verdict.words


def test_an_error_is_told_where_the_answer_has_it_not_where_numpy_has_it():
    def backward(x, axis, d_y):
        return np.broadcast_to(d_y, (x.size + 1,))

    words = judge(find("sum-along-an-axis"), [backward]).words
    assert re.search(r"Line \d+, in backward, failed with ValueError", words), words
    assert "np.broadcast_to(d_y" in words
