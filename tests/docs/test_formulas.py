"""The formulas that the explorer shows are those of the derivations."""

import importlib.util
import json
import re
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


GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "Δ": "Delta", "ε": "varepsilon", "ζ": "zeta", "η": "eta",
    "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau", "φ": "varphi",
    "Φ": "Phi", "χ": "chi", "ω": "omega",
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_each_greek_letter_is_defined_by_an_equation_or_by_the_explorer(name):
    """The letter π is a number, except as an order of axes."""
    code = (ROOT / "minitransformer" / "apps" / "explorer" / "page" / "block.js").read_text(encoding="utf-8")
    found = re.search(rf"^  {name}: (\w+,|\{{ .*|\{{\n(?:    .*\n)+)", code, re.M)
    legend = found[1] if found else ""
    if legend.rstrip(",").isidentifier():
        legend = re.search(rf"^const {legend[:-1]} = (.*);$", code, re.M)[1]
    told = {*re.findall('"(.)": ', legend)}
    tex = "".join(f" {text}" for part in FORMULAS[name].values() for text in re.findall('alttext="([^"]*)"', part))
    used = {letter for letter, word in GREEK.items() if re.search(rf"\\{word}(?![a-z])", tex)}
    defined = {letter for letter in used if re.search(rf"(?:\) |quad |\\\\ )\\{GREEK[letter]}(?![a-z])[^=\\]*=", tex)}
    assert told == used - defined - ({"π"} if name != "transpose" else set())
