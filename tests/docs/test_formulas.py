"""The formulas that the explorer shows are those of the derivations."""

import importlib.util
import json
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest

import minitransformer as mt
from minitransformer.autograd.rules import RULES

ROOT = Path(__file__).parents[2]
FORMULAS = json.loads((ROOT / "minitransformer" / "apps" / "explorer" / "formulas.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def generator():
    """The program that writes the formulas; ``.ci/run`` installs what it needs."""
    for module in ("latex2mathml", "yaml"):
        pytest.importorskip(module, reason=f"{module} is not installed: pip install -e .[docs]")
    spec = importlib.util.spec_from_file_location("formulas", ROOT / "docs" / "formulas.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_file_is_what_the_derivations_say(generator):
    assert generator.formulas() == FORMULAS, "run python docs/formulas.py"


@pytest.mark.asks("its formulas, named in the first lines of the derivation; then run python docs/formulas.py")
@pytest.mark.parametrize("name", [*mt.ops.registry, *RULES])
def test_every_operation_and_every_rule_has_both_formulas(name):
    assert all(FORMULAS[name][side] for side in ("forward", "backward"))


def test_formulas_are_mathml_for_browsers_and_carry_no_script():
    names = {"math", "mtable", "mtr", "mtd", "mrow", "mi", "mn", "mo", "mtext", "mspace", "mfrac", "msqrt", "mstyle"}
    names |= {"msub", "msup", "msubsup", "mover", "munder"}
    attributes = {"display", "alttext", "displaystyle", "scriptlevel", "stretchy", "fence", "form", "accent", "width"}
    attributes |= {"columnalign", "minsize", "maxsize"}
    for text in (text for sides in FORMULAS.values() for text in sides.values() if text):
        for element in xml.fromstring(text).iter():
            assert element.tag in names
            assert set(element.attrib) <= attributes
