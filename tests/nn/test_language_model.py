"""A decoder alone: no position sees a later one, steps compute what a call does, and every gradient is right."""

import numpy as np
import pytest
from small_models import putting
from toml_cases import toml_table

import minitransformer as mt
from minitransformer.arrays import asarray, to_numpy
from minitransformer.testing import gradcheck

VOCAB = 9
SIZES = {"d_model": 6, "n_heads": 2, "n_layers": 2, "d_ff": 7, "dtype": "float64"}
IDS = np.array([[1, 5, 3, 4, 8], [1, 2, 7, 6, 3]])
OPTIONS = toml_table(__file__, "OPTIONS")
every_kind = pytest.mark.parametrize("options", OPTIONS, ids=str)


def model_of(seed=0, **options):
    """A model in evaluation mode whose gains and biases are random too."""
    model = mt.nn.LanguageModel(VOCAB, **SIZES | options, seed=seed).eval()
    rng = np.random.default_rng(11)
    for parameter in model.parameters():
        parameter.data = parameter.data + asarray(rng.normal(0, 0.3, parameter.shape).astype(parameter.dtype))
    return model


def gradients_of(model, ids=IDS, rng=None):
    mt.ops.cross_entropy(model(ids[:, :-1], rng), ids[:, 1:], ignore_index=0).backward()
    found = {name: to_numpy(parameter.grad) for name, parameter in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = None
    return found


def test_a_generator_that_is_given_comes_before_the_models_own_and_any_dropout_drops():
    model = model_of(dropout=0.3).train()
    first, same, other = (to_numpy(model(IDS, np.random.default_rng(seed)).data) for seed in (5, 5, 6))
    assert (first == same).all()
    assert (first != other).any()
    rare = model_of(dropout=0.01).target_embedding
    assert any((to_numpy(rare(IDS, np.random.default_rng(seed)).data) == 0).any() for seed in range(20))


def test_it_is_the_decoder_without_its_middle_sub_layer():
    options = {"n_layers": 1, "share_embeddings": "target"}
    alone = dict(model_of(**options).named_parameters())
    whole = dict(mt.nn.Transformer(VOCAB, VOCAB, **SIZES | options).named_parameters())
    middle = {name for name in whole if "cross_attention" in name or "decoder.layers.0.residual2" in name}
    right = {name for name in whole if name.startswith(("target_embedding", "decoder"))}
    assert alone.keys() == right - middle
    assert len(middle) == 4
    assert {name: p.shape for name, p in alone.items()} == {name: whole[name].shape for name in alone}


@every_kind
@pytest.mark.parametrize("place", range(5))
def test_no_logit_has_a_gradient_from_a_later_token(options, place):
    """Section 3.1: the predictions for a position depend only on the outputs before it."""
    model = model_of(**options | {"share_embeddings": False})
    cotangent = np.zeros((1, 5, VOCAB))
    cotangent[:, place] = np.random.default_rng(2).uniform(0.5, 2, VOCAB)
    model(IDS[:1]).backward(cotangent)
    row = abs(to_numpy(model.target_embedding.table.grad)).sum(axis=1)  # the tokens of a text differ
    assert (row[IDS[0, place + 1 :]] == 0).all()
    assert (row[IDS[0, : place + 1]] > 0).all()


@pytest.mark.parametrize("options", [{}, OPTIONS[2], OPTIONS[3]], ids=str)
def test_every_gradient(options):
    model = model_of(**options | {"n_layers": 1})
    put = putting(model)

    def loss(*tensors):
        put(tensors)
        return mt.ops.cross_entropy(model(IDS[:, :-1]), IDS[:, 1:], label_smoothing=0.1, ignore_index=0)

    gradcheck(loss, [to_numpy(parameter.data).copy() for parameter in model.parameters()], max_entries=2)


@pytest.mark.parametrize("dropout", [0, 0.3])
def test_recomputation_changes_nothing(dropout):
    found = [
        gradients_of(model_of(recompute=again, dropout=dropout), rng=np.random.default_rng(3))
        for again in (False, True)
    ]
    for name, gradient in found[0].items():
        np.testing.assert_array_equal(gradient, found[1][name], err_msg=name)


def test_padding_at_the_end_changes_nothing():
    model = model_of()
    padded = np.concatenate((IDS[:, :3], np.zeros((2, 2), dtype=int)), axis=1)
    np.testing.assert_allclose(model(padded).numpy()[:, :3], model(IDS[:, :3]).numpy(), rtol=1e-12)


def test_the_seed_determines_weights_and_dropout():
    first, same, other = (mt.nn.LanguageModel(VOCAB, **SIZES, seed=seed) for seed in (1, 1, 2))
    assert (first.output.data != other.output.data).any()
    logits = first(IDS).numpy()
    np.testing.assert_array_equal(logits, same(IDS).numpy())
    assert (logits != first(IDS).numpy()).any()  # another draw of dropout
    assert (first.eval()(IDS).numpy() == first(IDS).numpy()).all()


@pytest.mark.parametrize(("share", "tables"), [(True, 1), ("all", 1), ("target", 1), ("inputs", 2), (False, 2)])
def test_the_table_may_be_the_last_layer_as_well(share, tables):
    model = model_of(share_embeddings=share)
    assert sum(parameter.shape == (VOCAB, 6) for parameter in model.parameters()) == tables


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mt.nn.LanguageModel(0), "LanguageModel: vocab .*found 0"),
        (lambda: model_of()(IDS[0]), r"LanguageModel: ids must have shape \(B, T\), found \(5,\)"),
        (lambda: model_of()([[VOCAB]]), "LanguageModel, ids"),
        (lambda: model_of().new_cache(0), r"LanguageModel.new_cache: n .*found 0"),
        (lambda: model_of(positions="learned", max_length=4)(IDS), "longer than the 4 learned positions"),
    ],
)
def test_impossible_arguments_are_refused(call, message):
    with pytest.raises((ValueError, IndexError), match=message):
        call()
