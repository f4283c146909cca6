"""What is measured of the layers has the exponents of the paper's Table 1."""

import pytest

from minitransformer.apps.measure import table1
from minitransformer.apps.measure.layers import LAYERS, LayerSizes, count_operations

pytestmark = pytest.mark.numpy_only("counts NumPy's own operations")


@pytest.mark.parametrize("name", LAYERS)
def test_operations_grow_as_the_table_says(name):
    assert table1._operations(name)["fit"] == pytest.approx(LAYERS[name].complexity, abs=0.1)


def test_products_are_counted_to_the_last_one():
    n, d, k, r = sizes = LayerSizes(n=12, d=5, k=3, r=4)
    products = {name: count_operations(name, sizes)["products"] for name in LAYERS}
    assert products == {
        "self-attention": 2 * 2 * n * n * d,
        "recurrent": 2 * n * d * d + 2 * (n - 1) * d * d,
        "convolutional": 2 * d * d * (k * n - 1 - 2),  # nothing is read before the start
        "restricted self-attention": 2 * 2 * n * 3 * r * d,  # windows of three blocks
    }


def test_other_arithmetic_is_counted_too():
    n, d = 12, 5
    # scaled; less the largest, which is found; exp, sum and division; the empty rows' divisor
    assert count_operations("self-attention", LayerSizes(n, d, 1, 1))["other"] == pytest.approx(6 * n * n, abs=2 * n)
    # bias, recurrent part and tanh; the first step has no recurrent part
    assert count_operations("recurrent", LayerSizes(n, d, 1, 1))["other"] == 3 * n * d - d
