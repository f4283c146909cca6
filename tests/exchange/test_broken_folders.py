"""Folders of published models that are damaged, hostile or of another kind: one clear line each, and no run folder."""

import json
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from marian_folders import configuration, tensors, tokens, write_folder
from safetensors.numpy import load_file, save_file

import minitransformer as mt
from minitransformer.apps.cli import main
from minitransformer.apps.exchange import read_huggingface, write_run
from minitransformer.files import FileError

pytest.importorskip("sentencepiece")


def edit(name, **changes):
    def change(folder):
        path = folder / name
        values = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({key: value for key, value in (values | changes).items() if value != "gone"}))

    return change


def swap_pickle(name):
    def change(folder):
        (folder / "model.safetensors").unlink()
        (folder / name).write_bytes(b"\x80\x02cos\nsystem\nq\x00X\x04\x00\x00\x00exitq\x01\x85q\x02Rq\x03.")

    return change


def header(edited):
    """Write another header before the same data."""

    def change(folder):
        path = folder / "model.safetensors"
        data = path.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        text = json.dumps(edited(json.loads(data[8 : 8 + size]))).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size :])

    return change


def one(name, **changes):
    return lambda values: values | {name: values[name] | changes}


BIAS, TABLE = "model.encoder.layers.0.fc1.bias", "model.shared.weight"
V = len(tokens())


def set_nan(folder):
    arrays = load_file(folder / "model.safetensors")
    arrays[BIAS][3] = np.nan
    save_file(arrays, folder / "model.safetensors")


BROKEN = {
    "no configuration": (lambda folder: (folder / "config.json").unlink(), r"config\.json"),
    "a forbidden word": (edit("config.json", bad_words_ids=[[4], [3]]), "bad_words_ids.*renormalize_logits"),
    "weights as a pickle": (swap_pickle("pytorch_model.bin"), r"pytorch_model\.bin is a pickle"),
    "weights that are cut off": (lambda folder: os.truncate(folder / "model.safetensors", 20_000), "safetensors"),
    "a header of all memory": (
        lambda folder: (folder / "model.safetensors").write_bytes(struct.pack("<Q", 2**62) + b"{}"), "safetensors"
    ),
    "a place beyond the file": (header(one(TABLE, data_offsets=[0, 2**40])), "safetensors"),
    "a shape of all memory": (header(one(TABLE, shape=[2**31, 2**31])), "safetensors"),
    "another type of numbers": (
        header(lambda values: {
            name: value | {"dtype": "U16", "shape": [*value["shape"], 2]} if name != "__metadata__" else value
            for name, value in values.items()
        }), "U16",
    ),
    "not a number": (set_nan, BIAS),
}  # fmt: skip
"""What needs other bytes; test_refused.py has the rest."""


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_is_said_in_one_line_and_no_run_is_left(tmp_path, refused, name):
    change, word = BROKEN[name]
    change(write_folder(tmp_path / "there"))
    refused(read_huggingface, "huggingface", tmp_path / "there", word)


def test_the_way_to_convert_a_pickle_is_one_line(tmp_path):
    folder = tmp_path / "a 'folder'"
    swap_pickle("pytorch_model.bin")(write_folder(folder))
    with pytest.raises(FileError, match=r"python -c .*from transformers import MarianMTModel") as error:
        read_huggingface(folder)
    import shlex

    script = shlex.split(str(error.value).partition("python -c ")[2])[0]
    assert f"from_pretrained({str(folder)!r})" in script
    compile(script, "script", "exec")


def test_an_existing_folder_is_kept(tmp_path, capsys):
    write_folder(tmp_path / "there")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").write_text("mine")
    assert main(["import", "huggingface", str(tmp_path / "there"), "--out", str(tmp_path / "run")]) == 2
    err = capsys.readouterr().err
    assert "exists already; choose another --out" in err
    assert "--overwrite" not in err
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["mine"]


def test_a_run_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    published = read_huggingface(write_folder(tmp_path / "there"))
    fail = "minitransformer.training.checkpoints.write_durably"
    monkeypatch.setattr(fail, lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(mt.training.RunError, match=r"run/checkpoints/step-00000000\.safetensors: No space"):
        write_run(published, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
def test_an_import_that_is_killed_at_any_write_leaves_no_half_of_a_run(tmp_path, monkeypatch):
    command = ["import", "huggingface", str(write_folder(tmp_path / "there")), "--out", str(tmp_path / "run")]
    write = os.replace

    def killed_after(writes):
        left = iter(range(writes))
        monkeypatch.setattr(os, "replace", lambda *paths: os._exit(9) if next(left, None) is None else write(*paths))
        os._exit(main(command))

    for writes in range(100):
        if not (child := os.fork()):
            killed_after(writes)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status != 9:
            break
        assert not (tmp_path / "run").exists()
    assert status == 0
    assert writes > 4
    assert mt.load(tmp_path / "run").translate(["a"])


@pytest.mark.parametrize("place", [".", "empty", "link", "new/deeper"])
def test_where_nothing_is_a_model_may_be_written(tmp_path, monkeypatch, place):
    published = read_huggingface(write_folder(tmp_path / "there"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    if place in ("empty", "link"):
        (tmp_path / "empty").mkdir()
        (tmp_path / "here" / "link").symlink_to(tmp_path / "empty")
        place = tmp_path / "empty" if place == "empty" else place
    path = (tmp_path / "here" / place).resolve()
    write_run(published, Path(place))
    assert mt.load(path).weights == "last"
    assert path.stat().st_mode & 0o777 == (tmp_path / "there").stat().st_mode & 0o777


def test_older_files_open_as_well(tmp_path):
    """Half precision, tables of positions, tied names, and the rules of the search in config.json."""
    folder = write_folder(tmp_path / "there", normalize_before=False, static_position_embeddings=True, dtype="float16")
    arrays = {name: array.astype("float16") for name, array in tensors().items()}
    waves = mt.ops.sinusoidal_positions(20, 16, "float32", layout="halves")
    arrays |= {f"model.{stack}.embed_positions.weight": waves for stack in ("encoder", "decoder")}
    arrays |= {f"model.{stack}.embed_tokens.weight": arrays["model.shared.weight"] for stack in ("encoder", "decoder")}
    save_file(arrays, folder / "model.safetensors")
    published = read_huggingface(folder)
    assert published.model["dtype"] == "float32"
    assert published.search["most_written"] == configuration(16, 24, 2, 1)["max_length"] - 1
    table = published.state["source_embedding.table"]
    assert (table[4] == arrays["model.shared.weight"][2]).all()
    assert (table[0] == table[1]).all()


# ---------------------------------------------------------------------------------------------------------------------
# Random damage

VALUES = [
    *(None, True, -1, 0, 1, 3, 2**31, 10**40, 1.5, float("nan"), float("inf")),
    *("", "x", "\ud800", [], [0], [[0]], {}),
]


def damage(rng, data, name):
    """Return bytes with one random fault."""
    kind = rng.choice(("cut", "flip", "zero", "repeat", "value"))
    at = rng.randrange(len(data) if rng.random() < 0.5 else min(len(data), 400))
    if kind == "cut":
        return data[:at]
    if kind == "flip":
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    if kind == "zero":
        return data[:at] + bytes(len(data[at : at + 8])) + data[at + 8 :]
    if kind == "repeat":
        return data[:at] + data[at : at + 40] + data[at:]
    try:
        values = json.loads(data)
        values[rng.choice(sorted(values))] = rng.choice(VALUES)
        return json.dumps(values).encode()
    except ValueError:
        return data[:at] + b"\xff" * 8 + data[at + 8 :]


def test_random_damage_gives_an_error_of_one_line_or_a_model(tmp_path, bears):
    folder = write_folder(tmp_path / "there")
    edit("generation_config.json", num_beams=2, max_length=9, bad_words_ids=[[V - 1]])(folder)
    names = sorted(path.name for path in folder.iterdir())
    bears(read_huggingface, folder, names, damage, opened=10)
