"""The proof, tested: it passes what is right and catches what breaks each of its rules."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import minitransformer as mt
from minitransformer import Operation, Tensor
from minitransformer.arrays import to_numpy, xp
from minitransformer.testing import Proof, gradcheck, prove
from minitransformer.testing.prove import Way
from minitransformer.testing.rounding import change, sizes_of_terms
from minitransformer.testing.rules import OperationCase, keep_rules

X = np.random.default_rng(2).standard_normal((3, 4))


def square(forward=lambda x: (x * x, x), backward=lambda x, d: (2 * x * d,), reference=lambda x: x * x):
    """Make a right operation of which one part may be exchanged for a wrong one."""
    return Operation(forward, backward, reference=reference, name="square")


def test_a_right_operation_is_proved_three_ways():
    proof = prove(square(), (X,), detects=1e-3, seed=5)
    assert isinstance(proof, Proof)
    assert proof.hand_written.worst_error < 1e-9
    assert proof.reference.worst_error < 1e-15
    assert proof.reference_numeric.worst_error < 1e-9
    assert proof.float32.worst_error < 1e-6
    assert set(proof.reference.errors) == {"value", "x"}
    assert len(proof.ways) == 4
    worst = [Way("", dict(enumerate(errors))).worst_error for errors in ((3, 1, 2), (1, 3), (2,), ())]
    assert worst == [3, 3, 2, 0]
    alone = gradcheck(square(), (X,), names=["x"], max_entries=64, seed=5)
    assert proof.hand_written.errors == {"x": alone.worst_error}
    assert proof.power == alone.power


def test_float64_starts_from_inputs_and_a_cotangent_that_float32_can_hold():
    exact = Operation(lambda x: (4 * x, None), lambda saved, d: (4 * d,), name="exact")
    assert prove(exact, (X,)).float32.errors == {"value": 0, "x": 0}
    assert len({prove(mt.ops.softmax, (X,), seed=seed).float32.errors["x"] for seed in (3, 4)}) == 2
    assert prove(mt.ops.softmax, (np.array([[-np.inf, 0.5, 1.2]]),)).float32.errors.keys() == {"value", "x"}


def test_without_a_composed_form_there_are_two_ways():
    proof = prove(square(reference=None), (X,))
    assert proof.reference is None
    assert proof.reference_numeric is None


def refused(message, inputs=(X,), **parts):
    with pytest.raises(AssertionError, match=message):
        prove(square(**parts), inputs)


def test_a_wrong_gradient_is_caught():
    refused("square, hand-written", backward=lambda x, d: (2.001 * x * d,))


def test_a_wrong_gradient_is_caught_without_a_composed_form():
    refused("relative error", backward=lambda x, d: (2.001 * x * d,), reference=None)


# The tolerances: what is a few times above each is wrong.


def test_the_tolerance_of_finite_differences():
    wrong = {"backward": lambda x, d: (2 * x * d * (1 + 3e-7),), "reference": None}
    refused("square, hand-written", **wrong)
    prove(square(**wrong), (X,), tolerance=1e-6)


def test_a_composed_form_that_is_right_at_the_inputs_only_is_caught():
    refused("square, reference", reference=lambda x: x * x + (x.detach() - Tensor(X)))


def test_a_composed_form_whose_gradient_is_no_number_is_caught():
    with np.errstate(all="ignore"):
        wrong = r"the gradient of x .* at \[1, 2\]"
        refused(wrong, reference=lambda x: x * x + 0 * ((x - X[1, 2]) ** 2).sqrt())


def test_the_value_may_lose_in_float32_what_the_composed_form_loses_but_not_ten_times_as_much():
    x = X.astype(np.float32).astype(np.float64)

    def far(size):
        return Operation(lambda x: ((x + size) - size, None), lambda saved, d: (d.copy(),), lambda x: (x + 1e3) - 1e3)

    prove(far(1e3), (x,))
    with pytest.raises(AssertionError, match="the value in float32"):
        prove(far(16e3), (x,))


def test_the_size_of_terms_that_cancel_in_backward_or_in_the_composed_form_only():
    rng = np.random.default_rng(0)
    x = rng.uniform(1, 2, 200)
    inside = Operation(lambda x: (x + 0, None), lambda saved, d: (d.copy(),), lambda x: x * 1e3 - x * 1e3 + x)
    saved = Operation(lambda x: (x + 0, {"a": [1e3 * x, 1e3 * x - 1]}), lambda s, d: ((s["a"][0] - s["a"][1]) * d,))
    for operation in (inside, saved):
        case = OperationCase("prove", operation, (x,), {})
        result = keep_rules(case, rng)
        *_, sizes = sizes_of_terms(case, result, rng)
        assert (sizes[1] > 1e2 * np.abs(to_numpy(result.d_output))).all()


def test_equal_infinities_are_no_change():
    new, old = xp.asarray([np.inf, -np.inf, 1.0, np.inf]), xp.asarray([np.inf, -np.inf, 3.0, 0.0])
    np.testing.assert_array_equal(change(new, old), [0, 0, 2, np.inf])


class Saved(NamedTuple):
    twice: Any
    nothing: None = None


def test_what_is_saved_may_be_a_named_tuple():
    prove(square(lambda x: (x * x, Saved(2 * x)), lambda saved, d: (saved.twice * d,)), (X,))


def test_a_missing_gradient_is_caught():
    refused(r"backward +0\n", backward=lambda x, d: (None,))


def test_a_composed_form_of_another_value_is_caught():
    refused("prove of square: the value.*\n.*\n.*\n.*1e-12", reference=lambda x: x * x + 1e-9)


def test_a_composed_form_that_loses_its_gradient_is_caught():
    refused("prove of square: the gradient of x", reference=lambda x: x * x.detach() * 1.0)


def test_a_difference_too_small_for_finite_differences_is_caught():
    refused("prove of square: the gradient of x", backward=lambda x, d: (2 * x * d * (1 + 1e-10),))


def test_a_backward_pass_that_takes_the_usual_order_for_granted_is_caught():
    refused(
        "prove of square: the gradient of x",
        backward=lambda x, d: (2 * x * d.ravel(order="K").reshape(d.shape),),
    )


def test_random_operations_draw_alike():
    rng = np.random.default_rng(5)
    before = rng.bit_generator.state
    prove(mt.ops.dropout, (X, 0.5, rng))
    prove(mt.ops.dropout, (X, 0.5), rng=rng)
    assert rng.bit_generator.state == before


def test_minus_infinity_counts_as_a_constant():
    mask = np.array([True, True, False, True])
    prove(mt.ops.masking, (X, mask))
    # A backward pass that lets the gradient of a hidden score through is caught, with and without a reference.
    for reference in (mt.ops.masking.reference, None):
        leaky = Operation(mt.ops.masking.forward, lambda mask, d: (d.copy(),), reference=reference, name="leaky")
        with pytest.raises(AssertionError, match="leaky, "):
            prove(leaky, (X, mask))


def test_layers_whose_gradient_nearly_cancels_are_held_to_the_rounding_of_what_cancels():
    # With two features nearly all of the gradient of x is cancelled.
    proof = prove(mt.ops.layer_norm, (np.array([[1.0, 50.0], [-3.0, 2.0]]), X[0, :2], X[1, :2]))
    assert proof.reference.worst_error < 1e-12


def test_names_come_from_forward_or_are_given():
    assert set(prove(mt.ops.softmax, (X,)).hand_written.errors) == {"x"}
    assert set(prove(mt.ops.softmax, (X,), names=["scores"]).hand_written.errors) == {"scores"}


def test_inputs_may_be_tensors_and_lists():
    assert prove(mt.ops.embedding, ([0, 2, 2], Tensor(X))).reference.worst_error < 1e-12


@pytest.mark.parametrize("logit", [8.0, 12.0, 15.0, 25.0])
def test_what_float32_cannot_hold_is_no_mistake(logit):
    mt.testing.prove(mt.ops.cross_entropy, (np.array([[logit, 0.3, 0.1]]), np.array([0])))


def test_two_features_far_apart_are_proved():
    inputs = (np.array([-1e4, 1e4]), np.array([-0.5, 0.0]), np.array([-0.5, 0.0]))
    for seed in range(3):
        mt.testing.prove(mt.ops.layer_norm, inputs, eps=1e-3, seed=seed)


def test_options_keep_their_type():
    def forward(x, axis=None):
        return xp.asarray(x.sum(axis=axis)), (x.shape, axis)

    def backward(saved, d_y):
        shape, axis = saved
        return (xp.broadcast_to(xp.expand_dims(d_y, axis), shape).copy(),)

    total = mt.Operation(forward, backward, reference=lambda x, axis: x.sum(axis=axis), name="total")
    mt.testing.prove(total, (np.random.default_rng(0).normal(size=(2, 3, 4)),), axis=(0, 2))


@pytest.mark.parametrize(("mask", "x"), [([False, False], [np.inf, 0.0]), ([False, True], [np.inf, 0.0])])
def test_softmax_in_parts_does_not_look_at_what_is_hidden(mask, x):
    composed = mt.ops.softmax.reference(mt.Tensor([x]), mask=np.array(mask)).numpy()
    np.testing.assert_array_equal(composed, mt.ops.softmax([x], mask=np.array(mask)).numpy())


def test_rows_of_quite_different_curvature_are_proved():
    """A row of equal features bends within 0.003, its neighbours within 10,000: large steps go past the first."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 4, 3))
    far = rng.random(x.shape) < 0.6
    x[far] = 1e4 * rng.choice([-1, 1], far.sum())
    x[5, 2], x[5, 3] = 1e4, -1e4
    for seed in range(4):
        mt.testing.prove(mt.ops.layer_norm, (x, np.array([0.5, -0.9, -1.8]), np.array([0.1, 0.2, 0.3])), seed=seed)
