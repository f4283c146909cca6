"""The account books what was done, under the right name, and leaves no trace."""

import time

import numpy as np
import pytest

from minitransformer import arrays, ops
from minitransformer.apps.measure.speed.account import KINDS, Account, CountingArray, accounting
from minitransformer.apps.measure.speed.anatomy import ProcessShare, shrink
from minitransformer.apps.measure.speed.ceiling import Layout, Product, time_products
from minitransformer.apps.measure.speed.workloads import Workload
from minitransformer.arrays import xp
from minitransformer.autograd import Tensor

pytestmark = pytest.mark.numpy_only("accounts for NumPy's own operations")

TINY = Workload().changed(d_model=12, n_heads=3, n_layers=2, d_ff=20, vocabulary=17, batch=5, length=7)


def parameter(*shape):
    return Tensor(np.random.default_rng(0).normal(size=shape).astype("float32"), requires_grad=True)


@pytest.mark.parametrize(
    ("left", "right", "flops"),
    [((3, 4), (4, 5), 2 * 3 * 4 * 5), ((2, 6, 3, 4), (2, 6, 4, 5), 12 * 2 * 3 * 4 * 5), ((2, 3, 4), (4, 5), 2 * 120)],
)
def test_a_product_has_two_operations_for_each_pair_of_entries_that_meet(left, right, flops):
    account = Account()
    x, y = parameter(*left), parameter(*right)
    with accounting(account, [x, y]):
        np.matmul(x.data, y.data)
        x.data @ y.data
    assert account.flops == 2 * flops
    (times,) = account.products.values()
    assert times == 2
    assert set(account.by_kind()) == set(KINDS)


def test_layouts_are_told_apart():
    account = Account()
    x = parameter(4, 4)
    with accounting(account, [x]):
        x.data @ x.data
        x.data @ x.data.T
    assert len(account.products) == 2
    assert {product.right.strides for product in account.products} == {(16, 4), (4, 16)}


def test_operations_are_booked_under_their_source_file_direction_and_kind():
    account = Account()
    x, gain, bias = parameter(6, 8), parameter(8), parameter(8)
    with accounting(account, [x, gain, bias]):
        y = ops.dropout(ops.softmax(ops.layer_norm(x, gain, bias)), 0.5, np.random.default_rng(0))
        loss = ops.cross_entropy(y + x, np.arange(6))
        account.direction = "backward"
        loss.backward(release=True)
    booked = {(entry.source, entry.direction, entry.kind) for entry in account.seconds}
    for direction in ("forward", "backward"):
        assert booked >= {
            ("layer_norm", direction, "layer norm"),
            ("softmax", direction, "softmax"),
            ("dropout", direction, "dropout"),
            ("cross_entropy", direction, "cross-entropy"),
        }
    assert ("rules", "forward", "other arithmetic") in booked  # y + x
    assert not account.products
    assert all(seconds > 0 for seconds in account.seconds.values())


def test_nothing_stays_behind():
    x = parameter(3, 3)
    data, functions, draw = x.data, dict(vars(xp)), ops.dropout.written.forward.__globals__["random_bits"]

    def fail():
        with accounting(Account(), [x]):
            assert isinstance(x.data, CountingArray)
            (x * x).sum().backward()
            raise RuntimeError("halfway")

    with pytest.raises(RuntimeError, match="halfway"):
        fail()
    assert x.data is data
    assert type(x.grad) is np.ndarray
    assert vars(xp) == functions
    assert ops.dropout.written.forward.__globals__["random_bits"] is draw is arrays.random_bits
    assert CountingArray.account is None


def test_what_is_booked_of_a_step_is_no_more_than_the_step_takes():
    share, account = ProcessShare(TINY, 2), Account()
    assert len(share.batch.source) == 3
    share.step()
    start = time.perf_counter()
    share.step(account)
    assert 0 < sum(account.by_kind().values()) <= time.perf_counter() - start
    assert min(account.by_kind().values()) > 0
    assert not [entry for entry in account.seconds if entry.source == "outside"]


def test_a_booked_step_computes_the_same():
    plain, booked = ProcessShare(TINY, 1), ProcessShare(TINY, 1)
    for _ in range(2):
        plain.step()
        booked.step(Account())
    for a, b in zip(plain.parameters, booked.parameters, strict=True):
        np.testing.assert_array_equal(a.data, b.data)
        assert type(b.data) is type(b.grad) is np.ndarray


def test_every_product_of_a_step_is_found():
    account = Account()
    ProcessShare(TINY, 1).step(account)
    s, tokens = TINY.model, TINY.batch * TINY.length
    attention = tokens * 4 * s.d_model**2 + 2 * tokens * TINY.length * s.d_model  # projections, scores and outputs
    feed_forward = tokens * 2 * s.d_model * s.d_ff
    forward = 2 * (s.n_layers * (3 * attention + 2 * feed_forward) + tokens * s.d_model * TINY.vocabulary)
    assert account.flops == 3 * forward  # each product has two gradients, as large as itself


def test_the_graph_at_vanishing_sizes_is_the_same():
    whole, none = Account(), Account()
    ProcessShare(TINY, 1).step(whole)
    ProcessShare(shrink(TINY), 1).step(none)
    assert sum(whole.products.values()) == sum(none.products.values())
    small = shrink(TINY)
    assert (small.model.d_model, small.model.d_ff) == (TINY.model.n_heads, 1)
    assert (small.vocabulary, small.batch, small.length) == (2, 1, 1)


def test_the_ceiling_times_each_product(monkeypatch):
    monkeypatch.setattr("minitransformer.apps.measure.speed.ceiling.LONG_ENOUGH", 1e-4)
    turned = Layout((4, 3), (4, 16))  # a transposed view
    product = Product(turned, Layout((3, 5), (20, 4)), Layout((4, 5), (20, 4)), "float32")
    array = turned.array(np.random.default_rng(0), "float32")
    assert array.shape == (4, 3)
    assert array.strides == (4, 16)
    for threads in (1, 3):
        (seconds,) = time_products({product: 7}, threads)
        assert seconds > 0


def test_arithmetic_outside_of_products_is_counted():
    x = parameter(6, 8)
    counted = {}
    with accounting(account := Account(), [x]):
        for name, call in {
            "one for each entry": lambda: xp.exp(x.data),
            "with broadcasting": lambda: x.data + x.data[:1],
            "in place": lambda: xp.subtract(x.data, 1, out=x.data),
            "what is summed": lambda: x.data.sum(axis=0),
            "the greatest": lambda: x.data.max(axis=1),
            "row sums": lambda: np.einsum("...i->...", x.data),
            "row sums of products": lambda: np.einsum("...i,...i->...", x.data, x.data),
            "a product without rows": lambda: x.data @ x.data[0],
            "comparing": lambda: x.data == 0,
            "moving": lambda: np.concatenate([x.data, x.data]).copy(),
            "a product": lambda: x.data @ x.data.T,
            "views": lambda: x.data[1:, None].reshape(5, 8)[[None, ...][1]],
            "chosen rows": lambda: [x.data[[0, 2]], x.data[1, np.array([3])], x.data[x.data > 2]],
            "a list of arrays": lambda: np.stack([x.data, x.data]) + x.data,
            "putting in": lambda: x.data.__setitem__([0, 1], x.data[2]),
            "converting": lambda: x.data.astype("float64") * 2,
        }.items():
            before = account.arithmetic, account.calls.total()
            call()
            counted[name] = account.arithmetic - before[0], account.calls.total() - before[1]
        room = np.concatenate([x.data, x.data])
        assert np.concatenate([x.data - 1, x.data], out=room) is room
    arithmetic, calls = zip(*counted.values(), strict=True)
    assert arithmetic == (48, 48, 48, 48, 48, 48, 96, 96, 0, 0, 0, 0, 0, 96, 0, 48), counted
    assert calls == (1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 1, 0, 4, 2, 1, 2), counted
