"""Run folders: what is written can be read, and what is damaged is named."""

import json

import numpy as np
import pytest

from minitransformer.data import Vocabulary
from minitransformer.tasks import build
from minitransformer.training import Checkpoint, Configuration, RunError, RunFolder

PAIRS = [("12", "21"), ("345", "543")]


@pytest.fixture
def configuration():
    return Configuration.of_task(build("reverse"), steps=3, dropout=0.25, d_k=5)


@pytest.fixture
def folder(tmp_path, configuration):
    folder = RunFolder(tmp_path / "run")
    vocabulary = Vocabulary("0123456789")
    folder.create(configuration, vocabulary, vocabulary, PAIRS)
    return folder


def checkpoint(seed=0):
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
        model, {"mean": whole[0], "step_count": np.array(7)}, {"plain": 2 * whole}, {"step": 7, "words": [2**64 - 1, 3]}
    )


def test_everything_written_is_read_back(folder, configuration):
    assert folder.configuration() == configuration
    assert folder.vocabularies()[0].tokens[3:] == tuple("0123456789")
    assert folder.held_out() == PAIRS
    folder.log({"step": 1, "loss": 2.5})
    folder.log({"step": 2, "loss": 1.5})
    assert [line["loss"] for line in folder.metrics()] == [2.5, 1.5]


def test_a_checkpoint_survives_every_memory_layout(folder):
    saved = checkpoint()
    folder.save(saved)
    loaded = folder.load()
    assert loaded.state == saved.state
    for part in ("model", "optimiser", "mean"):
        wanted, found = getattr(saved, part), getattr(loaded, part)
        assert wanted.keys() == found.keys()
        for name in wanted:
            assert found[name].dtype == wanted[name].dtype
            assert found[name].shape == wanted[name].shape
            np.testing.assert_array_equal(found[name], wanted[name])


def test_a_failed_save_keeps_the_checkpoint_before(folder, monkeypatch):
    folder.save(checkpoint(0))
    before = folder.checkpoint_path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("minitransformer.training.run.os.fsync", full)
    with pytest.raises(RunError, match=r"No space left on device.*the one before is kept"):
        folder.save(checkpoint(1))
    assert folder.checkpoint_path.read_bytes() == before
    assert sorted(p.suffix for p in folder.path.glob("checkpoint*")) == [".safetensors"]


def test_a_folder_that_holds_something_is_not_overwritten_unasked(folder, configuration):
    vocabulary = Vocabulary("0123456789")
    folder.save(checkpoint())
    with pytest.raises(RunError, match=r"exists already.*--overwrite"):
        folder.create(configuration, vocabulary, vocabulary, PAIRS)
    assert folder.load().state["step"] == 7
    folder.create(configuration, vocabulary, vocabulary, PAIRS, overwrite=True)
    with pytest.raises(RunError, match="training has not saved anything yet"):
        folder.load()


def test_fresh_folders_never_meet(tmp_path):
    assert RunFolder.fresh("numbers", tmp_path).path.name == "numbers"
    (tmp_path / "numbers").mkdir()
    (tmp_path / "numbers-2").write_text("a file in the way")
    assert RunFolder.fresh("numbers", tmp_path).path.name == "numbers-3"


@pytest.mark.parametrize("name", ["configuration.json", "vocabulary.json", "held_out.tsv"])
def test_a_missing_file_is_named(folder, name):
    (folder.path / name).unlink()
    with pytest.raises(RunError, match=f"not a whole run folder: {name} is missing"):
        (folder.configuration(), folder.vocabularies(), folder.held_out())


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(RunError, match=r"there is no run folder .*nowhere"):
        RunFolder(tmp_path / "nowhere").configuration()
    with pytest.raises(RunError, match=r"there is no run folder .*nowhere"):
        RunFolder(tmp_path / "nowhere").load()


@pytest.mark.parametrize("keep", [0, 1, 8, 100, -1])
def test_a_truncated_checkpoint_is_refused(folder, keep):
    folder.save(checkpoint())
    folder.checkpoint_path.write_bytes(folder.checkpoint_path.read_bytes()[:keep])
    with pytest.raises(RunError, match="damaged"):
        folder.load()


def test_a_checkpoint_of_another_program_is_refused(folder):
    from safetensors.numpy import save_file

    save_file({"weight": np.ones(3)}, folder.checkpoint_path)
    with pytest.raises(RunError, match="not a checkpoint of this program"):
        folder.load()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("configuration.json", "{", "damaged"),
        ("configuration.json", "[]", "not a configuration"),
        ("configuration.json", '{"task": "copy"}', "missing"),
        ("vocabulary.json", '{"source": ["a"]}', "does not hold two vocabularies"),
        ("held_out.tsv", "12\t21\n345\n", "line 2"),
        ("held_out.tsv", "", "the file"),
    ],
)
def test_a_damaged_file_is_named(folder, name, text, message):
    (folder.path / name).write_text(text)
    with pytest.raises(RunError, match=message) as error:
        (folder.configuration(), folder.vocabularies(), folder.held_out())
    assert name in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": "many"}, "steps has the wrong type: 'many'"),
        ({"steps": True}, "steps has the wrong type: True"),
        ({"steps": 0}, "steps must be at least 1, found 0"),
        ({"colour": 1}, "unknown \\['colour'\\]"),
    ],
)
def test_a_changed_configuration_is_checked(folder, change, message):
    path = folder.path / "configuration.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(RunError, match=message):
        folder.configuration()
