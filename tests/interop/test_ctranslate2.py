"""Models of CTranslate2, opened here: the oracle is CTranslate2 itself."""

import re

import marian_folders
import numpy as np
import pytest
from ctranslate2_folders import CONFIGURATIONS, configured, write_folder
from ctranslate2_oracle import opened_there, same_beams, same_scores, sentences

import minitransformer as mt
from minitransformer.apps.interop import read_ctranslate2, read_huggingface, write_run
from minitransformer.data import END, Pieces, pad
from minitransformer.decoding import source_sentence

ctranslate2 = pytest.importorskip("ctranslate2")


def opened_here(folder, tmp_path, read=read_ctranslate2):
    out = tmp_path / f"run of {folder.name}"
    write_run(read(folder), out)
    return mt.load(out)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_log_probabilities_and_beams_are_the_same(tmp_path, name):
    values, config = configured(name)
    factors = {"attention/linear.*weight|norm/gamma": 2, "norm/beta|projection/bias": 0.2}
    factors |= {"projection/weight": 0.01} if "no final norm" in name else {}
    for part, factor in factors.items():
        values |= {one: value.dtype.type(factor) * value for one, value in values.items() if re.search(part, one)}
    values["decoder/projection/bias"][2] += 0.5  # so that translations differ, and end
    write_folder(tmp_path / "there", values, config=config)
    theirs = opened_there(tmp_path / "there")
    run = opened_here(tmp_path / "there", tmp_path)
    pairs = sentences(run, 100)
    end = ["</s>"] if run.model.options.source_end > config.get("add_source_eos", False) else []
    same_scores(theirs, run, pairs, end)
    same_beams(theirs, run, pairs, end)


def test_a_model_converted_from_transformers_is_the_same(tmp_path):
    for package in ("torch", "transformers", "sentencepiece"):
        pytest.importorskip(package)
    model = marian_folders.original(tmp_path / "there", activation_function="swish", scale_embedding=True)
    model.model.shared.weight.data[-1] = 0
    model.save_pretrained(tmp_path / "there")
    converter = ctranslate2.converters.TransformersConverter(str(tmp_path / "there"))
    converter.convert(str(tmp_path / "converted"))
    for name in ("source.spm", "target.spm"):
        (tmp_path / "converted" / name).write_bytes((tmp_path / "there" / name).read_bytes())
    theirs = opened_there(tmp_path / "converted")
    run = opened_here(tmp_path / "converted", tmp_path)
    assert isinstance(run.source, Pieces)
    assert run.options.model.position_layout == "halves"
    assert run.options.model.share_embeddings == "all"
    assert source_sentence(run.model, run.source, "a man")[-1] == END
    pairs = sentences(run, 50)
    same_scores(theirs, run, pairs, end=["</s>"])
    same_beams(theirs, run, pairs, end=["</s>"])
    other = opened_here(tmp_path / "there", tmp_path, read_huggingface)
    ids = [pad(side) for side in zip(*pairs, strict=True)]
    np.testing.assert_allclose(run.model(*ids).data[..., END:], other.model(*ids).data[..., END:], atol=1e-5)
    text = ">>fra<< a man sees a dog"
    assert run.source.encode(text) == other.source.encode(text)
