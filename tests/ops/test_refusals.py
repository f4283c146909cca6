"""What operations refuse: the kind of error, the operation's name, and what was found."""

import re
import sys
from contextlib import suppress

import numpy as np
import pytest
from toml_cases import cases_from_toml

import minitransformer as mt
from minitransformer import ops
from minitransformer.arrays import Shapes
from minitransformer.testing import examples
from minitransformer.testing.case import is_float


def known(operation):
    """Return the examples of an operation; none while it has none, which another test asks for."""
    with suppress(LookupError):
        return examples(operation)
    return []


FLOATS = [
    (name, i)
    for name, operation in ops.registry.items()
    for example in known(operation)[:1]
    for i, x in enumerate(example.inputs)
    if is_float(x)
]
STATED = {
    name: check
    for name, operation in ops.registry.items()
    for check in vars(sys.modules[operation.forward.__module__]).values()
    if isinstance(check, Shapes)
}


def with_input(name, i, change):
    """Return a call of an operation with its first example, of which one input is changed."""
    example = examples(ops.registry[name])[0]
    inputs = [change(x) if n == i else x for n, x in enumerate(example.inputs)]
    return inputs, lambda form=ops.registry[name]: form(*map(tensor, inputs), **example.options)


def refused(call, kind, *found):
    for _ in range(2):  # what was refused once is not remembered as right
        with pytest.raises(kind) as caught:
            call()
        assert all(str(one) in str(caught.value) for one in found), caught.value


def error_of(call, *form):
    """Return what a call says when it refuses a value; nothing if it accepts it."""
    try:
        call(*form)
    except ValueError as error:
        return str(error)
    return ""


def is_mask(x):
    return getattr(x, "dtype", "") == "bool"


def tensor(x):
    return mt.Tensor(x) if is_float(x) else x


MASKED = [
    (name, example)
    for name, operation in ops.registry.items()
    for example in known(operation)
    if any(map(is_mask, (*example.inputs, *example.options.values())))
]


@pytest.mark.asks("an error that names its mask: as_mask of minitransformer/arrays")
@pytest.mark.parametrize(
    ("change", "kind"), [(lambda m: m.astype(float), TypeError), (lambda m: np.repeat(m, 2, axis=-1), ValueError)]
)
@pytest.mark.parametrize(("name", "example"), MASKED, ids=lambda value: getattr(value, "case", value))
def test_a_mask_of_numbers_or_of_another_shape_is_refused_in_both_forms(name, example, change, kind):
    def changed(x):
        return change(x) if is_mask(x) else x

    inputs = [*map(changed, example.inputs)]
    options = {key: changed(x) for key, x in example.options.items()}
    found = "float64" if kind is TypeError else next(x.shape for x in (*inputs, *options.values()) if is_mask(x))
    refused(lambda: ops.registry[name](*inputs, **options), kind, "mask", found)
    refused(lambda: ops.registry[name].reference(*map(tensor, inputs), **options), kind)


@pytest.mark.asks(
    "a TypeError that names the operation, the input and its type: check_floats of minitransformer/arrays"
)
@pytest.mark.parametrize("dtype", ["int64", "float16", "float32"])
@pytest.mark.parametrize(("name", "i"), FLOATS)
def test_an_input_of_another_type_is_named_with_the_type(name, i, dtype):
    inputs, call = with_input(name, i, lambda x: x.astype(dtype))
    parameter = [*ops.registry[name].signature.parameters][i]
    if dtype == "float32" and sum(map(is_float, inputs)) == 1:
        assert call().dtype == np.float32
    else:
        refused(call, TypeError, f"{name}: ", parameter, dtype)


@pytest.mark.parametrize(
    "name", ["silu", "gelu", "gelu_tanh", "swiglu", "rotary", "masking", "log_softmax", "layer_norm"]
)
def test_composed_forms_refuse_whole_numbers_too(name):
    example = examples(ops.registry[name])[0]
    inputs = [mt.Tensor(np.ones(x.shape, int)) if is_float(x) else x for x in example.inputs]
    refused(lambda: ops.registry[name].reference(*inputs), TypeError, f"{name}: x ", f"found {np.dtype(int)}")


@pytest.mark.asks(
    "a ValueError that names the operation and the shape, in both forms: Shapes of minitransformer/arrays"
)
@pytest.mark.parametrize(("name", "i"), FLOATS)
def test_an_input_that_has_grown_is_accepted_or_named_with_its_shape(name, i):
    """Sizes of examples differ, so an axis that others share must not grow."""
    axes = STATED[name].axes if name in STATED else {}
    x = examples(ops.registry[name])[0].inputs[i]
    for axis in range(x.ndim):
        inputs, call = with_input(name, i, lambda x, axis=axis: np.repeat(x, 2, axis=axis))
        own = [*axes.values()][i] if i < len(axes) else ()
        letter = own[axis - x.ndim] if len(own) >= x.ndim - axis else "..."
        shared = sum(letter in other for other in axes.values()) > 1 and letter != "..."
        error = error_of(call)
        assert bool(error_of(call, ops.registry[name].reference)) == bool(error)
        assert error or not shared, f"{letter} of {inputs[i].shape}"
        by = re.match(r"(\w+): |$", error)[1]
        named = str(inputs[i].shape) in error or by != name or name in ("convolution", "multi_head_attention")
        assert named if by in ops.registry else not error


@pytest.mark.parametrize(("name", "i"), [(name, i) for name, i in FLOATS if name in STATED])
def test_an_input_with_an_axis_too_few_is_named_with_its_shape(name, i):
    axes = [*STATED[name].axes.values()]
    leading = len(axes) == 1 and axes[0][0] == "..."  # which no other array shares: all of them may be left out
    inputs, call = with_input(name, i, lambda x: x[(..., *(0,) * (x.ndim - len(axes[0]) + 2 if leading else 1))])
    refused(call, ValueError, f"{name}: ", inputs[i].shape)


@pytest.mark.parametrize("name", [name for name, check in STATED.items() if check.filled])
def test_an_axis_that_must_have_entries_is_named(name):
    [letter] = STATED[name].filled
    inputs = [
        np.zeros([0 if one == letter else n for one, n in zip(axes[-x.ndim :], x.shape[-len(axes) :], strict=False)])
        for x, axes in zip(examples(ops.registry[name])[0].inputs, STATED[name].axes.values(), strict=False)
    ]
    refused(
        lambda: ops.registry[name](*inputs, **examples(ops.registry[name])[0].options),
        ValueError,
        f"{name}: ",
        f"{letter} is 0",
    )


@pytest.mark.parametrize("axis", [True, False, 1.0, np.True_, None])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_an_axis_is_a_whole_number(name, axis):
    x = mt.Tensor(np.zeros((2, 3)))
    for function in (ops.registry[name], ops.registry[name].reference):
        refused(lambda function=function: function(x, axis=axis), TypeError, f"{name}: ", "axis", repr(axis))


def a(*shape):
    return np.zeros(shape)


def mask(*shape):
    return np.ones(shape, dtype=bool)


def single(*shape):
    return np.zeros(shape, dtype=np.float32)


@cases_from_toml
def test_a_bad_value_is_refused_by_the_operation_with_what_was_found(call, error, found):
    names = {"np": np, "mt": mt, "a": a, "mask": mask, "single": single} | vars(ops)
    name = re.match(r"\w+", call)[0]
    refused(lambda: eval(compile(call, "<a call>", "eval"), names), error, f"{name}: ", found)
