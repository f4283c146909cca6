"""Random graphs against a naive reference.

The reference differentiates forwards: next to each value it carries, for every leaf, the derivative of each entry with
respect to each entry of the leaf, as an array (size of the leaf, *shape of the value). It shares nothing with the core:
no graph, no order, no accumulation, no unbroadcast. Next to the derivatives it carries the same sums with every term
made positive; their size says how much rounding can explain.
"""

from dataclasses import dataclass, field

import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

import minitransformer as mt
from minitransformer.arrays import to_numpy

EPS = np.finfo(float).eps
LARGEST = 1e3  # values beyond are not used any further


@dataclass
class Dual:
    """A value, and for each leaf the derivatives and their magnitude."""

    tensor: mt.Tensor
    value: np.ndarray
    derivatives: dict = field(default_factory=dict)
    magnitudes: dict = field(default_factory=dict)


def made(tensor, value, *terms):
    """Build the dual of an operation.

    Each term is (input, function(t, size)): linear in the input's derivative t, an array with the leaf's entries as
    its first axis. ``size`` is applied to every coefficient: the identity, or the absolute value.
    """
    value = np.asarray(value)
    assert tensor.shape == value.shape
    np.testing.assert_allclose(tensor.numpy(), value, rtol=1e-12, atol=1e-12)
    result = Dual(tensor, tensor.numpy().copy())  # so that ties are the same ties
    for x, linear in terms:
        for total, part, size in (
            (result.derivatives, x.derivatives, lambda c: c),
            (result.magnitudes, x.magnitudes, np.abs),
        ):
            for leaf, t in part.items():
                total[leaf] = total.get(leaf, 0) + linear(t, size)
    return result


def lift(t, shape):
    """Give derivatives of an input the axes of a broadcast output: (n, *input) -> (n, *output)."""
    missing = len(shape) - (t.ndim - 1)
    return np.broadcast_to(t.reshape(t.shape[0], *(1,) * missing, *t.shape[1:]), (t.shape[0], *shape))


def entrywise(tensor, value, *terms, at_least=0.0):
    """Build the dual of an entry-by-entry operation from (input, partial derivative) pairs.

    ``at_least`` bounds the magnitudes from below, for derivatives that are small differences of larger numbers.
    """
    value = np.asarray(value)

    def linear(derivative):
        def scaled(t, size):
            c = size(np.asarray(derivative))
            return lift(t, value.shape) * (np.maximum(c, at_least) if size is np.abs else c)

        return scaled

    return made(tensor, value, *[(x, linear(derivative)) for x, derivative in terms])


def rearranged(tensor, x, move):
    """Build the dual of an operation that only puts entries elsewhere, as move does with an array."""
    places = move(np.arange(x.value.size).reshape(x.value.shape))
    return made(tensor, move(x.value), (x, lambda t, size: t.reshape(len(t), x.value.size)[:, places]))


def broadcastable(a, b):
    try:
        return np.broadcast_shapes(a, b) is not None and np.prod(np.broadcast_shapes(a, b)) <= 48
    except ValueError:
        return False


SHAPES = st.sampled_from([(), (1,), (2,), (3,), (2, 3), (2, 1), (1, 3), (3, 2), (2, 1, 3), (2, 2, 2), (0, 3)])
SEEDS = st.integers(0, 2**32 - 1)

ONE = {
    "negative": (lambda x: -x, lambda x: -x, lambda x, y: -1.0),
    "exp": (lambda x: (x / 100).exp(), lambda x: np.exp(x / 100), lambda x, y: y / 100),
    "log": (lambda x: (x * x + 0.5).log(), lambda x: np.log(x * x + 0.5), lambda x, y: 2 * x / (x * x + 0.5)),
    "sqrt": (lambda x: (x * x + 0.5).sqrt(), lambda x: np.sqrt(x * x + 0.5), lambda x, y: x / y),
    "tanh": (lambda x: x.tanh(), np.tanh, lambda x, y: 1 - y * y),
    "sigmoid": (lambda x: x.sigmoid(), lambda x: 1 / (1 + np.exp(-x)), lambda x, y: y * (1 - y)),
    "relu": (lambda x: x.relu(), lambda x: np.where(x > 0, x, 0), lambda x, y: 1.0 * (x > 0)),
    "abs": (abs, np.abs, lambda x, y: np.sign(x)),
    "square": (lambda x: x**2, lambda x: x * x, lambda x, y: 2 * x),
    "cube": (lambda x: x * x * x / 50, lambda x: x**3 / 50, lambda x, y: 3 * x * x / 50),
    "itself twice": (lambda x: x + x, lambda x: 2 * x, lambda x, y: 2.0),
    "a number": (lambda x: 1.5 - x / 4, lambda x: 1.5 - x / 4, lambda x, y: -0.25),
}
TWO = {
    "add": (lambda x, y: x + y, lambda x, y: (x + y, 1.0, 1.0)),
    "subtract": (lambda x, y: x - y, lambda x, y: (x - y, 1.0, -1.0)),
    "multiply": (lambda x, y: x * y, lambda x, y: (x * y, y, x)),
    "divide": (
        lambda x, y: x / (y * y + 1),
        lambda x, y: (x / (y * y + 1), 1 / (y * y + 1), -2 * x * y / (y * y + 1) ** 2),
    ),
    "power": (
        lambda x, y: (x * x + 0.5) ** (y / 100),
        lambda x, y: (
            (x * x + 0.5) ** (y / 100),
            2 * x * (y / 100) * (x * x + 0.5) ** (y / 100 - 1),
            (x * x + 0.5) ** (y / 100) * np.log(x * x + 0.5) / 100,
        ),
    ),
    "maximum": (
        mt.maximum,
        lambda x, y: (np.maximum(x, y), 1.0 * (x > y) + 0.5 * (x == y), 1.0 * (y > x) + 0.5 * (x == y)),
    ),
    "minimum": (
        mt.minimum,
        lambda x, y: (np.minimum(x, y), 1.0 * (x < y) + 0.5 * (x == y), 1.0 * (y < x) + 0.5 * (x == y)),
    ),
}


STOP = mt.Operation(lambda x: (x.copy(), None), lambda *_: (None,), name="stop")


class RandomGraphs(RuleBasedStateMachine):
    values = Bundle("values")

    def __init__(self):
        super().__init__()
        self.leaves = {}
        self.expected = {}
        self.allowed = {}
        self.kept = []

    def keep(self, dual):
        """Put a value among those that later operations may use, unless it has grown too large."""
        sizes = [np.abs(a).max(initial=0.0) for a in (dual.value, *dual.magnitudes.values())]
        if dual.value.size > 48 or max(sizes) > LARGEST:
            return multiple()
        self.kept.append(dual)
        return dual

    def new_leaf(self, shape, seed, whole):
        rng = np.random.default_rng(seed)
        data = rng.integers(-2, 3, shape).astype(float) if whole else rng.uniform(-2, 2, shape)
        tensor = mt.Tensor(np.asarray(data), requires_grad=True)
        name = len(self.leaves)
        self.leaves[name] = tensor
        self.expected[name] = self.allowed[name] = None
        one = np.eye(tensor.size).reshape(tensor.size, *tensor.shape)
        return Dual(tensor, tensor.numpy().copy(), {name: one}, {name: one})

    @initialize(target=values, seed=SEEDS)
    def first_leaves(self, seed):
        return multiple(*[self.new_leaf(shape, [seed, i], i % 2) for i, shape in enumerate([(2, 3), (3,), (2, 1), ()])])

    @rule(target=values, shape=SHAPES, seed=SEEDS, whole=st.booleans())
    def leaf(self, shape, seed, whole):  # whole numbers make ties
        return self.new_leaf(shape, seed, whole)

    @rule(target=values, shape=SHAPES, seed=SEEDS)
    def constant(self, shape, seed):
        data = np.asarray(np.random.default_rng(seed).uniform(-2, 2, shape))
        return Dual(mt.Tensor(data), data.copy())

    @rule(target=values, x=values)
    def detach(self, x):
        return Dual(x.tensor.detach(), x.value)

    @rule(target=values, x=values)
    def without_recording(self, x):
        with mt.no_grad():
            y = x.tensor * 0.5
        return Dual(y, np.asarray(x.value * 0.5))

    @rule(target=values, x=values, name=st.sampled_from(sorted(ONE)))
    def function(self, x, name):
        core, value, derivative = ONE[name]
        y = value(x.value)
        small = 1.0 if name in ("tanh", "sigmoid") else 0.0  # 1 - y, which is rounded as 1 is
        return self.keep(entrywise(core(x.tensor), y, (x, derivative(x.value, y)), at_least=small))

    @rule(target=values, x=values, y=values, name=st.sampled_from(sorted(TWO)))
    def arithmetic(self, x, y, name):
        if not broadcastable(x.value.shape, y.value.shape):
            return multiple()
        core, reference = TWO[name]
        z, d_x, d_y = reference(x.value, y.value)
        return self.keep(entrywise(core(x.tensor, y.tensor), z, (x, d_x), (y, d_y)))

    @rule(target=values, x=values, y=values, seed=SEEDS)
    def where(self, x, y, seed):
        if not broadcastable(x.value.shape, y.value.shape):
            return multiple()
        shape = np.broadcast_shapes(x.value.shape, y.value.shape)
        condition = np.asarray(np.random.default_rng(seed).random(shape) < 0.5)
        z = np.where(condition, x.value, y.value)
        return self.keep(
            entrywise(mt.where(condition, x.tensor, y.tensor), z, (x, 1.0 * condition), (y, 1.0 * ~condition))
        )

    @rule(
        target=values,
        x=values,
        data=st.data(),
        keepdims=st.booleans(),
        kind=st.sampled_from(["sum", "mean", "max", "min", "prod", "norm"]),
    )
    def reduction(self, x, data, keepdims, kind):
        n = x.value.ndim
        axes = data.draw(st.none() | st.lists(st.integers(0, max(n - 1, 0)), unique=True, max_size=n).map(tuple))
        if x.value.size == 0:
            return multiple()
        given = tuple(a - n if i % 2 else a for i, a in enumerate(axes)) if axes is not None else None
        over = tuple(range(n)) if axes is None else axes
        if kind == "norm":
            y = np.sqrt((x.value**2).sum(axis=axes, keepdims=keepdims))
            size_of_all = np.sqrt((x.value**2).sum(axis=over, keepdims=True))
            share = x.value / np.where(size_of_all > 0, size_of_all, 1)
        else:
            y = getattr(np, kind)(x.value, axis=axes, keepdims=keepdims)
        if kind in ("max", "min"):
            chosen = x.value == getattr(np, kind)(x.value, axis=over, keepdims=True)
            share = chosen / chosen.sum(axis=over, keepdims=True)
        elif kind == "prod":
            share = np.ones(x.value.shape)
            for place in np.ndindex(x.value.shape):
                others = x.value.copy()
                others[place] = 1
                share[place] = np.broadcast_to(others.prod(axis=over, keepdims=True), others.shape)[place]
        elif kind != "norm":
            share = np.ones(x.value.shape) / (x.value.size / max(np.size(y), 1) if kind == "mean" else 1)
        shifted = tuple(a + 1 for a in over)
        term = (x, lambda t, size: (t * size(share)).sum(axis=shifted, keepdims=keepdims))
        return self.keep(made(getattr(x.tensor, kind)(given, keepdims), y, term))

    @rule(target=values, x=values, data=st.data())
    def cumsum(self, x, data):
        n = x.value.ndim
        axis = data.draw(st.integers(-n, n - 1)) if n else None
        shape = x.value.cumsum(axis).shape  # of a number, it has one axis
        term = (x, lambda t, size: t.reshape(len(t), *shape).cumsum(axis % n + 1 if n else 1))
        return self.keep(made(x.tensor.cumsum(axis), x.value.cumsum(axis), term))

    @rule(target=values, x=values, data=st.data())
    def reshape(self, x, data):
        n = x.value.size
        ways = [(n,), (1, n), (n, 1)] + [(k, n // k) for k in (2, 3) if n and n % k == 0]
        shape = data.draw(st.sampled_from(ways))
        return self.keep(rearranged(x.tensor.reshape(*shape), x, lambda a: a.reshape(shape)))

    @rule(target=values, x=values, data=st.data())
    def transpose(self, x, data):
        order = tuple(data.draw(st.permutations(range(x.value.ndim))))
        return self.keep(rearranged(x.tensor.transpose(order), x, lambda a: a.transpose(order)))

    @rule(target=values, x=values, data=st.data(), seed=SEEDS)
    def index(self, x, data, seed):
        if x.value.ndim == 0 or x.value.shape[0] == 0:
            return multiple()
        rng, n = np.random.default_rng(seed), x.value.shape[0]
        choices = [
            -1,
            slice(None, None, -1),
            slice(1, None),
            None,
            (..., 0) if x.value.shape[-1] else 0,
            rng.integers(-n, n, 4),
            rng.integers(0, n, (2, 2)),
            rng.random(n) < 0.6,
            rng.random(x.value.shape) < 0.6,
            (Ellipsis, rng.integers(0, x.value.shape[-1], 3)) if x.value.shape[-1] else 0,
        ]
        index = data.draw(st.sampled_from(range(len(choices))).map(choices.__getitem__))
        return self.keep(rearranged(x.tensor[index], x, lambda a: a[index]))

    @rule(target=values, parts=st.lists(values, min_size=1, max_size=3), data=st.data())
    def joined(self, parts, data):
        """Concatenate, after bringing the others to the rank and the other lengths of the first, or stack."""
        first = parts[0].value.shape
        same = [part for part in parts if part.value.shape == first]
        if not first or data.draw(st.booleans()):
            axis = data.draw(st.integers(-len(first) - 1, len(first)))
            core, join, before = mt.stack, np.stack, axis % (len(first) + 1)
        else:
            axis = data.draw(st.integers(-len(first), len(first) - 1))
            before = axis % len(first)
            rest = first[:before] + first[before + 1 :]
            same = [p for p in parts if p.value.ndim == len(first)]
            same = [p for p in same if p.value.shape[:before] + p.value.shape[before + 1 :] == rest]
            core, join = mt.concatenate, np.concatenate
        terms = []
        for i, part in enumerate(same):

            def among_zeros(t, size, i=i):
                zeros = [np.zeros((len(t), *p.value.shape)) for p in same]
                zeros[i] = t
                return join(zeros, axis=before + 1)

            terms.append((part, among_zeros))
        return self.keep(made(core([p.tensor for p in same], axis), join([p.value for p in same], axis), *terms))

    @rule(target=values, x=values, y=values)
    def product(self, x, y):
        try:
            z = x.value @ y.value
        except ValueError:
            return multiple()
        a, b = x.value.ndim, y.value.ndim

        def of_x(t, size):
            # a vector on the left gets its axis as a row; the first axis of t is one more batch
            t = t[..., None, :] if a == 1 else t
            t = t.reshape(len(t), *(1,) * max(b - (t.ndim - 1), 0), *t.shape[1:])
            d = np.matmul(t, size(y.value)[:, None] if b == 1 else size(y.value))
            return d.reshape(len(t), *z.shape)

        def of_y(t, size):
            t = t[..., None] if b == 1 else t
            t = t.reshape(len(t), *(1,) * max(a - (t.ndim - 1), 0), *t.shape[1:])
            d = np.matmul(size(x.value)[None, :] if a == 1 else size(x.value), t)
            return d.reshape(len(t), *z.shape)

        return self.keep(made(x.tensor @ y.tensor, z, (x, of_x), (y, of_y)))

    @rule(target=values, x=values, y=values)
    def stop(self, x, y):
        """No gradient flows back through the product, which x does not wait for."""
        if not broadcastable(x.value.shape, y.value.shape):
            return multiple()
        return self.keep(entrywise(x.tensor + STOP(y.tensor * x.tensor), x.value + y.value * x.value, (x, 1.0)))

    @rule(y=values, seed=SEEDS, times=st.sampled_from([1, 1, 2]))
    def go_back(self, y, seed, times):
        self.backward(y, seed, times)

    def backward(self, y, seed, times):
        if not y.tensor.requires_grad:
            assert not y.derivatives
            return
        d = np.asarray(np.random.default_rng(seed).uniform(-2, 2, y.value.shape))
        for _ in range(times):
            y.tensor.backward(d)
        for leaf, t in y.derivatives.items():
            axes = tuple(range(1, t.ndim))
            shape = self.leaves[leaf].shape
            for into, part in (
                (self.expected, (t * d).sum(axis=axes)),
                (self.allowed, (y.magnitudes[leaf] * abs(d)).sum(axis=axes)),
            ):
                before = 0 if into[leaf] is None else into[leaf]
                into[leaf] = before + times * part.reshape(shape)

    def teardown(self):
        """Start from every value once, so that no operation goes unchecked."""
        for i, y in enumerate(self.kept):
            self.zero()
            self.backward(y, i, 1)
            self.the_gradients_agree()

    @rule()
    def forget(self):
        self.zero()

    def zero(self):
        for name, leaf in self.leaves.items():
            leaf.grad = self.expected[name] = self.allowed[name] = None

    @invariant()
    def the_gradients_agree(self):
        for name, leaf in self.leaves.items():
            if self.expected[name] is None:
                assert leaf.grad is None
                continue
            assert leaf.grad.shape == leaf.shape
            # some hundred roundings, each of at most EPS times the size of all terms
            wrong = np.abs(to_numpy(leaf.grad) - self.expected[name]) - 300 * EPS * self.allowed[name]
            assert (wrong <= 0).all(), (name, leaf.grad, self.expected[name])


TestRandomGraphs = RandomGraphs.TestCase
TestRandomGraphs.settings = settings(
    max_examples=6 * settings().max_examples,
    stateful_step_count=40,
    phases=[Phase.explicit, Phase.generate],  # add Phase.shrink to have a small graph found; it takes minutes
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
