"""Marian's own files, opened here: the oracle is CTranslate2, which reads them with a converter of its own."""

import json
import sys

import numpy as np
import pytest
from marian_npz import CONFIGURATIONS, D, arrays, write_configuration, write_folder

import minitransformer as mt
from minitransformer.apps.interop import read_marian, write_run
from minitransformer.data import END, START, MissingExtraError, pad
from minitransformer.files import FileError


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


TOKENS_IN_YAML = {
    '"\\U0001F600"': "😀", r'"\_"': "\u00a0", r'"\b"': "\b", r'"\N"': "\x85", r'"\L\e\x41\u00e9"': "\u2028\x1bAé",
    r'"a\"\\"': 'a"\\', "'it''s'": "it's", "yes": "yes", "~": "~", "12": "12", "1.0": "1.0", "<<": "<<", "=": "=",
    '"#"': "#", "? long": "long", '"\u2028"': "\u2028", "x\x85y": "x\x85y", "a:b": "a:b", "█": "█",
}  # fmt: skip


def test_tokens_are_read_as_yaml_writes_them(tmp_path):
    tokens = {"</s>": "</s>", "<unk>": "<unk>"} | TOKENS_IN_YAML
    folder = write_folder(tmp_path / "there", arrays(sizes=(len(tokens),) * 2))
    lines = [f"{name}\n: {i}" if name[0] == "?" else f"{name}: {i}" for i, name in enumerate(tokens)]
    (folder / "vocab.yml").write_text("# a comment\n" + "\n".join(lines) + "\n", encoding="utf-8")
    assert read_marian(folder).source.tokens[4:] == (*tokens.values(),)[2:]


def test_a_vocabulary_may_be_json(tmp_path):
    tokens = ["</s>", "<unk>", "😀", '"/', "\u2028é"]
    folder = write_folder(tmp_path / "there", arrays(sizes=(len(tokens),) * 2))
    (folder / "vocab.yml").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    assert read_marian(folder).source.tokens[4:] == (*tokens,)[2:]


@pytest.mark.parametrize("text", [
    "# a comment\nmodels: [model.npz]   # one\nvocabs: ['vocab.yml', \"vocab.yml\"]\nbeam-size: 3\nnormalize: 0.5\n",
    "---\n'models':\n- 'model.npz'\nvocabs:\n    - \"vocab.yml\"\n\"beam-size\": '3'\nnormalize: !!float 0.5\n...\n",
    "models: model.npz\nvocabs: vocab.yml\nbeam-size: 3\nnormalize: 0.5\nallow-special: False\nmini-batch: 1\nseed: 1",
    "{vocabs: vocab.yml, beam-size: 3, normalize: 0.5, word-penalty: 0.00, allow-unk: No, weights: [1.]}",
    *(f"{{vocabs: vocab.yml, beam-size: 3, normalize: {half}, word-penalty: 0e0}}" for half in (".5", "0.5e0", "5E-1")),
])  # fmt: skip
def test_the_rules_may_be_any_yaml(tmp_path, text):
    folder = write_folder(tmp_path / "there")
    (folder / "decoder.yml").write_text(text)
    (folder / "other.vocab.yml").write_text("not read: x")
    search = read_marian(folder).search
    assert (search["beam"], search["alpha"]) == (3, 0.5)


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 100_000, "a: *a", "a: 1\n'a': 2", "? [a]\n: b", "a: {b: c}"])
def test_other_yaml_is_refused(tmp_path, text):
    folder = write_folder(tmp_path / "there")
    (folder / "decoder.yml").write_text(text)
    with pytest.raises(FileError, match=r"decoder\.yml"):
        read_marian(folder)


def test_without_pyyaml_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(MissingExtraError, match="models"):
        read_marian(write_folder(tmp_path / "there"))


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
