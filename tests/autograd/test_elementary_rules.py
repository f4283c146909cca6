"""Every elementary rule against finite differences, with a random cotangent."""

from itertools import combinations, product

import numpy as np
import pytest
from toml_cases import toml_table

import minitransformer as mt
from minitransformer.arrays import asarray, to_numpy, xp
from minitransformer.autograd.rules import RULES, unbroadcast
from minitransformer.testing import gradcheck

# Pairs of shapes that broadcast, each way round.
PAIRS = [(tuple(a), tuple(b)) for a, b in toml_table(__file__, "PAIRS")]
PAIRS += [(b, a) for a, b in PAIRS if a != b]


def values(shape, seed, low=0.5, high=2.0, signs=True):
    """Return numbers well away from 0, of both signs or positive."""
    rng = np.random.default_rng([seed, *shape])
    return rng.uniform(low, high, shape) * (rng.choice([-1.0, 1.0], shape) if signs else 1.0)


def check(function, *inputs, **options):
    assert gradcheck(function, inputs, **options).passed


BINARY = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "maximum": mt.maximum,
    "minimum": mt.minimum,
}


@pytest.mark.parametrize(("a", "b"), PAIRS)
@pytest.mark.parametrize("name", [*BINARY, "power", "where"])
def test_two_tensors(name, a, b):
    x, y = values(a, 1), values(b, 2)
    if name == "power":
        check(lambda x, y: x**y, abs(x), y)
    elif name == "where":
        condition = np.random.default_rng(3).random(np.broadcast_shapes(a, b)) < 0.5
        check(lambda x, y: mt.where(condition, x, y), x, y)
    else:
        check(BINARY[name], x, y)


@pytest.mark.parametrize("shape", [(2, 3), (), (1,), (0, 2)])
@pytest.mark.parametrize(
    "other", [3, -2, 1.7, True, np.float64(1.7), np.float32(0.3), np.int64(2), np.array(1.7)], ids=repr
)
@pytest.mark.parametrize("name", BINARY)
def test_a_number_on_either_side(name, other, shape):
    x = values(shape, 4, low=0.6, high=0.9)
    check(lambda x: BINARY[name](x, other), x)
    check(lambda x: BINARY[name](other, x), x)


@pytest.mark.parametrize(("a", "b"), [p for p in PAIRS if p[1] != ()])
@pytest.mark.parametrize("name", BINARY)
def test_an_array_on_either_side(name, a, b):
    x, array = values(a, 5), values(b, 6)
    expected = getattr(np, name)
    assert isinstance(BINARY[name](array, mt.Tensor(x)), mt.Tensor)
    assert np.array_equal(BINARY[name](array, mt.Tensor(x)).numpy(), expected(array, x))
    assert np.array_equal(BINARY[name](mt.Tensor(x), array).numpy(), expected(x, array))
    check(lambda x: BINARY[name](x, array), x)
    check(lambda x: BINARY[name](array, x), x)


@pytest.mark.parametrize("left", [[1.5, -2.0, 0.5], (1.5, -2.0, 0.5)])
def test_lists_on_the_left(left):
    x = values((2, 3), 7)
    for operation in (lambda x: left + x, lambda x: left - x, lambda x: left * x, lambda x: left / x):
        assert operation(mt.Tensor(x)).shape == (2, 3)
        check(operation, x)


@pytest.mark.parametrize(
    "exponent", [0, 1, 2, 3, -1, -2, 0.5, -1.5, 2.0, np.float64(2.5), np.float32(0.5), np.array(3.0)]
)
def test_power_of_a_number(exponent):
    check(lambda x: x**exponent, values((2, 3), 8, signs=False))
    if float(exponent).is_integer():
        check(lambda x: x**exponent, values((2, 3), 9))


@pytest.mark.parametrize("base", [2, 0.3, np.float64(1.5), np.array([[0.5], [2.5]]), [1.5, 2.0, 3.0]], ids=repr)
def test_power_with_the_tensor_as_exponent(base):
    check(lambda p: base**p, values((2, 3), 10))


def test_power_at_zero():
    def gradients(x, p):
        x, p = mt.Tensor(np.array(x), requires_grad=True), mt.Tensor(np.array(p), requires_grad=True)
        (x**p).backward(np.array([3.0, 5.0, 7.0]))
        return x.grad.tolist(), p.grad.tolist()

    # d(x^p)/dx = p x^(p - 1), and 0 for p = 0; d(x^p)/dp = x^p log x, and 0 at x = 0
    assert gradients([0.0, 0.0, 0.0], [0.0, 1.0, 2.0]) == ([0, 5, 0], [0, 0, 0])
    x = mt.Tensor(np.zeros(3), requires_grad=True)
    (x**0).backward([1.0, 2.0, 3.0])
    assert x.grad.tolist() == [0, 0, 0]


def test_power_of_negative_numbers_with_whole_exponents():
    x, exponents = values((4,), 11), np.array([0.0, 1.0, 2.0, -3.0])
    check(lambda x: x**exponents, -abs(x))
    check(lambda x: x ** exponents.astype(int)[:3], -abs(x[:3]))


UNARY = [name for name, rule in RULES.items() if rule.doc]
EXPECTED = {"sigmoid": lambda x: 1 / (1 + np.exp(-x)), "relu": lambda x: x * (x > 0)}  # the others NumPy has by name
POSITIVE = {"log", "sqrt"}  # defined for positive numbers only


def expected(name, x):
    return (EXPECTED.get(name) or getattr(np, name))(x)


SHAPES = [(), (1,), (5,), (2, 3), (2, 1, 3), (0,), (2, 0)]


@pytest.mark.asks("its values in EXPECTED of tests/autograd/test_elementary_rules.py")
@pytest.mark.parametrize("name", UNARY)
def test_values_of_functions_of_one_entry(name):
    signs = name not in POSITIVE
    for x in [*(values(shape, 12, signs=signs) for shape in SHAPES), 1.5, *([-0.3] if signs else [])]:
        for function in (getattr(mt.Tensor, name), getattr(mt, name)):
            # two ways to one value, each with a few roundings
            found = function(mt.Tensor(x)).numpy()
            np.testing.assert_allclose(found, expected(name, x), rtol=8 * np.finfo(float).eps)
        assert np.array_equal(getattr(mt, name)(x).numpy(), found)  # an array or a number will do


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", UNARY)
def test_gradients_of_functions_of_one_entry(name, shape):
    for function in (getattr(mt.Tensor, name), getattr(mt, name)):
        check(function, values(shape, 12, signs=name not in POSITIVE))


def test_functions_of_one_entry_follow_from_the_table():
    assert {"exp", "log", "sqrt", "tanh", "sigmoid", "relu"} <= {*UNARY}
    for name in UNARY:
        function = getattr(mt, name)
        assert function is getattr(mt.Tensor, name) is getattr(mt.autograd, name)
        assert name in mt.__all__
        assert name in mt.autograd.__all__
        assert function.__name__ == name
        assert function.__qualname__ == f"Tensor.{name}"
        assert function.__doc__ == RULES[name].doc
        assert len(RULES[name].gradients) == 1


def test_negative():
    check(lambda x: -x, values((2, 3), 13))
    assert (-mt.Tensor([1.0, -2.0])).numpy().tolist() == [-1, 2]


def test_far_out_nothing_overflows():
    x = mt.Tensor([-1e4, 1e4, -np.inf, np.inf], requires_grad=True)
    with np.errstate(all="raise", under="ignore"):  # what underflows becomes 0, and should
        y = x.sigmoid() + x.tanh()
        y.backward([1.0, 1.0, 1.0, 1.0])
    assert y.numpy().tolist() == [-1, 2, -1, 2]
    assert x.grad.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(("dtype", "x"), [("f4", [-17.0, -20, 17, 30, 80]), ("f8", [-37.0, -40, 37, 40, 700])])
def test_sigmoid_keeps_its_digits_on_both_sides(dtype, x):
    """A value of 2e-9 is not 1 minus something, nor is the slope of a value that is almost 1."""
    x = mt.Tensor(np.array(x, dtype), requires_grad=True)
    y = x.sigmoid()
    y.backward(np.ones(5, dtype))
    wide = x.numpy().astype(np.longdouble)
    exact = 1 / (1 + np.exp(-wide))
    slope = np.exp(-abs(wide)) / (1 + np.exp(-abs(wide))) ** 2
    eps = np.finfo(dtype).eps
    assert y.dtype == x.grad.dtype == dtype
    np.testing.assert_allclose(y.numpy(), exact.astype(dtype), rtol=4 * eps)
    np.testing.assert_allclose(x.grad, slope.astype(dtype), rtol=8 * eps)


@pytest.mark.parametrize(("dtype", "size"), [("f4", 1e-23), ("f4", 1e20), ("f8", 1e-170), ("f8", 1e160)])
def test_a_quotient_of_small_or_large_numbers_has_a_gradient(dtype, size):
    """The square of the denominator is 0 or infinite, the gradient is not."""
    x, y = (mt.Tensor(np.array([s * size], dtype), requires_grad=True) for s in (3, 2))
    (x / y).backward(np.array([0.5], dtype))
    np.testing.assert_allclose(x.grad, [0.25 / size], rtol=4 * np.finfo(dtype).eps)
    np.testing.assert_allclose(y.grad, [-0.375 / size], rtol=4 * np.finfo(dtype).eps)


def test_functions_take_single_numbers_and_lists():
    assert mt.sum(np.array(3.0)).numpy() == 3
    assert mt.reshape(np.array(3.0), (1,)).shape == (1,)
    assert mt.exp(0.0).numpy() == 1
    assert mt.transpose([[1.0, 2.0]]).shape == (2, 1)
    assert mt.swapaxes([[1.0, 2.0]], 0, 1).shape == (2, 1)
    with pytest.raises(ValueError, match="at least one array"):
        mt.stack([])


def test_a_whole_number_in_a_tensor_widens_nothing():
    assert (mt.Tensor(np.ones(3, np.float32)) / mt.Tensor(3)).dtype == np.float32
    assert (mt.Tensor(3) * mt.Tensor(np.ones(3, np.float32))).dtype == np.float32
    assert mt.where(np.array(True), mt.Tensor(np.ones(3, np.float32)), 0.0).dtype == np.float32


@pytest.mark.parametrize("numbers", [np.array([2, 3]), np.array([[2], [3]]), [2, 3], mt.Tensor([2, 3])])
def test_whole_numbers_beside_a_tensor_widen_nothing(numbers):
    x = mt.Tensor(np.ones(2, np.float32), requires_grad=True)
    for y in (x / numbers, numbers * x, x**numbers, mt.maximum(x, numbers), mt.where([True, False], x, numbers),
              mt.minimum(numbers, x), x.clip(numbers, 9), mt.clip(x, high=numbers)):  # fmt: skip
        assert y.dtype == np.float32
    assert (mt.Tensor([2, 3]) * mt.Tensor([4, 5])).dtype.kind == "i"


@pytest.mark.parametrize("other", [None, "3", 1j, np.complex128(1), np.str_("3"), ["a", "b"], np.ones(2, complex)])
def test_what_is_no_number_is_refused(other):
    x = mt.Tensor([1.0, 2.0], requires_grad=True)
    for function in (
        lambda: x + other,
        lambda: other * x,
        lambda: mt.maximum(x, other),
        lambda: mt.where([True, False], x, other),
        lambda: mt.exp(other),
    ):
        with pytest.raises(TypeError, match="found"):
            function()


def test_a_closed_relu_lets_no_infinite_gradient_through():
    x = mt.Tensor([-1.0, 4.0], requires_grad=True)
    with np.errstate(divide="ignore"):
        x.relu().sqrt().backward(np.array([3.0, 5.0]))
    np.testing.assert_array_equal(x.grad, [0, 1.25])


@pytest.mark.parametrize("exponent", [0, np.zeros(2)])
def test_a_power_of_zero_is_flat_at_infinity_too(exponent):
    x = mt.Tensor([0.0, np.inf], requires_grad=True)
    (x**exponent).backward(np.array([3.0, 5.0]))
    np.testing.assert_array_equal(x.grad, [0, 0])


def axes_of(n):
    single = list(range(-n, n))
    several = [c for size in range(2, n + 1) for c in combinations(range(n), size)]
    mixed = [(0, -1)] if n > 1 else []
    return [None, *single, *several, *mixed, ()]


REDUCTIONS = ["sum", "mean", "max", "min", "prod", "norm", "var", "std"]


def reduced(name, x, **options):
    """Return what NumPy makes of an array."""
    return np.sqrt((x * x).sum(**options)) if name == "norm" else getattr(np, name)(x, **options)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (2, 3, 4), (2, 1, 3), (1, 1)])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, shape, keepdims):
    n = int(np.prod(shape))
    x = np.random.default_rng(14).permutation(n).reshape(shape) + 0.25  # no two are equal
    for axis in axes_of(len(shape)):
        for function in (getattr(mt.Tensor, name), getattr(mt, name)):
            check(function, x, axis=axis, keepdims=keepdims)
        result, wanted = getattr(mt.Tensor(x), name)(axis, keepdims), reduced(name, x, axis=axis, keepdims=keepdims)
        assert result.shape == wanted.shape
        np.testing.assert_allclose(result.numpy(), wanted, rtol=0 if name in ("sum", "mean", "max", "min") else 1e-14)


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 1)])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
@pytest.mark.parametrize(("name", "value"), [("sum", 0), ("prod", 1), ("norm", 0)])
def test_reductions_of_nothing(name, value, shape, axis):
    x = mt.Tensor(np.zeros(shape), requires_grad=True)
    y = getattr(x, name)(axis)
    y.backward(np.ones(y.shape))
    assert x.grad.shape == shape
    assert y.shape == np.zeros(shape).sum(axis=axis).shape
    assert (y.numpy() == value).all()


@pytest.mark.parametrize("name", ["norm", "var", "std", "prod", "min", "cumsum"])
def test_reductions_of_lists_and_whole_numbers(name):
    for x in ([[3, 4], [1, 1]], np.array([[3, 4], [1, 1]]), np.array([[3, 4], [1, 1]], np.float32)):
        found = getattr(mt, name)(x, axis=1)
        wanted = np.cumsum(x, axis=1) if name == "cumsum" else reduced(name, np.array(x), axis=1)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6)
        assert found.dtype == wanted.dtype


@pytest.mark.parametrize("x", [[2.0, np.nan, 3.0], [np.nan]])
def test_nan_shows_in_the_value(x):
    for name in REDUCTIONS:
        with np.errstate(invalid="ignore"):
            assert np.isnan(getattr(mt, name)(x).item())
    for y in (mt.minimum(x, 1.0), mt.clip(x, 0, 1), mt.abs(x), mt.cumsum(x)):
        assert np.isnan(y.numpy()).sum() == np.isnan(y.numpy()[-2:]).sum() > 0


def gradient(function, x, d):
    """Return the gradient of a function of one tensor."""
    leaf = mt.Tensor(np.array(x), requires_grad=True)
    function(leaf).backward(d)
    return to_numpy(leaf.grad)


ZEROS = [[[0, 2, 5], [0, 3, 0], [0, 0, 0]], [[1, 4, 3], [7, 0, 2], [6, 0, 0]]]


@pytest.mark.parametrize("axis", axes_of(3))
def test_zeros_in_a_product(axis):
    """With one zero along the axis, its own gradient is the product of the others; with two, all are zero."""
    x = np.array(ZEROS, dtype=float)
    check(mt.prod, x, axis=axis)
    check(mt.prod, np.where(x == 0, 0.7, x), axis=axis)


def test_products_of_small_and_large_numbers_have_a_gradient():
    """Where the product underflows or overflows, the product of the others need not."""
    with np.errstate(over="ignore", under="ignore"):
        assert gradient(mt.prod, np.array([1e-30, 1e-20], np.float32), 1.0).tolist() == pytest.approx([1e-20, 1e-30])
        assert gradient(mt.prod, [1e200, 3e200], 1.0).tolist() == [3e200, 1e200]
    assert gradient(mt.prod, [np.inf, 2.0], 1.0).tolist() == [2, np.inf]


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (2, 3, 4), (2, 1, 3), (0, 3), (3, 0)])
def test_cumsum(shape):
    x = values(shape, 31)
    for axis in [None, *range(-len(shape), len(shape))]:
        for function in (mt.Tensor.cumsum, mt.cumsum):
            check(function, x, axis=axis)
        assert np.array_equal(mt.Tensor(x).cumsum(axis).numpy(), x.cumsum(axis))


def test_cumsum_refuses_an_axis_that_is_not_there():
    with pytest.raises(ValueError, match="out of bounds") as caught:
        mt.cumsum(np.ones((2, 3)), axis=2)
    assert "(in cumsum, of shapes (2, 3))" in caught.value.__notes__


def test_abs():
    assert abs(mt.Tensor([-1.5, 0.0, 2.0])).numpy().tolist() == [1.5, 0, 2]
    check(abs, values((2, 3), 32))
    assert gradient(abs, [-4.0, 0.0, -0.0, 1.0], [3.0, 5.0, 7.0, 9.0]).tolist() == [-3, 0, 0, 9]
    with np.errstate(divide="ignore"):  # 0, not NaN, where an infinite gradient arrives
        assert gradient(lambda x: mt.sqrt(abs(x)), [0.0, -4.0], [3.0, 5.0]).tolist() == [0, -1.25]


def test_the_gradient_of_a_norm_at_zero_is_zero():
    x, d = np.array([[0.0, 0, 0], [3, 0, -4], [0, -2, 0]]), np.array([7.0, 5.0, -3.0])
    assert gradient(lambda x: x.norm(axis=1), x, d).tolist() == [[0, 0, 0], [3, 0, -4], [0, 3, 0]]
    assert not gradient(lambda x: x.std(axis=1), np.array([[2.0, 2, 2]]), [5.0]).any()
    np.testing.assert_allclose(gradient(mt.std, [0.1] * 3, 5.0), 0, atol=1e-15)  # whose mean is rounded
    for function in (mt.norm, mt.std, mt.abs):
        check(function, np.zeros(4))
        check(lambda x, function=function: function(x * x), np.zeros((2, 3)))


@pytest.mark.parametrize(("dtype", "size"), [("f2", 3e2), ("f4", 1e-30), ("f4", 1e30), ("f8", 1e-200), ("f8", 1e200)])
def test_norms_of_small_or_large_numbers(dtype, size):
    """The squares are 0 or infinite, the norm is not."""
    x = np.array([3 * size, -4 * size], dtype)
    for function, factor, slope in ((mt.norm, 5, [0.6, -0.8]), (mt.std, 3.5, [0.5, -0.5])):
        y = function(x)
        assert y.dtype == dtype
        np.testing.assert_allclose(y.item(), factor * size, rtol=8 * np.finfo(dtype).eps)
        np.testing.assert_allclose(gradient(function, x, 1.0), slope, rtol=8 * np.finfo(dtype).eps)
    assert mt.norm([np.inf, 1.0]).item() == np.inf


def test_variance_far_from_zero():
    x = np.array([1.0, 2.0, 4.0]) + 1e8
    np.testing.assert_allclose(mt.var(x).item(), 14 / 9, rtol=1e-7)
    np.testing.assert_allclose(gradient(mt.var, x, 3.0), 2 * (np.array([1, 2, 4]) - 7 / 3), rtol=1e-7)


def test_clip():
    x, low, high = values((2, 3), 33), np.array([-1.5, -0.6, 0.2]), values((2, 1), 34, signs=False)
    check(mt.clip, x, low, high)
    check(lambda x: x.clip(-1, 1.2), x)
    check(lambda x: x.clip(high=low), x)
    check(lambda low: mt.clip(x, low), low)
    assert np.array_equal(mt.clip(x, low, high).numpy(), np.clip(x, low, high))
    assert np.array_equal(mt.Tensor(x).clip(0, None).numpy(), np.clip(x, 0, None))
    assert gradient(lambda x: x.clip(0, 2), [-1.0, 0.0, 1.0, 2.0, 3.0], [2.0] * 5).tolist() == [0, 1, 2, 1, 0]
    with pytest.raises(ValueError, match="low, high or both"):
        mt.clip(x)


@pytest.mark.parametrize("sign", [1, -1])
def test_ties_share_the_gradient_of_max_and_min(sign):
    x = sign * np.array([[1.0, 3.0, 3.0, 2.0], [5.0, 5.0, 5.0, 5.0], [4.0, 0.0, 1.0, 4.0]])
    d = np.array([6.0, -8.0, 10.0])

    def gradient(d, **options):
        leaf = mt.Tensor(x, requires_grad=True)
        (leaf.max if sign == 1 else leaf.min)(**options).backward(d)
        return leaf.grad

    by_row = [[0, 3, 3, 0], [-2, -2, -2, -2], [5, 0, 0, 5]]
    assert gradient(d, axis=1).tolist() == by_row
    assert gradient(d[:, None], axis=-1, keepdims=True).tolist() == by_row
    assert gradient(8.0).tolist() == [[0, 0, 0, 0], [2, 2, 2, 2], [0, 0, 0, 0]]
    assert gradient(8.0, axis=(0, 1)).tolist() == gradient(8.0).tolist()
    check(mt.max if sign == 1 else mt.min, x, axis=1)  # between the slopes on both sides


def test_ties_share_the_gradient_of_maximum_and_minimum():
    x = mt.Tensor(np.array([[1.0, 2.0], [3.0, -1.0]]), requires_grad=True)
    y = mt.Tensor(np.array([1.0, -1.0]), requires_grad=True)
    mt.maximum(x, y).backward(np.array([[2.0, 5.0], [7.0, 12.0]]))
    assert x.grad.tolist() == [[1, 5], [7, 6]]
    assert y.grad.tolist() == [1, 6]
    x.grad = y.grad = None
    mt.minimum(x, y).backward(np.array([[2.0, 5.0], [7.0, 12.0]]))
    assert x.grad.tolist() == [[1, 0], [0, 6]]
    assert y.grad.tolist() == [8, 11]
    z = mt.Tensor([2.0], requires_grad=True)
    mt.maximum(z, z).backward([3.0])
    assert z.grad.tolist() == [3]
    check(lambda z: mt.maximum(z, z) * mt.minimum(z, z), values((2, 3), 15))


def test_relu_and_maximum_at_zero():
    x = mt.Tensor([0.0, -0.0, 1.0], requires_grad=True)
    x.relu().backward([3.0, 5.0, 7.0])
    assert x.grad.tolist() == [0, 0, 7]
    x.grad = None
    mt.maximum(x, 0).backward([3.0, 5.0, 7.0])
    assert x.grad.tolist() == [1.5, 2.5, 7]


@pytest.mark.parametrize(
    "condition", [True, False, np.array(True), [True, False, True], mt.Tensor([[True], [False]])], ids=repr
)
def test_where_takes_any_condition(condition):
    x, y = values((2, 3), 16), values((3,), 17)
    check(lambda x, y: mt.where(condition, x, y), x, y)
    check(lambda x: mt.where(condition, x, 0.0), x)
    check(lambda x: mt.where(condition, -1, x), x)
    data = condition.numpy() if isinstance(condition, mt.Tensor) else condition
    assert np.array_equal(mt.where(condition, x, y).numpy(), np.where(data, x, y))


@pytest.mark.parametrize("condition", [np.ones(3), [0, 1, 1], mt.Tensor([1.0, 0.0, 2.0])])
def test_where_refuses_other_conditions(condition):
    with pytest.raises(TypeError, match="where: the condition must be boolean"):
        mt.where(condition, values((3,), 1), 0.0)


def test_where_keeps_what_is_not_chosen_out_of_the_gradient():
    x = mt.Tensor([4.0, 0.0], requires_grad=True)
    mt.where(np.array([True, False]), x, 1e300 * x).backward([2.0, 3.0])
    assert x.grad.tolist() == [2, 3e300]


# Shapes


@pytest.mark.parametrize("shape", [(6, 4), (24,), (2, 3, 4), (4, 1, 6), (-1,), (2, -1), (-1, 4, 1), (1, 24)], ids=str)
def test_reshape(shape):
    x = values((2, 3, 4), 18)
    check(lambda x: x.reshape(*shape), x)
    check(lambda x: x.reshape(shape), x)
    check(lambda x: mt.reshape(x, shape), x)
    check(lambda x: x.transpose(2, 0, 1).reshape(shape), x)  # of a view
    assert np.array_equal(mt.Tensor(x).reshape(*shape).numpy(), x.reshape(shape))


def test_reshape_to_and_from_no_axes():
    check(lambda x: x.reshape(1, 1), values((), 19))
    check(lambda x: x.reshape(()), values((1, 1), 19))
    assert mt.Tensor([[2.0]]).reshape().shape == ()


@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1), (-1, 0, 1), (1, -1, -3), (0, -1, -2)])
def test_transpose(axes):
    x = values((2, 3, 4), 20)
    check(lambda x: x.transpose(*axes), x)
    check(lambda x: x.transpose(axes), x)
    check(lambda x: mt.transpose(x, list(axes)), x)
    assert np.array_equal(mt.Tensor(x).transpose(*axes).numpy(), x.transpose(axes))
    assert np.array_equal(mt.transpose(x, axes).numpy(), x.transpose(axes))


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 4)])
def test_transpose_of_all_axes(shape):
    x = values(shape, 21)
    for function in (lambda x: x.transpose(), lambda x: x.T, mt.transpose):
        check(function, x)
        assert np.array_equal(function(mt.Tensor(x)).numpy(), x.T)


@pytest.mark.parametrize("axes", [(3, 0, 1), (0, 0, 1), (0, 1), (-4, 0, 1), (0, 1, 2, 3)])
def test_transpose_refuses_axes_that_are_not_there(axes):
    with pytest.raises(ValueError, match=r"ax[ei]s") as caught:
        mt.Tensor(values((2, 3, 4), 20)).transpose(*axes)
    assert "(in transpose, of shapes (2, 3, 4))" in caught.value.__notes__


@pytest.mark.parametrize(("first", "second"), list(product((0, 1, 2, -1, -2, -3), repeat=2)))
def test_swapaxes(first, second):
    x = values((2, 3, 4), 22)
    check(lambda x: x.swapaxes(first, second), x)
    check(lambda x: mt.swapaxes(x, first, second), x)
    assert np.array_equal(mt.Tensor(x).swapaxes(first, second).numpy(), x.swapaxes(first, second))


def test_swapaxes_refuses_axes_that_are_not_there():
    with pytest.raises(ValueError, match="out of bounds") as caught:
        mt.Tensor(np.ones((2, 3))).swapaxes(0, 2)
    assert "(in swapaxes, of shapes (2, 3))" in caught.value.__notes__


INDICES = {
    "one number": 2,
    "a negative number": -1,
    "two numbers": (1, -2),
    "all numbers": (1, 2, 2),
    "a slice": slice(1, 3),
    "steps": (slice(None), slice(None, None, -2)),
    "an empty slice": slice(2, 2),
    "Ellipsis": (..., 1),
    "Ellipsis alone": ...,
    "None": None,
    "None in the middle": (slice(None), None, 2),
    "numbers, slices, None and Ellipsis": (1, None, ..., slice(0, 2)),
    "nothing": (),
    "an array": np.array([3, 0, 2]),
    "repeats": np.array([1, 1, 3, 1]),
    "negative and repeated": np.array([-1, 3, 0]),
    "a list": [0, 0, 2],
    "a matrix of numbers": np.array([[0, 1], [1, 0], [3, 3]]),
    "two arrays": (np.array([0, 2, 0]), np.array([1, 1, 1])),
    "two arrays that broadcast": (np.array([[0], [2], [0]]), np.array([1, 1, 4])),
    "arrays around a slice": (np.array([0, 1, 0]), slice(1, 3), np.array([2, 2, 2])),
    "an array after a slice": (slice(None), np.array([4, 4, 0])),
    "an array after Ellipsis": (..., np.array([2, 2, 1])),
    "an array and None": (np.array([2, 2]), None),
    "an empty array": np.zeros(0, dtype=int),
    "a NumPy number": np.int64(2),
    "a mask of all axes": np.random.default_rng(1).random((4, 5, 3)) < 0.4,
    "a mask of one axis": np.array([True, False, False, True]),
    "a mask in the second place": (slice(1, 3), np.array([True, False, True, True, False])),
    "a mask of nothing": np.zeros(4, dtype=bool),
    "a mask and an array": (np.array([True, False, False, True]), np.array([2, 2])),
    "True": True,
}


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES.keys())
def test_index(index):
    x = values((4, 5, 3), 23)
    check(lambda x: x[index], x)
    result = mt.Tensor(x)[index].numpy()
    assert result.shape == x[index].shape
    assert np.array_equal(result, x[index])


def test_index_with_tensors():
    x = values((4, 3), 24)
    check(lambda x: x[mt.Tensor(np.array([3, 0, 3]))], x)
    check(lambda x: x[mt.Tensor(np.array([1, 1])), mt.Tensor(np.array([2, 2]))], x)
    assert np.array_equal(mt.Tensor(x)[mt.Tensor([2, 1])].numpy(), x[[2, 1]])


@pytest.mark.parametrize("index", [4, (0, 3), np.array([0, 4]), np.ones(3, dtype=bool), (0, 0, 0), 1.5, "x"])
def test_index_refuses_what_is_not_there(index):
    with pytest.raises(IndexError) as caught:
        mt.Tensor(np.ones((4, 3)))[index]
    assert any("in index, of shapes (4, 3)" in note for note in caught.value.__notes__)


def test_iteration_and_unpacking():
    x = mt.Tensor(values((3, 2), 25), requires_grad=True)
    a, b, c = x
    assert len(x) == 3
    (a * 2 + b * c).backward([5.0, 7.0])
    expected = np.stack([2 * np.array([5.0, 7.0]), x.numpy()[2] * [5, 7], x.numpy()[1] * [5, 7]])
    assert np.array_equal(to_numpy(x.grad), expected)
    with pytest.raises(TypeError):
        len(mt.Tensor(1.0))


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_concatenate(axis):
    shapes = [[2, 3, 4] for _ in range(4)]
    for shape, length in zip(shapes, (3, 1, 0, 2), strict=True):
        shape[axis] = length
    parts = [values(tuple(shape), i) for i, shape in enumerate(shapes)]
    check(lambda *parts: mt.concatenate(parts, axis=axis), *parts)
    assert np.array_equal(mt.concatenate(parts, axis=axis).numpy(), np.concatenate(parts, axis=axis))
    constant = parts[1]
    check(lambda x, y: mt.concatenate((x, constant, y), axis), parts[0], parts[3])
    check(
        lambda x: mt.concatenate([x, x, x[:1]], axis=axis) if axis in (0, -3) else mt.concatenate([x, x], axis),
        parts[0],
    )


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_stack(axis):
    parts = [values((2, 3), i) for i in range(4)]
    check(lambda *parts: mt.stack(parts, axis=axis), *parts)
    check(lambda x: mt.stack([x, parts[0], x], axis=axis), parts[1])
    assert np.array_equal(mt.stack(parts, axis=axis).numpy(), np.stack(parts, axis=axis))


def test_stack_of_numbers():
    check(lambda x, y: mt.stack([x, y, 1.5]), values((), 1), values((), 2))
    assert mt.stack([mt.Tensor(1.0), mt.Tensor(2.0)], axis=-1).shape == (2,)


def test_concatenate_and_stack_refuse_what_does_not_fit():
    x, y = mt.Tensor(np.ones((2, 3))), mt.Tensor(np.ones((3, 3)))
    with pytest.raises(ValueError, match="must match exactly"):
        mt.concatenate([x, y], axis=1)
    with pytest.raises(ValueError, match="must match exactly"):
        mt.stack([x, y])
    for axis in (3, -4):
        with pytest.raises(ValueError, match=f"stack: axis {axis} is out of range; number of axes of the result: 3"):
            mt.stack([x, x], axis=axis)


# Matrix products

PRODUCTS = [(tuple(a), tuple(b)) for a, b in toml_table(__file__, "PRODUCTS")]


@pytest.mark.parametrize(("a", "b"), PRODUCTS)
def test_matmul(a, b):
    x, y = values(a, 26), values(b, 27)
    for function in (lambda x, y: x @ y, mt.matmul):
        check(function, x, y)
    check(lambda y: x @ y, y)  # an array on the left
    check(lambda x: x @ y, x)
    assert (mt.Tensor(x) @ mt.Tensor(y)).shape == (x @ y).shape
    np.testing.assert_allclose((x @ mt.Tensor(y)).numpy(), x @ y, rtol=1e-14)


def test_matmul_of_transposed_views():
    x, y = values((3, 2), 28), values((4, 3), 29)
    check(lambda x, y: x.T @ y.T, x, y)
    check(lambda x: x @ x.T, x)


@pytest.mark.parametrize(
    ("a", "b"), [((2, 3), (2, 3)), ((3,), (2,)), ((2, 3), (4,)), ((), (3,)), ((3, 3), ()), ((5, 2, 3), (2, 3))]
)
def test_matmul_names_shapes_that_do_not_match(a, b):
    with pytest.raises(ValueError, match=r"matmul: shapes .* do not match") as caught:
        mt.Tensor(np.ones(a)) @ np.ones(b)
    assert f"{a} and {b}" in str(caught.value)


def test_matmul_names_batches_that_do_not_match():
    with pytest.raises(ValueError, match="broadcast") as caught:
        mt.Tensor(np.ones((5, 2, 3))) @ np.ones((4, 3, 2))
    assert "(in matmul, of shapes (5, 2, 3) and (4, 3, 2))" in caught.value.__notes__


@pytest.mark.parametrize("name", [*BINARY, "power"])
def test_shapes_that_do_not_broadcast_are_named(name):
    operation = BINARY.get(name) or (lambda x, y: x**y)
    with pytest.raises(ValueError, match="broadcast") as caught:
        operation(mt.Tensor(np.ones((2, 3))), mt.Tensor(np.ones(4)))
    assert f"(in {name}, of shapes (2, 3) and (4,))" in caught.value.__notes__


# The table itself


@pytest.mark.parametrize(
    ("d", "shape"),
    [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 3), ()), ((2, 3), (1,)), ((2, 3), (2, 1)), ((4, 2, 3), (1, 3)),
     ((1, 3), (3,)), ((0, 3), (1, 3)), ((0, 3), (3,)), ((0, 3), ()), ((4, 0), (1, 1))],
)  # fmt: skip
def test_unbroadcast_is_the_adjoint_of_broadcasting(d, shape):
    rng = np.random.default_rng(30)
    gradient, x = rng.standard_normal(d), rng.standard_normal(shape)
    result = unbroadcast(gradient, shape)
    assert result.shape == shape
    # <broadcast(x), d> = <x, unbroadcast(d)>, for every x
    np.testing.assert_allclose((np.broadcast_to(x, d) * gradient).sum(), (x * result).sum(), rtol=0, atol=1e-14)


def test_every_rule_is_tested_here():
    assert RULES.keys() == (
        {*BINARY, *UNARY}
        | {"power", "where", "negative", "matmul", "reshape", "transpose", "swapaxes", "index", "cumsum"}
        | ({*REDUCTIONS} - {"var", "std"})
    )


def test_every_public_function_is_tested_here():
    functions = {name for name in mt.__all__ if callable(getattr(mt, name)) and not isinstance(getattr(mt, name), type)}
    assert functions - {"backend", "is_recording", "load", "trace", "use"} == (
        {*UNARY, *REDUCTIONS} | {"concatenate", "stack", "where", "maximum", "minimum", "clip", "matmul"}
        | {"reshape", "transpose", "swapaxes", "cumsum"}
    )  # fmt: skip


SINGLE = np.array([[1.0, 2.0, 2.0], [0.5, 3.0, 0.0]], dtype=np.float32)
IN_FLOAT32 = {
    "power": [(SINGLE, 3), (SINGLE, 0), (SINGLE, 0.5), (SINGLE + 1, SINGLE)],
    "matmul": [(SINGLE, SINGLE.T)],
    "where": [(SINGLE > 1, SINGLE, SINGLE + 1)],
    "sum": [(SINGLE, {"axis": 0, "keepdims": False})],
    "mean": [(SINGLE, {"axis": 1, "keepdims": True})],
    "max": [(SINGLE, {"axis": 1, "keepdims": False})],
    "min": [(SINGLE, {"axis": 1, "keepdims": False})],
    "prod": [(SINGLE, {"axis": None, "keepdims": False}), (SINGLE, {"axis": 0, "keepdims": True})],
    "norm": [(SINGLE, {"axis": 1, "keepdims": False}), (0 * SINGLE, {"axis": 0, "keepdims": True})],
    "cumsum": [(SINGLE, {"axis": 1})],
    "reshape": [(SINGLE, {"shape": (3, 2)})],
    "transpose": [(SINGLE, {"axes": (1, 0)})],
    "swapaxes": [(SINGLE, {"axes": (0, -1)})],
    "index": [(SINGLE, {"index": (0,)}), (SINGLE, {"index": (np.array([0, 0]),)})],
    "log": [(SINGLE + 1,)],
    "divide": [(SINGLE, SINGLE + 1)],
}


@pytest.mark.parametrize("name", RULES)
def test_each_rule_stays_in_float32(name):
    """The core casts gradients to the type of their leaf; a rule that needs it would waste time and memory."""
    rule = RULES[name]
    pairs = [(SINGLE,) if len(rule.gradients) == 1 else (SINGLE, SINGLE[::-1])]
    for case in IN_FLOAT32.get(name, pairs):
        arrays, options = (case[:-1], case[-1]) if isinstance(case[-1], dict) else (case, {})
        arrays = [asarray(x) if isinstance(x, np.ndarray) else x for x in arrays]
        value, saved = rule.forward(*arrays, **options)
        assert value.dtype == np.float32
        for x, gradient in zip(arrays, rule.gradients, strict=True):
            if gradient is not None and isinstance(x, xp.ndarray):
                with np.errstate(divide="ignore"):
                    assert gradient(xp.ones_like(value), *saved).dtype == np.float32


def test_matmul_takes_lists():
    x = mt.Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    np.testing.assert_array_equal(mt.matmul([[1.0, 10.0]], x).numpy(), [[31, 42]])
    np.testing.assert_array_equal(([[1.0, 10.0]] @ x).numpy(), [[31, 42]])
    np.testing.assert_array_equal((x @ [1.0, 10.0]).numpy(), [21, 43])
