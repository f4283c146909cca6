"""LoRA: two factors beside each fixed matrix: values, gradients, and the merged weights."""

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.arrays import asarray, to_numpy
from minitransformer.nn import LanguageModel, Transformer
from minitransformer.nn.layers import ACTIVATIONS
from minitransformer.runs import Configuration, RunError
from minitransformer.runs.low_rank import adapt, digest_of, merge, weights_to_save
from minitransformer.tasks import build

OTHERS = {
    "paper": {},
    "later": {"norm": "rms", "positions": "rotary", "n_heads": 4, "n_kv_heads": 2, "activation": "swiglu"},
    "published": {"attention_bias": True, "positions": "learned", "activation": "gelu", "norm": "pre"},
    "alibi": {"positions": "alibi", "recompute": True},
    **{name: {"activation": name} for name in ACTIVATIONS},
}
SOURCE, TARGET = np.array([[4, 5, 6], [7, 8, 0]]), np.array([[1, 6, 4, 2], [1, 8, 0, 0]])


def configure(**training):
    chosen = {"lora": 2, "lora_on": "all", "average_last": 1} | training
    return Configuration.of_task(build("copy"), **chosen).changed(start="runs/other")


def small_model(alone=False, **changes):
    options = {"d_model": 8, "n_heads": 2, "n_layers": 2, "d_ff": 12, "dropout": 0.0, "dtype": "float64"} | changes
    model, rng = (LanguageModel(9, **options) if alone else Transformer(9, 9, **options)), np.random.default_rng(6)
    for p in model.parameters():
        if p.ndim == 1:  # biases begin at 0, which would hide that they are forgotten
            p.data = p.data + asarray(rng.normal(size=p.shape))
    return model


def logits(model):
    return model(TARGET) if isinstance(model, LanguageModel) else model(SOURCE, TARGET)


def adapted_model(rng, configuration, **changes):
    """Return a model, and one with the same weights whose factors are random."""
    plain, model = small_model(**changes), small_model(**changes)
    adapt(model, configuration)
    for name, p in model.named_parameters():
        if p.requires_grad:
            p.data = asarray(rng.normal(size=p.shape))
            assert name.endswith(("_a", "_b"))
    return plain, model


@pytest.mark.parametrize("alone", [False, True], ids=["translator", "decoder alone"])
@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS)
def test_factors_begin_without_effect_and_merge_into_the_weights(changes, alone):
    configuration, rng = configure(lora_alpha=3.0), np.random.default_rng(0)
    begun = small_model(alone, **changes)
    before = logits(begun).numpy()
    adapt(begun, configuration)
    np.testing.assert_allclose(logits(begun).numpy(), before, rtol=1e-12, atol=1e-12)
    plain, model = adapted_model(rng, configuration, alone=alone, **changes)
    adapted = logits(model)
    assert np.abs(adapted.numpy() - before).max() > 0.1
    plain.load_state_dict(merge(model.state_dict(), 3.0))
    np.testing.assert_allclose(logits(plain).numpy(), adapted.numpy(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS)
def test_gradients_of_factors_are_those_of_the_merged_weights_and_no_others_are_computed(changes):
    configuration = configure(lora_alpha=3.0)
    plain, model = adapted_model(np.random.default_rng(1), configuration, **changes)
    plain.load_state_dict(merge(model.state_dict(), 3.0))
    d_y = asarray(np.random.default_rng(2).normal(size=(2, 4, 9)))
    for one in (plain, model):
        logits(one).backward(d_y)
    state, whole = dict(model.named_parameters()), dict(plain.named_parameters())
    assert {name for name, p in state.items() if p.grad is not None} == {
        f"{name}_{letter}" for name in whole if name.rpartition(".")[2] in ("w_in", "w_out", "w1", "w2")
        for letter in "ab"
    }  # fmt: skip
    for name in whole:
        if (a := state.get(f"{name}_a")) is not None:  # M = W + α / r A B
            b, d_m = state[f"{name}_b"], whole[name].grad
            close = {"rtol": 1e-9, "atol": 1e-10}
            np.testing.assert_allclose(to_numpy(a.grad), to_numpy(1.5 * d_m @ b.data.T), **close)
            np.testing.assert_allclose(to_numpy(b.grad), to_numpy(1.5 * a.data.T @ d_m), **close)


def test_adam_moves_the_factors_alone_and_both_begin_to_learn():
    model = small_model()
    adapt(model, configure(lora_on="attention"))
    state = {name: value.copy() for name, value in model.state_dict().items()}
    adam = mt.optim.Adam(model.trained_parameters())
    batch = mt.data.Batch(SOURCE, TARGET, np.roll(TARGET, -1, axis=1))
    for _ in range(3):
        mt.training.training_step(model, adam, batch, 0.01)
    changed = {name for name, value in model.state_dict().items() if not np.array_equal(value, state[name])}
    assert changed == {name for name, p in model.named_parameters() if p.requires_grad} == {*weights_to_save(model)}
    assert adam.mean.size == sum(p.size for p in model.trained_parameters()) < sum(v.size for v in state.values()) / 4


def test_attention_maps_and_decoding_of_an_adapted_model_are_refused():
    """A step of decoding would leave out the factors."""
    model = small_model()
    adapt(model, configure())
    with pytest.raises(RuntimeError, match="those of the merged model"):
        model.attention_maps(SOURCE, TARGET)
    with pytest.raises(RuntimeError, match="those of the merged model"):
        model.step([[1], [1]], model.new_cache(SOURCE))


def test_equal_weights_have_equal_digests_however_they_lie_in_memory():
    model = small_model()
    digest = digest_of(model)
    assert digest_of(model.arrange_for_decoding()) == digest == digest_of(small_model())
    model.output.data = model.output.data + 1e-9
    assert digest_of(model) != digest


@pytest.mark.parametrize(
    "state",
    [{"w": (3, 4), "w_a": (3, 1), "w_b": (1, 1)}, {"w_a": (3, 1), "w_b": (1, 4)}, {"w_b": (1, 4)}],
)
def test_factors_that_belong_to_no_matrix_are_refused(state):
    with pytest.raises(RunError, match=r"w and its factors A and B do not belong together: found the shapes .*\(1, "):
        merge({name: np.ones(shape) for name, shape in state.items()}, 1.0)
