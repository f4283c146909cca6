"""Whole reports and messages of the checkers: each call of the table, and all that it says.

Most functions are polynomials at short binary fractions, so differences of their values are exact.
"""

import builtins
import functools
import re

import numpy as np
import pytest
from toml_cases import cases_from_toml, told

import minitransformer as mt
from minitransformer import Operation
from minitransformer.arrays import xp
from minitransformer.testing import slopes
from minitransformer.testing.adapters import Plain
from minitransformer.testing.claim import Claim
from minitransformer.testing.input_report import InputReport
from minitransformer.testing.measured_slope import Slope
from minitransformer.testing.real_case import RealCase


def square(x):
    return x * x


def d_square(x, d_y):
    return 2 * x * d_y


def d_double(x, d_y):
    return 4 * x * d_y


def times(x, w):
    return x * w


def d_times(x, w, d_y):
    return w * d_y, x * d_y


def relu(x):
    return np.maximum(x, 0)


def rounded(x):
    return x.astype(np.float32) + np.float32(1e9)


def short(x):
    if x.dtype == np.float64:
        raise TypeError("give float32")
    return x * x


def loud(x):
    """Return 0, after everything that NumPy warns of."""
    for one in (np.full(1, value, x.dtype) for value in (0, 1e-4, 6e4)):
        np.log(-one), 1 / (one - one), one / (one - one), one**99, one**-99
    return 0


def operation(forward=lambda x: (x * x, x), backward=lambda x, d: (2 * x * d,), composed=lambda x: x * x):
    return Operation(forward, backward, composed=composed, name="f")


def entered(shape, *comparisons, **more):
    """Return the report of an input after some comparisons: a claim, what is measured, its index and what is unseen."""
    report = InputReport("x", shape, n_entries=4, size=2.0, **more)
    for claim, slope, *rest in comparisons:
        report.enter(claim, Slope(*slope), 1e-3, *rest)
    return report


def written(x, result):
    x += 1
    return result


def shown(values):
    """Return values by name, of arrays their shapes."""
    kinds = (bool, int, float, str, type(None))
    return {key: x if isinstance(x, kinds) else getattr(x, "shape", type(x).__name__) for key, x in values.items()}


def brief(value):
    """Return the text of a value, with four digits of each number."""
    return re.sub(r"\d+(\.\d+)?(e[+-]\d+)?", lambda number: f"{float(number[0]):.4g}", str(value))


def calls(moves):
    """Return how many calls of a function moved its inputs, and how far, in powers of two."""
    powers = np.log2([move for move in moves if 0 < move < np.inf])
    least, mean, most = powers.min(), powers.mean(), powers.max()
    return f"{len(powers)} of {len(moves)} calls 2^{least:.1f} to 2^{most:.1f} away, on average 2^{mean:.3f}"


def effort(function, backward, *inputs, **arguments):
    """Return a verdict, how often and how far from the inputs the function was called for it, and all records."""
    moves, passes = [], []

    def watched(*xs):
        moves.append(sum(float(np.abs(x - x0)[x != x0].sum()) for x, x0 in zip(xs, inputs, strict=True)))
        return function(*xs)

    def pull_back(*xs):
        passes.append(backward(*xs))
        return passes[-1]

    report = mt.testing.examine(watched, backward=pull_back, inputs=inputs, **arguments)
    records = [brief(vars(record) | {"differences": record.differences.tolist()}) for record in report.inputs]
    return "\n".join([f"{report.verdict}, {len(passes)} backward passes, {calls(moves)}", *records])


def claim_of(function, backward, *inputs):
    case = RealCase("check", function, list(inputs), {}, None, Plain(backward))
    return Claim(case, np.random.default_rng(0), np.ones_like(function(*inputs)))


def tally(run, **functions):
    """Return what a run with some functions returns, and how often it called each."""
    numbers = dict.fromkeys(functions, 0)

    def counted(name):
        @functools.wraps(functions[name])
        def call(*xs):
            numbers[name] += 1
            return functions[name](*xs)

        return call

    return f"{brief(run(*map(counted, functions)))}; calls: {numbers}"


def slope_of(function, claimed, step=2.0**-10, size=1.0, **arguments):
    """Return a measured slope of a function of one number, and how far from 0 the function was called for it."""
    moves = []

    def loss(t):
        moves.append(abs(t))
        return float(function(t)), size

    return f"{brief(slopes.measure(loss, float(function(0.0)), step, claimed, 1e-7, **arguments))}, {calls(moves)}"


@pytest.mark.filterwarnings("error")
@cases_from_toml
def test_what_a_call_says(call, text):
    arrays = {"X": np.array([[1.0, -2.0, 0.5], [4.0, 0.25, -1.0]]), "ones": np.ones((2, 3)), "xp": xp}
    arrays["slight"] = np.float32([[1, 1.001, 1], [0.999, 1, 1]])
    if call.startswith("tally(") and "prove(" in call and xp.ndarray is not np.ndarray:
        pytest.skip("how often prove calls a function depends on the library")
    names = vars(mt) | vars(mt.testing) | vars(builtins) | globals() | arrays  # mt.max is no builtin, if it was used
    assert told(call, names) == text.strip()
