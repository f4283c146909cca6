"""Run folders that were changed, damaged or made up: they open to the same results, or the file is named."""

import json
import os
import random
import shutil
import struct

import numpy as np
import pytest
from robustness import ALL
from safetensors import SafetensorError
from toml_cases import toml_table

from minitransformer.apps.cli import main
from minitransformer.data import read_parallel
from minitransformer.decoding import SearchOptions
from minitransformer.runs import (
    Configuration,
    RunError,
    RunFolder,
    load,
)
from minitransformer.runs.checkpoints import read_checkpoint, write_checkpoint
from minitransformer.tasks import build
from minitransformer.training import (
    Trainer,
    average,
    create_run,
    resume,
)

pytestmark = pytest.mark.numpy_only("files are the same with any library")

FILES = ("configuration.json", "vocabulary.json", "held_out.tsv", "data.json", "metrics.jsonl")
CHECKPOINT = "step-00000004.safetensors"


@pytest.fixture(autouse=True)
def without_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr("os.fsync", lambda number: None)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A run of four steps out of six on a small text, with everything that a run folder can hold."""
    path = tmp_path_factory.mktemp("original")
    (path / "text.tsv").write_text("".join(f"w{n % 11} x{n % 7}\tW{n % 11} X{n % 7}\n" for n in range(60)))
    configuration = Configuration.of_task(
        build("text"), source=path / "text.tsv", source_tokens="words", target_tokens="words", min_count=1,
        held_out=3, d_model=8, n_heads=4, n_layers=1, d_ff=8, steps=4, warmup_steps=2, batch_tokens=64, workers=1,
        evaluate_every=2, average_last=6, keep=2,
    )  # fmt: skip
    trainer = Trainer(configuration)
    run = create_run(path / "run", configuration, trainer.corpus)
    trainer.train(run)
    run.measurements.cut(4)
    edit(run, steps=6)
    return run


@pytest.fixture
def run(original, tmp_path):
    return copy_of(original, tmp_path / "run")


def copy_of(run, path):
    shutil.copytree(run.path, path)
    return RunFolder(path)


def edit(run, **changes):
    """Change values in the configuration."""
    path = run.path / "configuration.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def refuse(message):
    raise RunError(message)


def saved(run):
    return read_checkpoint(run.checkpoints.path / CHECKPOINT)


def rewrite(run, **changes):
    """Change values in the state of the newest checkpoint, with a checksum that is right."""
    checkpoint = saved(run)
    write_checkpoint(checkpoint.path, checkpoint._replace(state=checkpoint.state | changes))


def as_earlier_versions_did(run):
    """Let the checkpoints not say what they were trained with."""
    for path in run.path.rglob("*.safetensors"):
        checkpoint = read_checkpoint(path)
        state = {name: value for name, value in checkpoint.state.items() if name != "provenance"}
        write_checkpoint(path, checkpoint._replace(state=state))


def results(run):
    """All that a run folder decides: what is translated and measured, and how the training goes on."""
    trained = load(run, report=refuse)
    translations, held_out = trained.translate(["w1 x2", "w3 x4 w5"]), run.held_out()
    trainer = resume(run, refuse)
    state = trainer.checkpoint()
    arrays = [array.tobytes() for part in (state.model, state.optimiser, state.mean) for array in part.values()]
    fixed = trainer.configuration.fixed()
    return translations, held_out, arrays, fixed, state.state, trainer.corpus.fingerprint(), run.measurements.read()


# ---------------------------------------------------------------------------------------------------------------------
# What weights were trained with


def swap_words(run):
    path = run.path / "vocabulary.json"
    path.write_text(path.read_text().replace("w1", "?").replace("w2", "w1").replace("?", "w2"))


def shorten(run):
    path = run.path / "held_out.tsv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


CHANGES = {
    "configuration.json does not belong to the weights: n_heads is 2, but they were trained with 4": lambda run: edit(
        run, n_heads=2
    ),
    r"vocabulary\.json has changed since the weights were trained: its digest is": swap_words,
    r"held_out\.tsv has changed since the weights were trained: its digest is": shorten,
}


@pytest.mark.parametrize(("message", "change"), CHANGES.items(), ids=["n_heads", "swapped words", "shortened"])
def test_what_has_changed_since_the_training_is_refused(run, capsys, message, change):
    change(run)
    for use in (load, lambda run: load(run, "best"), lambda run: resume(run, refuse), lambda run: average(run, 1)):
        with pytest.raises(RunError, match=message):
            use(run)
    for command in (["resume"], ["evaluate"], ["translate", "w1"]):
        assert main([command[0], str(run.path), *command[1:]]) == 2
        assert message.partition(" ")[0].replace("\\", "") in capsys.readouterr().err


def test_what_is_laid_out_otherwise_has_not_changed(original, run):
    for name in ("configuration.json", "vocabulary.json", "data.json"):
        path = run.path / name
        path.write_text(json.dumps(json.loads(path.read_text()), indent=7, sort_keys=True))
    assert results(run) == results(original)


def test_what_may_be_edited_is_declared_with_the_option(run):
    editable = {name for name, one in Configuration.declarations().items() if one.metadata.get("editable")}
    paths = {"source", "target", "valid_source", "valid_target", "dictionary", "data", "text", "start", "keep_good"}
    schedule = {"steps", "average_last", "evaluate_every", "save_every", "keep", "patience", "workers", "blas_threads"}
    search = set(SearchOptions.declarations())
    assert editable == paths | schedule | search | {"attention_block", "recompute", "loss_block"}
    assert run.configuration().fixed().keys() == run.configuration().flat().keys() - editable
    edit(run, steps=10, keep=5, evaluate_every=4, save_every=1, patience=3, recompute=True, attention_block=2)
    assert load(run).translate(["w1 x2"])
    assert resume(run, refuse).configuration.training.steps == 10


EDITS = {"blas_threads": 2, "attention_block": 1, "recompute": True, "loss_block": 3}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_option_changes_nothing_unless_its_help_says_that_it_affects_rounding(run, tmp_path, name):
    plain, edited = copy_of(run, tmp_path / "plain"), run
    edit(edited, **{name: EDITS[name]})
    first, second = (resume(folder, refuse).train(folder).trained.model.state_dict() for folder in (plain, edited))
    exact = "affects rounding" not in Configuration.declarations()[name].metadata["help"]
    for key, value in first.items():
        np.testing.assert_allclose(second[key], value, rtol=0 if exact else 1e-4, atol=0 if exact else 1e-6)


def test_data_may_be_moved(run, tmp_path):
    shutil.copy(run.configuration().data.source, tmp_path / "elsewhere.tsv")
    edit(run, source=str(tmp_path / "elsewhere.tsv"))
    assert resume(run, refuse).step == 4
    with (tmp_path / "elsewhere.tsv").open("a") as file:
        file.write("one\tmore\n")
    with pytest.raises(RunError, match=r"elsewhere\.tsv has changed since the run"):
        resume(run, refuse)


@pytest.mark.parametrize("earlier", [False, True], ids=["", "earlier version"])
def test_a_run_opens_with_or_without_provenance(original, run, earlier):
    wanted = results(original)
    if earlier:
        as_earlier_versions_did(run)
    found = results(run)
    assert found[:4] == wanted[:4]
    assert main(["evaluate", str(run.path)]) == 0


# ---------------------------------------------------------------------------------------------------------------------
# What is missing


def more_text(run, path):
    """Let the run read a longer text from another place."""
    lines = read_parallel(run.configuration().data.source).pairs
    path.write_text("".join(f"{source}\t{target}\n" for source, target in [("w9", "W8"), *lines]))
    edit(run, source=str(path))


@pytest.mark.parametrize("earlier", [False, True], ids=["", "earlier version"])
@pytest.mark.parametrize("name", ["vocabulary.json", "held_out.tsv", "data.json"])
def test_what_is_missing_is_made_again_only_if_it_is_the_same(run, tmp_path, name, earlier):
    if earlier:
        as_earlier_versions_did(run)
    before = (run.path / name).read_bytes()
    (run.path / name).unlink()
    if earlier and name == "data.json":
        with pytest.raises(RunError, match=r"data\.json is missing"):
            resume(run, refuse)
    else:
        resume(run, refuse)
        assert (run.path / name).read_bytes() == before
        (run.path / name).unlink()
    more_text(run, tmp_path / "more.tsv")
    with pytest.raises(RunError, match=rf"{name} is missing|more\.tsv has changed"):
        resume(run, refuse)
    assert not (run.path / name).exists()


def test_held_out_pairs_of_an_earlier_version_are_compared_with_the_data(run):
    as_earlier_versions_did(run)
    shorten(run)
    with pytest.raises(RunError, match=r"held_out\.tsv: the data of the run .* cannot be reproduced"):
        resume(run, refuse)


# ---------------------------------------------------------------------------------------------------------------------
# Files that are not what they should be

DEEP = 200_000
ANYWHERE = [
    b"",
    b"{",
    b"[" * DEEP,
    b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    b"9" * 5001,
    b"[]",
    b"null",
    b"3",
    b'"\\ud800"',
]
WRONG = [
    *((name, content) for name in ("configuration.json", "vocabulary.json", "data.json") for content in ANYWHERE),
    *((name, content.encode()) for name, content in toml_table(__file__, "WRONG")),
    ("held_out.tsv", b"\xff\tb\n"),
    ("metrics.jsonl", b'{"step": ' + b"9" * 5001 + b"}\n"),
    ("metrics.jsonl", b'{"a":' * DEEP + b"1" + b"}" * DEEP),
]


@pytest.mark.parametrize(("name", "content"), WRONG, ids=[f"{name}-{content[:30]!r}" for name, content in WRONG])
def test_a_file_that_is_not_what_it_should_be_is_named(run, name, content):
    (run.path / name).write_bytes(content)
    with pytest.raises(RunError, match=name) as error:
        results(run)
    assert len(str(error.value)) < 1000
    assert main(["resume", str(run.path)]) == 2


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
@pytest.mark.parametrize("name", [*FILES, f"checkpoints/{CHECKPOINT}"])
def test_what_is_no_regular_file_is_refused_and_not_waited_for(run, name, kind):
    path = run.path / name
    path.unlink()
    {"folder": path.mkdir, "pipe": lambda: os.mkfifo(path), "device": lambda: path.symlink_to("/dev/zero")}[kind]()
    with pytest.raises(RunError, match=rf"{path.name} is a {kind}, expected a regular file"):
        results(run)


# ---------------------------------------------------------------------------------------------------------------------
# Checkpoints whose checksum is right

STATES = [
    *({name: value} for name in ("step", "tokens", "averaged", "waited") for value in (-5, None, "x", 1.5, 10**400)),
    *({"seconds": value} for value in (-1.0, None, "x", float("nan"), float("inf"))),
    *({"losses": value} for value in (None, 3, "abc", [None], [float("nan")], [1.0] * 5)),
    *({"best": value} for value in (3, [], [1.0], [1.0, 2, 3], ["x", 2], [1.0, -2], [1.0, 2.5], [float("nan"), 2])),
    *({"dropout": value} for value in (None, [], {}, {"bit_generator": "MT19937"}, {"bit_generator": []})),
    *({"provenance": value} for value in (3, [], {}, {"configuration": {}, "digests": {"held_out.tsv": 3}})),
    {"step": 3}, {"averaged": 5}, {"averaged": 0}, {"waited": 5}, {"surprise": 1},
]  # fmt: skip


@pytest.mark.parametrize("changes", STATES, ids=str)
def test_an_impossible_state_is_refused(run, changes):
    rewrite(run, **changes)
    with pytest.raises(RunError, match=CHECKPOINT):
        resume(run, refuse)


@pytest.mark.parametrize("value", [-5, 3, 2**40])
def test_a_step_count_of_another_step_is_refused(run, value):
    checkpoint = saved(run)
    arrays = checkpoint.optimiser | {"step_count": np.array(value)}
    write_checkpoint(checkpoint.path, checkpoint._replace(optimiser=arrays))
    with pytest.raises(RunError, match=rf"{CHECKPOINT}.* step=4, .* step_count={value}"):
        resume(run, refuse)


@pytest.mark.parametrize("value", [np.inf, np.nan, -1.0])
@pytest.mark.parametrize("name", ["mean", "mean_square"])
def test_running_means_that_no_training_has_are_refused(run, name, value):
    checkpoint = saved(run)
    checkpoint.optimiser[name][5] = value
    write_checkpoint(checkpoint.path, checkpoint)
    if (name, value) == ("mean", -1.0):
        assert resume(run, refuse).optimiser.mean[5] == -1
    else:
        with pytest.raises(RunError, match=f"{CHECKPOINT}.* {name} must be finite and at least"):
            resume(run, refuse)


@pytest.mark.parametrize("change", [{"state": 1.5}, {"state": -1}, {"state": 2**200}, {"inc": "x"}], ids=str)
def test_random_numbers_that_cannot_be_continued_are_refused(run, change):
    dropout = saved(run).state["dropout"]
    rewrite(run, dropout=dropout | {"state": dropout["state"] | change})
    with pytest.raises(RunError, match=CHECKPOINT):
        resume(run, refuse)


@pytest.mark.parametrize("kind", [bool, np.complex64])
def test_weights_that_are_no_numbers_are_refused(run, kind):
    checkpoint = saved(run)
    arrays = {name: array.astype(kind) for name, array in checkpoint.model.items()}
    try:
        write_checkpoint(checkpoint.path, checkpoint._replace(model=arrays))
    except SafetensorError:
        pytest.skip("this version of safetensors writes no complex numbers")
    with pytest.raises(RunError, match=f"{CHECKPOINT}: model.* holds {np.dtype(kind)}, expected numbers"):
        load(run, "last", refuse)


@pytest.mark.parametrize("kind", ["F8_E4M3", "F8_E5M2", "BF16", "F4", "X"])
def test_numbers_that_numpy_does_not_have_are_refused(run, kind):
    header = {"__metadata__": {"state": '{"step": 4}', "crc32": "0"}}
    header["model.w"] = {"dtype": kind, "shape": [4 if kind != "BF16" else 2], "data_offsets": [0, 4]}
    text = json.dumps(header).encode()
    (run.checkpoints.path / CHECKPOINT).write_bytes(struct.pack("<Q", len(text)) + text + b"\0\0\0\0")
    with pytest.raises(RunError, match=f"{CHECKPOINT} is damaged or not a checkpoint of this program"):
        load(run, "last", refuse)


def test_weights_of_another_kind_are_refused(run):
    average(run, 1)
    shutil.copy(run.best_path, run.average_path)
    with pytest.raises(RunError, match=r"average\.safetensors is not a checkpoint of this kind"):
        load(run, report=refuse)
    shutil.copy(run.checkpoints.path / CHECKPOINT, run.average_path)
    with pytest.raises(RunError, match=r"average\.safetensors is not a checkpoint of this kind"):
        load(run, report=refuse)
    best = read_checkpoint(run.best_path)
    write_checkpoint(run.checkpoints.path / "step-00000005.safetensors", best._replace(state=best.state | {"step": 5}))
    with pytest.raises(RunError, match=r"step-00000005\.safetensors is not a checkpoint of this kind"):
        load(run, "last", refuse)


# ---------------------------------------------------------------------------------------------------------------------
# Chance

VALUES = [None, True, -5, 0, 1e308, 10**400, 2.5, "", "x", "w1", [], {}, [[]], {"a": None}, "\ud800", "a\0b"]


def damage(run, chance):
    """Change something in a run folder and return its name."""
    name = chance.choice([*FILES, f"checkpoints/{CHECKPOINT}"])
    path = run.path / name
    data = path.read_bytes()
    kind = chance.choice(("flip", "flip", "cut", "double", "value", "value", "value", "remove"))
    if kind == "flip":
        place = chance.randrange(len(data))
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :])
    elif kind == "cut":
        path.write_bytes(data[: chance.randrange(len(data))])
    elif kind == "double":
        first, last = sorted(chance.randrange(len(data)) for _ in range(2))
        path.write_bytes(data[:last] + data[first:])
    elif kind == "value" and name.endswith("json"):
        path.write_text(json.dumps(replace_one(json.loads(data), chance)))
    elif kind == "remove" and name in FILES:
        path.unlink()
    return name


def replace_one(value, chance):
    """Return a value in which one, anywhere inside, is another."""
    inner = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    if not inner or chance.random() < 0.1:
        return chance.choice(VALUES)
    key = chance.choice(list(inner))
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[key] = replace_one(value[key], chance)
    return copy


def results_or_message(run):
    try:
        return results(run), ""
    except RunError as error:
        return None, f"{error}"


def test_a_damaged_folder_opens_to_the_same_results_or_names_the_file(original, tmp_path):
    wanted = results(copy_of(original, tmp_path / "whole"))
    chance = random.Random(7)
    for number in range(3_500 if ALL else 100):
        run = copy_of(original, tmp_path / f"{number}")
        name = damage(run, chance)
        found, message = results_or_message(run)
        if message:
            assert name.rpartition("/")[2] in message, (number, name)
        else:
            measured = found[-1] if name == "metrics.jsonl" else wanted[-1]
            assert found == (*wanted[:-1], measured), (number, name)
        shutil.rmtree(run.path)
