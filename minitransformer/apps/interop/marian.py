r"""Models of Marian: its own file ``.npz``, with the vocabularies.

========================  ==============================================================================================
``*.npz``                 the weights, and the options as YAML in ``special:model.yml``; one such file
``decoder.yml``           the names of the files, and the rules of the search (optional)
``*.yml`` or ``*.spm``    the vocabularies: one for both sides, or the two that ``decoder.yml`` names
``source.spm``, ...       sentencepiece models, if the vocabularies are ``.yml``; without them texts are split already
========================  ==============================================================================================

The names of the parameters. Matrices multiply from the right, as here; vectors have a first axis of 1 there.

=====================================================  =================================================================
here                                                   there
=====================================================  =================================================================
``source_embedding.table``, ``target_...``             ``Wemb`` if they are one, or ``encoder_Wemb``, ``decoder_Wemb``
``output``, ``output_bias``                            ``decoder_ff_logit_out_Wt`` or its transpose ``..._W``; ``..._b``
``encoder.layers.0``, ``decoder.layers.0``, ...        ``encoder_l1``, ``decoder_l1``, ..., in which
``self_attention``, ``cross_attention``                ``self``, ``context``, in which
``w_in`` (D, 3 D), ``b_in``; ``w_out``, ``b_out``      ``Wq``, ``Wk``, ``Wv``, ``bq``, ``bk``, ``bv``; ``Wo``, ``bo``
``feed_forward.w1``, ...                               ``ffn_W1``, ``ffn_b1``, ``ffn_W2``, ``ffn_b2``
``residual1.layer_norm``, ...                          ``self_Wo_ln``, ``context_Wo_ln``, ``ffn_ffn_ln``, in which
``gain``, ``bias``                                     ``scale``, ``bias``, with ``_pre`` behind it before a sub-layer
``encoder.final_norm``, ``decoder.final_norm``         ``encoder_top_ln``, ``decoder_top_ln``
=====================================================  =================================================================

Its decoder starts from zeros, and there is no padding: both are rows of zeros here that are never written.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import numpy as np

from minitransformer.apps.interop.model_bin import ModelBin, Variables
from minitransformer.apps.interop.published import OurIds, Published, arrange, read_pieces
from minitransformer.apps.interop.reading import parse_yaml, require_folder, shown
from minitransformer.apps.interop.writing import PROGRAMS
from minitransformer.arrays import Array
from minitransformer.data import Tokeniser, Words, sentencepiece_model
from minitransformer.files import FileError, parse_json, read_file, require_regular_file

ACTIVATIONS = {"relu": "relu", "swish": "silu", "gelu": "quick_gelu"}
OPTIONS = "special:model.yml"
ONLY = PROGRAMS["marian-options"]
"""The values of options that can be imported."""
NORMS = {("n", "da", "n"): "pre", ("", "dan", ""): "post"}
"""What precedes a sub-layer, follows it, and follows the stack; the order of layer norm that it is here."""
EPSILON = 1e-6
WHOLE = re.compile("[1-9][0-9]*")
NUMBER = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]{1,2})?", re.IGNORECASE)
NO = ("false", "no", "off", "n")
"""The words for false in Marian's files."""
Settings = Mapping[str, str | list[str]]
"""What a file of YAML holds."""


def parameters(n_encoder_layers: int, n_decoder_layers: int, norm: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield our parameters of the layers, each with the arrays there that hold it side by side, and their axes."""
    suffix = "_pre" if norm == "pre" else ""
    for stack, n_layers, attentions in (
        ("encoder", n_encoder_layers, ["self"]),
        ("decoder", n_decoder_layers, ["self", "context"]),
    ):
        for i in range(n_layers):
            ours, theirs = f"{stack}.layers.{i}", f"{stack}_l{i + 1}"
            for name in attentions:
                place = f"{ours}.{'cross' if name == 'context' else name}_attention"
                for kind, axes in (("W", "DD"), ("b", "1D")):
                    yield f"{place}.{kind.lower()}_in", [(f"{theirs}_{name}_{kind}{part}", axes) for part in "qkv"]
                    yield f"{place}.{kind.lower()}_out", [(f"{theirs}_{name}_{kind}o", axes)]
            for k, axes in ((1, "DF"), (2, "FD")):
                yield f"{ours}.feed_forward.w{k}", [(f"{theirs}_ffn_W{k}", axes)]
                yield f"{ours}.feed_forward.b{k}", [(f"{theirs}_ffn_b{k}", f"1{axes[1]}")]
            for k, name in enumerate([*(f"{name}_Wo" for name in attentions), "ffn_ffn"], start=1):
                for here, there in (("gain", "scale"), ("bias", "bias")):
                    yield f"{ours}.residual{k}.layer_norm.{here}", [(f"{theirs}_{name}_ln_{there}{suffix}", "1D")]
        for here, there in (("gain", "scale"), ("bias", "bias")) if norm == "pre" else ():
            yield f"{stack}.final_norm.{here}", [(f"{stack}_top_ln_{there}", "1D")]


def read_marian(folder: Path) -> Published:
    """Read a folder of Marian.

    Raises
    ------
    FileError
        If a file is missing or damaged, files do not belong together, or models here cannot compute what it computes.
    MissingExtraError
        If PyYAML is not installed, or there are sentencepiece models, but sentencepiece is not.
    """
    require_folder(folder, "give the one that holds Marian's .npz and its vocabulary")
    decoder = folder / "decoder.yml"
    rules = parse_yaml(decoder, read_file(decoder)) if decoder.exists() else {}
    path, vocabularies = _files(folder, rules)
    arrays = read_npz(path)
    if OPTIONS not in arrays:
        raise FileError(f"{path} has no {OPTIONS}, expected the options of the model")
    settings = parse_yaml(path, arrays.pop(OPTIONS).tobytes().rstrip(b"\0"))
    source, target, tokenisers = _vocabularies(folder, vocabularies)
    variables = Variables(ModelBin(path, 0, "", 0, arrays))
    model = _options(path, settings)
    state: dict[str, Array] = {}
    tables = ["Wemb"] if "Wemb" in arrays else ["encoder_Wemb", "decoder_Wemb"]
    d_model = variables.shape(tables[0])[1]
    lengths = {"D": d_model, "F": variables.shape("encoder_l1_ffn_W1")[1], "1": 1}
    model |= {"d_model": d_model, "d_ff": lengths["F"]}
    if d_model % model["n_heads"]:
        raise variables.error(f"{d_model} features and {model['n_heads']} heads", "a multiple of the heads")
    if len(tables) == 1 and source is not target:
        raise variables.error("one table of embeddings for both sides", "two, as there are two vocabularies")
    for name, side, ids in zip(tables, ("source", "target"), (source, target), strict=False):
        state[f"{side}_embedding.table"] = ids.table(variables.floats(name, (int(ids.rows.max()) + 1, d_model)))
    n, out = int(target.rows.max()) + 1, "decoder_ff_logit_out"
    if untied := f"{out}_W" in arrays or f"{out}_Wt" in arrays:
        rows = variables.floats(f"{out}_Wt", (n, d_model)) if f"{out}_Wt" in arrays else None
        state["output"] = target.table(variables.floats(f"{out}_W", (d_model, n)).T if rows is None else rows)
    has_bias = f"{out}_b" in arrays
    state["output_bias"] = target.bias(variables.floats(f"{out}_b", (1, n))[0] if has_bias else np.zeros(n, "f4"))
    share = {(1, False): "all", (1, True): "inputs", (2, False): "target", (2, True): False}
    model["share_embeddings"] = share[len(tables), untied]
    for ours, theirs in parameters(model["n_layers"], model["n_decoder_layers"], model["norm"]):
        parts = [variables.floats(name, tuple(lengths[axis] for axis in axes)) for name, axes in theirs]
        whole = np.concatenate(parts, axis=-1)
        state[ours] = whole[0] if theirs[0][1][0] == "1" else whole
    others = {name for name in variables.left if not name.startswith("special:") and name != "decoder_c_mt"}
    if others:
        raise variables.error(f"other arrays, {shown(sorted(others))}", "none of them")
    state = {name: np.require(array, requirements="C") for name, array in state.items()}
    search, notes = _search(decoder, rules, settings)
    return Published(model=model, state=state, source=tokenisers[0], target=tokenisers[1], search=search, notes=notes)


def read_npz(path: Path) -> dict[str, Array]:
    """Return the arrays of an uncompressed file of NumPy; no pickle is read.

    Raises
    ------
    FileError
        If it is missing, damaged or compressed, or holds anything but numbers.
    """
    require_regular_file(path, largest=None)
    found = {}
    try:
        with ZipFile(path) as file:
            for info in file.infolist():
                if info.compress_type != ZIP_STORED or info.file_size > path.stat().st_size:
                    raise FileError(f"{path}: {shown(info.filename)} is compressed, expected arrays as they are")
                found[info.filename.removesuffix(".npy")] = _array(file.read(info))
    except FileError:
        raise
    except (BadZipFile, OSError, EOFError, ValueError, TypeError, KeyError, SyntaxError, struct.error, RuntimeError,
            OverflowError, MemoryError, AttributeError) as error:  # fmt: skip
        reason = " ".join(f"{error}".split())[:200]
        raise FileError(f"{path} is damaged or not an .npz of numbers: {reason}") from error
    return found


def _array(data: bytes) -> Array:
    """Return the array of a file ``.npy``; its size is compared with its header before it is made."""
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"an array of format {version}")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, in_columns, dtype = read(file)
    if dtype.kind not in "fiu" or any(length < 1 for length in shape):
        raise ValueError(f"an array of {dtype} with the shape {shape}")
    if prod(shape) * dtype.itemsize != len(data) - file.tell():
        raise ValueError(f"{len(data) - file.tell():,} bytes for the shape {shape} of {dtype}")
    return np.frombuffer(data, dtype, offset=file.tell()).reshape(shape, order="F" if in_columns else "C")


def _files(folder: Path, rules: Settings) -> tuple[Path, list[Path]]:
    """Return the file of the weights, and one vocabulary or two."""
    models, given = ([folder / Path(name).name for name in _texts(rules.get(key))] for key in ("models", "vocabs"))
    models = models or sorted(path for path in folder.glob("*.npz") if ".optimizer." not in path.name)
    if len(models) != 1:
        raise FileError(f"{folder} has {len(models)} models, expected one .npz, or decoder.yml that names one")
    if not given:
        given = sorted(folder.glob("*vocab*.yml")) or sorted(folder.glob("*.spm"))
        given = given if len(given) == 1 else []
    if not 1 <= len(given) <= 2:
        raise FileError(f"{folder} has no vocabulary for both sides, expected *vocab*.yml, *.spm or decoder.yml")
    return models[0], list(dict.fromkeys(given))


def _texts(value: str | list[str] | None) -> list[str]:
    """Return a value as a list; one text is a list of it, and nothing an empty list."""
    return value if isinstance(value, list) else [value] if value else []


def _require(path: Path, settings: Settings, allowed: Mapping[str, Sequence[str]]) -> None:
    """Raise a FileError unless each option is missing, or has one of the values that can be imported."""
    for name, values in allowed.items():
        found = _texts(settings.get(name, values[0])) or [""]
        if found[1:] or _simple(found[0]) not in values:
            raise _error(path, settings, name, f"{' or '.join(map(repr, values))}: other values cannot be imported")


def _simple(value: str) -> str:
    """Return a value as the tables of ``programs.toml`` spell it."""
    if value.lower() in NO:
        return "false"
    return f"{float(value):g}" if NUMBER.fullmatch(value) else value


def _number(
    path: Path, settings: Settings, name: str, form: re.Pattern[str], usual: str = "", below: int = 1_000_000
) -> float:
    """Return an option that is a number, written in a form."""
    value = settings.get(name, usual)
    if not isinstance(value, str) or not form.fullmatch(value) or float(value) >= below:
        kind = "a whole number of 1 or more" if form is WHOLE else "a number of 0 or more"
        raise _error(path, settings, name, f"{kind}, less than {below:,}")
    return float(value)


def _error(path: Path, settings: Settings, name: str, expected: str) -> FileError:
    return FileError(f"{path}: {name} is {shown(settings.get(name))}, expected {expected}")


def _options(path: Path, settings: Settings) -> dict[str, Any]:
    """Return the options of the model that do not depend on its sizes."""
    _require(path, settings, ONLY)
    if "type" not in settings:
        raise _error(path, settings, "type", "'transformer'")
    order = tuple(
        f"{settings.get(f'transformer-{name}', usual)}"
        for name, usual in (("preprocess", ""), ("postprocess", "dan"), ("postprocess-top", ""))
    )
    if order not in NORMS:
        raise _error(
            path, settings, "transformer-postprocess", f"with preprocess and postprocess-top one of {list(NORMS)}"
        )
    activation = settings.get("transformer-ffn-activation", "swish")
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise _error(path, settings, "transformer-ffn-activation", f"one of {', '.join(ACTIVATIONS)}")
    return {
        "n_layers": int(_number(path, settings, "enc-depth", WHOLE)),
        "n_decoder_layers": int(_number(path, settings, "dec-depth", WHOLE)),
        "n_heads": int(_number(path, settings, "transformer-heads", WHOLE)),
        "norm": NORMS[order],
        "activation": ACTIVATIONS[activation],
        "attention_bias": True,
        "output_bias": True,
        "layer_norm_eps": EPSILON,
        "position_layout": "halves",
        "position_scale": "d_model-2",
    }


def _search(path: Path, rules: Settings, settings: Settings) -> tuple[dict[str, Any], list[str]]:
    """Return the options of the search; what the rules omit has the default of ``marian-decoder``."""
    _require(path, rules, PROGRAMS["marian-rules"])
    known = {*PROGRAMS["marian-rules"], *PROGRAMS["marian"]["carried"], *PROGRAMS["marian"]["no-effect"], *settings}
    for name in rules.keys() - known:  # options of the model have no effect here
        raise _error(
            path, rules, name, "an option of marian-decoder that can be imported; remove it if it changes nothing"
        )
    beam = int(_number(path, rules, "beam-size", WHOLE, usual="12", below=10_000))
    alpha = _number(path, rules, "normalize", NUMBER, usual="0", below=1000)
    notes = ["the search has Marian's width and length penalty, but its own rule for when to stop"]
    return {"beam": beam, "alpha": alpha, "penalty": "length"}, notes


def _vocabularies(folder: Path, paths: list[Path]) -> tuple[OurIds, OurIds, tuple[Tokeniser, Tokeniser]]:
    """Return the vocabularies of source and target, one object if they are one, and the tokenisers."""
    found = []
    for path in paths:
        tokens = _pieces_of(path) if path.suffix == ".spm" else _tokens_of(path)
        for token in ("</s>", "<unk>"):
            if token not in tokens:
                raise FileError(f"{path} has no {token!r}, expected the tokens of the end and of unknown words")
        end, unknown = tokens.index("</s>"), tokens.index("<unk>")
        found.append(arrange(tokens, pad=None, start=None, end=end, unknown=unknown, where=path))
    source, target = found[0], found[-1]
    own = [folder / name for name in ("source.spm", "target.spm")]
    spm = paths if paths[0].suffix == ".spm" else own if all(path.exists() for path in own) else []
    if spm:
        first = read_pieces(spm[0], source)
        return source, target, (first, first if len(spm) == 1 else read_pieces(spm[-1], target))
    words = Words(source.vocabulary)
    return source, target, (words, words if source is target else Words(target.vocabulary))


def _pieces_of(path: Path) -> list[str]:
    """Return the pieces of a sentencepiece model, in the order of their ids."""
    try:
        model = sentencepiece_model(read_file(path), "Pieces")
    except ValueError as error:
        raise FileError(f"{path}: {error}; fetch the file again") from error
    return [model.id_to_piece(number) for number in range(len(model))]


def _tokens_of(path: Path) -> list[str]:
    """Return the tokens of a vocabulary in YAML or JSON, which maps each to its id."""
    numbers: dict[int, str] = {}
    data = read_file(path)
    found: Settings
    try:
        found = {token: f"{number}" for token, number in parse_json(data).items()}
    except (ValueError, AttributeError):  # PyYAML would refuse JSON's pairs of surrogates
        found = parse_yaml(path, data)
    for token, number in found.items():
        if not isinstance(number, str) or not re.fullmatch("[0-9]{1,9}", number) or int(number) in numbers:
            raise FileError(f"{path}: {shown(token)} has the id {shown(number)}, expected an id of its own")
        numbers[int(number)] = token
    if sorted(numbers) != list(range(len(numbers))):
        raise FileError(f"{path}: expected the ids 0, 1, 2, ... without gaps")
    return [numbers[number] for number in range(len(numbers))]
