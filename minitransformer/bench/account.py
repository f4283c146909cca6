"""An array that accounts for the time of everything that is done to it.

``Accounted`` is an ndarray. NumPy asks it to do every array operation in which it takes part; it does so on plain
arrays, times that, and books the time under the page that asked for it, found by looking up the stack, the direction
(forward or backward) and a kind. What an operation returns is ``Accounted`` again, so the whole step is on the books
once its parameters are. Floating-point operations are counted on the way.

What is booked is the operation itself, NumPy's own overhead included; what happens between operations is not. Not
booked either: views (reshaping, slicing), which cost next to nothing, and arithmetic on arrays that NumPy's functions
made and ``xp`` knows nothing of.
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
from minitransformer.autograd import Tensor
from minitransformer.bench.ceiling import Layout, Product

__all__ = ["KINDS", "Account", "Accounted", "Entry", "accounting"]

KINDS = ("matrix products", "softmax", "layer norm", "dropout", "cross-entropy", "other arithmetic", "optimiser")
"""What array operations are for. Scaling and masking the scores count as softmax."""

PRODUCTS = (np.matmul, np.dot)
PACKAGE = str(Path(arrays.__file__).parent)
MADE_BY = ("arange", "array", "asarray", "empty", "full", "ones", "zeros")
"""Functions of ``xp`` that make arrays out of none."""


class Entry(NamedTuple):
    """Where time is booked."""

    page: str
    """The name of the file, without its ending."""
    direction: str
    kind: str


class Account:
    """The books.

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
        ``"forward"`` or ``"backward"``: to be set by whoever runs the step.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[Entry, float] = defaultdict(float)
        self.calls: Counter[Entry] = Counter()
        self.products: Counter[Product] = Counter()
        self.arithmetic = 0
        self.direction = "forward"

    def book(self, page: str, kind: str, seconds: float) -> None:
        """Add the time of one operation."""
        entry = Entry(page, self.direction, kind)
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
    """Count the floating-point operations of a call, by the arrays that went in and came out.

    Parameters
    ----------
    function : callable
        What was called: a ufunc, ``einsum`` or anything else of NumPy's.
    method : str
        ``"__call__"``, or how else a ufunc was called: ``"reduce"``.
    args : sequence
        What went in.
    value : array
        What came out.

    Returns
    -------
    int
        One for each floating-point number that a ufunc makes, an exponential like a sum, or that a sum or a maximum
        takes in; for ``einsum`` one for each operand and entry of the largest; for a product a multiplication and an
        addition for each pair that meets. Comparing, choosing, copying and moving are not arithmetic: 0.
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


def kind_of(page: str) -> str:
    """Return the kind of an operation, other than a matrix product, that a page asked for."""
    if "cross_entropy" in page or "log_softmax" in page:
        return "cross-entropy"
    if "dropout" in page:
        return "dropout"
    if "norm" in page:
        return "layer norm"
    if page in ("softmax", "masking", "scaled_dot_product_attention"):
        return "softmax"
    return "other arithmetic"


_pages: dict[str, str | None] = {}


def _page(frame: FrameType | None) -> str:
    """Return the page that a call comes from: the nearest file of the package outside this room."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file not in _pages:
            path = Path(file)
            inside = file.startswith(PACKAGE) and path.parent != Path(__file__).parent and path != Path(arrays.__file__)
            _pages[file] = path.stem if inside else None
        if page := _pages[file]:
            return page
        frame = frame.f_back
    return "outside"


def _plain(value: Any) -> Any:
    """Return a value, or what it holds, with plain arrays in place of accounted ones."""
    if isinstance(value, Accounted):
        return value.view(np.ndarray)
    if isinstance(value, tuple | list):
        return type(value)(_plain(part) for part in value)
    return value


def _accounted(value: Any) -> Any:
    """Return a value, or what it holds, with accounted arrays in place of plain ones."""
    if isinstance(value, np.ndarray):
        return value.view(Accounted)
    if isinstance(value, tuple | list):
        return type(value)(_accounted(part) for part in value)
    return value


class Accounted(np.ndarray[Any, Any]):
    """An array whose operations are booked in ``Accounted.account``."""

    account: Account | None = None

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        out = options.pop("out", None)
        plain = [_plain(x) for x in inputs]
        options = {key: _plain(value) for key, value in options.items()}
        if out is not None:
            options["out"] = _plain(out)
        value = _booked(getattr(ufunc, method), ufunc, sys._getframe(1), plain, options)
        if out is not None:
            return out[0] if len(out) == 1 else out
        return _accounted(value)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        plain = [_plain(x) for x in args]
        given = {key: _plain(value) for key, value in options.items()}
        value = _booked(function, function, sys._getframe(1), plain, given)
        return options["out"] if options.get("out") is not None else _accounted(value)

    def __getitem__(self, index: Any) -> Any:
        parts = index if isinstance(index, tuple) else (index,)
        if not any(isinstance(part, np.ndarray | list) for part in parts):
            return super().__getitem__(index)  # a view
        value = _booked(self.view(np.ndarray).__getitem__, None, sys._getframe(1), [_plain(index)], {})
        return _accounted(value)

    def __setitem__(self, index: Any, value: Any) -> None:
        put = self.view(np.ndarray).__setitem__
        _booked(put, None, sys._getframe(1), [_plain(index), _plain(value)], {})

    def astype(self, *args: Any, **options: Any) -> Any:
        """Convert, and book it."""
        return _accounted(_booked(self.view(np.ndarray).astype, None, sys._getframe(1), list(args), options))

    def copy(self, *args: Any, **options: Any) -> Any:
        """Copy, and book it."""
        return _accounted(_booked(self.view(np.ndarray).copy, None, sys._getframe(1), list(args), options))


def _booked(
    call: Callable[..., Any], function: Any, frame: FrameType | None, args: list[Any], options: dict[str, Any]
) -> Any:
    """Do something to plain arrays and book its time."""
    start = time.perf_counter()
    value = call(*args, **options)
    seconds = time.perf_counter() - start
    account = Accounted.account
    if account is None:  # an array that has outlived its account
        return value
    page = _page(frame)
    is_product = function in PRODUCTS and getattr(value, "ndim", 0) >= 2
    account.book(page, "matrix products" if is_product else kind_of(page), seconds)
    if is_product:
        left, right, result = (Layout(x.shape, x.strides) for x in (*args[:2], value))
        account.products[Product(left, right, result, str(value.dtype))] += 1
    else:
        account.arithmetic += arithmetic(function, getattr(call, "__name__", ""), args, value)
    return value


@contextmanager
def accounting(account: Account, parameters: Sequence[Tensor]) -> Iterator[None]:
    """Put all that is computed from some parameters on the books, inside ``with accounting(...):``.

    Parameters
    ----------
    account : Account
        The books.
    parameters : sequence of Tensor
        Their data are accounted arrays inside, and the arrays that they were afterwards; their gradients become plain.
    """
    _ = arrays.backend()  # the namespace is filled at the first look
    namespace = vars(arrays.xp)
    made_by = {name: namespace[name] for name in MADE_BY}
    draws = [module for name, module in sys.modules.items() if name.startswith("minitransformer.")]
    draws = [module for module in draws if vars(module).get("random_bits") is arrays.random_bits]
    random_bits = arrays.random_bits
    data = [parameter.data for parameter in parameters]

    def making(make: Callable[..., Any]) -> Callable[..., Any]:
        def made(*args: Any, **options: Any) -> Any:
            given = args[0] if args else None
            if isinstance(given, Accounted) and make is made_by["asarray"] and len(args) == 1 and not options:
                return given
            return _accounted(_booked(make, None, sys._getframe(1), [_plain(x) for x in args], options))

        return made

    def drawn(rng: Any, shape: Any) -> Any:
        return _accounted(_booked(random_bits, None, sys._getframe(1), [rng, shape], {}))

    Accounted.account = account
    try:
        for parameter in parameters:
            parameter.data = parameter.data.view(Accounted)
        namespace.update({name: making(make) for name, make in made_by.items()})
        for module in draws:
            vars(module)["random_bits"] = drawn
        yield
    finally:
        Accounted.account = None
        namespace.update(made_by)
        for module in draws:
            vars(module)["random_bits"] = random_bits
        for parameter, array in zip(parameters, data, strict=True):
            parameter.data, parameter.grad = array, _plain(parameter.grad)
