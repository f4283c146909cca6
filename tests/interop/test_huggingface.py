"""Models of MarianMTModel, opened here: the oracle is transformers itself."""

import numpy as np
import pytest
from marian_folders import original, tokens
from toml_cases import toml_table

import minitransformer as mt
from minitransformer.apps.interop import read_huggingface, write_run
from minitransformer.arrays import to_numpy
from minitransformer.data import END, PAD, START

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")
pytestmark = pytest.mark.referee
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

CONFIGURATIONS = toml_table(__file__, "CONFIGURATIONS")


def rows(size):
    """Return for each of our ids the original's, in a vocabulary of the order of ``tokens``."""
    return np.array([size - 1, size - 1, 0, 1, *range(2, size - 1)])


def opened(folder, tmp_path):
    out = tmp_path / "run"
    write_run(read_huggingface(folder), out)
    return mt.load(out)


def sentences(n, size, seed=0, longest=9):
    """Return random sentences in our ids, padded: (n, T)."""
    rng = np.random.default_rng(seed)
    ids = np.full((n, longest), PAD)
    for row in ids:
        length = rng.integers(1, longest)
        row[:length] = rng.integers(END + 1, size + 1, length)
        row[length] = END
    return ids


def their_inputs(ids, size):
    ids = torch.from_numpy(rows(size)[ids])
    return {"input_ids": ids, "attention_mask": (ids != size - 1).long()}


def both_sizes(name):
    return len(tokens()), len(tokens(30) if CONFIGURATIONS[name].get("separate") else tokens())


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-10)])
def test_encoder_output_and_logits_are_the_same(tmp_path, name, dtype, tolerance):
    theirs = original(tmp_path / "there", getattr(torch, dtype), **CONFIGURATIONS[name])
    ours = opened(tmp_path / "there", tmp_path).model
    sizes = both_sizes(name)
    source, target = sentences(5, sizes[0]), sentences(5, sizes[1], seed=1)
    target[:, 0] = START
    given = their_inputs(source, sizes[0])
    with torch.no_grad():
        memory = theirs.model.encoder(**given).last_hidden_state.numpy()
        logits = theirs(**given, decoder_input_ids=torch.from_numpy(rows(sizes[1])[target])).logits.numpy()
    found = to_numpy(ours.encode(source).data)
    assert found.dtype == memory.dtype == dtype
    real = source != PAD
    np.testing.assert_allclose(found[real], memory[real], rtol=tolerance, atol=tolerance)
    written = (target != PAD).cumprod(axis=1).astype(bool)
    found = to_numpy(ours(source, target).data)
    np.testing.assert_allclose(
        np.delete(found[written], START, axis=-1), logits[written][:, np.delete(rows(sizes[1]), START)],
        rtol=tolerance, atol=tolerance,
    )  # fmt: skip
    assert found[..., START].max() < -9000


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_generate_writes_the_same_tokens(tmp_path, name):
    theirs = original(tmp_path / "there", **CONFIGURATIONS[name])
    run = opened(tmp_path / "there", tmp_path)
    sizes = both_sizes(name)
    source = sentences(200, sizes[0])
    rules = run.options.search
    for options, ours in (
        ({"num_beams": 1}, lambda: mt.decoding.greedy(run.model, source, rules=rules)),
        ({}, lambda: beams(run, source, rules)),
    ):
        written = theirs.generate(**their_inputs(source, sizes[0]), **options).numpy()[:, 1:]
        expected = [[int(t) for t in row[: [*row, 0].index(0)]] for row in written.tolist()]
        assert [rows(sizes[1])[tokens].tolist() for tokens in ours()] == expected


def beams(run, source, rules):
    found = mt.decoding.beam_search(run.model, source, rules.beam, rules.alpha, rules=rules)
    return [one[0].tokens for one in found]


RULES = toml_table(__file__, "RULES")


@pytest.mark.parametrize("name", RULES)
def test_every_rule_of_the_search_is_kept(tmp_path, name):
    theirs = original(tmp_path / "there", scale_embedding=True, seed=1)
    size = len(tokens())
    changes = dict(RULES[name])
    if "bad_words_ids" in changes:
        changes["bad_words_ids"] = [[number % size] for [number] in changes["bad_words_ids"]]
    theirs.generation_config.update(**changes)
    theirs.save_pretrained(tmp_path / "there")
    run = opened(tmp_path / "there", tmp_path)
    source, rules = sentences(100, size, seed=2), run.options.search
    for n_beams in (1, rules.beam):
        written = theirs.generate(**their_inputs(source, size), num_beams=n_beams).numpy()[:, 1:]
        expected = [[int(t) for t in row[: [*row, 0].index(0)]] for row in written.tolist()]
        found = mt.decoding.greedy(run.model, source, rules=rules) if n_beams == 1 else beams(run, source, rules)
        assert [rows(size)[tokens].tolist() for tokens in found] == expected
        assert len({tuple(sentence) for sentence in expected}) > 5


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_gradients_are_the_same(tmp_path, name):
    theirs = original(tmp_path / "there", torch.float64, **CONFIGURATIONS[name])
    ours = opened(tmp_path / "there", tmp_path).model
    sizes = both_sizes(name)
    source, target = sentences(3, sizes[0]), sentences(3, sizes[1], seed=1)
    target[:, 0] = START
    d_logits = np.random.default_rng(3).normal(size=(*target.shape, sizes[1] + 1))
    d_logits[..., START] = 0
    d_logits *= (target != PAD).cumprod(axis=1)[:, :, None]
    (ours(source, target) * d_logits).sum().backward()
    for stack in (theirs.model.encoder, theirs.model.decoder):
        stack.embed_tokens.padding_idx = None  # where the gradient of padding is not computed
    given = their_inputs(source, sizes[0])
    logits = theirs(**given, decoder_input_ids=torch.from_numpy(rows(sizes[1])[target])).logits
    d_theirs = np.zeros(logits.shape)
    d_theirs[..., np.delete(rows(sizes[1]), START)] = np.delete(d_logits, START, axis=-1)
    (logits * torch.from_numpy(d_theirs)).sum().backward()
    with torch.no_grad():  # saved as if they were the weights, the gradients have our names when they are read
        theirs.final_logits_bias[0] = torch.from_numpy(d_theirs.sum(axis=(0, 1)))
        for parameter in theirs.parameters():
            parameter.data = parameter.data if parameter.grad is None else parameter.grad
        theirs.save_pretrained(tmp_path / "there")
    expected = read_huggingface(tmp_path / "there").state
    found = {name: to_numpy(parameter.grad) for name, parameter in ours.named_parameters()}
    assert expected.keys() == found.keys()
    for name, d_value in found.items():
        if name.endswith("table") or name in ("output", "output_bias"):
            d_value[PAD] += d_value[START]  # they are one token there
            d_value[START] = expected[name][START] = 0
        np.testing.assert_allclose(d_value, expected[name], rtol=1e-9, atol=1e-9, err_msg=name)
