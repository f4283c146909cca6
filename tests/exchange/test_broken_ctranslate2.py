"""Folders of CTranslate2 that are damaged, hostile or of another kind: one clear line each, and no run folder."""

import struct

import numpy as np
import pytest
from ctranslate2_folders import array, model_bin, text, variables, write_folder

from minitransformer.apps.cli import main
from minitransformer.apps.exchange import read_ctranslate2


def file(name, contents):
    return lambda folder: (folder / name).write_bytes(contents)


def one(head, data=b"", count=1, tail=bytes(4)):
    """Return a file of one variable, whose head is given."""
    start = struct.pack("<I", 6) + text("TransformerSpec") + struct.pack("<II", 7, count)
    return start + text("weight") + head + data + tail


WHOLE = model_bin(variables())
f4 = np.float32
BROKEN = {
    "no model": (lambda folder: (folder / "model.bin").unlink(), r"model\.bin"),
    "an empty file": (file("model.bin", b""), r"\b4 bytes"),
    "an older version": (file("model.bin", struct.pack("<I", 1) + WHOLE[4:]), "version 1,"),
    "another file": (file("model.bin", b"\xef\xff\0\0" + WHOLE[4:]), "version 65519"),
    "a variable that is cut off": (file("model.bin", WHOLE[:2000]), r"\b171 bytes.*attention/linear_2/weight"),
    "a byte too many": (file("model.bin", WHOLE + b"\0"), "end: 1;"),
    "no number of aliases": (file("model.bin", WHOLE[:-4]), r"\b4 bytes.*aliases"),
    "no number of variables": (file("model.bin", WHOLE[:26]), r"\b4 bytes.*variables"),
    "fewer variables": (file("model.bin", one(array(np.ones(1, f4)), count=2**32 - 1, tail=b"")), r"\b2 bytes.*name"),
    "too many axes": (file("model.bin", one(b"\xff" * 999)), "'weight' has 255 axes"),
    "a shape of all memory": (
        file("model.bin", one(b"\x03" + b"\xff" * 12 + struct.pack("<BI", 0, 16), bytes(16))),
        "'weight' has 16 bytes.* 79,228,162,458,924,105,385,300,197,375 ",
    ),
    "no numbers": (file("model.bin", one(struct.pack("<BIIBI", 2, 0, 2**32 - 1, 0, 0))), "'weight' has 0 bytes"),
    "numbers of all memory": (
        file("model.bin", one(struct.pack("<BIBI", 1, 2**30 - 1, 0, 2**32 - 4), bytes(12))),
        "4,294,967,276 bytes.*'weight'",
    ),
    "another type": (file("model.bin", one(struct.pack("<BIBI", 1, 1, 9, 4), bytes(4))), r"'weight'.* 9\b"),
    "a variable twice": (
        file("model.bin", one(array(np.ones(2, f4)), count=2, tail=text("weight") + array(np.ones(2, f4)))),
        "two variables 'weight'",
    ),
    "a name of other bytes": (file("model.bin", WHOLE.replace(b"decoder/emb", b"decoder\xff\xffem")), "name.*UTF-8"),
    "a name without its end": (file("model.bin", WHOLE.replace(b"gamma\0", b"gammaX", 1)), "name, 'decoder/.*gamma'"),
    "one final norm": (
        file("model.bin", model_bin({
            name: np.asarray(value) for name, value in variables().items() if "encoder/layer_norm" not in name
        })), "one stack only",
    ),
}  # fmt: skip
"""What needs other bytes, and one more; test_refused.py has the rest."""


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_is_said_in_one_line_and_no_run_is_left(tmp_path, refused, name):
    change, word = BROKEN[name]
    change(write_folder(tmp_path / "there"))
    refused(read_ctranslate2, "ctranslate2", tmp_path / "there", word)


def test_a_folder_opens_from_the_command_line(tmp_path, capsys):
    write_folder(tmp_path / "there")
    assert main(["import", "ctranslate2", str(tmp_path / "there"), "--out", str(tmp_path / "run")]) == 0
    assert "note: there is no sentencepiece model" in capsys.readouterr().out
    assert main(["translate", str(tmp_path / "run"), "word1 word2"]) == 0


# ---------------------------------------------------------------------------------------------------------------------
# Random damage

NUMBERS = [0, 1, 2, 4, 255, 2**16 - 1, 2**31, 2**32 - 1]


def damage(rng, data, name):
    """Return bytes with one random fault."""
    kind = rng.choice(("cut", "flip", "number", "repeat", "drop"))
    at = rng.randrange(len(data) if rng.random() < 0.5 else min(len(data), 400))
    if kind == "cut":
        return data[:at]
    if kind == "flip":
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    if kind == "number":
        size = rng.choice((1, 2, 4))
        number = (rng.choice(NUMBERS) % 2 ** (8 * size)).to_bytes(size, "little")
        return data[:at] + number + data[at + size :]
    return data[:at] + (data[at : at + 40] + data[at:] if kind == "repeat" else data[at + 8 :])


def test_random_damage_gives_an_error_of_one_line_or_a_model(tmp_path, bears):
    folder = write_folder(tmp_path / "there")
    names = ["model.bin", "model.bin", *sorted(path.name for path in folder.iterdir())]
    bears(read_ctranslate2, folder, names, damage, opened=20)
