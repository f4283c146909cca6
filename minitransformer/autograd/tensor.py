"""The tensor: an array that records how it was computed."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import accumulate as running_sums
from typing import TYPE_CHECKING, Any, SupportsIndex, cast

import numpy as np

from minitransformer.arrays import Array, Watch, asarray, check_gradient, to_numpy, xp
from minitransformer.autograd.graph import Edge, Node, _recording, accumulate, backpropagate, is_recording
from minitransformer.autograd.numpy_calls import ArrayUfunc, call_function, no_comparison
from minitransformer.autograd.rules import RULES, unbroadcast

Axis = int | tuple[int, ...] | None
_property: Any = property  # an attribute made by it has the type that it is annotated with


def edges_to(inputs: Sequence[Any]) -> list[Edge | None]:
    """Return an edge for each input that requires a gradient, None for the others (and for all under no_grad)."""
    recording = is_recording()
    return [x._edge() if recording and isinstance(x, Tensor) and x._requires_grad else None for x in inputs]


def make_tensor(
    operation: Any,
    inputs: Sequence[Any],
    options: Mapping[str, Any],
    value: Array,
    edges: Sequence[Edge | None],
    backward: Callable[[Array], Sequence[Array | None]],
) -> Tensor:
    """Return the tensor of an operation's value, with a node if an input requires a gradient.

    The operation is an `Operation` or the name of a rule. Inside `on_arrays` the value itself is returned.
    """
    # NumPy turns arrays without axes into scalars; a tensor always holds an array.
    value = value if isinstance(value, xp.ndarray) else asarray(value)
    if _recording.arrays:
        return cast(Any, value)
    tensor = Tensor.__new__(Tensor)
    tensor._data = value
    tensor._grad = tensor._watch = None
    tensor._requires_grad = any(edges)
    tensor._node = None
    if tensor._requires_grad:
        tensor._node = Node(getattr(operation, "name", operation), edges, backward)
    if (watch := _recording.watch) is not None:
        watch(operation, inputs, options, tensor)
    return tensor


def _operands(inputs: Sequence[Any]) -> list[Any]:
    """Return arrays, and Python numbers for scalars, which never widen an array's type; nor do whole numbers."""
    operands = [x._data if isinstance(x, Tensor) else x for x in inputs]
    alone = len(inputs) == 1
    if alone and isinstance(inputs[0], Tensor):
        return operands
    for i, x in enumerate(operands):
        if not alone and (isinstance(x, np.generic) or (isinstance(x, np.ndarray) and not x.ndim and inputs[i] is x)):
            operands[i] = x.item()
        if alone or not isinstance(operands[i], int | float):
            operands[i] = asarray(operands[i])
    types = {x.dtype for x in operands if hasattr(x, "dtype") and x.ndim > 0 and x.dtype.kind == "f"}
    if len(types) == 1:
        (dtype,) = types
        return [x.astype(dtype, copy=False) if hasattr(x, "dtype") and x.dtype.kind != "b" else x for x in operands]
    return operands


def _apply(name: str, *inputs: Any, **options: Any) -> Tensor:
    """Apply an elementary operation by its rule in the table."""
    rule = RULES[name]
    try:
        value, saved = rule.forward(*_operands(inputs), **options)
    except Exception as error:
        shapes = [x.shape if hasattr(x, "shape") else np.shape(x) for x in inputs]
        error.add_note(f"(in {name}, of shapes {' and '.join(map(str, shapes))})")
        raise
    edges = edges_to(inputs)

    def backward(d_output: Array) -> list[Array | None]:
        return [
            None if edge is None or gradient is None else unbroadcast(gradient(d_output, *saved), edge.shape)
            for edge, gradient in zip(edges, rule.gradients, strict=True)
        ]

    return make_tensor(name, inputs, options, value, edges, backward)


def _copy(x: Any) -> Any:
    """Return a copy of a list or an array, also that of a tensor; anything else as it is."""
    x = x._data if isinstance(x, Tensor) else x
    return deepcopy(x) if isinstance(x, list) or hasattr(x, "shape") else x


def _operator(name: str, reflected: bool = False) -> Callable[[Any, Any], Tensor]:
    if reflected:  # other + tensor
        return lambda self, other: _apply(name, other, self)
    return lambda self, other: _apply(name, self, other)


class Tensor:
    """An array through which gradients flow.

    Parameters
    ----------
    data : array, number or nested lists of numbers
        The values. An array of the library in use is taken as it is, without a copy.
    requires_grad : bool
        Whether ``backward`` adds the gradient of the loss with respect to this tensor to ``grad``.

    Attributes
    ----------
    data : array
        The values. Change them before the forward pass or after the backward pass. In between, ``backward`` raises an
        error if they were written to through the ``data`` of a leaf with ``requires_grad``; after assigning a new
        array, the old graph remains correct. It does not notice other changes in place, such as those of a tensor
        without ``requires_grad``, of a result, or through an array that was taken from ``data`` before the forward
        pass: then the gradients mix old and new values. Indices, token ids, masks and conditions may change: their
        values are copied. Those that an `Operation` of your own saves, and what a function given to ``nn.recompute``
        reads, are not.
    grad : array or None
        Sum of the gradients so far, in ``data``'s shape; only leaves (tensors that no operation made) collect one.
        ``mt.trace`` shows those of all results in a model.
    requires_grad : bool
        Whether gradients flow to or through this tensor.

    Raises
    ------
    TypeError
        If ``requires_grad`` is True for values that are not floating-point numbers, or the data are masked.

    Examples
    --------
    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    array([2., 4.])
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Tensor]: ...

    __slots__ = ("__weakref__", "_data", "_grad", "_node", "_requires_grad", "_watch")
    __array_ufunc__ = ArrayUfunc()
    __array_function__ = call_function

    def __init__(self, data: Any, requires_grad: bool = False) -> None:
        if isinstance(data, Tensor):
            raise TypeError("Tensor: the data is a Tensor already; use tensor.detach() for one without its graph")
        self._data: Array = asarray(data)
        self.requires_grad = requires_grad
        self._grad: Array | None = None
        self._node: Node | None = None
        self._watch: Watch | None = None  # of a leaf, while a graph waits for its backward pass

    @property
    def data(self) -> Array:
        """The values."""
        if self._watch is not None:
            self._watch.lend()
        return self._data

    @data.setter
    def data(self, values: Any) -> None:
        array = asarray(values)
        check_gradient(self._requires_grad, array)
        self._data, self._watch = array, None

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to or through this tensor."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        check_gradient(wanted, self._data)
        self._requires_grad = wanted

    @property
    def grad(self) -> Array | None:
        """The sum of the gradients so far; a result of an operation collects none, and says so in a warning."""
        if self._node is not None and self._grad is None:
            warnings.warn(
                f"grad: {self._node.name} computed this tensor, and only leaves collect a gradient. Continue with "
                "y = mt.Tensor(y.data, requires_grad=True) to get its gradient, or use mt.trace for those in a model",
                stacklevel=2,
            )
        return self._grad

    @grad.setter
    def grad(self, gradient: Array | None) -> None:
        self._grad = gradient

    def _edge(self) -> Edge:
        """Return the edge from an operation to this tensor."""
        if self._node is None and (self._watch is None or self._watch.has_changed()):
            self._watch = Watch(self._data)
        return Edge(self._node or self, self._data.shape, self._data.dtype, self._watch)

    shape: tuple[int, ...] = _property(lambda self: self._data.shape, doc="The length of each axis.")
    ndim: int = _property(lambda self: self._data.ndim, doc="The number of axes.")
    size: int = _property(lambda self: self._data.size, doc="The number of entries.")
    dtype: np.dtype[Any] = _property(lambda self: self._data.dtype, doc="The type of the entries.")
    T: Tensor = _property(
        lambda self: self.transpose(*range(self.ndim)[::-1]), doc="The tensor with its axes in reverse order."
    )

    def numpy(self) -> Array:
        """Return the values as a NumPy array."""
        return to_numpy(self.data)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("a Tensor is not an array: use .data for its array, or .numpy() for a NumPy array")

    def item(self) -> float:
        """Return the only entry as a Python number, without a graph. On a GPU this waits for the device."""
        return self._data.item()

    def detach(self) -> Tensor:
        """Return a tensor with the same values and no graph."""
        return Tensor(self.data)

    def backward(self, d_output: Any = None, release: bool = False) -> None:
        """Add the gradient of this tensor to the ``grad`` of every leaf that it was computed from.

        Parameters
        ----------
        d_output : array, optional
            The gradient of the loss with respect to this tensor, in its shape. May be left out if the tensor is a
            single number, such as the loss: then it is 1.
        release : bool
            Free the saved arrays during the pass, as a training loop does. By default the graph is kept, and a second
            ``backward`` adds the same gradients again, unless an optimiser's step has changed the saved values.

        Raises
        ------
        RuntimeError
            If no gradient flows to this tensor, or the graph has been released.
        ValueError
            If ``d_output`` is missing or has another shape.
        """
        if not self.requires_grad:
            raise RuntimeError(
                "backward: no tensor that this one was computed from has requires_grad=True, "
                "or it was computed under no_grad()"
            )
        if d_output is None:
            if self.size != 1:
                raise ValueError(
                    f"backward: a tensor of shape {self.shape} is not one number, so it needs a d_output "
                    "of that shape; or reduce it to a number first, by .sum() for example"
                )
            d_output = 1.0
        d_output = d_output.data if isinstance(d_output, Tensor) else asarray(d_output)
        if d_output.shape != self.shape and not (d_output.ndim == 0 and self.size == 1):
            raise ValueError(f"backward: d_output has shape {d_output.shape}, but the tensor has shape {self.shape}")
        d_output = d_output.astype(self.dtype).reshape(self.shape)
        if self._node is None:
            accumulate(self, d_output)
        else:
            backpropagate(self._node, d_output, release)

    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = no_comparison
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        values = np.array2string(self.numpy(), separator=", ", prefix="Tensor(")
        return f"Tensor({values}{', requires_grad=True' if self.requires_grad else ''})"

    def __len__(self) -> int:
        return len(self._data)

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __format__(self, spec: str) -> str:
        if spec and self.size != 1:
            raise TypeError(f"format: a tensor of shape {self.shape} is not one number; format its entries")
        return format(self.item() if spec else str(self), spec)

    def __float__(self) -> float:
        # float(t), math.exp(t) and array[0] = t all come here. Only the code that does it tells whether it is meant:
        # it names float, or not.
        if self._requires_grad and is_recording() and "float" not in sys._getframe(1).f_code.co_names:
            warnings.warn(
                "a tensor with a gradient was used as a number, which has none. Write float(x) if that is meant; "
                "otherwise mt.exp(x) for math.exp(x), and mt.stack([x, y]) for x and y as entries of an array",
                stacklevel=2,
            )
        return float(self.item())

    def __copy__(self) -> Tensor:
        """Return a tensor with the same values, and the same graph if it has one."""
        other = type(self).__new__(type(self))
        state: Any = object.__getstate__(self)  # the attributes of a subclass, and the slots
        for part in filter(None, state):
            for name, value in part.items():
                setattr(other, name, value)
        return other

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        # copy.deepcopy and pickle ask for this
        if self._node is not None:
            raise TypeError(
                f"{self._node.name} computed this tensor, and a deep copy or a pickle of it would not belong to its "
                "graph; use .detach() for its values"
            )
        return super().__reduce_ex__(protocol)

    def __bool__(self) -> bool:
        return bool(self._data)

    def __getitem__(self, index: Any) -> Tensor:
        parts = index if isinstance(index, tuple) else (index,)
        # Copies: the caller may change arrays and lists before the backward pass.
        parts = tuple([part if isinstance(part, int | slice) else _copy(part) for part in parts])
        return _apply("index", self, index=parts)

    __neg__ = lambda self: _apply("negative", self)  # noqa: E731
    __abs__ = lambda self: _apply("abs", self)  # noqa: E731
    __add__, __radd__ = _operator("add"), _operator("add", reflected=True)
    __sub__, __rsub__ = _operator("subtract"), _operator("subtract", reflected=True)
    __mul__, __rmul__ = _operator("multiply"), _operator("multiply", reflected=True)
    __truediv__, __rtruediv__ = _operator("divide"), _operator("divide", reflected=True)
    __pow__, __rpow__ = _operator("power"), _operator("power", reflected=True)
    __matmul__ = lambda self, other: matmul(self, other)  # noqa: E731
    __rmatmul__ = lambda self, other: matmul(other, self)  # noqa: E731

    # The methods below use only the values of self, so they work as functions of arrays as well. Element-wise ones
    # (exp, log, ...) come from the table of rules: see the end of this file.

    def sum(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """Return the sum over an axis, several, or all."""
        return _apply("sum", self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """Return the mean over an axis, several, or all."""
        return _apply("mean", self, axis=axis, keepdims=keepdims)

    def max(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """Return the maximum over an axis, several, or all; tied entries share the gradient."""
        return _apply("max", self, axis=axis, keepdims=keepdims)

    def min(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """Return the minimum over an axis, several, or all; tied entries share the gradient."""
        return _apply("min", self, axis=axis, keepdims=keepdims)

    def prod(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """Return the product over an axis, several, or all."""
        return _apply("prod", self, axis=axis, keepdims=keepdims)

    def norm(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """Return the Euclidean norm over an axis, several, or all.

        For a vector of zeros the gradient is zero, the shortest of its subgradients: all vectors of norm 1 at most.
        """
        return _apply("norm", self, axis=axis, keepdims=keepdims)

    def var(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """Return the mean squared distance from the mean over an axis, several, or all: the divisor is n, not n - 1."""
        centred = self - Tensor.mean(self, axis, keepdims=True)
        return Tensor.mean(centred * centred, axis, keepdims)

    def std(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """Return the square root of ``var``; where all entries are equal the gradient is zero, as that of ``norm``."""
        centred = self - Tensor.mean(self, axis, keepdims=True)
        length = Tensor.norm(centred, axis, keepdims)
        return length / (centred.size / max(length.size, 1)) ** 0.5

    def cumsum(self, axis: int | None = None) -> Tensor:
        """Return the running sums along an axis; without one, of all entries in order."""
        return _apply("cumsum", self, axis=axis)

    def clip(self, low: Any = None, high: Any = None) -> Tensor:
        """Return each entry, or the limit that it exceeds; where they tie, each receives half of the gradient.

        The limits are numbers, arrays or tensors, with low below high.
        """
        if low is None and high is None:
            raise ValueError("clip: expected low, high or both, found neither")
        x = self if low is None else maximum(self, low)
        return x if high is None else minimum(x, high)

    def reshape(self, *shape: Any) -> Tensor:
        """Return the same entries in another shape; one length may be -1, which infers it."""
        return _apply("reshape", self, shape=shape[0] if len(shape) == 1 else shape)

    def transpose(self, *axes: Any) -> Tensor:
        """Return the tensor with its axes in the given order, or in reverse order."""
        axes = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return _apply("transpose", self, axes=tuple(axes) if axes else tuple(range(np.ndim(self)))[::-1])

    def swapaxes(self, first: int, second: int) -> Tensor:
        """Return the tensor with two axes swapped."""
        return _apply("swapaxes", self, axes=(first, second))


def matmul(x: Any, y: Any) -> Tensor:
    """Return the matrix product ``x @ y``; leading axes are batches and broadcast.

    A vector is a row on the left and a column on the right, and the product drops that axis.
    """
    x, y = (v if isinstance(v, Tensor) else Tensor(v) for v in (x, y))
    if x.ndim == 0 or y.ndim == 0 or x.shape[-1] != y.shape[-2 if y.ndim > 1 else 0]:
        raise ValueError(
            f"matmul: shapes {x.shape} and {y.shape} do not match: "
            "the last axis of the first must be as long as the second to last of the second"
        )
    row, column = x.ndim == 1, y.ndim == 1
    product = _apply("matmul", x.reshape(1, -1) if row else x, y.reshape(-1, 1) if column else y)
    if row or column:
        shape = product.shape
        product = product.reshape(shape[:-2] + (() if row else shape[-2:-1]) + (() if column else shape[-1:]))
    return product


def maximum(x: Any, y: Any) -> Tensor:
    """Return the larger of x and y, element-wise; where they tie, each receives half of the gradient."""
    return _apply("maximum", x, y)


def minimum(x: Any, y: Any) -> Tensor:
    """Return the smaller of x and y, element-wise; where they tie, each receives half of the gradient."""
    return _apply("minimum", x, y)


def where(condition: Any, x: Any, y: Any) -> Tensor:
    """Return x where the condition (boolean) is True, else y, element-wise."""
    condition = asarray(_copy(condition))
    if condition.dtype.kind != "b":
        raise TypeError(f"where: the condition must be boolean, found {condition.dtype}")
    return _apply("where", condition, x, y)


def concatenate(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Return the tensors joined along an existing axis."""
    tensors = [x if isinstance(x, Tensor) else Tensor(x) for x in tensors]
    value = xp.concatenate([x._data for x in tensors], axis=axis)
    ends = list(running_sums(x.shape[axis] for x in tensors))[:-1]
    # The number of inputs varies, so this rule is not in the table: split d where the inputs were joined.
    return make_tensor("concatenate", tensors, {}, value, edges_to(tensors), lambda d: xp.split(d, ends, axis=axis))


def stack(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Return the tensors, all of one shape, stacked along a new axis."""
    tensors = [x if isinstance(x, Tensor) else Tensor(x) for x in tensors]
    n = tensors[0].ndim + 1 if tensors else 1
    if not -n <= axis < n:
        raise ValueError(f"stack: axis {axis} is out of range; number of axes of the result: {n}")
    place = axis % n
    return concatenate([x.reshape(*x.shape[:place], 1, *x.shape[place:]) for x in tensors], axis=place)


def _method(name: str, doc: str) -> Callable[[Any], Tensor]:
    def method(self: Any) -> Tensor:
        return _apply(name, self)

    method.__name__, method.__qualname__, method.__doc__ = name, f"Tensor.{name}", doc
    return method


for _name, _rule in RULES.items():
    if _rule.doc:
        setattr(Tensor, _name, _method(_name, _rule.doc))
