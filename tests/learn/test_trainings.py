"""At the end of a chapter a model learns with the learner's functions, and with no backward pass of the engine's."""

import json
from contextlib import ExitStack

import numpy as np
import pytest

from minitransformer import ops
from minitransformer.apps.cli import main
from minitransformer.apps.learn import bank, find, judge, judge_file
from minitransformer.apps.learn.answers import load_answers
from minitransformer.apps.learn.trainings import TRAININGS, Disagreement, Training, last_ready
from minitransformer.apps.learn.trainings.engine import ENGINE, Compared
from minitransformer.apps.learn.trainings.report import compare, draw_curve, train, train_with_answers
from minitransformer.apps.learn.verdict import Wrong
from minitransformer.autograd import Tensor
from minitransformer.override import override

each_chapter = pytest.mark.parametrize("chapter", TRAININGS)
DONE = {3: (200, 1e-3, "+0.587 green"), 5: (150, 0.85, "as 0123456789"), 7: (200, 0.1, "gfeddbea becomes aebddefg")}
"""For each chapter: steps, the loss after them, and something that the model shows then."""


def write(folder, name, text=None):
    path = folder / find(name).file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(find(name).solution if text is None else text, encoding="utf-8")


@pytest.fixture
def solved(tmp_path):
    """A folder in which all functions that the trainings use are solved."""
    for kind in TRAININGS.values():
        for name in kind.uses:
            write(tmp_path, name)
    return tmp_path


@each_chapter
def test_a_model_learns_with_solved_functions_alone(chapter, solved, monkeypatch):
    functions = load_answers(solved, TRAININGS[chapter].uses)

    def refuse(*arguments, **options):
        raise AssertionError("the engine was used")

    monkeypatch.setattr(Tensor, "backward", refuse)
    monkeypatch.setattr(Tensor, "__init__", refuse)
    with ExitStack() as stack:
        for operation in ops.registry.values():
            stack.enter_context(override(operation, forward=refuse, backward=refuse))
        steps, goal, shown = DONE[chapter]
        before, after, losses, _ = train(TRAININGS[chapter], functions, range(steps))
        assert np.mean(losses[-5:]) < goal < losses[0] / 2
        assert (shown in before, shown in after) == (False, True)
        with pytest.raises(AssertionError, match="the engine was used"):  # so the engine is indeed locked
            compare(TRAININGS[chapter], functions)


@each_chapter
def test_the_engine_reaches_the_same_loss(chapter, solved):
    report = train_with_answers(TRAININGS[chapter], solved, steps=5)
    np.testing.assert_allclose(report.losses, report.engine_losses, rtol=1e-9)
    assert len(report.losses) == 5
    assert report.losses[-1] < report.losses[0]
    assert report.before != report.after
    text = report.format()
    assert max(map(len, text.splitlines())) <= 79
    for shown in (report.before, report.after, "for 5 steps", f"{report.losses[-1]:.4g}"):
        assert shown in text


WRONG = {
    "sum-along-an-axis": lambda x, axis, d_y: np.expand_dims(d_y, axis),
    "unbroadcast": lambda d_y, shape: d_y.mean(axis=tuple(range(d_y.ndim - len(shape)))),
    "one-weight-for-a-batch": lambda x, w, d_y: (d_y @ w, np.einsum("bta,btf->fa", x, d_y)),
    "matmul-backward": lambda x, w, d_y: (d_y @ w.T, x.T @ d_y / len(x)),
    "repeated-ids": lambda ids, V, d_y: np.eye(V, d_y.shape[-1]),
    "softmax-of-large-scores": lambda x: np.exp(x),
    "log-sum-exp": lambda x: np.log(np.exp(x).sum(axis=-1, keepdims=True)),
    "cross-entropy-forward": lambda logits, q: -(q * np.log(ENGINE["softmax-of-large-scores"](logits))).sum(),
    "cross-entropy-backward": lambda logits, targets, d_loss: ENGINE["softmax-of-large-scores"](logits) * d_loss,
    "ignored-targets": lambda logits, targets, d_loss: ...,
    "scaled-scores": lambda q, k: q @ k.swapaxes(-1, -2),
    "a-row-that-sees-nothing": lambda scores, mask: np.where(mask, 1 / 8, 1 / 8) + 0 * scores,
    "attention-backward": lambda q, k, v, w, d_y: (q, k),
    "split-heads": lambda x, n: x.reshape(len(x), n, x.shape[1], -1),
    "merge-heads": lambda heads: heads.no_such_thing,
    "self-attention-backward": lambda w_q, w_k, w_v, d_q, d_k, d_v: d_q @ w_q.T + d_k @ w_k.T,
}


def test_the_engines_functions_bear_large_scores():
    x = np.array([[1000.0, 1001.0], [-2000.0, -1999.0]])
    np.testing.assert_allclose(ENGINE["log-sum-exp"](x), [1001.3132616875182, -1998.6867383124818], rtol=1e-12)
    np.testing.assert_allclose(ENGINE["softmax-of-large-scores"](x), [[0.2689414213699951, 0.7310585786300049]] * 2)


@pytest.mark.parametrize(("chapter", "name"), [(c, name) for c, kind in TRAININGS.items() for name in kind.uses])
def test_a_wrong_function_is_named_before_the_training(chapter, name):
    functions = {other: ENGINE[other] for other in TRAININGS[chapter].uses}
    with np.errstate(all="ignore"), pytest.raises(Disagreement) as caught:
        compare(TRAININGS[chapter], functions | {name: WRONG[name]})
    assert caught.value.name == name
    assert str(caught.value).startswith(f"{name}: ")
    assert "called with an array (" in str(caught.value)


def test_a_function_that_writes_into_its_inputs_is_named():
    def unbroadcast(d_y, shape):
        total = ENGINE["unbroadcast"](d_y, shape)
        d_y *= 0
        return total

    with pytest.raises(Disagreement, match="unbroadcast: input 1 was changed in place"):
        Compared({"unbroadcast": unbroadcast})["unbroadcast"](np.ones((2, 3)), (3,))


def test_the_functions_of_the_engine_are_those_that_the_trainings_use():
    assert set(ENGINE) == {name for kind in TRAININGS.values() for name in kind.uses}
    for chapter, kind in TRAININGS.items():
        assert max(find(name).file for name in kind.uses) < f"{chapter + 1:02}"
        assert issubclass(kind, Training)


def test_a_curve_has_a_mark_in_each_column():
    lines = draw_curve(list(np.linspace(2, 0.01, 200)))
    columns = list(zip(*[f"{line:<71}"[11:71] for line in lines[:-2]], strict=True))
    assert [column.count("*") for column in columns] == [1] * 60
    assert float(lines[0].partition("|")[0]) == 1.99
    assert lines[-1].endswith("steps 1 to 200")
    logarithmic = draw_curve(list(np.logspace(0, -8, 60)))
    assert {line.count("*") for line in logarithmic[1:7]} == {7, 8}
    assert float(logarithmic[4].partition("|")[0]) == 1e-4
    assert any("*" in line for line in draw_curve([1.0, 0.0]))
    assert draw_curve([1.0, float("nan")])


def test_what_fails_after_the_first_batch_is_located(solved):
    """The second call is in the first step of the training itself."""
    text = find("unbroadcast").solution.replace("    d = ", "    calls.append(1)\n    1 / (2 - len(calls))\n    d = ")
    write(solved, "unbroadcast", "calls = []\n" + text)
    with pytest.raises(Wrong, match=r"Line \d+, in unbroadcast, failed with ZeroDivisionError"):
        train_with_answers(TRAININGS[3], solved)


@pytest.fixture
def learn(solved, capsys, monkeypatch):
    def few_steps(kind, functions, steps):
        return train(kind, functions, list(steps)[:3])

    monkeypatch.setattr("minitransformer.apps.learn.trainings.report.train", few_steps)

    def run(*words):
        status = main(["learn", *words, "--folder", str(solved)])
        return status, capsys.readouterr()

    return run


def test_the_command_trains_the_last_chapter_that_is_ready(learn, solved):
    assert last_ready(()) is None
    (solved / ".progress.json").write_text(json.dumps({"done": TRAININGS[3].uses, "hints": {}, "current": ""}))
    status, said = learn("train")
    assert (status, said.out.startswith("Chapter 3: "), "before  brightness" in said.out) == (0, True, True)
    assert learn("train", "5")[1].out.startswith("Chapter 5: ")


def test_a_report_tells_the_learners_training_from_the_engines(solved, monkeypatch):
    runs = iter([("dog", "god", [2.0, 1.0], 0.123), ("cat", "tac", [3.0, 1.5], 4.567)])
    monkeypatch.setattr("minitransformer.apps.learn.trainings.report.train", lambda *_: next(runs))
    report = train_with_answers(TRAININGS[3], solved)
    assert (report.before, report.after) == ("dog", "god")
    lines = [line.split() for line in report.format().splitlines()]
    assert lines[-2:] == [["your", "functions", "1", "0.12"], ["the", "engine's", "own", "1.5", "4.57"]]
    assert ["before", "dog"] in lines
    assert ["after", "god"] in lines


def test_ctrl_c_is_no_mistake_of_the_learners(solved):
    """Wherever their code runs in this process, also after a result that is wrong."""

    def stop(*_):
        raise KeyboardInterrupt

    first, wrong_first = bank()[0], iter([np.zeros_like])
    write(solved, first.name, "raise KeyboardInterrupt")
    calls = [
        lambda: judge(first, [stop]),
        lambda: judge(find("softmax-forward"), [lambda x: next(wrong_first, stop)(x)]),
        lambda: judge_file(first, solved / first.file),
        lambda: load_answers(solved, [first.name]),
        lambda: compare(TRAININGS[3], dict.fromkeys(TRAININGS[3].uses, stop)),
        lambda: train_with_answers(TRAININGS[3], solved, lambda steps: map(stop, steps)),
    ]
    for call in calls:
        with pytest.raises(KeyboardInterrupt):
            call()
