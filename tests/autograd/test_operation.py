"""Operations with a hand-written backward pass."""

import sys
from threading import Thread

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.arrays import to_numpy, uses_kernels
from minitransformer.autograd.graph import watching_operations
from minitransformer.override import override
from minitransformer.testing import gradcheck


def forward(x, weight, bias=None, scale=1.0):
    """Return scale * (x @ weight) + bias."""
    y = scale * (x @ weight)
    return (y if bias is None else y + bias), (x, weight, scale, bias is not None)


def backward(saved, d_y):
    x, weight, scale, has_bias = saved
    return scale * (d_y @ weight.T), scale * (x.T @ d_y), d_y.sum(axis=0) if has_bias else None


affine = mt.Operation(forward, backward, name="affine")


def arrays():
    rng = np.random.default_rng(0)
    return rng.standard_normal((5, 3)), rng.standard_normal((3, 2)), rng.standard_normal(2)


def test_an_operation_is_a_function_of_tensors():
    x, weight, bias = arrays()
    y = affine(mt.Tensor(x), mt.Tensor(weight), mt.Tensor(bias), scale=2.0)
    assert isinstance(y, mt.Tensor)
    assert np.array_equal(y.numpy(), 2 * (x @ weight) + bias)
    assert not y.requires_grad
    gradcheck(affine, (x, weight, bias), scale=1.5)
    gradcheck(affine, (x, weight))
    gradcheck(lambda x, bias: affine(x, weight, bias, scale=0.5), (x, bias))


def test_tensors_may_come_by_keyword():
    x, weight, bias = arrays()
    gradcheck(lambda x, weight, bias: affine(x, bias=bias, weight=weight, scale=3.0), (x, weight, bias))
    gradcheck(lambda x, weight: affine(weight=weight, x=x), (x, weight))
    gradcheck(lambda bias: affine(x, weight, bias=bias), (bias,))


def test_lists_and_arrays_are_inputs_too():
    y = affine([[1.0, 2.0]], np.array([[3.0], [4.0]]), [0.5])
    assert y.numpy().tolist() == [[11.5]]


def test_names():
    assert affine.name == "affine"
    assert repr(affine) == "Operation(affine)"
    assert affine.__doc__ == "Return scale * (x @ weight) + bias."
    assert mt.Operation(forward, backward).name == __name__.rpartition(".")[2]
    assert list(affine.signature.parameters) == ["x", "weight", "bias", "scale"]


def test_nothing_is_recorded_where_nothing_is_wanted():
    x, weight, _ = arrays()
    with mt.no_grad():
        assert not affine(mt.Tensor(x, requires_grad=True), weight).requires_grad


def broken(gradients):
    return mt.Operation(lambda x, y: (x * y, ()), lambda saved, d: gradients(d), name="broken")


def run(operation):
    x, y = mt.Tensor(np.ones((2, 3)), requires_grad=True), mt.Tensor(np.ones((2, 3)), requires_grad=True)
    operation(x, y).backward(np.ones((2, 3)))
    return x, y


def test_too_few_gradients_are_refused():
    with pytest.raises(ValueError, match="broken: the number of gradients from backward"):
        run(broken(lambda d: (d,)))


@pytest.mark.parametrize("wrong", [(3, 2), (2, 3, 1), (3,), (1, 3), ()])
def test_a_gradient_of_another_shape_is_refused(wrong):
    with pytest.raises(ValueError, match="broken: the gradient of input 1 has shape") as caught:
        run(broken(lambda d: (d, np.ones(wrong))))
    assert f"has shape {wrong}, but the input has shape (2, 3)" in str(caught.value)


def test_an_error_says_in_which_backward_pass_it_was():
    def fails(d):
        raise KeyError("missing")

    with pytest.raises(KeyError) as caught:
        run(broken(fails))
    assert "(in the backward pass of broken, d_output of shape (2, 3))" in caught.value.__notes__


def test_none_is_no_gradient():
    x, y = run(broken(lambda d: (None, 2 * d)))
    assert x.grad is None
    assert y.grad.tolist() == [[2] * 3] * 2


def test_none_stops_the_gradient_but_not_the_others():
    stop = mt.Operation(lambda x: (x, ()), lambda saved, d: (None,), name="stop")
    x = mt.Tensor([3.0], requires_grad=True)
    y = x * x
    (stop(y * 5) + y).backward([1.0])
    assert x.grad.tolist() == [6]
    (stop(y * y) * 2).backward([1.0])
    assert x.grad.tolist() == [6]


def test_gradients_take_the_type_of_the_inputs():
    operation = mt.Operation(lambda x: (x, ()), lambda saved, d: (d.astype(np.float64) * 2,), name="widening")
    x = mt.Tensor(np.ones(3, dtype=np.float32), requires_grad=True)
    operation(x * 1).backward([1.0, 2.0, 3.0])
    assert x.grad.dtype == np.float32
    assert x.grad.tolist() == [2, 4, 6]


def test_d_output_has_the_type_of_the_output():
    seen = []
    watch = mt.Operation(lambda x: (x * 2, ()), lambda saved, d: (seen.append(d.dtype) or d * 2,), name="watch")
    widening = mt.Operation(lambda x: (x, ()), lambda saved, d: (d.astype(np.float64),), name="widening")
    x = mt.Tensor(np.ones(3, dtype=np.float32), requires_grad=True)
    watch(x).backward(np.ones(3))
    widening(watch(x)).backward(np.ones(3, dtype=np.float32))
    (watch(x) * np.ones(3)).backward(np.ones(3))
    assert seen == [np.float32] * 3


def test_one_operation_used_twice_keeps_apart_what_it_saved():
    x, weight, _ = arrays()
    gradcheck(lambda x, weight: affine(affine(x, weight, scale=0.5).T, affine(x, weight), scale=2.0), (x, weight))


def test_an_operation_keeps_what_it_was_made_from():
    def forward(x):
        """Return x."""
        return x.copy(), None

    def reference(x):
        return x * 1.0

    def undocumented(x):
        return x.copy(), None

    def backward(saved, d_y):
        return (d_y.copy(),)

    copied = mt.Operation(forward, backward, reference=reference, name="copied")
    assert copied.reference is reference
    assert copied.__doc__ == "Return x."
    assert mt.Operation(undocumented, backward).__doc__ == mt.Operation.__doc__
    assert mt.Operation(undocumented, backward).reference is None


def test_a_tensor_passed_by_keyword_is_an_input_of_a_new_operation():
    scaled = mt.Operation(
        lambda x, y=None: (x * y, (x, y)), lambda saved, d: (d * saved[1], d * saved[0]), name="scaled"
    )
    x, y = mt.Tensor(np.array([2.0, 3.0]), requires_grad=True), mt.Tensor(np.array([5.0, 7.0]), requires_grad=True)
    scaled(x, y=y).backward(np.array([1.0, 10.0]))
    np.testing.assert_array_equal(y.grad, [2.0, 30.0])
    np.testing.assert_array_equal(x.grad, [5.0, 70.0])


def test_what_is_given_by_keyword_is_an_input_like_any_other():
    x, weight = np.ones((2, 3)), np.ones((3, 4))
    for bias in (np.ones(4), [1.0, 1.0, 1.0, 1.0], mt.Tensor(np.ones(4))):
        assert mt.ops.linear(x, weight, bias=bias).numpy().tolist() == [[4.0] * 4] * 2
    assert mt.ops.layer_norm([[1.0, 3.0]], gain=[2.0, 2.0], bias=[0.0, 1.0], eps=0.0).numpy().tolist() == [[-2, 3]]


def test_a_tensor_that_would_lose_its_gradient_is_refused():
    def forward(x, *, w):
        return x * w, (x, w)

    product = mt.Operation(forward, lambda saved, d: (d * saved[1],), name="product")
    with pytest.raises(TypeError, match="product: a tensor by keyword gets no gradient; make it positional"):
        product(mt.Tensor([1.0]), w=mt.Tensor([2.0], requires_grad=True))


def test_passes_that_return_the_wrong_thing_are_named():
    x = mt.Tensor([3.0, 4.0], requires_grad=True)
    with pytest.raises(TypeError, match=r"square: forward returned ndarray, expected \(value, saved\)"):
        mt.Operation(lambda x: x * x, None, name="square")(x)
    y = mt.Operation(lambda x: (x * x, x), lambda x, d: 2 * x * d, name="square")(x)
    with pytest.raises(TypeError, match="square: backward returned ndarray, expected a tuple of gradients"):
        y.backward([1.0, 1.0])
    y = mt.Operation(lambda x: (x * x, x), lambda x, d: (2.0,), name="square")(x)
    with pytest.raises(ValueError, match=r"square: the gradient of input 0 has shape \(\)"):
        y.backward([1.0, 1.0])


def test_a_backward_pass_may_be_told_which_gradients_are_needed():
    told = []

    def backward(saved, d, needs):
        told.append(needs)
        return tuple(d * factor if needed else None for factor, needed in zip(saved[::-1], needs, strict=True))

    product = mt.Operation(lambda x, y: (x * y, (x, y)), backward, name="product")
    x, fixed = mt.Tensor([2.0], requires_grad=True), mt.Tensor([3.0])
    for inputs in ((x, fixed), (fixed, x), (x, x)):
        product(*inputs).backward()
    assert told == [(True, False), (False, True), (True, True)]
    assert x.grad.tolist() == [3 + 3 + 4]


def test_the_passes_in_use_are_the_functions_of_the_source_file():
    """No wrapper is called before them; with CuPy, some are kernels."""
    for name, operation in mt.ops.registry.items():
        module = sys.modules[f"minitransformer.ops.{name}"]
        assert operation.written == (module.forward, module.backward)
        if not uses_kernels():
            assert (operation.forward, operation.backward) == operation.written


def test_a_pass_is_overridden_when_it_runs():
    x = mt.Tensor([[2.0, 3.0]], requires_grad=True)
    y = affine(x, [[1.0], [1.0]])
    with override(affine, backward=lambda saved, d_y: (d_y * saved[0],)):
        y.backward([[10.0]])
    assert x.grad.tolist() == [[20, 30]]
    with override(affine, forward=lambda *arrays, **options: (arrays[0] * 7, arrays)):
        assert affine(x, [[1.0], [1.0]]).data.tolist() == [[14, 21]]


def test_a_hook_sees_each_operation_and_rule_of_its_thread():
    seen, x = [], mt.Tensor([[2.0, 3.0]], requires_grad=True)

    def watch(operation, inputs, options, result):
        seen.append((getattr(operation, "name", operation), len(inputs), dict(options), result))

    with watching_operations(watch):
        y = affine(x, [[1.0], [1.0]], scale=2.0).sum(axis=0)
        mt.concatenate([y, y])
        thread = Thread(target=lambda: affine(x, [[1.0], [1.0]]))
        thread.start()
        thread.join()
        with pytest.raises(ZeroDivisionError), watching_operations(lambda *_: 1 / 0):
            x.exp()
        x.log()
    x.exp()
    assert [(name, n, options) for name, n, options, _ in seen] == [
        ("affine", 2, {"scale": 2.0}),
        ("sum", 1, {"axis": 0, "keepdims": False}),
        ("concatenate", 2, {}),
        ("log", 1, {}),
    ]
    assert seen[1][-1] is y


def test_a_hook_may_replace_a_value_and_its_backward_pass():
    def watch(operation, inputs, options, result):
        result._data = 10 * result._data
        result._node.backward = lambda d: (7 * d,)

    x = mt.Tensor([2.0], requires_grad=True)
    with watching_operations(watch):
        y = x.exp()
    y.backward([1.0])
    np.testing.assert_allclose(to_numpy(y.data), [10 * np.exp(2)])
    assert x.grad.tolist() == [7]
