"""Operations whose docstring states the shapes of their inputs get examples and a strategy without an entry."""

import sys
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from toml_cases import cases_from_toml, toml_table

import minitransformer as mt
from minitransformer.arrays import Shapes
from minitransformer.testing import prove, strategies
from minitransformer.testing.examples import examples, examples_of_signature
from minitransformer.testing.shapes import inputs_in, inputs_of


def operation(documented, reference=None, name="scaled"):
    """Make an operation of x, scale and perhaps shift, whose inputs are documented in some way."""

    def forward(x, scale, shift=None):
        if scale.shape != x.shape[-1:] or 0 in scale.shape:
            raise ValueError("scaled: scale does not match x, or is empty")
        return x * scale + (0 if shift is None else shift), (x, scale, shift is None)

    def backward(saved, d_y):
        x, scale, no_shift = saved
        d_scale = (d_y * x).sum(axis=tuple(range(x.ndim - 1)))
        return d_y * scale, d_scale, None if no_shift else d_y.copy()

    forward.__doc__ = (
        f"Return x times scale.\n\n    Parameters\n    ----------\n{documented}\n\n    Returns\n    -------\n"
    )
    return mt.Operation(forward, backward, reference, name)


def scaled(x, scale, shift=None):
    return x * scale if shift is None else x * scale + shift


DOCUMENTED = toml_table(__file__, "DOCUMENTED")
OPERATION = operation(DOCUMENTED, scaled)


def test_fixed_examples_follow_and_are_proved():
    cases = examples(OPERATION)
    assert [example.case for example in cases] == ["with shift", "without shift"]
    shapes = [tuple(x.shape if x is not None else None for x in example.inputs) for example in cases]
    assert shapes == [((2, 3, 4), (4,), (2, 3, 4)), ((2, 3, 4), (4,), None)]
    for example in cases:
        assert prove(OPERATION, example.inputs, **example.options).reference is not None


def test_the_strategy_follows_and_is_proved():
    shapes, without = set(), set()

    @settings(max_examples=15)
    @given(strategies.inputs(OPERATION), strategies.inputs(OPERATION, extreme=True))
    def proved(moderate, extreme):
        for example in (moderate, extreme):
            x, scale, shift = example.inputs
            shapes.add(x.shape)
            without.add(shift is None)
            assert scale.size >= 1
            prove(OPERATION, example.inputs, **example.options)

    proved()
    assert {len(shape) for shape in shapes} == {1, 2, 3}
    assert any(0 in shape for shape in shapes)
    assert without == {True, False}


def test_several_inputs_on_a_line_and_any_shape():
    wanted = inputs_of(
        operation("    x, scale : arrays, shapes (B, T, D) and (D,)\n    shift : array, any shape, optional")
    )
    assert wanted.axes == {"x": ("B", "T", "D"), "scale": ("D",), "shift": ("...",)}
    assert wanted.optional == ["shift"]
    both = inputs_of(operation("    x, scale : arrays, shape (D,)"))
    assert both.axes == {"x": ("D",), "scale": ("D",)}
    assert both.shapes((), (5,)) == {"x": (5,), "scale": (5,)}


@cases_from_toml
def test_what_is_not_stated_is_asked_for(documented, names):
    unclear = operation(documented)
    for draw in (examples, strategies.inputs):
        with pytest.raises(LookupError, match=rf'for {names}; write "x : array, shape \(\.\.\., D\)" there'):
            draw(unclear)


def test_a_signature_gives_axes_and_smallest_sizes():
    wanted = inputs_in(" (..., T,D),( D, 3 ), (T,), (), D >= 1,T>=12")
    assert wanted.axes == {"0": ("...", "T", "D"), "1": ("D", "3"), "2": ("T",), "3": ()}
    assert wanted.least == {"T": 12, "D": 1}
    assert wanted.any_axes
    assert wanted.shapes((7,), (4, 5)) == {"0": (7, 4, 5), "1": (5, 3), "2": (4,), "3": ()}
    assert not inputs_in("(B, T, D), (D, F)").any_axes


@cases_from_toml
def test_a_signature_that_cannot_be_read_names_the_part(signature, part):
    with pytest.raises(ValueError, match=r"has a part that cannot be read: ") as caught:
        inputs_in(signature)
    assert f"read: {part!r}; write the shape of each array in brackets" in str(caught.value)
    with pytest.raises(ValueError, match="cannot be read"):
        strategies.inputs(signature)  # when the test is defined, not when it runs


def test_a_signature_has_fixed_examples():
    cases = {example.case: example.inputs for example in examples_of_signature("(..., D), (D, 3), (F,), D >= 1", "f4")}
    assert list(cases) == ["sizes differ", "no leading axes", "D = 1", "F = 1", "F = 0", "views"]
    shapes = {case: [x.shape for x in inputs] for case, inputs in cases.items()}
    assert shapes["sizes differ"] == shapes["views"] == [(2, 3, 4), (4, 3), (5,)]
    assert shapes["no leading axes"] == [(4,), (4, 3), (5,)]
    assert shapes["D = 1"] == [(2, 3, 1), (1, 3), (5,)]
    assert shapes["F = 0"] == [(2, 3, 4), (4, 3), (0,)]
    for case, inputs in cases.items():
        assert {x.dtype for x in inputs} == {np.dtype("f4")}
        assert (inputs[1] < 0).any()
        assert all(x.base is not None and x.strides[-1] < 0 for x in inputs) == (case == "views")
    assert [x.shape for x in examples_of_signature("(D), D >= 9")[0].inputs] == [(9,)]
    (scalar, pair) = examples_of_signature("(), (2)", "complex64", seed=1)[-1].inputs
    assert scalar.shape == ()
    assert pair.dtype == np.complex64
    assert pair.imag.all()


def test_operations_check_the_shapes_that_their_docstrings_state():
    stated = {}
    for operation in mt.ops.registry.values():
        with suppress(LookupError):
            stated[operation] = inputs_of(operation)
    for operation, inputs in stated.items():
        for check in vars(sys.modules[operation.forward.__module__]).values():
            if isinstance(check, Shapes):
                assert {name: tuple(axes) for name, axes in check.axes.items()} == inputs.axes
                assert check.filled == [axis for axis, least in inputs.least.items() if least]
    assert {"linear", "layer_norm", "feed_forward", "recurrence"} <= {operation.name for operation in stated}
