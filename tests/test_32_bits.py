"""No index of 64 bits reaches a function that refuses it where Python has 32 bits, as in WebAssembly.

There ``intp``, the type of NumPy's indices, has 32 bits, and some functions refuse int64: "Cannot cast array data from
dtype('int64') to dtype('int32') according to the rule 'safe'". A machine of 64 bits has two types of 64 bits, and intp
is one of them. Here `np.int64` is the other one, and these functions refuse it. (``astype(np.intp, copy=False)`` does
not tell the two apart.)
"""

import ctypes
import gc

import numpy as np
import pytest
from small_models import model, padded_batch

import minitransformer as mt
from minitransformer.arrays import erf, xp
from minitransformer.data.trigram import Trigram
from minitransformer.testing import prove
from minitransformer.testing.examples import examples

pytestmark = pytest.mark.numpy_only("imitates a NumPy of 32 bits")
WIDE = next(np.dtype(code) for code in "lq" if np.dtype(code).itemsize == 8 and np.dtype(code).num != np.dtype("p").num)
INDICES = {(np.ndarray, "take"): 1, (np.ndarray, "repeat"): 1, (np.ndarray, "choose"): 0, (np.ndarray, "put"): 1}
INDICES |= {(np.ufunc, "reduceat"): 2, (np, "bincount"): 0}
"""Functions that cast to ``intp`` by the rule "safe", and which argument they cast."""


def refusing(function, place):
    def checked(*arguments, **options):
        for indices in arguments[place : place + 1]:
            if np.asarray(indices).dtype.num == WIDE.num:
                raise TypeError(f"{function.__name__}: cannot cast int64 to int32 according to the rule 'safe'")
        return function(*arguments, **options)

    return checked


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setattr(np, "int64", WIDE.type)
    monkeypatch.setitem(vars(xp), "int64", WIDE.type)
    for (owner, name), place in INDICES.items():
        # the names of a built-in type; Python offers no other way to replace them
        names = vars(owner) if owner is np else gc.get_referents(vars(owner))[0]
        monkeypatch.setitem(names, name, refusing(getattr(owner, name), place))
    modified = ctypes.pythonapi.PyType_Modified
    for owner in (np.ndarray, np.ufunc):
        modified(ctypes.py_object(owner))
    yield
    monkeypatch.undo()
    for owner in (np.ndarray, np.ufunc):
        modified(ctypes.py_object(owner))


def wide(x):
    return x.astype(np.int64) if isinstance(x, np.ndarray) and x.dtype.kind == "i" else x


@pytest.mark.parametrize("name", INDICES, ids=lambda name: name[1])
def test_the_imitation_refuses_indices_of_64_bits(name):
    call = {
        "take": lambda i: np.take(np.arange(9.0), i),
        "repeat": lambda i: np.repeat(np.arange(3.0), i),
        "choose": lambda i: np.choose(i, [1, 2, 3]),
        "put": lambda i: np.put(np.arange(3.0), i, 0.0),
        "reduceat": lambda i: np.add.reduceat(np.arange(3.0), i),
        "bincount": np.bincount,
    }[name[1]]
    call(np.array([0, 1, 2]))
    with pytest.raises(TypeError, match=name[1]):
        call(np.array([0, 1, 2], dtype=np.int64))


@pytest.mark.parametrize("name", mt.ops.registry)
def test_every_operation(name):
    operation = mt.ops.registry[name]
    for example in examples(operation):
        prove(operation, [wide(x) for x in example.inputs], **example.options)


def test_the_error_function():
    assert erf(np.array([0.0, np.nan, 9.0])).tolist()[::2] == [0, 1]


def test_indexing_and_choosing():
    x = mt.Tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x[np.array([2, 2], dtype=np.int64)] * mt.where([True, False], x[:2], x[1:])).sum().backward()
    assert x.grad.tolist() == [3, 0, 7]


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "swiglu"])
def test_training_and_decoding(activation):
    trained = model(activation=activation, positions="learned", max_length=12)
    adam, batch = mt.optim.Adam(trained.parameters()), padded_batch(vocabulary=8)
    batch = type(batch)(*map(wide, (*batch.inputs, batch.target_output)))
    assert np.isfinite(mt.train.training_step(trained, adam, batch, 1e-3))
    source = batch.inputs[0]
    assert len(mt.decoding.greedy(trained, source)) == len(source)
    assert len(mt.decoding.beam_search(trained, source, beam=3)) == len(source)
    alone = mt.nn.LanguageModel(9, d_model=8, n_heads=2, n_layers=1, d_ff=6)
    rng = np.random.default_rng(0)
    written = mt.decoding.sample(alone, wide(np.array([[1, 2]])), 4, mt.decoding.SamplingOptions(), rng)
    assert len([next(written) for _ in range(6)]) == 6


def test_trigrams():
    ids = wide(np.random.default_rng(0).integers(0, 5, 50))
    trigram = Trigram(ids, 5)
    np.testing.assert_allclose(trigram.next(ids[:4][None]).sum(), 1)
    assert len(trigram.probabilities(ids)) == 50
