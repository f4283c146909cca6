"""What is written for other programs beside the weights: files, tokens, special ids, and the rules of a search."""

import errno
import json
import sys
from dataclasses import fields, replace
from itertools import combinations_with_replacement

import decoder_folders
import numpy as np
import pytest
from ctranslate2_folders import without_ctranslate2
from exported_runs import (
    BASES,
    CLASSES,
    IDS,
    config_of,
    decoder,
    logits_here,
    logits_there,
    translator,
    variables_of,
)
from random_runs import in_memory, random_model, trained

from minitransformer.apps.cli import main
from minitransformer.apps.interop import WRITERS, ExportError, read_huggingface
from minitransformer.apps.interop.ctranslate2 import SEARCH
from minitransformer.data import END, PAD, START, Characters, Closed, MissingExtraError, Vocabulary
from minitransformer.decoding import SearchOptions
from minitransformer.runs import RunError

SentencePieceProcessor = pytest.importorskip("sentencepiece").SentencePieceProcessor


@pytest.fixture(autouse=True)
def programs(monkeypatch):
    """Let runs be written, and decoders be read, where the other packages are not installed."""
    without_ctranslate2(monkeypatch)
    decoder_folders.without_tokenizers(monkeypatch)


@pytest.mark.parametrize("program", WRITERS)
def test_an_export_that_fails_leaves_nothing(tmp_path, monkeypatch, program):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("minitransformer.apps.interop.writing.put_in_place", full)
    with pytest.raises(RunError, match=r"there: No space left on device"):
        WRITERS[program](translator(BASES[program]), tmp_path / "there")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("program", WRITERS)
@pytest.mark.parametrize("kept", ["there", "there/mine"])
def test_nothing_is_overwritten(tmp_path, program, kept):
    (tmp_path / kept).parent.mkdir(exist_ok=True)
    (tmp_path / kept).write_text("mine")
    with pytest.raises(RunError, match=r"there exists already; .* another --out"):
        WRITERS[program](translator(BASES[program]), tmp_path / "there")
    assert (tmp_path / kept).read_text() == "mine"


def test_a_package_that_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2.specs", None)
    with pytest.raises(MissingExtraError, match=r"package ctranslate2.*minitransformer\[models\]"):
        WRITERS["ctranslate2"](translator(BASES["ctranslate2"]), tmp_path / "there")
    assert not (tmp_path / "there").exists()


# ---------------------------------------------------------------------------------------------------------------------
# Tokens, and what is told beside the weights


def told(folder, *names):
    return {name: json.loads((folder / name).read_text(encoding="utf-8")) for name in names}


def words(*tokens, unknown=None):
    found = Closed(Vocabulary(tokens), list, "".join)
    found.unknown = None if unknown is None else found.tokens.index(unknown)
    return found


def test_what_transformers_is_told_of_a_translator(tmp_path):
    run = in_memory(random_model(two=True, dropout=0.25, search={"force_end": True}))
    WRITERS["huggingface"](run, tmp_path / "there")
    names = ("config.json", "generation_config.json", "tokenizer_config.json", "vocab.json", "target_vocab.json")
    config, rules, tokens, *ids = told(tmp_path / "there", *names).values()
    assert {name: config[name] for name in ("dropout", "attention_dropout", "activation_dropout")} == {
        "dropout": 0.25, "attention_dropout": 0, "activation_dropout": 0,
    }  # fmt: skip
    assert (config["architectures"], config["model_type"]) == (["MarianMTModel"], "marian")
    assert config["is_encoder_decoder"] is config["static_position_embeddings"] is tokens["separate_vocabs"] is True
    assert (config["vocab_size"], config["decoder_vocab_size"]) == (len(run.source), len(run.target))
    assert config["max_position_embeddings"] >= config["d_model"]
    for special in (config, rules):
        ids_there = [special[f"{name}_token_id"] for name in ("pad", "decoder_start", "eos", "forced_eos")]
        assert ids_there == [PAD, START, END, END]
    assert config["bos_token_id"] == START
    assert config["dtype"] == "float64"
    for found, side in zip(ids, (run.source, run.target), strict=True):
        assert [*found] == [*side.tokens]
        assert [*found.values()] == [*range(len(side))]
    assert [tokens[f"{name}_token"] for name in ("pad", "eos", "unk")] == ["<pad>", "<end>", "<unk>"]
    assert not tokens["clean_up_tokenization_spaces"]


@pytest.mark.parametrize("program", WRITERS)
def test_texts_are_normalised_there_as_here(tmp_path, program):
    run = translator(BASES[program])
    WRITERS[program](run, tmp_path / "there")
    for side in ("source", "target"):
        there = SentencePieceProcessor(model_file=f"{tmp_path / 'there' / f'{side}.spm'}")
        for text in ("the\u00a0cat", "\u2028the\tcat\u202f ", "cafe\u0301", "\u1100\u1161"):
            assert there.encode(text) == getattr(run, side).encode(text)


def test_vocabularies_are_one_for_transformers_where_their_tokens_are_the_same(tmp_path):
    run = in_memory(random_model())
    copy = type(run.source).from_json(run.source.to_json())
    for number, target in enumerate((copy, Characters(Vocabulary(["<unk>", *"ab"])))):
        notes = WRITERS["huggingface"](run._replace(target=target), tmp_path / f"{number}")
        names = {path.name for path in (tmp_path / f"{number}").iterdir()}
        assert ("source.spm" in names) == ("vocab.json" in names) == (target is copy)
        assert "target_vocab.json" not in names
        assert any("no tokeniser" in note and "chars" in note for note in notes) == (target is not copy)


UNKNOWN_TOKENS = {
    "none": (words("x", "y", "z"), words("x", "y"), "<unk>"),
    "one for each side": (words("x", "y", "?", unknown="?"), words("!", "y", "z", unknown="!"), "?"),
    "of the target": (words("x", "y", "z"), words("!", "?", unknown="!"), "!"),
    "of the source": (Characters(Vocabulary(["<unk>", *"ab"])), words("x", "y"), "<unk>"),
}


@pytest.mark.parametrize("name", UNKNOWN_TOKENS)
def test_ctranslate2_has_one_unknown_token(tmp_path, name):
    """Where a side lacks it, one is added that is never written, and all other logits stay the same."""
    source, target, unknown = UNKNOWN_TOKENS[name]
    run = in_memory(random_model(source=source, target=target, output_bias=True))
    notes = WRITERS["ctranslate2"](run, tmp_path / "there")
    assert any("no tokeniser" in note for note in notes)
    config = config_of(tmp_path / "there")
    assert [config[f"{part}_token"] for part in ("unk", "bos", "eos", "decoder_start")] == [
        unknown, "<start>", "<end>", "<start>",
    ]  # fmt: skip
    for side, own in (("source", source), ("target", target)):
        found = json.loads((tmp_path / "there" / f"{side}_vocabulary.json").read_text())
        assert found == [*own.tokens, *([] if unknown in own.tokens else [unknown])]
    ids = [3, 4], [4, 3]
    found, expected = logits_there("ctranslate2", tmp_path / "there", *ids), logits_here(run, *ids)
    np.testing.assert_allclose(found[:, : len(target)], expected, atol=1e-4)
    assert (found[:, len(target) :] < -5000).all()


@pytest.mark.parametrize("renormalise", [False, True])
@pytest.mark.parametrize("imported", [False, True])
def test_ctranslate2_never_writes_what_a_search_here_does_not(tmp_path, renormalise, imported):
    """Padding, the start and forbidden tokens have no probability where a search gives it to the others."""
    search = {"renormalise": renormalise, "forbidden": [6] if renormalise else None}
    run = in_memory(random_model(output_bias=True, search=search))
    run.model.output_bias.data[PAD] = -1e4 if imported else 0.25
    expected = run.model.output_bias.data.copy()
    WRITERS["ctranslate2"](run, tmp_path / "there")
    if renormalise or imported:
        expected[[PAD, START, *([6] if renormalise else [])]] = -1e4
    found = variables_of(tmp_path / "there")["decoder/projection/bias"]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


CT2_RULES = {"beam": 1, "alpha": 2.5, "stop": "exact", "most_written": None, "least_written": 0, "force_end": True,
             "penalty": "gnmt", "full_beam": False, "limit_ends": False}  # fmt: skip


def test_the_notes_for_ctranslate2_tell_every_pair_of_rules(tmp_path):
    run = in_memory(random_model(search=SEARCH | {"beam": 3, "alpha": 0.5, "most_written": 9}))
    for number, (a, b) in enumerate(combinations_with_replacement(CT2_RULES, 2)):
        pair = {a: CT2_RULES[a], b: CT2_RULES[b]}
        rules = run.options.search.changed(**pair)
        *notes, call = WRITERS["ctranslate2"](
            run._replace(options=replace(run.options, search=rules)), tmp_path / f"{number}"
        )
        differs = bool({"stop", "force_end", "penalty", "full_beam", "limit_ends"} & pair.keys())
        arguments = dict(one.split("=") for one in call.partition("(tokens, ")[2].rstrip(")").split(", "))
        assert arguments == {
            "beam_size": "1" if differs else f"{rules.beam}",
            "min_decoding_length": f"{rules.least_written}",
            "max_decoding_length": f"{(256 if 'most_written' in pair else 9) - ('force_end' in pair)}",
            **({} if differs else {"length_penalty": f"{rules.alpha}"}),
        }, pair
        assert sum("beam search differs" in note for note in notes) == (differs and rules.beam > 1)
        assert sum("256" in note for note in notes) == ("most_written" in pair)


@pytest.mark.parametrize("program", CLASSES)
def test_what_transformers_is_told_of_a_decoder_alone(tmp_path, program):
    run = decoder(BASES[program].changed(dropout=0.25))
    notes = WRITERS["huggingface"](run, tmp_path / "there")
    names = ("config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json")
    config, rules, tokens, tokenizer = told(tmp_path / "there", *names).values()
    assert config["vocab_size"] == len(decoder_folders.WORDS)
    assert config["model_type"] == program
    assert config["architectures"] == [{"gpt2": "GPT2LMHeadModel", "llama": "LlamaForCausalLM"}[program]]
    assert (config["bos_token_id"], config["eos_token_id"]) == (1, [3, 5])
    assert rules == {"bos_token_id": 1, "eos_token_id": [3, 5], "temperature": 0.5}
    assert [tokens[f"{name}_token"] for name in ("bos", "eos", "unk")] == ["START", "END", "UNK"]
    assert (tokens["chat_template"], tokens["model_max_length"]) == ("a template", 7)
    assert tokenizer == decoder_folders.tokenizer_json()
    if program == "gpt2":
        assert [config[f"{name}_pdrop"] for name in ("embd", "resid", "attn")] == [0.25, 0.25, 0]
        assert not notes
    else:
        assert config["max_position_embeddings"] == 7
        assert config["hidden_act"] == "silu"
        assert "at most 7 tokens" in notes[0]


def test_qwen2_has_biases_of_queries_keys_and_values_only(tmp_path):
    run = decoder(BASES["llama"].changed(attention_bias="inputs"))
    WRITERS["huggingface"](run, tmp_path / "there")
    assert config_of(tmp_path / "there")["model_type"] == "qwen2"
    np.testing.assert_allclose(logits_there("llama", tmp_path / "there", *IDS), logits_here(run, *IDS), atol=1e-4)


def test_usual_frequencies_are_not_written(tmp_path):
    run = decoder(BASES["llama"].changed(rotary_factor=1.0, rotary_length=8192.0, rotary_low=1.0, rotary_high=4.0))
    WRITERS["huggingface"](run, tmp_path / "there")
    assert config_of(tmp_path / "there")["rope_scaling"] is None


@pytest.mark.parametrize("program", CLASSES)
def test_a_decoder_alone_without_a_start_or_an_unknown_token(tmp_path, program):
    """The end is both for GPT-2, whose files say so; Llama's name no unknown token."""
    folder = decoder_folders.write_folder(tmp_path / "first", program)
    for name in ("generation_config.json", "tokenizer_config.json"):
        (folder / name).unlink()
    config = {name: value for name, value in config_of(folder).items() if name != "bos_token_id"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(decoder_folders.tokenizer_json(False, unknown="other")))
    run = in_memory(read_huggingface(folder))
    WRITERS["huggingface"](run, tmp_path / "there")
    names = ("config.json", "generation_config.json", "tokenizer_config.json")
    config, rules, tokens = told(tmp_path / "there", *names).values()
    assert rules == {"bos_token_id": 3, "eos_token_id": 3}
    assert config["bos_token_id"] == 3
    assert tokens.get("unk_token") == ("END" if program == "gpt2" else None)
    assert "chat_template" not in tokens
    run.model.options = run.model.options.changed(start_token=True)
    WRITERS["huggingface"](run, tmp_path / "same")  # start and end have one embedding
    dict(run.model.named_parameters())["target_embedding.table"].data[START] += 1
    with pytest.raises(ExportError, match="one token for start and end"):
        WRITERS["huggingface"](run, tmp_path / "other")


@pytest.mark.parametrize("program", CLASSES)
def test_a_decoder_alone_that_transformers_cannot_have(tmp_path, program):
    run = decoder(BASES[program])
    with pytest.raises(ExportError, match="ct2-transformers-converter --model FOLDER"):
        WRITERS["ctranslate2"](run, tmp_path / "there")
    characters = Characters(Vocabulary(["<unk>", *"ab"]))
    with pytest.raises(ExportError, match="found tokens of the kind chars"):
        WRITERS["huggingface"](run._replace(target=characters), tmp_path / "there")
    run.model.output_bias.data[PAD] = 1  # of a token that is only here
    WRITERS["huggingface"](run, tmp_path / "there")
    run.model.output_bias.data[-1] = 1
    with pytest.raises(ExportError, match="no biases of logits"):
        WRITERS["huggingface"](run, tmp_path / "other")


@pytest.mark.parametrize("quantization", [None, "int8"])
def test_ctranslate2_is_told_of_the_type_of_the_weights(tmp_path, monkeypatch, quantization):
    asked = []
    monkeypatch.setattr("ctranslate2_folders.Specification.optimize", lambda spec, kind: asked.append(kind))
    given = {"quantization": quantization} if quantization else {}
    WRITERS["ctranslate2"](translator(BASES["ctranslate2"]), tmp_path / "there", **given)
    assert asked == [quantization]


def test_the_command_writes_a_run_and_refuses_one_in_a_line(tmp_path, capsys):
    trained(tmp_path / "run")
    command = ["export", str(tmp_path / "run"), "--out", str(tmp_path / "there"), "--to"]
    assert main([*command, "huggingface", "--quantization", "int8"]) == 2
    assert "--quantization is for --to ctranslate2" in capsys.readouterr().err
    assert not (tmp_path / "there").exists()
    assert main([*command, "ctranslate2", "--quantization", "int16"]) == 0
    assert "translate_batch(tokens, beam_size=1" in capsys.readouterr().out


def test_every_rule_of_a_search_has_a_test():
    """They are written or told in notes, which the tests of each program try pair by pair."""
    assert {one.name for one in fields(SearchOptions)} == {*CT2_RULES, "renormalise", "forbidden"}
