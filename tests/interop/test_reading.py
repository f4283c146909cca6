"""Models of other programs, opened here, have the logits of slow forward passes on their own files."""

import json
import re
from itertools import product

import numpy as np
import pytest
import slow_models
from ctranslate2_folders import CONFIG, TOKENS, configured, variables
from ctranslate2_folders import CONFIGURATIONS as CT2_CONFIGURATIONS
from ctranslate2_folders import write_folder as write_ctranslate2
from decoder_folders import CONFIGS, SLOW_PAIRS, SPECIAL, WORDS, tensors, without_tokenizers
from decoder_folders import write_folder as write_decoder
from marian_folders import SIZES, configuration, tokens, write_tokenisers
from marian_folders import tensors as huggingface_tensors
from marian_npz import CONFIGURATIONS, SETTINGS, arrays, write_configuration
from marian_npz import TOKENS as MARIAN_TOKENS
from marian_npz import write_folder as write_marian
from safetensors.numpy import save_file

import minitransformer as mt
from minitransformer.apps.interop import read_ctranslate2, read_huggingface, read_marian, write_run
from minitransformer.data import END, START

pytest.importorskip("sentencepiece")
BEGIN = 4
"""Our id of the first token that is not special."""


def rows_of(tokeniser, there, pad, start, end, unknown):
    """Return for each of our ids that of the other program; None where it has none."""
    return [pad, start, end, unknown, *(there.index(token) for token in tokeniser.tokens[BEGIN:])]


def same_logits(published, tmp_path, slow, source_rows, target_rows, tolerance=1e-4):
    """Compare a run with a slow forward pass on random sentences; return the run."""
    write_run(published, tmp_path / "run")
    run = mt.load(tmp_path / "run")
    rng = np.random.default_rng(3)
    for length in (1, 3, 6):
        source = [*rng.integers(END + 1, len(source_rows), length).tolist(), *[END] * run.model.options.source_end]
        target = [START, *rng.integers(END + 1, len(target_rows), length).tolist()]
        expected = slow([source_rows[i] for i in source], [target_rows[i] for i in target])
        found = run.model(np.array([source]), np.array([target])).data[0]
        start_is_copy = target_rows.count(target_rows[START]) > 1
        known = [i for i, row in enumerate(target_rows) if row is not None and (i != START or not start_is_copy)]
        scale = np.abs(expected).max()
        np.testing.assert_allclose(
            found[:, known], expected[:, [target_rows[i] for i in known]], atol=tolerance * scale
        )
        never = [i for i in range(len(target_rows)) if i not in known]
        assert (found[:, never] < -5000).all()
    return run


# ---------------------------------------------------------------------------------------------------------------------
# MarianMTModel


def open_huggingface(folder, found, separate=False, **changes):
    """Write a folder, and return what is read of it and a slow forward pass."""
    config = configuration(**SIZES) | changes
    write_tokenisers(folder, separate)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(found, folder / "model.safetensors")
    return read_huggingface(folder), lambda *ids: slow_models.marian_mt(config, found, *ids)


ACTIVATIONS = {"swish": "silu", "silu": "silu", "gelu": "gelu", "gelu_new": "gelu_tanh", "relu": "relu",
               "gelu_pytorch_tanh": "gelu_tanh", "quick_gelu": "quick_gelu"}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_marian_of_transformers_with_each_activation(tmp_path, name):
    published, slow = open_huggingface(
        tmp_path / "there", huggingface_tensors(), activation_function=name, scale_embedding=name < "p"
    )
    rows = rows_of(published.source, tokens(), len(tokens()) - 1, len(tokens()) - 1, 0, 1)
    run = same_logits(published, tmp_path, slow, rows, rows)
    assert (run.model.options.activation, run.model.options.scale_embeddings) == (ACTIVATIONS[name], name < "p")


@pytest.mark.parametrize(("shared", "tied", "one_name"), [*product([True, False], repeat=3)])
def test_marian_of_transformers_with_tables_of_every_kind(tmp_path, shared, tied, one_name):
    """Newer versions name the tables of both stacks, older ones a shared one; some write a tied output too."""
    found = huggingface_tensors()
    table, other, last = (found["model.shared.weight"] + shift for shift in (0, 0.25 * (not shared), 0.5))
    if not (one_name and shared):
        del found["model.shared.weight"]
        found |= {"model.encoder.embed_tokens.weight": table, "model.decoder.embed_tokens.weight": other.copy()}
    if not (one_name and tied):
        found["lm_head.weight"] = other.copy() if tied else last
    published, slow = open_huggingface(
        tmp_path / "there", found, share_encoder_decoder_embeddings=shared, tie_word_embeddings=tied
    )
    rows = rows_of(published.source, tokens(), len(tokens()) - 1, len(tokens()) - 1, 0, 1)
    run = same_logits(published, tmp_path, slow, rows, rows)
    share = {(True, True): "all", (True, False): "inputs", (False, True): "target", (False, False): False}
    assert run.model.options.share_embeddings == share[shared, tied]


def test_marian_of_transformers_with_two_vocabularies_layers_and_ids_of_its_own(tmp_path):
    there = tokens(30)
    base, sizes = huggingface_tensors(), (len(tokens()), len(there))
    found = {name.replace("layers.0", f"layers.{i}"): np.roll(array, i) for name, array in base.items()
             for i in range(2) if "encoder.layers" in name or not i}  # fmt: skip
    del found["model.shared.weight"]
    for name, size in zip(("encoder", "decoder"), sizes, strict=True):
        found[f"model.{name}.embed_tokens.weight"] = base["model.shared.weight"][:size] * 1.5
    found["final_logits_bias"] = base["final_logits_bias"][:, : sizes[1]]
    special = {"pad_token_id": sizes[1] - 1, "decoder_start_token_id": 5, "eos_token_id": 2, "forced_eos_token_id": 2}
    published, slow = open_huggingface(
        tmp_path / "there", found, True, encoder_layers=2, decoder_layers=1, share_encoder_decoder_embeddings=False,
        decoder_vocab_size=sizes[1], bad_words_ids=[[sizes[1] - 1], [5]], **special,
    )  # fmt: skip
    source = rows_of(published.source, tokens(), sizes[0] - 1, tokens().index(there[5]), 0, 1)
    target = rows_of(published.target, there, sizes[1] - 1, 5, 2, 1)
    run = same_logits(published, tmp_path, slow, source, target)
    assert (run.model.options.n_layers, run.model.options.decoder_layers) == (2, 1)
    assert run.source.tokens[:4] == run.target.tokens[:4] == ("<pad>", "<start>", "<end>", "<unk>")


# ---------------------------------------------------------------------------------------------------------------------
# CTranslate2


def open_ctranslate2(folder, values, config=None, there=TOKENS, **how):
    """Write a folder, and return what is read of it and a slow forward pass."""
    write_ctranslate2(folder, values, config=config, tokens=there, **how)
    for alias, name in how.get("aliases", ()):
        values = values | {alias + end: values[name + end] for end in ("", "_scale") if name + end in values}
    return read_ctranslate2(folder), lambda *ids: slow_models.ctranslate2(CONFIG | (config or {}), values, *ids)


@pytest.mark.parametrize("name", CT2_CONFIGURATIONS)
def test_ctranslate2_with_each_option(tmp_path, name):
    values, config = configured(name)
    published, slow = open_ctranslate2(tmp_path / "there", values, config)
    start = None if "zeros" in name else TOKENS.index((CONFIG | config)["decoder_start_token"])
    rows = rows_of(published.source, TOKENS, None, start, 2, 12)
    if start is None:
        slow_here, slow = slow, lambda source, target: slow_here(source, [0, *target[1:]])
    same_logits(published, tmp_path, slow, rows, rows)


def test_ctranslate2_with_fewer_parameters_and_tables_that_are_one(tmp_path):
    """Aliases, biases and final norms that are missing, and whole numbers with a scale for each row or for all."""
    values = variables()
    gone = re.compile("attention/linear.*bias|coder/layer_norm")
    values = {name: value for name, value in values.items() if not gone.search(name)}
    small = {"decoder/embeddings/weight": np.arange(1, 14) * 8.0, "encoder/layer_0/ffn/linear_1/weight": np.array(50.0)}
    for name, scale in small.items():
        values[f"{name}_scale"] = scale.astype("f4")
        values[name] = np.rint(values[name] * scale.reshape(-1, 1)).clip(-127, 127).astype("i1")
    del values["decoder/projection/weight"], values["encoder/embeddings_0/weight"]
    alias = [
        (name, "decoder/embeddings/weight") for name in ("decoder/projection/weight", "encoder/embeddings_0/weight")
    ]
    published, slow = open_ctranslate2(tmp_path / "there", values, aliases=alias)
    rows = rows_of(published.source, TOKENS, None, 1, 2, 12)
    options = same_logits(published, tmp_path, slow, rows, rows).model.options
    assert (options.share_embeddings, options.attention_bias, options.has_final_norm) == ("all", False, False)


@pytest.mark.parametrize(("version", "revision"), [(2, 2), (3, 3), (4, 4), (5, 5), (6, 7)])
def test_ctranslate2_in_every_version_of_the_file(tmp_path, version, revision):
    values, there = variables(n_layers=2), tmp_path / "there"
    stored = dict(values)
    if revision < 5:  # the options are those of both stacks, and the first embedding has no number
        stored = {name.removeprefix("encoder/") if value.ndim == 0 else name: value for name, value in values.items()
                  if value.ndim or not name.startswith("decoder/")}  # fmt: skip
        stored["encoder/embeddings/weight"] = stored.pop("encoder/embeddings_0/weight")
    if version < 6:  # special tokens are in the file
        texts = {"unk_token": "word8", "eos_token": "word1", "bos_token": "word2"}
        stored |= {name: np.frombuffer(text.encode(), "i1") for name, text in texts.items()}
        stored |= {"with_source_eos": np.asarray(np.int8(1)), "with_target_bos": np.asarray(np.int8(version % 2))}
    there_tokens = TOKENS if version == 6 else (*TOKENS[:-1], "word9")
    write_ctranslate2(there, stored, there_tokens, version=version, revision=revision)
    if version < 6:
        (there / "config.json").unlink()
    published = read_ctranslate2(there)
    special = (5 if version % 2 else 4, 4, 11) if version < 6 else (1, 2, 12)
    rows = rows_of(published.source, there_tokens, None, *special)
    run = same_logits(published, tmp_path, lambda *ids: slow_models.ctranslate2({}, values, *ids), rows, rows)
    assert run.model.options.source_end == (version < 6)


def test_ctranslate2_with_two_vocabularies(tmp_path):
    there = [*reversed(TOKENS)]
    values = variables(seed=4)
    write_ctranslate2(tmp_path / "there", values)
    (tmp_path / "there" / "shared_vocabulary.txt").rename(tmp_path / "there" / "source_vocabulary.txt")
    (tmp_path / "there" / "target_vocabulary.json").write_text(json.dumps(there))
    published = read_ctranslate2(tmp_path / "there")
    source = rows_of(published.source, TOKENS, None, None, 2, 12)
    target = rows_of(published.target, there, None, 11, 10, 0)
    same_logits(published, tmp_path, lambda *ids: slow_models.ctranslate2({}, values, *ids), source, target)
    assert published.source.encode("word3 other") == [published.source.tokens.index("word3"), 3]


# ---------------------------------------------------------------------------------------------------------------------
# Marian


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_marian_with_each_option(tmp_path, name):
    found, settings, vocabularies = write_configuration(tmp_path / "there", name)
    published = read_marian(tmp_path / "there")
    there = [[*vocabularies.values()][place] for place in (0, -1)]
    source, target = (
        rows_of(one, tokens, None, None, 0, 1)
        for one, tokens in zip((published.source, published.target), there, strict=True)
    )

    def slow(ids, target):
        return slow_models.marian(settings, found, ids, [0, *target[1:]])

    search = same_logits(published, tmp_path, slow, source, target).options.search
    assert (search.beam, search.alpha) == ((12, 0) if len(vocabularies) == 1 else (3, 0.6))


def test_marian_in_half_precision_in_columns_and_with_arrays_that_mean_nothing(tmp_path):
    found = arrays()
    found["decoder_l1_ffn_W2"] = found["decoder_l1_ffn_W2"].astype("f2")
    found["encoder_l1_self_Wq"] = np.asfortranarray(found["encoder_l1_self_Wq"])
    more = {"special:other": np.zeros(2, "i1"), "decoder_c_mt": np.zeros((1, 3), "f4")}
    published = read_marian(write_marian(tmp_path / "there", found | more))
    rows = rows_of(published.source, MARIAN_TOKENS, None, None, 0, 1)
    same_logits(
        published, tmp_path, lambda ids, target: slow_models.marian(SETTINGS, found, ids, [0, *target[1:]]), rows, rows
    )


# ---------------------------------------------------------------------------------------------------------------------
# Decoders alone

OLDER_NAME = {"rope_type": None, "type": "llama3"}
INSIDE = {"rope_theta": None}
OF_DECODERS = {
    "gpt2": ("gpt2", {}),
    "gpt2 tied, another activation": ("gpt2", {"tie_word_embeddings": True, "activation_function": "gelu_new"}),
    "gpt2, more layers": ("gpt2", {"n_layer": 3, "n_head": 4, "activation_function": "relu"}),
    "llama": ("llama", {}),
    "llama tied, slow pairs": ("llama", {"tie_word_embeddings": True, "rope_parameters": SLOW_PAIRS} | INSIDE),
    "llama, slow pairs as older files say": ("llama", {"rope_scaling": SLOW_PAIRS | OLDER_NAME} | INSIDE),
    "llama without biases, every head its own": ("llama", {"attention_bias": False, "num_key_value_heads": 4}),
    "llama, another base": ("llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 700.0}} | INSIDE),
    "mistral": ("llama", {"model_type": "mistral", "attention_bias": False, "sliding_window": 70}),
    "qwen2": ("llama", {"model_type": "qwen2"}),
}  # fmt: skip


@pytest.mark.parametrize("begins", [True, False])
@pytest.mark.parametrize("name", OF_DECODERS)
def test_a_decoder_alone(tmp_path, monkeypatch, name, begins):
    without_tokenizers(monkeypatch)
    kind, changes = OF_DECODERS[name]
    config = CONFIGS[kind] | changes
    write_run(read_huggingface(write_decoder(tmp_path / "there", kind, begins, **changes)), tmp_path / "run")
    run = mt.load(tmp_path / "run")
    assert run.model.options.start_token == begins
    words = "b a d d f"
    ids = [START, *run.target.encode(words)]
    rows = [None, SPECIAL["start"], SPECIAL["end"], SPECIAL["unknown"], *map(WORDS.index, run.target.tokens[BEGIN:])]
    assert [rows[i] for i in ids] == [1, *map(WORDS.index, words.split())]
    expected = getattr(slow_models, kind)(config, tensors(config), [rows[i] for i in ids])
    found = run.model.decode(np.array([ids])).data[0]
    np.testing.assert_allclose(found[:, 1:], expected[:, rows[1:]], atol=1e-6 * np.abs(expected).max())
    assert (found[:, 0] < -5000).all()
    assert [rows[i] for i in run.target.ends] == [3, 5]
    assert run.target.kept["chat_template"] == "a template"
    assert run.options.data.window == (7 if kind == "gpt2" else 70)
