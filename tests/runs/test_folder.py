"""Run folders: what is written can be read, and what is damaged is named."""

import json
import os
import pathlib
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
from safetensors.numpy import save
from toml_cases import cases_from_toml, toml_table

from minitransformer.data import Words
from minitransformer.runs import (
    Checkpoint,
    Configuration,
    RunError,
    TrainingOptions,
)
from minitransformer.runs.provenance import Provenance, check_data, digests_of
from minitransformer.tasks import Corpus, build
from minitransformer.training import create_run, fresh_folder

PAIRS = [("12", "21"), ("345", "543")]
OTHERS = {"step-00000005.safetensors.old", "a-step-00000005.safetensors", "step-5.safetensors"}
"""Files beside checkpoints that are none, and stay."""


@pytest.fixture
def configuration():
    return Configuration.of_task(build("reverse"), steps=100, dropout=0.25, d_k=5, evaluate_every=10)


def options(keep=1):
    return TrainingOptions(steps=100, evaluate_every=10, keep=keep)


def corpus(held_out=PAIRS, files=None, train=PAIRS):
    source, target = build("reverse").tokenisers()
    ids = [(source.encode(one), target.encode(other)) for one, other in train]
    return Corpus(
        source=source, target=target, train=train, ids=ids, valid=held_out, held_out=held_out, example="12",
        files=files or {},
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path, configuration):
    folder = create_run(tmp_path / "run", configuration, corpus())
    return folder


def checkpoint(seed=0, step=10):
    rng = np.random.default_rng(seed)
    whole = rng.normal(size=(6, 8)).astype(np.float32)
    model = {
        "plain": whole,
        "transposed": whole.T,
        "strided": whole[::2, 1::3],
        "backwards": whole[::-1, ::-1],
        "broadcast": np.broadcast_to(whole[0], (3, 8)),
        "fortran": np.asfortranarray(whole),
        "double": rng.normal(size=5),
        "scalar": np.float32(2.5) * np.ones(()),
    }
    return Checkpoint(
        model,
        {"mean": whole[0], "step_count": np.array(7)},
        {"plain": 2 * whole},
        {"step": step, "words": [2**64 - 1, 3]},
    )


def test_everything_written_is_read_back(folder, configuration):
    assert folder.configuration() == configuration
    assert json.loads((folder.path / "configuration.json").read_text()) == configuration.flat()
    source, target = folder.tokenisers()
    assert source is target
    assert source.tokens[3:] == tuple("0123456789")
    assert folder.held_out() == PAIRS
    folder.measurements.append({"step": 1, "loss": 2.5})
    folder.measurements.append({"step": 2, "loss": 1.5})
    assert [line["loss"] for line in folder.measurements.read()] == [2.5, 1.5]


def test_arrays_of_every_type_shape_and_memory_layout_are_read_back(folder):
    saved = checkpoint()
    kinds = [f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)] + ["f2", "f4", "f8"]
    saved.model.update({kind: np.arange(6).reshape(2, 3).astype(kind) for kind in kinds})
    saved.model.update({"a scalar": np.array(2.5), "empty": np.zeros((3, 0, 2), "f4"), "ä": np.array([-1.0, 7e300])})
    folder.save(saved, options())
    loaded = folder.checkpoints.load()
    assert loaded.state == saved.state
    for part in ("model", "optimiser", "mean"):
        wanted, found = getattr(saved, part), getattr(loaded, part)
        assert wanted.keys() == found.keys()
        for name, values in wanted.items():
            assert found[name].flags.writeable, name
            np.testing.assert_array_equal(found[name], values, err_msg=name, strict=True)


def full(*_, **__):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("place", ["os.fsync", "os.open", "os.write"])
def test_a_full_disk_keeps_the_checkpoint_before(folder, monkeypatch, place):
    before = folder.save(checkpoint(0, step=10), options(keep=2))
    content = before.read_bytes()
    if place == "os.write":
        real, room = os.write, [100]

        def write(number, data):
            room[0] -= real(number, data[: max(room[0], 0)])
            return 100 if room[0] else full()

        monkeypatch.setattr(os, "write", write)
    else:
        monkeypatch.setattr(f"minitransformer.durable.{place}", full)
    with pytest.raises(
        RunError, match=r"step-00000020\.safetensors: No space left on device; .*step-000000\d0"
    ) as error:
        folder.save(checkpoint(1, step=20), options(keep=2))
    assert "the one before, is kept" in str(error.value)
    monkeypatch.undo()
    assert before.read_bytes() == content
    assert not list(folder.path.rglob("*.partial"))
    assert folder.checkpoints.load().state["step"] in (10, 20)


def test_as_many_checkpoints_are_kept_as_are_asked_for(folder):
    for step in (0, 10, 20, 30):
        folder.save(checkpoint(step=step), options(keep=2))
        for name in OTHERS:
            (folder.checkpoints.path / name).touch()
    for step in (33, 36):  # two interruptions
        folder.save(checkpoint(step=step), options(keep=2))
    assert names(folder) == ["step-00000020", "step-00000030", "step-00000033", "step-00000036"]
    assert folder.checkpoints.load().state["step"] == 36
    assert [path.stem for path in folder.last_checkpoints(2)] == ["step-00000020", "step-00000030"]
    folder.save(checkpoint(step=40), options(keep=2))
    assert names(folder) == ["step-00000030", "step-00000040"]
    folder.save(checkpoint(step=50), options(keep=1))
    assert names(folder) == ["step-00000050"]
    with pytest.raises(RunError, match=r"has 1 checkpoint, expected 2; average fewer, or train with a smaller --save"):
        folder.last_checkpoints(2)


def names(folder):
    return sorted(name.partition(".")[0] for name in {path.name for path in folder.checkpoints.path.iterdir()} ^ OTHERS)


def test_a_folder_that_holds_something_is_not_overwritten_unasked(folder, configuration):
    folder.save(checkpoint(), options())
    with pytest.raises(RunError, match=r"exists already.*--overwrite"):
        create_run(folder.path, configuration, corpus())
    assert folder.checkpoints.load().state["step"] == 10
    create_run(folder.path, configuration, corpus(), overwrite=True)
    with pytest.raises(RunError, match="training has not saved anything yet"):
        folder.checkpoints.load()


def test_any_text_can_be_held_out(folder, configuration):
    pairs = [("a\u2028b\tc", "x\x85y"), ("e\u0301", "z  z")]
    create_run(folder.path, configuration, corpus(pairs), overwrite=True)
    assert folder.held_out() == [("a b c", "x y"), ("\u00e9", "z z")]
    create_run(folder.path, configuration, corpus([("a\u200bb", "c\x1cd")]), overwrite=True)
    assert len(folder.held_out()) == 1
    for line in ("a", "a\t", "\tb", "\t", "a\tb\tc", "", "a\tb\t"):
        (folder.path / "held_out.tsv").write_text(f"one\ttwo\n{line}\n", "utf-8")
        with pytest.raises(RunError, match="line 2 is not a source and a target with a tab between"):
            folder.held_out()
    (folder.path / "held_out.tsv").write_text("a\u2028b\tc\x85d\n", "utf-8")
    assert folder.held_out() == [("a\u2028b", "c\x85d")]


def test_measurements_after_a_step_are_cut_off(folder):
    for step in (1, 2, 2, 3):
        folder.measurements.append({"step": step})
    folder.measurements.append({"step": 2, "final": True})
    assert folder.is_finished()
    with folder.measurements.path.open("a") as file:
        file.write('5\n{"step": 2, "lo')
    folder.measurements.cut(2)
    assert folder.measurements.read() == [{"step": 1}, {"step": 2}, {"step": 2}]
    assert not folder.is_finished()


def test_provenance_is_that_of_all_held_out_pairs_and_of_options_that_still_exist(configuration):
    trained = Provenance.of(configuration, corpus())
    fewer = Provenance.of(configuration, replace(corpus(), valid=PAIRS[:1]))
    assert fewer.digests["held_out.tsv"] == trained.digests["held_out.tsv"]
    assert not replace(trained, configuration={**trained.configuration, "gone": 1}).changes(configuration)


def test_the_digest_of_a_vocabulary_is_the_one_that_earlier_checkpoints_recorded():
    words = [Words.train([text], min_count=1) for text in ("a b", "c d")]
    digest = digests_of(replace(corpus(), source=words[0], target=words[1]))["vocabulary.json"]
    assert digest[:12] == "9afe9ba8469b"


def test_the_digest_of_held_out_pairs_is_that_of_their_lines():
    digest = digests_of(corpus([("é", "ü ß"), ("1", "2")]))["held_out.tsv"]
    assert digest == sha256("é\tü ß\n1\t2\n".encode()).hexdigest()


def test_fresh_folders_never_meet(tmp_path):
    assert fresh_folder("numbers", tmp_path).name == "numbers"
    assert (tmp_path / "numbers").is_dir()  # so that nobody else is given it
    (tmp_path / "numbers-2").write_text("a file in the way")
    assert fresh_folder("numbers", tmp_path).name == "numbers-3"
    (tmp_path / "runs").symlink_to(tmp_path / "gone")
    with pytest.raises(RunError, match=r"cannot make the run folder .*runs: File exists"):
        fresh_folder("numbers", tmp_path / "runs")


def test_checkpoints_that_cannot_be_listed_are_not_taken_for_none(folder, monkeypatch):
    folder.save(checkpoint(), options())
    folder.measurements.append({"step": 10})

    def refused(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(pathlib.Path, "iterdir", refused)
    for ask in (folder.checkpoints.load, folder.checkpoints.files, lambda: folder.last_checkpoints(1)):
        with pytest.raises(RunError, match=r"cannot read .*checkpoints: Permission denied"):
            ask()


def test_an_average_of_the_past_goes_before_the_next_checkpoint(folder, monkeypatch):
    for step in (10, 20):
        folder.save(checkpoint(step=step), options(keep=2))
    folder.average_path.write_bytes(b"of these")
    with monkeypatch.context() as patch:
        patch.setattr(folder.checkpoints, "save", lambda *_: 1 / 0)  # as if the process were killed while it saves
        with pytest.raises(ZeroDivisionError):
            folder.save(checkpoint(step=23), options(keep=2))
    assert not folder.average_path.exists()
    assert folder.save(checkpoint(step=23), options(keep=2)).exists()


def test_measurements_are_on_the_disk_before_the_checkpoint_that_follows_them(folder, monkeypatch):
    flushed = []

    def flush(number):
        flushed.append(os.fstat(number).st_ino)

    monkeypatch.setattr("minitransformer.durable.flush_to_disk", flush)
    folder.measurements.append({"step": 10})
    path = folder.save(checkpoint(), options())
    assert flushed == [folder.measurements.path.stat().st_ino, path.stat().st_ino]


@pytest.mark.parametrize("name", ["configuration.json", "vocabulary.json", "held_out.tsv", "data.json"])
def test_a_missing_file_is_named(folder, name):
    (folder.path / name).unlink()
    with pytest.raises(RunError, match=f"not a complete run folder: {name} is missing"):
        (folder.configuration(), folder.tokenisers(), folder.held_out(), check_data(folder, corpus()))


@pytest.mark.parametrize("keep", [0, 1, 8, 100, -1, "of another program"])
def test_a_truncated_checkpoint_is_refused(folder, keep):
    path = folder.save(checkpoint(), options())
    path.write_bytes(save({"weight": np.ones(3)}) if isinstance(keep, str) else path.read_bytes()[:keep])
    with pytest.raises(RunError, match=r"step-00000010\.safetensors is damaged.*there is no other checkpoint"):
        folder.checkpoints.load()


@pytest.mark.parametrize("place", [40, 200, -1, -300])
def test_a_flipped_bit_is_found(folder, place):
    path = folder.save(checkpoint(), options())
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(RunError, match=r"step-00000010\.safetensors is damaged"):
        folder.checkpoints.load()


def test_of_a_damaged_checkpoint_the_one_before_is_used(folder):
    for step in (10, 20, 30):
        folder.save(checkpoint(step=step), options(keep=3))
    for step in (20, 30):
        (folder.checkpoints.path / f"step-000000{step}.safetensors").write_bytes(b"torn")
    reports = []
    assert folder.checkpoints.load(reports.append).state["step"] == 10
    assert len(reports) == 2
    assert "step-00000030.safetensors is damaged" in reports[0]
    assert reports[0].endswith("step-00000010.safetensors, the one before, is used")
    with pytest.warns(RuntimeWarning) as warned:
        folder.checkpoints.load()
    assert ["step-00000030" in str(one.message) for one in warned] == [True, False]


@cases_from_toml
def test_a_changed_configuration_is_checked(folder, change, message):
    path = folder.path / "configuration.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(RunError, match=message):
        folder.configuration()


OLD = toml_table(__file__, "OLD")
"""A configuration as runs had it before there was weight decay, and before options of the model were stored."""


def test_a_run_of_an_earlier_version_is_read(folder):
    (folder.path / "configuration.json").write_text(OLD)
    found = folder.configuration()
    assert found.flat().items() >= json.loads(OLD).items()
    assert found.training.weight_decay == 0
    wanted = Configuration.of_task(
        build("numbers", to="fr"), seed=3, norm="pre", steps=900, workers=2, micro_batches=2, weight_decay=0.0
    )
    assert found == wanted


def test_an_option_may_have_the_name_of_an_earlier_version(folder):
    """Also in a checkpoint's record; two names at once are refused."""
    path = folder.path / "configuration.json"
    path.write_text(json.dumps(json.loads(OLD) | {"shares": 3}))
    found = folder.configuration()
    assert found.training.micro_batches == 3
    old = Provenance(configuration={"shares": 3, "seed": 3}, digests={})
    assert old.changes(found) == []
    (change,) = old.changes(found.changed(micro_batches=4))
    assert "micro_batches" in change
    path.write_text(json.dumps(json.loads(OLD) | {"shares": 3, "micro_batches": 3}))
    with pytest.raises(RunError, match="shares"):
        folder.configuration()


@pytest.mark.parametrize("name", sorted(json.loads(OLD)))
def test_a_value_that_every_version_has_may_not_be_missing(folder, name):
    values = json.loads(OLD)
    del values[name]
    (folder.path / "configuration.json").write_text(json.dumps(values))
    with pytest.raises(RunError, match=rf"missing: {name}"):
        folder.configuration()
