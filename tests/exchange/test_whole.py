"""Whole results: all that is read of folders of other programs, and all that is written for them, as approved texts.

The folders are in the TOML file: their files, tensors by their names there, and changes of both. Every tensor holds
numbers of its own, which tell where they come from. transformers, CTranslate2 and tokenizers are not needed: stand-ins
of the last two do what is asked of them here, and the real tokenizers, where it is installed, must do the same.
"""

import io
import json
import re
import struct
import sys
from copy import deepcopy
from dataclasses import replace
from difflib import unified_diff
from math import prod
from pathlib import Path
from types import SimpleNamespace
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile
from zlib import crc32

import numpy as np
import pytest
from approved import check_approved
from ctranslate2_folders import model_bin
from safetensors import safe_open
from toml_cases import toml_table

import minitransformer as mt
from minitransformer.apps.cli import main
from minitransformer.apps.exchange import READERS, WRITERS, ExportError, Published, write_run
from minitransformer.apps.exchange.pytorch_names import from_pytorch, to_pytorch
from minitransformer.data import Characters, Closed, Pieces, TokenizerJson, Vocabulary, Words
from minitransformer.files import FileError, read_file, require_regular_file
from minitransformer.tasks import build
from minitransformer.training import Configuration

FOLDERS, READ = toml_table(__file__, "FOLDERS"), toml_table(__file__, "READ")
PROGRAMS = {"gpt2": "huggingface", "llama": "huggingface"}


# ---------------------------------------------------------------------------------------------------------------------
# Folders


def tensor(name, spec):
    """Return the tensor of a shape, or of a table of what else is said of it."""
    spec = spec if isinstance(spec, dict) else {"shape": spec}
    if "text" in spec:
        return np.frombuffer(spec["text"].encode().replace(b"<ff>", b"\xff"), "i1")
    shape = spec.get("shape", [])
    found = crc32(spec.get("like", name).encode()) % 29_989 + np.arange(prod(shape)).reshape(shape)
    if "value" in spec:
        found = np.full(shape, spec["value"])
    elif "waves" in spec:
        found = mt.arrays.to_numpy(mt.ops.sinusoidal_positions(*shape, "float32", *spec["waves"]))
    if spec.get("type") == "bf16":  # the upper half of a float32
        return (found.astype("f4").view("u4") >> 16).astype("u2")
    return np.asarray(found.astype(spec.get("type", "f4")), order=spec.get("order", "C"))


def sentencepiece(pieces):
    """Return a model of sentencepiece in the form of its protocol buffer."""

    def part(number, data):
        return bytes([number << 3 | 2, len(data)]) + data

    kinds = {"<unk>": 2, "UNK": 2, "<s>": 3, "</s>": 3}
    scored = [(part(1, one.encode()), struct.pack("<f", -place), kinds.get(one, 1)) for place, one in enumerate(pieces)]
    return b"".join(part(1, piece + b"\x15" + score + b"\x18" + bytes([kind])) for piece, score, kind in scored)


def safetensors(arrays, cut=None):
    """Return the bytes of a file of safetensors, which the library does not write for bfloat16."""
    head, data = {}, b""
    for name, array in arrays.items():
        kind = {"f2": "F16", "u2": "BF16", "f8": "F64", "i4": "I32"}.get(array.dtype.str[1:], "F32")
        head[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(head).encode()
    return (struct.pack("<Q", len(text)) + text + data)[:cut]


def npz(arrays, format=(1, 0), cut=None, compressed=False):
    """Return the bytes of a file of NumPy, with arrays of another format, or cut off."""
    whole = io.BytesIO()
    with ZipFile(whole, "w", ZIP_DEFLATED if compressed else ZIP_STORED) as file:
        for name, array in arrays.items():
            one = io.BytesIO()
            np.lib.format.write_array(one, array, version=tuple(format))
            file.writestr(f"{name}.npy", one.getvalue()[: cut if name == "Wemb" else None])
    return whole.getvalue()


SETS = {"model.bin": model_bin, ".npz": npz, ".safetensors": safetensors}
"""What makes files of tensors, by the ends of their names."""


def contents(name, value):
    """Return the bytes of a file."""
    if isinstance(value, dict) and (make := next((make for end, make in SETS.items() if name.endswith(end)), None)):
        how = value.pop("how", {})
        return make({one: tensor(one, spec) for one, spec in value.items()}, **how)
    if name.endswith(".spm") or name == "sentencepiece.model":
        return sentencepiece(value) if isinstance(value, list) else value.encode()
    if name == "stories.bin" and isinstance(value, dict):
        floats = np.arange(value["floats"], dtype="f4") + np.float32(value.get("value", 0))
        return value.get("magic", "").encode() + struct.pack("<7i", *value["sizes"]) + floats.tobytes()
    if name == "tokenizer.bin" and isinstance(value, list):
        pairs = ((score, token.encode().replace(b"<ff>", b"\xff")) for token, score in value)
        return struct.pack("<i", 9) + b"".join(struct.pack("<fi", s, len(t)) + t for s, t in pairs)
    return (value if isinstance(value, str) else json.dumps(value)).encode().replace(b"<ff>", b"\xff")


def edited(value, change):
    """Return a file, or a part of it, after a change."""
    if isinstance(value, dict) and isinstance(change, dict):
        whole = {name: edited(value.get(name), part) for name, part in change.items()}
        return {name: part for name, part in (value | whole).items() if not isinstance(part, str) or part != "<gone>"}
    if isinstance(value, str) and isinstance(change, dict):
        for old, new in change.items():
            assert value.count(old), old
            value = value.replace(old, new)
        return value
    return change


def write(folder, kind, changes):
    """Write a folder with changes of its files; return what to read."""
    folder.mkdir()
    for name, value in edited(deepcopy(FOLDERS[kind]), changes).items():
        (folder / name).write_bytes(contents(name, value))
    return folder / "stories.bin" if kind == "llama2c" else folder


# ---------------------------------------------------------------------------------------------------------------------
# Words for what was read or written


def tensors(arrays):
    """Yield a line for each array: its type, shape, first and last number, and a sum of all in their order.

    There is no such sum of numbers that processors may round differently.
    """
    for name, array in sorted(arrays.items()):
        exact = (array * 64 % 1 == 0).all()
        ends = [f"{one:g}" if exact else f"{one:.2f}" for one in (array.flat[0], array.flat[-1])]
        whole = f", {crc32(array.astype('<f8').tobytes()):08x}" if exact else ""
        order = "" if array.flags.c_contiguous else ", not in the order of C"
        yield f"{name}: {array.dtype} {array.shape} {' to '.join(ends)}{whole}{order}"


def tokens(side, one):
    """Yield lines about a tokeniser."""
    yield f"{side}: {type(one).__name__} of {' '.join(map(repr, one.tokens))}, unknown {one.unknown}"
    if isinstance(one, TokenizerJson):
        yield f"  ids there {one._theirs}, specials {one.specials}, ends {one.ends}, kept {one.kept}"
        yield f"  file {one.model}"
        return
    text = " ".join(token.strip("\N{LOWER ONE EIGHTH BLOCK}") for token in one.tokens[4:7])
    marker = f", marker {one.marker!r}" if hasattr(one, "marker") else ""
    model = f", model of {crc32(one.model):08x}" if hasattr(one, "model") else ""
    yield f"  {text!r} is {one.encode(text)}, all ids are {one.decode([*range(4, len(one))])!r}{marker}{model}"


def published(found):
    """Yield lines about all that was read."""
    yield from (f"{name} = {value!r}" for name, value in sorted(found.model.items()))
    yield from (f"search {name} = {value!r}" for name, value in sorted(found.search.items()))
    yield from tokens("source", found.source)
    yield from ["target: the source's"] if found.target is found.source else tokens("target", found.target)
    yield from (f"note: {note}" for note in found.notes)
    yield f"decoder only: {found.decoder_only}"
    yield from tensors(found.state)


OF_LIBRARIES = ("cannot be read as JSON", "not a file of safetensors")
"""The parts of a message behind which words of a library stand."""


def read(folder, kind, changes):
    """Return lines about a folder that is read, or its refusal."""
    path = write(folder, kind, changes)
    try:
        return list(published(READERS[PROGRAMS.get(kind, kind)](path)))
    except FileError as error:
        told = f"refused: {error}".replace("\\", "/").replace(folder.as_posix(), "FOLDER")
        return [re.sub("(" + "|".join(OF_LIBRARIES) + "): .*", r"\1: ...", told)]


def written(out, write, *arguments):
    """Return lines about the files that are written, or the refusal."""
    try:
        lines = [f"note: {note}" for note in write(*arguments, out)]
    except (ExportError, ValueError) as error:
        assert not out.exists()
        return [f"refused: {error}"]
    for path in sorted(out.iterdir()):
        if path.suffix == ".safetensors":
            with safe_open(path, framework="numpy") as file:
                found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                lines += [f"{path.name}: {file.metadata()}", *tensors(found)]
        else:
            data = path.read_bytes()
            text = [f"{crc32(data):08x}"] if path.suffix == ".spm" else data.decode().split("\n")
            lines += [f"{path.name}:", *text]
    return lines


def check_cases(name, first, cases, tell):
    """Compare what is told of each case with an approved text: the first whole, of the others what is different."""
    base = tell(0, first)
    text = [*base]
    for number, (title, case) in enumerate(cases.items(), start=1):
        found = tell(number, case)
        if not found[0].startswith("refused"):
            found = [one for one in unified_diff(base, found, n=0, lineterm="") if one[:3] not in ("---", "+++", "@@ ")]
        text += ["", f"# {title}", *found]
    check_approved(Path(__file__).with_name("approved_whole") / f"{name}.txt", "\n".join([*text, ""]))


# ---------------------------------------------------------------------------------------------------------------------
# Stand-ins


class Tokenizer:
    """What tokenizers does with a ``tokenizer.json`` of words between spaces."""

    def __init__(self, text):
        self.file = json.loads(text)
        self.model = SimpleNamespace(unk_token=self.file["model"].get("unk_token"))
        self.vocab = self.file["model"]["vocab"] | {one["content"]: one["id"] for one in self.file["added_tokens"]}
        self.token_to_id, self.get_vocab_size = self.vocab.get, self.vocab.__len__
        self.no_padding = self.no_truncation = lambda: None

    def get_vocab(self, with_added_tokens=True):
        return dict(self.vocab)

    def id_to_token(self, number):
        return {place: token for token, place in self.vocab.items()}.get(number)

    def encode(self, text, add_special_tokens=True):
        first = self.file.get("post_processor") or {"special_tokens": {}}
        return SimpleNamespace(ids=[i for one in first["special_tokens"].values() for i in one["ids"]] + [-1])


class Specification(SimpleNamespace):
    """A specification of CTranslate2 that keeps what it is told, and saves it as text."""

    @classmethod
    def from_config(cls, layers, heads, **options):
        parts = {name: SimpleNamespace() for name in ("encoder", "decoder", "config")}
        return cls(lines=[f"{layers} layers, {heads} heads, {options}"], weights={}, **parts)

    def __getattr__(self, name):
        return lambda *arguments: self.lines.append(f"{name}: {arguments}")

    def save(self, folder):
        parts = [f"{name}: {vars(getattr(self, name))}" for name in ("encoder", "decoder", "config")]
        arrays = {f"{part}/{name}": value for part, one in self.weights.items() for name, value in vars(one).items()}
        (Path(folder) / "model.txt").write_text("\n".join([*self.lines, *parts, *tensors(arrays)]), encoding="utf-8")


@pytest.fixture(params=["a stand-in", "tokenizers"])
def tokenizers(request, monkeypatch):
    """Let decoders alone be read without the package, and with it if it is installed."""
    if request.param == "tokenizers":
        pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    else:
        stand_in = SimpleNamespace(Tokenizer=SimpleNamespace(from_str=Tokenizer))
        monkeypatch.setitem(sys.modules, "tokenizers", stand_in)


# ---------------------------------------------------------------------------------------------------------------------
# What is read


def check_read(tmp_path, capsys, kind):
    """Compare all that is read of a folder, its import by command, and its changes."""
    check_cases(kind, {}, READ[kind], lambda number, changes: read(tmp_path / f"{number}", kind, changes))
    reader, run, path = READERS[PROGRAMS.get(kind, kind)], tmp_path / "run", write(tmp_path / "again", kind, {})
    found, lines = reader(path), []
    for wrong in (
        lambda: reader(tmp_path / "nowhere"),
        lambda: write_run(replace(found, state={}), run),
        lambda: write_run(replace(found, model={**found.model, "n_heads": 5}), run),
    ):
        with pytest.raises(FileError) as error:
            wrong()
        lines.append(f"refused: {error.value}".replace("\\", "/").replace(tmp_path.as_posix(), "FOLDER"))
        assert not run.exists()
    assert main(["import", PROGRAMS.get(kind, kind), str(path), "--out", str(run)]) == 0
    lines += [capsys.readouterr().out.replace("\\", "/").replace(run.as_posix(), "RUN").removesuffix("\n")]
    options = mt.load(run).options.flat()
    usual = Configuration.of_task(build("characters" if kind in ("gpt2", "llama", "llama2c") else "text")).flat()
    lines += [f"{name} = {value!r}" for name, value in options.items() if value != usual[name]]
    check_approved(Path(__file__).with_name("approved_whole") / f"run_of_{kind}.txt", "\n".join([*lines, ""]))


@pytest.mark.parametrize("kind", ["marian", "huggingface", "ctranslate2"])
def test_all_that_is_read_of_a_folder(tmp_path, capsys, kind):
    pytest.importorskip("sentencepiece")
    check_read(tmp_path, capsys, kind)


@pytest.mark.parametrize("kind", ["gpt2", "llama", "llama2c"])
def test_all_that_is_read_of_a_decoder_alone(tmp_path, capsys, tokenizers, kind):
    check_read(tmp_path, capsys, kind)


@pytest.mark.parametrize("kind", FOLDERS)
def test_weights_may_be_larger_than_other_files(tmp_path, monkeypatch, tokenizers, kind):
    path = write(tmp_path / "it", kind, {})
    largest = max(file.stat().st_size for file in (tmp_path / "it").iterdir())
    for function in (read_file, require_regular_file):
        monkeypatch.setattr(function, "__defaults__", (largest - 1,))
    assert READERS[PROGRAMS.get(kind, kind)](path).state


# ---------------------------------------------------------------------------------------------------------------------
# What is written

WRITTEN = toml_table(__file__, "WRITTEN")


def tokeniser(kind, words):
    """Return a tokeniser of one of these kinds."""
    if kind == "pieces":
        return Pieces(sentencepiece(["<unk>", *words]), Vocabulary(["<unk>", *words]))
    if kind == "characters":
        return Characters(Vocabulary(["<unk>", *"ab"]))
    found = Closed(Vocabulary(words), list, "".join)
    found.unknown = next((place for place, word in enumerate(words, 3) if word in "?!"), None)
    return found


def run_of(folder, case):
    """Return a run whose parameters are numbers of their own."""
    both = [tokeniser(kind, words) for kind, words in case["tokens"]]
    source, target = (both * 2)[:2]
    options, search = dict(case["model"]), case["search"]
    model = mt.nn.Transformer(len(source), len(target), **options)
    state = {name: tensor(name, [*value.shape]) for name, value in model.state_dict().items()}
    kept = [Words(Vocabulary(["<unk>", *map(str, range(4, len(one)))])) for one in (source, target)]
    write_run(Published(model=options, state=state, source=kept[0], target=kept[1], search=search), folder)
    return mt.load(folder)._replace(source=source, target=target)


@pytest.mark.parametrize("program", WRITERS)
def test_all_that_is_written_for_a_program(tmp_path, monkeypatch, program):
    pytest.importorskip("sentencepiece")
    specs = SimpleNamespace(TransformerSpec=Specification, Activation=lambda number: f"activation {number}")
    index = SimpleNamespace(index_spec=lambda spec, part: spec.weights.setdefault(part, SimpleNamespace()))
    monkeypatch.setitem(sys.modules, "ctranslate2.specs", specs)
    monkeypatch.setitem(sys.modules, "ctranslate2.specs.model_spec", index)
    first = WRITTEN[program].pop("first")

    def tell(number, changes):
        run = run_of(tmp_path / f"run {number}", edited(first, changes))
        return written(tmp_path / f"{number}", WRITERS[program], run)

    check_cases(f"written_for_{program}", {}, WRITTEN[program], tell)


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_all_that_is_written_of_a_decoder_alone(tmp_path, tokenizers, kind):
    def tell(number, changes):
        path = write(tmp_path / f"there {number}", kind, changes.get("folder", {}))
        write_run(READERS["huggingface"](path), tmp_path / f"run {number}")
        run = mt.load(tmp_path / f"run {number}")
        run.model.options = run.model.options.changed(**changes.get("options", {}))
        for name, row in changes.get("more", {}).items():
            dict(run.model.named_parameters())[name].data[row] += 1
        if "tokens" in changes:
            run = run._replace(target=tokeniser(*changes["tokens"]))
        return written(tmp_path / f"{number}", WRITERS[changes.get("program", "huggingface")], run)

    check_cases(f"written_of_{kind}", {}, WRITTEN[kind], tell)


def test_all_that_pytorch_gets_and_gives(tmp_path):
    cases = toml_table(__file__, "PYTORCH")

    def tell(number, case):
        model = mt.nn.Transformer(8, case.get("target", 8), d_model=4, n_heads=2, n_layers=2, d_ff=5, max_length=3,
                                  **case.get("model", {}))  # fmt: skip
        state = {name: tensor(name, [*value.shape]) for name, value in model.state_dict().items()}
        try:
            heads = case.get("heads", 2)
            there = to_pytorch(edited(state, arrays(case.get("here", {}))), heads, **case.get("to", {}))
            there = edited(there, arrays(case.get("there", {})))
            back = from_pytorch(there, case.get("heads back", heads), **case.get("back", {}))
        except ValueError as error:
            return [f"refused: {error}"]
        return [*tensors(there), "back:", *tensors(back)]

    def arrays(specs):
        return {name: spec if spec == "<gone>" else tensor(name, spec) for name, spec in specs.items()}

    check_cases("pytorch", {}, cases, tell)
