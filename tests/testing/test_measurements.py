"""How slopes are measured: what each shape of a function gives, with how many calls, and where verdicts change.

All functions are polynomials and pieces of straight lines at short binary fractions, so their differences are exact.
"""

import numpy as np
import pytest
from check_cases import EXACT as X
from check_cases import d_square, square

from minitransformer.testing import examine, low_precision, slopes, steps, subgradients
from minitransformer.testing.adapters import Plain
from minitransformer.testing.case import Case
from minitransformer.testing.causes import likely_cause
from minitransformer.testing.claim import Claim
from minitransformer.testing.report import InputReport
from minitransformer.testing.rules import OperationCase
from minitransformer.testing.steps import Slope, relative_error

EPS = 2.0**-52
FLOAT32, FLOAT16 = {"eps": 2.0**-23}, {"eps": 2.0**-10}


def claim_of(function, backward, *inputs):
    case = Case("check", function, list(inputs), {}, None, Plain(backward))
    return Claim(case, np.random.default_rng(0), np.ones_like(function(*inputs)))


def flips(holds, low, high):
    """Return the size between two others at which an answer changes, to a thousandth of it."""
    first = holds(low)
    assert holds(high) != first
    while high / low > 1.001:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if holds(middle) == first else (low, middle)
    return low


# --- the slope of a function of one number


def cubic(t):
    return 2 * t + t**3


def quartic(t):
    return cubic(t) + 5 * t**4


def kink(t):
    return max(2 * t, -t)


def step(t):
    return float(t >= 0)


def stairs(height):
    return lambda t: np.floor(t / height + 0.5) * height


def steep(t):
    """Rise 2^20 times as fast within 2^-40 of 0."""
    return t + max(-(2.0**-20), min(2.0**20 * t, 2.0**-20))


MEASURED = {  # the function, the claim, options; the slope or both sides, the bound on its error, the calls
    "a polynomial": (quartic, 2.0, {}, 2, 9.6e-10, 8),
    "from a long step": (quartic, 2.0, {"step": 1.0}, 2, 1.5e-8, 16),
    "another claim, known to be smooth": (quartic, 2.5, {"smooth": True}, 2, 3.75e-9, 8),
    "another claim, one step is enough": (cubic, 2.5, {"enough": 1}, 2, 9.6e-10, 8),
    "another claim, three steps are enough": (cubic, 2.5, {"enough": 3}, 2, 4.66e-10, 12),
    "a kink": (kink, 7.0, {}, (-1, 2), 1.8e-7, 66),
    "a kink, and a claim between its sides": (kink, 0.5, {}, (-1, 2), 1.8e-7, 50),
    "a kink that is said to be smooth": (lambda t: t + abs(t) / 64, 7.0, {"smooth": True}, 1, 0.125, 8),
    "a slight kink": (lambda t: t + 2.0**-18 * abs(t), 7.0, {}, 1, 3.05e-5, 90),
    "a kink nearby": (lambda t: max(t, 2.0**-30), 1.0, {}, 0, 1.9e-6, 122),
    "a kink too near to be told": (lambda t: max(t, 2.0**-42), 7.0, {}, (0, 1), 1.5e-5, 80),
    "a jump": (step, 0.0, {}, np.inf, 0, 68),
    "a jump nearby": (lambda t: t + float(t >= 2.0**-30), 1.0, {}, 1, 1.53e-4, 42),
    "a single point": (lambda t: t + 2.0**-20 * (t == 0), 2.0, {}, np.inf, 0, 84),
    "a narrow steep part": (steep, 1 + 2.0**20, {}, 1 + 2.0**20, 0.03125, 79),
    "a narrow steep part, and another claim": (steep, 1.0, {}, 1 + 2.0**20, 0.03125, 75),
    "stairs": (stairs(2.0**-30), 1.0, {}, 1, 1.8e-12, 4),
    "stairs, and another claim": (stairs(2.0**-30), 2.0, {}, 1, 3.8e-6, 126),
    "coarse stairs": (stairs(2.0**-20), 2.0, {}, 0, 7.45e-9, 112),
    "large terms": (lambda t: t, 1.0, {"size": 2.0**20}, 1, 1.9e-6, 4),
    "large terms, and another claim": (lambda t: t, 2.0, {"size": 2.0**20}, 1, 1.9e-6, 42),
    "a constant": (lambda t: 0 * t, 1.0, {}, 0, 5.46e-12, 134),
    "float32": (cubic, 2.0, FLOAT32, 2, 9.77e-4, 4),
    "float32, and another claim": (cubic, 3.0, FLOAT32, 2, 9.77e-4, 60),
    "float32, stairs": (stairs(2.0**-16), 2.0, FLOAT32, 1, 0.251, 126),
    "float32, a kink": (kink, 7.0, FLOAT32, 0.5, 12, 47),
    "float32, a jump": (step, 0.0, FLOAT32, np.inf, 0, 76),
    "float16": (cubic, 3.0, FLOAT16, 2, 8, 4),
    "turns between steps": (lambda t: t + 2.0**-30 * ((2.0**34 * t) % 1 != 0), 17.0, {}, 1, 2.3e-5, 54),
    "triangles": (lambda t: t + 2.0**-30 * abs((2.0**31 * t + 0.25) % 1 - 0.5), 3.0, {}, -1, 2.44e-3, 54),
}


@pytest.mark.parametrize("name", MEASURED)
def test_a_measured_slope_its_error_and_how_many_calls_it_takes(name):
    function, claimed, options, expected, error, most_calls = MEASURED[name]
    options, calls = {"step": 2.0**-10, "size": 1.0} | options, []
    size, first = options.pop("size"), options.pop("step")

    def loss(t):
        calls.append(abs(t))
        return float(function(t)) - start, size

    start = float(function(0.0))
    found = slopes.measure(loss, first, claimed, 1e-7, **options)
    if isinstance(expected, tuple):
        assert found.sides == pytest.approx(expected, abs=3 * error)
    else:
        assert found.sides is None
        assert found.value == pytest.approx(expected, abs=error)  # the bound holds
    assert found.error == pytest.approx(error, rel=0.05)
    assert len(calls) == most_calls  # what a user waits for: fewer are welcome


@pytest.mark.parametrize("name", ["a polynomial", "a kink", "a jump", "a narrow steep part"])
@pytest.mark.parametrize("power", [-3, 12, 60])
def test_a_slope_grows_as_its_function_does(name, power):
    """Multiplying by a power of two rounds nothing, so every digit stays."""
    function, claimed, *_ = MEASURED[name]
    found = [
        slopes.measure(lambda t, f=f: (f * function(t) - f * function(0.0), f), 2.0**-10, f * claimed, 1e-7)
        for f in (1.0, 2.0**power)
    ]
    one, other = (np.array([s.value, s.error, *(s.sides or ())]) for s in found)
    np.testing.assert_array_equal(other, 2.0**power * one)


# --- where an answer changes


def kink_of(loss, *powers, noise=0.0):
    return slopes.find_kink([steps.take_step(lambda t: (loss(t), 1.0), 2.0**-n) for n in powers], noise)


def settled(loss, taken, length, size=1.0):
    """Return whether nothing is decided about an absurd claim, where the ends of all steps hide what is between."""
    at_ends = (0, 1, 0.5, 2**-10, 2**-11)
    seen = [steps.take_step(lambda t: (taken(t), size), h) for h in (1.0, 2**-10)]
    between = lambda t: (taken(t) + loss * (abs(t) not in at_ends), size)  # noqa: E731
    return np.isinf(slopes.settle(between, seen, 1e9, 1e-8, 0.0, EPS, length).error)


def turns(loss, scatter, claimed, slope):
    return slopes._turns_below(lambda t: (loss(t), 1.0), scatter, claimed, slope, 1e-9, 1.0)


def lost(t):
    """Return whether rounding takes too much of a step next to 2^53, where numbers are 2 apart."""
    case = OperationCase("c", lambda x: x, [np.full(1, 2.0**53)], {})
    return bool(np.isinf(case.loss({0: np.ones(1)}, np.ones(1))(t)[1]))


def widened(sign, off):
    def far(x):
        return (x + x.dtype.type(1e4)) - x.dtype.type(1e4) + x.dtype.type(sign * off * (x.dtype == "f4"))

    return isinstance(low_precision.widen(claim_of(far, lambda x, d: 1 * d, np.float32([0.3, 0.1234, 0.017]))), Claim)


def tied(k):
    """Return whether (0.5, k - 0.5) counts as a subgradient of |x - y| at x = y."""
    claim = claim_of(lambda x: np.abs(x[:1] - x[1:]), lambda x, d: d * np.array([0.5, k - 0.5]), np.ones(2))
    record = InputReport("x", (2,))
    record.enter(0, Slope(0, 0.0, (-1, 1)), 1e-3, (0,))
    return subgradients.Nearby(claim, {0: record}).is_average()[0]


def linear(size):
    def bent(x):
        return x[:1] + x[1:] + size * np.minimum(np.abs(x[:1]), np.abs(x[1:]))

    record = InputReport("x", (2,), differences=np.ones(2), largest=1.0)
    claim = claim_of(bent, lambda x, d: d * np.ones(2), np.zeros(2))
    return subgradients.Nearby(claim, {0: record}).is_linear()


def off(difference):
    record = InputReport("x", (2,), largest=2.0, differences=np.array([2.0, 1.0]))
    return bool(subgradients.entries_off(np.array([2.0, 1 + difference]), record))


def caused(found, **arguments):
    return bool(likely_cause(found, X, **arguments))


def decided(large):
    def narrow(x):
        return x.astype("f4") ** 2 + np.float32(large)

    return examine(narrow, backward=lambda x, d: 2 * x * d, inputs=[np.float32(X)], d_output=np.float32(X)).verdict


FLIPS = {
    "the least step of which rounding leaves three quarters": (lost, 1.4, 1.9, 1.6),
    "noise that hides a kink": (lambda s: kink_of(kink, 8, 10, 12, 14, noise=s) is None, 1e-11, 1e-3, 4.88e-7),
    "the slightest kink": (lambda s: kink_of(lambda t: t + s * abs(t), 8, 10, 12) is None, 1e-8, 0.1, 1e-6),
    "the most that the sides of a kink bend": (
        lambda s: kink_of(lambda t: abs(t) + s * t * abs(t), 8, 10, 12) is None, 1.0, 1e3, 273.0,
    ),
    "the steepest slope beside a jump": (
        lambda s: kink_of(lambda t: (t > 0) + s * t, 8, 10, 12) is None, 1.0, 1e4, 136.5,
    ),
    "the farthest kink that counts as one at 0": (
        lambda s: slopes.measure(lambda t: (max(t, s) - s, 1.0), 2.0**-10, 7.0, 1e-7).sides is None, 2e-14, 1e-6,
        2.0**-34,
    ),
    "the same in float32": (
        lambda s: slopes.measure(lambda t: (max(16 * t, s) - s, 2.0**-8), 2.0**-5, 70.0, 1e-3, eps=2.0**-23).sides
        is None, 2e-7, 0.9, 2.0**-14,
    ),
    "scatter that rounding explains": (lambda s: settled(s, lambda t: 0.0, 1.0), 1e-13, 1e-6, 1.11e-11),
    "scatter that rounding of x explains": (
        lambda s: settled(s, lambda t: 2.0**9 * t, 64.0, 2.0**-50), 1e-13, 1e-4, 3.56e-11,
    ),
    "scatter within the spacing of x": (lambda s: turns(float, s, 1 + 2.0**10, 1.0), 1.0, 300, 12.6),
    "the least slope that shows a claim": (lambda s: turns(lambda t: s * t, 64.0, 1.0, 0.0), 0.5, 1.0, 2 / 3),
    "the largest": (lambda s: turns(lambda t: s * t, 64.0, 1.0, 0.0), 1.0, 2.0, 4 / 3),
    "a value that is another in float64": (lambda s: widened(1, s), 1e-4, 0.07, 5.88e-3),
    "a value that is less in float64": (lambda s: widened(-1, s), 1e-4, 0.07, 5.29e-3),
    "the coarsest measurement that decides": (lambda s: decided(s) == "right", 2.0**24, 2.0**30, 6.1e8),
    "how far a subgradient is from an average": (tied, 0.01, 0.5, 0.1),
    "a slope that is no sum": (linear, 1e-4, 0.1, 1.3e-3),
    "an entry that is off": (off, 1e-4, 0.1, 2e-3),
    "a factor within the tolerance": (lambda s: caused(X * (1.5 + s * (X == 4))), 1e-8, 0.1, 1.51e-5),
    "a factor within a wide tolerance": (
        lambda s: caused(X * (1.5 - s * (X == 4)), tolerance=1e-2), 1e-4, 0.3, 1.51e-2,
    ),
    "a factor near 1": (lambda s: caused(X * (1 + s)), 1e-6, 0.1, 1e-4),
    "a factor just below 1": (lambda s: caused(X * (1 - s), tolerance=1e-2), 1e-3, 0.5, 0.1),
    "a factor near a size": (
        lambda s: " = " in likely_cause(X * 7 * (1 + s), X, sizes={"n": 7}), 1e-8, 0.1, 1e-5,
    ),
    "a factor near the inverse of a root of a size": (
        lambda s: " = " in likely_cause(X * 7**-0.5 * (1 + s), X, sizes={"n": 7}, tolerance=1e-2), 1e-4, 0.3, 1e-2,
    ),
    "a term within the tolerance": (
        lambda s: caused(X - X * X * (1 + s * (X == 4)), terms={"w": X * X}), 1e-7, 0.1, 1.11e-4,
    ),
    "a term too small to be told from rounding": (
        lambda s: caused(X - s * X * X, terms={"w": X * X}), 1e-7, 0.03, 2.5e-5,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FLIPS)
def test_where_an_answer_changes(name):
    holds, low, high, expected = FLIPS[name]
    assert flips(holds, low, high) == pytest.approx(expected, rel=0.02)


# --- jumps, noise and scatter


@pytest.mark.parametrize("power", [-30, -29, -20, -10, -6, -5, -4])
def test_the_height_of_the_steps_of_a_grid(power):
    """Relative to the largest value met, 1.28; smaller steps are those of float64, larger ones are no rounding."""
    found = low_precision.find_jump(
        claim_of(lambda x: np.floor(x / 2.0**power) * 2.0**power, d_square, np.array([1.25, 0.75]))
    )
    assert found == pytest.approx(2.0**power / 1.25 if -30 < power < -4 else 0, rel=0.05)


@pytest.mark.parametrize(("factor", "expected"), [(0.001, 1 / 0.75), (0.5, 1 / 0.75), (8, 0.1), (300, 1 / 375)])
def test_the_height_of_a_step_is_relative_to_the_largest_entry_of_the_value(factor, expected):
    claim = claim_of(lambda x: np.floor(x * (factor, 1) * 1024) / 1024, d_square, np.array([1.25, 0.75]))
    assert low_precision.find_jump(claim) * 1024 == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(("steepness", "jump"), [(24, 0), (30, 0), (33, 3.54e-4), (36, 2.35e-3), (51, 3.115e-3)])
def test_a_steep_part_is_no_jump_until_it_is_as_short_as_rounding(steepness, jump):
    for before in (1, -1):
        x0 = 1.25 + before * 2.0**-17

        def ramp(x, x0=x0):
            return x + np.clip((x - x0) * 2.0**steepness, 0, 2.0**-8)

        found = low_precision.find_jump(claim_of(ramp, d_square, np.array([1.25])))
        assert found == pytest.approx(jump if before == 1 else 0, rel=0.01)  # it is searched upwards only


def test_nothing_jumps_in_no_entries_or_where_values_are_not_finite():
    assert low_precision.find_jump(claim_of(square, d_square, np.zeros((0, 2)))) == 0
    assert low_precision.find_jump(claim_of(lambda x: 1 / (x - 1.25 + (x == 1.25)), d_square, np.array([1.25]))) == 0


@pytest.mark.parametrize(
    ("power", "size", "eps", "expected"),
    [
        (0, 1.0, EPS, 4 * EPS), (0, 64.0, 2.0**-10, 4 * 2.0**-10), (3, 1.0, 2.0**-23, 4 * 2.0**-23),
        (3, 64.0, 2.0**-10, 2.0**-3), (9, 64.0, EPS, 0),
        (15, 1.0, EPS, 0), (15, 1.0, 2.0**-23, 2.0**-15), (27, 64.0, EPS, 2.0**-27), (39, 1.0, EPS, 2.0**-39),
        (60, 1.0, EPS, 2.0**-49), (60, 64.0, 2.0**-10, 2.0**-49),
    ],
)  # fmt: skip
def test_the_smallest_change_is_the_height_of_a_stair_that_rounding_explains(power, size, eps, expected):
    found = steps.smallest_change(lambda t: (stairs(2.0**-power)(t), size), 2.0**-10, eps)
    assert found == pytest.approx(expected, abs=0)


@pytest.mark.parametrize(("middle", "expected"), [(0.0, 0.8978), (1.0, 1.081), (1.5, 1.07)])
def test_scatter_is_twice_the_largest_distance_from_a_cubic_polynomial(middle, expected):
    assert steps.scatter_of(lambda t: (float(abs(t - 1) > 0.375), 1.0), 1.0, middle) == pytest.approx(
        expected, rel=1e-3
    )
    t = middle + steps.BETWEEN
    y = (np.abs(t - 1) > 0.375).astype(float)
    distance = np.abs(y - np.polyval(np.polyfit(t, y, 3), t)).max()
    assert expected == pytest.approx(2 * distance, rel=1e-3)
    assert steps.scatter_of(lambda t: (np.inf, 1.0), 1.0) == 0
    assert steps.scatter_of(lambda t: (cubic(t), 1.0), 1.0, middle) < 1e-13


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(1, 2, True), (2, 4, False), (2, 16, True), (4, 8, False), (32, 64, False)]
)
def test_two_steps_in_a_row_show_a_claimed_slope_or_the_shortest_alone(low, high, expected):
    assert turns(lambda t: t if low <= abs(t) < high else 0.0, 64.0, 1.0, 0.0) == expected


@pytest.mark.parametrize("last", range(-5, 6))
def test_a_function_that_stands_still_from_most_numbers_to_the_next_turns_nowhere(last):
    assert turns(lambda t: float(min(t, last)), 2.0, 1e15, 1.0) == (last > 0)


@pytest.mark.parametrize(("t", "change", "size"), [(0.5, 2.0**52, np.inf), (2.0, 2.0**54 + 6, 3 * (2.0**53 + 2))])
def test_a_step_of_two_inputs_is_lost_where_rounding_takes_a_quarter_of_it(t, change, size):
    case = OperationCase("c", lambda x, w: x * w, [np.ones(1), np.full(1, 2.0**53)], {})
    assert case.loss({0: np.ones(1), 1: np.ones(1)}, np.ones(1))(t) == (change, size)


@pytest.mark.parametrize("direction", [[1.0, 0], [0, 4.0], [3.0, -5]])
def test_a_lost_part_of_a_step_counts_as_rounding_of_the_loss(direction):
    """In float32, what moves is the rounded step; what that leaves out of it is a share of the change."""
    x, v, c, eps = np.float32([1, 3]), np.array(direction), np.array([2.0, 0.5]), 2.0**-23
    loss = claim_of(square, d_square, x).case.loss({0: v}, c, eps=eps)
    assert loss(0.0) == (0.0, 6.5)
    for t in (0.01, -3e-3, 1e-5):
        moved = (x + t * v).astype(np.float32).astype(np.float64)
        share = np.abs(moved - x - t * v).sum() / (abs(t) * np.abs(v).sum())
        value = float((c * moved.astype(np.float32) ** 2).sum())
        assert loss(t) == pytest.approx((value - 6.5, value + abs(value - 6.5) * share / eps), rel=1e-4)
    assert loss(1e-8)[1] == np.inf


# --- single steps and slopes


def polynomial(t):
    return 2 * t + t**3 + 5 * t**4 + t**5, 1.0


def test_one_step_tells_what_the_formulas_say():
    h = 0.5
    step = steps.take_step(polynomial, h)
    assert step.central == pytest.approx(2 + h**2 + h**4)
    assert step.slope == pytest.approx(2 - h**4 / 4)  # Richardson's extrapolation removes h²
    assert step.truncation == pytest.approx(abs(-(h**4) / 4 - (h**2 / 4 + h**4 / 16)))
    assert step.noise == pytest.approx(5 * 1.5 * h**4)  # the fourth difference: only t⁴ is left
    assert step.rounding == 8 * EPS / h
    half = h / 2
    rise = half**2 + half**4
    assert step.left == pytest.approx(2 + rise - 5 * half**3)
    assert step.right == pytest.approx(2 + rise + 5 * half**3)
    assert step.jump == pytest.approx(10 * half**3)


@pytest.mark.parametrize(("claimed", "right"), [(2.0005, True), (0.9995, True), (2.01, False), (0.99, False)])
def test_a_claim_may_lie_outside_a_kink_by_the_error_of_the_slopes(claimed, right):
    assert (Slope(1.5, 1e-3, (1.0, 2.0)).disagreement(claimed, 1e-7) <= 1e-7) == right


def test_a_relative_error_is_held_against_the_larger_number_or_the_floor():
    found = relative_error(np.array([1.0, 3.0, 1e-9, 0.0]), np.array([2.0, 1.0, 0.0, 0.0]), 1e-3)
    np.testing.assert_allclose(found, [0.5, 2 / 3, 1e-6, 0])


@pytest.mark.parametrize(("times", "error"), [(32, np.inf), (8, 4.0)])
def test_what_scatters_less_than_64_of_the_smallest_steps_may_turn_between_them(times, error):
    """L is 0 at the ends of all steps, and scatters elsewhere; 64 of the smallest steps are 1/16."""

    def loss(t):
        return float(abs(t) not in (0, 1, 1 / 2, 2**-10, 2**-11)), 1.0

    taken, scatter = [steps.take_step(loss, h) for h in (1.0, 2**-10)], steps.scatter_of(loss, 1.0)
    found = slopes.settle(loss, taken, times * scatter, 1e-8, 0.0, EPS, 1.0)
    assert (found.h, found.error) == (1.0, pytest.approx(error * scatter))


def test_two_steps_that_disagree_refute_nothing():
    slope = slopes.measure(lambda t: (t + 1e-7 * np.tanh(1e6 * t), 1.0), EPS**0.2, 1.1, 1e-7, smooth=True)
    assert slope.disagreement(1.1, 1e-7) <= 1e-7


def test_what_rounding_hides_refutes_nothing():
    slope = slopes.measure(lambda t: (np.log(1 + (1e-17 + t)), 1e-17), 1e-17, 1.0, 1e-7, smooth=True)
    assert slope.disagreement(1.0, 1e-7) <= 1e-7
