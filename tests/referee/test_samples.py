"""The inputs on which PyTorch tests its own operations, given to ours: values and gradients, in float64.

A sample that asks for what our operation does not offer is left out, for one of the reasons below; how many are
compared and how many left out for which reason is written down and checked.
"""

import sys
import types
import unittest
from collections import Counter
from functools import partial
from importlib.util import find_spec

import numpy as np
import pytest

import minitransformer as mt
from minitransformer import ops

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.referee

DTYPE = "it has an argument dtype"
NO_AXES = "x has no axes"
WEIGHT = "it weighs the classes"
REDUCTION = "it is a sum, or not reduced; ours is a mean"
PROBABILITIES = "the targets are probabilities"
DROPOUT = "it drops attention weights, by random numbers of its own"
BROADCAST = "leading axes are broadcast"
ADDED_MASK = "the mask is to be added; ours is boolean"

COUNTED_WITH = "2.13."
EXPECTED = {
    "softmax": {"compared": 6, NO_AXES: 1, DTYPE: 7},
    "log_softmax": {"compared": 6, NO_AXES: 1, DTYPE: 7},
    "nn.functional.layer_norm": {"compared": 6},
    "nn.functional.linear": {"compared": 18},
    "nn.functional.embedding": {"compared": 3},
    "nn.functional.cross_entropy": {"compared": 6, PROBABILITIES: 10, REDUCTION: 2, WEIGHT: 3},
    "nn.functional.scaled_dot_product_attention": {"compared": 8, DROPOUT: 12, BROADCAST: 4, ADDED_MASK: 1},
    "matmul": {"compared": 15},
}

# An adapter takes a sample and returns our function and its tensors, or the reason why it is left out. Where all of a
# gradient may be small differences of large terms, the size of these terms follows.


def softmax(operation, sample):
    if "dtype" in sample.kwargs:
        return DTYPE
    if sample.input.ndim == 0:
        return NO_AXES
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
    if targets.is_floating_point():
        return PROBABILITIES
    if options.pop("weight", None) is not None:
        return WEIGHT
    if options.pop("reduction", "mean") != "mean":
        return REDUCTION

    def ours(logits):  # PyTorch has the classes on axis 1
        return ops.cross_entropy(logits.transpose(0, *range(2, logits.ndim), 1), targets.numpy(), **options)

    return ours, (sample.input,)


def attention(sample):
    options = dict(sample.kwargs)
    q, (k, v) = sample.input, sample.args
    if options.pop("dropout_p"):
        return DROPOUT
    if q.shape[:-2] != k.shape[:-2]:
        return BROADCAST
    if options.pop("attn_mask", None) is not None:
        return ADDED_MASK
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


@pytest.mark.parametrize("name", EXPECTED)
def test_samples_of_pytorch(name, op_db, agree):
    torch.manual_seed(0)
    found = Counter()
    for info in op_db:
        if info.name != name:
            continue
        for sample in info.sample_inputs("cpu", torch.float64, requires_grad=True):
            adapted = ADAPTERS[name](sample)
            if isinstance(adapted, str):
                found[adapted] += 1
                continue
            ours, tensors, *terms = adapted
            agree(ours, partial(theirs, info, sample), [x.detach().numpy() for x in tensors], 0, *terms)
            found["compared"] += 1
    if torch.__version__.startswith(COUNTED_WITH):
        assert found == Counter(EXPECTED[name])
    else:  # other versions may have other samples, but no other reasons
        assert found["compared"]
        assert found.keys() <= EXPECTED[name].keys()
