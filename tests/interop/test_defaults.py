"""What a folder does not say, and what two of its files say differently.

Each folder says everything first, nothing of it by default. Then it loses one thing at a time: only what that thing
decides may change, to the default of the program that wrote the folder. Expected values come from that program.
"""

import json
import struct
from itertools import product

import numpy as np
import pytest
from ctranslate2_folders import CONFIG, TOKENS, model_bin, text, variables, write_folder
from marian_folders import SIZES, configuration, tensors, tokens, write_tokenisers
from marian_npz import SETTINGS, arrays, write_vocabulary
from safetensors.numpy import load_file, save_file
from toml_cases import cases_from_toml, toml_table

from minitransformer import ops
from minitransformer.apps.interop import read_ctranslate2, read_huggingface, read_marian
from minitransformer.apps.interop.published import arrange, find_sinusoidal
from minitransformer.apps.interop.reading import Fields, read_tokens, shown
from minitransformer.apps.interop.to_ctranslate2 import _positions
from minitransformer.arrays import to_numpy
from minitransformer.data import Pieces, Words
from minitransformer.files import FileError
from minitransformer.nn import ModelOptions

pytest.importorskip("sentencepiece")
V = len(tokens())


def options(published):
    """Return all that a folder decides. ``ids`` are those of padding, start, end and unknown there, from 1; 0 is none.

    The first column of each table of embeddings holds the ids.
    """
    table = published.state.get("target_embedding.table", published.state["source_embedding.table"])
    return {
        **published.model,
        **published.search,
        "ids": np.rint(table[:4, 0]).astype(int).tolist(),
        "notes": [note.partition(":")[0] for note in published.notes],
        "kinds": (type(published.source), type(published.target), published.source is published.target),
    }


def numbered(table):
    table[:, 0] = np.arange(1, len(table) + 1)
    return table


def without(values, gone):
    return {name: value for name, value in values.items() if name not in gone}


# ---------------------------------------------------------------------------------------------------------------------
# Marian: the defaults are those of `marian-decoder --help` and `marian --help`

AUTHOR = "the search has Marian's width and length penalty, but its own rule for when to stop"
MARIAN = toml_table(__file__, "MARIAN") | {"notes": [AUTHOR], "kinds": (Words, Words, True)}
MARIAN_RULES = {"models": "\n  - b.npz", "vocabs": "\n  - v.yml\n  - v.yml", "beam-size": 3, "normalize": 0.6}


def write_marian(folder, gone=()):
    settings = {"dec-depth": 1, "transformer-heads": 4, "transformer-ffn-activation": "relu"}
    found = arrays(layers=(2, 1))
    numbered(found["Wemb"])
    for name in without({"a.npz": "wrong: 1\n", "b.npz": ""}, gone):
        kept = without(SETTINGS | settings | ({"type": "other"} if name == "a.npz" else {}), gone)
        text = "".join(f"{key}: {value}\n" for key, value in kept.items())
        special = {"special:model.yml": np.frombuffer(text.encode() + b"\0", "int8")}
        np.savez(folder / name, **special, **without(found, gone))
    write_vocabulary(folder / "v.yml")
    if {"vocabs", "decoder.yml"} & {*gone}:
        (folder / "v.yml").rename(folder / "my.vocab.yml")
    if "decoder.yml" not in gone:
        rules = without(MARIAN_RULES, gone)
        (folder / "decoder.yml").write_text("".join(f"{name}: {value}\n" for name, value in rules.items()))


@cases_from_toml
def test_what_marian_omits_has_its_default(tmp_path, gone, change):
    write_marian(tmp_path, gone)
    published = read_marian(tmp_path)
    assert options(published) == MARIAN | change
    bias = arrays(layers=(2, 1))["decoder_ff_logit_out_b"][0] * ("decoder_ff_logit_out_b" not in gone)
    np.testing.assert_array_equal(published.state["output_bias"], [-1e4, -1e4, *bias])


# ---------------------------------------------------------------------------------------------------------------------
# CTranslate2: the defaults are those of its specifications, and of `Translator.translate_batch`

NO_END = "no end token follows a source; if the model was trained with one, import it from its program"
NO_MODEL = "there is no sentencepiece model"
CTRANSLATE2 = toml_table(__file__, "CTRANSLATE2") | {"notes": [NO_MODEL], "kinds": (Words, Words, True)}


def write_ctranslate2_folder(folder, gone=(), **how):
    i8, texts = np.int8, {"unk_token": "word0", "eos_token": "word1", "bos_token": "word2"}
    config = CONFIG | texts | {"decoder_start_token": "word2", "add_source_eos": True, "layer_norm_epsilon": 1e-3}
    said = {"pre_norm": i8(0), "activation": i8(2), "scale_embeddings": i8(0)}
    said = {f"{stack}/{name}": value for stack in ("encoder", "decoder") for name, value in said.items()}
    said |= {"decoder/start_from_zero_embedding": i8(0)}
    if "config.json" in gone:
        said |= {name: np.frombuffer(text.encode(), "int8") for name, text in texts.items()}
        said |= {"with_source_eos": i8(1), "with_target_bos": i8(0), "with_source_bos": i8(0)}
        said |= {"user_decoder_start_tokens": i8(0)}
        how = {"version": 5, "revision": 6} | how
    else:
        (folder / "config.json").write_text(json.dumps(without(config, gone)))
    values = without(variables() | said, gone)
    numbered(values["decoder/embeddings/weight"])
    (folder / "model.bin").write_bytes(model_bin({name: np.asarray(v) for name, v in values.items()}, **how))
    tokens = TOKENS if "unk_token" in gone else (*TOKENS[:-1], "word9")
    (folder / "shared_vocabulary.txt").write_text("\n".join(tokens))


@cases_from_toml
def test_what_ctranslate2_omits_has_its_default(tmp_path, gone, change):
    write_ctranslate2_folder(tmp_path, gone)
    published = read_ctranslate2(tmp_path)
    assert options(published) == CTRANSLATE2 | change
    *_, end, unknown = options(published)["ids"]
    bias = variables()["decoder/projection/bias"] * ("decoder/projection/bias" not in gone)
    np.testing.assert_array_equal(published.state["output_bias"][:4], [-1e4, -1e4, bias[end - 1], bias[unknown - 1]])


# ---------------------------------------------------------------------------------------------------------------------
# Hugging Face: the defaults are those of MarianConfig, GenerationConfig and MarianTokenizer

NO_LIMIT = "no max_length is given"
CUT_OFF = "a translation that is cut off at the limit ranks below all that have ended"
NEVER = "padding and the start are never written, though bad_words_ids does not forbid both"
HUGGINGFACE = toml_table(__file__, "HUGGINGFACE") | {
    **SIZES,
    "ids": [V, V, 1, 2],
    "notes": [],
    "kinds": (Pieces, Pieces, False),
}
RULES = {
    "num_beams": 4, "length_penalty": 0.5, "early_stopping": True, "renormalize_logits": True, "max_length": 12,
    "forced_eos_token_id": 0, "bad_words_ids": [[V - 1], [4], [6]],
}  # fmt: skip
OF_RULES = toml_table(__file__, "OF_RULES")
OF_CONFIG = toml_table(__file__, "OF_CONFIG")
OFF_AND_ON = toml_table(__file__, "OFF_AND_ON")
OF_TOKENISER = ("pad_token", "eos_token", "unk_token", "separate_vocabs")


def write_huggingface_folder(folder, gone=(), generation=None, **changes):
    """Write a folder that says everything in ``config.json``, and the rules in ``generation_config.json`` if given."""
    write_tokenisers(folder)
    names = {"separate_vocabs": False, "pad_token": "<pad>", "eos_token": {"content": "</s>"}, "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(without(names, gone)))
    said = configuration(**SIZES) | RULES | {"dropout": 0.3, "decoder_vocab_size": V, "is_encoder_decoder": True}
    said |= {"tie_word_embeddings": True, "share_encoder_decoder_embeddings": False} | changes
    (folder / "config.json").write_text(json.dumps(without(said, gone)))
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation))
    found = tensors()
    table = numbered(found.pop("model.shared.weight"))
    found |= {f"model.{stack}.embed_tokens.weight": table.copy() for stack in ("encoder", "decoder")}
    save_file(without(found | {"lm_head.weight": table.copy()}, gone), folder / "model.safetensors")


def expected_of(*changes):
    """Return the options with changes; None removes one, and notes add up in the order of the reader."""
    whole = HUGGINGFACE | {"notes": [note for change in changes for note in change.get("notes", [])]}
    for change in changes:
        whole |= {name: value for name, value in change.items() if name != "notes"}
    return {name: value for name, value in whole.items() if value is not None or name == "forbidden"}


@pytest.mark.parametrize("name", [*OF_RULES, *OF_CONFIG, *OF_TOKENISER, "tokenizer_config.json", "lm_head.weight",
                                  "final_logits_bias"])  # fmt: skip
def test_what_hugging_face_omits_has_its_default(tmp_path, name):
    write_huggingface_folder(tmp_path, {name})
    if name == "tokenizer_config.json":
        (tmp_path / name).unlink()
    published = read_huggingface(tmp_path)
    same = name not in OF_RULES and name not in OF_CONFIG
    found = options(published)
    change = {} if same else (OF_RULES | OF_CONFIG)[name]
    assert found == expected_of({"kinds": found["kinds"]}, change)
    bias = tensors()["final_logits_bias"][0] * (name != "final_logits_bias")
    np.testing.assert_array_equal(published.state["output_bias"], [bias[-1], -1e4, *bias[:-1]])


@pytest.mark.parametrize("name", [*OF_RULES, *OF_CONFIG, *OFF_AND_ON])
def test_null_says_no_more_to_hugging_face_than_nothing(tmp_path, name):
    for generation in (None, RULES):
        found = []
        for said in ({}, {name: None}):
            rules = None if generation is None else {**without(generation, {name}), **said}
            write_huggingface_folder(tmp_path, {name} - said.keys(), rules, **said)
            found.append(options(read_huggingface(tmp_path)))
        assert found[0] == found[1]


# ---------------------------------------------------------------------------------------------------------------------
# Two files, or two fields, that say different things


OTHER_RULES = {
    "num_beams": (2, {"beam": 2}),
    "length_penalty": (2, {"alpha": 2.0}),
    "early_stopping": ("never", {"stop": "exact"}),
    "max_length": (30, {"most_written": 29}),
    "max_new_tokens": (7, {"most_written": 7}),
    "bad_words_ids": ([[V - 1], [8]], {"forbidden": [10]}),
}


@pytest.mark.parametrize("name", OTHER_RULES)
def test_the_rules_of_hugging_face_are_those_of_their_own_file(tmp_path, name):
    value, change = OTHER_RULES[name]
    write_huggingface_folder(tmp_path, generation=RULES | {name: value}, **{**RULES, "num_beams": 9, "max_length": 99})
    assert options(read_huggingface(tmp_path)) == expected_of(change)
    # what the file omits has the library's default, whatever config.json says
    write_huggingface_folder(tmp_path, generation={"renormalize_logits": True, name: value})
    order = ["max_length", "forced_eos_token_id", "bad_words_ids"]
    omitted = [OF_RULES[one] for one in (*OF_RULES.keys() - {*order}, *order) if one != name]
    omitted = [one for one in omitted if {*one} - {"notes"} - change.keys()]
    assert options(read_huggingface(tmp_path)) == expected_of(*omitted, change)


def test_the_special_tokens_of_hugging_face_are_those_of_the_rules(tmp_path):
    ids = {"pad_token_id": V - 1, "eos_token_id": [0], "decoder_start_token_id": V - 1}
    write_huggingface_folder(tmp_path, generation=RULES | ids, pad_token_id=2, eos_token_id=[0, 5])
    assert options(read_huggingface(tmp_path)) == HUGGINGFACE | {"kinds": (Pieces, Pieces, False)}
    write_huggingface_folder(tmp_path, generation=RULES | ids | {"decoder_start_token_id": 3})
    found = options(read_huggingface(tmp_path))
    # the start is a token of its own, so forbidding padding is not enough, and other tokens move by one
    assert found == HUGGINGFACE | {"ids": [V, 4, 1, 2], "notes": [NEVER], "forbidden": [5, 7]}
    for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id"):
        write_huggingface_folder(tmp_path, generation=RULES | ids | {name: [0, 5]})
        with pytest.raises(FileError, match=rf"generation_config.json: {name} is \[0, 5\], expected the id of one"):
            read_huggingface(tmp_path)


@pytest.mark.parametrize("name", OFF_AND_ON)
def test_rules_of_hugging_face_that_are_not_known_must_be_off(tmp_path, name):
    off, on = OFF_AND_ON[name]
    for where in ("config", "generation"):
        for value in (off, on, *([1 - off] if isinstance(off, int | float) else [])):
            said = {name: value}
            given = {"generation": RULES | said} if where == "generation" else said
            write_huggingface_folder(tmp_path, **given)
            if value is off or value == off:
                assert options(read_huggingface(tmp_path)) == HUGGINGFACE
            else:
                with pytest.raises(FileError, match=f"{name} is .* no such rule"):
                    read_huggingface(tmp_path)


@cases_from_toml
def test_each_kind_of_value_at_its_edges(tmp_path, kind, limits, right, wrong):
    for value in (*right, *wrong):
        (tmp_path / "a.json").write_text(json.dumps({"x": value}))
        read = getattr(Fields(tmp_path / "a.json"), kind)
        if value in right and type(value) in {type(one) for one in right}:
            assert read("x", **limits) == (value["content"] if isinstance(value, dict) else value)
        else:
            with pytest.raises(FileError, match=r"x is .*, expected "):
                read("x", **limits)
    with pytest.raises(FileError, match="y is missing, expected "):
        read("y", **limits)
    assert read("y", right[0], **limits) == right[0]


def test_a_list_of_tokens_line_by_line(tmp_path):
    table = {"a\nb\n": ["a", "b"], "a\nb": ["a", "b"], "a\n\n": ["a", ""], "a\r\nb\r\n": ["a", "b"],
             "a\r\nb\n": ["a\r", "b"]}  # fmt: skip
    for text_, expected in table.items():
        (tmp_path / "shared_vocabulary.txt").write_bytes(text_.encode())
        assert read_tokens(tmp_path, "shared") == (tmp_path / "shared_vocabulary.txt", expected)
    assert read_tokens(tmp_path, "source") is None
    assert [len(shown("x" * n)) for n in (78, 79, 500)] == [80, 83, 83]
    assert shown("x" * 79) == "'" + "x" * 79 + "..."
    both = arrange(["</s>", "<unk>", "a", "b"], pad=3, start=0, end=0, unknown=1, where=tmp_path)
    assert [both.ours(number) for number in (0, 1, 2, 3)] == [2, 3, 4, 0]


# ---------------------------------------------------------------------------------------------------------------------
# Each spelling, type and edge


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_tokens_of_marian_in_every_spelling(tmp_path, end):
    write_marian(tmp_path)
    for line, token in toml_table(__file__, "YAML").items():
        lines = [line.replace(": 0", ": 2").replace(":   0", ":   2"), "</s>: 0", "<unk>: 1"]
        lines += [f"t{number}: {number}" for number in range(3, 14)]
        (tmp_path / "v.yml").write_text(end.join("\n".join(lines).split("\n")), encoding="utf-8", newline="")
        assert read_marian(tmp_path).source.tokens[4] == token


@cases_from_toml
def test_numbers_of_marian_at_their_edges(tmp_path, beam, normalize, right):
    write_marian(tmp_path)
    text = (tmp_path / "decoder.yml").read_text().replace("0.6", normalize).replace("size: 3", f"size: {beam}")
    (tmp_path / "decoder.yml").write_text(text)
    if right:
        assert options(read_marian(tmp_path)) == MARIAN | {"beam": int(beam), "alpha": float(normalize)}
    else:
        with pytest.raises(FileError, match=r"expected a (whole )?number"):
            read_marian(tmp_path)


@pytest.mark.parametrize(
    ("types", "kind"),
    [({}, "float32"), ({"model.encoder.layers.0.fc1.bias": "f8"}, "float64"), ({None: "f2"}, "float32")],
)
def test_the_type_of_a_hugging_face_model_is_the_widest_of_its_tensors(tmp_path, types, kind):
    write_huggingface_folder(tmp_path)
    expected = read_huggingface(tmp_path).state
    found = load_file(tmp_path / "model.safetensors")
    found = {name: array.astype(types.get(name, types.get(None, "f4"))) for name, array in found.items()}
    for stack in ("encoder", "decoder"):
        waves = to_numpy(ops.sinusoidal_positions(9, 16, layout="halves"))
        found[f"model.{stack}.embed_positions.weight"] = waves.astype(types.get(None, "f4"))
    save_file(found, tmp_path / "model.safetensors")
    read = read_huggingface(tmp_path)
    assert options(read) == HUGGINGFACE | {"dtype": kind}
    assert {f"{array.dtype}" for array in read.state.values()} == {kind}
    for name, array in read.state.items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-3, atol=1e-4)
    rest = {name: array for name, array in found.items() if "embed_positions" not in name}
    for name in found.keys() - rest.keys():  # the other one may be missing
        save_file(rest | {name: waves.astype("f4") + np.float32(2e-5)}, tmp_path / "model.safetensors")
        with pytest.raises(FileError, match=f"{name} does not hold the sines"):
            read_huggingface(tmp_path)


@pytest.mark.parametrize("d_model", [2, 3, 4, 6, 8])
def test_positions_that_are_written_are_found_again(d_model):
    """CTranslate2 computes one kind itself; for the others there is a table of the positions."""
    scales = ("d_model", "d_model-2") if d_model in (4, 6, 8) else ("d_model",)
    for kind in product(("interleaved", "halves"), scales, range(3)):
        said = dict(zip(("position_layout", "position_scale", "first_position"), kind, strict=True))
        written = dict(_positions({}, ModelOptions(d_model=d_model, n_heads=1, **said)))
        assert bool(written) == (kind != ("halves", "d_model-2", 1))
        for table in written.values():
            found = find_sinusoidal(table, table.dtype)
            if d_model == 2:  # the layouts are the same
                found = found | {"position_layout": said["position_layout"]}
            assert found == said


def test_numbers_of_every_type_in_model_bin(tmp_path):
    """bfloat16 is the upper half of float32; int16 without a scale is divided by 1000."""
    name, values = "decoder/embeddings/weight", variables()
    table = (2.0 ** (np.arange(13 * 8).reshape(13, 8) % 5 - 2)).astype("f4")
    data = model_bin(values | {name: table})
    head = text(name) + struct.pack("<B2I", 2, 13, 8)
    whole = head + struct.pack("<BI", 0, table.nbytes) + table.tobytes()
    assert whole in data
    upper = (table.view(np.uint32) >> 16).astype(np.uint16)
    whole16 = head + struct.pack("<BI", 5, upper.nbytes) + upper.tobytes()
    folder = write_folder(tmp_path)
    expected = read_ctranslate2(write_folder(tmp_path, values | {name: table})).state["target_embedding.table"]
    (folder / "model.bin").write_bytes(data.replace(whole, whole16))
    np.testing.assert_array_equal(read_ctranslate2(folder).state["target_embedding.table"], expected)
    thousand = values | {name: (1000 * table).astype("i2")}
    found = read_ctranslate2(write_folder(tmp_path, thousand)).state["target_embedding.table"]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(("change", "right"), [
    ({"pad": -1}, False), ({"start": 4}, False), ({"end": -1}, False), ({"unknown": 4}, False), ({"pad": 2}, False),
    ({"pad": 0}, False), ({"end": 0}, False), ({"start": 0}, False), ({"start": 2}, True), ({"start": 3}, True),
    ({"unknown": 3}, True), ({"pad": 3}, True),
], ids=str)  # fmt: skip
def test_ids_are_those_of_tokens_and_different(tmp_path, change, right):
    """The start may be that of padding or of the end; an id is within the tokens."""
    given, tokens = {"pad": 1, "start": 1, "end": 2, "unknown": 0, **change}, ["a", "b", "c", "d"]
    if right:
        assert arrange(tokens, **given, where=tmp_path).rows.tolist()[:4] == [*given.values()]
    else:
        with pytest.raises(FileError, match=r"expected (0 to 3|a different id)"):
            arrange(tokens, **given, where=tmp_path)
