"""What ``import minitransformer as mt`` gives."""

import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import minitransformer as mt


def test_everything_that_is_promised_is_there():
    for name in mt.__all__:
        assert getattr(mt, name) is not None, name
    assert {"data", "load", "plots", "tasks", "training", "decoding", "softmax"} - set(dir(mt)) == {"softmax"}
    with pytest.raises(AttributeError, match="no attribute 'softmax'"):
        _ = mt.softmax


DEFAULTS = {
    mt.data.Bpe.train: {"size": 8000},
    mt.data.Merges.train: {"merges": 10_000, "min_count": 1},
    mt.data.Words.train: {"min_count": 2, "marker": ""},
    mt.data.Characters.train: {"min_count": 1},
    mt.data.RawCharacters.train: {"min_count": 1},
    mt.data.train_tokenisers: {"source": "bpe", "target": "bpe", "shared": True},
    mt.decoding.beam_search: {"beam": 4, "alpha": 0.6, "n_best": 1},
    mt.decoding.hypotheses: {"beam": 1, "alpha": 0.6, "n_best": 1},
    mt.decoding.translate: {"beam": 1, "alpha": 0.6},
    mt.decoding.in_batches: {"size": 64},
    mt.runs.TrainedRun.write: {"prompt": "", "length": 500, "seed": 0},
    mt.runs.TrainedRun.continuation: {"prompt": "", "seed": 0},
    mt.training.evaluate: {"measures": (), "beam": 1, "alpha": 0.6, "bleu_tokenize": "13a"},
    mt.training.training_step: {"label_smoothing": 0.0, "micro_batches": 1},
    mt.optim.Adam: {"betas": (0.9, 0.98), "eps": 1e-9, "weight_decay": 0.0},
    mt.nn.Transformer: {"seed": 0},
    mt.nn.LanguageModel: {"seed": 0},
}
"""Numbers and words that a caller gets without asking for them, as the documentation has them."""


def test_defaults_are_those_of_the_documentation():
    for function, defaults in DEFAULTS.items():
        found = {name: one.default for name, one in inspect.signature(function).parameters.items()}
        assert {name: found[name] for name in defaults} == defaults, function
    for operation in mt.ops.registry.values():  # both forms of an operation have the same
        forms = [inspect.signature(form).parameters for form in (operation.forward, operation.reference)]
        for name in forms[0].keys() & forms[1].keys():
            assert forms[0][name].default == forms[1][name].default, (operation, name)


def test_packages_are_loaded_when_they_are_first_used():
    code = """
import sys, minitransformer as mt
def ours():
    return {name.split(".")[1] for name in sys.modules if name.startswith("minitransformer.")}
assert ours() == {"override"} and "numpy" not in sys.modules, ours()
from minitransformer.testing import prove
assert ours() == {"override", "public", "arrays", "autograd", "testing"}, ours()
assert not {"hypothesis", "matplotlib"} & sys.modules.keys()
assert mt.testing.prove is prove and mt.Tensor is mt.autograd.Tensor
assert mt.tasks.build("copy").name == "copy" and "minitransformer.tasks" in sys.modules
assert callable(mt.load) and mt.load is mt.runs.load
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_help_loads_neither_numpy_nor_a_command():
    code = """
import sys
from minitransformer.apps.cli import COMMANDS, main
try:
    main(["--help"])
except SystemExit as end:
    assert end.code == 0
assert not [name for name in sys.modules if name in ("numpy", "tqdm", "minitransformer.training")]
assert COMMANDS["train"].__doc__ == COMMANDS.docstring("train") and "numpy" in sys.modules
"""
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "train a Transformer" in shown
    assert "measure a trained model" in shown


@pytest.mark.parametrize("command", ["attention", "evaluate", "translate", "write"])
def test_what_opens_a_run_loads_neither_the_checker_nor_the_exercises(command):
    """Their functions take part only with --with, or in a run that they trained."""
    code = f"""
import sys
from minitransformer.apps.cli import main
assert main({[command, "missing", *["text"] * (command != "evaluate")]}) == 2
found = {{name.split(".")[1] for name in sys.modules if name.startswith("minitransformer.")}}
assert "testing" not in found and "minitransformer.apps.learn" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.numpy_only("the files are the same")
def test_an_installed_package_may_have_compiled_files_in_every_folder(tmp_path):
    """``pip install`` compiles all files, those of the exercises too, which nothing imports from there."""
    package = shutil.copytree(Path(mt.__file__).parent, tmp_path / "there" / "minitransformer")
    for folder in (package, *(path for path in package.rglob("*") if path.is_dir())):
        if folder.name != "__pycache__":
            (folder / "__pycache__").mkdir(exist_ok=True)
            (folder / "__pycache__" / "compiled.cpython-311.pyc").write_bytes(b"compiled")
    code = "from minitransformer.apps.cli import main as m; assert not any(map(m, (['learn', 'list'], ['course'])))"
    environment = os.environ | {"PYTHONPATH": f"{package.parent}", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("first", ["arrays", "autograd", "kernels", "nn", "ops", "optim", "training"])
@pytest.mark.parametrize("variable", ["", "cupy"])
def test_kernels_are_imported_where_the_library_in_use_has_them(first, variable):
    """In whatever order packages are imported, and the library is chosen."""
    code = f"""
import importlib, sys, numpy
from minitransformer.arrays import backend, namespace, use
namespace._import_cupy = lambda: numpy
importlib.import_module("minitransformer.{first}")
backend()
from minitransformer.ops import softmax
from minitransformer.optim.adam import Adam
def in_use():
    functions = softmax.forward, softmax.backward, Adam.step.__globals__["update_all"]
    return [function.__module__.split(".")[1] for function in functions]
if not "{variable}":
    assert in_use() == ["ops", "ops", "optim"] and {first == "kernels"} == ("minitransformer.kernels" in sys.modules)
    use("cupy")
assert in_use() == ["kernels"] * 3
use("numpy")
assert in_use() == ["ops", "ops", "optim"]
"""
    environment = {**os.environ, "MINITRANSFORMER_BACKEND": variable, "MINITRANSFORMER_KERNELS": ""}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_all_names_of_the_core_are_those_of_the_package():
    of_the_graph = {
        "RULES",
        "Node",
        "accumulate",
        "backpropagate",
        "count_uses",
        "edges_to",
        "on_arrays",
        "unbroadcast",
    }
    assert set(mt.autograd.__all__) - of_the_graph <= set(mt.__all__) <= set(dir(mt))
