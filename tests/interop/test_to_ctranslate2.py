"""Runs written for CTranslate2, which must compute the same."""

import numpy as np
import pytest
from marian_folders import write_folder
from random_runs import trained
from toml_cases import toml_table

import minitransformer as mt
from minitransformer.apps.cli import main
from minitransformer.apps.interop import read_ctranslate2, read_huggingface, write_ctranslate2, write_run
from minitransformer.apps.interop.ctranslate2 import SEARCH
from minitransformer.data import Closed, Vocabulary

pytest.importorskip("sentencepiece")
pytest.importorskip("ctranslate2")
from ctranslate2_oracle import opened_there, same_beams, same_scores, sentences

MODELS = toml_table(__file__, "MODELS")
AS_THERE = SEARCH | {"renormalise": True}
"""The rules of a search that finds what CTranslate2 finds."""


@pytest.mark.parametrize("name", MODELS)
def test_ctranslate2_computes_the_same(tmp_path, name):
    forbidden = [5, 7] if name in tuple(MODELS)[::2] else None
    run = trained(tmp_path / "run", search=AS_THERE | {"forbidden": forbidden}, **MODELS[name])
    write_ctranslate2(run, tmp_path / "there")
    theirs, pairs = opened_there(tmp_path / "there"), sentences(run, 60)
    pairs = [[one, [token for token in other if token not in (forbidden or ())]] for one, other in pairs]
    same_scores(theirs, run, pairs)
    same_beams(theirs, run, pairs)
    never = read_ctranslate2(tmp_path / "there").state["output_bias"] == -1e4
    assert np.flatnonzero(never).tolist() == [0, 1, *(forbidden or ())]


def test_an_unknown_token_is_added_where_there_is_none(tmp_path):
    run = trained(tmp_path / "run", search=AS_THERE)
    closed = Closed(Vocabulary([f"t{i}" for i in range(3, len(run.source))]), str.split, " ".join)
    run = run._replace(source=closed, target=closed)
    write_ctranslate2(run, tmp_path / "there")
    theirs, pairs = opened_there(tmp_path / "there"), sentences(run, 40)
    same_scores(theirs, run, pairs)
    same_beams(theirs, run, pairs)
    assert read_ctranslate2(tmp_path / "there").source.tokens == (*closed.tokens[:3], "<unk>", *closed.tokens[3:])


def test_an_imported_model_can_be_written(tmp_path):
    """Its padding is never written; its probability goes to the others, as with CTranslate2's own converter."""
    write_run(read_huggingface(write_folder(tmp_path / "published")), tmp_path / "run")
    run = mt.load(tmp_path / "run")
    run.model.output_bias.data[0] = 10
    notes = write_ctranslate2(run, tmp_path / "there")
    assert notes[0] == "beam search differs there; greedy search writes the same"
    theirs, pairs = opened_there(tmp_path / "there"), sentences(run, 40)
    same_scores(theirs, run, pairs, rules=run.options.search.changed(renormalise=True))
    words = [[run.source.tokens[i] for i in one] for one, _ in pairs]
    source = mt.data.pad([[*one, mt.data.END] for one, _ in pairs])
    limits = {"max_decoding_length": 9, "min_decoding_length": 0}
    expected = [one.hypotheses[0] for one in theirs.translate_batch(words, beam_size=1, **limits)]
    found = mt.decoding.greedy(run.model, source, rules=run.options.search.changed(most_written=10))
    assert [[run.target.tokens[i] for i in ids] for ids in found] == expected


@pytest.mark.parametrize(("quantization", "difference"), [("int8", 0.5), ("int16", 0.05), ("float16", 0.01)])
def test_weights_of_fewer_bits_are_nearly_the_same(tmp_path, capsys, quantization, difference):
    run = trained(tmp_path / "run", dtype="float32")
    there = tmp_path / "there"
    arguments = ["export", str(tmp_path / "run"), "--to", "ctranslate2", "--out", str(there)]
    assert main([*arguments, "--quantization", quantization]) == 0
    assert "translate_batch(tokens, beam_size=1, min_decoding_length=0, max_decoding_length=256)" in (
        capsys.readouterr().out
    )
    expected, found = run.model.state_dict(), read_ctranslate2(there).state
    assert all(not value.any() or np.abs(found[name] - value).max() / np.abs(value).max() < 0.01
               for name, value in expected.items())  # fmt: skip
    words = [[run.source.tokens[i] for i in one] for one, _ in sentences(run, 10)]
    write_ctranslate2(run, tmp_path / "exact")
    scored = [opened_there(folder).score_batch(words, words) for folder in (there, tmp_path / "exact")]
    scores = [np.concatenate([one.log_probs for one in side]) for side in scored]
    assert 0 < np.abs(scores[0] - scores[1]).max() < difference
