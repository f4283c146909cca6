"""What a tensor is: its attributes, its types, and what it refuses."""

import copy
import math
import pickle
import tracemalloc
import warnings
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.arrays import asarray, to_numpy, xp
from minitransformer.autograd.rules import RULES

torch = import_module("torch") if find_spec("torch") else None
BINARY = [
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    lambda x, y: x / y,
    lambda x, y: x**y,
    mt.maximum,
    mt.minimum,
    lambda x, y: mt.where([True, False, True], x, y),
]
RNG = np.random.default_rng(0)
NUMBERS = [2, 2.5, True, np.float64(2.5), np.float32(2.5), np.float16(2.5), np.int64(2), np.array(2.5), np.array(2)]


def leaf(data, dtype="float64"):
    return mt.Tensor(np.array(data, dtype=dtype), requires_grad=True)


def test_attributes():
    data = asarray(np.arange(6.0).reshape(2, 3))
    x = mt.Tensor(data)
    assert x.data is data
    assert x.numpy() is data or mt.backend() != "numpy"  # from a device it is a copy
    assert np.array_equal(x.numpy(), to_numpy(data))
    assert (x.shape, x.ndim, x.size, x.dtype) == ((2, 3), 2, 6, np.float64)
    assert x.grad is None
    assert not x.requires_grad
    assert np.array_equal(x.T.numpy(), to_numpy(data).T)
    assert mt.Tensor([[1, 2]]).dtype.kind == "i"
    assert mt.Tensor([True]).dtype == bool
    assert mt.Tensor(3.5).shape == ()


def test_numbers_come_out():
    assert mt.Tensor([[2.5]]).item() == 2.5
    assert float(mt.Tensor(2.5)) == 2.5
    assert isinstance(float(mt.Tensor(np.float32(2.5))), float)
    assert bool(mt.Tensor(1.0))
    assert not mt.Tensor([0.0])
    with pytest.raises(ValueError, match="size 1"):
        mt.Tensor([1.0, 2.0]).item()
    with pytest.raises(ValueError, match="ambiguous"):
        bool(mt.Tensor([1.0, 2.0]))


def test_repr_shows_the_values():
    assert repr(mt.Tensor([1.0, 2.5])) == "Tensor([1. , 2.5])"
    assert repr(leaf([1.0])) == "Tensor([1.], requires_grad=True)"
    assert repr(mt.Tensor([[1.0, 2.0], [3.0, 4.0]])) == "Tensor([[1., 2.],\n        [3., 4.]])"


@pytest.mark.parametrize("data", [[1, 2], [True], np.arange(3), np.zeros(2, dtype=bool), 1])
def test_whole_numbers_have_no_gradient(data):
    with pytest.raises(TypeError, match=r"only floating-point values have a gradient, found (int|bool)"):
        mt.Tensor(data, requires_grad=True)


@pytest.mark.parametrize("data", [[1, 2], [True], np.arange(3)])
def test_whole_numbers_want_no_gradient_later_either(data):
    """Their gradients would be cut to whole numbers: those of a * 2.5 to 2."""
    x = mt.Tensor(data)
    x.requires_grad = False
    with pytest.raises(TypeError, match=r"\.astype\(float\)"):
        x.requires_grad = True
    assert not x.requires_grad
    y = leaf([1.0, 2.0])
    with pytest.raises(TypeError, match="found int"):
        y.data = np.array([1, 2])
    y.requires_grad = False
    y.data = np.array([1, 2])
    assert not (y * 2.5).requires_grad


def test_requires_grad_may_be_set_later():
    x = mt.Tensor([1.0, 2.0])
    x.requires_grad = True
    (x * 2.5).sum().backward()
    assert x.grad.tolist() == [2.5, 2.5]


def test_what_is_assigned_to_data_becomes_an_array():
    x = mt.Tensor([1.0, 2.0], requires_grad=True)
    x.data = [3.0, 4.0]
    (x * x).sum().backward()
    assert x.grad.tolist() == [6, 8]
    x.data = array = x.data + 1
    assert x.data is array


@pytest.mark.numpy_only("CuPy has no masked arrays")
def test_masked_arrays_are_not_assigned_to_data():
    x = mt.Tensor([1.0, 2.0])
    with pytest.raises(TypeError, match="masked array"):
        x.data = np.ma.masked_array([3.0, 4.0], mask=[False, True])
    assert x.data.tolist() == [1, 2]


@pytest.mark.numpy_only("CuPy has no masked arrays")
@pytest.mark.parametrize("kind", [float, int, bool])
def test_masked_arrays_are_refused_as_their_mask_would_be_lost(kind):
    masked = np.ma.masked_array(np.ones((2, 2), dtype=kind), mask=[[False, True], [False, False]])
    table = np.ones((3, 2))
    uses = [mt.Tensor, lambda x: mt.Tensor(np.ones((2, 2))) + x, lambda x: mt.ops.dropout(x, 0.5, RNG),
            lambda x: mt.ops.embedding(x, table), lambda x: mt.ops.softmax(np.ones((2, 2)), mask=x),
            lambda x: mt.ops.cross_entropy(np.ones((2, 2, 3)), x), mt.ops.padding_mask]  # fmt: skip
    for use in uses:
        with pytest.raises(TypeError, match=r"masked array.* would be lost.*\.filled"):
            use(masked)


# Values that change between the two passes


def set_to_ten(x):
    x.data[...] = 10


def set_one_entry(x):
    x.data[1] += 1e-3


def subtract_in_place(x):
    x.data -= 0.5


def change_and_look(x):
    x.data[0] = 4.0
    assert x.data[0] == 4


def load(x):
    values = x.data
    xp.copyto(values, xp.full_like(values, 7.0))


@pytest.mark.parametrize("change", [set_to_ten, set_one_entry, subtract_in_place, change_and_look, load])
def test_values_changed_in_place_between_the_passes_are_noticed(change):
    x, w = leaf([1.0, 2.0, 3.0]), leaf([0.5, 0.5, 0.5])
    loss = (x * x * w).sum()
    change(x)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"multiply: .* changed in place .* compute the value again"):
            loss.backward()
    assert x.grad is None
    assert w.grad is None
    (x * x * w).sum().backward()  # a new graph is of the new values
    np.testing.assert_allclose(to_numpy(x.grad), to_numpy(2 * x.data * w.data))


def test_values_that_are_only_looked_at_are_no_change():
    x = leaf([1.0, np.nan, 3.0])
    loss = (x * x).sum()
    x.data[...] = x.data.copy()
    assert x.data.shape == (3,)
    loss.backward()
    assert x.grad.tolist()[::2] == [2, 6]


def test_a_new_array_leaves_the_graph_of_the_old_one_right():
    x = leaf([1.0, 2.0])
    loss = (x * x).sum()
    x.data = asarray(np.array([5.0, 5.0]))
    loss.backward()
    assert x.grad.tolist() == [2, 4]


def test_a_new_array_is_watched_as_the_old_one_was():
    x = leaf([1.0, 2.0])
    old = (x * x).sum()
    x.data = asarray(np.array([5.0, 5.0]))
    new = (x * x).sum()
    x.data[0] = 6.0
    with pytest.raises(RuntimeError, match="multiply"):
        new.backward()
    old.backward()
    assert x.grad.tolist() == [2, 4]


@pytest.mark.numpy_only("tracemalloc sees arrays of the host")
def test_values_are_copied_only_between_the_passes():
    x = leaf(np.ones(20_000))
    tracemalloc.start()
    try:
        for _ in range(2):
            loss = (x * 2.0).sum()
            loss.backward()
            x.grad = loss = None
            before = tracemalloc.get_traced_memory()[0]
            _ = x.data
            assert tracemalloc.get_traced_memory()[0] - before < 1000
    finally:
        tracemalloc.stop()


def test_after_a_change_other_graphs_are_right():
    x = leaf([1.0, 2.0])
    kept = (x * x).sum()
    x.data[...] = 3.0
    loss = (x * x).sum()
    loss.backward()
    assert x.grad.tolist() == [6, 6]
    with pytest.raises(RuntimeError, match="multiply"):
        kept.backward()


def test_after_the_backward_pass_values_may_change():
    x = leaf([1.0, 2.0])
    for _ in range(3):
        x.grad = None
        loss = (x * x).sum()
        loss.backward()
        x.data -= 0.25 * x.grad
    assert x.data.tolist() == [0.125, 0.25]


def test_a_step_of_the_optimiser_between_the_passes_is_noticed():
    x = leaf([1.0, 2.0])
    adam = mt.optim.Adam([x])
    one, two = (x * x).sum(), (x * x).sum()
    x.grad = xp.ones(2)
    adam.step(0.1)
    for loss in (one, two):
        with pytest.raises(RuntimeError, match="multiply"):
            loss.backward()


@pytest.mark.parametrize("data", ["text", ["a"], [None], 1j, [object()]])
def test_only_numbers_are_data(data):
    with pytest.raises(TypeError, match="numbers, found"):
        mt.Tensor(data)


class Foreign:
    """An array of another library, whose types are not NumPy's."""

    dtype = "foreign.float32"

    def __init__(self, values):
        self.values, self.shape = values, np.shape(values)

    def __array__(self, *_, **__):
        if self.values is None:
            raise RuntimeError("call detach()")
        return np.asarray(self.values, dtype=np.float32)


def test_arrays_of_other_libraries_are_read_or_the_message_says_what_to_do():
    for make in (Foreign, *([torch.tensor] if torch else [])):
        x = leaf([1.0, 2.0, 3.0], "float32")
        assert to_numpy(mt.Tensor(make([1.0, 2.0])).data).tolist() == [1, 2]
        assert to_numpy((x * make([1.0, 0.0, 2.0])).data).tolist() == [1, 0, 6]
        np.testing.assert_allclose(to_numpy(mt.ops.softmax(make([0.0, 0.0])).data), [0.5, 0.5])
    needs_detach = [Foreign(None), *([torch.ones(2, requires_grad=True)] if torch else [])]
    for data in needs_detach:
        for use in (mt.Tensor, mt.ops.softmax, lambda data: leaf([1.0, 2.0]) + data):
            with pytest.raises(TypeError, match=r"NumPy cannot read; convert it to a NumPy array first .*detach\(\)"):
                use(data)


CHANGES = {
    "a leaf": (lambda a, k, middle, taken: a.data, True),
    "a constant": (lambda a, k, middle, taken: k.data, False),
    "a result": (lambda a, k, middle, taken: middle.data, False),
    "an array that was taken before": (lambda a, k, middle, taken: taken, False),
}


@pytest.mark.parametrize("changed", CHANGES)
def test_changes_in_place_are_noticed_as_the_docstring_says(changed):
    find, is_noticed = CHANGES[changed]
    a, k = leaf([1.0, 2.0]), mt.Tensor([3.0, 4.0])
    taken = a.data
    middle = a * k
    loss = (middle * middle).sum()
    find(a, k, middle, taken)[0] = 99.0
    if is_noticed:
        with pytest.raises(RuntimeError, match="multiply"):
            loss.backward()
    else:
        loss.backward()


def attention(block_size):
    def function(x, mask):
        return mt.ops.scaled_dot_product_attention(x, x, x, mask, block_size=block_size)

    return function


CHOICES = {
    "an index": (lambda x, i: x[i], [2, 0, 2]),
    "an index beside others": (lambda x, i: x[:, i, None], [2, 0, 2]),
    "a boolean index": (lambda x, i: x[i], [True, False, True]),
    "an index for two axes": (lambda x, i: x[[[0], [1]], i], [2, 0, 2]),
    "a condition": (lambda x, i: mt.where(i, x, 2 * x), [True, False, True]),
    "ids": (lambda x, i: mt.ops.embedding(i, x), [2, 0, 2]),
    "ids of a table that is stored by columns": (lambda x, i: mt.ops.embedding(i, x.T), [2, 0, 2]),
    "targets": (mt.ops.cross_entropy, [2, 0, 2]),
    "ignored targets": (lambda x, i: mt.ops.cross_entropy(x, i, ignore_index=0), [2, 0, 2]),
    "a mask": (mt.ops.masking, [True, False, True]),
    "a mask of a softmax": (lambda x, i: mt.ops.softmax(x, mask=i), [True, False, True]),
    "a mask of attention": (attention(None), [True, False, True]),
    "a mask of attention in blocks": (attention(2), [True, False, True]),
    "a mask of local attention": (lambda x, i: mt.ops.local_attention(x, x, x, i, radius=1), [True, False, True]),
}


def as_list(values):
    return list(values)


@pytest.mark.parametrize("kind", [as_list, np.array, mt.Tensor])
@pytest.mark.parametrize("name", CHOICES)
def test_what_was_chosen_may_change_between_the_passes(name, kind):
    """The values go where they came from: gradients in other rows would be those of no function."""
    function, choice = CHOICES[name]
    found = []
    for change in (False, True):
        chosen = kind(choice)
        x = leaf(np.random.default_rng(0).normal(size=(3, 3)))
        if kind is mt.Tensor and name.startswith(("ids", "targets", "ignored", "a mask")):
            chosen = asarray(np.array(choice))  # of a tensor, an operation receives the array
        y = function(x, chosen)
        if change:
            array = chosen.data if isinstance(chosen, mt.Tensor) else chosen
            array[0], array[1] = choice[1], choice[0]
        y.backward(np.random.default_rng(1).normal(size=y.shape))
        found.append(to_numpy(x.grad))
    np.testing.assert_array_equal(*found)


def test_an_index_of_nested_lists_may_change_between_the_passes():
    x, index = leaf([1.0, 2.0, 3.0]), [[0, 1], [1, 1]]
    y = x[index]
    index[0][0] = 2
    y.sum().backward()
    assert x.grad.tolist() == [1, 3, 0]


def test_a_tensor_is_no_data():
    with pytest.raises(TypeError, match=r"a Tensor already; use tensor\.detach"):
        mt.Tensor(mt.Tensor([1.0]))


def test_detach():
    x = leaf([1.0, 2.0])
    y = (x * x).detach()
    assert not y.requires_grad
    assert y.numpy().tolist() == [1, 4]
    (x * y).backward([1.0, 1.0])
    assert x.grad.tolist() == [1, 4]
    assert x.detach().data is x.data


def test_a_gradient_is_wanted_only_where_one_flows():
    x, y = leaf([1.0]), mt.Tensor([2.0])
    assert (x + y).requires_grad
    assert not (y + y).requires_grad
    assert not (y + 1.0).exp().sum().requires_grad
    assert not mt.concatenate([y, y]).requires_grad
    assert mt.concatenate([y, x]).requires_grad
    z = mt.Tensor(np.arange(3))[np.array([1])] * x
    z.backward([5.0])
    assert x.grad.tolist() == [5]
    assert y.grad is None


# Types


@pytest.mark.parametrize("number", NUMBERS, ids=repr)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("operation", range(len(BINARY)))
def test_a_number_does_not_change_the_type(operation, dtype, number):
    for function in (lambda x: BINARY[operation](x, number), lambda x: BINARY[operation](number, x)):
        x = leaf([0.5, 1.5, 2.5], dtype)
        y = function(x)
        assert y.dtype == dtype
        y.backward([1.0, -2.0, 3.0])
        assert x.grad.dtype == dtype
        assert x.grad.shape == (3,)


@pytest.mark.parametrize("operation", range(len(BINARY)))
def test_a_tensor_without_axes_is_a_number(operation):
    for function in (BINARY[operation], lambda x, y: BINARY[operation](y, x)):
        x, number = leaf([0.5, 1.5, 2.5], "float32"), leaf(2.5, "float64")
        y = function(x, number)
        assert y.dtype == np.float32
        y.backward([1.0, -2.0, 3.0])
        assert x.grad.dtype == np.float32
        assert number.grad.dtype == np.float64
        assert number.grad.shape == ()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "name", [*(name for name, rule in RULES.items() if rule.doc), "sum", "mean", "max", "transpose", "T"]
)
def test_functions_keep_the_type(name, dtype):
    x = leaf([[0.5, 1.5, 2.5]], dtype)
    y = x.T if name == "T" else getattr(x, name)()
    assert y.dtype == dtype
    assert isinstance(y.data, xp.ndarray)  # also where NumPy returns a number of its own
    y.backward(np.full(y.shape, 1.5))
    assert x.grad.dtype == dtype


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[1:],
        lambda x: x[np.array([0, 0])],
        lambda x: x.reshape(1, 3),
        lambda x: x @ np.ones(3, dtype=np.float32),
        lambda x: mt.concatenate([x, x]),
        lambda x: mt.stack([x, x]),
        lambda x: -x,
        lambda x: (x * 0.1 + 1.0) / x.sum() - x.mean() ** 2,
    ],
)
def test_float32_stays(function):
    x = leaf([0.5, 1.5, 2.5], "float32")
    y = function(x)
    assert y.dtype == np.float32
    y.backward(np.full(y.shape, 1.5))
    assert x.grad.dtype == np.float32


def test_every_gradient_has_the_type_of_its_leaf():
    x, y = leaf([0.5, 1.5], "float32"), leaf([2.0, -1.0], "float64")
    for function in (
        lambda: x * y,
        lambda: mt.concatenate([x, y])[1:3],
        lambda: mt.where([True, False], x, y) / (x + y),
    ):
        x.grad = y.grad = None
        z = function()
        assert z.dtype == np.float64
        z.backward([1.0, 1.0])
        assert (x.grad.dtype, y.grad.dtype) == (np.float32, np.float64)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_d_output_takes_the_type_of_the_tensor(dtype):
    for d_output in (
        np.ones(2, dtype="float64"),
        np.ones(2, dtype="float32"),
        np.ones(2, dtype=int),
        [1, 1],
        [1.0, 1.0],
    ):
        x = leaf([1.0, 2.0], dtype)
        (x * 3).backward(d_output)
        assert x.grad.dtype == dtype
        assert x.grad.tolist() == [3, 3]


# Refusals of backward; each must leave everything as it was


def test_backward_without_a_graph():
    for y in (mt.Tensor([1.0]), mt.Tensor(1.0) * 2, (leaf([1.0]) * 2).detach()):
        with pytest.raises(RuntimeError, match="requires_grad=True"):
            y.backward()
    with mt.no_grad():
        y = leaf([1.0]) * 2
    with pytest.raises(RuntimeError, match="computed under no_grad"):
        y.backward()


@pytest.mark.parametrize("shape", [(2,), (1, 2), (0,), (2, 3)])
def test_backward_of_many_numbers_needs_a_d_output(shape):
    x = leaf(np.ones(shape))
    with pytest.raises(ValueError, match="d_output") as caught:
        (x * 2).backward()
    assert str(shape) in str(caught.value)
    with pytest.raises(ValueError, match="d_output"):
        x.backward()
    assert x.grad is None


@pytest.mark.parametrize("wrong", [(), (3,), (2,), (2, 1), (3, 2), (1, 2, 3), (2, 3, 1)])
def test_backward_refuses_a_d_output_of_another_shape(wrong):
    x = leaf(np.ones((2, 3)))
    for y in (x * 2, x):
        with pytest.raises(ValueError, match="backward: d_output has shape") as caught:
            y.backward(np.ones(wrong))
        assert f"{wrong}, but the tensor has shape (2, 3)" in str(caught.value)
    assert x.grad is None


def test_backward_of_one_number():
    for shape in ((), (1,), (1, 1)):
        x = leaf(np.full(shape, 3.0))
        (x * x).backward()
        assert x.grad.shape == shape
        assert x.grad.item() == 6
        (x * x).backward(0.5)
        assert x.grad.item() == 9
        (x * x).backward(mt.Tensor(np.ones(shape)))
        assert x.grad.item() == 15
    with pytest.raises(ValueError, match=r"\(1, 1\)"):
        (leaf([2.0]) * 2).backward(np.ones((1, 1)))


def test_backward_of_a_leaf():
    x = leaf([1.0, 2.0])
    d_output = np.array([3.0, 5.0])
    x.backward(d_output)
    x.backward(d_output)
    assert x.grad.tolist() == [6, 10]
    assert d_output.tolist() == [3, 5]
    y = leaf(1.5)
    y.backward()
    assert y.grad == 1


def test_concatenate_takes_lists_and_is_named_in_messages():
    x = mt.Tensor([1.0, 2.0], requires_grad=True)
    joined = mt.concatenate([x, [3.0], np.array([4.0])])
    np.testing.assert_array_equal(joined.numpy(), [1, 2, 3, 4])
    joined.backward(np.array([5.0, 6.0, 7.0, 8.0]), release=True)
    np.testing.assert_array_equal(x.grad, [5, 6])
    with pytest.raises(RuntimeError, match=r"^concatenate: this part of the graph was released"):
        joined.backward(np.ones(4))


def test_a_tensor_is_never_taken_for_an_array_of_tensors():
    """NumPy would make an array of objects of it, and compare those without a word."""
    x = mt.Tensor([[5.0, 0.0]])
    for use in (np.asarray, lambda x: np.array([x, x]), lambda x: np.zeros((2, 2)).__setitem__(0, x)):
        with pytest.raises(TypeError, match=r"a Tensor is not an array: use \.data"):
            use(x)


@pytest.mark.parametrize(
    ("use", "write"),
    [
        (np.exp, r"mt\.exp.* x\.exp"),
        (np.sum, r"mt\.sum.* x\.sum"),
        (np.mean, r"mt\.mean.* x\.mean"),
        (np.max, r"x\.max"),
        (lambda x: np.maximum(0, x), r"mt\.maximum"),
        (lambda x: np.where([[True, False]], x, 0), r"mt\.where"),
        (lambda x: np.concatenate([x, x]), r"mt\.concatenate"),
        (lambda x: np.reshape(x, (2, 1)), r"x\.reshape"),
        (np.isnan, r"\.data"),
        (np.cumprod, r"\.data"),
        (np.linalg.norm, r"mt\.norm.* x\.norm"),
        (np.linalg.det, r"\.data"),
        (lambda x: np.zeros(2) // x, r"\.data"),
        (lambda x: np.add(x, 1, out=np.zeros((1, 2))), r"\.data"),
        (np.add.reduce, r"\.data"),
    ],
)
def test_functions_of_numpy_say_what_to_write(use, write):
    with pytest.raises(TypeError, match=f"takes no Tensor.* {write}"):
        use(leaf([[5.0, 0.0]]))


def test_numpy_says_what_shape_a_tensor_has():
    x = leaf([[5.0, 0.0]])
    assert (np.shape(x), np.ndim(x), np.size(x)) == ((1, 2), 2, 2)


OPERATORS = [lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x / y, lambda x, y: x**y]
OPERATORS += [lambda x, y: x @ y]


@pytest.mark.parametrize("operator", range(len(OPERATORS)))
def test_operators_of_an_array_and_a_tensor_make_tensors(operator):
    operator, array = OPERATORS[operator], np.array([3.0, 5.0])
    for function, values in (
        (lambda x: operator(asarray(array), x), lambda x: operator(array, x)),
        (lambda x: operator(x, asarray(array)), lambda x: operator(x, array)),
    ):
        x = leaf([2.0, 0.5])
        y = function(x)
        np.testing.assert_array_equal(y.numpy(), values(np.array([2.0, 0.5])))
        y.sum().backward()
        assert x.grad.any()


def test_a_sum_that_begins_as_an_array_becomes_a_tensor():
    x, total = leaf([2.0, 0.5]), asarray(np.zeros(2))
    start = total
    total += x
    assert isinstance(total, mt.Tensor)
    assert start.tolist() == [0, 0]
    total.sum().backward()
    assert x.grad.tolist() == [1, 1]


# Numbers and copies: what would leave the graph without a word


def as_entry(x):
    array = np.zeros(2)
    array[0] = x
    return array[0]


def by_math(x):
    return math.exp(x)


def as_float(x):
    return float(x)


def as_floats(x):
    (number,) = map(float, [x])
    return number


@pytest.mark.parametrize("use", [as_entry, by_math])
def test_a_number_without_a_graph_is_noticed(use):
    for x in (leaf(0.5), leaf(0.5) * 1):
        with pytest.warns(UserWarning, match=r"float\(x\) if that is meant; .* mt\.exp\(x\) .* mt\.stack"):
            use(x)
    with mt.no_grad():
        use(leaf(0.5))
    use(mt.Tensor(0.5))


@pytest.mark.parametrize("use", [as_float, as_floats, lambda x: x.item(), "{:.2f}".format, lambda x: f"{x:8.2e}", str])
def test_a_number_that_was_asked_for_is_no_surprise(use):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert str(use(leaf(0.5))) in ("0.5", "0.50", "5.00e-01", "Tensor(0.5, requires_grad=True)")


def test_a_number_is_formatted():
    x = leaf([[2.0 / 3]])
    assert (f"{x:.2f}", f"{x:>8.1%}", f"{x}") == ("0.67", "   66.7%", str(x))
    assert f"{mt.Tensor(3):03d}" == "003"
    with pytest.raises(TypeError, match=r"shape \(2,\) is not one number"):
        f"{leaf([1.0, 2.0]):.2f}"


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_leaves_are_copied_and_results_refused(copied):
    x = leaf([1.0, 2.0])
    y = x * x
    y.sum().backward()
    other = copied(x)
    assert (other.data.tolist(), other.grad.tolist(), other.requires_grad) == ([1, 2], [2, 4], True)
    assert not copied(mt.Tensor([1.0])).requires_grad
    (other * 3).sum().backward()
    other.data[0] = 5.0
    assert (other.grad.tolist(), x.grad.tolist(), x.data.tolist()) == ([5, 7], [2, 4], [1, 2])
    with pytest.raises(TypeError, match=r"multiply .*use \.detach\(\)"):
        copied(y)
    with pytest.raises(TypeError, match=r"multiply .*use \.detach\(\)"):
        copied({"values": [y]})
    assert copied(y.detach()).data.tolist() == [1, 4]
    first, second = copied([x, x])
    assert first is second
    assert type(copied(mt.nn.module.Parameter([1.0]))) is mt.nn.module.Parameter


def test_a_shallow_copy_stays_in_the_graph():
    x = leaf([1.0, 2.0])
    copy.copy(x * x).sum().backward()
    assert x.grad.tolist() == [2, 4]


def test_tensors_are_not_compared():
    """Python would say whether they are one and the same object, and that would pass for a mask."""
    x = mt.Tensor([1.0, 0.0])
    comparisons = [lambda: x != 0, lambda: x == x, lambda: np.zeros(2) == x, lambda: x > 0, lambda: np.float64(2) > x]
    comparisons += [lambda: np.zeros(2) < x, lambda: max([x, x]), lambda: sorted([x, x])]
    for compare in comparisons:
        with pytest.raises(TypeError, match=r"compare their \.data.* mt\.maximum"):
            compare()
    assert len({x, x, mt.Tensor([1.0, 0.0])}) == 2


def test_the_gradient_of_a_single_number_is_an_array():
    for loss in (lambda x: x * x, lambda x: x * 2.0, lambda x: x + x + x):
        x = mt.Tensor(2.0, requires_grad=True)
        loss(x).backward()
        assert isinstance(x.grad, xp.ndarray)
        x.grad[...] = 0
