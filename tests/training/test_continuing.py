"""Training on: the weights, tokens and options of another run, weights that stay fixed, and scores before and after."""

import json
import re
import shutil

import numpy as np
import pytest
from run_contents import contents
from toml_cases import cases_from_toml

import minitransformer as mt
from minitransformer.apps.cli import main
from minitransformer.apps.explorer.models import Models
from minitransformer.options import OptionError
from minitransformer.runs import (
    RunError,
    RunFolder,
    load,
    open_model,
    read_checkpoint,
)
from minitransformer.runs.checkpoints import write_checkpoint
from minitransformer.runs.low_rank import merge
from minitransformer.training import freeze, resume

pytestmark = pytest.mark.numpy_only("it trains in processes, which need NumPy")

SMALL = ["--d-model", "8", "--n-heads", "2", "--n-layers", "1", "--d-ff", "16", "--source-tokens", "words"]
SMALL += ["--target-tokens", "words", "--steps", "2"]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for name, order in (("old", 1), ("new", -1)):
        lines = [f"a{i % 7} b{i % 5} c{i % 3}" for i in range(60)]
        (folder / f"{name}.src").write_text("".join(f"{line}\n" for line in lines))
        (folder / f"{name}.tgt").write_text("".join(f"{' '.join(line.split()[::order])}\n" for line in lines))
    files = ["--source", str(folder / "old.src"), "--target", str(folder / "old.tgt")]
    assert main(["train", "text", *files, "--out", str(folder / "run"), *SMALL]) == 0
    return folder


def train_on(texts, out, *options, start="run"):
    files = [str(texts / f"new.{side}") for side in ("src", "tgt")]
    given = ["--from", str(texts / start), "--source", files[0], "--target", files[1], "--out", str(out)]
    return main(["train", "text", *given, "--steps", "3", "--evaluate-every", "1", "--save-every", "1", *options])


def keep_good(texts):
    return "--keep-good", *(str(texts / f"old.{side}") for side in ("src", "tgt"))


def test_a_run_begins_with_weights_tokens_and_options_of_another(texts, tmp_path, capsys):
    assert train_on(texts, tmp_path / "on", "--keep", "9", "--valid-pairs", "2", *keep_good(texts)) == 0
    said = capsys.readouterr().out
    assert "held out, before -> after: exact match" in said
    assert "kept good, before -> after: exact match" in said
    scores = json.loads((tmp_path / "on" / "adaptation.json").read_text())
    assert scores["held out"]["after"].items() <= RunFolder(tmp_path / "on").measurements.final().items()
    assert scores["held out"]["after"].keys() == scores["held out"]["before"].keys()
    assert (
        f" {scores['kept good']['before']['valid_loss']:.4g} -> {scores['kept good']['after']['valid_loss']:.4g}"
        in said
    )
    first, start = load(tmp_path / "on", "best"), load(texts / "run")
    kept_good = mt.data.read_parallel(*keep_good(texts)[1:]).pairs
    for what, some in (("held out", RunFolder(tmp_path / "on").held_out()), ("kept good", kept_good)):
        found = mt.training.evaluate(start.model, start.source, start.target, some).measurements()["valid_loss"]
        assert scores[what]["before"]["valid_loss"] == pytest.approx(found, rel=1e-5)
    configuration = first.options
    assert configuration.model == start.model.options
    assert (configuration.training.peak, configuration.training.warmup_steps) == (0.004, 1)
    assert first.source.tokens == start.source.tokens
    begun = read_checkpoint(RunFolder(tmp_path / "on").checkpoints.file(0)).model
    for name, value in start.model.state_dict().items():
        np.testing.assert_array_equal(begun[name], value)
    assert RunFolder(tmp_path / "on").measurements.read()[0]["step"] == 0
    assert first.translate(["a1 b1 c1"])
    files = {"source": f"{texts}/new.src", "target": f"{texts}/new.tgt"}
    without_steps = mt.training.continue_from(start, start.task, files)
    assert not without_steps.free & {*start.model.options.flat(), *start.options.search.flat(), "source_tokens"}
    assert without_steps.with_steps(400).training.warmup_steps == 20  # the default scales with the number of steps


def test_fixed_weights_stay_and_the_rest_resumes_to_the_bit(texts, tmp_path):
    options = ("--freeze", "embeddings, encoder", "--average-last", "2", "--keep", "9", "--workers", "1")
    options += keep_good(texts)
    assert train_on(texts, tmp_path / "on", *options) == 0
    run, start = RunFolder(tmp_path / "on"), load(texts / "run").model.state_dict()
    end = load(run, "last").model.state_dict()
    changed = {name for name in end if not np.array_equal(end[name], start[name])}
    assert changed
    assert all(name.startswith("decoder.") for name in changed)
    whole = read_checkpoint(run.checkpoints.file(3))
    n = sum(value.size for name, value in start.items() if name.startswith("decoder."))
    assert whole.optimiser["mean"].shape == (n,)  # Adam holds only what it trains
    files = contents(run.path)
    for step in (2, 1, 0):
        for later in range(step + 1, 4):
            run.checkpoints.file(later).unlink()
        trainer = resume(run, pytest.fail)
        assert trainer.step == step
        trainer.train(run)
        np.testing.assert_equal(contents(run.path), files)


@pytest.mark.parametrize("more", [(), ("--lora", "2")], ids=str)
def test_a_run_killed_before_its_first_checkpoint_begins_again_with_the_other_weights(texts, tmp_path, capsys, more):
    assert train_on(texts, tmp_path / "on", *keep_good(texts), *more) == 0
    run, told = RunFolder(tmp_path / "on"), capsys.readouterr().out
    scores, steps = (run.path / "adaptation.json").read_bytes(), [line["step"] for line in run.measurements.read()]
    run.checkpoints.clear()
    run.measurements.cut(0)
    (run.path / "adaptation.json").unlink()
    state, start = resume(run, pytest.fail).model.state_dict(), load(texts / "run").model.state_dict()
    for name, value in start.items():
        np.testing.assert_array_equal(state[name], value)
    assert main(["resume", str(run.path)]) == 0
    assert (run.path / "adaptation.json").read_bytes() == scores
    assert [line["step"] for line in run.measurements.read()] == steps
    again = [line for line in capsys.readouterr().out.splitlines() if "before -> after" in line]
    assert len(again) == 2
    assert all(line in told for line in again)


def test_what_is_kept_good_is_the_same_text_in_the_end(texts, tmp_path, capsys):
    folder = shutil.copytree(texts, tmp_path / "texts")
    assert train_on(folder, tmp_path / "on", *keep_good(folder)) == 0
    run = RunFolder(tmp_path / "on")
    run.measurements.cut(2)
    (folder / "old.tgt").write_text("a1\n" * 60)
    assert main(["resume", str(run.path)]) == 2
    assert f"{folder / 'old.tgt'} has changed since the run" in capsys.readouterr().err
    values = json.loads((run.path / "configuration.json").read_text()) | {"keep_good": None}  # measured no more
    (run.path / "configuration.json").write_text(json.dumps(values))
    assert main(["resume", str(run.path)]) == 0
    assert "kept good" not in capsys.readouterr().out
    for text, told in (
        ('{"held out": {"before": 1}}', "before must be a table of numbers"),
        ("[]", "a table of scores"),
    ):
        run.measurements.cut(2)
        (run.path / "adaptation.json").write_text(text)
        assert main(["resume", str(run.path)]) == 2
        assert re.search(rf"adaptation.json is damaged: .*{told}", capsys.readouterr().err)


@cases_from_toml
def test_what_a_trained_model_cannot_change_is_refused(texts, tmp_path, capsys, given, message):
    (tmp_path / "my-exercises").mkdir()
    given = [str(tmp_path / "my-exercises") if one == "my-exercises" else one for one in given]
    assert train_on(texts, tmp_path / "on", *given) == 2
    assert capsys.readouterr().err == f"minitransformer train: {message}\n"


def test_tokens_of_a_drawn_task_are_refused(texts, tmp_path, capsys):
    assert main(["train", "copy", "--steps", "1", "--held-out", "5", "--out", str(tmp_path / "copy"), *SMALL[:8]]) == 0
    files = ["--source", str(texts / "new.src"), "--target", str(texts / "new.tgt")]
    assert main(["train", "text", "--from", str(tmp_path / "copy"), *files]) == 2
    assert "are not for the task text" in capsys.readouterr().err
    assert main(["train", "characters", "--from", str(tmp_path / "copy")]) == 2
    assert "needs another kind of model: this one translates" in capsys.readouterr().err
    assert main(["train", "copy", "--lora", "2", "--steps", "1", "--out", str(tmp_path / "on")]) == 2
    assert "name its run with --from" in capsys.readouterr().err


# LoRA: see test_low_rank.py for values and gradients.


@pytest.fixture(scope="module")
def adapted(texts):
    assert train_on(texts, texts / "adapted", "--lora", "2", "--keep", "9", "--workers", "1") == 0
    return RunFolder(texts / "adapted")


def test_lora_resumes_to_the_bit_from_small_checkpoints(texts, adapted, tmp_path):
    run = RunFolder(shutil.copytree(adapted.path, tmp_path / "on"))
    whole, fixed = read_checkpoint(run.checkpoints.file(3)), load(texts / "run").model.state_dict()
    sizes = {name: value.shape for name, value in whole.model.items()}
    assert set(sizes.values()) == {(8, 2), (2, 24), (2, 8)}
    assert whole.optimiser["mean"].size == sum(map(np.prod, sizes.values()))
    for path in (run.best_path, *(path for _, path in run.history.files())):
        assert read_checkpoint(path).model.keys() == sizes.keys()
    end = load(run, "last").model.state_dict()
    changed = {name for name in end if not np.array_equal(end[name], fixed[name])}
    assert changed == {name.removesuffix("_a") for name in sizes if name.endswith("_a")}
    begun = merge(fixed | read_checkpoint(run.checkpoints.file(0)).model, 2)
    for name, value in fixed.items():  # before the first step
        np.testing.assert_array_equal(begun[name], value)
    for step in (2, 3):
        run.checkpoints.file(step).unlink()
    trainer = resume(run, pytest.fail)
    assert trainer.step == 1
    trainer.train(run)
    again = read_checkpoint(run.checkpoints.file(3))
    for part in ("model", "optimiser"):
        assert getattr(again, part).keys() == getattr(whole, part).keys()
        for name, value in getattr(whole, part).items():
            np.testing.assert_array_equal(getattr(again, part)[name], value)
    for p in trainer.model.trained_parameters():  # what is measured in training translates with the factors
        p.data = p.data + 1
    merged = merge({name: p.data for name, p in trainer.model.named_parameters()}, 2)
    model = open_model(trainer.configuration, trainer.source, trainer.target, merged)
    found, expected = (trainer.evaluate(trainer.corpus.valid, one) for one in (None, model))
    assert found.samples == expected.samples


def test_commands_merge_what_lora_has_trained(texts, adapted, tmp_path, capsys):
    run = RunFolder(shutil.copytree(adapted.path, tmp_path / "on"))
    for name, *rest in (["translate", "a1 b1 c1"], ["evaluate"], ["average", "--last", "2"], ["attention", "a1 b1 c1"]):
        assert main([name, str(run.path), *rest]) == 0, capsys.readouterr().err
    mean, fixed = load(run, "average").model.state_dict(), load(texts / "run").model.state_dict()
    last = [merge(fixed | read_checkpoint(run.checkpoints.file(n)).model, 2) for n in (2, 3)]
    for name, value in mean.items():
        np.testing.assert_allclose(value, (last[0][name] + last[1][name]) / 2, rtol=1e-6, atol=1e-7)
    model = Models(load(run, "last"), run).at(2)
    name = "decoder.layers.0.self_attention.w_in"
    np.testing.assert_array_equal(model.state_dict()[name], last[0][name])
    run.path.rename(texts / "again")  # an adapted run can be adapted
    assert train_on(texts, tmp_path / "more", "--lora", "1", start="again") == 0
    assert load(tmp_path / "more").translate(["a1 b1 c1"])


def test_a_start_that_is_gone_or_changed_is_refused(texts, tmp_path, capsys):
    folder = shutil.copytree(texts, tmp_path / "texts")
    assert train_on(folder, folder / "on", "--lora", "2") == 0
    run, moved = RunFolder(folder / "on"), folder / "moved"
    (folder / "run").rename(moved)
    for name, *rest in (["translate", "a1"], ["resume"], ["average", "--last", "2"]):
        assert main([name, str(run.path), *rest]) != 0
        assert str(folder / "run") in capsys.readouterr().err
    file = run.path / "configuration.json"
    file.write_text(file.read_text().replace(str(folder / "run"), str(moved)))
    assert load(run).translate(["a1"])
    assert main(["average", str(moved), "--last", "2"]) == 0  # which is not what the other begins with
    assert load(run).translate(["a1"])
    RunFolder(moved).average_path.unlink()
    file.write_text(file.read_text().replace(str(moved), str(tmp_path / "other" / "moved")))  # which is beside instead
    assert load(run).translate(["a1"])
    best = read_checkpoint(RunFolder(moved).best_path)
    best.model["decoder.layers.0.self_attention.w_in"][...] += 1
    write_checkpoint(RunFolder(moved).best_path, best)
    with pytest.raises(RunError, match=r"has changed since .*its weights have the digest"):
        load(run)


def test_a_run_is_loaded_with_its_own_scale_of_factors(texts, tmp_path):
    assert train_on(texts, tmp_path / "on", "--lora", "2", "--lora-alpha", "5") == 0
    name = "decoder.layers.0.self_attention.w_in"
    factors = read_checkpoint(RunFolder(tmp_path / "on").checkpoints.file(3)).model
    expected = load(texts / "run").model.state_dict()[name] + 5 / 2 * factors[f"{name}_a"] @ factors[f"{name}_b"]
    np.testing.assert_allclose(load(tmp_path / "on", "last").model.state_dict()[name], expected, rtol=1e-5, atol=1e-7)


def test_an_average_that_is_written_later_hides_no_mean(texts, tmp_path):
    assert train_on(texts, tmp_path / "first", "--average-last", "2", "--keep", "3") == 0
    assert train_on(texts, tmp_path / "on", "--lora", "2", start=tmp_path / "first") == 0
    copied = shutil.copytree(tmp_path / "on", tmp_path / "away" / "on")
    (tmp_path / "away" / "first").mkdir()  # what lies beside a run is not taken while the recorded start exists
    assert RunFolder(copied).configuration().start == str(tmp_path / "first")
    expected, begun = load(tmp_path / "first", "mean"), load(tmp_path / "on").model.state_dict()
    assert main(["average", str(tmp_path / "first"), "--last", "3"]) == 0
    RunFolder(tmp_path / "first").best_path.unlink()  # which is the mean, too
    assert load(tmp_path / "first").weights == "average"
    np.testing.assert_equal(load(tmp_path / "on").model.state_dict(), begun)
    np.testing.assert_array_equal(
        begun["source_embedding.table"], expected.model.state_dict()["source_embedding.table"]
    )


def test_a_run_neither_replaces_nor_names_itself_as_its_start(texts, tmp_path, capsys):
    folder = shutil.copytree(texts, tmp_path / "texts")
    assert train_on(folder, folder / "on", "--lora", "2") == 0
    for out, start in (("run", "run"), ("on", "on"), ("run", "on")):  # the last is needed by its start
        assert train_on(folder, folder / out, "--lora", "1", "--overwrite", start=start) == 2
        assert "needs; choose another --out" in capsys.readouterr().err
        assert load(folder / "on").translate(["a1"])
    file = folder / "on" / "configuration.json"
    file.write_text(file.read_text().replace(str(folder / "run"), str(folder / "on")))
    assert main(["translate", str(folder / "on"), "a1"]) == 2
    assert "on as its own start in configuration.json" in capsys.readouterr().err


def test_no_gradient_is_computed_for_fixed_weights():
    model = mt.nn.Transformer(9, 9, d_model=8, n_heads=2, n_layers=2, d_ff=8, dropout=0.0)
    freeze(model, "encoder,embeddings,decoder.layers.0")
    source, target = np.array([[4, 5]]), np.array([[1, 6]])
    model(source, target).sum().backward()
    trained = {name for name, p in model.named_parameters() if p.grad is not None}
    assert trained == {name for name, p in model.named_parameters() if p.requires_grad}
    assert {name.rpartition("layers.")[2][0] for name in trained} == {"1"}
    with pytest.raises(OptionError, match="no weights are left"):
        freeze(model, "decoder")
