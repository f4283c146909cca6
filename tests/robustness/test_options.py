"""Whatever value an option or an argument has: it is accepted, or refused by name, in one line, before any work."""

import random

import pytest

from robustness import ALL
from robustness.options import cases, faults

N_PARTS = 8


@pytest.mark.numpy_only("the command line is the same with any library")
@pytest.mark.parametrize("part", range(N_PARTS))
def test_nasty_values_are_accepted_or_refused_by_name(part):
    chosen = cases() if ALL else random.Random(0).sample(cases(), 64)
    assert list(faults(chosen[part::N_PARTS])) == []
