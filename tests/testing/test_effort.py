"""How often a check calls what it checks: that is what a user waits for."""

import numpy as np
import pytest
from check_cases import EXACT as X
from check_cases import d_square, relu, square

import minitransformer as mt
from minitransformer import Operation
from minitransformer.testing import examine, prove, sweep


class Counted:
    """A function that counts its calls, and those of them that were not at the first inputs."""

    def __init__(self, function):
        self.function, self.calls, self.moved, self.inputs = function, 0, 0, None

    def __call__(self, *xs, **options):
        data = [np.array(getattr(x, "data", x), dtype=object if x is None else None) for x in xs]
        self.inputs = self.inputs or data
        self.moved += any((x.astype(y.dtype) != y).any() for x, y in zip(data, self.inputs, strict=True))
        self.calls += 1
        return self.function(*xs, **options)


def effort(function, backward, *inputs, **arguments):
    """Return a report, how many calls moved the inputs, and how many backward passes there were."""
    function, backward = Counted(function), Counted(backward)
    arguments.setdefault("d_output", np.ones_like(function.function(*inputs)))
    return examine(function, backward=backward, inputs=inputs, **arguments), function.moved, backward.calls


@pytest.mark.parametrize("n", [2, 3, 10, 40])
def test_a_right_gradient_takes_two_calls_an_entry_and_one_direction_of_all(n):
    report, moved, passes = effort(square, d_square, np.arange(1.0, n + 1))
    assert (report.verdict, report.inputs[0].comparisons, moved, passes) == ("right", n, 2 * n + 4, 6)


@pytest.mark.parametrize(("entries", "directions"), [(3, 8), (0, 1), (5, 0), (256, 8)])
def test_of_many_entries_as_many_move_as_are_asked_for(entries, directions):
    report, *_ = effort(square, d_square, np.arange(1.0, 301), max_entries=entries, n_directions=directions)
    record = report.inputs[0]
    assert (record.comparisons, record.directions) == (entries + directions, directions)
    assert np.isfinite(record.differences).sum() == entries


def test_by_default_256_entries_move_alone_and_more_in_8_directions():
    records = [effort(square, d_square, np.arange(1.0, n + 1))[0].inputs[0] for n in (256, 257)]
    assert [(r.comparisons, r.directions) for r in records] == [(256, 0), (264, 8)]


def test_after_three_wrong_entries_the_others_cost_little():
    calls = [effort(square, lambda x, d: 3 * x * d, np.arange(1.0, n + 1))[1] for n in (3, 13, 23)]
    assert max(calls[2] - calls[1], calls[1] - calls[0]) <= 10 * 3


def median(x):
    return np.sort(x)[1:2]


def above_zero(x):
    return np.where(x > 0, x * x, np.nan)


def only_float32(x):
    if x.dtype == np.float64:
        raise TypeError("give float32")
    return x * x


TIES = np.ones(2)
NARROW = X.astype("f4")
HARDER = {  # a function, its backward pass, inputs; the verdict, how many calls move the inputs, backward passes
    "a subgradient": (relu, lambda x, d: (x > 0) * d, [np.array([1.0, 0.0, -2.0])], "kink", 153, 6),
    "no subgradient": (relu, lambda x, d: 2 * d, [np.array([1.0, 0.0, -2.0])], "wrong", 911, 6),
    "two kinks": (relu, lambda x, d: (x > 0) * d, [np.arange(-5, 7.0) // 2], "kink", 555, 6),
    "a jump": (np.floor, lambda x, d: 0 * d, [np.array([0.25, 1.0])], "kink", 135, 9),
    "a kink nearby": (relu, lambda x, d: d * (x > 0), [np.array([2.0**-14, 2.0, -3.0, 1.0])], "right", 20, 6),
    "wrong near a kink": (relu, lambda x, d: d / 2, [2.0**-14 * np.array([1, -1])], "wrong", 252, 6),
    "no gradient of a median": (median, lambda x, d: 0 * x, [np.ones(3)], "wrong", 236, 2),
    "half of two ties": (np.maximum, lambda x, y, d: (d / 2, d / 2), [TIES, TIES], "kink", 521, 6),
    "all of two ties": (np.maximum, lambda x, y, d: (d, d), [TIES, TIES], "wrong", 527, 2),
    "all entries rise": (
        lambda x: relu(x.min(keepdims=True)), lambda x, d: d * np.ones(5) / 5, [np.zeros(5)], "kink", 754, 9,
    ),
    "the border of a domain": (
        lambda x: np.where(x >= 0, x * x, np.nan), d_square, [np.array([0.0, 1.0])], "undecided", 122, 5,
    ),
    "a typical step too long": (above_zero, d_square, [np.array([2.0**-40, 1.0, 2.0])], "right", 99, 9),
    "an infinite entry": (
        lambda x: np.where(np.isinf(x), 0, x * x), lambda x, d: np.where(np.isinf(x), 0, 2 * x * d),
        [np.array([1.0, np.inf, 2.0])], "right", 8, 6,
    ),
    "a large constant": (lambda x: x + 2.0**40, lambda x, d: d, [X], "right", 88, 6),
    "a narrow steep part": (
        lambda x: x + np.clip(2.0**20 * x, -1, 4), lambda x, d: d * (1 + 2.0**20), [np.zeros(2)], "right", 52, 6,
    ),
    "a grid": (lambda x: np.round(1024 * x) / 1024, lambda x, d: d, [X / 3], "undecided", 490, 6),
    "float32": (square, d_square, [NARROW], "right", 16, 8),
    "float32 alone": (only_float32, d_square, [NARROW], "right", 24, 6),
    "wrong in float32 alone": (only_float32, lambda x, d: 4 * x * d, [NARROW], "wrong", 216, 6),
    "float16 alone": (only_float32, d_square, [X.astype("f2")], "undecided", 364, 2),
    "another value in float64": (lambda x: x * x * (1 + (x.dtype == np.float64)), d_square, [NARROW], "right", 40, 8),
    "complex": (square, lambda z, d: 2 * np.conj(z) * d, [X + 1j], "right", 32, 6),
}  # fmt: skip


@pytest.mark.parametrize("name", HARDER)
def test_what_is_harder_to_decide_takes_more_calls_which_are_counted(name):
    """Fewer are welcome: then lower the number."""
    function, backward, inputs, verdict, moved, passes = HARDER[name]
    report, *found = effort(function, backward, *inputs)
    assert (report.verdict, *found) == (verdict, moved, passes)


@pytest.mark.numpy_only("fake CuPy moves fewer entries, and wraps what is counted")
def test_a_sweep_takes_four_calls_an_entry_and_step():
    cube = Counted(lambda x: x * x * x)
    found = sweep(cube, [np.arange(1, 51.0)], steps=[0.25, 0.5, 0.125])
    assert (
        cube.calls == 40 * 3 * 4 + 3 + 1
    )  # 40 of 50 entries move, four calls a step; three to begin with, one for NaN
    np.testing.assert_array_equal(found.steps, [0.125, 0.25, 0.5])
    # The error of D(h) is h² for x³, whatever x is; relative to the largest gradient, c 3 x² with c up to 2.
    np.testing.assert_allclose(found.central[1:] / found.central[:-1], 4)
    assert found.central[0] == pytest.approx(0.125**2 * 1.5 / (1.5 * 3 * 50**2), rel=0.5)
    others = [sweep(lambda x: x * x * x, [np.arange(1, 51.0)], steps=[0.5], seed=seed).central[0] for seed in (0, 0, 1)]
    assert others[0] == others[1] == found.central[2] != others[2]


@pytest.mark.numpy_only("fake CuPy moves fewer entries, and wraps what is counted")
def test_a_proof_moves_64_entries_of_the_hand_written_form_and_4_of_the_composed_one():
    forward, backward = Counted(lambda x: (x * x, x)), Counted(lambda x, d: (2 * x * d,))
    reference, x = Counted(lambda x: x * x), np.arange(1, 71.0)
    prove(Operation(forward, backward, reference=reference, name="f"), [x])
    assert (forward.calls, backward.calls, reference.calls) == (165, 11, 24)
    forward, backward = Counted(lambda x: (x * x, x)), Counted(lambda x, d: (2 * x * d,))
    prove(Operation(forward, backward, name="f"), [X])
    assert (forward.calls, backward.calls) == (27, 10)
    few = [mt.testing.gradcheck(mt.tanh, [x], max_entries=n).inputs[0].comparisons for n in (1, 70)]
    assert few == [1 + 8, 70]
