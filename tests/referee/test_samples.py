"""The inputs on which PyTorch tests its own operations, given to ours: values and gradients, in float64.

A sample that asks for what our operation does not offer is left out.
"""

import sys
import types
import unittest
from functools import partial
from importlib.util import find_spec

import numpy as np
import pytest

import minitransformer as mt
from minitransformer import ops

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.referee

# An adapter takes a sample and returns our function and its tensors, or nothing if it is left out. Where all of a
# gradient may be small differences of large terms, the size of these terms follows.


def softmax(operation, sample):
    if "dtype" in sample.kwargs or sample.input.ndim == 0:
        return None
    return partial(operation, axis=sample.args[0]), (sample.input,)


def layer_norm(sample):
    """Several normalised axes are taken as one; a gain or bias that is left out is 1 or 0."""
    x, (shape, *parameters) = sample.input, sample.args
    size = int(np.prod(shape))

    def ours(x, *parameters):
        flat = x.reshape(*x.shape[: x.ndim - len(shape)], size)
        gain, bias = [parameter.reshape(size) for parameter in parameters] or (np.ones(size), np.zeros(size))
        return ops.layer_norm(flat, gain, bias, **sample.kwargs).reshape(x.shape)

    # Of one feature normalisation leaves nothing, and PyTorch multiplies x (up to 9) and its mean by 1 / sqrt(eps)
    # before it subtracts them. Of two it leaves the sign of their difference, so the gradient of x almost cancels.
    return ours, (x, *parameters), {1: 9 / 1e-5**0.5, 2: 1.0}.get(size, 0.0)


def linear(sample):
    return lambda x, weight, *bias: ops.linear(x, weight.T, *bias), (sample.input, *sample.args)


def embedding(sample):
    return lambda table: ops.embedding(sample.args[0].numpy(), table), (sample.input,)


def cross_entropy(sample):
    options = dict(sample.kwargs)
    targets = sample.args[0]
    is_weighted = options.pop("weight", None) is not None
    if options.pop("reduction", "mean") != "mean" or is_weighted or targets.is_floating_point():
        return None

    def ours(logits):  # PyTorch has the classes on axis 1
        return ops.cross_entropy(logits.transpose(0, *range(2, logits.ndim), 1), targets.numpy(), **options)

    return ours, (sample.input,)


def attention(sample):
    options = dict(sample.kwargs)
    q, (k, v) = sample.input, sample.args
    has_mask = options.pop("attn_mask", None) is not None  # to be added; ours is boolean
    if options.pop("dropout_p") or has_mask or q.shape[:-2] != k.shape[:-2]:
        return None
    mask = np.tri(q.shape[-2], k.shape[-2], dtype=bool) if options.pop("is_causal") else None
    assert not options
    # Inputs up to 9 make scores in the hundreds: of a row's weights one is almost 1 and its gradients almost cancel.
    # There both libraries are as far from the truth (in long double) as from each other.
    return lambda q, k, v: ops.scaled_dot_product_attention(q, k, v, mask), (q, k, v), 1.0


def matmul(sample):
    return mt.matmul, (sample.input, *sample.args)


ADAPTERS = {
    "softmax": partial(softmax, ops.softmax),
    "log_softmax": partial(softmax, ops.log_softmax),
    "nn.functional.layer_norm": layer_norm,
    "nn.functional.linear": linear,
    "nn.functional.embedding": embedding,
    "nn.functional.cross_entropy": cross_entropy,
    "nn.functional.scaled_dot_product_attention": attention,
    "matmul": matmul,
}


@pytest.fixture(scope="module")
def op_db():
    with pytest.MonkeyPatch.context() as patch:
        if find_spec("expecttest") is None:
            # PyTorch's list imports it for tests of another kind, so a module with the right name will do.
            stand_in = types.ModuleType("expecttest")
            stand_in.TestCase = unittest.TestCase
            patch.setitem(sys.modules, "expecttest", stand_in)
        from torch.testing._internal.common_methods_invocations import op_db

    return op_db


def theirs(info, sample, *tensors):
    """Call PyTorch's operation with these tensors in the place of the sample's own."""
    first, *others = tensors
    args = [
        others.pop(0) if isinstance(value, torch.Tensor) and value.is_floating_point() else value
        for value in sample.args
    ]
    assert not others
    return info.op(first, *args, **sample.kwargs)


@pytest.mark.parametrize("name", ADAPTERS)
def test_samples_of_pytorch(name, op_db, agree):
    torch.manual_seed(0)
    compared = 0
    for info in op_db:
        if info.name != name:
            continue
        for sample in info.sample_inputs("cpu", torch.float64, requires_grad=True):
            if adapted := ADAPTERS[name](sample):
                ours, tensors, *terms = adapted
                agree(ours, partial(theirs, info, sample), [x.detach().numpy() for x in tensors], 0, *terms)
                compared += 1
    assert compared >= 3
