"""Limits of memory and time."""

import numpy as np
import pytest
from toml_cases import cases_from_toml

from minitransformer import nn, ops
from minitransformer.apps.explorer import limits
from minitransformer.apps.explorer.limits import Recent, TimeLimitError, time_limit


@cases_from_toml
def test_what_was_used_longest_ago_is_forgotten(most, most_bytes, steps, kept):
    """A letter with its bytes is put, a letter alone is got; the newest is kept, however large it is."""
    recent = Recent(most, most_bytes)
    for step in steps.split():
        assert recent.put(step[0], step, int(step[1:])) == step if step[1:] else recent.get(step)
    assert [found for key in "abc" if (found := recent.get(key))] == kept.split()


def test_the_model_stops_when_its_time_is_over():
    model = nn.Transformer(5, 5, d_model=4, n_heads=2, n_layers=1, d_ff=4, dropout=0.0)
    ids = np.array([[1, 3, 4]])
    with time_limit(60):
        expected = model(ids, ids).numpy()
    with pytest.raises(TimeLimitError, match="0 seconds"), time_limit(0):
        model(ids, ids)
    np.testing.assert_array_equal(model(ids, ids).numpy(), expected)


def test_the_last_moment_belongs_to_the_time(monkeypatch):
    times = [10.0, 12.5, 12.75]
    monkeypatch.setattr(limits, "monotonic", lambda: times.pop(0))
    x = np.ones((2, 3))
    with time_limit(2.5):
        ops.layer_norm(x, x[0], x[0])
        with pytest.raises(TimeLimitError, match=r"2\.5 seconds"):
            ops.rms_norm(x, x[0])
    assert times == []
