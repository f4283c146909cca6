"""Every option of the model, and every value of a choice: whatever a call obeys, all else obeys too.

Fields and values come from ``ModelOptions`` itself, so an option that is added tomorrow is tested on that day. The
other options are drawn until a change of this one changes the logits; so what is compared depends on it.
"""

import json
from functools import cache

import numpy as np
import pytest
from option_values import Draws

import minitransformer as mt
from minitransformer.apps.explorer.describe import describe_places, describe_trace
from minitransformer.apps.learn.model import Setting, fill_stacks
from minitransformer.arrays import asarray, to_numpy
from minitransformer.data import Batch, TextBatch
from minitransformer.nn import ModelOptions
from minitransformer.runs import Configuration, RunFolder, load
from minitransformer.tasks import build
from minitransformer.training import Trainer, create_run, training_step

BASE = ModelOptions(
    d_model=8, n_heads=4, n_layers=1, d_ff=6, dropout=0.0, rotary_length=6.0, max_length=9, dtype="float64"
)
NAMES = [*ModelOptions.declarations()]
EDITABLE = [name for name, one in ModelOptions.declarations().items() if one.metadata["editable"]]
SOURCE = np.array([[3, 1, 6, 2, 0], [2, 2, 5, 0, 0], [4, 3, 6, 1, 5]])  # 0 is padding
TARGET = np.array([[1, 5, 4, 4, 7, 3], [1, 2, 8, 3, 3, 5], [1, 3, 5, 7, 4, 8]])
KINDS = {"translator": mt.nn.Transformer, "decoder alone": mt.nn.LanguageModel}
TRIES = 30


def make(kind, options):
    """Return a model whose parameters are nowhere 0 or 1."""
    model = kind(*(9, 9)[: 2 if kind is mt.nn.Transformer else 1], options, seed=1)
    rng = np.random.default_rng(5)
    for parameter in model.parameters():
        parameter.data[...] += asarray(rng.normal(0, 0.4, parameter.shape).astype(options.dtype))
    return model.eval()


def call(model, source, target):
    """Return the logits of a call, (B, T, V), on the host."""
    with mt.no_grad():
        logits = model(source, target) if isinstance(model, mt.nn.Transformer) else model(target)
    return to_numpy(logits.data)


def is_obeyed(kind, options, other):
    """Return whether two options make models of other shapes, or of other logits with the same parameters."""
    one, two = make(kind, options), make(kind, other)
    state = one.state_dict()
    if {name: value.shape for name, value in state.items()} != {n: v.shape for n, v in two.state_dict().items()}:
        return True
    two.load_state_dict(state)
    n = min(options.max_length, other.max_length, 6)
    return not np.allclose(*(call(model, SOURCE[:, :n], TARGET[:, :n]) for model in (one, two)), rtol=0, atol=1e-7)


@cache
def settings(kind, name):
    """Return options for each value of one of them, with others beside which that value matters, where it ever does."""
    draws, found = Draws(BASE, name), []
    values = draws.values[name]
    assert len(values) > 1, f"{name} has no two values"
    for value in values:
        others = [one for one in values if one != value]
        drawn = [draws.draw(**{name: value}) for _ in range(2)]
        for _ in range(TRIES):
            options = draws.draw(**{name: value})
            try:
                other = options.changed(**{name: draws.rng.choice(others)})
            except ValueError:  # not beside these
                continue
            if is_obeyed(kind, options, other):
                drawn.append(options)
                if len(drawn) == 4:
                    break
        found += drawn
    return found


def close(found, expected, options):
    scale = max(1, abs(expected).max(initial=0)) * (1e-11 if options.dtype == "float64" else 1e-5)
    drawn = {name: value for name, value in options.flat().items() if value != getattr(BASE, name)}
    np.testing.assert_allclose(found, expected, rtol=0, atol=scale, err_msg=f"{drawn}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_a_step_with_the_cache_is_the_call(name, kind):
    """Of several hypotheses too, in any order, and after a sentence has left the batch."""
    for options in settings(KINDS[kind], name):
        model, rng, rows = make(KINDS[kind], options), np.random.default_rng(2), np.arange(3)
        n = min(options.max_length, 5)
        source, pasts = SOURCE[:, :n], np.ones((3, 1, 0), dtype=int)
        cache, other = (model.new_cache(source if kind == "translator" else 3) for _ in range(2))
        for place in range(n):
            width = 1 if place == 0 else 2
            parents = rng.integers(0, pasts.shape[1], (len(rows), width))
            tokens = rng.integers(3, 9, (len(rows), width)) if place else np.ones((3, 1), dtype=int)
            pasts = np.concatenate((np.take_along_axis(pasts, parents[..., None], 1), tokens[..., None]), axis=-1)
            found = to_numpy(model.step(tokens, cache, parents))
            memory = (mt.Tensor(other.memory), other.memory_mask) if kind == "translator" else ()
            with mt.no_grad():
                np.testing.assert_array_equal(
                    model.decode(tokens, *memory, cache=other, parents=parents).numpy(), found
                )
            for i, row in enumerate(rows):
                close(found[i], call(model, source[[row] * width], pasts[i])[:, -1], options)
            if place == 2:
                kept, _ = (one.select(np.array([False, True, True])) for one in (cache, other))
                rows, pasts = rows[kept], pasts[kept]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_a_trace_has_the_logits_and_the_gradients_of_the_call(name, kind):
    for options in settings(KINDS[kind], name)[1::4]:
        model, n = make(KINDS[kind], options), min(options.max_length, 4)
        source, target = SOURCE[:2, :n], TARGET[:2, : n + 1]
        is_translator = kind == "translator"
        trace = mt.trace(model, source, target) if is_translator else mt.trace(model, target)
        logits = model(source, target[:, :-1]) if is_translator else model(target[:, :-1])
        outputs, loss = {step.key: step.output for step in trace.steps}, trace.steps[-1]
        close(outputs[loss.inputs[0].key], to_numpy(logits.data), options)
        mt.ops.cross_entropy(logits, target[:, 1:], ignore_index=0).backward()
        for key, parameter in model.named_parameters():
            close(trace.parameters[key].gradient, to_numpy(parameter.grad), options)
        shown = json.loads(json.dumps(describe_trace(trace), allow_nan=False))
        places = {one["place"] for one in describe_places(model)}
        assert {step["place"] for step in shown["steps"]} <= places
        assert [one["key"] for one in shown["parameters"]] == [key for key, _ in model.named_parameters()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_the_loss_in_blocks_has_the_gradients_of_the_call(name, kind):
    for options in settings(KINDS[kind], name)[1::4]:
        n, found = min(options.max_length, 5), []
        read, written = TARGET[:, :n], TARGET[:, 1 : n + 1]
        batch = Batch(SOURCE[:, :n], read, written) if kind == "translator" else TextBatch(read, written)
        for block in (None, 2):
            model = make(KINDS[kind], options)
            loss = training_step(model, mt.optim.Adam(model.parameters()), batch, 0.0, 0.1, loss_block=block)
            found.append([to_numpy(loss), *(to_numpy(p.grad) for p in model.parameters())])
        for in_blocks, at_once in zip(*reversed(found), strict=True):
            close(in_blocks, at_once, options)


@pytest.mark.parametrize(
    "name", [name for name, one in ModelOptions.declarations().items() if one.metadata["editable"]]
)
def test_an_option_that_may_be_edited_changes_neither_logits_nor_gradients(name):
    draws = Draws(BASE.changed(dropout=0.3), name)
    for _ in range(3):
        found = []
        options = draws.draw(dtype="float64")
        for value in draws.values[name]:
            model = make(mt.nn.Transformer, options.changed(**{name: value}))
            n = min(options.max_length, 6)
            logits = model(SOURCE[:, :n], TARGET[:, :n], np.random.default_rng(3))  # with dropout
            (logits * asarray(np.random.default_rng(4).normal(size=logits.shape))).sum().backward()
            found.append([to_numpy(logits.data), *(to_numpy(one.grad) for one in model.parameters())])
        for other in found[1:]:
            for one, expected in zip(other, found[0], strict=True):
                close(one, expected, options)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_folder_keeps_the_option_and_the_logits(name, tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda number: None)
    sizes = {"train_pairs": 20, "held_out": 2, "valid_pairs": 2, "steps": 1, "average_last": 1, "workers": 1}
    for number, options in enumerate(settings(mt.nn.Transformer, name)[1::4]):
        values = options.flat() | {"max_length": 200}
        configuration = Configuration.of_task(
            build("copy"), **sizes, **{k: v for k, v in values.items() if v is not None}
        )
        trainer = Trainer(configuration)
        run = create_run(tmp_path / f"{number}", configuration, trainer.corpus)
        trainer.train(run)
        opened = load(RunFolder(run.path), "last")
        assert opened.transformer.options == trainer.model.options
        written = json.loads((run.path / "configuration.json").read_text(encoding="utf-8"))
        assert written[name] == configuration.flat()[name]
        np.testing.assert_array_equal(
            *(call(one.eval(), SOURCE, TARGET) for one in (trainer.model, opened.transformer))
        )


@pytest.mark.numpy_only("parts of a learner are NumPy functions")
@pytest.mark.parametrize("name", NAMES)
def test_the_drawing_has_every_part_that_the_model_uses_once(name, tmp_path):
    batch = Batch(SOURCE[:, :4], TARGET[:, :4], TARGET[:, 1:5])
    for options in settings(mt.nn.Transformer, name)[1::4]:
        configuration = Configuration.of_task(build("copy"), **options.flat() | {"max_length": 200})
        used = Setting(tmp_path, configuration, (9, 9, True), batch).used()
        stacks = fill_stacks(used, used, (), {})
        drawn = [row.text for boxes in stacks.values() for box in boxes for row in box.rows if row.owner]
        assert sorted(drawn) == sorted(used)
