"""The operation convolution: values by loops, what each output sees, its relatives, errors."""

import numpy as np
import pytest
from passes import convolution, feed_forward, linear

import minitransformer as mt

pytestmark = pytest.mark.filterwarnings("error")
RNG = np.random.default_rng(13)
B, T, D, E = 2, 7, 3, 4
KERNELS = [(k, causal, dilation) for causal in (False, True) for k in (1, 2, 3, 5) for dilation in (1, 2, 3)]
KERNELS = [(k, causal, dilation) for k, causal, dilation in KERNELS if causal or k % 2]


def slow_convolution(x, weight, bias, causal, dilation, d_y):
    """Compute the output and the gradients place by place."""
    k = len(weight)
    centre = k - 1 if causal else (k - 1) // 2
    y = np.zeros((*x.shape[:2], weight.shape[2])) + bias
    d_x, d_weight = np.zeros(x.shape), np.zeros(weight.shape)
    for n in range(len(x)):
        for t in range(x.shape[1]):
            for j in range(k):
                i = t + (j - centre) * dilation
                if 0 <= i < x.shape[1]:
                    y[n, t] += x[n, i] @ weight[j]
                    d_x[n, i] += weight[j] @ d_y[n, t]
                    d_weight[j] += np.outer(x[n, i], d_y[n, t])
    return y, d_x, d_weight, d_y.sum(axis=(0, 1))


@pytest.mark.parametrize("length", [1, 2, T])
@pytest.mark.parametrize(("k", "causal", "dilation"), KERNELS)
def test_convolution_against_loops(k, causal, dilation, length):
    x, weight, bias, d_y = (RNG.normal(size=s) for s in ((B, length, D), (k, D, E), (E,), (B, length, E)))
    y, saved = convolution.forward(x, weight, bias, causal, dilation)
    found = (y, *convolution.backward(saved, d_y))
    for one, other in zip(found, slow_convolution(x, weight, bias, causal, dilation, d_y), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-14)


def test_a_sentence_worked_out_by_hand():
    x = np.array([1.0, 10, 100, 1000]).reshape(1, 4, 1)
    weight = np.array([1.0, 2, 3]).reshape(3, 1, 1)
    assert convolution.forward(x, weight)[0].ravel().tolist() == [32, 321, 3210, 2100]
    assert convolution.forward(x, weight, causal=True)[0].ravel().tolist() == [3, 32, 321, 3210]
    assert convolution.forward(x, weight, dilation=2)[0].ravel().tolist() == [302, 3020, 201, 2010]


def test_without_a_bias_there_is_no_gradient_for_one():
    x, weight = RNG.normal(size=(B, T, D)), RNG.normal(size=(3, D, E))
    y, saved = convolution.forward(x, weight)
    np.testing.assert_array_equal(y, convolution.forward(x, weight, np.zeros(E))[0])
    assert convolution.backward(saved, y)[2] is None


def test_the_feed_forward_network_is_two_convolutions_of_kernel_size_one():
    """Section 3.3: "Another way of describing this is as two convolutions with kernel size 1"."""
    x, w1, b1, w2, b2 = (RNG.normal(size=s) for s in ((B, T, D), (D, 6), (6,), (6, E), (E,)))
    d_y = RNG.normal(size=(B, T, E))
    y, saved = feed_forward.forward(x, w1, b1, w2, b2)
    gradients = feed_forward.backward(saved, d_y)
    tensors = [mt.Tensor(value, requires_grad=True) for value in (x, w1[None], b1, w2[None], b2)]
    first, first_bias, second, second_bias = tensors[1:]
    hidden = mt.ops.convolution(tensors[0], first, first_bias).relu()
    found = mt.ops.convolution(hidden, second, second_bias)
    found.backward(d_y)
    np.testing.assert_allclose(found.numpy(), y, rtol=0, atol=1e-14)
    for tensor, gradient in zip(tensors, gradients, strict=True):
        np.testing.assert_allclose(tensor.grad.reshape(gradient.shape), gradient, rtol=0, atol=1e-13)


@pytest.mark.parametrize("dilation", [1, 4])
@pytest.mark.parametrize("causal", [False, True])
def test_a_kernel_of_size_one_is_a_linear_layer(causal, dilation):
    x, weight, bias, d_y = (RNG.normal(size=s) for s in ((B, T, D), (D, E), (E,), (B, T, E)))
    y, saved = linear.forward(x, weight, bias)
    found, saved_found = convolution.forward(x, weight[None], bias, causal, dilation)
    np.testing.assert_allclose(found, y, rtol=0, atol=1e-14)
    gradients = convolution.backward(saved_found, d_y)
    for one, other in zip(gradients, linear.backward(saved, d_y), strict=True):
        np.testing.assert_allclose(one.reshape(other.shape), other, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("k", "causal", "dilation"), KERNELS)
def test_an_output_sees_its_kernel_and_nothing_else(k, causal, dilation):
    x, weight = RNG.normal(size=(1, 11, D)), RNG.normal(size=(k, D, E))
    y, saved = convolution.forward(x, weight, causal=causal, dilation=dilation)
    centre = k - 1 if causal else k // 2
    for t in range(11):
        d_y = np.zeros_like(y)
        d_y[:, t] = RNG.normal(size=E)
        d_x = convolution.backward(saved, d_y)[0]
        seen = np.isin(np.arange(11), [t + (j - centre) * dilation for j in range(k)])
        assert (d_x[:, ~seen] == 0).all()
        assert (d_x[:, seen] != 0).all()
        other = np.where(seen[:, None], x, 7.0)
        changed, _ = convolution.forward(other, weight, causal=causal, dilation=dilation)
        np.testing.assert_array_equal(changed[:, t], y[:, t])


def test_a_shift_of_the_sentence_shifts_the_outputs():
    x, weight, zeros = RNG.normal(size=(B, T, D)), RNG.normal(size=(3, D, E)), np.zeros((B, 2, D))
    y, _ = convolution.forward(np.concatenate([x, zeros], axis=1), weight)
    shifted, _ = convolution.forward(np.concatenate([zeros, x], axis=1), weight)
    np.testing.assert_allclose(shifted[:, 2:], y[:, :-2], rtol=0, atol=1e-15)
