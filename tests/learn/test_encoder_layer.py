"""The last exercise's gradients are those of the model's own encoder layer."""

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.apps.learn.checks.encoder_layer import ALL, differentiate
from minitransformer.apps.learn.solutions import solution_of
from minitransformer.nn import EncoderLayer
from minitransformer.nn.options import ModelOptions

B, T, H, Dk, D, F = 2, 4, 3, 5, 6, 7


@pytest.fixture
def case():
    """Return a model's layer, an input, a mask that hides padding, and a gradient of the output."""
    rng = np.random.default_rng(1)
    options = ModelOptions(d_model=D, n_heads=H, d_k=Dk, d_v=Dk, d_ff=F, n_layers=1, dropout=0.0, dtype="float64")
    layer = EncoderLayer(options, rng)
    for parameter in layer.parameters():
        parameter.data = rng.normal(size=parameter.shape)
    mask = (np.arange(T) < np.array([[2], [4]]))[:, None, None]
    return layer, rng.normal(size=(B, T, D)), mask, rng.normal(size=(B, T, D))


def named(layer, read):
    """Return the layer's parameters, or their gradients, by the exercise's names."""
    attention, feed_forward = layer.self_attention, layer.feed_forward
    p = dict(zip(("w_q", "w_k", "w_v"), np.split(read(attention.w_in), 3, axis=1), strict=True))
    p |= {"w_o": read(attention.w_out)} | {name: read(getattr(feed_forward, name)) for name in ("w1", "b1", "w2", "b2")}
    for number in "12":
        norm = getattr(layer, f"residual{number}").layer_norm
        p |= {f"gain{number}": read(norm.gain), f"bias{number}": read(norm.bias)}
    return p


def test_the_gradients_are_those_of_the_models_layer(case):
    layer, x, mask, d_y = case
    _, found = differentiate(named(layer, lambda q: q.data), x, mask, d_y, H)
    leaf = mt.Tensor(x, requires_grad=True)
    layer(leaf, mask).backward(d_y)
    for name, gradient in ({"x": leaf.grad} | named(layer, lambda q: q.grad)).items():
        np.testing.assert_allclose(found[f"d_{name}"], gradient, rtol=1e-9, atol=1e-11, err_msg=name)


def test_the_solution_gives_all_gradients(case):
    """Else causes would be looked for among the wrong numbers."""
    layer, x, mask, d_y = case
    p = named(layer, lambda q: q.data)
    kept, expected = differentiate(p, x, mask, d_y, H)
    found = solution_of("encoder-layer-backward", ALL)(p, kept, d_y)
    for gradient, (name, right) in zip(found, expected.items(), strict=True):
        np.testing.assert_allclose(gradient, right, rtol=1e-9, atol=1e-11, err_msg=name)
