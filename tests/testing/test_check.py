"""The checker for functions of plain arrays: each verdict, wrong gradients, and right ones that are hard to see."""

import inspect
import pydoc
import re
import sys

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.testing import CheckError, check, examine

TYPES = (np.float64, np.float32)
RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(3, 5)), RNG.normal(size=5)
each_type = pytest.mark.parametrize("dtype", TYPES)


def layer(x, w):
    return np.tanh(x * w)


def layer_backward(x, w, d_y):
    d_u = d_y * (1 - np.tanh(x * w) ** 2)
    return d_u * w, (d_u * x).sum(axis=0)


def verdict(function, backward, *inputs, dtype=np.float64, **arguments):
    return examine(function, backward=backward, inputs=[np.asarray(x, dtype) for x in inputs], **arguments)


# --- the verdicts


@each_type
def test_a_right_gradient(dtype):
    report = check(layer, backward=layer_backward, inputs=[X.astype(dtype), W.astype(dtype)])
    assert report.verdict == "right"
    assert report.cause == ""
    assert [(record.name, record.comparisons, record.wrong) for record in report.inputs] == [("x", 15, 0), ("w", 5, 0)]
    assert str(report).startswith("layer: the gradient is right\n  input x, shape (3, 5): 15 entries agree")


def test_the_error_of_a_right_gradient_falls_as_the_square_of_the_step():
    report = verdict(np.exp, lambda x, d_y: d_y * np.exp(x), [0.5, 1.0])
    (h0, e0), (h1, e1) = report.errors[:2]
    assert h0 / h1 == 4
    assert e0 / e1 == pytest.approx(16, rel=0.1)
    wrong = verdict(np.exp, lambda x, d_y: d_y * x, [0.5, 1.0])
    assert wrong.errors is wrong.errors  # measured once
    assert wrong.errors[3][1] == pytest.approx(wrong.errors[4][1], rel=1e-3)


def test_an_error_that_stays_shows_a_mistake_within_any_tolerance():
    def backward(x, d_y):
        return d_y * np.cos(x) * (1 + 3e-8)

    report = verdict(np.sin, backward, [0.5, 1.0, -0.3])
    assert report.verdict == "wrong"
    assert "the error at the worst entry stays near" in str(report)
    assert "that of a right gradient falls as the square of the step" in str(report)
    assert verdict(np.sin, lambda x, d_y: d_y * np.cos(x) * (1 + 1e-12), [0.5, 1.0, -0.3]).verdict == "right"


@pytest.mark.parametrize("distance", [1e-3, 1e-6, 1e-8, -1e-3, -1e-6, -1e-8])
@each_type
def test_a_kink_nearby_is_no_kink_here(distance, dtype):
    def relu(x):
        return np.maximum(x, 0)

    x = [distance, 2.0, -3.0, 1.0]
    assert verdict(relu, lambda x, d_y: d_y * (x > 0), x, dtype=dtype).verdict == "right"
    assert verdict(relu, lambda x, d_y: d_y * (x > 1.5), x, dtype=dtype).verdict == "wrong"


def calls_of(function, backward, *inputs):
    calls = 0

    def counted(*xs):
        nonlocal calls
        calls += 1
        return function(*xs)

    report = examine(counted, backward=backward, inputs=inputs)
    return calls / sum(x.size for x in inputs), report.verdict


def test_an_entry_takes_few_calls():
    x, w = RNG.normal(size=(10, 12)), RNG.normal(size=12)
    calls, found = calls_of(layer, layer_backward, x, w)
    assert found == "right"
    assert calls < 3
    calls, found = calls_of(layer, lambda x, w, d_y: (layer_backward(x, w, d_y)[0] - d_y, w), x, w)
    assert found == "wrong"
    assert calls < 5


def wrong_backward(kind):
    def backward(x, w, d_y):
        d_x, d_w = layer_backward(x, w, d_y)
        return {
            "factor": (1.5 * d_x, d_w),
            "size": (d_x, d_w / 5),
            "sign": (-d_x, d_w),
            "zero": (0 * d_x, d_w),
            "None": (d_x, None),
            "upstream": layer_backward(x, w, np.ones_like(d_y)),
            "term": (d_x - 3 * d_y, d_w),
            "input as a term": (d_x, d_w + 2 * w),
            "slight": (d_x, d_w * np.asarray([1, 1, 1.05, 1, 1], d_w.dtype)),
        }[kind]

    return backward


@each_type
@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("factor", "every entry is 1.5 times what it should be"),
        ("size", "every entry is x.shape[1] = 5 times too small"),
        ("sign", "the sign is wrong"),
        ("zero", "the gradient of x is zero everywhere"),
        ("None", "the backward pass returns None for w, but the value depends on it"),
        ("upstream", "the backward pass ignores the gradient of the output"),
        ("term", "the gradient of x lacks a term: 3 * d_output"),
        ("input as a term", "the gradient of w lacks a term: -2 * w"),
        ("slight", ""),
    ],
)
def test_a_wrong_gradient_and_its_cause(kind, cause, dtype):
    report = verdict(layer, wrong_backward(kind), X, W, dtype=dtype)
    assert report.verdict == "wrong"
    assert report.cause.startswith(cause)
    assert bool(report.cause) == bool(cause)
    worst = report.worst
    exact = dict(zip("xw", layer_backward(X, W, _cotangent(X)), strict=True))[worst.input][worst.index]
    assert worst.expected == pytest.approx(exact, rel=1e-3, abs=1e-4)
    assert abs(worst.found - worst.expected) > 0.01 * abs(worst.expected)


def _cotangent(x):
    from minitransformer.testing.case import draw_cotangent

    return draw_cotangent(np.random.default_rng(0), x.shape)


@each_type
def test_a_kink_is_reported_and_its_subgradient_accepted(dtype):
    def relu(x):
        return np.maximum(x, 0)

    x = np.array([1, 0, -2], dtype)
    arguments = {"backward": lambda x, d_y: d_y * (x > 0), "inputs": [x]}
    with pytest.raises(
        CheckError, match=r"not differentiable here\n  cause: at x\[1\] the slopes on both sides differ"
    ) as e:
        check(relu, **arguments)
    assert e.value.report.verdict == "kink"
    assert e.value.report.subgradient
    assert check(relu, kinks="accept", **arguments).verdict == "kink"
    outside = examine(relu, backward=lambda x, d_y: d_y * np.where(x == 0, 2, x > 0).astype(dtype), inputs=[x])
    assert outside.verdict == "wrong"
    assert outside.worst.index == (1,)


@each_type
def test_a_jump_has_no_gradient_to_accept(dtype):
    with pytest.raises(CheckError, match=r"the value jumps as x\[0\] moves"):
        check(
            lambda x: np.floor(x), backward=lambda x, d_y: 0 * d_y, inputs=[np.array([1, 0.3], dtype)], kinks="accept"
        )
    smooth = verdict(lambda x: np.floor(x) + x, lambda x, d_y: d_y, [1.5, 0.3], dtype=dtype)
    assert smooth.verdict == "right"


def test_what_rounding_hides_is_undecided_and_another_precision_named():
    def far(x):
        return x + x.dtype.type(1e9)

    def far_in_float32(x):
        return far(x.astype(np.float32))

    for backward in (lambda x, d_y: d_y, lambda x, d_y: 2 * d_y):
        for dtype in TYPES:
            report = verdict(far_in_float32, backward, [1, 0.3, -2], dtype=dtype)
            assert report.verdict == "undecided"
            assert report.cause.endswith(
                "float64 would do, but the function computes in float32 whatever its inputs are"
            )
    for dtype in TYPES:
        assert verdict(far, lambda x, d_y: d_y, [1, 0.3, -2], dtype=dtype).verdict == "right"
        assert verdict(far, lambda x, d_y: 2 * d_y, [1, 0.3, -2], dtype=dtype).verdict == "wrong"
    report = verdict(lambda x: x + 1e20, lambda x, d_y: d_y, [1, 0.3])
    assert report.verdict == "undecided"
    assert report.cause.endswith("give inputs at which the function changes more")


@each_type
def test_randomness_inside_a_function(dtype):
    rng = np.random.default_rng(0)
    report = verdict(lambda x: x * rng.random(x.shape).astype(dtype), lambda x, d_y: d_y, [1, 2], dtype=dtype)
    assert report.verdict == "nondeterministic"
    assert "seed the randomness" in report.cause
    generator = np.random.default_rng(1)
    given = examine(
        lambda x, rng: x * (rng.random(x.shape) < 0.5),
        backward=lambda x, rng, d_y: (d_y * (rng.random(x.shape) < 0.5), None),
        inputs=[np.ones(9, dtype), generator],
    )
    assert given.verdict == "right"


def test_a_captured_array_that_changes_is_named():
    calls = np.zeros(1)

    def scaled(x):
        calls[0] += 1
        return x * calls

    report = verdict(scaled, lambda x, d_y: d_y * calls, [1.0, 2.0])
    assert report.verdict == "nondeterministic"
    assert "each call changes calls, which the function captures" in report.cause


class Layer:
    def __init__(self):
        self.mean, self.total = np.zeros(2), np.zeros(2)

    def forward(self, x):
        self.mean[:] = 0.9 * self.mean + 0.1 * x  # does not change the value
        self.x = x
        return x * x

    def backward(self, x, d_y):
        return 2 * self.x * d_y

    def drifting(self, x):
        self.mean += x
        return x * self.mean

    def adding(self, x, d_y):
        self.total += 2 * x * d_y
        return self.total.copy()


def test_state_that_does_not_matter_is_no_fault_and_state_that_does_is():
    layer = Layer()
    assert verdict(layer.forward, layer.backward, [1.0, 2.0]).verdict == "right"
    report = verdict(layer.forward, layer.adding, [1.0, 2.0])
    assert report.verdict == "nondeterministic"
    assert "differs in two calls of the backward pass" in report.cause
    assert "each call changes self.mean" in verdict(layer.drifting, layer.backward, [1.0, 2.0]).cause


def _write(x):
    x += 1
    return x


def _write_d(x, d_y):
    d_y *= 2
    return d_y


def _write_x(x, d_y):
    x *= 2
    return d_y


@pytest.mark.parametrize(
    ("function", "backward", "cause"),
    [
        (_write, lambda x, d_y: d_y, r"the function writes into its input x, which afterwards is 2.0 at \[0\]"),
        (lambda x: 2 * x, _write_d, "the backward pass writes into the gradient of the output"),
        (lambda x: 1 * x, _write_x, "the backward pass writes into its input x"),
    ],
)
@each_type
def test_who_writes_into_what(function, backward, cause, dtype):
    with pytest.raises(CheckError, match=cause) as error:
        check(function, backward=backward, inputs=[np.array([1, 2], dtype)])
    assert error.value.report.verdict == "mutates"


def test_an_input_of_whole_numbers_is_watched_too():
    def take(x, ids):
        ids[0] = 1
        return x[ids]

    report = examine(take, backward=lambda x, ids, d_y: (d_y, None), inputs=[np.ones(3), np.array([0, 2])])
    assert report.verdict == "mutates"
    assert "input ids" in report.cause


@each_type
def test_where_a_number_first_is_not_finite(dtype):
    def log(x):
        shifted = x - 1
        return np.log(shifted) * 2

    report = verdict(log, lambda x, d_y: d_y, [2, 0.5, 3], dtype=dtype)
    assert report.verdict == "not finite"
    assert report.cause.startswith("the value is nan at [1]; first in line ")
    assert "return np.log(shifted) * 2 (invalid value" in report.cause
    report = verdict(np.sqrt, lambda x, d_y: d_y / (2 * np.sqrt(x)), [1, 0], dtype=dtype)
    assert report.verdict == "not finite"
    assert "inf at [1]; first in line" in report.cause
    assert "divide by zero" in report.cause


@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_a_line_that_is_not_finite_is_one_of_the_caller_not_of_numpy():
    report = examine(lambda x: x.mean(axis=0), backward=lambda x, d_y: 0 * x, inputs=[np.zeros((0, 2))])
    assert f"{__file__}, in <lambda>: report = examine(lambda x: x.mean(" in report.cause


@pytest.mark.parametrize(
    ("function", "backward", "cause"),
    [
        (lambda x, w: (x * w).astype(int), layer_backward, "the value is of type int64; return floating-point numbers"),
        (lambda x, w: {*x.flat}, layer_backward, "the value is of type set; return an array"),
        (layer, lambda x, w, d_y: d_y, r"returned 1 gradients for 2 inputs; return one for each"),
        (layer, lambda x, w, d_y: (x.astype(int), w), "the gradient of x is of type int64"),
        (layer, lambda x, w, d_y: (x, "w"), "the gradient of w is of type str"),
        (
            layer,
            lambda x, w, d_y: (layer_backward(x, w, d_y)[0], layer_backward(x[:1], w, d_y)[0] / w * x),
            r"the gradient of w has shape \(3, 5\), but the input has shape \(5,\)",
        ),
    ],
)
def test_what_is_no_value_and_no_gradient(function, backward, cause):
    with pytest.raises(CheckError, match=cause) as error:
        check(function, backward=backward, inputs=[X, W])
    assert error.value.report.verdict == "malformed"


@each_type
def test_a_missing_sum_over_a_broadcast_axis_is_named(dtype):
    def backward(x, w, d_y):
        d_u = d_y * (1 - np.tanh(x * w) ** 2)
        return d_u * w, d_u * x

    report = verdict(layer, backward, X, W, dtype=dtype)
    assert report.verdict == "malformed"
    assert "a sum is missing: the input was broadcast along axis 0" in report.cause


# --- right gradients that are hard to see as right, and the same ones made wrong


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_backward(x, d_y):
    y = softmax(x)
    return y * (d_y - (y * d_y).sum(axis=-1, keepdims=True))


def norm(x):
    return np.sqrt((x * x).sum(axis=-1))


def standard(x):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + x.dtype.type(1e-5))


def standard_backward(x, d_y):
    y = standard(x)
    deviation = np.sqrt(x.var(axis=-1, keepdims=True) + x.dtype.type(1e-5))
    return (d_y - d_y.mean(axis=-1, keepdims=True) - y * (d_y * y).mean(axis=-1, keepdims=True)) / deviation


HARD = {
    "large inputs": (np.square, lambda x, d_y: 2 * x * d_y, 1e6 * X),
    "small inputs": (np.square, lambda x, d_y: 2 * x * d_y, 1e-6 * X),
    "a small function": (
        lambda x: x.dtype.type(1e-9) * np.sin(x),
        lambda x, d_y: x.dtype.type(1e-9) * np.cos(x) * d_y,
        X,
    ),
    "a large function": (
        lambda x: x.dtype.type(1e9) * np.sin(x),
        lambda x, d_y: x.dtype.type(1e9) * np.cos(x) * d_y,
        X,
    ),
    "mixed scales": (np.square, lambda x, d_y: 2 * x * d_y, np.array([1e4, 1.0, 1e-4])),
    "near a kink": (np.abs, lambda x, d_y: np.sign(x) * d_y, np.array([0.003, -0.01, 1.0])),
    "near the end of the domain": (np.log, lambda x, d_y: d_y / x, np.array([1e-3, 1.0, 2.0])),
    "a long sum": (lambda x: x.sum(keepdims=True), lambda x, d_y: d_y + 0 * x, RNG.normal(size=60)),
    "softmax of large scores": (softmax, softmax_backward, np.array([[1e4, 9999.0, -1e4], [0.5, 1.0, 0.0]])),
    "layer norm": (standard, standard_backward, X),
    "layer norm of near-equal features": (standard, standard_backward, 5 + 0.01 * X),
    "a norm": (norm, lambda x, d_y: x * (d_y / norm(x))[:, None], X),
    "a mask": (lambda x: np.where(x > 0, np.exp(x), 0), lambda x, d_y: np.where(x > 0, np.exp(x), 0) * d_y, X),
    "a scalar": (np.sin, lambda x, d_y: np.cos(x) * d_y, np.array(0.7)),
    "no entries": (np.sin, lambda x, d_y: np.cos(x) * d_y, np.zeros((0, 3))),
    "a constant": (lambda x: 0 * x + 1, lambda x, d_y: 0 * d_y, X),
    "strides": (np.sin, lambda x, d_y: np.cos(x) * d_y, X[:, ::2].T),
    "steep": (lambda x: np.tanh(50 * x), lambda x, d_y: 50 * (1 - np.tanh(50 * x) ** 2) * d_y, 0.01 * X),
}


@each_type
@pytest.mark.parametrize("name", HARD)
def test_a_right_gradient_is_never_called_wrong(name, dtype):
    function, backward, x = HARD[name]
    report = verdict(function, backward, x, dtype=dtype)
    assert report.verdict == "right", report


@each_type
@pytest.mark.parametrize("name", [name for name in HARD if name not in ("no entries", "a constant")])
def test_the_same_gradient_made_wrong_is_called_wrong(name, dtype):
    function, backward, x = HARD[name]
    report = verdict(function, lambda x, d_y: dtype(1.1) * backward(x, d_y), x, dtype=dtype)
    assert report.verdict == "wrong", report


def test_a_constant_that_hides_the_slope_in_float32_makes_no_gradient_wrong():
    def bell(x):
        u = 1 / np.sqrt(x * x + np.float32(1e-3))
        return u - u.mean(axis=-1, keepdims=True)

    def backward(x, d_y):
        return (d_y - d_y.mean(axis=-1, keepdims=True)) * -x * (x * x + np.float32(1e-3)) ** np.float32(-1.5)

    for seed in range(6):
        x = 1e-4 * np.random.default_rng(seed).normal(size=(2, 4))
        assert verdict(bell, backward, x, dtype=np.float32, seed=seed).verdict == "right"
        kept = verdict(lambda x: bell(x.astype(np.float32)), backward, x, dtype=np.float32, seed=seed)
        assert kept.verdict in ("right", "undecided")


def test_a_function_that_oscillates_within_a_step_makes_no_gradient_wrong():
    x = np.array([183.2, -97.5, 20.0])
    for phase in range(6):

        def wave(x, phase=phase):
            return np.sin(x * x + x.dtype.type(phase))

        def backward(x, d_y, phase=phase):
            return 2 * x * np.cos(x * x + x.dtype.type(phase)) * d_y

        assert verdict(wave, backward, x, dtype=np.float32).verdict == "right"
        kept = verdict(lambda x, wave=wave: wave(x.astype(np.float32)), backward, x, dtype=np.float32)
        assert kept.verdict in ("right", "undecided"), kept


def test_an_empty_input_beside_a_wrong_gradient():
    report = verdict(
        lambda x, y: y + x.sum(), lambda x, y, d_y: (d_y.sum() + x, 1.25 * d_y), np.zeros((0, 3)), [1.0, 2.0]
    )
    assert report.verdict == "wrong"
    assert "1.25 times what it should be" in report.cause, report


# --- many entries, and misuse


def test_of_many_entries_a_single_wrong_one_is_found_by_halving():
    x = np.random.default_rng(1).normal(size=(40, 50))

    def backward(x, d_y):
        d_x = np.cos(x) * d_y
        d_x[17, 23] += 0.5
        return d_x

    report = verdict(np.sin, backward, x, max_entries=4)
    assert report.verdict == "wrong"
    assert report.worst.index == (17, 23)
    assert verdict(np.sin, lambda x, d_y: np.cos(x) * d_y, x, max_entries=4).inputs[0].directions == 8


def test_check_states_the_arguments_of_examine():
    assert inspect.signature(check) == inspect.signature(examine)
    assert re.search("max_entries: '?int'? = 256", pydoc.plain(pydoc.render_doc(check)))


@pytest.mark.parametrize("times", [1.0, 100.0])
def test_the_report_states_which_single_wrong_entry_of_many_is_certain_to_be_found(times):
    x = np.random.default_rng(1).normal(size=5000)
    record = verdict(np.sin, lambda x, d_y: np.cos(x) * d_y, x, max_entries=4).inputs[0]
    assert 0 < record.certain < 3 * 5000**0.5 * 1e-8 * 10
    assert f"found if it is off by {record.certain:.1e} or more; one that is off by less" in str(record)
    assert "with a probability of at least 0.0008" in str(record)
    for wrong in (0, 1234, 4999):

        def backward(x, d_y, wrong=wrong):
            return np.cos(x) * d_y + times * record.certain * (np.arange(5000) == wrong)

        for seed in range(3):
            assert verdict(np.sin, backward, x, max_entries=4, seed=seed).verdict == "wrong"


def test_misuse_is_an_error_and_no_verdict():
    with pytest.raises(TypeError, match=r"check of sin: the inputs are one array; write \(x,\)"):
        examine(np.sin, backward=lambda x, d_y: d_y, inputs=X)
    with pytest.raises(ValueError, match="no input is a floating-point array"):
        examine(np.sin, backward=lambda x, d_y: d_y, inputs=[np.arange(3)])
    with pytest.raises(ValueError, match='kinks is \'ignore\'; expected "report" or "accept"'):
        examine(np.sin, backward=lambda x, d_y: d_y, inputs=[X], kinks="ignore")
    with pytest.raises(ValueError, match="order is 3; expected 1 or 2"):
        examine(np.sin, backward=lambda x, d_y: d_y, inputs=[X], order=3)
    with pytest.raises(ValueError, match=r"d_output has shape \(2,\), but the value has shape \(3, 5\)"):
        examine(np.sin, backward=lambda x, d_y: d_y, inputs=[X], d_output=np.ones(2))


# --- other libraries


def test_functions_of_tensors(monkeypatch):
    monkeypatch.delitem(sys.modules, "autograd", raising=False)  # which would differentiate a NumPy function
    assert check(mt.ops.softmax, inputs=[X]).verdict == "right"
    assert check(lambda x, w: mt.tanh(x * w), inputs=[X.astype(np.float32), W.astype(np.float32)]).verdict == "right"
    wrong = mt.Operation(lambda x: (x * x, x), lambda x, d_y: (x * d_y,), name="square")
    assert "every entry is 0.5 times" in examine(wrong, inputs=[X]).cause
    assert "give its backward pass: backward=" in examine(lambda x: x.data, inputs=[X]).cause
    with pytest.raises(TypeError) as error:
        examine(np.sin, inputs=[X])
    assert "give its backward pass: backward=" in error.value.__notes__[0]


# --- what a user may hand over by mistake


def test_a_gradient_of_a_python_float_is_not_ignored():
    report = examine(lambda x, b: x * b, backward=lambda x, b, d_y: (d_y * b, 7 * (d_y * x).sum()), inputs=[X, 1.5])
    assert report.verdict == "malformed"
    assert report.cause.startswith("b is a Python float, which is not checked")
    assert verdict(np.sin, lambda x, d_y: d_y * np.cos(x), X).verdict == "right"
    assert examine(lambda x, b: x * b, backward=lambda x, b, d_y: (d_y * b, None), inputs=[X, 1.5]).verdict == "right"


def test_numbers_in_a_list_are_named_where_an_array_is_expected():
    with pytest.raises(ValueError, match=r"found int64, float; np.asarray\(x, dtype=float\)"):
        check(np.sin, backward=np.cos, inputs=[np.arange(3), [1.0, 2.0]])


def test_gradients_that_are_swapped():
    y = RNG.normal(size=X.shape)
    report = examine(np.multiply, backward=lambda x, y, d_y: (x * d_y, y * d_y), inputs=[X, y], names=["x", "y"])
    assert report.cause in [f"the gradient of {a} is that of {b}: are they swapped?" for a, b in ("xy", "yx")]
    shapes = examine(np.matmul, backward=lambda x, y, d_y: (x.T @ d_y, d_y @ y.T), inputs=[X, W[:, None] + X.T[:, :2]])
    assert shapes.cause.endswith("the gradient of x1 is that of x2: are they swapped?")


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_gradient_of_float64_in_a_shorter_type(dtype):
    report = verdict(np.sin, lambda x, d_y: (d_y * np.cos(x)).astype(dtype), X)
    assert report.verdict == "wrong"
    assert (
        report.cause
        == f"the gradient of x has the precision of {np.dtype(dtype)}, in which it was computed or returned"
    )


# --- right ones that looked wrong


@each_type
def test_the_smallest_entry_is_moved_by_its_own_size_where_a_typical_step_leaves_the_domain(dtype):
    assert verdict(np.log, lambda x, d_y: d_y / x, [1e-30, 1e-10, 1.0, 1e20], dtype=dtype).verdict == "right"
    report = verdict(np.log, lambda x, d_y: 1.001 * d_y / x, [1e-30, 1e-10, 1.0, 1e20], dtype=dtype)
    assert report.verdict == "wrong"


@each_type
def test_an_entry_at_the_border_of_the_domain_is_undecided(dtype):
    report = verdict(lambda x: x**1.5, lambda x, d_y: 1.5 * np.sqrt(x) * d_y, [0.0, 1.0, 2.0], dtype=dtype)
    assert report.verdict == "undecided"
    assert report.cause == "the function is not finite around the input x; use inputs farther inside its domain"


def test_noise_in_the_value_is_no_jump():
    hilbert = 1 / (1.0 + np.add.outer(np.arange(6), np.arange(6)))

    def backward(a, d_y):
        return -np.outer(np.linalg.solve(a.T, d_y), np.linalg.solve(a, np.ones(6)))

    report = examine(lambda a: np.linalg.solve(a, np.ones(6)), backward=backward, inputs=[hilbert])
    assert report.verdict in ("right", "undecided")
