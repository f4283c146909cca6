"""What users of gradient checkers reported: each test fails without what it is about."""

import pickle

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.testing import CheckError, check, examine

X = np.random.default_rng(0).normal(size=(2, 3))


def scaled(x, *, s=2.0, unused=None):
    return s * x


@pytest.mark.parametrize(
    "backward",
    [
        lambda x, d, *, s=2.0: s * d,
        lambda x, d, s=2.0: s * d,
        lambda x, d, **options: options["s"] * d,
        lambda x, d: 3 * d,
    ],
    ids=["by name", "by place", "all", "none"],
)
def test_the_backward_pass_gets_the_options_that_it_takes(backward):
    assert check(scaled, backward=backward, inputs=[X], options={"s": 3.0, "unused": 1}).verdict == "right"
    assert examine(scaled, backward=lambda x, d, s=2.0: d * (s - 1), inputs=[X], options={"s": 3.0}).verdict == "wrong"


def test_an_option_never_takes_the_place_of_an_argument():
    def function(x, *, d=3.0):
        return x * d

    assert check(function, backward=lambda x, d: 3 * d, inputs=[X], options={"d": 3.0}).verdict == "right"
    assert check(function, backward=lambda x, d, **_: 3 * d, inputs=[X], options={"d": 3.0}).verdict == "right"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d: np.where(abs(d) < 0.49, 0, d),
        lambda d: np.where(abs(d) < 1e-3, 0, d),
        lambda d: np.clip(d, -100, 100),
        lambda d: d + abs(d) / 2,
        lambda d: np.where(d == 0, 0, d * abs(d / np.roll(d, 1)) ** 0.5),
    ],
    ids=["small", "tiny", "large", "absolute values", "of degree 1, not additive"],
)
@pytest.mark.parametrize("seed", range(5))
def test_a_backward_pass_that_is_not_linear_is_wrong(spoil, seed):
    def backward(x, d):
        return np.cos(x) * spoil(d)

    assert examine(np.sin, backward=backward, inputs=[X], seed=seed).verdict == "wrong"
    operation = mt.Operation(lambda x: (np.sin(x), x), lambda x, d: (backward(x, d),))
    with pytest.raises(AssertionError):
        mt.testing.gradcheck(operation, [X], seed=seed)


def solve(a):
    """Return x = cos(a x), up to 1e-9."""
    x = np.full_like(a, 0.7)
    for _ in range(1000):  # beyond a = 1.3, which a moved input may be, it never stops by itself
        if abs(np.cos(a * x) - x).max() <= 1e-9:
            break
        x = np.cos(a * x)
    return x


def d_solve(a, d):
    x = solve(a)
    for _ in range(200):
        x = np.cos(a * x)
    return -d * x * np.sin(a * x) / (1 + a * np.sin(a * x))


def test_a_solver_that_stops_at_a_tolerance():
    draws = [np.random.default_rng(seed).uniform(0.3, 1.2, 3) for seed in range(10)]
    wrong = [report for a in draws if (report := examine(solve, backward=d_solve, inputs=[a])).verdict == "wrong"]
    assert wrong
    assert all("tolerance=1e-0" in report.cause for report in wrong)
    assert all(check(solve, backward=d_solve, inputs=[a], tolerance=1e-5).verdict == "right" for a in draws)
    slightly = [examine(solve, backward=lambda a, d: 1.001 * d_solve(a, d), inputs=[a], tolerance=1e-5) for a in draws]
    assert {report.verdict for report in slightly} == {"wrong"}


@pytest.mark.parametrize("tolerance", [0, -1e-3, 1.0, np.nan])
def test_a_tolerance_is_above_0_and_below_1(tolerance):
    with pytest.raises(ValueError, match="tolerance"):
        check(np.sin, backward=lambda x, d: np.cos(x) * d, inputs=[X], tolerance=tolerance)


def test_the_power_in_float32_counts_what_rounding_is_allowed():
    def backward(x, d):
        return (np.cos(x) * d * (1.0003 if x.dtype == np.float32 else 1)).astype(x.dtype)

    report = examine(np.sin, backward=backward, inputs=[X.astype(np.float32)])
    assert report.verdict == "wrong" or min(report.power.one, report.power.together) > 3e-4
    assert examine(np.sin, backward=backward, inputs=[X.astype(np.float32)], detects=1e-5).verdict != "right"


def test_the_power_of_a_gradient_without_an_imaginary_part_is_finite():
    report = check(lambda z: 2 * z.real, backward=lambda z, d: 2 * d + 0j, inputs=[X + 1j])
    assert report.power.together < 1e-6


def test_a_function_that_refuses_long_steps_only_has_a_verdict_that_can_be_printed():
    def near(x):
        if np.abs(x - 1).max() > 0.45:
            raise ValueError("too far")
        return x * x

    with pytest.raises(CheckError, match=r"1\.5 times what it should be"):
        check(near, backward=lambda x, d: 3 * x * d, inputs=[np.ones(2)])


def simplex(p):
    if abs(p.sum() - 1) > 1e-12:
        raise ValueError("the weights do not sum to 1")
    return p**2


def test_an_error_at_inputs_that_have_moved_is_a_verdict_with_advice():
    report = examine(simplex, backward=lambda p, d: 2 * p * d, inputs=[np.array([0.25, 0.75])])
    assert report.verdict == "undecided"
    assert "the weights do not sum to 1" in report.cause
    operation = mt.Operation(lambda p: (simplex(p), p), lambda p, d: (2 * p * d,), name="simplex")
    with pytest.raises(ValueError, match=r"gradcheck of simplex.*the weights do not sum to 1"):
        mt.testing.gradcheck(operation, [np.array([0.25, 0.75])])


def test_moved_arrays_keep_their_order_in_memory():
    def backward(x, d):
        return 2 * x * d.reshape(x.shape, order="F")

    x = np.asfortranarray(X)
    assert check(lambda x: (x**2).ravel(order="K"), backward=backward, inputs=[x]).verdict == "right"


def test_a_function_that_reads_one_triangle_is_named():
    a = np.eye(3) * 4 + np.outer([1, 2, 3], [1, 2, 3]) / 9

    def backward(a, d):
        factor = np.linalg.cholesky(a)
        inner = np.tril(factor.T @ d)
        inner[np.diag_indices(3)] /= 2
        whole = np.linalg.inv(factor).T @ inner @ np.linalg.inv(factor)
        return (whole + whole.T) / 2

    assert "lower triangle" in examine(np.linalg.cholesky, backward=backward, inputs=[a]).cause


def test_an_error_of_a_lambda_can_be_pickled():
    with pytest.raises(CheckError) as error:
        check(lambda x: 2 * x, backward=lambda x, d: d, inputs=[X])
    copied = pickle.loads(pickle.dumps(error.value))
    assert (copied.report.verdict, str(copied)) == ("wrong", str(error.value))
    assert copied.report.errors == error.value.report.errors


@pytest.mark.parametrize("small", [1e-8, 1e-10, 1e-12, 1e-13])
@pytest.mark.parametrize(
    ("function", "derivative"), [(np.log, lambda x: 1 / x), (np.sqrt, lambda x: 0.5 / np.sqrt(x))], ids=["log", "sqrt"]
)
def test_a_small_entry_is_moved_by_its_own_size(function, derivative, small):
    x = np.array([small, 0.5])
    assert check(function, backward=lambda x, d: d * derivative(x), inputs=[x]).verdict == "right"
    assert examine(function, backward=lambda x, d: d * derivative(x) * [1.01, 1], inputs=[x]).verdict == "wrong"


HUGE = np.array([1e13, 0.7])
SMALL = [  # functions whose entries differ by many powers of ten, and their derivatives
    (lambda x: np.sqrt(x * x + 1), lambda x: x / np.sqrt(x * x + 1), HUGE),
    (lambda x: x * np.tanh(x), lambda x: np.tanh(x) + x / np.cosh(np.minimum(x, 300)) ** 2, HUGE),
    *[(lambda x: x * np.log(x), lambda x: 1 + np.log(x), np.array([0.5, small])) for small in (1e-14, 1e-20, 1e-30)],
    (np.sqrt, lambda x: 1 / (2 * np.sqrt(x)), np.array([0.5, 1e-30])),
]


@pytest.mark.numpy_only("the functions are NumPy's")
@pytest.mark.parametrize(("function", "derivative", "x"), SMALL)
@pytest.mark.parametrize("factor", [1, -1, 1.001])
def test_small_entries_of_an_output_beside_large_ones(function, derivative, x, factor):
    def backward(x, d):
        return d * derivative(x) * np.array([1, factor])

    assert examine(function, backward=backward, inputs=[x]).verdict == ("right" if factor == 1 else "wrong")
    operation = mt.Operation(lambda x: (function(x), x), lambda x, d: (backward(x, d),))
    if factor == 1:
        mt.testing.gradcheck(operation, [x])
    else:
        with pytest.raises(AssertionError):
            mt.testing.gradcheck(operation, [x])


def softmax(x):
    y = np.exp(x - x.max())
    return y / y.sum()


def d_kernel(x, d):
    y = softmax(-x * x)
    return -2 * x * y * (d - (d * y).sum())


def wrapped(x):
    y = x.copy()
    for i in range(y.size):
        while y[i] > np.pi:
            y[i] -= 2 * np.pi
    return np.sin(y)


def strict_exp(x):
    with np.errstate(over="raise"):
        return np.exp(x)


@pytest.mark.parametrize(
    ("function", "backward", "x"),
    [
        (lambda x: softmax(-x * x), d_kernel, [0.1, 7, 6.5]),
        (lambda x: x / x.sum(), lambda x, d: (d - (d * x).sum() / x.sum()) / x.sum(), [1, 2, 3, 1e18]),
        (wrapped, lambda x, d: np.cos(x) * d, [1e-6, 1]),
        (strict_exp, lambda x, d: np.exp(x) * d, [-15, 1]),
        (
            lambda x: np.append(x * x, np.zeros(int(min(abs(x).max(), 1e3)))), lambda x, d: 2 * x * d[: x.size],
            [1e-4, 5.2],
        ),
    ],
    ids=["decays on both sides", "a share of a total", "a loop", "raises where it overflows", "another shape"],
)  # fmt: skip
def test_an_output_that_is_small_beside_others_may_depend_on_everything(function, backward, x):
    """Whether it does is asked of NaN: where inputs are far off, these functions mislead, or never return."""
    x = np.array(x, float)
    assert {examine(function, backward=backward, inputs=[x], seed=s).verdict for s in range(4)} <= {
        "right",
        "undecided",
    }


@pytest.mark.parametrize(
    ("function", "derivative", "x"),
    [
        (lambda x: np.log(1 + np.exp(x)), lambda x: 1 / (1 + np.exp(-x)), [-16, 1]),
        (lambda x: np.log(np.cosh(x)), np.tanh, [1e-3, 1]),
        (lambda x: 1 - np.tanh(x), lambda x: -1 / np.cosh(x) ** 2, [9, 1]),
        (lambda x: (x + 1e6) - 1e6, np.ones_like, [0.3, 0.7]),
        (lambda x: x * 1e200, lambda x: 1e200 + 0 * x, [1, 2]),
        (np.exp, np.exp, [400, 401]),
    ],
)
def test_a_wrong_entry_of_a_value_that_is_rounded_beside_larger_numbers(function, derivative, x):
    def backward(x, d):
        return d * derivative(x) * np.array([-1, 1])

    x = np.array(x, float)
    assert {examine(function, backward=backward, inputs=[x], seed=s).verdict for s in range(4)} == {"wrong"}


def entropy(z):
    p = np.exp(z - z.max())
    p /= p.sum()
    return np.asarray(-(p * np.log(p)).sum())


def d_entropy(z, d):
    p = np.exp(z - z.max())
    p /= p.sum()
    return -d * p * (np.log(p) - (p * np.log(p)).sum())


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("size", [8, 12])
def test_rounding_inside_that_only_all_inputs_together_show(size, seed):
    """A probability near 1 stands still while a small one moves, as its change is less than its rounding."""
    z = size * np.random.default_rng(seed).normal(size=6)
    assert examine(entropy, backward=d_entropy, inputs=[z]).verdict == "right"
    assert examine(entropy, backward=lambda z, d: 1.1 * d_entropy(z, d), inputs=[z]).verdict == "wrong"


@pytest.mark.parametrize(
    "function",
    [lambda x: np.sign(x) * abs(x) ** 1.1, lambda x: x / np.log(abs(x) / 4 + 1e-300)],
    ids=["a power", "a logarithm"],
)
def test_slopes_that_approach_their_limit_slowly_refute_nothing(function):
    x = np.zeros(1)
    assert examine(function, backward=lambda x, d: 0 * d, inputs=[x]).verdict == "undecided"
    assert examine(function, backward=lambda x, d: 9 * d, inputs=[x]).verdict == "wrong"


@pytest.mark.parametrize("period", [2.0**-16, 2.0**-20, 2.0**-23])
def test_a_period_that_is_a_power_of_two_is_seen(period):
    def waves(x):
        return x + 1e-2 * period * np.sin(2 * np.pi * x / period)

    report = examine(waves, backward=lambda x, d: d, inputs=[np.array([0.25, 0.5])])
    assert report.verdict == "wrong"


def test_limits_of_gradients_of_equal_eigenvalues():
    def backward(a, d):
        vectors = np.linalg.eigh((a + a.T) / 2)[1]
        return (vectors * d) @ vectors.T

    def eigenvalues(a):
        return np.linalg.eigvalsh((a + a.T) / 2)

    found = [examine(eigenvalues, backward=backward, inputs=[np.eye(3)], seed=seed).verdict for seed in range(12)]
    assert set(found) == {"kink"}
    too_large = examine(eigenvalues, backward=lambda a, d: 1.3 * backward(a, d), inputs=[np.eye(3)])
    assert too_large.verdict == "wrong"


def test_a_tie_beside_a_small_entry_is_no_mistake():
    def function(x):
        return np.log(x[0]) + np.sort(x[1:])[1]

    x = np.array([1e-13, 1.0, 1.0, 1.0])
    report = examine(function, backward=lambda x, d: d * np.array([1 / x[0], 0, 1, 0]), inputs=[x])
    assert report.verdict == "kink"


def test_a_gradient_that_is_zero_for_one_gradient_of_the_output_only_is_wrong():
    def backward(x, d):
        return np.where(abs(d) > 4, d, 0) * np.ones_like(x)

    assert examine(lambda x: 0 * x + 1, backward=backward, inputs=[X]).verdict == "wrong"


class Series:
    """What looks like an array and is none."""

    dtype = np.dtype(float)


def test_an_input_that_is_no_array_is_named_by_its_type():
    with pytest.raises(ValueError, match="Series of float64"):
        check(np.sin, backward=lambda x, d: d, inputs=[Series()])


def row_norms(x):
    return np.linalg.norm(x, axis=-1)


def absolute(x):
    return np.asarray(3 * x[0] + abs(x[1] - 2 * x[2]))


ZERO_ROW = np.array([[0.3, -1.0, 2.0], [0.0, 0.0, 0.0], [1.5, 0.2, -0.7]])
TIED = np.array([7.0, 4.0, 2.0])


def d_norms(x, d, at_zero):
    sizes = row_norms(x)[..., None]
    return np.asarray(d)[..., None] * np.where(sizes == 0, at_zero, x / np.where(sizes == 0, 1, sizes))


@pytest.mark.numpy_only("the functions are NumPy's")
@pytest.mark.parametrize(
    ("function", "backward", "x", "is_one"),
    [
        *[(row_norms, lambda x, d, g=g: d_norms(x, d, g), np.zeros(50), g < 0.14) for g in (0, 0.1, 0.2, 1)],
        *[(row_norms, lambda x, d, g=g: d_norms(x, d, g), ZERO_ROW, g < 0.57) for g in (0, 0.5, 0.7, 1)],
        *[(lambda x: np.asarray(abs(x).max()), lambda x, d, g=g: g * d, np.zeros(5), abs(g).sum() <= 1)
          for g in (np.full(5, 0.1), np.array([0.5, -0.5, 0, 0, 0]), np.full(5, 0.3), np.array([1, 1, 0, 0, 0]))],
        *[(absolute, lambda x, d, g=g: d * np.array([3, 0.5, g]), TIED, g == -1) for g in (-1.0, -0.4, -0.7, 1.0)],
    ],
)  # fmt: skip
def test_entries_that_share_a_kink_are_a_subgradient_together_or_wrong(function, backward, x, is_one):
    report = examine(function, backward=backward, inputs=[x])
    assert (report.verdict, report.subgradient) == (("kink", True) if is_one else ("wrong", False))
    operation = mt.Operation(lambda x: (function(x), x), lambda x, d: (backward(x, d),))
    if is_one:
        mt.testing.gradcheck(operation, [x])
    else:
        with pytest.raises(AssertionError):
            mt.testing.gradcheck(operation, [x])


@pytest.mark.parametrize("seed", range(6))
def test_sums_of_kinks_that_bend_up_and_down(seed):
    rng = np.random.default_rng(seed)
    signs, matrices, x = np.array([1.0, -1.0, 1.0]), rng.normal(size=(3, 2, 4)), rng.normal(size=4)
    nearby = [matrices @ p for p in rng.normal(size=(2, 4))]  # the average of two gradients nearby is a subgradient
    parts = np.mean([v / np.linalg.norm(v, axis=1, keepdims=True) for v in nearby], axis=0)
    gradient = np.einsum("k,kij,ki->j", signs, matrices, parts)

    def function(y):
        return np.asarray((signs * np.linalg.norm(matrices @ (y - x), axis=1)).sum())

    assert examine(function, backward=lambda y, d: d * gradient, inputs=[x], seed=seed).verdict == "kink"
