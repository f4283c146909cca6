"""Adam, against the algorithm as the paper writes it."""

import pickle
import re
from copy import deepcopy
from itertools import pairwise

import numpy as np
import pytest

import minitransformer as mt
from minitransformer import arrays
from minitransformer.arrays import asarray, to_numpy, xp

# More entries than one slice of the arithmetic holds, in sizes that no slice ends with.
SHAPES = [(3,), (), (129, 131), (5, 1, 7), (0, 4), (20_001,), (1,), (11, 13)]


def parameters_of(shapes=SHAPES, dtype="float64", seed=0):
    rng = np.random.default_rng(seed)
    return [mt.Tensor(np.asarray(rng.standard_normal(shape), dtype=dtype), requires_grad=True) for shape in shapes]


def gradients_of(shapes, step):
    rng = np.random.default_rng([7, step])
    return [np.asarray(rng.standard_normal(shape) * 10.0 ** rng.uniform(-4, 2, shape)) for shape in shapes]


class Reference:
    """Algorithm 1 of Kingma and Ba, one array at a time, with the decay of Loshchilov and Hutter for matrices."""

    def __init__(self, values, beta1, beta2, eps, weight_decay=0.0):
        self.weight_decay = weight_decay
        self.values = [np.array(to_numpy(value), dtype=np.float64) for value in values]
        self.beta1, self.beta2, self.eps = beta1, beta2, eps
        self.m = [np.zeros(value.shape) for value in values]
        self.v = [np.zeros(value.shape) for value in values]
        self.t = 0

    def step(self, gradients, alpha):
        self.t += 1
        for i, g in enumerate(gradients):
            self.m[i] = self.beta1 * self.m[i] + (1 - self.beta1) * g
            self.v[i] = self.beta2 * self.v[i] + (1 - self.beta2) * g**2
            m_hat = self.m[i] / (1 - self.beta1**self.t)
            v_hat = self.v[i] / (1 - self.beta2**self.t)
            decay = self.weight_decay if g.ndim > 1 else 0.0
            step = m_hat / (np.sqrt(v_hat) + self.eps) + decay * self.values[i]
            self.values[i] = self.values[i] - alpha * step


def give(parameters, gradients):
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = None if gradient is None else asarray(gradient.astype(parameter.dtype))


@pytest.mark.parametrize(
    ("betas", "eps"),
    [((0.9, 0.98), 1e-9), ((0.9, 0.999), 1e-8), ((0.0, 0.5), 0.1), ((0.5, 0.0), 1e-3), ((0.0, 0.0), 1.0)],
)
@pytest.mark.parametrize("weight_decay", [0.0, 0.7])
def test_steps_are_those_of_the_paper(betas, eps, weight_decay):
    slices = list(arrays.cache_slices(sum(int(np.prod(shape)) for shape in SHAPES)))
    assert len(slices) > 2 or mt.backend() != "numpy"  # a device has no cache to fit into
    parameters = parameters_of()
    reference = Reference([p.data for p in parameters], *betas, eps, weight_decay)
    adam = mt.optim.Adam(parameters, betas=betas, eps=eps, weight_decay=weight_decay)
    for step in range(6):
        rate = 0.02 / (step + 1)
        gradients = gradients_of(SHAPES, step)
        give(parameters, gradients)
        adam.step(rate)
        reference.step(gradients, rate)
        for parameter, expected in zip(parameters, reference.values, strict=True):
            # a few roundings of the value, and of steps that begin with values up to 5
            np.testing.assert_allclose(parameter.data, expected, rtol=8 * np.finfo(float).eps, atol=2e-14)
    assert adam.step_count == 6


def test_defaults_are_the_papers():
    (parameter,) = parameters_of([(4,)])
    reference = Reference([parameter.data], 0.9, 0.98, 1e-9)
    adam = mt.optim.Adam([parameter])
    for step in range(3):
        gradients = [1e-9 * g for g in gradients_of([(4,)], step)]  # so small that eps counts
        give([parameter], gradients)
        adam.step(0.1)
        reference.step(gradients, 0.1)
    np.testing.assert_allclose(parameter.data, reference.values[0], rtol=1e-13)


def test_the_first_step_has_the_size_of_the_rate():
    (parameter,) = parameters_of([(5,)])
    before = to_numpy(parameter.data).copy()
    parameter.grad = asarray([3.0, -0.01, 1e-3, -50.0, 0.0])
    mt.optim.Adam([parameter]).step(0.25)
    np.testing.assert_allclose(to_numpy(parameter.data) - before, [-0.25, 0.25, -0.25, 0.25, 0], rtol=1e-5)


def test_float32():
    shapes = [(3, 5), (), (20_001,)]
    parameters = parameters_of(shapes, "float32")
    reference = Reference([p.data for p in parameters], 0.9, 0.98, 1e-9)
    adam = mt.optim.Adam(parameters)
    for step in range(5):
        gradients = [g.astype("float32") for g in gradients_of(shapes, step)]
        give(parameters, gradients)
        adam.step(0.01)
        reference.step([g.astype("float64") for g in gradients], 0.01)
    for parameter, expected in zip(parameters, reference.values, strict=True):
        assert parameter.dtype == parameter.grad.dtype == np.float32
        # values up to 5 are rounded to 2.4e-7 once a step, and each of the steps of 0.01 to a few times 1e-7 of itself
        np.testing.assert_allclose(parameter.data, expected, rtol=0, atol=5 * 3e-7)
    assert adam.mean.dtype == np.float32


def test_parameters_become_views_and_keep_values_and_gradients():
    parameters = parameters_of()
    values = [p.data.copy() for p in parameters]
    gradients = [asarray(g) for g in gradients_of(SHAPES, 0)]
    for parameter, gradient in list(zip(parameters, gradients, strict=True))[::2]:
        parameter.grad = gradient
    adam = mt.optim.Adam(parameters)
    for i, (parameter, value, gradient) in enumerate(zip(parameters, values, gradients, strict=True)):
        assert np.array_equal(parameter.data, value)
        assert parameter.grad is (gradient if i % 2 == 0 else None)
        if parameter.size:
            assert xp.shares_memory(parameter.data, adam.values)
    for a, b in pairwise(parameters):
        assert not xp.shares_memory(a.data, b.data)


def test_the_callers_arrays_are_left_alone():
    data = xp.ones(4)
    gradient = xp.full(4, 2.0)
    parameter = mt.Tensor(data, requires_grad=True)
    parameter.grad = gradient
    adam = mt.optim.Adam([parameter])
    adam.step(0.1)
    adam.zero_grad()
    assert data.tolist() == [1] * 4
    assert gradient.tolist() == [2] * 4


def test_zero_grad():
    parameters = parameters_of()
    adam = mt.optim.Adam(parameters)
    give(parameters, gradients_of(SHAPES, 1))
    adam.zero_grad()
    assert all(p.grad is None for p in parameters)
    values = adam.values.copy()
    adam.step(0.1)  # no gradient is a gradient of zeros
    assert np.array_equal(adam.values, values)


SIZES = [(0,), (3,), (40_000,), (1,), (7, 2000), (), (16384,), (5, 1)]  # smaller and larger than a slice of 16,384


def test_the_gradient_is_the_sum_over_shares():
    parameters = parameters_of(SIZES)
    gradients = [gradients_of(SIZES, seed) for seed in range(3)]
    gradients[1][2] = gradients[2][4] = gradients[2][6] = None
    gradients[0][3] = gradients[1][3] = gradients[2][3] = None
    reference = Reference([p.data for p in parameters], 0.9, 0.98, 1e-9)
    adam = mt.optim.Adam(parameters)
    kept = [[None if g is None else np.array(g) for g in copy] for copy in gradients]
    shares = []
    for copy in gradients:
        give(parameters, copy)
        shares.append(mt.optim.Gradient(adam.buffer))
    adam.step(0.01, mt.gradients.Sum(shares))
    total = [
        sum((copy[i] for copy in kept if copy[i] is not None), start=np.zeros(shape)) for i, shape in enumerate(SIZES)
    ]
    reference.step(total, 0.01)
    for parameter, expected in zip(parameters, reference.values, strict=True):
        np.testing.assert_allclose(parameter.data, expected, rtol=0, atol=1e-14)
    for copy, before in zip(gradients, kept, strict=True):
        for found, expected in zip(copy, before, strict=True):
            assert found is None or np.array_equal(found, expected)


@pytest.mark.numpy_only("on a GPU, one optimiser alone uses a kernel that rounds differently")
@pytest.mark.parametrize("number", [2, 3, 5, 40])
def test_optimisers_that_share_the_work_move_what_one_moves(number):
    """Each has its part of the running means; all parts together are the state of a single optimiser, to the bit."""
    whole = mt.optim.Adam(parameters_of(SIZES, dtype="float32"), weight_decay=0.1)
    each = [
        mt.optim.Adam(parameters_of(SIZES, dtype="float32"), weight_decay=0.1, part=(i, number)) for i in range(number)
    ]
    assert sum(one.mean.size for one in each) == whole.mean.size
    for step in range(3):
        for one in (whole, *each):
            give(one.parameters, gradients_of(SIZES, step))
            one.step(0.01)
        for one in each:
            for other in each:
                one.values[other.buffer.own] = other.values[other.buffer.own]
            assert np.array_equal(to_numpy(one.values), to_numpy(whole.values))
    states = [one.state_dict() for one in each]
    names = ("mean", "mean_square")
    together = {name: np.concatenate([state[name] for state in states]) for name in names}
    for name in names:
        assert np.array_equal(together[name], whole.state_dict()[name])
    for i in range(number):
        again = mt.optim.Adam(parameters_of(SIZES, dtype="float32"), part=(i, number))
        again.load_state_dict({**together, "step_count": 3})
        for name in names:
            assert np.array_equal(again.state_dict()[name], together[name][again.buffer.own])


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_gradient_may_lie_in_memory_in_any_order(order):
    (parameter,) = parameters_of([(3, 4)])
    expected = to_numpy(parameter.data).copy()
    gradient = np.asarray(np.random.default_rng(0).standard_normal((3, 4)), order=order)
    adam = mt.optim.Adam([parameter], eps=1e-12)
    parameter.grad = asarray(gradient)
    adam.step(0.5)  # the first step is one of the size of the learning rate against the sign
    np.testing.assert_allclose(parameter.data, expected - 0.5 * np.sign(gradient), rtol=0, atol=1e-9)


@pytest.mark.parametrize("when", ["before zero_grad", "before step"])
def test_data_and_gradients_that_were_replaced_count(when):
    parameters = parameters_of([(3,), (2, 2)])
    reference = Reference([p.data for p in parameters], 0.9, 0.98, 1e-9)
    adam = mt.optim.Adam(parameters)
    shapes = [p.shape for p in parameters]
    for step in range(4):
        gradients = gradients_of(shapes, step)
        new = np.asarray(np.random.default_rng(step).standard_normal((2, 2)))
        kept = new.copy()
        if when == "before zero_grad":
            parameters[1].data = new
            adam.zero_grad()
            give(parameters, gradients)
        else:
            adam.zero_grad()
            give(parameters, gradients)
            parameters[1].data = new
        reference.values[1] = kept.copy()
        adam.step(0.1)
        reference.step(gradients, 0.1)
        for parameter, expected in zip(parameters, reference.values, strict=True):
            np.testing.assert_allclose(parameter.data, expected, rtol=0, atol=1e-14)
        assert np.array_equal(new, kept)


@pytest.mark.parametrize("what", ["data", "grad"])
@pytest.mark.parametrize("shape", [(1,), (3, 1), (2, 3), ()])
def test_replacements_of_another_shape_are_refused(what, shape):
    parameters = parameters_of([(2,), (3,)])
    adam = mt.optim.Adam(parameters)
    setattr(parameters[1], what, np.ones(shape))  # some would broadcast
    for call in (adam.zero_grad, lambda: adam.step(0.1)):
        with pytest.raises(ValueError, match=r"Adam: a parameter had shape \(3,\), and now has"):
            call()
    assert adam.step_count == 0


def test_state_dict_continues_bit_for_bit():
    one = parameters_of(dtype="float32")
    adam = mt.optim.Adam(one)
    for step in range(3):
        give(one, gradients_of(SHAPES, step))
        adam.step(0.01)
    two = [mt.Tensor(p.data.copy(), requires_grad=True) for p in one]
    other = mt.optim.Adam(two)
    state = adam.state_dict()
    other.load_state_dict(state)
    copies = {key: value.copy() for key, value in state.items()}
    for step in range(3, 6):
        for parameters, optimiser in ((one, adam), (two, other)):
            give(parameters, gradients_of(SHAPES, step))
            optimiser.step(0.01)
    for a, b in zip(one, two, strict=True):
        assert np.array_equal(a.data, b.data)
    assert adam.step_count == other.step_count == 6
    assert state["step_count"] == 3
    assert state["step_count"].dtype == np.int64
    for key, value in copies.items():  # later steps did not reach into the state
        assert np.array_equal(state[key], value)


@pytest.mark.parametrize("name", ["mean", "mean_square", "step_count"])
def test_a_state_of_other_parameters_is_refused_and_changes_nothing(name):
    parameters = parameters_of([(3,), (2,)])
    adam = mt.optim.Adam(parameters)
    give(parameters, gradients_of([(3,), (2,)], 0))
    adam.step(0.1)
    before = adam.state_dict()
    state = {key: value + 1 for key, value in before.items()}
    for broken in (
        {key: value for key, value in state.items() if key != name},
        state | {name: np.ones(6)},
        state | {name: np.ones(1)},
    ):
        with pytest.raises(ValueError, match=f"Adam: {name} must have shape .*, found"):
            adam.load_state_dict(broken)
        for key, value in adam.state_dict().items():
            assert np.array_equal(value, before[key])
    for wrong in (np.nan, np.inf, *([-1e-9] if name == "mean_square" else [])):
        with pytest.raises(ValueError, match=f"Adam: {name} must be finite and at least"):
            adam.load_state_dict(before | {name: 0 * before[name] + wrong})


def test_a_step_of_length_0_counts_and_a_view_of_another_parameter_is_copied():
    one, other = parameters_of([(3,), (3,)])
    adam = mt.optim.Adam([one, other])
    values = to_numpy(other.data).copy()
    one.data = other.data
    adam.step(0.0)
    assert adam.step_count == 1
    np.testing.assert_array_equal(to_numpy(adam.values), np.concatenate([values, values]))
    other.data[...] = 0
    np.testing.assert_array_equal(to_numpy(one.data), values)


def test_what_is_no_parameter_is_refused():
    x, y = parameters_of([(2,), (3,)])
    with pytest.raises(ValueError, match="there are no parameters"):
        mt.optim.Adam([])
    with pytest.raises(ValueError, match="a parameter occurs twice"):
        mt.optim.Adam([x, y, x])
    with pytest.raises(ValueError, match="must have requires_grad=True"):
        mt.optim.Adam([x, mt.Tensor([1.0])])
    for computed, name in ((x * 0.01, "multiply"), (mt.ops.softmax(x), "softmax"), (x.reshape(1, 2), "reshape")):
        with pytest.raises(ValueError, match=f"was computed by {name}, so it collects no gradient; give the leaf"):
            mt.optim.Adam([computed, y])
    with pytest.raises(ValueError, match=r"different types: \['float32', 'float64'\]"):
        mt.optim.Adam([x, *parameters_of([(2,)], "float32")])


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *(("betas", betas) for betas in ((1.0, 0.9), (0.9, 1.0), (-0.1, 0.9), (0.9, -0.1), (0.9,), (0.9, 0.98, 0.99))),
        *(("eps", eps) for eps in (0.0, -1.0)),
        *(("weight_decay", decay) for decay in (-0.1, np.inf, np.nan)),
    ],
)
def test_numbers_out_of_range_are_refused(name, wrong):
    with pytest.raises(ValueError, match=re.escape(str(wrong).strip("()"))):
        mt.optim.Adam(parameters_of([(2,)]), **{name: wrong})


@pytest.mark.parametrize("rate", [-1e-3, float("nan"), float("inf"), None, "1"])
def test_a_learning_rate_out_of_range_moves_nothing(rate):
    (p,) = parameters_of([(2,)])
    p.grad, before = xp.ones_like(p.data), to_numpy(p.data).copy()
    adam = mt.optim.Adam([p])
    with pytest.raises((ValueError, TypeError), match=r"expected a finite learning rate of 0 or more|not supported"):
        adam.step(rate)
    np.testing.assert_array_equal(to_numpy(p.data), before)
    assert adam.step_count == 0


def test_without_a_gradient_weights_decay_but_biases_and_gains_stay():
    parameters = parameters_of([(3, 5), (7,), (), (2, 3, 4)])
    before = [to_numpy(p.data).copy() for p in parameters]
    adam = mt.optim.Adam(parameters, weight_decay=0.5)
    adam.step(0.25)
    for p, value in zip(parameters, before, strict=True):
        share = 1 - 0.25 * 0.5 if value.ndim > 1 else 1.0
        np.testing.assert_allclose(to_numpy(p.data), share * value, rtol=2 * np.finfo(float).eps)


COPIES = {
    "deepcopy": deepcopy,
    "pickle": lambda pair: pickle.loads(pickle.dumps(pair)),
    "deepcopy of the optimiser first": lambda pair: deepcopy(pair[::-1])[::-1],
    "a copy of a copy": lambda pair: deepcopy(pickle.loads(pickle.dumps(pair))),
}


@pytest.mark.parametrize("kind", COPIES)
def test_a_copy_of_parameters_and_optimiser_trains_on_as_the_original_does(kind):
    shapes = [(3,), (2, 5), ()]
    parameters = parameters_of(shapes)
    adam = mt.optim.Adam(parameters, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.1)
    give(parameters, gradients_of(shapes, 0))
    adam.step(0.1)
    part = mt.optim.Adam(parameters, part=(1, 2))
    assert COPIES[kind](([], part))[1].buffer.part == (1, 2)
    twins, twin = COPIES[kind]((parameters, adam))
    assert all(one is other for one, other in zip(twins, twin.parameters, strict=True))
    for one in (adam, twin):
        assert (one.betas, one.eps, one.weight_decay, one.step_count) == ((0.8, 0.9), 1e-6, 0.1, 1)
    before = [to_numpy(p.data).copy() for p in parameters]
    for step in (1, 2):
        give(twins, gradients_of(shapes, step))
        twin.step(0.1)
    for p, value in zip(parameters, before, strict=True):
        np.testing.assert_array_equal(p.data, value)  # the original has not moved with it
    for step in (1, 2):
        give(parameters, gradients_of(shapes, step))
        adam.step(0.1)
    for p, other, value in zip(parameters, twins, before, strict=True):
        np.testing.assert_array_equal(p.data, other.data)
        assert (to_numpy(p.data) != value).all()
    assert twin.step_count == adam.step_count == 3


def test_float16_and_an_eps_that_is_zero_in_float32_are_refused():
    """Both would divide by 0 where a gradient is 0."""
    with pytest.raises(TypeError, match=r"Adam: .*float32 or float64, found float16.*astype\('float32'\)"):
        mt.optim.Adam(parameters_of([(3,)], "float16"))
    for eps in (1e-50, 4e-45):  # the second is 0 after its correction for the first step
        with pytest.raises(ValueError, match=f"Adam: eps {eps} is 0 in float32"):
            mt.optim.Adam(parameters_of([(3,)], "float32"), eps=eps)
    parameters = parameters_of([(3,)])
    adam = mt.optim.Adam(parameters, eps=1e-50)
    before = to_numpy(parameters[0].data).copy()
    give(parameters, [np.zeros(3)])
    adam.step(0.1)
    np.testing.assert_array_equal(parameters[0].data, before)
