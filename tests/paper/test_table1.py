"""What is measured of the layers has the exponents of the paper's Table 1."""

import numpy as np
import pytest

from minitransformer.paper import table1
from minitransformer.paper.paths import STEPS, Sizes
from minitransformer.paper.table1 import LAYERS, count, fit

pytestmark = pytest.mark.numpy_only("counts NumPy's own operations")


def test_a_product_of_powers_is_found():
    points = [{"n": n, "d": d, "cost": 3 * n**2 / d} for n in (2, 4, 8) for d in (3, 5)]
    assert fit(points, ["n", "d"], "cost") == pytest.approx({"n": 2, "d": -1})


@pytest.mark.parametrize("name", LAYERS)
def test_operations_grow_as_the_table_says(name):
    assert table1._operations(name)["fit"] == pytest.approx(LAYERS[name].operations, abs=0.1)


@pytest.mark.parametrize("name", LAYERS)
def test_chains_and_paths_grow_as_the_table_says(name):
    assert table1._sequential(name)["fit"] == pytest.approx({"n": LAYERS[name].sequential}, abs=0.1)
    assert table1._paths(name)["fit"] == pytest.approx(LAYERS[name].path, abs=0.1)


def test_products_are_counted_to_the_last_one():
    n, d, k, r = sizes = Sizes(n=12, d=5, k=3, r=4)
    assert count("self-attention", sizes)["products"] == 2 * 2 * n * n * d
    assert count("recurrent", sizes)["products"] == 2 * n * d * d + 2 * (n - 1) * d * d
    assert count("convolutional", sizes)["products"] == 2 * d * d * (k * n - 1 - 2)  # nothing is read before the start
    assert count("restricted self-attention", sizes)["products"] == 2 * 2 * n * 3 * r * d  # windows of three blocks


def test_other_arithmetic_is_counted_too():
    n, d = 12, 5
    # scaled; less the largest, which is found; exp, sum and division; the empty rows' divisor
    assert count("self-attention", Sizes(n, d, 1, 1))["other"] == pytest.approx(6 * n * n, abs=2 * n)
    # bias, recurrent part and tanh; the first step has no recurrent part
    assert count("recurrent", Sizes(n, d, 1, 1))["other"] == 3 * n * d - d


def test_the_layers_of_the_counts_are_those_of_the_graphs():
    assert LAYERS.keys() == STEPS.keys()


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_reach_every_input(name, monkeypatch):
    monkeypatch.setattr(table1, "FAR", Sizes(n=16, d=4, k=4, r=4))
    found = table1._gradients(name)
    norms = np.array(found["norms"])
    assert norms.shape == (16,)
    assert (norms > 0).all()
    if name == "recurrent":  # the way back is one factor for each step
        assert norms[0] > 10 * norms[15]
