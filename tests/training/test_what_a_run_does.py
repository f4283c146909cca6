"""What a run reads, counts, keeps and measures: each of these once went wrong without a test that noticed."""

import os
import sys
from dataclasses import replace
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from toml_cases import toml_table

import minitransformer as mt
from minitransformer.arrays import asarray, to_numpy, xp
from minitransformer.decoding import Diverged, hypotheses, longest_sentence, translate
from minitransformer.gradients import Sum
from minitransformer.optim import Gradient
from minitransformer.runs import (
    Checkpoint,
    Configuration,
    RunError,
    TrainingOptions,
    load,
    loading,
    lock_folder,
)
from minitransformer.runs.checkpoints import Checkpoints, read_checkpoint, write_checkpoint
from minitransformer.tasks import build
from minitransformer.training import (
    Scores,
    Trainer,
    average,
    check_free,
    clip_gradient,
    create_run,
    evaluate,
    evaluation,
    resume,
    training_step,
)
from minitransformer.training.preparing import refuse_longer
from minitransformer.training.scores import Quality

SMALL = {
    "d_model": 8, "n_heads": 2, "n_layers": 1, "d_ff": 12, "steps": 6, "warmup_steps": 4, "batch_tokens": 64,
    "train_pairs": 60, "held_out": 12, "valid_pairs": 5, "evaluate_every": 3, "average_last": 1,
}  # fmt: skip
WORDS = {"source_tokens": "words", "target_tokens": "words", "min_count": 1, "train_pairs": None}


def trainer_of(task="reverse", **changes):
    return Trainer(Configuration.of_task(build(task), **(SMALL | changes)))


def begun(path, task="reverse", **changes):
    trainer = trainer_of(task, **changes)
    return trainer, create_run(path, trainer.configuration, trainer.corpus)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "text.tsv").write_text("".join(f"s{n} x{n % 7}\tt{n} y{n % 5}\n" for n in range(60)))
    (tmp_path / "valid.tsv").write_text("".join(f"s{n} x{n % 5}\tt{n} y{n % 3}\n" for n in range(12)))
    return {"source": f"{tmp_path}/text.tsv", "valid_source": f"{tmp_path}/valid.tsv", **WORDS}


def scored(monkeypatch, value=0.5):
    """Let every measurement have the same outcome."""
    monkeypatch.setattr(Trainer, "evaluate", lambda self, *_: Scores(value, 0.5, 1.0, []))


# What is trained on, in which order


def test_batches_have_an_order_of_their_own_for_each_seed(files):
    def order(seed):
        trainer = trainer_of("text", **files, seed=seed)
        assert trainer.corpus.train == trainer_of("text", **files).corpus.train  # the text itself is not drawn
        return [batch.source.tolist() for batch in trainer.batches.epoch(0)]

    assert order(3) == order(3)
    assert order(3) != order(4)


def test_a_run_that_goes_on_knows_how_long_it_took(tmp_path):
    trainer, folder = begun(tmp_path / "run", steps=2)
    trainer.seconds = 1000.0
    trainer.train(folder)
    assert 1000 < trainer.seconds < 2000
    assert folder.measurements.final()["seconds"] > 1000


# What is logged and measured


@pytest.mark.same_bits
def test_each_line_of_the_log_is_the_mean_since_the_line_before(tmp_path):
    trainer, folder = begun(tmp_path / "run", steps=23, evaluate_every=23)
    losses = []
    trainer.train(folder, lambda loss, rate, speed: losses.append(loss))
    lines = [line for line in folder.measurements.read() if "loss" in line]
    assert [line["step"] for line in lines] == [10, 20, 23]
    if None not in losses:
        for line, own in zip(lines, (losses[:10], losses[10:20], losses[20:]), strict=True):
            assert line["loss"] == pytest.approx(np.mean(own), rel=1e-12)


def test_bleu_is_measured_during_training_as_the_recipe_says(files, monkeypatch):
    asked = []

    def measured(*_, **options):
        asked.append(options["bleu_tokenize"])
        return Scores(0.0, 0.0, 1.0, [], bleu=Quality(0.0, "", ""))

    monkeypatch.setattr("minitransformer.training.trainer.evaluate", measured)
    trainer = trainer_of("text", **files, bleu_tokenize="char")
    trainer.evaluate(trainer.corpus.valid)
    assert asked == ["char"]


def test_the_search_for_bleu_splits_as_it_is_told(monkeypatch):
    asked = []
    monkeypatch.setattr(evaluation, "bleu", lambda *values: asked.append(values[2]) or Quality(0.0, "", ""))
    source, target = build("reverse").tokenisers()
    model = trainer_of().model
    evaluate(model, source, target, [("12", "21")], ("bleu",), bleu_tokenize="none")
    assert asked == ["none", "none"]


def test_a_source_with_several_targets_is_translated_once():
    source, target = build("reverse").tokenisers()
    pairs = [("12", "21"), ("3", "3"), (" 12", "12\n")]  # nobody sees these spaces
    scores = evaluate(trainer_of().model, source, target, pairs)
    assert [(sample.source, sample.references) for sample in scores.samples] == [("12", ["21", "12"]), ("3", ["3"])]


def test_a_loss_that_is_not_a_number_is_no_measurement(monkeypatch):
    source, target = build("reverse").tokenisers()
    monkeypatch.setattr(evaluation.ops, "cross_entropy", lambda *_, **__: mt.Tensor(np.array(np.nan)))
    with pytest.raises(Diverged, match="the loss is nan"):
        evaluate(trainer_of().model, source, target, [("12", "21")])


def test_without_sacrebleu_the_other_scores_are_measured(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    source, target = build("reverse").tokenisers()
    scores = evaluate(trainer_of().model, source, target, [("12", "21")], ("bleu",))
    assert scores.bleu is None
    assert "sacrebleu" in scores.missing
    assert scores.loss > 0


def test_an_early_stop_saves_where_it_stops(tmp_path, monkeypatch):
    scored(monkeypatch)
    trainer, folder = begun(tmp_path / "run", steps=9, evaluate_every=2, save_every=5, patience=1)
    trainer.train(folder)
    assert trainer.step == 4
    assert folder.checkpoints.load().state["step"] == 4


# What fits


def test_learned_positions_hold_the_longest_sentence_that_is_trained_on():
    configuration = Configuration.of_task(build("reverse"), **SMALL, positions="learned").changed(
        max_length=1, longest=7
    )
    assert longest_sentence(configuration.build_model(13, 13, True)) == 8  # the end, or the start, is one more
    assert longest_sentence(configuration.changed(max_length=20).build_model(13, 13, True)) == 20


@pytest.mark.parametrize("part", ["valid", "held_out", "ids"])
def test_every_sentence_is_held_against_the_learned_positions(files, part):
    trainer = trainer_of("text", **files)
    fits, beyond = (" ".join(["x1"] * n) for n in (5, 6))
    for text, refused in ((fits, False), (beyond, True)):
        for pair in ((text, "y1"), ("x1", text)):
            longer = (trainer.source.encode(pair[0]), trainer.target.encode(pair[1])) if part == "ids" else pair
            corpus = replace(trainer.corpus, **{part: [*getattr(trainer.corpus, part), longer]})
            if refused:
                with pytest.raises(ValueError, match="of 7 tokens, but only 6 learned positions"):
                    refuse_longer(corpus, 6)
            else:
                refuse_longer(corpus, 6)


def test_one_embedding_needs_one_vocabulary():
    configuration = Configuration.of_task(build("reverse"), **SMALL)
    apart, together = (configuration.build_model(11, 11, shared) for shared in (False, True))
    assert apart.source_embedding.table is not apart.target_embedding.table
    assert apart.target_embedding.table is apart.output
    assert together.source_embedding.table is together.target_embedding.table


def test_a_path_is_kept_from_the_root(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("one\ntwo\n")
    configuration = Configuration.of_task(build("text"), source="a.txt", target="b.txt")
    assert (configuration.data.source, configuration.data.target) == (f"{tmp_path}/a.txt", f"{tmp_path}/b.txt")


def test_a_gradient_whose_squares_float32_cannot_hold_is_shortened():
    weights = [mt.Tensor(asarray(np.zeros(n, dtype=np.float32)), requires_grad=True) for n in (3, 5)]
    for weight in weights:
        weight.grad = asarray(np.full(weight.shape, 1e20, dtype=np.float32))
    optimiser = mt.optim.Adam(weights)
    clipped, length = clip_gradient(Sum([Gradient(optimiser.buffer)]), optimiser.buffer, 2.0)
    assert float(length) == pytest.approx(1e20 * 8**0.5)
    found = xp.empty_like(optimiser.values)
    clipped.write(optimiser.buffer.slices[0], found)
    assert found.dtype == np.float32
    np.testing.assert_allclose(to_numpy(found), 2 / 8**0.5, rtol=1e-6)


# What is kept


def saved(path, step, **arrays):
    path.mkdir(exist_ok=True)
    write_checkpoint(path / f"step-{step:08d}.safetensors", Checkpoint(arrays, {}, {}, {"step": step}))


def steps_of(paths):
    return [int(path.stem.partition("-")[2]) for path in paths]


def test_the_last_checkpoints_are_neither_the_first_weights_nor_those_of_an_interruption(tmp_path):
    options = TrainingOptions(steps=100, evaluate_every=5)
    for step in (0, 5, 7, 10, 12):
        saved(tmp_path, step, w=np.ones(2))
    checkpoints = Checkpoints(tmp_path)
    assert steps_of(checkpoints.last(2, options, end=None)) == [5, 10]
    assert steps_of(checkpoints.last(1, options, end=None)) == [10]
    assert steps_of(checkpoints.last(2, options, end=12)) == [10, 12]
    with pytest.raises(RunError, match="has 2 checkpoints, expected 3"):
        checkpoints.last(3, options, end=None)
    with pytest.raises(RunError, match=r"step-00000013\.safetensors is missing, the last checkpoint of a finished run"):
        checkpoints.last(2, options, end=13)
    assert checkpoints.load().state["step"] == 12  # the tenth step comes after the ninth, whatever the letters say
    assert [step for step, _ in checkpoints.files()] == [0, 5, 7, 10, 12]


def test_the_average_is_the_mean_in_double_precision(tmp_path):
    _, folder = begun(tmp_path / "run", steps=9, keep=3)
    folder.checkpoints.path.mkdir()
    for step, value in ((3, 1e8), (6, 3.0), (9, -1e8)):
        saved(folder.checkpoints.path, step, w=np.full(2, value, dtype=np.float32))
    path, steps = average(folder, 3)
    assert steps == [3, 6, 9]
    mean = read_checkpoint(path).model["w"]
    assert mean.dtype == np.float32
    np.testing.assert_array_equal(mean, np.ones(2))
    saved(folder.checkpoints.path, 6, w=np.ones(3, dtype=np.float32))
    with pytest.raises(RunError, match="different models"):
        average(folder, 3)
    with pytest.raises(RunError, match="cannot average the last 0 checkpoints; give --last 1 or more"):
        average(folder, 0)


@pytest.mark.parametrize("options", [{}, {"freeze": "encoder"}, {"lora": 2, "start": "runs/other"}], ids=str)
def test_a_checkpoint_that_lacks_a_weight_is_refused(options):
    trainer = trainer_of(**options)
    whole = trainer.checkpoint()
    for name in whole.model:
        others = {one: values for one, values in whole.model.items() if one != name}
        with pytest.raises(RunError, match="the checkpoint does not belong to this configuration"):
            trainer.restore(whole._replace(model=others))


def test_an_array_under_another_name_is_damage(tmp_path):
    path = tmp_path / "step-00000001.safetensors"
    saved(tmp_path, 1, w=np.ones(2), v=np.zeros(3))
    with safe_open(path, framework="numpy") as file:
        metadata, arrays = file.metadata(), {key: file.get_tensor(key) for key in ("model.v", "model.w")}
    save_file({"model.v": arrays["model.v"], "model.x": arrays["model.w"]}, path, metadata)
    with pytest.raises(RunError, match="is damaged: its contents have the checksum"):
        read_checkpoint(path)
    save_file(arrays, path, metadata | {"state": '{"step": 2}'})
    with pytest.raises(RunError, match="is damaged: its contents have the checksum"):
        read_checkpoint(path)


def test_overwriting_leaves_nothing_of_the_run_before(tmp_path):
    trainer, folder = begun(tmp_path / "run")
    for path in (folder.best_path, folder.average_path):
        path.write_bytes(b"of the run before")
    for name in ("training.png", "held_out.txt"):  # the latter of another kind of task
        (folder.path / name).write_bytes(b"")
    folder.measurements.append({"step": 6, "final": True})
    create_run(folder.path, trainer.configuration, trainer.corpus, overwrite=True)
    left = {path.name for path in folder.path.iterdir()}
    assert left == {"configuration.json", "vocabulary.json", "held_out.tsv", "data.json"}


def test_a_folder_of_something_else_is_never_overwritten(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(RunError, match="choose another --out"):
            check_free(tmp_path, overwrite)


@pytest.mark.parametrize("beside", [True] if os.name == "nt" else [False, True])
def test_a_folder_is_locked_for_others_until_the_training_ends(tmp_path, monkeypatch, beside):
    monkeypatch.setattr("minitransformer.runs.locking.BESIDE", beside)  # as on Windows
    refused = pytest.raises(RunError, match="another process is training")
    with lock_folder(tmp_path / "run"), refused, lock_folder(tmp_path / "run"):
        raise AssertionError("two trainings in one folder")
    with lock_folder(tmp_path / "run"), lock_folder(tmp_path / "run", SimpleNamespace(rank=1)):
        pass  # the first of several processes holds the lock for all
    with pytest.raises(ZeroDivisionError), lock_folder(tmp_path / "run"):
        raise ZeroDivisionError
    with lock_folder(tmp_path / "run"):
        pass  # an error ends the training too


# What is loaded


@pytest.mark.parametrize("average_last", [1, 2])
def test_which_weights_translate(tmp_path, monkeypatch, average_last):
    """Each kind that is asked for, or by default the first that there is, whichever others there are."""
    scored(monkeypatch)  # the first measurement is the best
    trainer, folder = begun(tmp_path / "run", average_last=average_last, keep=2)
    trainer.train(folder)
    average(folder, 2)
    newest = read_checkpoint(folder.checkpoints.files()[-1][1])
    whole = {"average": read_checkpoint(folder.average_path).model, "mean": newest.mean}
    whole |= {"best": read_checkpoint(folder.best_path).model, "last": newest.model}
    for gone in ((), (folder.average_path,), (folder.average_path, folder.best_path)):
        for path in gone:
            path.unlink(missing_ok=True)
        there = {"average": folder.average_path.exists(), "mean": average_last > 1, "best": folder.best_path.exists()}
        kinds = [kind for kind in whole if there.get(kind, True)]
        for asked in (None, *whole):
            if asked not in (None, *kinds):
                with pytest.raises(RunError, match=f"has no {asked}"):
                    load(folder, asked)
                continue
            found = load(folder, asked)
            assert (found.weights, found.model.training) == (asked or kinds[0], False)
            for name, values in whole[found.weights].items():
                np.testing.assert_array_equal(to_numpy(found.model.state_dict()[name]), values)
            assert found.checkpoint[:3] == ({}, {}, {})  # weights are held once
            assert found.model.output.data.flags.f_contiguous or xp.ndarray is not np.ndarray  # as decoding reads it


def test_an_empty_text_has_an_empty_translation_and_options_reach_the_search(tmp_path, monkeypatch):
    trainer, folder = begun(tmp_path / "run", steps=1, beam=7, alpha=0.9)
    trainer.train(folder)
    found, asked = load(folder), []

    def translated(model, source, target, texts, beam, alpha, rules):
        assert rules == found.options.search
        asked.append((beam, alpha))
        return [f"<{text}>" for text in texts]

    monkeypatch.setattr(loading, "translate", translated)
    assert found.translate(["12", " ", "34", ""], beam=3, alpha=0.25) == ["<12>", "", "<34>", ""]
    found.translate(["12"])
    assert asked == [(3, 0.25), (7, 0.9)]


IMPOSSIBLE = toml_table(__file__, "IMPOSSIBLE")


@pytest.mark.parametrize("texts", [["12"], []])
@pytest.mark.parametrize("search", IMPOSSIBLE, ids=str)
def test_an_impossible_search_is_refused_even_where_it_is_not_used(tmp_path, search, texts):
    trainer, folder = begun(tmp_path / "run", steps=1)
    trainer.train(folder)
    found = load(folder)
    rest = found.model, found.source
    for translated in (
        lambda: found.translate(texts, **search),
        lambda: translate(*rest, found.target, texts, **search),
        lambda: hypotheses(*rest, texts, **{"beam": 1, "alpha": 0.6} | search),
    ):
        with pytest.raises(ValueError, match=f"{next(iter(search))} must be"):
            translated()


def test_texts_are_read_as_the_task_means_them(tmp_path, monkeypatch):
    trainer, folder = begun(tmp_path / "run", steps=1)
    trainer.train(folder)
    found = load(folder)._replace(task=SimpleNamespace(normalise_input=str.upper))
    monkeypatch.setattr(loading, "translate", lambda model, source, target, texts, *_, **__: list(texts))
    assert found.translate(["ab", "c"]) == ["AB", "C"]
    with pytest.raises(TypeError, match=r"write translate\(\['ab'\]\)"):
        found.translate("ab")


def test_only_what_was_asked_for_is_measured_and_logged():
    source, target = build("reverse").tokenisers()
    usual = {"exact_match", "token_accuracy", "valid_loss"}
    for measures in ((), ("phone_error_rate",), *((("chrf",), ("bleu", "chrf")) if find_spec("sacrebleu") else ())):
        scores = evaluate(trainer_of().model, source, target, [("12", "21")], measures)
        assert scores.measurements().keys() == usual | {*measures}


def test_what_was_left_half_written_is_removed_wherever_it_lies(tmp_path):
    _, folder = begun(tmp_path / "run")
    (folder.path / "checkpoints").mkdir()
    left = [folder.path / "best.safetensors.partial", folder.path / "checkpoints" / "step-1.safetensors.partial"]
    for path in left:
        path.write_bytes(b"half")
    folder.clean()
    assert not any(path.exists() for path in left)
    assert folder.is_complete()


def test_on_a_gpu_a_run_of_several_workers_goes_on_alone(tmp_path, monkeypatch):
    trainer, folder = begun(tmp_path / "run", steps=1)
    changed = trainer.configuration.changed(workers=3)
    create_run(folder.path, changed, trainer.corpus, overwrite=True)
    monkeypatch.setattr("minitransformer.training.resuming.backend", lambda: "cupy")
    said = []
    assert resume(folder, said.append).configuration.training.workers == 1
    assert len(said) == 1
    assert "3 workers" in said[0]


def test_the_speed_is_that_of_training_alone(tmp_path, monkeypatch):
    now = [0.0]

    def taking(seconds, function):
        def call(*arguments, **options):
            now[0] += seconds
            return function(*arguments, **options)

        return call

    monkeypatch.setattr("minitransformer.training.trainer.time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr("minitransformer.training.trainer.training_step", taking(1, training_step))
    trainer, folder = begun(tmp_path / "run", steps=12, evaluate_every=4)
    trainer.evaluate = taking(1000, trainer.evaluate)
    totals, speeds = [0], []
    trainer.train(folder, lambda loss, rate, speed: totals.append(trainer.tokens) or speeds.append(speed))
    since = 4 * [0] + 4 * [4] + 2 * [8] + 2 * [10]  # after a measurement, and after a line of the log
    assert speeds == [(totals[step] - totals[first]) / (step - first) for step, first in enumerate(since, 1)]
    assert trainer.seconds == 12 + 3 * 1000
