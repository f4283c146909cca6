"""Of all chapters: find the wrong one."""

import numpy as np

SCALAR, ENGINE, ARRAY, LAYER_NORM, ATTENTION, POSITIONS = (
    f"find-the-wrong-{name}" for name in ("scalar", "engine", "array", "layer-norm", "attention", "positions")
)
NOTHING, AGREES, EXTREME = "So your input shows nothing about any of them", "and another one does not", "even a right"
rng = np.random.default_rng(20)
X, W, D_Y = (rng.normal(size=shape) for shape in ((1, 2), (2, 2), (1, 2)))
ONES = np.ones((1, 2)), np.ones((2, 2)), np.ones((1, 2))
ROWS = np.array([[1.0, 2.0, 4.0]])
HEAD = tuple(rng.normal(size=(4, 2, 2)))
CENTRED = HEAD[2] - HEAD[2].mean(axis=0)
SYMMETRIC = 0 * HEAD[0], HEAD[1], CENTRED, CENTRED  # equal weights, and d_w = v v^T: d_s is symmetric
NAN = X * [1, np.nan]
DIAMOND = {"x": [], "u": [("x", 2)], "v": [("u", 3.0)], "L": [("u", 1.0), ("v", 1.0)]}
LUCKY = DIAMOND | {"L": [("v", 1.0), ("u", 1.0)]}  # here the wrong engine meets v first
CHAIN = {"x": [], "u": [("x", 2.0)], "L": [("u", 0.5)]}

useful = {
    SCALAR: ("c", 2),
    ENGINE: ("c", DIAMOND),
    ARRAY: ("c", X, W, D_Y),
    LAYER_NORM: ("b", ROWS, 0.5),
    ATTENTION: ("d", *HEAD),
    POSITIONS: ("d", *HEAD[:2], 5),
}
"""The wrong one, and an input that shows it."""
useless = [
    (SCALAR, 0.5),
    (SCALAR, 0.502),  # less than one per cent
    (ENGINE, CHAIN),
    (ENGINE, LUCKY),
    (ARRAY, *ONES),
    (ARRAY, X, W + W.T, D_Y),
    (ARRAY, X, W, 0 * D_Y),
    (LAYER_NORM, ROWS, 1e-5),
    (LAYER_NORM, [[2.0]], 1),
    (ATTENTION, *SYMMETRIC),
    (ATTENTION, *(x[:1] for x in HEAD)),
    (POSITIONS, *HEAD[:2], 0),
    (POSITIONS, 0 * HEAD[0], 0 * HEAD[1], 5),  # the waves alone: their product depends on the distance
]
"""Inputs on which all are as they should be."""
extreme = [
    (SCALAR, -1),
    (SCALAR, 1e300),
    (ENGINE, {name: [(part, 1e200) for part, _ in uses] for name, uses in DIAMOND.items()}),
    (ARRAY, 1e200 * X, W, D_Y),
    (LAYER_NORM, 1e8 + ROWS, 1e-5),
    (LAYER_NORM, 1e200 * ROWS, 1e-5),
    (ATTENTION, *(1e200 * x for x in HEAD)),
    (POSITIONS, *HEAD[:2], 1e17),
]
"""Inputs on which rounding or a pole spoils even what is right."""
impossible = [
    (SCALAR, "Return 2 values, the letter and x, found 1", "c"),
    (SCALAR, "found 3", "c", 1.0, 2.0),
    (SCALAR, "should be one of 'a', 'b', 'c', 'd', found 'C'", "C", 1.0),
    (SCALAR, "should be one of", "cd", 1.0),
    (SCALAR, "x should be a number, found the shape (1,)", "c", [2.0]),
    (SCALAR, "x should be a number, found type NoneType", "c", None),
    (SCALAR, "x contains NaN", "c", float("nan")),
    (ENGINE, "should be a dictionary such as EASY, found list", "c", []),
    (ENGINE, "a word of at most 8 letters, found 'a b'", "c", {"a b": []}),
    (ENGINE, "a word of at most 8 letters, found 1", "c", {1: []}),
    (ENGINE, "u should have a list of parts", "c", {"u": 3}),
    (ENGINE, "u should have a list of parts", "c", {"u": ["x"]}),
    (ENGINE, "found ('x', 1.0, 2.0) in it", "c", {"u": [("x", 1.0, 2.0)]}),
    (ENGINE, "found (1.0, 'x') in it", "c", {"u": [(1.0, "x")]}),
    (ENGINE, "found ('x', '1') in it", "c", {"u": [("x", "1")]}),
    (ENGINE, "of at most 8 letters, found 'abcdefghi'", "c", {"x": [], "abcdefgh": [], "abcdefghi": []}),
    (ENGINE, "found ('x', nan) in it", "c", {"x": [], "L": [("x", float("nan"))]}),
    (ENGINE, 'The graph has no node "L"', "c", {"x": []}),
    (ENGINE, "The graph has 11 nodes with 0 parts", "c", {name: [] for name in "ABCDEFGHIJL"}),
    (ENGINE, "The graph has 2 nodes with 21 parts", "c", {"x": [], "L": 21 * [("x", 1)]}),
    (ENGINE, "L is made of 'u', but the graph has no such node", "c", {"L": [("u", 1)]}),
    (ENGINE, "has a cycle: u makes L makes u", "c", {"u": [("L", 1)], "L": [("u", 1)]}),
    (ENGINE, "L comes before u", "c", {"L": [("u", 1)], "u": []}),
    (ARRAY, "x contains NaN", "c", NAN, W, D_Y),
    (ARRAY, "x should be an array of shape (T, D), found type list", "c", [[1, 2], [3]], W, D_Y),
    (ARRAY, "found type ndarray", "c", X + 1j, W, D_Y),
    (ARRAY, "(1, 1, 2)", "c", X[None], W, D_Y),
    (ARRAY, "(0, 2)", "c", X[:0], W, D_Y),
    (ARRAY, "with D = 2", "c", X, np.ones((3, 2)), D_Y),
    (LAYER_NORM, "(1, 9)", "b", np.ones((1, 9)), 0.5),
    (LAYER_NORM, "eps should be greater than 0, found 0", "b", ROWS, 0),
    (LAYER_NORM, "x contains NaN", "b", NAN, 0.5),
    (ATTENTION, "q contains NaN", "d", np.nan * HEAD[0], *HEAD[1:]),
    (POSITIONS, "Return 4 values, the letter, q, k and first, found 3", "d", *HEAD[:2]),
    (POSITIONS, "D should be even, because features are turned in pairs; found D = 3", "d", *np.ones((2, 2, 3)), 5),
]
"""Answers that give no valid input, each with the message that it gets."""


def returning(*values):
    """Make the learner's function."""
    return lambda: values


wrong = [
    *((name, words, returning(*values)) for name, words, *values in impossible),
    *((name, EXTREME, returning(useful[name][0], *values)) for name, *values in extreme),
    *((name, NOTHING, returning(letter, *values)) for name, *values in useless for letter in ("a", useful[name][0])),
    *((name, AGREES, returning("a", *values)) for name, (_, *values) in useful.items()),
    (SCALAR, "Return 2 values, the letter and x, found one, of type str", lambda: "c"),
]
right = [(name, returning(*values)) for name, values in useful.items()]
