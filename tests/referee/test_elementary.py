"""Every elementary operation of the core against PyTorch: values and gradients, in float64."""

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.autograd.rules import RULES

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.referee, pytest.mark.filterwarnings("error")]

RNG = np.random.default_rng(23)
X, Y = RNG.normal(size=(3, 4, 5)), RNG.normal(size=(3, 4, 5))
ROW, COLUMN, SCALAR = RNG.normal(size=5), RNG.normal(size=(4, 1)), RNG.normal(size=())
POSITIVE = RNG.uniform(0.1, 3, (3, 4, 5))
TIED = np.round(X)
CONDITION = RNG.random((4, 5)) < 0.5
ROWS = [2, 0, 2, 2]


# name of the rule -> (arrays, our function, PyTorch's; left out where one text serves both)
CASES = {
    "add": [
        ((X, Y), lambda x, y: x + y),
        ((X, ROW), lambda x, y: x + y),
        ((ROW, COLUMN), lambda x, y: x + y),
        ((SCALAR, X), lambda x, y: x + y),
        ((X,), lambda x: x + x),
        ((X,), lambda x: 2 + x),
    ],
    "subtract": [((X, COLUMN), lambda x, y: x - y), ((X,), lambda x: x - 1), ((X,), lambda x: 1 - x)],
    "multiply": [((X, Y), lambda x, y: x * y), ((COLUMN, X), lambda x, y: x * y), ((X,), lambda x: x * x * 3)],
    "divide": [
        ((X, POSITIVE), lambda x, y: x / y),
        ((COLUMN, POSITIVE), lambda x, y: x / y),
        ((X,), lambda x: x / 3),
        ((POSITIVE,), lambda x: 1 / x),
    ],
    "power": [
        ((X,), lambda x: x**3),
        ((TIED,), lambda x: x**2),
        ((TIED,), lambda x: x**0),
        ((POSITIVE,), lambda x: x**-1.5),
        ((POSITIVE, Y), lambda x, y: x**y),
        ((POSITIVE, ROW), lambda x, y: x**y),
        ((X,), lambda x: 2**x),
    ],
    "negative": [((X,), lambda x: -x)],
    "matmul": [
        ((X, Y[0].T), lambda x, y: x @ y),
        ((X, Y.swapaxes(1, 2)), lambda x, y: x @ y),
        ((X[:, None], Y.swapaxes(1, 2)), lambda x, y: x @ y),
        ((X, ROW), lambda x, y: x @ y),
        ((X[0, :, 0], Y), lambda x, y: x @ y),
        ((ROW, ROW), lambda x, y: x @ y),
        ((X[0, :, :4],), lambda x: x @ x),
    ],
    "exp": [((X,), mt.exp, torch.exp)],
    "log": [((POSITIVE,), mt.log, torch.log)],
    "sqrt": [((POSITIVE,), mt.sqrt, torch.sqrt)],
    "tanh": [((X,), mt.tanh, torch.tanh), ((30 * X,), mt.tanh, torch.tanh)],
    "sigmoid": [((X,), mt.sigmoid, torch.sigmoid)],
    "relu": [((X,), mt.relu, torch.relu), ((TIED,), mt.relu, torch.relu)],
    "maximum": [
        ((X, Y), mt.maximum, torch.maximum),
        ((TIED, np.round(Y)), mt.maximum, torch.maximum),
        ((X, ROW), mt.maximum, torch.maximum),
    ],
    "minimum": [
        ((X, Y), mt.minimum, torch.minimum),
        ((TIED, np.round(Y)), mt.minimum, torch.minimum),
    ],
    "abs": [((X,), abs), ((TIED,), mt.abs, torch.abs)],
    "where": [
        (arrays, lambda x, y: mt.where(CONDITION, x, y), lambda x, y: torch.where(torch.tensor(CONDITION), x, y))
        for arrays in ((X, Y), (X, ROW), (COLUMN, SCALAR))
    ],
    "sum": [
        ((X,), lambda x: x.sum()),
        ((X,), lambda x: x.sum(1)),
        ((X,), lambda x: x.sum((0, -1))),
        ((X,), lambda x: x.sum(-1, keepdims=True), lambda x: x.sum(-1, keepdim=True)),
        ((X[:, :0],), lambda x: x.sum(1)),
    ],
    "mean": [
        ((X,), lambda x: x.mean()),
        ((X,), lambda x: x.mean(1)),
        ((X,), lambda x: x.mean((0, -1))),
        ((X,), lambda x: x.mean(0, keepdims=True), lambda x: x.mean(0, keepdim=True)),
    ],
    "max": [  # amax shares the gradient among ties, as we do; PyTorch's max does not
        ((X,), lambda x: x.max(), lambda x: x.amax()),
        ((X,), lambda x: x.max(1), lambda x: x.amax(1)),
        ((TIED,), lambda x: x.max((0, 2)), lambda x: x.amax((0, 2))),
        ((TIED,), lambda x: x.max(-1, keepdims=True), lambda x: x.amax(-1, keepdim=True)),
    ],
    "min": [
        ((X,), lambda x: x.min(), lambda x: x.amin()),
        ((TIED,), lambda x: x.min((0, 2)), lambda x: x.amin((0, 2))),
    ],
    "prod": [
        ((X,), lambda x: x.prod()),
        ((X,), lambda x: x.prod(1)),
        ((TIED,), lambda x: x.prod(-1, keepdims=True), lambda x: x.prod(-1, keepdim=True)),
    ],
    "norm": [
        ((X,), lambda x: x.norm((0, 2)), lambda x: torch.linalg.vector_norm(x, dim=(0, 2))),
        ((0 * X,), lambda x: x.norm(), torch.linalg.vector_norm),
        ((X,), lambda x: x.std(1), lambda x: x.std(1, correction=0)),
    ],
    "cumsum": [((X,), lambda x: x.cumsum(1)), ((X,), lambda x: x.cumsum(), lambda x: x.flatten().cumsum(0))],
    "reshape": [((X,), lambda x: x.reshape(5, -1)), ((X,), lambda x: x.reshape((2, 30)))],
    "transpose": [
        ((X,), lambda x: x.transpose(2, 0, 1), lambda x: x.permute(2, 0, 1)),
        ((X,), lambda x: x.transpose(), lambda x: x.permute(2, 1, 0)),
        ((X[0],), lambda x: x.T),
    ],
    "swapaxes": [((X,), lambda x: x.swapaxes(0, -1)), ((X,), lambda x: x.swapaxes(-2, 2))],
    "index": [
        ((X,), lambda x: x[1]),
        ((X,), lambda x: x[..., 1:4:2]),
        ((X,), lambda x: x[:, None, -1]),
        ((X,), lambda x: x[ROWS]),
        ((X,), lambda x: x[ROWS, 1]),
        ((X,), lambda x: x[:, ROWS, [1, 1, 0, 4]]),
        ((X,), lambda x: x[np.arange(3)[:, None], ROWS]),
        ((X,), lambda x: x[:, CONDITION], lambda x: x[:, torch.tensor(CONDITION)]),
    ],
    "concatenate": [
        ((X, Y[:, :2]), lambda *xs: mt.concatenate(xs, axis=1), lambda *xs: torch.cat(xs, dim=1)),
        ((X,), lambda x: mt.concatenate([x, x], axis=-1), lambda x: torch.cat([x, x], dim=-1)),
        ((X, Y), lambda *xs: mt.stack(xs, axis=1), lambda *xs: torch.stack(xs, dim=1)),
        ((X, Y), lambda *xs: mt.stack(xs, axis=-1), lambda *xs: torch.stack(xs, dim=-1)),
    ],
}


@pytest.mark.asks("the same function in PyTorch, in CASES of tests/referee/test_elementary.py")
def test_every_rule_is_here():
    # Joining tensors has no rule in the table, because it takes any number of them.
    missing = CASES.keys() ^ (RULES.keys() | {"concatenate"})
    assert not missing


@pytest.mark.parametrize(
    ("rule", "case"),
    [pytest.param(rule, case, id=f"{rule} {i}") for rule, cases in CASES.items() for i, case in enumerate(cases)],
)
def test_values_and_gradients(rule, case, agree):
    arrays, ours, *theirs = case
    used = set()

    def recorded(*inputs):
        output = ours(*inputs)
        nodes = [output._node]
        while nodes:
            node = nodes.pop()
            used.add(getattr(node, "name", None))  # leaves of the graph are tensors, which have none
            nodes += [edge.target for edge in getattr(node, "edges", ()) if edge is not None]
        return output

    agree(recorded, *(theirs or [ours]), arrays)
    assert rule in used
