"""Hypothesis strategies: inputs for `check` and `prove`, for your functions and this package's operations.

``inputs`` draws the arrays of a signature, in which the same letter means the same size::

    @given(strategies.inputs("(B, T, D), (D, F)"))
    def test_my_layer(inputs):
        check(my_layer, inputs=inputs)

It also draws an ``Example`` for each operation in ``mt.ops.registry``, and for one of your own that takes
floating-point arrays and states their shapes in the docstring of ``forward`` (see ``minitransformer.testing.shapes``)::

    @given(strategies.inputs(mt.ops.softmax))
    def test_softmax(example):
        prove(mt.ops.softmax, example.inputs, **example.options)

The parts, to build strategies from: ``sizes``, ``arrays``, ``masks``, ``ids`` and ``cotangents``. A strategy for an
operation of your own, which scales the rows of a matrix::

    @st.composite
    def scaled_rows(draw):
        n, d = draw(strategies.sizes(2))
        return draw(strategies.arrays((n, d))), draw(strategies.arrays((n, 1)))

Hypothesis draws the sizes, the flags and a seed; the entries come from a NumPy generator with that seed. A failing
example shrinks to small sizes and few flags, which makes it easy to understand; shrinking each entry too would take far
longer and add little. Special properties of entries (ties, zeros) are therefore flags.
"""

from minitransformer.testing.examples import Example
from minitransformer.testing.strategies.operations import *  # noqa: F403
from minitransformer.testing.strategies.operations import STRATEGIES
from minitransformer.testing.strategies.parts import arrays, cotangents, generators, ids, masks, sizes
from minitransformer.testing.strategies.signatures import inputs

__all__ = ["Example", "arrays", "cotangents", "generators", "ids", "inputs", "masks", "sizes", *STRATEGIES]
