"""The strategies draw what they promise."""

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample
from toml_cases import cases_from_toml

import minitransformer as mt
from minitransformer.testing import CheckError, check, strategies
from minitransformer.testing.case import is_float
from minitransformer.testing.strategies import parts

pytestmark = pytest.mark.numpy_only("draws on the host")

SEARCH = settings(
    max_examples=1000, database=None, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)


def drawn(strategy, condition):
    """Tell whether a draw with this property turns up."""
    try:
        # The seed is one of those with which even what is rare is found after some hundred draws, not after a thousand.
        find(strategy, condition, settings=SEARCH, random=random.Random(1))
    except NoSuchExample:
        return False
    return True


@pytest.mark.asks("the shapes of its inputs in the docstring of forward, or a strategy of its name")
@pytest.mark.parametrize("name", mt.ops.registry)
def test_every_operation_has_a_strategy_whose_draws_it_accepts(name):
    operation = mt.ops.registry[name]

    @settings(max_examples=3)  # tests/ops/test_properties.py proves the operation with many more
    @given(strategies.inputs(operation), strategies.inputs(operation, extreme=True))
    def accepted(moderate, extreme):
        for example in (moderate, extreme):
            assert isinstance(example, strategies.Example)
            operation(*example.inputs, **example.options)

    accepted()


@pytest.mark.parametrize("name", mt.ops.registry)
def test_inputs_with_numbers_of_both_signs_and_of_their_own_are_drawn(name):
    def differ(example):
        floats = [x for x in example.inputs if is_float(x)]
        signs = all(x.min(initial=0) < 0 < x.max(initial=0) for x in floats)
        return signs and len({x.tobytes() for x in floats}) == len(floats)

    assert drawn(strategies.inputs(mt.ops.registry[name]), differ)


@given(st.data(), st.integers(1, 7))
def test_sizes_are_distinct_and_at_least_the_least(data, n):
    least = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    sizes = data.draw(strategies.sizes(n, min=least))
    assert len(set(sizes)) == n
    assert all(size >= bound for size, bound in zip(sizes, least, strict=True))


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("size", [0, 1, 2, 6])
def test_every_axis_may_be_empty_or_single(place, size):
    assert drawn(strategies.sizes(3), lambda sizes: sizes[place] == size)


def test_sizes_keep_to_their_least():
    for least in ((1, 2), (1, 2, 0, 1)):
        words = f"^sizes: {len(least)} least sizes for 3 axes; give one for each, or one for all"
        with pytest.raises(ValueError, match=words):
            find(strategies.sizes(3, min=least), lambda sizes: True)


@given(st.sampled_from(parts.LAYOUTS), st.integers(0, 3).flatmap(strategies.sizes))
def test_layouts_hold_the_same_values(layout, shape):
    values = np.random.default_rng(0).random(shape)
    x = parts.lay_out(values, layout)
    np.testing.assert_array_equal(x, values)
    assert x.flags.writeable == (layout != "read-only")
    assert not np.shares_memory(x, values)


ARRAY = strategies.arrays((3, 4))


@pytest.mark.parametrize(
    "property_",
    [
        lambda x: x.flags.c_contiguous,
        lambda x: x.flags.f_contiguous,
        lambda x: not x.flags.c_contiguous and not x.flags.f_contiguous and x.strides[0] > 0,
        lambda x: x.strides[0] < 0 and x.strides[1] < 0,
        lambda x: not x.flags.writeable,
        lambda x: len(np.unique(x)) < 9,
        lambda x: len(np.unique(x)) == 12,
        lambda x: (x == 0).any(),
    ],
)
def test_arrays_of_every_kind_are_drawn(property_):
    assert drawn(ARRAY, property_)


@given(ARRAY, strategies.arrays((5, 5), away_from=0.0, distance=0.1), strategies.arrays(()))
def test_arrays_keep_to_their_range_and_off_kinks(x, away, single):
    assert x.dtype == np.float64
    assert np.abs(x).max() <= 2
    assert np.abs(away).min() >= 0.1
    assert single.shape == ()
    assert isinstance(single, np.ndarray)


SCORES = (2, 3, 4, 5)


@pytest.mark.parametrize(
    "property_",
    [
        lambda m: m is None,
        lambda m: m is not None and m.shape == SCORES and m.all(),
        lambda m: m is not None and np.array_equal(m, np.tri(4, 5, dtype=bool)),
        lambda m: m is not None and m.shape == (2, 1, 1, 5) and not m.all(),
        lambda m: m is not None and m.shape == (3, 4, 5),
        lambda m: m is not None and m.shape == (5,),
        lambda m: m is not None and m.shape == (1, 3, 1, 5),
        lambda m: m is not None and m.shape == (4, 1),
        lambda m: m is not None and m.ndim == 4 and (~m.any(axis=-1)).sum() == 1,
        lambda m: m is not None and np.array_equal(m, np.tri(4, 5) * [[1], [1], [0], [1]]),
    ],
)
def test_masks_of_every_kind_are_drawn(property_):
    assert drawn(strategies.masks(SCORES), property_)


@given(st.data())
def test_masks_fit_scores_of_any_shape(data):
    shape = data.draw(strategies.sizes(data.draw(st.integers(2, 4))))
    mask = data.draw(strategies.masks(shape))
    if mask is not None:
        assert mask.dtype == bool
        assert np.broadcast_shapes(mask.shape, shape) == shape


@given(st.integers(1, 6), st.data())
def test_ids_are_in_range(n, data):
    ids = data.draw(strategies.ids((3, 2), n))
    assert ids.shape == (3, 2)
    assert ids.dtype.kind == "i"
    assert (ids >= 0).all()
    assert (ids < n).all()


@given(strategies.cotangents((4, 5)))
def test_cotangents_are_not_uniform(d):
    assert len(np.unique(d)) == d.size
    assert np.abs(d).min() >= 0.5


@cases_from_toml
def test_special_cases_are_drawn(operation, extreme, always, drawn_too):
    parameters, missing = mt.ops.registry[operation].signature.parameters, {*drawn_too}

    def all_seen(example):
        given = dict(zip(parameters, example.inputs, strict=False)) | example.options
        names = {"np": np, "most": largest} | dict.fromkeys(parameters) | given
        assert all(eval(one, names) for one in always), example
        missing.difference_update([one for one in missing if eval(one, names)])
        return not missing

    assert drawn(strategies.inputs(mt.ops.registry[operation], extreme=extreme), all_seen), missing


def largest(*arrays):
    """Return the largest absolute value that is finite."""
    return max(float(np.abs(x[np.isfinite(x)]).max(initial=0)) for x in arrays if x is not None)


def test_other_names_are_unknown():
    with pytest.raises(AttributeError, match="no attribute 'strategy'"):
        _ = mt.testing.strategy


def test_a_row_of_a_mask_may_be_false_and_heads_differ():
    assert drawn(strategies.masks((4, 5), kinds=("causal",)), lambda mask: not mask.any(axis=-1).all())
    per_head = strategies.masks(SCORES, kinds=("per-head",))
    assert drawn(per_head, lambda mask: mask.shape == SCORES[1:] and (mask[0] != mask[1]).any())


def test_ids_may_be_the_last_token_and_few_of_many():
    many = strategies.ids((60,), 9)
    assert drawn(many, lambda ids: len(np.unique(ids)) == 2)
    assert drawn(many, lambda ids: len(np.unique(ids)) == 9)


SIGNATURE = "(B, T, D), (D, F), (3,), F >= 1"


@given(strategies.inputs(SIGNATURE))
def test_arrays_of_a_signature_fit(inputs):
    x, w, b = inputs
    assert isinstance(inputs, list)
    assert x.ndim == 3
    assert w.shape[0] == x.shape[2]
    assert w.shape[1] >= 1
    assert b.shape == (3,)
    assert len({*x.shape, *w.shape}) == 4  # a swap of axes is no valid shape
    assert {a.dtype for a in inputs} == {np.dtype(np.float64)}
    for a in inputs:
        assert len(np.unique(a)) == a.size  # no ties, unless asked for
        assert a.size < 3 or np.ptp(np.diff(np.sort(a, axis=None))) > 1e-6  # at uneven distances
        assert np.abs(a).max(initial=0) <= 2


@pytest.mark.parametrize(
    "property_",
    [
        lambda x, w: 0 in x.shape,
        lambda x, w: x.shape[1] == 1 and x.size,
        lambda x, w: w.shape[0] == 0,
        lambda x, w: w.flags.f_contiguous and w.size > 9,
        lambda x, w: min(x.strides) > x.itemsize and x.size > 9,
        lambda x, w: min(x.strides) < 0 and x.size > 9,
        lambda x, w: not w.flags.writeable,
    ],
)
def test_arrays_of_a_signature_are_of_every_kind(property_):
    assert drawn(strategies.inputs("(B, T, D), (D, F)"), lambda inputs: property_(*inputs))


def test_a_signature_may_have_any_number_of_leading_axes():
    for n in range(3):
        assert drawn(strategies.inputs("(..., D)"), lambda inputs, n=n: inputs[0].ndim == n + 1)


@pytest.mark.parametrize(
    ("kind", "property_"),
    [
        ({"ties": True}, lambda x: len(np.unique(x)) < x.size // 2 and 0 in x),
        ({"extreme": True}, lambda x: x.max(initial=0) > 5e3 and x.min(initial=0) < -5e3 and (np.abs(x) < 3).any()),
        ({"extreme": True, "ties": True}, lambda x: (np.abs(x) == 1e4).sum() > 1),
    ],
)
def test_ties_and_extreme_values_are_drawn_where_asked(kind, property_):
    assert drawn(strategies.inputs("(B, T)", **kind), lambda inputs: property_(inputs[0]))


@given(strategies.inputs("(B, T)", extreme=True))
def test_large_entries_tie_only_where_asked(inputs):
    assert len(np.unique(inputs[0])) == inputs[0].size


@pytest.mark.parametrize("dtype", ["float16", "float32", np.complex64])
def test_arrays_of_a_signature_have_the_type(dtype):
    @given(strategies.inputs("(B, T)", dtype=dtype))
    def typed(inputs):
        (x,) = inputs
        assert x.dtype == dtype
        assert len(np.unique(x)) == x.size

    typed()
    assert drawn(strategies.inputs("(B,)", dtype="complex128"), lambda inputs: (inputs[0].imag != 0).any())


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_arrays_of_a_signature_are_inputs_of_check(dtype):
    def backward(x, w, d_y):
        axes = range(x.ndim - 1)
        return d_y @ w.T, np.tensordot(x, d_y, (axes, axes))

    @settings(max_examples=5)
    @given(inputs=strategies.inputs("(..., T, D), (D, F)", dtype=dtype))
    def right(inputs):
        check(np.matmul, inputs=inputs, backward=backward)

    @settings(max_examples=10, phases=[Phase.generate])
    @given(inputs=strategies.inputs("(B, T), (T,)", dtype=dtype))
    def wrong(inputs):
        check(lambda x, b: x + b, inputs=inputs, backward=lambda x, b, d_y: (d_y, -d_y.sum(0)))

    right()
    with pytest.raises(CheckError, match="the gradient is WRONG"):
        wrong()
