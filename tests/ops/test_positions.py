"""The operation positions: the formula, the rotation, errors."""

import math

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.arrays import to_numpy

positions = mt.ops.sinusoidal_positions


@pytest.mark.parametrize("d_model", [1, 2, 5, 8])
def test_every_entry_follows_the_formula(d_model):
    found = to_numpy(positions(50, d_model))
    for pos in range(50):
        for feature in range(d_model):
            angle = pos / 10000 ** ((feature - feature % 2) / d_model)
            expected = math.cos(angle) if feature % 2 else math.sin(angle)
            assert found[pos, feature] == pytest.approx(expected, rel=0, abs=1e-13)


@pytest.mark.parametrize("d_model", [1, 2, 5, 8])
def test_halves_are_the_same_features_in_another_order(d_model):
    alternating, halves = (to_numpy(positions(20, d_model, layout=name)) for name in ("interleaved", "halves"))
    np.testing.assert_array_equal(halves, alternating[:, [*range(0, d_model, 2), *range(1, d_model, 2)]])


def rotation(k, d_model):
    """Return the matrix that is made of k alone: PE(pos + k) = PE(pos) @ rotation(k)."""
    matrix = np.zeros((d_model, d_model))
    for i in range(0, d_model, 2):
        angle = k / 10000 ** (i / d_model)
        matrix[i : i + 2, i : i + 2] = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
    return matrix


@pytest.mark.parametrize("k", [-40, -7, -1, 0, 1, 7, 40])
def test_one_matrix_moves_every_position_by_k(k):
    found, matrix = to_numpy(positions(100, 16)), rotation(k, 16)
    start = np.arange(max(-k, 0), 100 - max(k, 0))
    assert len(start) == 100 - abs(k)
    np.testing.assert_allclose(found[start] @ matrix, found[start + k], rtol=0, atol=1e-13)
    # It turns and does not stretch, there and back is nowhere, and no other distance has the same matrix.
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(16), rtol=0, atol=1e-13)
    np.testing.assert_allclose(rotation(-k, 16), matrix.T, rtol=0, atol=1e-13)
    assert np.abs(found[start] @ rotation(k + 1, 16) - found[start + k]).max() > 0.5


def test_positions_differ():
    assert len(np.unique(positions(2000, 4).round(9), axis=0)) == 2000


def test_type_and_size():
    assert positions(3, 4).dtype == np.float64
    assert positions(3, 4, dtype="float32").dtype == np.float32
    assert positions(0, 4).shape == (0, 4)
    np.testing.assert_array_equal(positions(1, 3), [[0, 1, 0]])
