"""A learner's own functions train the model: each is held against the engine's, and no engine's gradient is needed."""

import json
import multiprocessing
import pickle
import re
import sys
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from toml_cases import cases_from_toml, toml_table

from minitransformer import decoding, ops, optim
from minitransformer.apps.cli import main, own_parts
from minitransformer.apps.cli.errors import UsageError
from minitransformer.apps.learn import Verdict, bank, find, judge
from minitransformer.apps.learn.child import Ended, Limits
from minitransformer.apps.learn.model import (
    PARTS,
    Parts,
    Setting,
    find_parts,
    read_record,
    record,
    try_parts,
)
from minitransformer.apps.learn.model import trial as trials
from minitransformer.apps.learn.model.passes import PASSES
from minitransformer.apps.learn.model.training import TRAINING
from minitransformer.apps.learn.solutions import solution_of
from minitransformer.autograd import Tensor
from minitransformer.data import all_batches
from minitransformer.decoding import SearchOptions, greedy
from minitransformer.ops.rotary import Rotation
from minitransformer.override import override
from minitransformer.runs import Configuration
from minitransformer.tasks import build
from minitransformer.training import Trainer, training_step

TINY = {
    "d_model": 8, "n_heads": 2, "n_layers": 1, "d_ff": 12, "workers": 1, "batch_tokens": 96, "train_pairs": 60,
    "held_out": 5, "steps": 2, "warmup_steps": 2, "d_k": 6, "d_v": 5,
}  # fmt: skip
LIMITS = Limits(patience=0.1, seconds=2.0)
"""Enough for a right part on a busy machine."""
pytestmark = pytest.mark.numpy_only("exercises are in NumPy")
LATER = {"norm": "rms", "activation": "swiglu", "positions": "rotary", "n_kv_heads": 1}
OF_LATER = {name for name in PARTS if find(name).file.startswith("11-after-2017")}
"""The parts that models with later options have, and the paper's does not."""
OF_TEXTS = {"top-p"}
"""Those that only a decoder alone has."""
NAP = "__import__('time').sleep(9)"
"""In an endless loop, it leaves the processor to other tests; ``test_child.py`` has loops that do not."""
WRONG = toml_table(__file__, "WRONG")
WALK = {"walk-back", "order-of-a-graph"}
FLAGS = [word for name, value in TINY.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def solve(folder, *names):
    """Write the solutions of exercises into a folder; all that are parts of the model by default."""
    for name in names or PARTS:
        path = folder / find(name).file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(find(name).solution, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    return solve(tmp_path_factory.mktemp("solved") / "my-exercises")


def spoil(folder, name, old, new):
    path = folder / find(name).file
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def trainer(**changes):
    return Trainer(Configuration.of_task(build("numbers"), **(TINY | changes)))


def setting(folder, **changes):
    one = trainer(**changes)
    sizes = len(one.source), len(one.target), one.corpus.shared
    return Setting(folder, one.configuration, sizes, next(iter(one.batches.epoch(0))))


def text_trainer(tmp_path, **changes):
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{i} {i * i % 101:b}\n" for i in range(200)))
    small = {name: value for name, value in TINY.items() if name not in ("train_pairs", "held_out")}
    return Trainer(Configuration.of_task(build("characters"), **(small | {"text": [path], "window": 12} | changes)))


def text_setting(folder, tmp_path, **changes):
    one = text_trainer(tmp_path, **changes)
    return Setting(folder, one.configuration, (len(one.target), len(one.target), True), next(all_batches(one.batches)))


def trial(folder, only=PARTS, limits=None, tell=print, **changes):
    return try_parts(setting(folder, **changes), only, limits=limits, tell=tell)


def test_every_part_is_an_exercise_that_some_pass_calls():
    called = {name for _, names in {**PASSES, **TRAINING}.values() for name in names}
    assert called == {*PARTS}
    assert len(PARTS) == len(set(PARTS))
    assert {*PARTS} <= {exercise.name for exercise in bank()}


def test_right_answers_agree_with_the_engine_and_leave_their_times(solved):
    found = trial(solved)
    assert {*found.parts.functions} == found.used == {*PARTS} - OF_LATER
    assert found.wrong == found.broken == {}
    assert found.engine > 0
    assert found.together > 0
    assert {"softmax-backward", "walk-back", "adam-step"} <= found.times.keys()
    assert found.own_gradients


def test_the_shortest_of_several_steps_counts(solved, monkeypatch):
    steps = [(3.0, {"adam-step": 1.0}, True), (2.0, {"adam-step": 0.5}, False), (5.0, {}, True)]
    monkeypatch.setattr(trials, "_steps", lambda setting: [4.0, 1.5, 3.0])
    monkeypatch.setattr(trials, "_examine_all", lambda *_: {"adam-step": Verdict(True, "")})
    monkeypatch.setattr(trials, "run_in_child", lambda *_, **__: steps)
    found = trial(solved)
    assert (found.engine, found.together, found.times, found.own_gradients) == (1.5, *steps[1])


@pytest.mark.skipif(sys.platform != "linux", reason="hands a function to a fork")
def test_a_part_may_use_several_times_the_memory_of_all_values(tmp_path, monkeypatch):
    monkeypatch.setattr(trials, "guard", lambda judge, files, memory: f"{memory}")
    values = {"a": np.zeros(5), "b": np.zeros((3, 7))}
    found = trials._examine_all(setting(solve(tmp_path, "warm-up")), ["warm-up"], values, LIMITS, print)
    assert found == {"warm-up": f"{trials.MEMORY + 8 * 8 * (5 + 21)}"}


def test_a_clock_gives_each_part_the_time_that_it_takes_by_itself(monkeypatch, tmp_path):
    times, clock = iter([1.0, 3.0, 7.0, 15.0, 31.0, 63.0, 127.0, 255.0]), trials.Clock()
    monkeypatch.setattr(trials, "time", SimpleNamespace(perf_counter=lambda: next(times)))
    parts = clock.watch(Parts(tmp_path, {"inner": lambda: 8, "outer": lambda: inner() + inner()}))
    inner = parts.functions["inner"]
    assert (parts.functions["outer"](), inner()) == (16, 8)
    assert clock.seconds == {"inner": 4.0 + 16.0 + 128.0, "outer": 62.0 - 4.0 - 16.0}


def test_a_training_tries_its_parts_on_its_first_batch(monkeypatch, tmp_path):
    one, told = trainer(), []

    def try_parts(*given, tell):
        told.extend(given)
        raise Ended("Line 3 was stopped.")

    monkeypatch.setattr(own_parts.model, "try_parts", try_parts)
    with pytest.raises(UsageError, match="Line 3 was stopped"):
        own_parts.try_own_parts(own_parts.Choice(tmp_path, {"warm-up"}), one, False)
    sizes = len(one.source), len(one.target), False
    assert (*told[0][:3], told[1]) == (tmp_path, one.configuration, sizes, {"warm-up"})
    assert len(one.source) != len(one.target)
    np.testing.assert_equal([*told[0].batch], [*next(iter(one.batches.epoch(0)))])
    several = SimpleNamespace(own=tmp_path, but=[], anyway=False, solved=False, group=SimpleNamespace(size=2))
    with pytest.raises(UsageError, match="mpiexec"):
        own_parts.chosen_parts(several)


@pytest.mark.parametrize(
    ("changes", "only"),
    [({"positions": "learned"}, PARTS), ({}, {*PARTS} - {"linear-backward"}), ({}, {*PARTS} - WALK)],
    ids=["model", "part", "walk"],
)
def test_a_gradient_that_the_engine_computes_is_noticed(solved, monkeypatch, changes, only):
    monkeypatch.setattr(trials, "_examine_all", lambda _, names, *__: dict.fromkeys(names, Verdict(True, "")))
    assert not trial(solved, only, **changes).own_gradients


@pytest.mark.parametrize(
    ("changes", "more", "fewer"),
    [
        (LATER, OF_LATER - OF_TEXTS, {"layer-norm-forward", "feed-forward-backward", "split-heads"}),
        ({"norm": "rms"}, {"rms-norm-forward", "rms-norm-backward"}, {"layer-norm-backward", "residual-connection"}),
        ({"n_kv_heads": 1}, {"grouped-heads-backward"}, {"merge-heads"}),
        ({"schedule": "linear"}, set(), {"warm-up"}),
        ({"dropout": 0.0}, set(), {"dropout-forward", "dropout-backward"}),
    ],
    ids=["later", "RMSNorm", "one key head", "linear", "no dropout"],
)
def test_parts_that_a_model_does_not_use_are_not_counted(tmp_path, changes, more, fewer):
    found = trial(solve(tmp_path, "linear-backward", *more, *fewer), **changes)
    assert found.used & OF_LATER == more
    assert not found.used & fewer
    assert {*found.parts.functions} == {"linear-backward", *more}
    assert found.wrong == found.broken == {}


@pytest.mark.parametrize(
    ("owner", "name", "other", "what"),
    [
        (ops.layer_norm, "backward", lambda saved, d_y: (d_y, 0 * d_y[0, 0], 0 * d_y[0, 0]), "the gradient of "),
        (optim, "warmup", lambda step, d_model, warmup_steps: 1.0, "the learning rate"),
        (decoding.rules, "length_penalty", lambda length, alpha: 1.0 + length, "translation 1 of beam search"),
    ],
)
def test_the_trial_looks_at_every_value_that_a_part_can_change(tmp_path, owner, name, other, what):
    """A part whose own check passes may still differ on the model."""
    one = setting(tmp_path)
    expected = one.values()
    with override(owner, **{name: other}):
        found = one.values()
    changed = {name for name, value in expected.items() if not np.array_equal(found[name], value)}
    assert any(name.startswith(what) for name in changed)
    weights = [name for name, _ in one.configuration.build_model(*one.sizes).named_parameters()]
    assert [*expected] == [
        *(f"the initial weights {name}" for name in weights),
        "the loss",
        *(f"the gradient of {name}" for name in weights),
        "the learning rate",
        "the weights after two steps",
        *(f"translation {n} of {kind}" for kind in ("greedy decoding", "beam search") for n in (1, 2)),
    ]


def test_a_child_process_gets_the_same_setting_where_processes_cannot_fork(tmp_path):
    one = setting(tmp_path)
    other = pickle.loads(pickle.dumps(one))
    assert other.configuration == one.configuration
    np.testing.assert_equal([*other.batch], [*one.batch])


@pytest.mark.parametrize(
    ("decoder_only", "changes"),
    [
        (False, {}),
        (False, {"norm": "pre", "dropout": 0.0}),
        (False, {"share_embeddings": False, "label_smoothing": 0.0}),
        (False, LATER),
        (True, {}),
        (True, {"norm": "rms", "activation": "swiglu"}),
    ],
    ids=str,
)
def test_a_model_learns_by_own_parts_as_by_the_engine_and_without_its_backward_passes(
    solved, tmp_path, decoder_only, changes
):
    engine, own = (text_trainer(tmp_path, **changes) if decoder_only else trainer(**changes) for _ in range(2))
    batch, smoothing = next(all_batches(engine.batches)), engine.configuration.training.label_smoothing
    losses = [training_step(engine.model.train(), engine.optimiser, batch, 0.01, smoothing) for _ in range(3)]
    with refusing_later_gradients() if changes == LATER else trials.watching_gradients(refuse):
        with pytest.raises(AssertionError, match="of the engine was executed"):
            training_step(engine.model, engine.optimiser, batch, 0.01, smoothing)
        with Parts.open(solved).in_place():
            for loss in losses:
                found = training_step(own.model.train(), own.optimiser, batch, 0.01, smoothing)
                assert float(found) == pytest.approx(float(loss), rel=1e-4)


@contextmanager
def refusing_later_gradients():
    """Refuse the gradients of later parts; a model that has all of them needs a few of the engine's beside them."""
    with ExitStack() as stack:
        for owner, name in PASSES:
            if (owner in (ops.rms_norm, ops.swiglu, ops.rotary) and name == "backward") or name == "sum_groups":
                stack.enter_context(override(owner, **{name: refuse}))
        yield


def refuse(*_, **__):
    raise AssertionError("a backward pass of the engine was executed")


@pytest.mark.parametrize("changes", [{}, LATER], ids=["paper", "later"])
def test_parts_are_handed_what_their_exercises_promise(solved, changes):
    """As many arguments of the same kinds as the exercise's own check gives, with no more axes than a batch adds."""
    own, parts, handed = trainer(**changes), Parts.open(solved), {}

    def noted(name, function):
        def called(*inputs):
            handed.setdefault(name, []).append([*map(kind_of, inputs)])
            return function(*inputs)

        return called

    with Parts(solved, {name: noted(name, function) for name, function in parts.functions.items()}).in_place():
        training_step(own.model.train(), own.optimiser, next(iter(own.batches.epoch(0))), 0.01, 0.1)
        own.evaluate(own.corpus.held_out[:2], own.model)
    assert len(handed) > 25
    assert ("rotary-forward" in handed) == bool(changes)
    for name, calls in handed.items():
        checked = []
        judge(find(name), [noted_in(checked, solution_of(name))])
        for call in calls:
            assert any(call == one for one in checked), (name, call, checked)


def noted_in(calls, function):
    return lambda *inputs: calls.append([*map(kind_of, inputs)]) or function(*inputs)


def kind_of(given):
    """Return what an argument is: a number or numbers, whole ones, truth values, or an object of another type."""
    if isinstance(given, np.ndarray | Tensor) and np.asarray(given.data).dtype.kind in "bi" and given.ndim:
        return np.asarray(given.data).dtype.kind
    if isinstance(given, np.ndarray | Tensor | int | float | np.number | str):  # a graph's node may have any name
        return "plain"
    return "function" if callable(given) else type(given).__name__


def test_the_gradients_of_several_shares_are_added_up(tmp_path):
    solved = solve(tmp_path)
    spoil(solved, "walk-back", "d[output] * slope", "slope * d[output]")  # which is right too
    engine, own = trainer(dropout=0.0), trainer(dropout=0.0)
    batch = next(iter(engine.batches.epoch(0)))
    for one, parts in ((engine, Parts(solved, {})), (own, Parts.open(solved))):
        with parts.in_place():
            training_step(one.model.train(), one.optimiser, batch, 0.01, 0.1, micro_batches=2)
    np.testing.assert_allclose(own.optimiser.values, engine.optimiser.values, atol=1e-4)


def test_a_walk_of_ones_own_refuses_what_the_engine_refuses(solved):
    with Parts.open(solved, ["walk-back", "order-of-a-graph"]).in_place():
        x = Tensor(np.ones(2), requires_grad=True)
        y = (x * x).sum()
        x.data[...] = 3
        with pytest.raises(RuntimeError, match="an input was changed in place"):
            y.backward()


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 1e3])
def test_an_error_of_a_part_is_measured_by_the_largest_value(solved, scale):
    parts, expected = Parts.open(solved, ["product-rule"]), scale * np.array([1.0, -0.25])
    for error, right in ((5e-8, True), (2e-7, False)):
        setting = SimpleNamespace(values=partial(dict, y=expected + np.array([0, error * (scale or 1)])))
        assert trials._examine(setting, parts, {"y": expected}).right is right


@pytest.mark.parametrize("changes", [{}, {**LATER, "schedule": "warmup", "dropout": 0.1}], ids=["paper", "later"])
def test_a_decoder_alone_takes_the_parts_that_it_uses(solved, tmp_path, changes):
    found = try_parts(text_setting(solved, tmp_path, **changes))
    assert {*found.parts.functions} == found.used
    assert found.wrong == found.broken == {}
    assert found.decoder_only
    assert {"shifted-targets", "causal-mask", "label-smoothing-backward", "walk-back", "top-p"} < found.used
    assert not found.used & {"greedy-decoding", "beam-step", "length-penalty"}
    assert (found.used & OF_LATER == OF_LATER) == bool(changes)
    assert {"warm-up", "dropout-backward"} <= found.used if changes else "warm-up" not in found.used


def test_the_trial_of_a_decoder_alone_looks_at_what_it_draws(tmp_path):
    one = text_setting(tmp_path, tmp_path)
    expected = one.values()
    most_probable = lambda p, top_p: np.eye(p.shape[-1])[[0] * len(p)]  # noqa: E731
    with override(decoding.sampling, keep_top_p=most_probable):
        found = one.values()
    changed = {name for name, value in expected.items() if not np.array_equal(found[name], value)}
    assert changed
    assert all(re.fullmatch("text [12] of sampling", name) for name in changed)


@pytest.mark.parametrize("x", [[0.3, -2.0, 5.0, -1.0, 2.0, 3.0], [-90.0, -800.0, 90.0, 1.0, 2.0, 3.0]])
def test_the_gates_are_found_again(solved, x):
    x, d_y = np.array([x]), np.array([[0.7, -1.1, 0.4]])
    _, saved = ops.swiglu.forward(x)
    (expected,) = ops.swiglu.backward(saved, d_y)
    with Parts.open(solved).in_place():
        (found,) = ops.swiglu.backward(saved, d_y)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def unusual():
    """Yield what operations return with options that no exercise has."""
    rng = np.random.default_rng(5)
    q, k, v, d_y = (rng.normal(size=(2, 3, 5, n)) for n in (4, 4, 6, 6))
    mask, bias = rng.random((5, 5)) < 0.7, rng.normal(size=(3, 5, 5))
    _, saved = ops.scaled_dot_product_attention.forward(q, k, v, mask, True, 2, bias=bias)
    yield from ops.scaled_dot_product_attention.backward(saved, d_y)
    y, saved = ops.rotary.forward(q, 3, rotation=Rotation(base=500.0))
    yield from (y, *ops.rotary.backward(saved, k))
    yield ops.sinusoidal_positions(5, 6, "float64", "interleaved", "d_model", 2)
    sources = setting(None).batch.inputs[0][:2]
    yield from map(np.array, greedy(trainer().model, sources, 3, SearchOptions(force_end=True)))


def test_options_that_no_exercise_has_are_the_engines(solved):
    expected = [*unusual()]
    with Parts.open(solved, {*PARTS} - {"scaled-scores", "causal-mask"}).in_place():
        found = [*unusual()]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("model", WRONG)
def test_a_wrong_part_is_named_with_its_cause(tmp_path, model):
    """Each part is tried alone; of two mistakes in one part, the second has a trial of its own."""
    todo = WRONG[model]
    while todo:
        chosen = {name: row for name, *row in reversed(todo)}
        todo = [row for row in todo if row[1:] != chosen[row[0]]]
        folder = solve(tmp_path / f"{len(todo)}", *chosen)
        for name, (old, new, _) in chosen.items():
            spoil(folder, name, old, new)
        of_text = model == "a decoder alone"
        one = text_setting(folder, tmp_path) if of_text else setting(folder, **(LATER if model == "later" else {}))
        found = try_parts(one).wrong
        assert {*found} == {*chosen}
        assert [name for name, (_, _, words) in chosen.items() if words not in " ".join(found[name].split())] == []


@cases_from_toml
def test_a_part_may_be_written_in_another_way(tmp_path, name, old, new, changes):
    folder = solve(tmp_path, name)
    spoil(folder, name, old, new)
    assert trial(folder, **changes).wrong == {}


def test_only_what_is_solved_takes_a_place(tmp_path):
    folder = solve(tmp_path, "softmax-backward", "warm-up")
    path = folder / find("adam-step").file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(find("adam-step").text, encoding="utf-8")
    half = folder / find("xavier").file
    half.write_text("def draw(rng, n_in, n_out):\n    a = 1\n    return ...\n", encoding="utf-8")
    parts = trial(folder, {*PARTS} - find_parts(["warm_up"])).parts
    assert [*parts.functions] == ["softmax-backward"]
    assert parts.broken == {}
    assert {parts.missing[name] for name in ("adam-step", "xavier", "beam-step")} == {"to do"}
    assert parts.missing["warm-up"] == "--but"
    assert Parts.open(folder, ["beam-step"]).missing["beam-step"] == "to do"
    with pytest.raises(LookupError, match="chain-rule is no part of the model"):
        find_parts(["chain-rule"])


BROKEN = {
    "softmax-backward": (
        "def backward(y, d_y):\n    return (\n",
        "Line 2 is not Python: '(' was never closed return (",
    ),
    "xavier": ("import os\nos._exit(3)\n", "ended Python with status 3"),
    "beam-step": ("exit()\n", "Line 1, in <module>, failed with SystemExit"),
    "adam-step": (f"def step(*_):\n    while True: {NAP}\n", "Line 2, in step, was still running after 2 s"),
}


def test_a_file_that_cannot_be_used_stops_neither_the_checks_of_others_nor_the_command(tmp_path):
    folder, told = solve(tmp_path, "warm-up", *BROKEN, "padding-mask"), []
    for name, (text, _) in BROKEN.items():
        (folder / find(name).file).write_text(text, encoding="utf-8")
    found = trial(folder, limits=LIMITS, tell=told.append)
    assert {*found.parts.functions} == {"warm-up", "padding-mask"}
    assert found.broken.keys() == BROKEN.keys()
    for name, (_, words) in BROKEN.items():
        assert words in " ".join(found.broken[name].split())
    loops = [t.splitlines()[0] for t in told if t.startswith("adam-step")]  # on a busy machine others are told too
    assert loops == ["adam-step: still running after 0.1 s. Line 2, in step, is running:"]


def test_a_loop_that_only_a_training_step_enters_is_found(tmp_path):
    folder = solve(tmp_path, "warm-up", "softmax-backward")
    spoil(folder, "softmax-backward", "    row_sum", f"    while y.dtype == 'float32': {NAP}\n    row_sum")
    found = trial(folder, limits=LIMITS, tell=lambda _: None)
    assert [*found.parts.functions] == ["warm-up"]
    assert "In a training step: Line" in found.broken["softmax-backward"]
    spoil(
        folder, "softmax-backward", f"    while y.dtype == 'float32': {NAP}\n", "    if y.dtype == 'float32': y[99]\n"
    )
    assert "failed with IndexError" in trial(folder).broken["softmax-backward"]


def test_overrides_end_with_the_block(solved):
    places = {**PASSES, **TRAINING}
    before = [getattr(owner, name) for owner, name in places]
    with Parts.open(solved).in_place():
        assert not any(getattr(*place) is one for place, one in zip(places, before, strict=True))
    assert [getattr(owner, name) for owner, name in places] == before


# The command line


def run(capsys, *words):
    status = main([*words])
    return status, *capsys.readouterr()


def test_a_run_with_own_parts_from_training_to_translation(drawing, tmp_path, monkeypatch, capsys):
    own = solve(tmp_path / "learner" / "my-exercises", "softmax-backward", "warm-up", "greedy-decoding")
    monkeypatch.chdir(own.parent)
    out = tmp_path / "run"
    words = ("--with", "my-exercises", "--but", "softmax-backward", "--out", str(out))
    slow = lambda *args: own_parts.try_own_parts(*args)._replace(together=5400.0)  # noqa: E731
    monkeypatch.setattr("minitransformer.apps.cli.train.try_own_parts", slow)
    with drawing():
        status, told, _ = run(capsys, "train", *words, *FLAGS)
    assert status == 0
    assert "about 3 h 0 min on this computer, estimated before the first step" in told
    assert "2 of 39 parts are yours" in told
    assert "Not used by this model: " in told
    others = told.partition("Not used by this model: ")[2].partition(".")[0].split()
    assert {name.strip(",") for name in others} == OF_LATER
    assert (out / "parts.png").stat().st_size > 5000
    kept = json.loads((out / "parts.json").read_text())
    assert [*kept["parts"]] == ["warm-up", "greedy-decoding"]
    _, _, noted = run(capsys, "translate", str(out), "--", "one")
    assert "2 of this model's parts are functions in" in noted
    monkeypatch.chdir(tmp_path)  # from elsewhere no code is run that the run folder names
    status, _, told = run(capsys, "translate", str(out), "--", "one")
    assert (status, f"which is not this directory's; add --with {own}" in told) == (2, True)
    _, _, noted = run(capsys, "evaluate", str(out), "--with", str(own))
    assert "2 of this model's parts are functions in" in noted


@pytest.fixture
def impatient(monkeypatch):
    limited = partial(try_parts, limits=LIMITS)
    monkeypatch.setattr("minitransformer.apps.learn.model.try_parts", limited)


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Return a function that makes the folder ``mine``, with some exercises solved, in the current folder."""
    monkeypatch.chdir(tmp_path)
    return partial(solve, tmp_path / "mine")


def test_training_does_not_start_with_a_file_that_cannot_be_used(impatient, mine, capsys):
    folder = mine("warm-up", "xavier", "adam-step", "length-penalty")
    spoil(folder, "warm-up", "    return d_model", f"    while True: {NAP}\n    return d_model")
    spoil(folder, "xavier", "def draw(", "def draw((")
    spoil(folder, "length-penalty", "scores = log_p /", "scores = log_p *")
    status, told, error = run(capsys, "train", "--with", "mine", "--anyway", *FLAGS)
    assert (status, "1 of 39 parts is yours, 3 wrong" in told) == (2, True)
    for name, line in (("xavier", "is not Python"), ("warm-up", "Line 15, in learning_rate, was still running")):
        assert f"{name} is wrong ({Path('mine') / find(name).file}):\n\n" in told
        assert line in told
    assert error.endswith("add --but xavier --but warm-up to use the engine's, or --solved for all of them\n")
    assert not Path("runs").exists()
    status, told, _ = run(capsys, "train", "--with", "mine", "--solved", "--out", "run", *FLAGS)
    assert (status, "1 of 39 parts is yours, 3 wrong" in told) == (0, True)
    assert [*json.loads(Path("run/parts.json").read_text())["parts"]] == ["adam-step"]


def test_ctrl_c_ends_the_check(impatient, mine, monkeypatch, capsys):
    spoil(mine("warm-up"), "warm-up", "    return d_model", f"    while True: {NAP}\n    return d_model")

    def interrupt(words):
        raise KeyboardInterrupt

    monkeypatch.setattr(own_parts, "partial", lambda *_, **__: interrupt)
    status, _, error = run(capsys, "train", "--with", "mine", *FLAGS)
    assert (status, error) == (130, "interrupted\n")
    assert multiprocessing.active_children() == []


def test_an_error_of_the_engine_is_not_blamed_on_the_part_that_called_it(solved):
    parts = Parts.open(solved, only=["residual-connection"])
    residual = trainer().model.encoder.layers[0].residual1
    with parts.in_place(), pytest.raises(TypeError, match="padding_mask") as error:
        residual(np.zeros((1, 2, 8)), ops.padding_mask)
    assert parts.where(error.value) == ""


def test_an_error_in_a_part_in_training_is_told_by_its_line(mine, capsys):
    spoil(mine("warm-up"), "warm-up", "return d_model", "return 1 / (9 - step) and d_model")
    status, _, error = run(capsys, "train", "--with", "mine", *FLAGS, "--steps", "9", "--warmup-steps", "2")
    assert status == 2
    assert f"line 15 of {Path('mine') / find('warm-up').file} failed with ZeroDivisionError" in error
    assert "Traceback" not in error


def test_what_a_mistake_does(mine, capsys):
    spoil(mine("scaled-scores", "warm-up"), "scaled-scores", " / sqrt(q.shape[-1])", "")
    status, told, error = run(capsys, "train", "--with", "mine", *FLAGS)
    assert (status, "the division is missing" in told) == (2, True)
    assert "training did not start; add --but scaled-scores" in error
    assert not Path("runs").exists()
    status, told, _ = run(capsys, "train", "--with", "mine", "--anyway", *FLAGS)
    assert status == 0
    assert all(words in told for words in ("effect of the mistake:", "with your scaled-scores"))
    assert Path("runs/numbers/with-and-without.png").stat().st_size > 5000
    assert [*json.loads(Path("runs/numbers-without-the-mistake/parts.json").read_text())["parts"]] == ["warm-up"]


@cases_from_toml
def test_options_that_cannot_be_are_refused_before_any_work(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    status, _, error = run(capsys, "train", *words, *FLAGS)
    assert status == 2
    assert message in error
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "text", ["[", "{}", '{"folder": 3, "parts": {}}', '{"folder": "/x", "parts": {"chain-rule": "0"}}']
)
def test_a_damaged_record_is_named(tmp_path, text):
    (tmp_path / "parts.json").write_text(text)
    with pytest.raises(ValueError, match=r"parts\.json"):
        read_record(tmp_path)


def test_what_has_changed_since_training_is_known(tmp_path):
    folder = solve(tmp_path / "mine", "warm-up", "xavier")
    record(Parts.open(folder), tmp_path)
    spoil(folder, "warm-up", "return d_model", "return 1 * d_model")
    (folder / find("xavier").file).unlink()
    kept = read_record(tmp_path)
    parts = kept.open(folder)
    assert [*parts.functions] == kept.edited(parts) == ["warm-up"]
    assert kept.gone(parts) == ["xavier"]


@pytest.fixture
def own_run(tmp_path, monkeypatch, capsys):
    """Return the folder of a run with a learner's part, and the learner's folder; they are not beside each other."""
    own = solve(tmp_path / "learner" / "my-exercises", "warm-up")
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "train", "--with", str(own), "--out", "run", *FLAGS)[0] == 0
    return tmp_path / "run", own


def test_a_folder_that_is_gone_is_noted_and_with_names_where_it_is(own_run, tmp_path, capsys):
    out, own = own_run
    moved = own.rename(tmp_path / "elsewhere")
    error = run(capsys, "translate", str(out), "--", "one")[2]
    assert f"{own}, which no longer exists (--with names another folder); the engine's are used" in error
    assert "no longer solved" not in error
    assert "training must continue with the functions that it started with" in run(capsys, "resume", str(out))[2]
    words = ("translate", str(out), "--with", str(moved), "--", "one")
    assert f"1 of this model's parts is a function in {moved}" in run(capsys, *words)[2]
    spoil(moved, "warm-up", "return d_model", "return 1 * d_model")
    assert "changed since" in run(capsys, *words)[2]


def test_a_folder_that_would_not_be_used_is_refused(own_run, tmp_path, capsys):
    out, own = own_run
    for words in (["translate", str(out), "--", "one"], ["resume", str(out)]):
        status, _, error = run(capsys, *words[:2], "--with", "nowhere", *words[2:])
        assert (status, "there is no folder nowhere" in error) == (2, True)
    nowhere = out.with_name("nowhere")
    for words in (["translate", str(nowhere), "--with", str(own), "--", "one"], ["evaluate", str(nowhere)]):
        assert f"there is no run folder {nowhere}" in run(capsys, *words)[2]
    (out / "parts.json").unlink()
    status, _, error = run(capsys, "translate", str(out), "--with", str(own), "--", "one")
    assert (status, "--with has no effect" in error) == (2, True)


def test_training_goes_on_with_the_same_functions_or_not_at_all(own_run, capsys):
    out, own = own_run
    words, file = ("resume", str(out), "--with", str(own)), find("warm-up").file
    assert f"add --with {own}" in run(capsys, *words[:2])[2]
    assert run(capsys, *words)[0] == 0
    spoil(own, "warm-up", "(step, d_model", "((step, d_model")
    status, _, error = run(capsys, *words)
    assert (status, f"{file} cannot be used: Line" in error) == (2, True)
    (own / file).unlink()
    status, _, error = run(capsys, *words)
    assert (status, "no longer solved" in error) == (2, True)


def test_a_mistake_by_which_training_diverges_is_compared_too(mine, capsys):
    spoil(mine("warm-up"), "warm-up", "return d_model", "return 1e300 * d_model")
    with np.errstate(all="ignore"):
        status, told, error = run(capsys, "train", "--with", "mine", "--anyway", *FLAGS)
    assert (status, "training stops" in error, "effect of the mistake:" in told) == (0, True, True)
