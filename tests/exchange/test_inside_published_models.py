"""What can be looked at in a model of another program: attention, values and gradients, as in one trained here."""

from dataclasses import replace

import numpy as np
import pytest
from ctranslate2_folders import write_folder as write_ctranslate2_folder
from marian_folders import TEXTS, write_folder

import minitransformer as mt
from minitransformer.apps.exchange import read_ctranslate2, read_huggingface, write_run
from minitransformer.apps.explorer.session import Session
from minitransformer.data import END, START
from minitransformer.tracing import Loss, difference, in_double
from minitransformer.training import RunFolder

FEED, CROSS = "encoder.layers.0.feed_forward", "decoder.layers.0.cross_attention"
ENTRIES = {
    "source_embedding.table": None,  # the row of the first token
    f"{FEED}.b2": (2,),
    f"{CROSS}/multi_head_attention": (0, 1, 2),
    f"{CROSS}.w_in": (1, 4),
    f"{CROSS}/multi_head_attention:multi_head_attention.k": (0, 1, 0, 1),
    "decoder.layers.0.residual1.layer_norm.gain": (5,),
    "output_bias": (END,),
}
"""Parameters, a step and a value inside a step; each with the index of an entry."""


def from_huggingface(folder):
    pytest.importorskip("sentencepiece")
    return read_huggingface(write_folder(folder)), TEXTS


def from_ctranslate2(folder):
    return read_ctranslate2(write_ctranslate2_folder(folder)), ["word1 word3", "word4", "word2 word2 word5"]


@pytest.fixture(params=[from_huggingface, from_ctranslate2], ids=["huggingface", "ctranslate2"])
def opened(request, tmp_path):
    """Return a run, and ids of a source and a target."""
    published, texts = request.param(tmp_path / "there")
    write_run(replace(published, search={**published.search, "most_written": 4}), tmp_path / "run")
    run = mt.load(tmp_path / "run")
    source = [*run.source.encode(texts[0]), *([END] if run.model.options.source_end else [])]
    return run, np.array([source]), np.array([[START, *run.target.encode(texts[2]), END]])


def test_a_trace_holds_its_attention_and_its_gradients(opened):
    run, source, target = opened
    trace = mt.trace(run.model, source, target)
    maps = run.model.attention_maps(source, target[:, :-1])
    assert np.array_equal(trace[f"{CROSS}/multi_head_attention:softmax.y"], maps["cross"][0])
    np.testing.assert_allclose(maps["cross"][0].sum(axis=-1), 1, rtol=1e-6)
    np.testing.assert_array_equal(trace.logits, run.model(source, target[:, :-1]).data)
    logits = run.model(source, target[:, :-1])
    mt.ops.cross_entropy(logits, target[:, 1:], ignore_index=0).backward()
    for name, parameter in run.model.named_parameters():
        np.testing.assert_array_equal(trace[f"d:{name}"], parameter.grad)
    assert not trace["d:output_bias"][START]  # never written


@pytest.mark.parametrize("key", ENTRIES)
def test_its_gradients_are_those_of_finite_differences(opened, key):
    run, source, target = opened
    index = (int(source[0, 0]), 1) if ENTRIES[key] is None else ENTRIES[key]
    found = difference(in_double(run.model), source, target, Loss(), [], key, index)
    assert abs(found.gradient) > 1e-6
    assert found.relative_error < 1e-5


def test_the_explorer_shows_it(opened, tmp_path):
    run, source, _ = opened
    session, text = Session(run, RunFolder(tmp_path / "run")), run.source.decode(source[0].tolist())
    assert session.model({})["options"]["n_layers"] == 1
    assert session.translate({"text": text, "beam": 2})
    steps = session.trace({"text": text})["steps"]
    assert {FEED, CROSS} <= {one["place"] for one in steps}
