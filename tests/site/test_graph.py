"""The graph of the built site: equation and line of code, exercise, tutorial, derivation, wrong gradient and test.

Each is a click from the others, both ways: no dead end, no one-way link. Build the site first (``sphinx-build -W -b
html docs docs/_build/html``); without it these tests are skipped. ``tests/docs/test_graph.py`` needs no build.
"""

import functools
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from minitransformer.apps.learn import bank

ROOT = Path(__file__).parents[2]
SITE = ROOT / "docs" / "_build" / "html"
sys.path.insert(0, str(ROOT / "docs" / "_extensions"))
import graph  # noqa: E402

pytestmark = pytest.mark.skipif(
    not (SITE / "index.html").exists(), reason="the site is not built: sphinx-build -W -b html docs docs/_build/html"
)
EXERCISES, GALLERY = f"{graph.EXERCISES}.html", f"{graph.GALLERY}.html"


class Page(HTMLParser):
    """The addresses of a page, and its links, each as the section that it is in and its target."""

    VOID = ("img", "br", "hr", "input", "link", "meta", "path", "source", "wbr")

    def __init__(self, name):
        super().__init__()
        self.name, self.anchors, self.links, self.open = name, set(), set(), [("article", "")]
        text = (SITE / name).read_text(encoding="utf-8")
        self.feed(text)
        formulas = set(re.findall(r"\\href\{#(eq-\d+)\}", text))
        self.links |= {("formula", f"{name}#{at}") for at in formulas}

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if at := values.get("id"):
            self.anchors.add(at)
        if tag not in self.VOID:
            self.open.append((tag, at if tag == "section" and at else self.open[-1][1]))
        if tag == "a" and (href := values.get("href")) and ":" not in href:
            path, at = urldefrag(href)
            place = (SITE / self.name).parent / unquote(path) if path else SITE / self.name
            target = Path(*place.parts).resolve().relative_to(SITE.resolve()).as_posix()
            self.links.add((self.open[-1][1], target + f"#{unquote(at)}" * bool(at)))

    def handle_endtag(self, tag):
        while len(self.open) > 1 and self.open.pop()[0] != tag:
            pass

    def leads_to(self, target, section=None):
        """Tell whether a link leads to a page, or to an anchor on it; from anywhere, or from one section."""
        return any(
            found == target or ("#" not in target and found.partition("#")[0] == target)
            for where, found in self.links
            if section is None or where == section
        )


@functools.cache
def page(name):
    return Page(name)


def derivation(name):
    return f"derivations/{name}.html"


def source(path):
    return f"_modules/{path.removesuffix('.py')}.html"


OPERATIONS = sorted(path for path in map(graph.source_of, graph.derivations()) if path.startswith(graph.OPS))


@pytest.mark.parametrize("path", OPERATIONS)
def test_an_equation_and_its_lines_of_code_lead_to_each_other(path):
    name = graph.derivation_of(path)
    text, code = page(derivation(name)), page(source(path))
    for number in graph.equations(graph.derivations()[name]):
        assert f"eq-{number}" in text.anchors, number
        assert text.leads_to(f"{text.name}#eq-{number}", "formula") or text.leads_to(f"{text.name}#eq-{number}"), number
    api = page("api/ops.html")
    assert any(api.leads_to(f"{text.name}#eq-{number}", name) for number in graph.cited_lines(path))
    for number, lines in graph.cited_lines(path).items():
        assert code.leads_to(f"{text.name}#eq-{number}"), number
        for line in lines:
            assert text.leads_to(f"{code.name}#L-{line}", "linked-from-here"), (number, line)
            assert f"L-{line}" in code.anchors


@pytest.mark.parametrize("exercise", bank(), ids=lambda exercise: exercise.name)
def test_an_exercise_and_what_it_belongs_to_lead_to_each_other(exercise):
    here = f"{EXERCISES}#{exercise.name}"
    assert exercise.name in page(EXERCISES).anchors
    tutorial, _, heading = exercise.tutorial.partition("#")
    assert page(EXERCISES).leads_to(f"tutorials/{tutorial}.html#{heading}", exercise.name)
    assert heading in page(f"tutorials/{tutorial}.html").anchors
    assert page(f"tutorials/{tutorial}.html").leads_to(here)
    name, equation = graph.derivation_for(exercise)
    if name:
        target = derivation(name) + f"#eq-{equation}" * bool(equation)
        assert page(EXERCISES).leads_to(target, exercise.name)
        assert page(derivation(name)).leads_to(here)
        code = source(graph.source_of(name))
        assert page(EXERCISES).leads_to(code, exercise.name)
        assert page(code).leads_to(here)


@pytest.mark.parametrize("entry", graph.entries(), ids=lambda entry: graph.anchor(entry.name))
def test_a_wrong_gradient_and_what_it_belongs_to_lead_to_each_other(entry):
    at = graph.anchor(entry.name)
    here, cards = f"{GALLERY}#{at}", page(GALLERY)
    assert at in cards.anchors
    targets = [source(graph.entry_source(entry))]
    if name := graph.entry_derivation(entry):
        targets += [derivation(name)]
    for target in targets:
        assert cards.leads_to(target, graph.slug(graph.entry_heading(entry))), target
        assert page(target).leads_to(here), target
    code = source(graph.entry_code(entry))
    assert cards.leads_to(f"{code}#{at}", at)
    assert at in page(code).anchors
    assert page(code).leads_to(here)
    for exercise in bank():
        if entry in graph.mistakes_of(exercise):
            assert cards.leads_to(f"{EXERCISES}#{exercise.name}", at)
            assert page(EXERCISES).leads_to(here, exercise.name)


@pytest.mark.parametrize("name", graph.derivations())
def test_a_derivation_and_its_tests_lead_to_each_other(name):
    for path in graph.tests_of(name):
        assert page(derivation(name)).leads_to(source(path), "linked-from-here")
        assert page(source(graph.source_of(name))).leads_to(source(path))
        assert page(source(path)).leads_to(derivation(name))
        assert page(source(path)).leads_to(source(graph.source_of(name)))


@pytest.mark.parametrize("name", graph.derivations())
def test_a_derivation_leads_back_to_the_tutorials_that_lead_to_it(name):
    for section in graph.readers_of(name):
        tutorial = f"tutorials/{section.tutorial}.html"
        assert section.anchor in page(tutorial).anchors
        assert page(tutorial).leads_to(derivation(name), section.anchor)
        assert page(derivation(name)).leads_to(f"{tutorial}#{section.anchor}", "linked-from-here")


def test_no_link_to_code_downloads_a_file():
    downloads = [
        (file.relative_to(SITE).as_posix(), link)
        for file in SITE.rglob("*.html")
        for link in re.findall(r'href="([^"]*_downloads/[^"]+\.py)"', file.read_text(encoding="utf-8"))
    ]
    assert not downloads
