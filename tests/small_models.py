"""Models and sentences that are small enough to be traced in milliseconds."""

from functools import partial

import numpy as np

import minitransformer as mt
from minitransformer.arrays import asarray, to_numpy
from minitransformer.autograd import no_grad
from minitransformer.data import Batch
from minitransformer.tracing.watching import run

SOURCE = np.array([[5, 6, 7, 3, 0], [3, 4, 4, 5, 6]])
TARGET = np.array([[1, 5, 6, 7, 2, 0], [1, 3, 3, 4, 5, 2]])
OWN = "decoder.layers.0.self_attention/multi_head_attention"
CROSS = "decoder.layers.0.cross_attention/multi_head_attention"
FORWARD = "encoder.layers.0.feed_forward/feed_forward"


def model(**options):
    """Return a model in float64 with parameters that are nowhere 0 or 1."""
    sizes = {"d_model": 6, "n_heads": 2, "n_layers": 1, "d_ff": 7, "d_k": 2, "d_v": 4, "dtype": "float64"}
    result = mt.nn.Transformer(8, 8, **(sizes | options)).eval()
    rng = np.random.default_rng(1)
    for parameter in result.parameters():
        parameter.data = parameter.data + asarray(rng.normal(0, 0.3, parameter.shape).astype(result.options.dtype))
    return result


def language_model(n_layers=1):
    """Return a decoder alone of the later kind in float64, with parameters that are nowhere 0 or 1."""
    sizes = {"d_model": 8, "n_heads": 4, "n_kv_heads": 2, "n_layers": n_layers, "d_ff": 6, "dtype": "float64"}
    found = mt.nn.LanguageModel(9, norm="rms", activation="swiglu", positions="rotary", **sizes)
    rng = np.random.default_rng(4)
    for parameter in found.parameters():
        parameter.data[...] += asarray(rng.normal(0, 0.3, parameter.shape))
    return found.eval()


def padded_batch(seed=0, rows=8, vocabulary=11):
    """Return a batch of random tokens with some padding."""
    rng = np.random.default_rng(seed)
    source, written, wanted = (rng.integers(1, vocabulary, (rows, length)) for length in (7, 5, 5))
    source[1, 3:] = written[2, 4:] = wanted[2, 4:] = 0
    return Batch(source, written, wanted)


class Twice(mt.nn.Module):
    """A part of a model that is applied to its own result; both calls are in the same place."""

    def __init__(self, name, part):
        self.name = name
        setattr(self, name, part)

    def __call__(self, x, *rest, **options):
        part = getattr(self, self.name)
        return part(part(x, *rest, **options), *rest, **options)


def twice(model):
    """Return a model after each sub-layer in it was replaced by one that applies it twice."""
    for layer in (*model.encoder.layers, *model.decoder.layers):
        for name in {"self_attention", "cross_attention", "feed_forward"} & vars(layer).keys():
            setattr(layer, name, Twice(name, getattr(layer, name)))
    return model


def places(module):
    """Return, for each parameter by id, every (owner, attribute) that holds it; a shared one has several."""
    found = {}
    for name, value in vars(module).items():
        if isinstance(value, mt.nn.Parameter):
            found.setdefault(id(value), []).append((module, name))
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, mt.nn.Module):
                for key, owners in places(part).items():
                    found.setdefault(key, []).extend(owners)
    return found


def putting(module):
    """Return a function that puts tensors where the parameters of a module are now."""
    owners = places(module)
    holders = [owners[id(parameter)] for parameter in module.parameters()]

    def put(tensors):
        for holder, tensor in zip(holders, tensors, strict=True):
            for owner, name in holder:
                setattr(owner, name, tensor)

    return put


def slope(model, objective, key, direction, source=SOURCE, target=TARGET, h=1e-5):
    """Return the central difference of the objective, with a value inside a forward pass moved along a direction."""

    def add(step, array):
        array += asarray(step * direction)

    with no_grad():
        high, low = (
            run(model, source, target, objective, change={key: partial(add, step)}).objective.item() for step in (h, -h)
        )
    return (high - low) / (2 * h)


def parameter_slope(model, objective, name, direction, source=SOURCE, target=TARGET, h=1e-5):
    """Return the central difference of the objective, with a parameter moved along a direction."""
    parameter = dict(model.named_parameters())[name]
    before, values = parameter.data, []
    with no_grad():
        for step in (h, -h):
            parameter.data = before + asarray(step * direction)
            values.append(run(model, source, target, objective).objective.item())
    parameter.data = before
    return (values[0] - values[1]) / (2 * h)


def gradients(model, objective=None):
    """Return the gradients of the parameters by an ordinary backward pass."""
    objective = objective or mt.tracing.Loss()
    objective(model(SOURCE, TARGET[:, :-1]), TARGET[:, 1:]).backward()
    found = {name: to_numpy(parameter.grad) for name, parameter in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = None
    return found
