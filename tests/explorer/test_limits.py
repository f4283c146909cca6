"""Limits of memory and time."""

import numpy as np
import pytest

from minitransformer import nn
from minitransformer.apps.explorer.limits import Recent, TimeLimitError, time_limit


def test_what_was_used_longest_ago_is_forgotten():
    recent = Recent(2, 100)
    recent.put("a", 1, 10)
    recent.put("b", 2, 10)
    assert recent.get("a") == 1
    recent.put("c", 3, 10)
    assert [recent.get(key) for key in "abc"] == [1, None, 3]


def test_so_many_bytes_are_kept_and_always_the_newest():
    recent = Recent(9, 100)
    recent.put("a", 1, 60)
    recent.put("b", 2, 60)
    assert recent.get("a") is None
    recent.put("c", 3, 1000)
    assert [recent.get(key) for key in "bc"] == [None, 3]


def test_the_model_stops_when_its_time_is_over():
    model = nn.Transformer(5, 5, d_model=4, n_heads=2, n_layers=1, d_ff=4, dropout=0.0)
    ids = np.array([[1, 3, 4]])
    with time_limit(60):
        expected = model(ids, ids).numpy()
    with pytest.raises(TimeLimitError, match=r"^it took more than 0 seconds and was stopped$"), time_limit(0):
        model(ids, ids)
    np.testing.assert_array_equal(model(ids, ids).numpy(), expected)
