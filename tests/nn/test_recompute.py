"""Recomputed activations: the same gradients and random numbers as without, for less memory."""

import tracemalloc

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.nn import EncoderLayer, ModelOptions, Transformer, recompute
from minitransformer.testing import gradcheck

SIZES = {"d_model": 6, "n_heads": 2, "n_layers": 3, "d_ff": 7, "d_k": 3, "d_v": 1, "max_length": 6, "dropout": 0.3}
SOURCE = np.array([[3, 1, 6, 2, 0], [2, 2, 5, 0, 0], [4, 3, 6, 1, 5]])  # 0 is padding
TARGET = np.array([[1, 5, 4, 4], [1, 2, 0, 0], [1, 3, 5, 0]])
GAPS = np.array([[1, 0, 4, 4], [1, 2, 0, 3], [1, 3, 5, 0]])  # with padding that later positions must not see
LABELS = np.array([[5, 4, 4, 2], [2, 3, 0, 0], [3, 5, 2, 0]])


def model_of(**options):
    return Transformer(9, 8, **SIZES | {"dtype": "float64"} | options)


def loss_of(model, source=SOURCE, target=TARGET, labels=LABELS):
    return mt.ops.cross_entropy(model(source, target), labels, label_smoothing=0.1, ignore_index=0)


# The function


def test_the_gradient_of_every_input_and_parameter():
    rng = np.random.default_rng(0)
    layer = EncoderLayer(ModelOptions(d_model=6, n_heads=2, d_ff=7, dtype="float64"), rng)
    x, d = rng.standard_normal((2, 4, 6)), rng.standard_normal((2, 4, 6))

    def run(through):
        for parameter in layer.parameters():
            parameter.grad = None
        tensor = mt.Tensor(x, requires_grad=True)
        y = through(tensor)
        y.backward(d)
        return [y.data, tensor.grad, *(p.grad for p in layer.parameters())]

    for found, expected in zip(run(lambda x: recompute(layer, x)), run(layer), strict=True):
        assert np.array_equal(found, expected)
        assert expected.any()


def test_against_finite_differences_with_none_and_an_input_used_twice():
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, 3)), rng.standard_normal((2, 3))

    def function(a, nothing, b, c):
        assert nothing is None
        return (a * b).tanh() + c * c * b

    gradcheck(lambda x, y: recompute(function, x, None, y, x) * x, [x, y])
    gradcheck(lambda x, y: recompute(lambda x: recompute(function, x, None, x, x), x + y), [x, y])  # one inside another
    gradcheck(lambda x, y: recompute(lambda x, y: x, x, y), [x, y])  # the function returns what it was given


def test_inputs_without_a_gradient_receive_none_and_are_not_written_to():
    x, y = mt.Tensor(np.arange(3.0), requires_grad=True), mt.Tensor(np.ones(3))
    ids = mt.Tensor(np.array([2, 0, 2]))
    recompute(lambda x, y, ids: x[ids.data] * y, x, y, ids).backward([3.0, 5.0, 7.0])
    assert x.grad.tolist() == [5, 0, 10]
    assert y.grad is None
    assert x.data.tolist() == [0, 1, 2]


def test_how_often_the_function_runs_and_when_with_a_graph():
    runs = []

    def function(x):
        runs.append(mt.is_recording())
        return x * x

    x = mt.Tensor([3.0], requires_grad=True)
    y = recompute(function, x)
    assert runs == [False]
    y.backward()
    assert runs == [False, True]
    assert x.grad.tolist() == [6]
    y.backward()  # the graph was kept
    assert runs == [False, True, True]
    assert x.grad.tolist() == [12]
    y.backward(release=True)
    assert x.grad.tolist() == [18]
    with pytest.raises(RuntimeError, match="released"):
        y.backward()
    runs.clear()
    with mt.no_grad():
        assert not recompute(function, x).requires_grad
    assert not recompute(function, mt.Tensor([3.0])).requires_grad
    assert runs == [False, True]


def test_parameters_learn_when_no_input_wants_a_gradient():
    weight = mt.nn.Parameter(np.array([2.0, 3.0]))
    recompute(lambda x: x * weight, mt.Tensor(np.array([5.0, 7.0]))).backward([1.0, 10.0])
    assert weight.grad.tolist() == [5, 70]


def test_a_function_without_a_gradient_gives_none():
    x = mt.Tensor([3.0], requires_grad=True)
    (recompute(lambda x: x.detach(), x) + x).backward()
    assert x.grad.tolist() == [1]


def test_the_generator_draws_the_same_again_and_is_left_where_it_was():
    rng, twin = np.random.default_rng(4), np.random.default_rng(4)
    x = mt.Tensor(np.ones(50), requires_grad=True)
    y = recompute(lambda x: mt.ops.dropout(x, 0.5, rng), x, rng=rng)
    expected = mt.ops.dropout(mt.Tensor(np.ones(50)), 0.5, twin)
    assert np.array_equal(y.data, expected.data)
    assert rng.bit_generator.state == twin.bit_generator.state
    rng.random(3)
    state = rng.bit_generator.state
    for _ in range(2):
        x.grad = None
        y.backward(np.ones(50))
        assert np.array_equal(x.grad, y.data)  # where a number was dropped, so is its gradient
        assert rng.bit_generator.state == state


def test_an_error_in_the_second_run_leaves_the_generator_where_it_was():
    rng = np.random.default_rng(4)

    def function(x):
        rng.random(2)
        if mt.is_recording():
            raise ValueError("the second run fails")
        return x * 1

    y = recompute(function, mt.Tensor([1.0], requires_grad=True), rng=rng)
    rng.random(3)  # so that the second run does not end where the first one did
    state = rng.bit_generator.state
    with pytest.raises(ValueError, match="the second run fails"):
        y.backward()
    assert rng.bit_generator.state == state


def test_backward_under_no_grad_is_refused():
    y = recompute(lambda x: x * x, mt.Tensor([1.0], requires_grad=True))
    with mt.no_grad(), pytest.raises(RuntimeError, match=r"recompute: .*outside of no_grad"):
        y.backward()


# The model


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "options",
    [{}, {"norm": "pre", "attention_bias": True, "attention_block": 2}, {"activation": "gelu", "output_bias": True}],
    ids=str,
)
def test_several_steps_of_training_are_the_same(options, dtype):
    plain, again = (model_of(dtype=dtype, recompute=r, **options) for r in (False, True))
    optimisers = [mt.optim.Adam(model.parameters()) for model in (plain, again)]
    losses = []
    for _ in range(4):
        for model, optimiser in zip((plain, again), optimisers, strict=True):
            optimiser.zero_grad()
            loss = loss_of(model, target=GAPS)
            loss.backward(release=True)
            losses.append(loss.item())
        gradients = [[p.grad for p in model.parameters()] for model in (plain, again)]
        for one, other in zip(*gradients, strict=True):
            assert one.any()
            assert np.array_equal(one, other)
        assert plain.rng.bit_generator.state == again.rng.bit_generator.state
        for optimiser in optimisers:
            optimiser.step(1e-2)
    assert losses[::2] == losses[1::2]
    assert len(set(losses)) == 4


def peak(recompute, n_layers):
    """Return the most memory that a training step holds at a time beyond what it began and ends with, in bytes."""
    model = Transformer(9, 9, d_model=32, n_heads=4, n_layers=n_layers, d_ff=64, recompute=recompute)
    ids = np.random.default_rng(0).integers(1, 9, (8, 32))
    for parameter in model.parameters():
        parameter.grad = np.zeros_like(parameter.data)
    loss_of(model, ids, ids, ids).backward(release=True)
    tracemalloc.start()
    try:
        loss_of(model, ids, ids, ids).backward(release=True)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.numpy_only("tracemalloc sees the memory of the host")
def test_a_deep_model_needs_far_less_memory():
    assert 3 * peak(True, 8) < peak(False, 8)
    # a further layer costs little more than its input and output
    activation = 8 * 32 * 32 * 4
    per_layer = (peak(True, 12) - peak(True, 4)) / 8
    assert per_layer < 4 * activation
    assert (peak(False, 12) - peak(False, 4)) / 8 > 25 * activation
