"""Gradient tests: a checker for any function of tensors, and tools to test your own operations.

==============  ==========================================================================================
``check``       checks the gradient of a function of anybody's arrays; ``examine`` returns the report
``gradcheck``   compares a backward pass with finite differences
``prove``       checks an operation in three ways, and the rules for operations
``strategies``  Hypothesis strategies that draw inputs; they need the extra ``minitransformer[test]``
==============  ==========================================================================================
"""

import importlib
from typing import TYPE_CHECKING, Any

from minitransformer.testing.case import draw_cotangent
from minitransformer.testing.causes import fits, likely_cause, likely_causes
from minitransformer.testing.check import check, examine
from minitransformer.testing.examples import Example, examples, examples_of_signature
from minitransformer.testing.gradcheck import GradientError, GradientReport, gradcheck
from minitransformer.testing.prove import Proof, prove
from minitransformer.testing.report import CheckError, Report
from minitransformer.testing.sweep import sweep

if TYPE_CHECKING:
    from minitransformer.testing import strategies

__all__ = [
    "CheckError",
    "Example",
    "GradientError",
    "GradientReport",
    "Proof",
    "Report",
    "check",
    "draw_cotangent",
    "examine",
    "examples",
    "examples_of_signature",
    "gradcheck",
    "likely_cause",
    "prove",
    "strategies",
    "sweep",
]
__all__ += ["fits", "likely_causes"]


def __getattr__(name: str) -> Any:
    # Hypothesis is optional, so the strategies are imported when they are first asked for.
    if name != "strategies":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return importlib.import_module("minitransformer.testing.strategies")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "hypothesis":
            raise
        raise ImportError(
            "minitransformer.testing.strategies needs Hypothesis, which is not installed; "
            'install it with: python -m pip install "minitransformer[test]"'
        ) from error
