"""What the paper says about costs beside Table 1 holds for what is counted, to the last operation."""

import numpy as np
import pytest
from toml_cases import cases_from_toml

from minitransformer import ops
from minitransformer.apps.measure import costs
from minitransformer.apps.measure.costs import equal_at, separable_convolution
from minitransformer.apps.measure.layers import LayerSizes
from minitransformer.autograd import Tensor

pytestmark = pytest.mark.numpy_only("counts NumPy's own operations")

EXAMPLE = LayerSizes(n=32, d=16, k=5, r=4)


def test_a_separable_convolution_is_a_convolution_whose_matrices_share_their_columns():
    rng = np.random.default_rng(0)
    x, kernel, weight = (Tensor(rng.normal(size=s), requires_grad=True) for s in ((2, 7, 3), (4, 3), (3, 5)))
    d_y = rng.normal(size=(2, 7, 5))
    found, gradients = [], []
    for whole in (False, True):
        y = (
            ops.convolution(x, kernel.reshape(4, 3, 1) * weight, causal=True)
            if whole
            else separable_convolution(x, kernel, weight)
        )
        y.backward(d_y)
        found.append(y.data)
        gradients.append([t.grad for t in (x, kernel, weight)])
        for t in (x, kernel, weight):
            t.grad = None
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12, atol=1e-12)
    for one, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_the_error_of_a_fit_is_the_largest():
    grid = [EXAMPLE._replace(k=k) for k in (1, 2, 4)]
    found = costs._fit(lambda sizes: {"operations": 32 * 16 * {1: 2, 2: 4, 4: 10}[sizes.k]}, grid, "k n d")
    shares = np.array([0.5, 0.5, 0.4])
    factor = shares.sum() / (shares**2).sum()
    assert found["fit"] == pytest.approx({"k n d": factor})
    assert found["error"] == pytest.approx(abs(shares * factor - 1).max())


def test_a_separable_convolution_takes_knd_and_ndd():
    n, d, k, _ = EXAMPLE
    assert costs._count_separable(EXAMPLE) == {
        "products": 2 * n * d * d,
        "other": 2 * k * n * d,
        "operations": 2 * k * n * d + 2 * n * d * d,
    }


def test_with_k_as_large_as_n_it_has_the_terms_of_self_attention_and_a_feed_forward_network(monkeypatch):
    monkeypatch.setattr(costs, "GRID", {"n": (32, 64), "d": (32, 64), "k": (3, 9)})
    sums = costs._separable(EXAMPLE)
    assert sums["separable convolution"]["fit"] == pytest.approx({"k n d": 2, "n d²": 2})
    assert sums["separable convolution, k = n"]["fit"] == pytest.approx({"n² d": 2, "n d²": 2})
    # two products of all pairs of positions, and two matrices d x 4 d; the rest are softmax, biases and ReLU
    assert sums["self-attention and feed-forward"]["fit"] == pytest.approx({"n² d": 4, "n d²": 16}, rel=0.1)
    assert max(found["error"] for found in sums.values()) < 0.03


def test_a_convolution_takes_half_of_k_times_a_recurrence_which_has_two_matrices():
    found = costs._convolution_over_recurrence(LayerSizes(n=128, d=64, k=5, r=4))
    assert [point["k"] for point in found["points"]] == [3, 5, 9]
    assert [point["ratio"] / point["k"] for point in found["points"]] == pytest.approx([0.5] * 3, rel=0.05)
    assert found["factor"] == pytest.approx(0.5, rel=0.05)


def test_many_heads_take_as_many_products_as_one_of_full_width():
    n, d, _, _ = EXAMPLE
    found = [costs._count_heads(EXAMPLE, heads) for heads in (1, 2, 4, 8)]
    assert {one["products"] for one in found} == {4 * 2 * n * d * d + 2 * 2 * n * n * d}
    # the softmax of each head; see test_table1 for its six operations a score
    for heads, one in zip((2, 4, 8), found[1:], strict=True):
        assert one["other"] - found[0]["other"] == pytest.approx(6 * (heads - 1) * n * n, rel=0.05)


@cases_from_toml
def test_where_a_ratio_is_one(lengths, ratios, expected):
    assert [*filter(None, [equal_at(lengths, ratios)])] == pytest.approx(expected)


def test_a_turn_in_which_the_machine_is_slow_changes_no_ratio(monkeypatch):
    monkeypatch.setattr(costs, "TIMED", (8, 16, 32))
    monkeypatch.setattr(costs, "TURNS", 3)
    order = []

    def layers(sizes):
        seconds = {"self-attention": sizes.n / 16, "with projections": 3.0, "recurrent": 1.0}
        return {name: lambda name=name: order.append((sizes.n, name)) or seconds[name] for name in seconds}

    monkeypatch.setattr(costs, "_layers_to_time", layers)
    monkeypatch.setattr(costs, "time_calls", lambda call, enough: 3 * [call() * 2 ** ((len(order) - 1) // 9)])
    found = costs._attention_over_recurrence(EXAMPLE)
    points = found["points"]
    assert [point["n"] for point in points] == [8, 16, 32]
    for point in points:
        times = point["time"]["self-attention"]
        assert {*times["rounds"], times["median"], times["least"], times["most"]} == {point["n"] / 16}
        assert point["time"]["with projections"]["median"] == 3
    # n / d; the projections add 2, because the recurrence has two matrices and they are four
    assert [point["operations"]["self-attention"] for point in points] == pytest.approx([0.5, 1, 2], rel=0.15)
    assert [point["operations"]["with projections"] for point in points] == pytest.approx([2.5, 3, 4], rel=0.15)
    # the three of one length run one after another, each of them first in one of the turns
    assert [n for n, _ in order] == 3 * [8, 8, 8, 16, 16, 16, 32, 32, 32]
    assert [order[9 * turn][1] for turn in range(3)] == ["self-attention", "with projections", "recurrent"]
