"""Where one of several is wrong, it is the one that the solution names, and the others are right."""

import math

import numpy as np
from learn.answers import attention, layer_norm

from minitransformer.learn import find


def names_in(text):
    """Return what an exercise's file defines, without what it does when it is run."""
    names = {}
    exec(text.partition('\nif __name__ == "__main__"')[0], names)
    return names


def test_one_pair_is_wrong():
    names = names_in(find("find-the-wrong-array").text)
    rng, wrong = np.random.default_rng(1), []
    shapes = {"a": (3, 1), "b": (5, 4), "c": (3, 3), "d": (4,), "e": (4,)}
    for letter, (forward, backward) in names["PAIRS"].items():
        x, w = rng.normal(size=(3, 4)), rng.normal(size=shapes[letter])
        d_y = rng.normal(size=forward(x, w).shape)
        d_x, d_w = backward(x, w, d_y)
        assert (d_x.shape, d_w.shape) == (x.shape, w.shape)
        u, v, h = rng.normal(size=x.shape), rng.normal(size=w.shape), 1e-5
        change = (d_y * (forward(x + h * u, w + h * v) - forward(x - h * u, w - h * v))).sum() / (2 * h)
        if not np.isclose((d_x * u).sum() + (d_w * v).sum(), change, rtol=1e-7):
            wrong.append(letter)
    assert wrong == ["c"]


def test_one_engine_is_wrong_and_an_easy_graph_hides_it():
    engines = names_in(find("find-the-wrong-engine").text)
    x, y = 3.0, 2.0
    hard = {"x": [], "y": [], "u": [("x", y), ("y", x)], "v": [("x", 1.0), ("u", 1.0)], "L": [("u", 9.0), ("v", 6.0)]}
    found = {letter: engines[letter](hard, "L") for letter in "abcd"}
    truth = {"x": 36.0, "y": 45.0, "u": 15.0, "v": 6.0, "L": 1.0}
    assert [letter for letter in "abcd" if found[letter] != truth] == ["c"]
    assert math.isclose(found["c"]["x"], 24.0)
    assert len({repr(engines[letter](engines["EASY"], "L")) for letter in "abcd"}) == 1
    assert np.isclose(engines["a"](engines["EASY"], "L")["x"], 1.5)


def test_four_of_the_five_are_layer_norm():
    names = names_in(find("find-the-wrong-layer-norm").solution)
    x = np.random.default_rng(0).normal(size=(3, 4))
    for eps in (1e-5, 0.5):
        for letter in "acde":
            np.testing.assert_allclose(names[letter](x, eps), layer_norm.x_hat(x, eps), rtol=1e-12)
    np.testing.assert_allclose(names["b"](x, 1e-5), layer_norm.x_hat(x, 1e-5), rtol=1e-4)
    assert not np.allclose(names["b"](x, 0.5), layer_norm.x_hat(x, 0.5), rtol=0.1)


def test_one_line_of_five_is_wrong():
    names = names_in(find("find-the-wrong-attention").solution)
    rng = np.random.default_rng(0)
    q, k, v, d_y = rng.normal(size=(4, 5, 3))
    w = attention.softmax(q @ k.T / attention.root(q))
    found, expected = names["backward"](q, k, v, w, d_y), attention.backward(attention.weights_back)(q, k, v, w, d_y)
    for ours, theirs, same in zip(expected, found, (False, True, True), strict=True):
        assert np.allclose(ours, theirs) is same
