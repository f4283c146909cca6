"""Runs written for transformers, which must compute the same."""

import json
import os
from dataclasses import replace
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import pytest
from marian_folders import TEXTS
from random_runs import trained
from toml_cases import toml_table

import minitransformer as mt
from minitransformer.apps.interop import read_huggingface, write_huggingface
from minitransformer.arrays import to_numpy
from minitransformer.data import END, PAD, START

pytest.importorskip("sentencepiece")

MODELS = toml_table(__file__, "MODELS")


@pytest.mark.referee
@pytest.mark.parametrize("name", MODELS)
def test_transformers_computes_the_same(tmp_path, name):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    run = trained(tmp_path / "run", **MODELS[name])
    write_huggingface(run, tmp_path / "there")
    theirs, report = transformers.MarianMTModel.from_pretrained(tmp_path / "there", output_loading_info=True)
    assert not any(report.values())
    assert theirs.dtype == torch.float64
    with torch.no_grad():
        for stack in (theirs.model.encoder, theirs.model.decoder):  # which are rounded to float32
            positions = mt.ops.sinusoidal_positions(1024, run.model.options.d_model, layout="halves")
            stack.embed_positions.weight[:] = torch.from_numpy(to_numpy(positions))
    tokeniser = transformers.AutoTokenizer.from_pretrained(tmp_path / "there")
    texts = [*TEXTS, "sieht a Mann", "sieht\u00a0a\u202f Mann", "\u1100\u1161 e\u0301"]
    given = tokeniser(texts, return_tensors="pt", padding=True)
    source = given["input_ids"].numpy()
    assert [[t for t in row if t != PAD] for row in source.tolist()] == [[*run.source.encode(t), END] for t in texts]
    target = np.random.default_rng(2).integers(END + 1, len(run.target), (len(texts), 6))
    target[:, 0] = START
    with torch.no_grad():
        logits = theirs(**given, decoder_input_ids=torch.from_numpy(target)).logits.numpy()
    np.testing.assert_allclose(to_numpy(run.model(source, target).data), logits, rtol=1e-10, atol=1e-10)
    written = theirs.generate(**given, max_length=12)
    found = mt.decoding.greedy(run.model, source, max_length=11)
    expected = [row[: [*row, END].index(END)] for row in written[:, 1:].tolist()]
    assert found == expected
    decoded = tokeniser.batch_decode(written, skip_special_tokens=True)
    assert [run.target.decode(ids).replace("<unk>", "").strip() for ids in found] == [text.strip() for text in decoded]


RULES, ALL_RULES = toml_table(__file__, "RULES"), toml_table(__file__, "ALL_RULES")
DIFFERENCES = toml_table(__file__, "DIFFERENCES")


def test_every_pair_of_rules_is_written(tmp_path):
    run = trained(tmp_path / "run", dtype="float32", search=ALL_RULES)
    pairs = [{a: RULES[a], b: RULES[b]} for a, b in combinations_with_replacement(RULES, 2)]
    for number, pair in enumerate([{}, {"stop": "heuristic"}, *pairs]):
        if "renormalise" in pair:
            pair["forbidden"] = None  # it needs the other
        rules = run.options.search.changed(**pair)
        notes = write_huggingface(run._replace(options=replace(run.options, search=rules)), tmp_path / f"{number}")
        expected = rules.changed(most_written=rules.most_written or 511)
        different = {*pair} - ({"least_written"} if rules.renormalise else set())
        other = [words for name, words in DIFFERENCES.items() if name in different]
        assert sum("511 tokens" in note for note in notes) == (rules.most_written is None)
        assert all(any(words in note for note in notes) == (words in other) for words in DIFFERENCES.values())
        if other:
            expected = expected.changed(beam=1, alpha=1.0, stop="heuristic", penalty="length", full_beam=True)
        said = json.loads((tmp_path / f"{number}" / "generation_config.json").read_text())
        assert said.get("min_length") == (4 if rules.least_written else None)
        if not rules.least_written:  # which import refuses
            read = read_huggingface(tmp_path / f"{number}")
            assert rules.changed(**{"force_end": False} | dict(read.search)) == expected, pair
        for name in ("config.json", "generation_config.json"):
            said = json.loads((tmp_path / f"{number}" / name).read_text())
            assert said["forced_eos_token_id"] == (2 if rules.force_end else None)


def test_an_empty_folder_is_filled_where_folders_cannot_be_replaced(tmp_path, monkeypatch):
    """As on Windows."""

    def rename(old, new, real=os.replace):
        if Path(new).is_dir():
            raise PermissionError(13, "Access is denied")
        real(old, new)

    monkeypatch.setattr(os, "replace", rename)
    (tmp_path / "there").mkdir()
    write_huggingface(trained(tmp_path / "run"), tmp_path / "there")
    assert (tmp_path / "there" / "config.json").exists()
