"""``gradcheck``: the engine of ``check`` for functions of this project's tensors, in float64.

Its claim is ``quick``: a subgradient passes, and so does what rounding hides; a jump is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitransformer.arrays import to_numpy
from minitransformer.testing.adapters import Tensors
from minitransformer.testing.case import Case, in_float64, is_float
from minitransformer.testing.claim import Claim
from minitransformer.testing.comparison import MAX_ENTRIES, N_DIRECTIONS
from minitransformer.testing.layout import leaves
from minitransformer.testing.report import CheckError, Report, Stop, require_sensible
from minitransformer.testing.verdicts import find_verdict

GradientReport = Report
GradientError = CheckError


def gradcheck(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    names: Sequence[str] | None = None,
    d_output: Any = None,
    tolerance: float = 1e-7,
    max_entries: int = MAX_ENTRIES,
    n_directions: int = N_DIRECTIONS,
    seed: int = 0,
    smooth: bool = False,
    detects: float | None = None,
    **options: Any,
) -> Report:
    """Compare a function's backward pass with finite differences.

    Parameters
    ----------
    function : callable
        A function of tensors that returns a tensor, or a tuple, list or dict of them; an ``Operation`` is one. It must
        be deterministic: if it draws from its own generator, it has to seed it on each call.
    inputs : sequence of array or other
        The arguments of the function. Gradients of floating-point arrays are checked, in float64; other arguments are
        passed on unchanged, random generators as copies, so that all calls draw the same numbers. Infinite entries
        cannot be moved: their gradients are wrong only if they are not finite.
    tolerance : float
        The allowed relative error, beyond the error of the measurement itself.
    smooth : bool
        Whether the function is known to have no narrow steep part near the inputs. Then wrong gradients are found with
        fewer calls; if the assumption is false, right gradients may be reported as wrong.
    names, d_output, max_entries, n_directions, seed, detects
        As in ``examine``.
    **options
        Passed on to the function.

    Returns
    -------
    Report
        The comparisons and how well they agree.

    Raises
    ------
    AssertionError
        If a gradient is wrong, if finite differences decide nothing where smooth pieces of the function meet or between
        neighbouring numbers, if an error of ``detects`` might pass, or if the function wrote into its input. The
        message shows the input, the index, both numbers, and the cause where it is clear. It is a ``GradientError``
        with the ``report``.
    TypeError
        If the inputs are one array instead of a sequence of them.
    ValueError
        If the check is impossible: no input has a gradient, or the function is not deterministic or not finite.

    Examples
    --------
    >>> x = np.array([[0.5, -1.0, 2.0]])
    >>> mt.testing.gradcheck(mt.ops.softmax, [x]).worst_error < 1e-7
    True
    >>> wrong = mt.Operation(lambda x: (x * x, x), lambda x, d_y: (x * d_y,), name="square")
    >>> mt.testing.gradcheck(wrong, [x])
    Traceback (most recent call last):
        ...
    minitransformer.testing.report.CheckError: ...
    """
    require_sensible("gradcheck", max_entries, n_directions, detects)
    if not 0 < tolerance < 1:
        raise ValueError(f"gradcheck: tolerance is {tolerance!r}; expected a relative error above 0 and below 1")
    wide = [np.array(to_numpy(x), order="C") if is_float(x) else x for x in in_float64("gradcheck", function, inputs)]
    case = Case("gradcheck", function, wide, options, names, Tensors())
    try:
        claim = Claim(case, np.random.default_rng(seed), d_output, quick=True)
        claim.tolerance, claim.smooth = tolerance, smooth
        if not any(getattr(y, "requires_grad", False) for _, y in leaves(claim.recorded)):
            raise Stop("malformed", "the output has no graph behind it; make it by operations on the input tensors")
        report = find_verdict(claim, max_entries, n_directions)
    except Stop as stop:
        raise stop.as_error(case.name, case.title) from None
    report.constants = [name for i, name in enumerate(case.names) if i not in case.moving]
    report.demand(detects)
    if not report.passed:
        raise CheckError(report)
    return report
