"""Gradient tests: a checker for any function of tensors, and tools to test your own operations.

==============  ==========================================================================================
``check``       checks the gradient of a function of anybody's arrays; ``examine`` returns the report
``gradcheck``   compares a backward pass with finite differences
``prove``       checks an operation in three ways, and the rules for operations
``strategies``  Hypothesis strategies that draw inputs; they need the extra ``minitransformer[test]``
==============  ==========================================================================================

``check``, ``gradcheck`` and ``prove`` share one engine; ``check.py`` says in which order its modules are best read.
"""

import importlib
import typing
from typing import Any

from minitransformer.public import public_names
from minitransformer.testing.case import draw_cotangent as draw_cotangent
from minitransformer.testing.causes import fits as fits
from minitransformer.testing.causes import likely_cause as likely_cause
from minitransformer.testing.causes import likely_causes as likely_causes
from minitransformer.testing.check import check as check
from minitransformer.testing.check import examine as examine
from minitransformer.testing.examples import Example as Example
from minitransformer.testing.examples import examples as examples
from minitransformer.testing.examples import examples_of_signature as examples_of_signature
from minitransformer.testing.gradcheck import GradientError as GradientError
from minitransformer.testing.gradcheck import GradientReport as GradientReport
from minitransformer.testing.gradcheck import gradcheck as gradcheck
from minitransformer.testing.prove import Proof as Proof
from minitransformer.testing.prove import prove as prove
from minitransformer.testing.report import CheckError as CheckError
from minitransformer.testing.report import Report as Report
from minitransformer.testing.sweep import sweep as sweep

if typing.TYPE_CHECKING:
    from minitransformer.testing import strategies as strategies


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


__all__ = public_names(globals(), "strategies")
