"""The fixed examples of every operation: what would hide a mistake is in none of them."""

from contextlib import suppress

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.testing import examples
from minitransformer.testing.case import is_float

TIED = ("tied", "far from 0", "±10,000")
"""Words of cases that are about numbers which are equal or of one sign."""
KNOWN = {}
for name, operation in mt.ops.registry.items():
    with suppress(LookupError):  # another test asks for them
        KNOWN[name] = examples(operation)


@pytest.mark.asks("examples with numbers of both signs that differ, and masks that hide a part")
@pytest.mark.parametrize(
    ("name", "example"),
    [(n, case) for n, cases in KNOWN.items() for case in cases],
    ids=lambda v: getattr(v, "case", v),
)
def test_sizes_and_numbers_differ_and_masks_hide_a_part(name, example):
    floats = [x for x in (*example.inputs, *example.options.values()) if is_float(x)]
    masks = [x for x in (*example.inputs, *example.options.values()) if getattr(x, "dtype", "") == "bool"]
    if not any(words in example.case for words in TIED):
        assert all(x.min() < 0 < x.max() for x in floats)
        assert len(np.unique(np.concatenate([x.ravel() for x in floats]))) == sum(x.size for x in floats)
    for mask in masks:
        assert mask.any()
        assert mask.all() == (example.case == "all may attend")
        if "one row wholly" in example.case:
            rows = mask.any(axis=-1)
            assert not rows[..., 0].any()
            assert rows[..., 1:].all()
    mt.ops.registry[name](*example.inputs, **example.options)


@pytest.mark.asks("examples of its own sizes and names, the same each time")
@pytest.mark.parametrize("name", KNOWN)
def test_examples_have_names_and_are_the_same_each_time_for_a_seed(name):
    operation = mt.ops.registry[name]
    first, second, other = (examples(operation, seed) for seed in (0, 0, 1))
    assert len({example.case for example in first}) == len(first) >= 1
    for x in filter(is_float, first[0].inputs):  # swapped axes are seen; weights of a state are square
        assert len({*x.shape}) == x.ndim or name == "recurrence"
    for one, same, different in zip(first, second, other, strict=True):
        for x, y, z in zip(one.inputs, same.inputs, different.inputs, strict=True):
            if is_float(x):
                np.testing.assert_array_equal(x, y)
                assert (x != z).any()
