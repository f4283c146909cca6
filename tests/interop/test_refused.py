"""What is not read of another program's folder: the message names the file, and the value or the tensor in it.

Every tensor, every file and every value is taken away or changed in turn. What a reader does without is listed here.
"""

import json
import re
from dataclasses import replace

import ctranslate2_folders
import decoder_folders
import marian_folders
import marian_npz
import numpy as np
import pytest
from ctranslate2_folders import model_bin
from safetensors.numpy import load_file, save_file
from toml_cases import toml_table

from minitransformer.apps.cli import main
from minitransformer.apps.interop import READERS, write_run
from minitransformer.data import Characters, Pieces, Words
from minitransformer.files import FileError, read_file, require_regular_file

pytest.importorskip("sentencepiece")


def write_huggingface(folder):
    marian_folders.write_folder(folder)
    names = ("num_beams", "max_length", "bad_words_ids", "forced_eos_token_id")
    config = json.loads((folder / "config.json").read_text())
    rules = {name: config.pop(name) for name in names}
    rules |= {name: config.pop(name) for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id")}
    (folder / "generation_config.json").write_text(json.dumps(rules))
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def write_marian(folder):
    marian_npz.write_folder(folder, marian_npz.arrays(layers=(1, 1)), {"enc-depth": 1, "dec-depth": 1})
    (folder / "decoder.yml").write_text(
        "models:\n  - model.npz\nvocabs:\n  - vocab.yml\nbeam-size: 3\nnormalize: 0.5\n"
    )
    return folder


FOLDERS = {
    "huggingface": write_huggingface,
    "gpt2": lambda folder: decoder_folders.write_folder(folder, "gpt2"),
    "llama": lambda folder: decoder_folders.write_folder(folder, "llama"),
    "mistral": lambda folder: decoder_folders.write_folder(folder, "llama", model_type="mistral", sliding_window=70),
    "ctranslate2": ctranslate2_folders.write_folder,
    "marian": write_marian,
}
KINDS = ["huggingface", "gpt2", "llama", "ctranslate2", "marian"]


@pytest.fixture(autouse=True)
def tokenizers(monkeypatch):
    decoder_folders.without_tokenizers(monkeypatch)


def read(kind, folder):
    return READERS[kind if kind in READERS else "huggingface"](folder)


def load(kind, folder):
    """Return the arrays of a folder by name, and a function that writes others."""
    if kind == "ctranslate2":
        return ctranslate2_folders.variables(), lambda found: (folder / "model.bin").write_bytes(model_bin(found))
    if kind == "marian":
        with np.load(folder / "model.npz") as file:
            return dict(file), lambda found: np.savez(folder / "model.npz", **found)
    return load_file(folder / "model.safetensors"), lambda found: save_file(found, folder / "model.safetensors")


def refuse(kind, folder, *words):
    """Check that a folder is refused in one line that has one of some words."""
    with pytest.raises(FileError) as error:
        read(kind, folder)
    said = str(error.value)
    assert "\n" not in said
    assert any(word in said for word in words), (said, words)


# ---------------------------------------------------------------------------------------------------------------------
# Tensors

OPTIONAL = {
    "huggingface": "final_logits_bias",
    "gpt2": "nothing",
    "llama": "nothing",
    "ctranslate2": "bias|num_heads|pre_norm|activation",  # which have their defaults; 8 heads for 8 features
    "marian": "decoder_ff_logit_out_b",
}
SAME_FOR_OTHERS = {"encoder_Wemb", "encoder/embeddings/weight", "layer norm after one stack", "layers", "type",
                   "other numbers than sines", "no weight_map"}  # fmt: skip
"""What the message names where the tensor that is missing could be in another form."""


@pytest.mark.parametrize("kind", KINDS)
def test_every_tensor_is_needed_and_no_other_is_ignored(tmp_path, kind):
    arrays, save = load(kind, FOLDERS[kind](tmp_path / "there"))
    whole = read(kind, tmp_path / "there").state
    for name in arrays:
        save({other: array for other, array in arrays.items() if other != name})
        if re.search(OPTIONAL[kind], name):
            if "heads" not in name and name.endswith("bias"):
                found = read(kind, tmp_path / "there").state
                assert found.keys() == whole.keys()
                assert sum(not np.array_equal(found[one], whole[one]) for one in whole) == 1
        else:
            refuse(
                kind, tmp_path / "there", name.rpartition("transformer.")[2].removeprefix("model."), *SAME_FOR_OTHERS
            )
    for name in ("other", next(name for name, array in arrays.items() if array.ndim == 2) + ".more"):
        save(arrays | {name: np.ones(3, "f4")})
        refuse(kind, tmp_path / "there", name.removeprefix("model."))


@pytest.mark.parametrize("kind", KINDS)
def test_every_tensor_has_its_shape_and_finite_numbers(tmp_path, kind):
    arrays, save = load(kind, FOLDERS[kind](tmp_path / "there"))
    for name, array in arrays.items():
        if not array.ndim or name == "special:model.yml":
            continue
        short = name.rpartition("transformer.")[2].removeprefix("model.")
        save(arrays | {name: np.concatenate((array, array[-1:]))})
        refuse(
            kind, tmp_path / "there", short, "final_logits_bias", "vocab_size", "encoder_l1_ffn", "ffn/linear", "Wemb"
        )
        wrong = array.copy()
        wrong.flat[-1] = np.nan
        save(arrays | {name: wrong})
        refuse(kind, tmp_path / "there", short)
        whole = {"i4": array.astype("i4")} if kind != "marian" else {"i2": array.astype("i2"), "?": array > 0}
        for kind_of_numbers, numbers in whole.items():
            save(arrays | {name: numbers})
            refuse(kind, tmp_path / "there", short, "bool" if kind_of_numbers == "?" else short)


def test_a_matrix_of_marian_has_two_axes(tmp_path):
    arrays, save = load("marian", write_marian(tmp_path / "there"))
    for name in ("Wemb", "encoder_l1_ffn_W1"):
        save(arrays | {name: np.array(1.0)})
        refuse("marian", tmp_path / "there", f"{name} of shape ()")


@pytest.mark.parametrize(
    ("kind", "prefix", "table"), [("gpt2", "transformer.", "wte"), ("llama", "model.", "embed_tokens")]
)
def test_a_decoder_alone_may_have_masks_frequencies_and_its_table_twice(tmp_path, kind, prefix, table):
    arrays, save = load(kind, FOLDERS[kind](tmp_path / "there"))
    expected = read(kind, tmp_path / "there").state
    more = (f"{prefix}{name}" for name in ("h.0.attn.bias", "h.0.attn.masked_bias", "layers.0.rotary_emb.inv_freq"))
    save(arrays | dict.fromkeys(more, np.ones(2)))
    found = read(kind, tmp_path / "there").state
    assert all(np.array_equal(found[name], expected[name]) for name in expected)
    write_value(kind, tmp_path / "there", "config.json", "tie_word_embeddings", True)
    refuse(kind, tmp_path / "there", "lm_head.weight")  # is another table
    save(arrays | {"lm_head.weight": arrays[f"{prefix}{table}.weight"].copy()})
    assert "output" not in read(kind, tmp_path / "there").state
    if kind == "gpt2":  # whose names may have no prefix
        save({name.removeprefix(prefix): array for name, array in arrays.items() if name != "lm_head.weight"})
        assert "output" not in read(kind, tmp_path / "there").state


def test_tables_that_are_said_to_be_one_are_equal(tmp_path):
    arrays, save = load("huggingface", write_huggingface(tmp_path / "there"))
    table = arrays["model.shared.weight"]
    for name in ("lm_head.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"):
        save(arrays | {name: table.copy()})
        assert read("huggingface", tmp_path / "there").model["share_embeddings"] == "all"
        save(arrays | {name: table + 1})
        refuse("huggingface", tmp_path / "there", name)


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_positions_in_a_file_of_hugging_face_are_sinusoids(tmp_path, stack):
    arrays, save = load("huggingface", write_huggingface(tmp_path / "there"))
    name = f"model.{stack}.embed_positions.weight"
    for wrong in (np.ones((9, 16), "f4"), np.ones((9, 15), "f4"), np.ones(16, "f4")):
        save(arrays | {name: wrong})
        refuse("huggingface", tmp_path / "there", name)


NUMBERS = {
    "num_heads": [(1, 2), (-2, -2), (1.5, 1.5), ([2], [2]), (np.nan, np.nan), (3, 3)],
    "pre_norm": [(1, 0)],
    "activation": [(0, 2), (5, 5)],
    "scale_embeddings": [(2.5, 2.5), (1, 0), (3.0, 2.8284271)],
    "multi_query_attention": [(1, 0)],
    "alibi": [(0, 1)],
    "scale_alibi": [(0, 1)],
    "position_encodings/encodings": [(np.ones((9, 8)), np.ones((8, 8))), (np.ones((9, 7)), np.ones((9, 8)))],
    "layer_0/self_attention/relative_position_keys": [(np.ones((3, 4)), np.ones((3, 4)))],
}
NAMED = {"num_heads": "heads", "scale_embeddings": "multiplied", "position_encodings/encodings": "other positions"}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_ctranslate2_that_ours_cannot_have(tmp_path, name):
    values, save = load("ctranslate2", FOLDERS["ctranslate2"](tmp_path / "there"))
    for pair in NUMBERS[name]:
        arrays = [np.asarray(one, "f4" if isinstance(one, float | np.ndarray) else "i2") for one in pair]
        save(values | {f"{stack}/{name}": one for stack, one in zip(("encoder", "decoder"), arrays, strict=True)})
        refuse("ctranslate2", tmp_path / "there", name, NAMED.get(name, name))


@pytest.mark.parametrize("name", ["alignment_layer", "alignment_heads", "embeddings_merge"])
def test_numbers_of_ctranslate2_that_change_nothing(tmp_path, name):
    values, save = load("ctranslate2", FOLDERS["ctranslate2"](tmp_path / "there"))
    expected = read("ctranslate2", tmp_path / "there")
    off = {f"{stack}multi_query_attention": np.asarray(np.int8(0)) for stack in ("encoder/",)}
    save(values | {f"{stack}{name}": np.asarray(np.int8(1)) for stack in ("", "encoder/", "decoder/")} | off)
    found = read("ctranslate2", tmp_path / "there")
    assert found.model == expected.model
    assert found.state.keys() == expected.state.keys()


@pytest.mark.parametrize(("scale", "older", "scaled"), [
    (2.8284271, False, True), (2.829, False, True), (1.0, False, False), (1, False, True), (0, False, False),
    (2.8284271, True, True), (1.0, True, False), (0, True, False), (1, True, True),
])  # fmt: skip
def test_how_ctranslate2_says_that_embeddings_are_scaled(tmp_path, scale, older, scaled):
    """A switch is a whole number; a factor is a fraction, and may be the root of the 8 features or 1."""
    values, save = load("ctranslate2", FOLDERS["ctranslate2"](tmp_path / "there"))
    number = np.asarray(scale, "f4" if isinstance(scale, float) else "i1")
    names = ["encoder/scale_embeddings", "decoder/scale_embeddings"]
    if older:
        names = [f"{place}/multiply_by_sqrt_depth" for place in ("encoder/embeddings_0", "decoder/embeddings")]
    save(values | dict.fromkeys(names, number))
    assert read("ctranslate2", tmp_path / "there").model["scale_embeddings"] == scaled


LINEAR = "decoder/layer_0/ffn/linear_1/"
WRONG_SCALES = {
    "whole numbers without a scale": {"weight": np.ones((8, 12), "i1")},
    "whole scales": {"weight": np.ones((8, 12), "i1"), "weight_scale": np.asarray(np.int16(2))},
    "scales of columns": {"weight": np.ones((8, 12), "i1"), "weight_scale": np.ones(12, "f4")},
    "a scale of 0": {"weight": np.ones((8, 12), "i1"), "weight_scale": np.zeros((), "f4")},
    "scaled biases": {"bias": np.ones(8, "i1"), "bias_scale": np.ones((), "f4")},
    "numbers of 32 bits": {"weight": np.ones((8, 12), "i4"), "weight_scale": np.ones((), "f4")},
}


@pytest.mark.parametrize("name", WRONG_SCALES)
def test_whole_numbers_of_ctranslate2_need_a_scale(tmp_path, name):
    values, save = load("ctranslate2", FOLDERS["ctranslate2"](tmp_path / "there"))
    save(values | {LINEAR + part: array for part, array in WRONG_SCALES[name].items()})
    refuse("ctranslate2", tmp_path / "there", LINEAR)


@pytest.mark.parametrize("how", [
    {"specification": "WhisperSpec"}, {"revision": 8}, {"revision": 1}, {"version": 7}, {"aliases": [("a", "b")]},
    {"aliases": [("decoder/projection/weight", "decoder/embeddings/weight")]},
], ids=str)  # fmt: skip
def test_other_forms_of_model_bin(tmp_path, how):
    ctranslate2_folders.write_folder(tmp_path / "there", **how)
    found = next(iter(how.values()))
    refuse("ctranslate2", tmp_path / "there", found[0][0] if isinstance(found, list) else str(found))


@pytest.mark.parametrize("name", ["with_source_bos", "user_decoder_start_tokens", "unk_token"])
def test_what_older_files_of_ctranslate2_say_of_tokens(tmp_path, name):
    wrong = np.array([-1, -1], "i1") if name == "unk_token" else np.asarray(np.int8(1))
    folder = ctranslate2_folders.write_folder(
        tmp_path / "there", ctranslate2_folders.variables() | {name: wrong}, version=5, revision=6
    )
    (folder / "config.json").unlink()
    refuse("ctranslate2", folder, name, "start token")


@pytest.mark.parametrize(
    ("specification", "heads"), [("TransformerBase", 8), ("TransformerSpec", 8), ("TransformerBig", 16)]
)
def test_ctranslate2_has_usual_numbers_of_heads(tmp_path, specification, heads):
    values = {name: value for name, value in ctranslate2_folders.variables().items() if "num_heads" not in name}
    folder = ctranslate2_folders.write_folder(tmp_path / "there", values, specification=specification)
    if heads == 8:
        assert read("ctranslate2", folder).model["n_heads"] == 8
    else:
        refuse("ctranslate2", folder, "8 features and 16 heads")


# ---------------------------------------------------------------------------------------------------------------------
# Values of configurations

REFUSED = {kind: toml_table(__file__, kind) for kind in FOLDERS}
BESIDE = {
    "eos_token_id": ("end",), "pad_token_id": ("pad",), "decoder_start_token_id": ("99", "the start"),
    "encoder_attention_heads": ("decoder_attention_heads",), "encoder_layers": ("tensor",),
    "separate_vocabs": ("target_vocab.json",), "pad_token": ("missing",), "eos_token": ("missing", "end"),
    "unk_token": ("missing", "unknown"), "decoder_start_token": ("missing",), "tie_word_embeddings": ("lm_head",),
    "n_head": ("n_heads",), "layer_norm_epsilon": ("layer_norm_eps",), "rms_norm_eps": ("layer_norm_eps",),
    "bos_token_id": ("unk", "START"), "num_key_value_heads": ("n_kv_heads",), "rope_theta": ("rotary_base",),
    "head_dim": ("d_k",), "rope_scaling": ("low_freq_factor",), "transformer-heads": ("3 heads",),
    "transformer-preprocess": ("postprocess",), "transformer-postprocess-top": ("postprocess",),
    "vocab_size": ("vocab",),
}  # fmt: skip
"""What the message names where the value itself could be right."""


def write_value(kind, folder, file, name, value):
    if kind == "marian":
        change = {} if value == "<gone>" else {name: value}
        if file == "settings":
            settings = {key: one for key, one in marian_npz.SETTINGS.items() if key != name}
            text = "\n".join(f"{key}: {one}" for key, one in (settings | change).items())
            np.savez(
                folder / "model.npz", **marian_npz.arrays(), **{"special:model.yml": np.frombuffer(text.encode(), "i1")}
            )
        else:
            rules = {"vocabs": "\n  - vocab.yml", "models": "\n  - model.npz", **change}
            (folder / "decoder.yml").write_text("".join(f"{key}: {one}\n" for key, one in rules.items()))
        return
    path = folder / file
    values = json.loads(path.read_text()) if path.exists() else {}
    values |= {name: value}
    path.write_text(json.dumps({key: one for key, one in values.items() if one != "<gone>"}))


@pytest.mark.parametrize(("kind", "file"), [(kind, file) for kind in FOLDERS for file in REFUSED[kind]])
def test_a_value_that_our_models_cannot_have_is_named(tmp_path, kind, file):
    names = {"settings": "model.npz", "rules": "decoder.yml"}
    for number, (name, value) in enumerate(
        (name, value) for name, all_ in REFUSED[kind][file].items() for value in all_
    ):
        folder = FOLDERS[kind](tmp_path / f"{number}")
        write_value(kind, folder, file, name, value)
        with pytest.raises(FileError) as error:
            pytest.fail(f"{name} {value!r} was read: {read(kind, folder)}")
        said = str(error.value)
        assert "\n" not in said
        assert any(word in said for word in (name, *BESIDE.get(name, ()))), (said, name, value)
        assert names.get(file, file) in said or name in BESIDE, said


CONTRADICTIONS = toml_table(__file__, "contradictions")


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, all_ in CONTRADICTIONS.items() for name in all_])
def test_two_fields_that_contradict_each_other_are_refused(tmp_path, kind, name):
    folder = FOLDERS[kind](tmp_path / "folder")
    config = json.loads((folder / "config.json").read_text())
    fields = CONTRADICTIONS[kind][name]
    if not {"rope_theta", "rope_parameters"} <= fields.keys():
        config.pop("rope_theta", None)
    (folder / "config.json").write_text(json.dumps(config | fields))
    refuse(kind, folder, f": {name.strip()} is", f"as {name} in config.json")


@pytest.mark.parametrize("kind", ["llama", "gpt2", "huggingface"])
def test_a_field_that_occurs_twice_with_two_values_is_refused(tmp_path, kind):
    folder = FOLDERS[kind](tmp_path / "folder")
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text(config.replace("{", '{"vocab_size": 7, ', 1))
    refuse(kind, folder, "'vocab_size' occurs twice")


def test_two_fields_that_agree_are_read(tmp_path):
    folder = FOLDERS["llama"](tmp_path / "folder")
    config = json.loads((folder / "config.json").read_text())
    turns = {"rope_type": "default", "rope_theta": config["rope_theta"]}
    agreed = {"rope_parameters": turns, "rope_scaling": turns | {"type": "default"}, "partial_rotary_factor": 1.0}
    (folder / "config.json").write_text(json.dumps(config | agreed | {"architectures": ["LlamaForCausalLM"]}))
    assert read("llama", folder).model["rotary_base"] == config["rope_theta"]


def test_the_frequency_may_stand_in_one_of_three_places(tmp_path):
    folder = FOLDERS["llama"](tmp_path / "folder")
    config = json.loads((folder / "config.json").read_text())
    base = config.pop("rope_theta")
    turns = {"rope_type": "default"}
    for fields in (
        {"rope_parameters": turns | {"rope_theta": base}, "rope_scaling": turns},
        {"rope_parameters": turns, "rope_scaling": turns | {"rope_theta": base}},
        {"rope_parameters": turns, "rope_scaling": turns, "rope_theta": base},
    ):
        (folder / "config.json").write_text(json.dumps(config | fields))
        assert read("llama", folder).model["rotary_base"] == base


@pytest.mark.parametrize("model_type", ["gpt_neox", None])
def test_an_unknown_model_type_is_named_before_its_architectures(tmp_path, model_type):
    folder = FOLDERS["llama"](tmp_path / "folder")
    write_value("llama", folder, "config.json", "architectures", ["GPTNeoXForCausalLM"])
    write_value("llama", folder, "config.json", "model_type", model_type)
    refuse("llama", folder, ": model_type is")


@pytest.mark.parametrize(("kind", "name"), [("gpt2", "TFGPT2LMHeadModel"), ("huggingface", "FlaxMarianMTModel")])
def test_classes_of_other_frameworks_are_the_same_architectures(tmp_path, kind, name):
    folder = FOLDERS[kind](tmp_path / "folder")
    write_value(kind, folder, "config.json", "architectures", [name])
    assert read(kind, folder).model


# ---------------------------------------------------------------------------------------------------------------------
# Files

WITHOUT = {"generation_config.json", "tokenizer_config.json", "decoder.yml"}
"""What a folder need not have; Hugging Face's rules are then those of config.json."""


@pytest.mark.parametrize("kind", KINDS)
def test_every_file_is_needed_or_optional_and_a_damaged_one_is_named(tmp_path, kind):
    for path in [*FOLDERS[kind](tmp_path / "there").iterdir()]:
        data = path.read_bytes()
        for wrong in (None, b"\xff", b"[1" if path.suffix == ".json" else b"", b"[]"):
            if wrong is None:
                path.unlink()
            else:
                path.write_bytes(wrong)
            if path.name in WITHOUT and (wrong is None or (path.suffix == ".yml" and wrong == b"")):
                if path.name != "generation_config.json" or kind != "huggingface":
                    assert read(kind, tmp_path / "there").state
            elif "vocab" in path.name and path.suffix in (".yml", ".txt") and wrong in (None, b""):
                refuse(kind, tmp_path / "there", path.name, "vocabulary")
            else:
                refuse(kind, tmp_path / "there", path.name, "config.json")
        path.write_bytes(data)
    with pytest.raises(FileError, match="nowhere"):
        read(kind, tmp_path / "nowhere")


def test_weights_may_be_in_several_files(tmp_path):
    arrays, _ = load("gpt2", FOLDERS["gpt2"](tmp_path))
    expected = read("gpt2", tmp_path).state
    (tmp_path / "pytorch_model.bin").write_text("{")  # beside the weights, nobody reads it
    assert read("gpt2", tmp_path).state
    (tmp_path / "model.safetensors").unlink()
    refuse("gpt2", tmp_path, "pytorch_model.bin is a pickle")
    names = [*arrays]
    save_file({name: arrays[name] for name in names[::2]}, tmp_path / "a.safetensors")
    save_file({name: arrays[name] for name in names[1::2]}, tmp_path / "b.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {name: "ab"[i % 2] + ".safetensors" for i, name in enumerate(names)}}))
    found = read("gpt2", tmp_path).state
    assert all(np.array_equal(found[name], expected[name]) for name in expected)
    for wrong in (
        {},
        {"weight_map": {"a": 1}},
        {"weight_map": {"a": "../a.safetensors"}},
        {"weight_map": {"a": "c.safetensors"}},
    ):
        index.write_text(json.dumps(wrong))
        refuse("gpt2", tmp_path, "weight_map", "../a.safetensors", "c.safetensors")
    index.unlink()
    (tmp_path / "pytorch_model.bin").rename(tmp_path / "pytorch_model.bin.index.json")
    refuse("gpt2", tmp_path, "pytorch_model.bin.index.json is a pickle")


def test_numbers_of_bfloat16_are_the_upper_halves_of_float32(tmp_path):
    arrays, _ = load("gpt2", FOLDERS["gpt2"](tmp_path))
    halves = {name: array.astype("f4").view("u4") >> 16 for name, array in arrays.items()}
    head, data = {}, b""
    for name, half in halves.items():
        head[name] = {"dtype": "BF16", "shape": half.shape, "data_offsets": [len(data), len(data) + 2 * half.size]}
        data += half.astype("<u2").tobytes()
    text = json.dumps(head).encode()
    (tmp_path / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    found = read("gpt2", tmp_path)
    save_file(
        {name: (half << 16).astype("u4").view("f4") for name, half in halves.items()}, tmp_path / "model.safetensors"
    )
    expected = read("gpt2", tmp_path).state
    assert found.model["dtype"] == "float32"
    assert all(np.array_equal(found.state[name], expected[name]) for name in expected)
    text = json.dumps({name: one | {"dtype": "U16"} for name, one in head.items()}).encode()
    (tmp_path / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    refuse("gpt2", tmp_path, "U16")


def test_sizes_and_tables_of_hugging_face_belong_together(tmp_path):
    folder = write_huggingface(tmp_path / "there")
    write_value("huggingface", folder, "config.json", "encoder_attention_heads", 3)
    write_value("huggingface", folder, "config.json", "decoder_attention_heads", 3)
    refuse("huggingface", folder, "d_model is 16")
    folder = write_huggingface(tmp_path / "two")
    (folder / "target_vocab.json").write_bytes((folder / "vocab.json").read_bytes())
    write_value("huggingface", folder, "tokenizer_config.json", "separate_vocabs", True)
    refuse("huggingface", folder, "share_encoder_decoder_embeddings")
    edit(folder / "target_vocab.json", '"<unk>"', '"unk"')
    refuse("huggingface", folder, "target_vocab.json has no '<unk>'")


@pytest.mark.parametrize("kind", KINDS[1:])  # the weights of the first are read as those of the second
def test_weights_may_be_larger_than_other_files(tmp_path, monkeypatch, kind):
    FOLDERS[kind](tmp_path / "there")
    largest = max(path.stat().st_size for path in (tmp_path / "there").iterdir())
    for function in (read_file, require_regular_file):
        monkeypatch.setattr(function, "__defaults__", (largest - 1,))
    assert read(kind, tmp_path / "there").state


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_holds_what_was_read_and_a_state_that_does_not_fit_leaves_none(tmp_path, capsys, kind):
    import minitransformer as mt

    found, run = read(kind, FOLDERS[kind](tmp_path / "there")), tmp_path / "run"
    for wrong in (replace(found, state={}), replace(found, model={**found.model, "n_heads": 5})):
        with pytest.raises(FileError, match=r"cannot be built: .*(missing|not divisible)"):
            write_run(wrong, run)
        assert not run.exists()
    command = ["import", kind if kind in READERS else "huggingface", str(tmp_path / "there"), "--out", str(run)]
    assert main(command) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert all(f"note: {note}" in out for note in found.notes)
    opened = mt.load(run)
    flat = opened.options.flat()
    assert {**found.model, **found.search}.items() <= {name: flat[name] for name in flat}.items()
    assert all(np.array_equal(value, found.state[name]) for name, value in opened.model.state_dict().items())
    assert opened.target.to_json() == found.target.to_json()
    assert opened.source.to_json() == found.source.to_json()
    assert main(command) == 2  # nothing is overwritten
    assert f"{run.name} exists already" in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------------------------------
# Tokens


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path.parent


EDITS = {
    "marian": ("vocab.yml", [
        ("'</s>': 0", "'end': 0", "</s>"), ("'<unk>'", "'unknown'", "<unk>"), ("'é': 13", "'é': 14", "gap"),
        ("'é': 13", "'é': 12", "é"), ("'é': 13", "'é'", "line 14"), ("'é': 13", "é", "line 14"),
        ("'é'", "'word0'", "word0"), ("'é': 13", "'é': [13]", "é"), ("'é': 13", "'é': {a: 13}", "line 14"),
        ("'é'", "'<start>'", "<start>"),
    ]),
    "huggingface": ("vocab.json", [
        ('": 5', '": "5"', "5"), ('": 5', '": 999', "999"), ('": 5', '": 6', "6"), ('": 5', '": true', "rue"),
        ('"<unk>"', '"unk"', "<unk>"), ('"</s>"', '"end"', "</s>"), ('"<pad>"', '"pad"', "<pad>"),
        ('">>fra<<"', '"<start>"', "start"),
    ]),
    "ctranslate2": ("shared_vocabulary.txt", [
        ("word8", "word7", "word7"), ("word8", "<end>", "<end>"), ("<s>", "start", "<s>"), ("</s>", "end", "</s>"),
        ("word8", "word8\nword9", "14"), ("word8\n", "", "13"),
    ]),
}  # fmt: skip


@pytest.mark.parametrize("kind", EDITS)
def test_a_vocabulary_has_each_token_and_id_once(tmp_path, kind):
    name, edits = EDITS[kind]
    for number, (old, new, word) in enumerate(edits):
        folder = FOLDERS[kind](tmp_path / f"{number}")
        if kind == "ctranslate2":
            write_value(kind, folder, "config.json", "add_source_eos", True)
        refuse(kind, edit(folder / name, old, new), word)


@pytest.mark.parametrize(("vocabs", "models", "word"), [
    ("vocab.yml", "a.npz\n  - model.npz", "2 models"), ("a.yml", "model.npz", "a.yml"), ("", "", "no vocabulary"),
    ("vocab.yml\n  - b.yml\n  - c.yml", "model.npz", "no vocabulary"), ("vocab.yml\n  - b.yml", "model.npz", "b.yml"),
])  # fmt: skip
def test_marian_has_one_model_and_one_vocabulary_or_two(tmp_path, vocabs, models, word):
    folder = write_marian(tmp_path / "there")
    if not vocabs:
        (folder / "vocab.yml").rename(folder / "other.yml")
    lines = [f"{name}:\n  - {names}" for name, names in {"models": models, "vocabs": vocabs}.items() if names]
    (folder / "decoder.yml").write_text("\n".join(lines))
    refuse("marian", folder, word)


def test_marian_finds_its_files_without_rules(tmp_path):
    folder = write_marian(tmp_path / "there")
    (folder / "decoder.yml").unlink()
    (folder / "model.optimizer.npz").write_bytes(b"not read")
    found = read("marian", folder)
    assert (found.search["beam"], found.search["alpha"]) == (12, 0)
    (folder / "other.npz").write_bytes(b"")
    refuse("marian", folder, "2 models")
    for path in folder.glob("*.npz"):
        path.unlink()
    refuse("marian", folder, "0 models")


def test_one_table_of_marian_is_for_one_vocabulary(tmp_path):
    folder = write_marian(tmp_path / "there")
    (folder / "b.yml").write_bytes((folder / "vocab.yml").read_bytes())
    edit(folder / "decoder.yml", "- vocab.yml", "- vocab.yml\n  - b.yml")
    refuse("marian", folder, "one table of embeddings")
    arrays, save = load("marian", folder)
    tables = dict.fromkeys(("encoder_Wemb", "decoder_Wemb"), arrays["Wemb"])
    save({name: array for name, array in arrays.items() if name != "Wemb"} | {"encoder_Wemb": arrays["Wemb"]})
    refuse("marian", folder, "decoder_Wemb")
    save({name: array for name, array in arrays.items() if name != "Wemb"} | tables)
    assert read("marian", folder).model["share_embeddings"] == "target"
    edit(folder / "decoder.yml", "- b.yml", "- vocab.yml")  # named twice, it is one
    found = read("marian", folder)
    assert found.source is found.target


def test_vocabularies_of_ctranslate2_are_for_both_sides_or_for_each(tmp_path):
    folder = ctranslate2_folders.write_folder(tmp_path / "there")
    (folder / "shared_vocabulary.txt").rename(folder / "source_vocabulary.txt")
    refuse("ctranslate2", folder, "target_vocabulary")
    (folder / "target_vocabulary.json").write_text("[1]")
    refuse("ctranslate2", folder, "[1]")
    (folder / "target_vocabulary.json").write_text(json.dumps(ctranslate2_folders.TOKENS))
    assert read("ctranslate2", folder).source is not read("ctranslate2", folder).target
    edit(folder / "source_vocabulary.txt", "</s>", "end")  # a source has no end here
    assert read("ctranslate2", folder).state
    write_value("ctranslate2", folder, "config.json", "add_source_eos", True)
    refuse("ctranslate2", folder, "source_vocabulary.txt")


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


@pytest.mark.parametrize("kind", KINDS)
def test_a_pointer_of_git_lfs_is_named(tmp_path, kind):
    for path in [*FOLDERS[kind](tmp_path / "there").iterdir()]:
        data = path.read_bytes()
        path.write_text(POINTER)
        refuse(kind, tmp_path / "there", f"{path.name} is a Git LFS pointer")
        path.write_bytes(data)
    if kind == "gpt2":
        (tmp_path / "there" / "model.safetensors").unlink()
        (tmp_path / "there" / "pytorch_model.bin").write_text(POINTER)
        refuse(kind, tmp_path / "there", "pytorch_model.bin is a Git LFS pointer")


@pytest.mark.parametrize("kind", KINDS)
def test_other_things_that_are_published_are_named(tmp_path, kind):
    package = tmp_path / "translate-fr_en.argosmodel"
    package.write_bytes(b"PK")
    refuse(kind, package, "unzip")
    (tmp_path / "fr_en" / "model").mkdir(parents=True)
    (tmp_path / "fr_en" / "metadata.json").write_text("{}")
    refuse(kind, tmp_path / "fr_en", "Argos")
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text('{"base_model_name_or_path": "gpt2"}')
    refuse(kind, adapter, "merge it into its base, 'gpt2'")
    for name in ("config.json", "adapter_model.safetensors"):
        (adapter / name).write_text('{"model_type": "gpt2"}')
    refuse(kind, adapter, "merge it into its base, 'gpt2'")
    (tmp_path / "file.gguf").write_bytes(b"GGUF")
    refuse(kind, tmp_path / "file.gguf", "in GGUF")
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "small.gguf").write_bytes(b"GGUF")
    refuse(kind, tmp_path / "small", "in GGUF")
    if kind in ("gpt2", "huggingface"):
        FOLDERS[kind](tmp_path / "tensorflow")
        (tmp_path / "tensorflow" / "model.safetensors").rename(tmp_path / "tensorflow" / "tf_model.h5")
        refuse(kind, tmp_path / "tensorflow", "from_tf")
    (tmp_path / "file").write_text("")
    refuse(kind, tmp_path / "file", "is a file")
    refuse(kind, tmp_path / ("x" * 300), "there is no folder")


LETTERS = ("<blank>", "<s>", "</s>", *"abcdefghi", "<unk>")
PARTS = ("<blank>", "<s>", "</s>", "a@@", *(f"b{i}" for i in range(8)), "<unk>")


@pytest.mark.parametrize(("tokens", "kind", "marker"), [
    (LETTERS, Characters, None), (ctranslate2_folders.TOKENS, Words, ""), (PARTS, Words, "@@"),
])  # fmt: skip
def test_tokens_of_ctranslate2_without_a_model_are_characters_words_or_parts(tmp_path, tokens, kind, marker):
    found = read("ctranslate2", ctranslate2_folders.write_folder(tmp_path / "there", tokens=tokens))
    assert type(found.source) is kind
    assert found.source is found.target
    assert getattr(found.source, "marker", None) == marker
    pieces = [token.replace("a@@", "▁a") for token in PARTS]
    folder = ctranslate2_folders.write_folder(tmp_path / "there", tokens=pieces)
    refuse("ctranslate2", folder, "sentencepiece.model")


def test_pieces_of_ctranslate2_are_those_of_one_model_or_of_two(tmp_path):
    folder = ctranslate2_folders.write_folder(tmp_path / "there")
    (folder / "sentencepiece.model").write_bytes(marian_folders.sentencepiece_model())
    found = read("ctranslate2", folder)
    assert isinstance(found.source, Pieces)
    assert found.source is found.target
    (folder / "source.spm").write_bytes(marian_folders.sentencepiece_model(30))
    assert read("ctranslate2", folder).source.model == marian_folders.sentencepiece_model()
    (folder / "target.spm").write_bytes(marian_folders.sentencepiece_model())
    found = read("ctranslate2", folder)
    assert (found.source.model, found.target.model) == tuple(map(marian_folders.sentencepiece_model, (30, 34)))
    (folder / "source.spm").write_text("none")
    refuse("ctranslate2", folder, "source.spm")


@pytest.mark.parametrize("files", [["source.spm"], ["source.spm", "target.spm"]])
def test_pieces_of_marian_need_a_model_for_each_side(tmp_path, files):
    folder = write_marian(tmp_path / "there")
    for name in files:
        (folder / name).write_bytes(marian_folders.sentencepiece_model(30))
    assert type(read("marian", folder).source) is (Pieces if len(files) == 2 else Words)
    (folder / "a.spm").write_text("none")
    edit(folder / "decoder.yml", "vocab.yml", "a.spm")
    refuse("marian", folder, "a.spm")


def change_tokenizer(folder, **vocab):
    path = folder / "tokenizer.json"
    whole = json.loads(path.read_text())
    ids = whole["model"]["vocab"] | vocab
    whole["model"]["vocab"] = {token: number for token, number in ids.items() if number is not None}
    path.write_text(json.dumps(whole))


@pytest.mark.parametrize(("vocab", "word"), [
    ({"f": 9}, "ids below 9"), ({"f": None, "<pad>": 8}, "<pad>"), ({"f": None, "<unused 7>": 8, "e": None}, "unused"),
])  # fmt: skip
def test_tokens_of_a_decoder_alone_are_in_its_vocabulary_and_none_is_ours(tmp_path, vocab, word):
    folder = FOLDERS["gpt2"](tmp_path / "there")
    change_tokenizer(folder, **vocab)
    refuse("gpt2", folder, word)


def test_what_a_decoder_alone_does_not_say(tmp_path):
    """Without other words the end is the start, no token is unknown, and a text ends with one token."""
    folder = FOLDERS["gpt2"](tmp_path / "there")
    for name in ("generation_config.json", "tokenizer_config.json"):
        (folder / name).unlink()
    write_value("gpt2", folder, "config.json", "bos_token_id", "<gone>")
    whole = json.loads((folder / "tokenizer.json").read_text())
    whole["model"]["unk_token"] = "other"
    (folder / "tokenizer.json").write_text(json.dumps(whole))
    found = read("gpt2", folder)
    assert found.target.specials == [None, None, 3, None]
    assert found.target.kept == {"generation_config": {"eos_token_id": 3}, "chat_template": None}
    assert found.model["start_token"] is False  # a text begins with another token
    table = found.state["target_embedding.table"]
    np.testing.assert_array_equal(table[1], table[2])  # the start is a copy of the end
    assert not table[0].any()
    assert not table[3].any()
    assert (found.state["output_bias"][[0, 1, 3]] < -5000).all()
    assert not found.state["output_bias"][[2, *range(4, 12)]].any()
    write_value("gpt2", folder, "config.json", "eos_token_id", "<gone>")
    refuse("gpt2", folder, "eos_token_id")


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_a_chat_template_may_be_in_a_file_of_its_own(tmp_path, kind):
    folder = FOLDERS[kind](tmp_path / "there")
    (folder / "chat_template.jinja").write_text("another template")
    assert read(kind, folder).target.kept["chat_template"] == "another template"
    (folder / "chat_template.jinja").write_bytes(b"\xff")
    refuse(kind, folder, "chat_template.jinja")


def test_the_defaults_of_llama_and_of_gpt2(tmp_path):
    names = {"gpt2": ("n_inner", "activation_function", "layer_norm_epsilon", "tie_word_embeddings"),
             "llama": ("num_key_value_heads", "attention_bias", "rms_norm_eps", "rope_theta", "tie_word_embeddings",
                       "max_position_embeddings", "head_dim")}  # fmt: skip
    expected = {
        "gpt2": {"d_ff": 32, "activation": "gelu_tanh", "layer_norm_eps": 1e-5, "share_embeddings": True, "window": 7},
        "llama": {"n_kv_heads": 4, "attention_bias": False, "layer_norm_eps": 1e-6, "rotary_base": 10000.0,
                  "share_embeddings": False, "window": 2048, "d_k": 2, "d_v": 2},
    }  # fmt: skip
    same = {"gpt2": {"n_inner": 32, "tie_word_embeddings": True},
            "llama": {"num_key_value_heads": 4, "attention_bias": False, "head_dim": 2}}  # fmt: skip
    for kind, omitted in names.items():
        folder = decoder_folders.write_folder(tmp_path / kind, kind, **same[kind])
        for name in omitted:
            write_value(kind, folder, "config.json", name, "<gone>")
        found = read(kind, folder).model
        assert {name: found[name] for name in expected[kind]} == expected[kind]
    write_value("llama", folder, "config.json", "max_position_embeddings", 4096)
    assert read("llama", folder).model["window"] == 2048
    write_value("llama", folder, "config.json", "model_type", "mistral")
    for window, right in ((2048, True), (2047, False)):
        write_value("llama", folder, "config.json", "sliding_window", window)
        if right:
            assert read("llama", folder).state
        else:
            refuse("llama", folder, "sliding_window")
