"""The examples in docstrings are run, and every name that others rely on has one."""

import doctest
import inspect
import sys
from importlib import import_module
from pkgutil import walk_packages

import numpy as np
import pytest

import minitransformer as mt

PACKAGES = ("autograd", "ops", "nn", "optim", "tasks", "decoding", "testing", "tracing", "training")
CLASSES = "Transformer MultiHeadAttention FeedForward EncoderLayer DecoderLayer Encoder Decoder"
PUBLIC = {
    **{f"ops.{name}": getattr(mt.ops, name) for name in mt.ops.__all__ if name != "registry"},
    **{f"nn.{name}": getattr(mt.nn, name) for name in CLASSES.split()},
    **{f"optim.{name}": getattr(mt.optim, name) for name in ("Adam", "warmup")},
    **{f"decoding.{name}": getattr(mt.decoding, name) for name in ("greedy", "beam_search")},
    **{f"testing.{name}": getattr(mt.testing, name) for name in ("check", "gradcheck", "prove")},
    **{name: getattr(mt, name) for name in ("Tensor", "Operation", "trace", "load")},
    "tasks.build": mt.tasks.build,
}
FLAGS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
numpy_only = pytest.mark.skipif(mt.backend() != "numpy", reason="the arrays are printed as NumPy's")


@pytest.mark.asks("an example in the docstring of forward")
@pytest.mark.parametrize("name", PUBLIC)
def test_a_name_that_others_rely_on_has_an_example(name):
    example = [line for line in inspect.getdoc(PUBLIC[name]).splitlines() if line.startswith((">>> ", "... "))]
    assert example
    assert max(map(len, example)) <= 92  # fits into the column of the site


def modules():
    """Yield the modules of the packages; `import_module` may return the operation that has a module's name."""
    for name in (f"minitransformer.{package}" for package in PACKAGES):
        yield import_module(name)
        for found in walk_packages(sys.modules[name].__path__, f"{name}."):
            import_module(found.name)
            yield sys.modules[found.name]


@numpy_only
def test_the_examples_do_what_they_show():
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    finder = doctest.DocTestFinder(exclude_empty=True)
    for module in [mt, *modules()]:
        for test in finder.find(module, module.__name__, extraglobs={"mt": mt, "np": np}):
            output: list[str] = []
            runner.run(test, out=output.append)
            assert not output, "".join(output)
    assert runner.tries > 90
