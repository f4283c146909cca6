"""Marian's own files, opened here: the oracle is CTranslate2, which reads them with a converter of its own."""

import json

import numpy as np
import pytest
from marian_npz import CONFIGURATIONS, D, arrays, write_configuration, write_folder

import minitransformer as mt
from minitransformer.apps.exchange import read_marian, write_run
from minitransformer.data import END, START, pad


def opened_there(folder, tmp_path, vocabularies):
    """Convert with CTranslate2, whose converter needs Marian's positions, and layer norm's epsilon."""
    ctranslate2 = pytest.importorskip("ctranslate2")
    pytest.importorskip("yaml")
    there = tmp_path / "with positions"
    there.mkdir()
    with np.load(folder / "model.npz") as file:
        found = dict(file)
    places, timescales = np.arange(40)[:, None], 10000 ** (np.arange(D // 2) / (D // 2 - 1))
    waves = np.concatenate((np.sin(places / timescales), np.cos(places / timescales)), axis=1).astype("float32")
    np.savez(there / "model.npz", Wpos=waves, **found)
    paths = [str(folder / name) for name in vocabularies]
    out = tmp_path / "converted"
    ctranslate2.converters.MarianConverter(str(there / "model.npz"), paths).convert(str(out))
    config = json.loads((out / "config.json").read_text())
    (out / "config.json").write_text(json.dumps(config | {"layer_norm_epsilon": 1e-6}))
    return ctranslate2.Translator(str(out), compute_type="float32", inter_threads=1, intra_threads=1)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_log_probabilities_are_the_same(tmp_path, name):
    folder = tmp_path / "there"
    _, _, vocabularies = write_configuration(folder, name)
    published = read_marian(folder)
    write_run(published, tmp_path / "run")
    run = mt.load(tmp_path / "run")
    assert run.options.search.beam == (12 if "vocab.yml" in vocabularies else 3)
    theirs = opened_there(folder, tmp_path, vocabularies)
    rng = np.random.default_rng(0)
    pairs = [
        [rng.integers(END + 1, len(side), rng.integers(1, 12)).tolist() for side in (run.source, run.target)]
        for _ in range(50)
    ]
    expected = theirs.score_batch(
        [[run.source.tokens[i] for i in one] for one, _ in pairs],
        [[run.target.tokens[i] for i in other] for _, other in pairs],
    )
    logits = run.model(pad([[*one, END] for one, _ in pairs]), pad([[START, *other] for _, other in pairs]))
    found = mt.ops.log_softmax(logits).data
    for row, (_, other), one in zip(found, pairs, expected, strict=True):
        ours = row[np.arange(len(other) + 1), [*other, END]]
        np.testing.assert_allclose(ours, one.log_probs, rtol=1e-5, atol=1e-5)


def test_a_vocabulary_may_be_a_sentencepiece_model(tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    folder = write_folder(tmp_path / "there")
    (folder / "vocab.yml").unlink()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a man sees a dog"] * 5), model_prefix=str(folder / "vocab"), vocab_size=14,
        hard_vocab_limit=False, num_threads=1, minloglevel=2, bos_id=-1, eos_id=0, unk_id=1,
    )  # fmt: skip
    (folder / "vocab.vocab").unlink()
    (folder / "vocab.model").rename(folder / "vocab.spm")
    size = sentencepiece.SentencePieceProcessor(model_file=str(folder / "vocab.spm")).get_piece_size()
    spm = (folder / "vocab.spm").read_bytes()
    write_folder(folder, arrays(sizes=(size, size)))
    (folder / "vocab.yml").unlink()
    published = read_marian(folder)
    assert published.source is published.target
    assert published.source.model == spm
    assert published.source.decode(published.source.encode("a dog")) == "a dog"
