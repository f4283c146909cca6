"""The backward pass over the graph: reuse, accumulation, release, depth and cost."""

import gc
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from toml_cases import toml_table

import minitransformer as mt
from minitransformer.arrays import asarray, to_numpy, xp
from minitransformer.autograd import graph


def leaf(data):
    return mt.Tensor(np.array(data, dtype=float), requires_grad=True)


def test_diamond():
    x = leaf([2.0, -3.0])
    a, b = x * 3, x * x
    (a * b + a).backward([1.0, 10.0])  # 3x³ + 3x
    assert x.grad.tolist() == [9 * 4 + 3, 10 * (9 * 9 + 3)]


def test_a_node_waits_for_all_of_its_users():
    # y is used at three depths; sent on after the first, its gradient would be too small.
    x = leaf([2.0])
    y = x * 5
    z = y * y
    (z * y + z + y).backward([1.0])  # y³ + y² + y at y = 10
    assert x.grad.tolist() == [5 * (300 + 20 + 1)]


@pytest.mark.parametrize(
    ("function", "derivative"),
    [
        (lambda x: x * x, lambda x: 2 * x),
        (lambda x: x + x, lambda x: 0 * x + 2),
        (lambda x: x - x, lambda x: 0 * x),
        (lambda x: x / x, lambda x: 0 * x),
        (lambda x: x * x * x, lambda x: 3 * x * x),
        (lambda x: x**x, lambda x: x**x * (np.log(x) + 1)),
    ],
)
def test_one_tensor_used_twice(function, derivative):
    x, d = leaf([0.5, 2.0, 3.0]), np.array([1.0, -2.0, 0.5])
    function(x).backward(d)
    np.testing.assert_allclose(x.grad, d * derivative(x.numpy()), rtol=1e-14, atol=1e-15)


def test_a_second_backward_doubles_the_gradients_exactly():
    rng = np.random.default_rng(0)
    x, w = leaf(rng.standard_normal((3, 4))), leaf(rng.standard_normal((4, 2)))
    y = ((x @ w).tanh() * (x.sum(axis=1, keepdims=True) / 3)).exp()
    d = rng.standard_normal(y.shape)
    y.backward(d)
    first = x.grad.copy(), w.grad.copy()
    y.backward(d)
    assert np.array_equal(x.grad, 2 * first[0])
    assert np.array_equal(w.grad, 2 * first[1])
    y.backward(-2 * d)
    assert not x.grad.any()
    assert not w.grad.any()


def test_gradients_of_several_losses_add_up():
    x = leaf([1.0, 2.0])
    shared = x * x
    shared.sum().backward()
    (shared * 3)[0].backward()
    assert x.grad.tolist() == [2 + 6, 4]


def test_only_leaves_collect_gradients():
    x = leaf([1.0])
    y = x * 2
    z = y * 3
    z.backward([1.0])
    for result in (y, z):
        with pytest.warns(UserWarning, match=r"multiply.* only leaves .*mt\.trace"):
            assert result.grad is None
    assert x.grad.tolist() == [6]


# Release


@pytest.mark.parametrize("release", [False, True])
def test_what_the_graph_saved_goes_with_its_release_or_with_the_last_tensor(release):
    x = leaf(np.ones(100))
    hidden = x * 2
    saved = weakref.ref(hidden.data)
    y = (hidden * hidden).sum()
    del hidden
    gc.collect()
    assert saved() is not None  # the graph holds it
    y.backward(release=release)
    assert x.grad.tolist() == [8] * 100
    gc.collect()
    assert (saved() is None) == release
    del y
    gc.collect()
    assert saved() is None


def test_memory_falls_while_a_releasing_pass_runs():
    alive = []
    watch = mt.Operation(
        lambda x: (x, ()), lambda saved, d: alive.append([r() is not None for r in saves]) or (d,), name="watch"
    )
    x = leaf(np.ones(10))
    first = x * 3
    second = watch(first * first) * 2
    saves = [weakref.ref(second.data)]
    y = (second * second).sum()
    del first, second
    y.backward(release=True)
    assert alive == [[False]]  # what came after it is gone when its turn comes


def test_a_graph_of_which_a_part_was_released_refuses_before_any_work():
    x, w = leaf([3.0]), leaf([5.0])
    shared = x * x
    one, other = shared * w, w * shared + w
    one.backward(release=True)
    before = x.grad.copy(), w.grad.copy()
    with pytest.raises(RuntimeError, match="multiply: this part of the graph was released"):
        other.backward()
    assert np.array_equal(x.grad, before[0])
    assert np.array_equal(w.grad, before[1])


def test_release_gives_the_same_gradients():
    rng = np.random.default_rng(1)
    data, d = rng.standard_normal((3, 3)), rng.standard_normal((3, 3))

    def gradient(release):
        x = leaf(data)
        y = x @ x + x.tanh() * x.T
        (y * y - x).backward(d, release=release)
        return x.grad

    assert np.array_equal(gradient(True), gradient(False))


# no_grad


def test_no_grad():
    x = leaf([1.0])
    assert mt.is_recording()
    with mt.no_grad():
        assert not mt.is_recording()
        y = x * 2
    assert mt.is_recording()
    assert not y.requires_grad
    assert (x * 2).requires_grad


def test_no_grad_decorates_functions():
    x = leaf([2.0])

    @mt.no_grad()
    def square(x, times=1):
        """Return the square."""
        if times > 1:
            return square(x, times=times - 1)
        return x * x

    assert not square(x, times=3).requires_grad
    assert (square.__name__, square.__doc__) == ("square", "Return the square.")
    assert (x * x).requires_grad
    with pytest.raises(ValueError, match="do not match"):
        mt.no_grad()(mt.matmul)(x, [[1.0], [2.0]])
    assert (x * x).requires_grad


def test_no_grad_refuses_functions_whose_code_runs_later():
    def values():
        yield 1

    async def value():
        return 1

    async def several():
        yield 1

    for function in (values, value, several):
        with pytest.raises(TypeError, match=r"with no_grad\(\)"):
            mt.no_grad()(function)


def test_no_grad_may_be_nested():
    again = mt.no_grad()
    with mt.no_grad(), again:
        with again, again:  # the same one, entered three times
            assert not mt.is_recording()
        with mt.no_grad():
            pass
        assert not mt.is_recording()
    assert mt.is_recording()


def test_no_grad_ends_with_an_exception():
    with pytest.raises(KeyError), mt.no_grad():
        raise KeyError
    assert mt.is_recording()


def test_operations_and_rules_on_arrays_return_arrays():
    x, y = mt.Tensor([[1.0, 2.0]], requires_grad=True), asarray(np.array([[3.0, 4.0]]))
    with mt.autograd.on_arrays():
        assert not mt.is_recording()
        with mt.no_grad():
            found = [mt.ops.linear(x, x.T), mt.ops.linear(y, y.T), x * y + 1, x.sum(), mt.concatenate([x, x])]
            found += [mt.var(x * 2, -1), mt.std(y, -1)]
    assert mt.is_recording()
    expected = [[[5.0]], [[25.0]], [[4.0, 9.0]], 3.0, [[1.0, 2.0], [1.0, 2.0]], [1.0], [0.5]]
    for one, values in zip(found, expected, strict=True):
        assert type(one) is type(y)
        np.testing.assert_array_equal(to_numpy(one), values)
    assert type(mt.ops.linear(y, y.T)) is mt.Tensor


def test_no_grad_is_for_one_thread():
    off = mt.no_grad()
    seen = []
    inside, done = threading.Event(), threading.Event()

    def other():
        seen.append(mt.is_recording())
        with off:
            inside.set()
            done.wait(10)
            seen.append(mt.is_recording())
        seen.append(mt.is_recording())

    with off:
        thread = threading.Thread(target=other)
        thread.start()
        assert inside.wait(10)
    assert mt.is_recording()  # here it has ended, there not yet
    done.set()
    thread.join(10)
    assert seen == [True, False, True]
    assert mt.is_recording()


# Arrays of its own for everybody


def test_gradients_share_no_memory():
    rng = np.random.default_rng(2)
    x, y, z = (leaf(rng.standard_normal((3, 3))) for _ in range(3))
    d = rng.standard_normal((9, 3))
    result = mt.concatenate([x + y, z.T, mt.where(np.eye(3) > 0, x, y).reshape(3, 3)])
    d = asarray(d)
    before = d.copy()
    result.backward(d)
    arrays = {"d_output": d, "result": result.data}
    for name, tensor in (("x", x), ("y", y), ("z", z)):
        arrays |= {name: tensor.data, f"d_{name}": tensor.grad}
    for a in arrays:
        for b in arrays:
            assert a == b or not xp.shares_memory(arrays[a], arrays[b]), (a, b)
    assert np.array_equal(d, before)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 0,
        lambda x: x.reshape(6),
        lambda x: x.T,
        lambda x: x[:],
        lambda x: mt.concatenate([x]),
        lambda x: x.sum(axis=()),
        lambda x: x,
    ],
)
def test_a_gradient_is_the_leafs_own_array(function):
    x = leaf(np.arange(6.0).reshape(2, 3))
    y = function(x)
    d = asarray(np.random.default_rng(3).standard_normal(y.shape))
    y.backward(d)
    assert not xp.shares_memory(x.grad, d)
    assert getattr(x.grad.flags, "writeable", True)  # CuPy has no arrays that are read-only
    assert x.grad.flags.c_contiguous
    first = x.grad.copy()
    x.grad *= 0  # nobody else is hurt
    y.backward(d)
    assert np.array_equal(x.grad, first)


def test_a_node_that_passes_its_gradient_on_to_many_is_not_changed_by_their_sums():
    # add hands the same array to both inputs; a sum made in place on one side would show on the other
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    a, b = x * 1, y * 1
    total = a + b
    (total + a * 10 + a * 100 + b * 7).backward([1.0, 2.0])
    assert x.grad.tolist() == [111, 222]
    assert y.grad.tolist() == [8, 16]


def pair(gradients):
    """Return an operation of two inputs whose backward pass is this function."""
    return mt.Operation(lambda x, y: (x + y, None), lambda saved, d: gradients(d), name="pair")


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: (x + 0) + (y + 0),  # each addition passes on what another has passed on to both
        pair(lambda d: [2 * d] * 2),
        pair(lambda d: (once := 2 * d, once[:])),
    ],
)
def test_two_leaves_never_share_a_gradient(function):
    x, y = leaf([1.0, 2.0, 4.0]), leaf([3.0, 5.0, 7.0])
    function(x, y).backward([1.0, 10.0, 100.0])
    assert not xp.shares_memory(x.grad, y.grad)


def test_a_leaf_is_handed_the_array_that_backward_made():
    new = asarray(np.array([3.0, 4.0]))
    x, y = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    pair(lambda d: (new, d))(x, y).backward([5.0, 6.0])
    assert x.grad is new
    assert y.grad.tolist() == [5, 6]


def sums_of(target, *received):
    """Return what a target has received: each time a gradient, all that its node returned, and what it was given."""
    root = graph.Node("root", (), lambda d: ())
    sums = graph.GradientSums(root, asarray(np.ones(1)))
    for gradient, gradients, d_node in received:
        sums.add(target, gradient, gradients, d_node)
    return sums


def test_sums_are_written_where_nobody_else_holds_the_array():
    d, first, second, third = (asarray(np.full((2, 3), value)) for value in (0.5, 1.0, 10.0, 100.0))
    node = graph.Node("node", (), lambda d: ())
    sums = sums_of(node, (first, [first, first], d), (second, [None, second], d), (third, [third, third], d))
    assert node in sums.own
    assert sums.take(node) is second
    assert [x.ravel()[0] for x in (first, second, third)] == [1, 111, 100]
    assert sums.take(node) is None


@pytest.mark.parametrize("holder", ["d_node", "a sibling", "a part of a sibling", "a broadcast number", "a transpose"])
def test_other_arrays_are_not_written_to(holder):
    d, memory = asarray(np.ones((3, 3))), asarray(np.full((3, 3), 10.0))
    part, row, column = memory[:2], xp.broadcast_to(memory[0, :1].copy(), (1,)), memory.T
    gradient, gradients, d_node = {
        "d_node": (memory, [memory], memory),
        "a sibling": (memory, [memory, memory], d),
        "a part of a sibling": (part, [memory, part], d),
        "a broadcast number": (row, [row], d),  # in NumPy it is read-only
        "a transpose": (column, [column], d),  # the sum is in C order
    }[holder]
    x, first = leaf(np.ones(gradient.shape)), asarray(np.ones(gradient.shape))
    total = sums_of(x, (first, [first, first], d), (gradient, gradients, d_node)).take(x)
    assert total.flags.c_contiguous
    assert (total == 11).all()
    assert (memory == 10).all()
    assert (first == 1).all()


# Depth and cost


def seconds(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


@pytest.mark.numpy_only("starts a process that chooses its library itself; on all libraries, the test below")
def test_depth_is_no_limit():
    code = toml_table(__file__, "DEEP")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "done\n", "")


@pytest.mark.parametrize("release", [False, True])
def test_depth_is_no_limit_with_release(release):
    x = leaf([1.0])
    y = x
    for _ in range(20_000):
        y = y * 1.0
    y.backward(release=release)
    assert x.grad.tolist() == [1]


def test_doublings_cost_no_more_than_nodes():
    x = leaf([1.0])

    def double():
        y = x
        for _ in range(60):
            y = y + y
        y.backward()

    assert seconds(double) < 5  # 2^60 paths
    assert x.grad.tolist() == [2.0**60]


def test_each_backward_runs_once():
    calls = []

    def operation(name):
        return mt.Operation(
            lambda *inputs: (sum(inputs), len(inputs)), lambda n, d: calls.append(name) or (d,) * n, name=str(name)
        )

    x = leaf([1.0])
    width, height = 7, 12
    rung = [operation((0, i))(x) for i in range(width)]
    for level in range(1, height):
        rung = [operation((level, i))(*rung) for i in range(width)]  # each uses every one below
    operation("top")(*rung).backward([1.0])
    assert x.grad.tolist() == [float(width**height)]
    assert sorted(map(str, calls)) == sorted(
        ["top", *(str((level, i)) for level in range(height) for i in range(width))]
    )
    order = {name: place for place, name in enumerate(calls)}
    for level in range(1, height):
        assert max(order[(level, i)] for i in range(width)) < min(order[(level - 1, i)] for i in range(width))


def test_what_leads_nowhere_is_not_visited():
    visited = []
    operation = mt.Operation(lambda x: (x, ()), lambda saved, d: visited.append(1) or (d,), name="constant")
    x = leaf([1.0])
    (operation(mt.Tensor([2.0])) * x).backward([1.0])
    assert not visited


def test_a_tensor_used_many_times():
    x = leaf(np.ones(3))
    y = x * 2

    def use():
        total = y
        for _ in range(5_000):
            total = total + y
        total.backward([1.0, 2.0, 3.0])

    assert seconds(use) < 5
    assert x.grad.tolist() == [2 * 5001, 4 * 5001, 6 * 5001]


def test_a_number_may_be_used_many_times():
    # A sum of arrays without axes is no array in NumPy, so it cannot be added to in place.
    x = mt.Tensor(0.7, requires_grad=True)
    y = x * 2
    mt.stack([y, y, y, y]).backward(np.array([1.0, 10.0, 100.0, 1000.0]))
    assert x.grad == 2222
