"""Files of other programs with damaged or hostile bytes: one clear line each, and no run folder.

What is missing, of another shape or of another value is in test_refused.py.
"""

import io
import json
import os
import random
import re
import shlex
import struct
import zipfile
from pathlib import Path

import ctranslate2_folders
import marian_folders
import marian_npz
import numpy as np
import pytest
from ctranslate2_folders import array, model_bin, text, variables

import minitransformer as mt
from minitransformer.apps.cli import main
from minitransformer.apps.interop import READERS, read_huggingface, write_run
from minitransformer.files import FileError

pytest.importorskip("sentencepiece")
CASES = int(os.environ.get("MINITRANSFORMER_FUZZ_CASES", "200"))
WRITE = {
    "huggingface": marian_folders.write_folder,
    "ctranslate2": ctranslate2_folders.write_folder,
    "marian": marian_npz.write_folder,
}


def file(name, contents):
    return lambda folder: (folder / name).write_bytes(contents)


def one(head, data=b"", count=1, tail=bytes(4)):
    """Write a model.bin of one variable, whose head is given."""
    start = struct.pack("<I", 6) + text("TransformerSpec") + struct.pack("<II", 7, count)
    return file("model.bin", start + text("weight") + head + data + tail)


def rewritten(compression=zipfile.ZIP_STORED, version=(1, 0), cut=None):
    """Write the arrays of Marian again: compressed, in another format, or one of them cut off."""

    def change(folder):
        with np.load(folder / "model.npz") as data:
            found = dict(data)
        with zipfile.ZipFile(folder / "model.npz", "w", compression) as data:
            for name, value in found.items():
                stored = io.BytesIO()
                np.lib.format.write_array(stored, value, version=version)
                data.writestr(f"{name}.npy", stored.getvalue()[: cut if name == "Wemb" else None])

    return change


def with_array(name, value):
    return lambda folder: np.savez(folder / "model.npz", **marian_npz.arrays() | {name: value})


class Pickled:
    def __reduce__(self):
        return (os.abort, ())


def header(folder):
    """Write an array whose header tells another shape."""
    path = folder / "model.npz"
    path.write_bytes(path.read_bytes().replace(b"(14, 16)", b"(14,999)"))


WHOLE, ONES = model_bin(variables()), array(np.ones(2, "f4"))
WITHOUT_A_NORM = {name: value for name, value in variables().items() if "encoder/layer_norm" not in name}
BROKEN = {
    "huggingface": {
        "cut off": (lambda folder: os.truncate(folder / "model.safetensors", 20_000), "safetensors"),
        "a header of all memory": (file("model.safetensors", struct.pack("<Q", 2**62) + b"{}"), "safetensors"),
    },
    "ctranslate2": {
        "an older version": (file("model.bin", struct.pack("<I", 1) + WHOLE[4:]), "version 1,"),
        "another file": (file("model.bin", b"\xef\xff\0\0" + WHOLE[4:]), "version 65519"),
        "cut off": (file("model.bin", WHOLE[:2000]), r"\b171 bytes.*attention/linear_2/weight"),
        "a byte too many": (file("model.bin", WHOLE + b"\0"), "end: 1;"),
        "no number of aliases": (file("model.bin", WHOLE[:-4]), r"\b4 bytes.*aliases"),
        "no number of variables": (file("model.bin", WHOLE[:26]), r"\b4 bytes.*variables"),
        "fewer variables": (one(array(np.ones(1, "f4")), count=2**32 - 1, tail=b""), r"\b2 bytes.*name"),
        "too many axes": (one(b"\xff" * 999), "'weight' has 255 axes"),
        "a shape of all memory": (
            one(b"\x03" + b"\xff" * 12 + struct.pack("<BI", 0, 16), bytes(16)),
            "'weight' has 16 bytes.* 79,228,162,458,924,105,385,300,197,375 ",
        ),
        "no numbers": (one(struct.pack("<BIIBI", 2, 0, 2**32 - 1, 0, 0)), "'weight' has 0 bytes"),
        "numbers of all memory": (
            one(struct.pack("<BIBI", 1, 2**30 - 1, 0, 2**32 - 4), bytes(12)), "4,294,967,276 bytes.*'weight'",
        ),
        "another type": (one(struct.pack("<BIBI", 1, 1, 9, 4), bytes(4)), r"'weight'.* 9\b"),
        "a variable twice": (one(ONES, count=2, tail=text("weight") + ONES), "two variables 'weight'"),
        "a name of other bytes": (
            file("model.bin", WHOLE.replace(b"decoder/emb", b"decoder\xff\xffem")), "name.*UTF-8"
        ),
        "a name without its end": (
            file("model.bin", WHOLE.replace(b"gamma\0", b"gammaX", 1)), "name, 'decoder/.*gamma'"
        ),
        "one final norm": (file("model.bin", model_bin(WITHOUT_A_NORM)), "one stack only"),
    },
    "marian": {
        "cut off": (lambda folder: os.truncate(folder / "model.npz", 3000), "zip"),
        "a pickle": (with_array("Wemb", np.array([Pickled()], object)), r"object.*\(1,\)"),
        "another shape": (header, "Wemb"),
        "an array that is cut off": (rewritten(cut=300), r"172 bytes.*\(14, 16\)"),
        "another format": (rewritten(version=(3, 0)), r"\(3, 0\)"),
        "compressed": (rewritten(zipfile.ZIP_DEFLATED), "'special:model.yml.npy' is compressed"),
        "an empty array": (with_array("encoder_l1_ffn_W1", np.zeros((16, 0), "f4")), r"\(16, 0\)"),
    },
}  # fmt: skip


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, cases in BROKEN.items() for name in cases])
def test_what_is_wrong_is_said_in_one_line_and_no_run_is_left(tmp_path, capsys, kind, name):
    change, word = BROKEN[kind][name]
    folder, out = WRITE[kind](tmp_path / "there"), tmp_path / "runs" / "new"
    change(folder)
    assert main(["import", kind, str(folder), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert re.search(word, error)
    assert str(folder) in error
    assert error.count("\n") == 1
    assert not out.exists()


def test_a_newer_format_of_arrays_is_read(tmp_path):
    folder = WRITE["marian"](tmp_path / "there")
    expected = READERS["marian"](folder).state
    rewritten(version=(2, 0))(folder)
    found = READERS["marian"](folder).state
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


def test_the_way_to_convert_a_pickle_is_one_line(tmp_path):
    folder = WRITE["huggingface"](tmp_path / "a 'folder'")
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x02cos\nsystem\nq\x00X\x04\x00\x00\x00exitq\x01\x85q\x02Rq\x03.")
    with pytest.raises(FileError, match=r"python -c .*from transformers import MarianMTModel") as error:
        read_huggingface(folder)
    script = shlex.split(str(error.value).partition("python -c ")[2])[0]
    assert f"from_pretrained({str(folder)!r})" in script
    compile(script, "script", "exec")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
def test_an_import_that_is_killed_at_any_write_leaves_no_half_of_a_run(tmp_path, monkeypatch):
    command = ["import", "huggingface", str(WRITE["huggingface"](tmp_path / "there")), "--out", str(tmp_path / "run")]
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


@pytest.mark.parametrize("place", [".", "link", "new/deeper"])
def test_where_nothing_is_a_model_may_be_written(tmp_path, monkeypatch, place):
    (tmp_path / "here").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "here" / "link").symlink_to(tmp_path / "empty")
    monkeypatch.chdir(tmp_path / "empty" if place == "." else tmp_path / "here")
    path = Path(place).resolve()
    write_run(read_huggingface(WRITE["huggingface"](tmp_path / "there")), Path(place))
    assert mt.load(path).weights == "last"


# ---------------------------------------------------------------------------------------------------------------------
# Random damage

VALUES = [
    *(None, True, -1, 0, 1, 3, 2**31, 10**40, 1.5, float("nan"), float("inf")),
    *("", "x", "\ud800", [], [0], [[0]], {}),
]
NUMBERS = [0, 1, 2, 4, 255, 2**16 - 1, 2**31, 2**32 - 1]


def damage(rng, data, starts):
    """Return bytes with one random fault, often near one of some places."""
    kind = rng.choice(("cut", "flip", "number", "repeat", "drop", "value"))
    at = rng.randrange(len(data)) if rng.random() < 0.3 else min(len(data) - 1, rng.choice(starts) + rng.randrange(400))
    if kind == "value":
        try:
            values = json.loads(data)
            values[rng.choice(sorted(values))] = rng.choice(VALUES)
            return json.dumps(values).encode()
        except (ValueError, TypeError):
            kind = "flip"
    if kind == "cut":
        return data[:at]
    if kind == "flip":
        return data[:at] + rng.randbytes(1) + data[at + 1 :]
    if kind == "number":
        size = rng.choice((1, 2, 4))
        number = (rng.choice(NUMBERS) % 2 ** (8 * size)).to_bytes(size, "little")
        return data[:at] + number + data[at + size :]
    return data[:at] + (data[at : at + 40] + data[at:] if kind == "repeat" else data[at + 8 :])


@pytest.mark.parametrize("kind", WRITE)
def test_random_damage_gives_an_error_of_one_line_or_a_model(tmp_path, kind):
    folder, starts, messages = WRITE[kind](tmp_path / "there"), [0], []
    if kind == "huggingface":
        (folder / "generation_config.json").write_text('{"num_beams": 2, "max_length": 9, "bad_words_ids": [[5]]}')
    if kind == "marian":
        (folder / "decoder.yml").write_text("models:\n  - model.npz\nvocabs:\n  - vocab.yml\nbeam-size: 3\n")
        with zipfile.ZipFile(folder / "model.npz") as data:
            starts = [info.header_offset for info in data.infolist()] + [data.start_dir] * 40
    whole = {path: path.read_bytes() for path in sorted(folder.iterdir())}
    weights = [path for path in whole if path.name.startswith("model.")]
    for seed in range(CASES):
        rng = random.Random(seed)
        path = rng.choice([*whole, *weights])
        path.write_bytes(damage(rng, whole[path], starts if path in weights else [0]))
        try:
            published = READERS[kind](folder)
            if seed % 20 == 0:
                write_run(published, tmp_path / f"run-{seed}")
                mt.load(tmp_path / f"run-{seed}")
        except FileError as error:
            messages.append(f"{error}")
        path.write_bytes(whole[path])
    assert len(messages) > CASES // 3
    assert all(len(message) < 1500 and "\n" not in message for message in messages)
