"""Decoding as it is measured, at tiny sizes, and the comparison of what was written."""

import numpy as np
import pytest

from minitransformer.apps.measure.speed.decoding import agreement
from minitransformer.apps.measure.speed.ours import random_batch
from minitransformer.apps.measure.speed.ours_decoding import decoding_model, margins, max_length, random_sources
from minitransformer.apps.measure.speed.program import command
from minitransformer.apps.measure.speed.turns import Process
from minitransformer.apps.measure.speed.workloads import Workload
from minitransformer.data import END
from minitransformer.decoding import greedy

TINY = Workload().changed(d_model=16, n_heads=2, n_layers=1, d_ff=12, vocabulary=40, batch=4, length=5)


@pytest.mark.numpy_only("measures the processor, in a process that chooses its library itself")
@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_ours_answers_and_writes_to_the_limit(search):
    with Process(command(f"ours-{search}", TINY)) as process:
        described = process.read()["ready"]
        assert [len(sentence) for sentence in described["sentences"]] == [max_length(TINY)] * 4 == [15] * 4
        assert (described["scores"] is None) == (search == "greedy")
        answer = process.ask(3)
        assert len(answer["seconds"]) == 3
        assert all(seconds > 0 for seconds in answer["seconds"])


def test_margins_are_those_of_the_tokens_that_were_written():
    model, source = decoding_model(TINY), random_sources(TINY)
    assert (source[:, -1] == END).all()
    sentences = greedy(model, source, 6)
    found = np.array(margins(model, source, sentences))
    assert found.shape == (4, 6)
    assert (found > 0).all()
    # A token's lead is gone when the table's row of another token is its own row: both have the same score.
    table = model.output.data
    table[3 if sentences[0][0] != 3 else 4] = table[sentences[0][0]]
    assert margins(model, source, sentences)[0][0] == pytest.approx(0, abs=1e-5)


def test_a_random_batch_is_the_same_each_time_and_its_three_parts_differ():
    batch = random_batch(TINY)
    for ids, again in zip(batch, random_batch(TINY), strict=True):
        np.testing.assert_array_equal(ids, again)
        assert ids.shape == (4, 5)
        assert 1 <= ids.min() < ids.max() < 40
    assert len({ids.tobytes() for ids in batch}) == 3


@pytest.mark.parametrize(
    ("theirs", "kind"),
    [([5, 6, 7], "same"), ([5, 9, 7], "ties"), ([5, 9, 9], "ties"), ([5, 6, 9], "different"), ([5, 6], "different")],
)
def test_greedy_sentences_are_told_apart_where_they_part(theirs, kind):
    ours = {"sentences": [[5, 6, 7]], "scores": None, "margins": [[1.0, 1e-6, 1.0]]}
    found = agreement(ours, {"sentences": [theirs], "scores": None})
    assert found == {"sentences": 1, "same": 0, "ties": 0, "different": 0} | {kind: 1}


@pytest.mark.parametrize(
    ("tokens", "score", "kind"), [([5], -2.5, "same"), ([6], -2.00001, "ties"), ([6], -2.5, "different")]
)
def test_sentences_of_a_beam_are_told_apart_by_their_scores(tokens, score, kind):
    found = agreement({"sentences": [[5]], "scores": [-2.0]}, {"sentences": [tokens], "scores": [score]})
    assert found == {"sentences": 1, "same": 0, "ties": 0, "different": 0} | {kind: 1}
