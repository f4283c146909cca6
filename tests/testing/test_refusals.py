"""What is refused before a gradient is compared: each option out of range, results of a wrong kind, broken rules."""

# ruff: noqa: B008  what is counted in a default is counted on from call to call

import functools
import re

import numpy as np
import pytest
from check_cases import EXACT as X
from check_cases import d_square, square, times

import minitransformer as mt
from minitransformer import Operation
from minitransformer.arrays import xp
from minitransformer.testing import GradientError, examine, examples, gradcheck, hidden, prove, strategies, sweep
from minitransformer.testing.rounding import loss_of_float32, sizes_of_terms
from minitransformer.testing.rules import OperationCase, Result

NAN = float("nan")
check = functools.partial(examine, square, backward=d_square, inputs=[X])


def operation(forward=lambda x: (x * x, x), backward=lambda x, d: (2 * x * d,), reference=lambda x: x * x):
    return Operation(forward, backward, reference=reference, name="f")


def written(x, result):
    x += 1
    return result


# --- options

COUNTS = [{"max_entries": -1}, {"max_entries": None}, {"max_entries": True}, {"max_entries": 0.5}]
COUNTS += [{"n_directions": -1}, {"n_directions": "2"}, {"n_directions": 0.5}, {"max_entries": 0, "n_directions": 0}]
ERRORS = [{"detects": value} for value in (0, -1e-3, NAN)]
OUT_OF_RANGE = [(check, o) for o in [*COUNTS, *ERRORS, *({"kinks": k} for k in ("ignore", "", "port"))]]
OUT_OF_RANGE += [(check, {"order": order}) for order in (0, 3)]
OUT_OF_RANGE += [(functools.partial(gradcheck, square, [X]), o) for o in [*COUNTS, *ERRORS]]
OUT_OF_RANGE += [(functools.partial(gradcheck, square, [X]), {"tolerance": t}) for t in (0, -1e-7, 1, NAN)]


@pytest.mark.numpy_only("fake CuPy limits how many entries move")
@pytest.mark.parametrize(
    ("call", "options"), OUT_OF_RANGE, ids=lambda value: str(value) if isinstance(value, dict) else value.func.__name__
)
def test_an_option_out_of_its_range_is_named_with_the_value_found(call, options):
    with pytest.raises(ValueError, match="expected") as caught:
        call(**options)
    for name, value in options.items():
        assert re.search(rf"\b{name} (is )?{re.escape(repr(value))}(;| and)", str(caught.value))


MISUSE = {  # a call, the kind of error, and what it names
    "one array": (lambda: examine(square, backward=d_square, inputs=X), TypeError, "one array; write (x,)"),
    "one array for gradcheck": (lambda: gradcheck(square, X), TypeError, "one array; write (x,)"),
    "one array for prove": (lambda: prove(mt.ops.softmax, X), TypeError, "one array; write (x,)"),
    "no floats": (lambda: check(inputs=[np.arange(3), [1.0]]), ValueError, "found int64, float;"),
    "no inputs": (lambda: check(inputs=[]), ValueError, "found no inputs;"),
    "no floats for gradcheck": (lambda: gradcheck(square, [np.arange(3)]), ValueError, "found int64;"),
    "names": (lambda: check(names=["x", "y"]), ValueError, "names (2) is not that of the inputs (1)"),
    "names for gradcheck": (lambda: gradcheck(times, [X, X], names=["x"]), ValueError, "names (1)"),
    "names for sweep": (lambda: sweep(mt.tanh, [np.ones(2)], names=["a", "b"]), ValueError, "names (2)"),
    "d_output": (lambda: check(d_output=np.ones(2)), ValueError, "shape (2,), but the value has shape (2, 3)"),
    "d_output's structure": (
        lambda: examine(lambda x: (x, x), backward=d_square, inputs=[X], d_output=(X, X, X)), ValueError, "tuple of 3",
    ),
    "three backward passes": (lambda: check(backward=[d_square] * 3), ValueError, "backward holds 3 functions"),
    "order 2, one function": (lambda: check(order=2), ValueError, "backward=(first, second)"),
    "order 2, operations": (
        lambda: examine(mt.ops.softmax, inputs=[X], order=2), ValueError, "backward=(first, second)",
    ),
    "no entries to sweep": (lambda: sweep(mt.exp, [np.zeros((0, 3))]), ValueError, "with entries"),
    "no operation": (lambda: prove(square, [X]), TypeError, "found function"),
    "no graph": (lambda: gradcheck(lambda x: mt.Tensor(x.data), [X]), ValueError, "no graph"),
    "not finite": (lambda: gradcheck(lambda x: x * np.nan, [X]), ValueError, "not finite"),
    "not finite for sweep": (lambda: sweep(lambda x: x * np.nan, [X]), ValueError, "not finite"),
    "-inf": (lambda: gradcheck(lambda x: x - np.inf, [X]), ValueError, "not finite"),
    "an infinite value": (lambda: prove(operation(lambda x: (x + np.inf, x)), [X]), ValueError, "not finite"),
    "examples": (lambda: examples(operation()), LookupError, "f: .* for x;"),
    "a strategy of no inputs": (
        lambda: strategies.inputs(Operation(lambda: (0, None), lambda s, d: (), name="f")), LookupError,
        "for any input",
    ),
    "a strategy of a number": (lambda: strategies.inputs(np.float64(5)), TypeError, "found np.float64(5.0)"),
    "ties": (lambda: strategies.inputs(mt.ops.softmax, ties=True), TypeError, "softmax: ties and dtype are for sign"),
    "dtype": (lambda: strategies.inputs(mt.ops.softmax, dtype="float32"), TypeError, "ties and dtype are for sign"),
    "whole numbers": (lambda: strategies.inputs("(B,)", dtype="int64"), TypeError, "found dtype int64"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISUSE)
def test_misuse_says_what_was_found_or_what_to_write(name):
    call, kind, words = MISUSE[name]
    with pytest.raises(kind) as caught:
        call()
    assert re.search(words if ".*" in words else re.escape(words), str(caught.value))


# --- what a function and its backward pass return and do


def counting(first=0):
    return iter(range(first, 99))


STOPS = {  # a function, its backward pass, the inputs; the verdict and what the cause names
    "a whole value": (lambda x: x.astype(int), d_square, [X], "malformed", "type int64"),
    "a set": (lambda x: {*x.flat}, d_square, [X], "malformed", "type set"),
    "an output that is a set": (lambda x: [x, {1}], d_square, [X], "malformed", "y[1] is of type set"),
    "no gradient": (lambda x: (x.argmax(), None), d_square, [X], "malformed", "y[0] (int64), y[1] (None)"),
    "no outputs": (lambda x: [], d_square, [X], "malformed", "holds nothing"),
    "a number": (lambda x: 3.0, None, [X], "malformed", "type float, without a graph"),
    "an array": (lambda x: xp.ones(3), None, [mt.Tensor(X)], "malformed", "type ndarray, without a graph"),
    "a complex gradient": (
        lambda x: np.exp(1j * x), lambda x, d: d * 1j, [X], "malformed", "complex128, but x is real",
    ),
    "a list": (square, lambda x, d: [[1.0]], [X], "malformed", "gradient of x is of type list"),
    "too many": (square, lambda x, d: (d, d), [X], "malformed", "(2) is not that of the inputs (1)"),
    "too few": (times, lambda x, w, d: (w * d,), [X, X], "malformed", "(1) is not that of the inputs (2)"),
    "a shape": (square, lambda x, d: (2 * x * d).T, [X], "malformed", "shape (3, 2), but the input has shape (2, 3)"),
    "a sum": (lambda x, b: x + b, lambda x, b, d: (d, d), [X, np.ones(3)], "malformed", "broadcast along axis 0"),
    "of a number": (lambda x, n: x * n, lambda x, n, d: (n * d, x.sum()), [X, 3], "malformed", "n is of type int"),
    "NaN": (lambda x: x + np.array([0, np.nan, 0]), d_square, [X], "not finite", "the value is nan at [0, 1]"),
    "NaN alone": (lambda x: x * np.nan, d_square, [np.array(1.0)], "not finite", "the value is nan"),
    "-inf": (lambda x: (x, x - np.inf), d_square, [X], "not finite", "y[1] is -inf at [0, 0]"),
    "divided by 0": (lambda x: x / (x - 4), d_square, [X], "not finite", "inf at [1, 0]; first in line"),
    "one of three": (lambda x: (x, 1 / (x + 2), 1 / (x - 4)), d_square, [X], "not finite", "y[1] is inf at [0, 1]"),
    "a gradient": (square, lambda x, d: d / (x + 2), [X], "not finite", "gradient of x is inf at [0, 1]; first in"),
    "the second": (times, lambda x, w, d: (d, d / (x - 4)), [X, X], "not finite", "gradient of w is inf at [1, 0]"),
    "writes": (
        lambda x: written(x, x), d_square, [X], "mutates", "input x, which afterwards is 2",
    ),
    "whole numbers": (
        lambda x, ids: written(ids, x * 1), lambda x, ids, d: (d, None), [X, np.arange(2)], "mutates", "input ids",
    ),
    "an array of a dict": (
        lambda p: p.update(w=2 * p["w"]) or p["w"], lambda p, d: ({"w": 2 * d},), [{"w": X}], "mutates", "p['w']",
    ),
    "backward writes": (
        times, lambda x, w, d: (d, written(w, d)), [X, X], "mutates", "input w, which afterwards is",
    ),
    "d_output": (square, lambda x, d: written(d, d), [X], "mutates", "into the gradient of the output"),
    "the second d_output": (lambda x: (x, x), lambda x, d: written(d[1], d[0]), [X], "mutates", "of the output"),
    "a dict": (lambda p: p.setdefault("v", p["w"]), lambda p, d: ({"w": d},), [{"w": X}], "mutates", "list or dict"),
    "a list grows": (lambda xs: xs.append(1) or xs[0] * 2, lambda xs, d: [2 * d], [[X]], "mutates", "list or dict"),
    "a shape changes": (
        lambda x: x.resize((6,), refcheck=False) or x * 2, d_square, [X.copy()], "mutates", "of shape (6,)",
    ),
    "random": (
        lambda x, n=counting(): x + next(n), d_square, [X], "nondeterministic", "at [0, 0] is 1 in one call and 2 in",
    ),
    "random output": (
        lambda x, n=counting(): (x, x + next(n)), d_square, [X], "nondeterministic", "y[1] at [0, 0] is 1",
    ),
    "other outputs": (
        lambda x, n=counting(): {f"y{next(n)}": x}, d_square, [X], "nondeterministic",
        "y['y0'] in one call and y['y1']",
    ),
    "other shapes": (
        lambda x, n=counting(1): np.repeat(x, next(n), axis=0), d_square, [X], "nondeterministic",
        "(2, 3) in one call and (4, 3)",
    ),
    "another value where a graph is recorded": (
        lambda x: x * (2.0 if x.requires_grad else 3.0), None, [mt.Tensor(X)], "nondeterministic",
        "at [0, 0] is 3 in one call and 2 in the next",
    ),
    "a tensor is written": (
        lambda x: written(x.data, x * x), None, [mt.Tensor(X)], "mutates", "input x, which afterwards is 2",
    ),
    "indices of a tensor are written": (
        lambda x, ids: written(ids, x * 1), None, [mt.Tensor(X), np.arange(2)], "mutates", "input ids",
    ),
    "other gradients": (
        square, lambda x, d, n=counting(2): next(n) * x * d, [X], "nondeterministic", "gradient of x differs",
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", STOPS)
def test_what_ends_a_check_and_what_its_cause_names(name):
    function, backward, inputs, verdict, words = STOPS[name]
    report = examine(function, backward=backward, inputs=inputs)
    assert (report.verdict, report.power, report.worst) == (verdict, None, None)
    assert words in report.cause


def test_an_input_that_is_a_generator_starts_anew_in_each_call():
    report = examine(
        lambda x, rng: x * (rng.random(x.shape) < 0.5),
        backward=lambda x, rng, d_y: (d_y * (rng.random(x.shape) < 0.5), None),
        inputs=[np.ones(9), np.random.default_rng(1)],
    )
    assert report.verdict == "right"


class Layer:
    def __init__(self):
        self.mean = np.zeros(2)

    def forward(self, x):
        self.mean[:] = 0.9 * self.mean + 0.1 * x  # does not change the value
        self.x = x
        return x * x

    def backward(self, x, d_y):
        return 2 * self.x * d_y


def test_state_that_does_not_matter_is_no_fault():
    layer = Layer()
    assert examine(layer.forward, backward=layer.backward, inputs=[np.ones(2)]).verdict == "right"


def test_where_a_number_first_is_not_finite():
    def log(x):
        shifted = x - 1
        return np.log(shifted) * 2

    report = examine(log, backward=lambda x, d_y: d_y, inputs=[np.array([2, 0.5, 3])])
    assert report.verdict == "not finite"
    assert "return np.log(shifted) * 2 (invalid value" in report.cause


@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_a_line_that_is_not_finite_is_one_of_the_caller_not_of_numpy():
    report = examine(lambda x: x.mean(axis=0), backward=lambda x, d_y: 0 * x, inputs=[np.zeros((0, 2))])
    assert f"{__file__}, in <lambda>: report = examine(lambda x: x.mean(" in report.cause


@pytest.mark.parametrize("nan", [np.array([np.nan, 1, 2]), np.float32([np.nan, 1, 2]), np.array([np.nan, 1, 2j])])
def test_nan_in_an_entry_that_does_not_matter(nan):
    verdicts = [
        examine(function, backward=backward, inputs=inputs).verdict
        for function, backward, inputs in (
            (lambda x: x[1:] * x[1:], lambda x, d: np.append(0, 2 * x[1:].conj() * d), [nan]),
            (lambda w, x: w, lambda w, x, d: (d, np.zeros_like(x)), [X, nan]),
            (lambda x: written(x, x[1:] * 1), lambda x, d: np.append(0, d), [nan]),
            (lambda x: x[1:] * 1, lambda x, d: written(x, np.append(0, d)), [nan]),
        )
    ]
    assert verdicts == ["right", "right", "mutates", "mutates"]


@pytest.mark.parametrize(("roundings", "same"), [(8, True), (120, True), (136, False), (1000, False)])
def test_two_calls_may_differ_by_about_a_hundred_roundings(roundings, same):
    """By 64 of the numbers that are compared, and as many of the largest."""

    def about(x, n=counting()):
        return x * (1 + roundings * 2.0**-52 * (next(n) % 2))

    one = examine(about, backward=lambda x, d: 1 * d, inputs=[np.ones(1)])
    other = examine(lambda x: 1 * x, backward=lambda x, d: about(d), inputs=[np.ones(1)], d_output=np.ones(1))
    assert [r.verdict for r in (one, other)] == ["right" if same else "nondeterministic"] * 2


NOT_LINEAR = {
    "only its size counts": (lambda d: np.abs(d), "is 93.0156 instead of -93.0156"),
    "it is kept positive": (lambda d: np.maximum(d, 0), "is 0 instead of "),
    "it is clipped": (lambda d: np.clip(d, -40, 40), " instead of "),
}


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_a_backward_pass_that_is_not_linear_in_the_gradient_of_the_output(name):
    change, words = NOT_LINEAR[name]
    x, d_y = np.array([0.5, -1.0, 2.0, 0.25]), np.array([1.0, 2.0, 0.5, 1.5])
    for dtype in (float, np.float32):
        report = examine(
            np.sin, backward=lambda x, d: np.cos(x) * change(d), inputs=[x.astype(dtype)], d_output=d_y.astype(dtype)
        )
        assert (report.verdict, report.inputs[0].wrong) == ("wrong", 0)
        assert "for -64 times the gradient of the output, the gradient of x at " in report.cause
        assert words in report.cause or dtype is not float
    sine = Operation(lambda x: (xp.sin(x), x), lambda x, d: (xp.cos(x) * abs(d),), name="sin")
    with pytest.raises(GradientError, match="-64 times"):
        gradcheck(sine, [x], d_output=d_y)
    kinked = examine(
        lambda x: np.maximum(x, 0) + x, backward=lambda x, d: (1 + (x > 0)) * np.abs(d), inputs=[np.array([0.0, 2.0])],
        d_output=np.array([1.0, 2.0]),
    )  # fmt: skip
    assert (kinked.verdict, kinked.subgradient) == ("wrong", False)
    large = examine(
        lambda x: x * np.float32(1e38), backward=lambda x, d: d * np.float32(1e38), inputs=[np.float32([0.5, 1.0])]
    )
    assert large.verdict == "right"  # 64 times as much is no number of float32


def test_constants_of_gradcheck_are_listed_and_an_empty_input_is_compared_nowhere():
    report = gradcheck(lambda x, n, m, e: x * x + e.sum(), [X, 3, np.arange(2), np.zeros((0, 3))], names=[*"xnme"])
    assert (report.constants, [r.comparisons > 0 for r in report.inputs]) == (["n", "m"], [True, False])
    both = gradcheck(
        Operation(lambda x, *rest: (x * x, x), lambda x, d: (2 * x * d, None, None, None), name="f"), [X, 3, X, "a"]
    )
    assert ([r.name for r in both.inputs], both.constants) == (["x", "2"], ["rest", "3"])


# --- the rules for operations


def half(x):
    return np.float16 if x.dtype == np.float32 else x.dtype


BROKEN = {  # an operation, and what the message names
    "forward writes": (operation(lambda x: written(x, (x * x, x))), "forward .*input x"),
    "backward writes into an input": (
        operation(backward=lambda x, d: (written(x, 2 * x * d),)), "backward .*input x",
    ),
    "backward writes into what is saved": (
        operation(lambda x: (x * x, {"a": [x.copy()]}), lambda s, d: (written(s["a"][0], d),)),
        r"backward .*saved array of shape \(2, 3\)",
    ),
    "backward uses up what is saved": (
        operation(lambda x: (x * x, [x]), lambda s, d: (2 * s.pop() * d,)), "number of saved arrays",
    ),
    "backward adds to what is saved": (
        operation(lambda x: (x * x, [x]), lambda s, d: (2 * s[0] * d, s.append(d))[:1]), "number of saved arrays",
    ),
    "backward writes into d_output": (
        operation(backward=lambda x, d: (written(d, 2 * x * d),)), "backward .*d_output",
    ),
    "backward changes": (
        operation(backward=lambda x, d, n=iter((1.0, 1 + 1e-9)): (2 * x * d * next(n),)),
        "gradient of x is not the same",
    ),
    "backward forgets": (
        operation(backward=lambda x, d, n=iter((d_square, lambda x, d: None)): (next(n)(x, d),)),
        "gradient of x is not the same",
    ),
    "another shape": (operation(reference=lambda x: (x * x).sum(axis=0)), r"\(2, 3\), reference returns shape \(3,\)"),
    "a shorter value": (operation(lambda x: ((x * x).astype("f4"), x)), "float64 inputs gave a value of type float32"),
    "a gradient of another shape": (
        operation(backward=lambda x, d: ((2 * x * d).sum(axis=0),)),
        r"of x has shape \(3,\), but the input has \(2, 3\)",
    ),
    "a shorter gradient": (
        operation(backward=lambda x, d: ((2 * x * d).astype("f4"),)),
        "of x is of type float32, but the input is of float64",
    ),
    "a value widens": (operation(lambda x: (x * x * np.float64(1), x)), "float32 inputs gave a value of type float64"),
    "a gradient widens": (
        operation(backward=lambda x, d: (x * d * np.float64(2),)), "of x is of type float64 for inputs of float32",
    ),
    "a value narrows": (
        operation(lambda x: ((x * x).astype(half(x)), x)), "float32 inputs gave a value of type float16",
    ),
    "a gradient narrows": (
        operation(backward=lambda x, d: ((2 * x * d).astype(half(x)),)),
        "of x is of type float16 for inputs of float32",
    ),
    "d_output itself": (
        operation(lambda x: (x + 0, None), lambda s, d: (d,), lambda x: x + 0), "of x .*with d_output",
    ),
    "a view of what is saved": (
        operation(lambda x: (x * x, xp.stack([x, 2 * x])), lambda s, d: (s[1],)),
        r"with a saved array of shape \(2, 2, 3\)",
    ),
    "the value itself": (
        operation(lambda x: (y := x * x, lambda: y), lambda s, d: (s(),)), "with the value",
    ),
    "an input itself": (operation(lambda x: ((x * x).sum() / 2, x), lambda x, d: (x,)), "with the input x"),
    "another gradient": (
        Operation(lambda x, y: (x + y, None), lambda s, d: [d.copy()] * 2, name="f"),
        "of y .*with the gradient of x",
    ),
    "another value in float32": (
        operation(lambda x: (x * x * (1 + (x.dtype == np.float32)), x)), "the value in float32",
    ),
    "another gradient in float32": (
        operation(backward=lambda x, d: (2 * x * d * (1 + (x.dtype == np.float32)),)),
        "gradient of x in float32",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_named(name):
    broken, words = BROKEN[name]
    with pytest.raises(AssertionError, match=f"prove of f: .*{words}"):
        prove(broken, [X.copy(), X + 1][: len(broken.signature.parameters)])


def test_writing_into_an_option_is_named_too():
    scaled = Operation(lambda x, scale: written(scale, (2 * x, None)), lambda s, d: (2 * d,), name="f")
    with pytest.raises(AssertionError, match=r"forward .*input scale"):
        prove(scaled, [X.copy()], scale=xp.ones(3))


def test_gradcheck_names_who_writes():
    for function, names, words in (
        (lambda x, ids: written(ids, x), None, "the function .*input ids"),
        (lambda x, ids: written(x.data, x * x), ["scores", "ids"], "the function .*input scores"),
        (
            lambda x, ids: operation(backward=lambda x, d: (written(x, d),))(x), ["x", "ids"],
            "the backward pass .*input x",
        ),
    ):  # fmt: skip
        with pytest.raises(AssertionError, match=words):
            gradcheck(function, [X[:1], np.array([1])], names=names)


def test_where_two_forms_differ_both_numbers_and_the_size_of_their_terms_are_given():
    with pytest.raises(AssertionError) as caught:
        prove(operation(reference=lambda x: x * x * 1.5), [X])
    pattern = r"at \[(\d), (\d)\]\n\D*(\S+)\n\D*(\S+)\n\D*(\S+), allowed 1e-12 \(of terms of size (\S+)\)"
    i, j, ours, theirs, error, size = map(float, re.search(pattern, str(caught.value)).groups())
    square = X[int(i), int(j)] ** 2
    assert (ours, theirs) == (square, 1.5 * square)
    assert error == pytest.approx(0.5 * square / size, rel=0.05)


@pytest.mark.parametrize(("off", "proved"), [(2e-12, True), (3.2e-12, False)])
def test_hand_written_and_composed_may_differ_by_1e_12_of_the_terms(off, proved):
    with pytest.MonkeyPatch.context() if proved else pytest.raises(AssertionError, match="allowed 1e-12"):
        prove(operation(reference=lambda x: x * x * (1 + off)), [X])


@pytest.mark.parametrize(("off", "proved"), [(2e-5, True), (3.5e-5, False)])
def test_float32_may_differ_by_1e_5_of_the_terms(off, proved):
    with pytest.MonkeyPatch.context() if proved else pytest.raises(AssertionError, match="allowed 1e-05"):
        prove(operation(lambda x: (x * x * x.dtype.type(1 + off * (x.dtype == "f4")), x)), [X])


@pytest.mark.parametrize(("largest", "compared"), [(99.0, True), (100.0, True), (101.0, False), (-101.0, False)])
def test_inputs_above_100_are_not_compared_in_float32(largest, compared):
    assert (prove(operation(), [np.array([1.0, largest])]).float32 is not None) == compared


def test_the_sizes_of_terms_grow_with_each_try_towards_twice_those_of_a_square():
    """A relative change of δ in x changes x² by 2 δ x², and 2 x d by 2 δ x d for each of x and d, and of the parts."""
    result = Result(X[:1] ** 2, xp.ones((1, 3)), {0: 2 * X[:1]})
    tries = list(sizes_of_terms(OperationCase("c", operation(), [X[:1]], {}), result, np.random.default_rng(0)))
    values, gradients = (np.array([t[n][0] for t in tries]) for n in range(2))
    for sizes, scale in ((values, 2 * X[0] ** 2), (gradients, 2 * np.abs(X[0]))):
        assert len(sizes) == 8
        assert (np.diff(sizes, axis=0) >= 0).all()
        assert (0.2 * scale < sizes[-1]).all()
        assert (sizes[-1] < 4 * scale).all()


@pytest.mark.parametrize("seed", range(3))
def test_what_the_composed_form_loses_in_float32_is_half_a_rounding_of_its_largest_number(seed):
    case = OperationCase("c", operation(reference=lambda x: (x + 1e4) - 1e4), [X[:1, :1] / 3], {})
    found = loss_of_float32(case, np.random.default_rng(seed))
    # 1e4 is rounded to a multiple of 2^-10; 1/3 is 341.33 of them, and moves by less than one of 1000.
    assert found == pytest.approx(2.0**-10 / 3, rel=0.02)
    twice = OperationCase("c", operation(reference=lambda x: (x + 1e4) - 1e4), [X[:1, :2] / 3], {})
    assert loss_of_float32(twice, np.random.default_rng(seed)) >= found


@pytest.mark.parametrize(("n", "seen"), [(999, True), (1000, True), (1001, False)])
def test_lists_of_up_to_1000_are_searched_for_what_changes(n, seen):
    x = np.zeros(1)
    watched = hidden.Hidden(functools.partial(square, [x, *[0] * (n - 1)]))
    x += 1
    assert bool(watched.changes()) == seen


@pytest.mark.parametrize(("depth", "seen"), [(1, True), (3, True), (4, False)])
def test_objects_within_three_others_are_searched(depth, seen):
    x = np.zeros(1)
    watched = hidden.Hidden(functools.reduce(lambda inner, _: functools.partial(square, inner), range(depth), x))
    x += 1
    assert bool(watched.changes()) == seen
