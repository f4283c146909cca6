"""Equations, code, exercises, wrong gradients and tests lead to each other: what the sources alone can show.

``tests/site/test_graph.py`` walks the same graph on the built site.
"""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from posixpath import normpath

import pytest

from minitransformer.apps.learn import bank

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "_extensions"))
import graph  # noqa: E402

DOCUMENTS = [
    path
    for path in (*ROOT.glob("docs/*.md"), *ROOT.glob("docs/[!_]*/*.md"), *ROOT.glob("tutorials/*.md"))
    if path.stem != "index"
]
LINK = re.compile(r"\[([^\[\]\n]*)\]\(([^()\s:]+)\)")


def links():
    """Yield each link of a document to another file: the document, its text, the file and the anchor."""
    for document in DOCUMENTS:
        for text, link in LINK.findall(
            re.sub(r"^```.*?^```$", "", document.read_text(encoding="utf-8"), flags=re.M | re.S)
        ):
            path, _, at = link.partition("#")
            if path:
                yield document, text, ROOT / normpath(f"{document.parent.relative_to(ROOT).as_posix()}/{path}"), at


def where(document):
    return document.relative_to(ROOT).as_posix()


def test_a_link_into_code_names_a_definition_there():
    wrong = [
        (where(document), at)
        for document, _, path, at in links()
        if path.suffix in (".py", ".toml") and at and at not in graph.definitions(where(path)).values()
    ]
    assert not wrong


def test_a_link_to_an_exercise_finds_it():
    known = {exercise.name for exercise in bank()}
    for document, text, path, at in links():
        if path.stem == "exercises" and text.startswith("`"):
            assert text.strip("`") in known, (where(document), text)
        if path.stem == "exercises" and at:
            headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            assert at in known | set(map(graph.slug, headings)), (where(document), at)


@pytest.mark.parametrize("exercise", bank(), ids=lambda exercise: exercise.name)
def test_an_exercise_has_its_section_and_equation(exercise):
    tutorial, _, heading = exercise.tutorial.partition("#")
    assert (tutorial, heading) in {(section.tutorial, section.anchor) for section in graph.tutorials()}
    derivation, equation = graph.derivation_for(exercise)
    assert derivation == exercise.derivation or not exercise.derivation
    assert not equation or equation in graph.equations(graph.derivations()[derivation])


def test_the_source_names_the_equations_that_the_explorer_shows_beside_it():
    for name in sorted({*graph.derivations()} - {"elementary-rules", "positions"}):
        text = graph.derivations()[name].read_text(encoding="utf-8")
        head = "".join(re.findall(rf"^  {name.replace('-', '_')}: (\{{forward: .*)$", text, re.M))
        head = re.sub(r"\[\[\d+, ", "[", head)  # the first of a group joins the others
        shown = set(map(int, re.findall(r"\d+", head)))
        assert not shown - set(graph.cited_lines(graph.source_of(name))), name


def test_every_wrong_gradient_has_its_place():
    for entry in graph.entries():
        assert (ROOT / graph.entry_source(entry)).is_file()
        assert graph.anchor(entry.name) in graph.definitions(graph.entry_code(entry)).values(), entry.name
    taught = {name for name in graph.derivations() if graph.exercises_of(name)}
    in_exercises = {graph.entry_derivation(entry) for entry in graph.entries() if entry.card.exercise}
    idle = {graph.entry_derivation(entry) for entry in graph.entries()} & taught - in_exercises
    assert idle == {"log-softmax", "masking"}  # their exercises are about forward passes


def test_every_derivation_leads_to_its_operation_and_tests():
    for name in graph.derivations():
        assert graph.derivation_of(graph.source_of(name)) == name
        assert all((ROOT / path).is_file() for path in graph.tests_of(name))


def test_the_transformer_in_one_file_and_the_derivations_of_its_parts_lead_to_each_other():
    parts = {function: name for name in graph.derivations() for function in graph.in_one_file(name)}
    pairs = {name for name in graph.definitions(graph.ONE_FILE).values() if name.endswith("_backward")}
    assert pairs - parts.keys() == {f"{name}_backward" for name in ("encoder_layer", "decoder_layer", "model", "loss")}
    related = dict(graph.related(graph.ONE_FILE))
    for function, name in parts.items():
        assert f"[`{function}`](source:{graph.ONE_FILE}#{function})" in graph.back_links(name)
        assert (function, f"source:{graph.ONE_FILE}#{function}") in dict(graph.related(graph.source_of(name)))[
            "In one file"
        ]
        assert f"site:derivations/{name}" in dict(map(reversed, related["Derivation"]))


def test_the_drawing_of_the_model_is_as_its_script_draws_it():
    path = ROOT / "docs" / "pictures" / "model.py"
    spec = importlib.util.spec_from_file_location("model_drawing", path)
    model = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(model)
    text = model.PICTURE.read_text(encoding="utf-8")
    assert text == model.draw(), "run: python docs/pictures/model.py"
    for link in re.findall(r'href="([^"]+)"', text):
        assert (path.parent / link).is_file(), link


def test_the_way_of_a_batch_is_that_of_a_run():
    """The script watches a training, so it runs in a process of its own."""
    path = ROOT / "docs" / "pictures" / "batch.py"
    drawn = subprocess.run([sys.executable, path, "--print"], check=True, capture_output=True, encoding="utf-8").stdout
    assert path.with_suffix(".svg").read_text(encoding="utf-8") == drawn, "run: python docs/pictures/batch.py"
