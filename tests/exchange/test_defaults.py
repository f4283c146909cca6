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
from marian_folders import SIZES, configuration, sentencepiece_model, tensors, tokens, write_tokenisers
from marian_npz import SETTINGS, arrays, write_vocabulary
from marian_npz import write_folder as write_marian_npz
from safetensors.numpy import load_file, save_file
from toml_cases import cases_from_toml, toml_table

from minitransformer import ops
from minitransformer.apps.exchange import read_ctranslate2, read_huggingface, read_marian
from minitransformer.apps.exchange.published import arrange, find_sinusoidal
from minitransformer.apps.exchange.reading import Fields, read_tokens, shown
from minitransformer.apps.exchange.to_ctranslate2 import _positions
from minitransformer.arrays import to_numpy
from minitransformer.data import Characters, Pieces, Words
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

AUTHOR = "the search is ours, with Marian's width and length penalty; it may stop earlier or later than Marian's"
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


@pytest.mark.parametrize("name", ["eos_token", "bos_token", "add_source_eos", "add_source_bos", "layer_norm_epsilon"])
def test_null_says_no_more_to_ctranslate2_than_nothing(tmp_path, name):
    write_ctranslate2_folder(tmp_path, {name})
    omitted, path = options(read_ctranslate2(tmp_path)), tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), name: None}))
    assert options(read_ctranslate2(tmp_path)) == omitted


def test_the_specification_decides_the_heads_of_ctranslate2(tmp_path):
    gone = {"encoder/num_heads", "decoder/num_heads"}
    for name, heads in (("TransformerBase", 8), ("TransformerBig", 16)):
        write_ctranslate2_folder(tmp_path, gone, specification=name)
        if heads == 8:
            assert read_ctranslate2(tmp_path).model["n_heads"] == heads
        else:
            with pytest.raises(FileError, match="8 features and 16 heads"):
                read_ctranslate2(tmp_path)


# ---------------------------------------------------------------------------------------------------------------------
# Hugging Face: the defaults are those of MarianConfig, GenerationConfig and MarianTokenizer

NO_LIMIT = "no max_length is given"
CUT_OFF = "a translation that is cut off at the limit counts less than any that has ended"
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
                with pytest.raises(FileError, match=f"{name} is .*this search has no such rule"):
                    read_huggingface(tmp_path)


@cases_from_toml
def test_activations_by_the_names_of_each_program(tmp_path, said, activation):
    write_huggingface_folder(tmp_path, activation_function=said)
    assert read_huggingface(tmp_path).model["activation"] == activation
    number = np.asarray(np.int8({"relu": 0, "gelu_tanh": 1, "silu": 2, "gelu": 3, "quick_gelu": 4}[activation]))
    both = {f"{stack}/activation": number for stack in ("encoder", "decoder")}
    assert read_ctranslate2(write_folder(tmp_path, variables() | both)).model["activation"] == activation
    theirs = {"relu": "relu", "silu": "swish", "quick_gelu": "gelu"}.get(activation)
    if theirs is not None:  # Marian's gelu is the product with a sigmoid
        folder = write_marian_npz(tmp_path / "marian", settings={"transformer-ffn-activation": theirs})
        assert read_marian(folder).model["activation"] == activation


def test_separate_vocabularies_of_hugging_face(tmp_path):
    """The decoder's start token has an id of its own in each; where the source lacks it, its padding stands there."""
    for token in (tokens(30)[5], "only in the target"):
        write_huggingface_folder(tmp_path, {"lm_head.weight"}, vocab_size=V, decoder_vocab_size=len(tokens(30)))
        write_tokenisers(tmp_path, separate=True)
        target = [token if place == 5 else one for place, one in enumerate(tokens(30))]
        (tmp_path / "target_vocab.json").write_text(json.dumps({one: place for place, one in enumerate(target)}))
        n = len(target)
        config = json.loads((tmp_path / "config.json").read_text())
        ids = {"pad_token_id": n - 1, "decoder_start_token_id": 5, "bad_words_ids": [[n - 1], [5]]}
        (tmp_path / "config.json").write_text(json.dumps(config | ids))
        found = load_file(tmp_path / "model.safetensors")
        for name in ("model.decoder.embed_tokens.weight", "final_logits_bias"):
            found[name] = found[name][:n] if "embed" in name else found[name][:, :n]
        save_file(found, tmp_path / "model.safetensors")
        read = read_huggingface(tmp_path)
        own = tokens().index(token) if token in tokens() else V - 1
        source, written = (np.rint(read.state[f"{side}_embedding.table"][:4, 0]) for side in ("source", "target"))
        assert source.tolist() == [V, own + 1, 1, 2]
        assert written.tolist() == [n, 6, 1, 2]
        assert read.model["share_embeddings"] == "target"


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


def test_weights_of_hugging_face_are_not_read_from_a_pickle_beside_them(tmp_path):
    write_huggingface_folder(tmp_path)
    for name in ("pytorch_model.bin", "model.safetensors.index.json"):
        (tmp_path / name).write_text("{")
    assert options(read_huggingface(tmp_path)) == HUGGINGFACE
    (tmp_path / "target_vocab.json").write_text("{}")  # only if there are separate vocabularies
    assert options(read_huggingface(tmp_path)) == HUGGINGFACE


LETTERS = (*TOKENS[:3], *"abcdefghi", "<unk>")
JOINED = (*TOKENS[:3], *(f"w{i}@@" for i in range(9)), "<unk>")
MIXED = (*TOKENS[:3], *"abcdefgh", "ij", "<unk>")
SIDES = {"words": TOKENS, "letters": LETTERS, "joined": JOINED, "letters and words": MIXED}


@pytest.mark.parametrize("first", SIDES.values(), ids=SIDES)
@pytest.mark.parametrize("second", SIDES.values(), ids=SIDES)
def test_each_side_of_ctranslate2_has_the_tokeniser_of_its_tokens(tmp_path, first, second):
    (write_folder(tmp_path) / "shared_vocabulary.txt").unlink()
    for side, found, other in (("source", first, second), ("target", second, first)):
        (tmp_path / f"{side}_vocabulary.json").write_text(json.dumps(found))
        (tmp_path / f"{side}_vocabulary.txt").write_text("\n".join(other))  # .json comes first
    read = read_ctranslate2(tmp_path)
    for tokeniser, found in ((read.source, first), (read.target, second)):
        assert isinstance(tokeniser, Characters if found is LETTERS else Words)
        assert tokeniser.tokens[4:] == tuple(token for token in found if token not in ("</s>", "<unk>"))
        assert getattr(tokeniser, "marker", "@@") == ("@@" if found in (JOINED, LETTERS) else "")
    assert read.source is not read.target
    words = isinstance(read.source, Words)
    assert [note.partition(":")[0] for note in read.notes] == [NO_END, *[NO_MODEL] * words]
    (tmp_path / "shared_vocabulary.json").write_text(json.dumps(TOKENS))  # it comes before those of the sides
    assert options(read_ctranslate2(tmp_path))["kinds"] == (Words, Words, True)


@pytest.mark.parametrize("pad", ["source", "target"])
def test_each_side_of_ctranslate2_has_its_own_special_tokens(tmp_path, pad):
    """Without an end of the source, its vocabulary needs none; only a target with padding could write it."""
    (write_folder(tmp_path) / "shared_vocabulary.txt").unlink()
    for side in ("source", "target"):
        tokens = ["<pad>" if side == pad else "<blank>", "<s>", "word" if side == "source" else "</s>", *TOKENS[3:]]
        (tmp_path / f"{side}_vocabulary.json").write_text(json.dumps(tokens))
    notes = [note.partition(":")[0] for note in read_ctranslate2(tmp_path).notes]
    assert notes == [*["padding is never written here"] * (pad == "target"), NO_END, NO_MODEL]


def test_models_for_each_side_come_before_one_for_both(tmp_path):
    write_ctranslate2_folder(tmp_path)
    for names, same in ((("sentencepiece.model",), True), (("source.spm", "target.spm"), False)):
        for number, name in enumerate(names):
            (tmp_path / name).write_bytes(sentencepiece_model(34 - 2 * number - 2 * len(names)))
        read = read_ctranslate2(tmp_path)
        assert (read.source is read.target) == same
        kinds = [one.model for one in (read.source, read.target)]
        assert kinds == [(tmp_path / name).read_bytes() for name in (names * 2)[:2]]
    (tmp_path / "marian").mkdir()
    write_marian(tmp_path / "marian")
    for name in ("source.spm", "target.spm"):
        assert isinstance(read_marian(tmp_path / "marian").source, Words)  # one of them alone is not used
        (tmp_path / "marian" / name).write_bytes((tmp_path / name).read_bytes())
    read = read_marian(tmp_path / "marian")
    assert [one.model for one in (read.source, read.target)] == [
        (tmp_path / name).read_bytes() for name in ("source.spm", "target.spm")
    ]


def test_an_option_of_both_stacks_comes_before_one_that_is_said_once(tmp_path):
    values = variables()
    for name, once in (("num_heads", np.int16(4)), ("pre_norm", np.int8(0)), ("activation", np.int8(3))):
        (tmp_path / name).mkdir()
        said = {stack: values[f"{stack}/{name}"] for stack in ("encoder", "decoder")}
        alone = {key: value for key, value in values.items() if not key.endswith(f"/{name}")}
        found = []
        for both in (True, False):
            whole = alone | {name: np.asarray(once)} | ({f"{s}/{name}": v for s, v in said.items()} if both else {})
            found.append(read_ctranslate2(write_folder(tmp_path / name, whole)).model)
        assert found[0] == read_ctranslate2(write_folder(tmp_path / name, values)).model
        change = {"num_heads": {"n_heads": 4}, "pre_norm": {"norm": "post"}, "activation": {"activation": "gelu"}}
        assert found[1] == found[0] | change[name]


# ---------------------------------------------------------------------------------------------------------------------
# Each spelling, type and edge

OTHER_WORDS = toml_table(__file__, "OTHER_WORDS")


@pytest.mark.parametrize("name", OTHER_WORDS)
def test_words_of_marian_that_change_nothing(tmp_path, name):
    for word in OTHER_WORDS[name]:
        folder = write_marian_npz(tmp_path, settings={f"transformer-{name}": f"'{word}'"})
        assert options(read_marian(folder)) == options(read_marian(write_marian_npz(tmp_path / "plain")))
    with pytest.raises(FileError, match=f"transformer-{name} is '3', expected '{OTHER_WORDS[name][0]}'"):
        read_marian(write_marian_npz(tmp_path, settings={f"transformer-{name}": 3}))


def test_one_table_of_marian_is_not_for_two_vocabularies(tmp_path):
    write_marian(tmp_path)
    text = (tmp_path / "v.yml").read_text(encoding="utf-8")
    (tmp_path / "w.yml").write_text(text.replace("word0", "other"), encoding="utf-8")
    rules = (tmp_path / "decoder.yml").read_text().replace("- v.yml\n  - v.yml", "- v.yml\n  - w.yml")
    (tmp_path / "decoder.yml").write_text(rules)
    with pytest.raises(FileError, match="one table of embeddings for both sides, expected two"):
        read_marian(tmp_path)


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
        with pytest.raises(FileError, match="expected numbers"):
            read_marian(tmp_path)


def test_what_marian_adds_to_its_weights_changes_nothing(tmp_path):
    write_marian(tmp_path, {"models", "a.npz"})
    expected = read_marian(tmp_path).state
    with np.load(tmp_path / "b.npz") as file:
        found = {name: np.asfortranarray(array) for name, array in file.items()}
    np.savez(tmp_path / "b.npz", decoder_c_mt=np.zeros((1, 3), "f4"), **{"special:other": np.zeros(2, "i1")}, **found)
    np.savez(tmp_path / "b.optimizer.npz", adam=np.zeros(2))
    read = read_marian(tmp_path)
    assert options(read) == MARIAN
    assert all(np.array_equal(read.state[name], array) for name, array in expected.items())


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
        with pytest.raises(FileError, match=f"{name} holds other numbers than sines"):
            read_huggingface(tmp_path)


@pytest.mark.parametrize("tie", [True, False])
@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("names", [("shared",), ("encoder.embed_tokens", "decoder.embed_tokens")])
def test_every_way_of_sharing_the_tables_of_hugging_face(tmp_path, names, both, tie):
    """Newer versions write one table where older ones write two; the output is another one if it is not tied."""
    write_huggingface_folder(tmp_path, share_encoder_decoder_embeddings=both, tie_word_embeddings=tie)
    found = {k: v for k, v in load_file(tmp_path / "model.safetensors").items() if "embed" not in k and "head" not in k}
    table = numbered(np.random.default_rng(3).normal(0, 0.3, (V, 16)).astype("f4"))
    last = table if tie else -table
    save_file(
        found | {f"model.{name}.weight": table.copy() for name in names} | {"lm_head.weight": last.copy()},
        tmp_path / "model.safetensors",
    )
    if not both and names == ("shared",):
        with pytest.raises(FileError, match=r"has no tensor model\.encoder\.embed_tokens"):
            read_huggingface(tmp_path)
        return
    read, order = read_huggingface(tmp_path), [V - 1, V - 1, 0, 1, *range(2, V - 1)]
    assert read.model["share_embeddings"] == (("all" if both else "target") if tie else "inputs")
    assert ("output" in read.state, "target_embedding.table" in read.state) == (not tie, tie and not both)
    np.testing.assert_array_equal(read.state["source_embedding.table"], table[order])
    if not tie:
        np.testing.assert_array_equal(read.state["output"], -table[order])


i8, f4 = np.int8, np.float32
SCALES = [
    ("scale_embeddings", i8(0), False), ("scale_embeddings", i8(1), True), ("scale_embeddings", f4(1), False),
    ("scale_embeddings", f4(8**0.5), True), ("multiply", f4(8**0.5), True), ("multiply", f4(1), False),
    ("multiply", i8(0), False),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "scaled"), SCALES)
def test_every_way_of_scaling_the_embeddings_of_ctranslate2(tmp_path, name, value, scaled):
    tables = {"encoder": "encoder/embeddings_0", "decoder": "decoder/embeddings"}
    names = [f"{s}/{name}" if name != "multiply" else f"{table}/multiply_by_sqrt_depth" for s, table in tables.items()]
    folder = write_folder(tmp_path, variables() | {one: np.asarray(value) for one in names})
    assert read_ctranslate2(folder).model["scale_embeddings"] == scaled


def test_what_ctranslate2_has_beside_the_weights(tmp_path):
    plain = options(read_ctranslate2(write_folder(tmp_path)))
    more = {
        f"{stack}{name}": np.asarray(i8(1))
        for stack in ("", "encoder/", "decoder/")
        for name in ("alignment_layer", "alignment_heads", "embeddings_merge", "alibi_use_positive_positions")
    }
    assert options(read_ctranslate2(write_folder(tmp_path, variables() | more))) == plain
    for old in (False, True):
        zeros = write_folder(tmp_path, variables() | {"decoder/start_from_zero_embedding": np.asarray(i8(1))},
                             **({"version": 5, "revision": 6} if old else {}))  # fmt: skip
        if old:
            (zeros / "config.json").unlink()
        found = read_ctranslate2(zeros)
        assert found.model["source_end"]  # only Marian's decoders do, and its sources have an end
        assert not found.state["target_embedding.table"][1].any()
    alone = {name: value for name, value in variables().items() if not ("self_attention" in name and "bias" in name)}
    found = read_ctranslate2(write_folder(tmp_path, alone))
    assert found.model["attention_bias"]
    assert not found.state["encoder.layers.0.self_attention.b_in"].any()
    assert found.state["decoder.layers.0.cross_attention.b_in"].any()
    for place in (0, 5):
        tokens = [*TOKENS[:place], "<pad>", *TOKENS[place + 1 :]] if place else ["<pad>", *TOKENS[1:]]
        notes = read_ctranslate2(write_folder(tmp_path, tokens=tokens)).notes
        assert notes[0] == "padding is never written here"
    (tmp_path / "source.spm").write_bytes(sentencepiece_model())  # one of two is not used
    assert isinstance(read_ctranslate2(write_folder(tmp_path)).source, Words)
    table = np.random.default_rng(0).normal(size=(7, 8)).astype("f4")
    learned = {f"{stack}/position_encodings/encodings": table for stack in ("encoder", "decoder")}
    found = read_ctranslate2(write_folder(tmp_path, variables() | learned)).model
    assert (found["positions"], found["max_length"], found["longest"]) == ("learned", 7, 6)


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


@pytest.mark.parametrize("number", [-1, 0, 3, 4])
@pytest.mark.parametrize("name", ["pad", "start", "end", "unknown"])
def test_ids_are_those_of_tokens_and_different(tmp_path, name, number):
    """The start may be that of padding or of the end; an id is within the tokens."""
    given = {"pad": 1, "start": 1, "end": 2, "unknown": 0, name: number}
    called = {"pad": "padding", "start": "the start", "end": "the end", "unknown": "unknown"}
    others = {value for key, value in given.items() if key not in {name, "start"}}
    if not 0 <= number < 4:
        with pytest.raises(FileError, match=f": the id of {called[name]} is {number}, expected 0 to 3$"):
            arrange(["a", "b", "c", "d"], **given, where=tmp_path)
    elif number in others and (name != "start" or number == 0):
        with pytest.raises(FileError, match="expected different ones"):
            arrange(["a", "b", "c", "d"], **given, where=tmp_path)
    else:
        assert arrange(["a", "b", "c", "d"], **given, where=tmp_path).rows.tolist()[:4] == [
            given[key] for key in ("pad", "start", "end", "unknown")
        ]
