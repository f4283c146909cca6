"""An array that records the time of every operation on it.

``CountingArray`` is an ndarray. NumPy calls it for every array operation that it is part of. It does the operation on
plain arrays and records the time by source file (found on the call stack), direction (forward or backward) and kind. An
operation returns a ``CountingArray`` again, so if the parameters are such arrays, the whole step is recorded.
Floating-point operations are counted as well.

The time of an operation includes NumPy's own overhead; the time between operations is not recorded. Neither are views
(reshaping, slicing), which cost almost nothing, nor arithmetic on arrays that NumPy's functions created outside of
``xp``.
"""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from minitransformer import arrays
from minitransformer.apps.measure.speed.ceiling import Layout, Product
from minitransformer.autograd import Tensor

KINDS = ("matrix products", "softmax", "layer norm", "dropout", "cross-entropy", "other arithmetic", "optimiser")
"""What array operations are for. Scaling and masking the scores count as softmax."""

PRODUCTS = (np.matmul, np.dot)
ARRAYS = Path(arrays.__file__).parent
PACKAGE = str(ARRAYS.parent)
CREATORS = ("arange", "array", "asarray", "empty", "full", "ones", "zeros")
"""Functions of ``xp`` that create arrays."""


class Entry(NamedTuple):
    """The source file, direction and kind of an operation."""

    source: str
    """The name of the file, without its ending."""
    direction: str
    kind: str


class Account:
    """The recorded times and counts.

    Attributes
    ----------
    seconds : dict of Entry to float
        The time of the operations.
    calls : counter of Entry to int
        How many there were.
    products : counter of Product to int
        Every matrix product, by its shapes and layouts, and how often it was done.
    arithmetic : int
        How many floating-point operations were done outside of matrix products; see ``arithmetic``.
    direction : str
        ``"forward"`` or ``"backward"``: set by the code that runs the step.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[Entry, float] = defaultdict(float)
        self.calls: Counter[Entry] = Counter()
        self.products: Counter[Product] = Counter()
        self.arithmetic = 0
        self.direction = "forward"

    def book(self, source: str, kind: str, seconds: float) -> None:
        """Add the time of one operation."""
        entry = Entry(source, self.direction, kind)
        self.seconds[entry] += seconds
        self.calls[entry] += 1

    def by_kind(self) -> dict[str, float]:
        """Return the seconds of each kind."""
        totals = dict.fromkeys(KINDS, 0.0)
        for entry, seconds in self.seconds.items():
            totals[entry.kind] += seconds
        return totals

    @property
    def flops(self) -> int:
        """How many floating-point operations the matrix products were."""
        return sum(product.flops * times for product, times in self.products.items())


def arithmetic(function: Any, method: str, args: Sequence[Any], value: Any) -> int:
    """Count the floating-point operations of a call of NumPy's, by the arguments and the result.

    One for each floating-point number that a ufunc makes, an exponential like a sum, or that a sum or a maximum (a
    ufunc's method ``"reduce"``) takes in; for ``einsum`` one for each operand and entry of the largest; for a product a
    multiplication and an addition for each pair that meets. Comparing, choosing, copying and moving are not arithmetic.
    """
    if getattr(getattr(value, "dtype", None), "kind", "") != "f":
        return 0
    if function in PRODUCTS:
        return 2 * value.size * args[0].shape[-1]
    if isinstance(function, np.ufunc):
        return value.size if method == "__call__" else np.size(args[0])
    if function is np.einsum:
        sizes = [np.size(x) for x in args[1:]]
        return len(sizes) * max(sizes)
    return 0


def kind_of(source: str) -> str:
    """Return the kind of an operation, other than a matrix product, that a source file asked for."""
    if "cross_entropy" in source or "log_softmax" in source:
        return "cross-entropy"
    if "dropout" in source:
        return "dropout"
    if "norm" in source:
        return "layer norm"
    if source in ("softmax", "masking", "scaled_dot_product_attention"):
        return "softmax"
    return "other arithmetic"


_sources: dict[str, str | None] = {}


def _source(frame: FrameType | None) -> str:
    """Return the source file that a call comes from: the nearest file of minitransformer outside this folder."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file not in _sources:
            path = Path(file)
            inside = file.startswith(PACKAGE) and path.parent not in (ARRAYS, Path(__file__).parent)
            _sources[file] = path.stem if inside else None
        if source := _sources[file]:
            return source
        frame = frame.f_back
    return "outside"


def _as_plain(value: Any) -> Any:
    """Return a value, or what it holds, with plain arrays in place of counting ones."""
    if isinstance(value, CountingArray):
        return value.view(np.ndarray)
    if isinstance(value, tuple | list):
        return type(value)(_as_plain(part) for part in value)
    return value


def _as_counting(value: Any) -> Any:
    """Return a value, or what it holds, with counting arrays in place of plain ones."""
    if isinstance(value, np.ndarray):
        return value.view(CountingArray)
    if isinstance(value, tuple | list):
        return type(value)(_as_counting(part) for part in value)
    return value


class CountingArray(np.ndarray[Any, Any]):
    """An array whose operations are recorded in ``CountingArray.account``."""

    account: Account | None = None

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        out = options.pop("out", None)
        plain = [_as_plain(x) for x in inputs]
        options = {key: _as_plain(value) for key, value in options.items()}
        if out is not None:
            options["out"] = _as_plain(out)
        value = _book(getattr(ufunc, method), ufunc, sys._getframe(1), plain, options)
        if out is not None:
            return out[0] if len(out) == 1 else out
        return _as_counting(value)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        plain = [_as_plain(x) for x in args]
        given = {key: _as_plain(value) for key, value in options.items()}
        value = _book(function, function, sys._getframe(1), plain, given)
        return options["out"] if options.get("out") is not None else _as_counting(value)

    def __getitem__(self, index: Any) -> Any:
        parts = index if isinstance(index, tuple) else (index,)
        if not any(isinstance(part, np.ndarray | list) for part in parts):
            return super().__getitem__(index)  # a view
        value = _book(self.view(np.ndarray).__getitem__, None, sys._getframe(1), [_as_plain(index)], {})
        return _as_counting(value)

    def __setitem__(self, index: Any, value: Any) -> None:
        put = self.view(np.ndarray).__setitem__
        _book(put, None, sys._getframe(1), [_as_plain(index), _as_plain(value)], {})

    def astype(self, *args: Any, **options: Any) -> Any:
        """Convert, and record it."""
        return _as_counting(_book(self.view(np.ndarray).astype, None, sys._getframe(1), list(args), options))

    def copy(self, *args: Any, **options: Any) -> Any:
        """Copy, and record it."""
        return _as_counting(_book(self.view(np.ndarray).copy, None, sys._getframe(1), list(args), options))


def _book(
    call: Callable[..., Any], function: Any, frame: FrameType | None, args: list[Any], options: dict[str, Any]
) -> Any:
    """Do something to plain arrays and record its time."""
    start = time.perf_counter()
    value = call(*args, **options)
    seconds = time.perf_counter() - start
    account = CountingArray.account
    if account is None:  # an array that has outlived its account
        return value
    source = _source(frame)
    is_product = function in PRODUCTS and getattr(value, "ndim", 0) >= 2
    account.book(source, "matrix products" if is_product else kind_of(source), seconds)
    if is_product:
        left, right, result = (Layout(x.shape, x.strides) for x in (*args[:2], value))
        account.products[Product(left, right, result, str(value.dtype))] += 1
    else:
        account.arithmetic += arithmetic(function, getattr(call, "__name__", ""), args, value)
    return value


@contextmanager
def accounting(account: Account, parameters: Sequence[Tensor]) -> Iterator[None]:
    """Record all operations on some parameters, and on what is computed from them, inside ``with accounting(...):``.

    Parameters
    ----------
    account : Account
        Where to record them.
    parameters : sequence of Tensor
        Their data are counting arrays inside, and the arrays that they were afterwards; their gradients become plain.
    """
    _ = arrays.backend()  # the namespace is filled at the first look
    namespace = vars(arrays.xp)
    creators = {name: namespace[name] for name in CREATORS}
    draws = [module for name, module in sys.modules.items() if name.startswith("minitransformer.")]
    draws = [module for module in draws if vars(module).get("random_bits") is arrays.random_bits]
    random_bits = arrays.random_bits
    data = [parameter.data for parameter in parameters]

    def book_creation(make: Callable[..., Any]) -> Callable[..., Any]:
        def create(*args: Any, **options: Any) -> Any:
            given = args[0] if args else None
            if isinstance(given, CountingArray) and make is creators["asarray"] and len(args) == 1 and not options:
                return given
            return _as_counting(_book(make, None, sys._getframe(1), [_as_plain(x) for x in args], options))

        return create

    def draw(rng: Any, shape: Any) -> Any:
        return _as_counting(_book(random_bits, None, sys._getframe(1), [rng, shape], {}))

    CountingArray.account = account
    try:
        namespace.update({name: book_creation(make) for name, make in creators.items()})
        for parameter in parameters:
            parameter.data = parameter.data.view(CountingArray)
        for module in draws:
            vars(module)["random_bits"] = draw
        yield
    finally:
        CountingArray.account = None
        namespace.update(creators)
        for module in draws:
            vars(module)["random_bits"] = random_bits
        for parameter, array in zip(parameters, data, strict=True):
            parameter.data, parameter.grad = array, _as_plain(parameter.grad)
