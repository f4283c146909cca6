"""The tasks ask what they say, masks hide what they say, and each kind of positions is the model's own."""

from dataclasses import replace

import numpy as np
import pytest

from minitransformer import nn, ops
from minitransformer.apps.measure.position_tasks import TASKS, Batch, Copy, Lookup, Recall
from minitransformer.apps.measure.positions import (
    POSITIONS,
    PositionsModel,
    PositionsSizes,
    measure_model,
    measure_positions,
    pieces,
    read,
    thinned_keys,
    train_model,
)
from minitransformer.apps.measure.recall import NO_TARGET
from minitransformer.autograd import no_grad
from minitransformer.files import FileError

pytestmark = pytest.mark.numpy_only("an experiment, on the processor")
TINY = PositionsSizes(n=8, times=(1, 1.5, 4), d_model=8, n_heads=2, n_layers=1, d_ff=8, batch=4, steps=3, fresh=5)


@pytest.mark.parametrize(
    ("n", "times", "lengths"), [(8, (1, 1.5, 4), [8, 12, 32]), (32, (1, 1.25), [32, 40]), (10, (0.29, 2.26), [3, 23])]
)
def test_measured_lengths_are_multiples_rounded_to_the_nearest(n, times, lengths):
    assert replace(TINY, n=n, times=times).lengths == lengths


def test_recall_asks_for_the_symbol_so_far_back():
    ids, targets, answers = Recall(distance=3).draw(10, 5, np.random.default_rng(0))
    assert (ids[:, 0] == 8).all()
    assert ids[:, 1:].max() < 8
    for sentence, wanted, where in zip(ids.tolist(), targets.tolist(), answers.tolist(), strict=True):
        assert where == [NO_TARGET] * 4 + [1, 2, 3, 4, 5, 6]
        assert wanted == [NO_TARGET] * 4 + sentence[1:7]


@pytest.mark.parametrize(("n", "before"), [(9, 1), (10, 2)])
def test_copy_asks_for_the_first_half_again(n, before):
    ids, targets, answers = Copy(classes=5).draw(n, 6, np.random.default_rng(0))
    for sentence, wanted, where in zip(ids.tolist(), targets.tolist(), answers.tolist(), strict=True):
        row = sentence[before : before + 4]
        assert max(row) < 5
        assert sentence == [6] * before + [*row, 5, *row[:3]]
        assert wanted == [NO_TARGET] * (before + 4) + row
        assert where == [NO_TARGET] * (before + 4) + [before + i for i in range(4)]


@pytest.mark.parametrize("n", [9, 10])
def test_a_garbled_copy_has_the_same_targets(n):
    task = Copy()
    batch = task.draw(n, 300, np.random.default_rng(0))
    other = task.garble(batch, np.random.default_rng(1))
    assert (other.targets == batch.targets).all()
    assert (other.ids[:, : n - 3] == batch.ids[:, : n - 3]).all()  # the row and the separator
    second = other.ids[:, n - 3 :]
    assert {*second.ravel()} == set(range(8))
    assert abs((second == batch.ids[:, n - 3 :]).mean() - 1 / 8) < 0.05


@pytest.mark.parametrize(("k", "right"), [(1, [0, 1 / 3, 1, 1 / 3, 1 / 3]), (2, [0, 0, 1, 1, 1])])
def test_what_follows_a_context(k, right):
    """The row is 1 2 1 1 3: after 1 come 2, 1 and 3, after 2 1 the second 1."""
    ids = np.array([[9, 1, 2, 1, 1, 3, 8, 1, 2, 1, 1]])
    targets = np.array([[NO_TARGET] * 6 + [1, 2, 1, 1, 3]])
    answers = np.array([[NO_TARGET] * 6 + [1, 2, 3, 4, 5]])
    found = Copy().follow_context(Batch(ids, targets, answers), k)
    np.testing.assert_allclose(found[0, 6:], right)


@pytest.mark.parametrize("n", [1, 2, 9, 10])
def test_lookup_asks_for_the_value_of_an_earlier_card(n):
    task = Lookup(keys=6, classes=3)
    ids, targets, answers = task.draw(n, 20, np.random.default_rng(0))
    for sentence, wanted, where in zip(ids.tolist(), targets.tolist(), answers.tolist(), strict=True):
        cards = {token // 3: token % 3 for token in sentence if token < 18}
        assert len(cards) == (n - 1) // 2  # all keys differ
        assert sentence[0] == task.vocabulary - 1
        for t, token in enumerate(sentence):
            if 18 <= token < 24:
                assert wanted[t] == cards.pop(token - 18)
                assert where[t] < t
                assert sentence[where[t]] == (token - 18) * 3 + wanted[t]
            else:
                assert wanted[t] == where[t] == NO_TARGET
        assert not cards  # each is asked for once


@pytest.mark.parametrize("name", TASKS)
def test_targets_are_even(name):
    task = TASKS[name](64)
    targets = task.draw(64, 100, np.random.default_rng(0)).targets
    found = np.bincount(targets[targets >= 0], minlength=task.classes)
    assert len(found) == task.classes
    assert found.min() > 0.8 * found.max()


def test_thinned_keys_are_as_many_as_in_training():
    batch = Recall(distance=9).draw(64, 50, np.random.default_rng(0))
    seen = np.tril(thinned_keys(batch, 16)[:, 0])
    for back in (*range(8), 9):
        assert np.diagonal(seen, -back, 1, 2)[:, 10:].all()  # the nearest, and the answer
    assert abs(seen[:, 63].sum(axis=-1).mean() - 16.8) < 1
    assert seen[:, 63].any(axis=0).all()
    assert seen[:, :16].sum() == 50 * np.tri(16).sum()  # as many as there are


def test_each_piece_sees_itself_alone():
    batch, mask = pieces(Recall(distance=2), TINY)
    assert batch.ids.shape == (5, 32)
    assert mask.tolist() == np.kron(np.eye(4), np.tri(8)).astype(bool).tolist()
    asked = batch.targets != NO_TARGET
    assert asked.sum() == 5 * 4 * 5
    at = np.arange(32) // 8
    assert (np.broadcast_to(at, asked.shape)[asked] == batch.answers[asked] // 8).all()
    assert (np.take_along_axis(batch.ids, batch.answers.clip(0), axis=1)[asked] == batch.targets[asked]).all()


@pytest.mark.parametrize("kind", POSITIONS)
def test_positions_are_those_of_the_model(kind):
    model = PositionsModel(Recall(), kind, TINY)
    attention = model.layers.layers[0].self_attention
    assert isinstance(attention, nn.MultiHeadAttention)
    assert attention.options.positions == ("sinusoidal" if kind == "none" else kind)
    assert ("positions" in dict(model.embedding.named_parameters())) == (kind == "learned")
    differs = model.embedding(np.zeros((1, 3), int)).data.std(axis=1).max() > 1e-6
    assert differs == (kind in ("sinusoidal", "learned"))


def test_what_is_read():
    """One layer, one head, in which the weight of the answer is known."""
    sizes = replace(TINY, n_heads=1)
    model = PositionsModel(Recall(distance=1), "none", sizes)
    model.layers.layers[0].self_attention.w_in.data[:, :16] = 0  # all scores are 0
    batch = Recall(distance=1).draw(6, 3, np.random.default_rng(0))
    right, weight = read(model, batch, ops.causal_mask(6))
    assert weight.shape == (1, 1, 3, 6)
    np.testing.assert_allclose(weight[0, 0, :, 2:], np.tile(1 / np.arange(3, 7), (3, 1)), rtol=1e-6)
    with no_grad():
        said = model(batch.ids, ops.causal_mask(6)).data.argmax(axis=-1)
    assert (right == (said == batch.targets)).all()


def test_training_helps():
    sizes = PositionsSizes(
        n=8, times=(1, 4), d_model=16, n_heads=2, n_layers=1, d_ff=16, steps=150, warmup=20, rate=0.02
    )
    task = Recall(distance=1, classes=4)
    model = PositionsModel(task, "rotary", sizes)
    assert train_model(model, task, sizes, seed=0) < 0.5
    found = measure_model(model, task, sizes)
    assert found["accuracy"][0] > 0.8
    assert found["weight"][0] > 0.5
    assert found["pieces"] > 0.8
    assert found["near"]["nearest"] > 0.5
    assert found["far"] == {"all": None, "thinned": None}  # the answer is never far


def test_every_other_training_sentence_is_shorter():
    lengths = []

    class Counted(Recall):
        def draw(self, n, batch, rng):
            lengths.append(n)
            assert batch == 4 * 8 // n  # of shorter sentences there are more
            return super().draw(n, batch, rng)

    task = Counted(distance=1)
    train_model(PositionsModel(task, "none", TINY), task, replace(TINY, steps=120), seed=0)
    assert 40 <= lengths.count(8) <= 80
    assert {*lengths} == {*range(2, 9)}


def test_an_answer_n_positions_back_is_far():
    for distance, far in ((7, False), (8, True)):
        found = measure_model(PositionsModel(Recall(), "none", TINY), Recall(distance), replace(TINY, times=(2, 4)))
        assert (found["near"]["all"] is None) == far
        assert (found["far"]["all"] is not None) == far


def test_the_head_is_chosen_in_sentences_of_length_n():
    found = measure_model(PositionsModel(Recall(), "sinusoidal", TINY, seed=1), Recall(distance=3), TINY)
    weights = np.reshape(found["weights"], (3, -1))
    assert weights[0].argmax() != weights[-1].argmax()
    assert found["weight"] == weights[:, weights[0].argmax()].tolist()


def test_accuracy_is_that_of_the_end():
    batch = Batch(*(np.zeros((1, 32), int) for _ in range(3)))
    task = type("Constant", (), {"draw": lambda self, n, b, rng: Batch(*(x[:, :n] for x in batch))})()
    model = PositionsModel(Recall(), "none", TINY)
    model.w_out.data[...] = 0  # the first class everywhere
    batch.targets[:, 7:30] = 1
    found = measure_model(model, task, replace(TINY, times=(1, 4)))
    assert found["accuracy"] == [0.5, 1.0]  # positions 6 and 7, and 30 and 31


@pytest.mark.parametrize("text", ["[]", '{"sizes": {}}', '{"sizes": {"n": 9}, "loss": 1}'])
def test_measurements_of_other_sizes_are_refused_before_any_training(tmp_path, text):
    (tmp_path / "recall-none-0.json").write_text(text)
    with pytest.raises(FileError, match=r"recall-none-0\.json holds measurements of other sizes; choose another --out"):
        measure_positions(TINY, pytest.fail, folder=tmp_path)
