"""The Sphinx extension that turns the graph of ``graph.py`` into links: equations, code, exercises, wrong gradients."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

import graph
import sources
from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

from minitransformer.apps.learn import bank

LINK = re.compile(r"``.+?``|`[^`\n]+`|\[((?:[^\[\]`\n]|`[^`\n]*`)*)\]\(([^()\s]+)\)")
DRAWING = graph.ROOT / "docs" / "pictures" / "model.svg"
COMMENT = re.compile(r'(?<=<span class="c1">)#[^<]*')
STRING = re.compile(r"""(?<=<span class="s[12]">)(["']|&quot;|&#39;)([a-z0-9-]+)\1(?=</span>)""")
EXERCISES = {exercise.name for exercise in bank()}


# ---------------------------------------------------------------------------------------------------------------------
# Markdown: links of the repository become links of the site


def rewrite(app: Sphinx, docname: str, source: list[str]) -> None:
    """Lead a document's links to what has an address of its own on the site, and add what is made from the graph."""
    source[0] = LINK.sub(lambda found: point(docname, found), source[0])
    if docname == graph.EXERCISES:
        source[0] = f"---\ntocdepth: 3\n---\n\n{source[0]}{graph.exercise_list()}"
    folder, _, name = docname.partition("/")
    if folder == "derivations" and name in graph.derivations():
        source[0] += graph.back_links(name)
    elif docname != graph.EXERCISES:
        return
    for path in graph.parts():  # what the text is made from: Sphinx reads the document again after a change there
        app.env.note_dependency(str(path))


def point(docname: str, found: re.Match[str]) -> str:
    """Return a link of Markdown with its target on the site, if it is one of the graph's."""
    target = found[2] and target_of(docname, found[1].strip("`"), found[2])
    return f"[{found[1]}]({target})" if target else found[0]


def target_of(docname: str, text: str, link: str) -> str | None:
    """Return where a link of a document leads on the site, or None if it may stay as it is."""
    path, _, at = link.partition("#")
    place = posixpath.normpath(posixpath.join("docs", posixpath.dirname(docname), path or posixpath.basename(docname)))
    file = place.removeprefix("docs/") if place.startswith("docs/tutorials/") else place
    if file.startswith("minitransformer/") and (graph.ROOT / file / "__init__.py").is_file():
        return f"source:{file}/__init__.py"
    is_source = file.endswith(".py") or (file.endswith(".toml") and file in graph.pages())
    if is_source and not file.startswith(".") and (graph.ROOT / file).is_file():
        return f"source:{file}" + f"#{at}" * bool(at)
    document = re.sub(r"\.(md|ipynb)$", "", place.removeprefix("docs/"))
    if document == graph.EXERCISES and text in EXERCISES:
        return f"site:{document}#{text}"
    if at and (document in (graph.GALLERY, graph.EXERCISES) or re.fullmatch(r"eq-\d+", at)):
        return f"site:{document}#{at}"
    return None


# ---------------------------------------------------------------------------------------------------------------------
# Documents: equations and the references to them


def number_equations(app: Sphinx, doctree: nodes.document) -> None:
    """Give each numbered equation of a derivation or tutorial an address, and lead the numbers in the prose to it."""
    markdown = document_path(app.env.docname)
    if not app.env.docname.startswith(("derivations/", "tutorials/")) or not markdown.exists():
        return
    known: set[int] = set()
    for block in [*doctree.findall(nodes.math_block)]:
        numbers = [int(tag["number"]) for tag in graph.TAG.finditer(block.astext())]
        anchors = [nodes.inline(ids=[f"eq-{number}"]) for number in numbers if number not in known]
        text = graph.TAG.sub(r"\g<before> \\href{#eq-\g<number>}{(\g<number>)}", block.astext())
        block.children[:] = [nodes.Text(text)]
        if anchors:
            place = nodes.container(classes=["equation-anchors"])
            place += anchors
            block.parent.insert(block.parent.index(block), place)
        known.update(numbers)
    in_words = set(graph.equations(markdown)) - known
    for text in [*doctree.findall(nodes.Text)]:
        if isinstance(text.parent, (nodes.paragraph, nodes.inline, nodes.emphasis, nodes.strong, nodes.entry)):
            link_numbers(text, known | in_words, in_words)


def document_path(docname: str) -> Path:
    """Return the Markdown of a derivation or tutorial."""
    return graph.ROOT / ("" if docname.startswith("tutorials/") else "docs") / f"{docname}.md"


def link_numbers(text: nodes.Text, known: frozenset[int] | set[int], in_words: set[int]) -> None:
    """Put links in place of the numbers of equations in a text; an equation in words has its address there."""
    whole, parts, last = text.astext(), [], 0
    if not text.parent.children or any(isinstance(above, (nodes.reference, pending_xref)) for above in ancestors(text)):
        return
    before = "".join(child.astext() for child in text.parent.children[: text.parent.index(text)])
    for found in graph.NUMBER.finditer(before + whole, len(before)):
        number = int(found[1])
        if number not in known or graph.is_of_the_paper(text.parent.astext(), found.start()):
            continue
        start, end = found.start() - len(before), found.end() - len(before)
        reference = nodes.reference(found[0], found[0], refuri=f"#eq-{number}", internal=True, classes=["equation"])
        if number in in_words and re.match(r"\s*(\n|$)", whole[end:]) and before + whole[:start]:
            reference["ids"] = [f"eq-{number}"]
            in_words.discard(number)
        parts += [nodes.Text(whole[last:start]), reference]
        last = end
    if parts:
        text.parent.replace(text, [part for part in (*parts, nodes.Text(whole[last:])) if part.astext()])


def ancestors(node: nodes.Node) -> list[nodes.Node]:
    """Return the nodes that a node stands in."""
    return [] if node.parent is None else [node.parent, *ancestors(node.parent)]


# ---------------------------------------------------------------------------------------------------------------------
# HTML


def resolve(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Give the links of the graph their addresses, and put the drawing of the model where its picture is."""
    if app.builder.format != "html":
        return
    for reference in doctree.findall(nodes.reference):
        if reference.get("refuri", "").startswith(("site:", "source:")):
            reference["refuri"] = sources.uri(app, docname, reference["refuri"])
            reference["internal"] = True
    for picture in [*doctree.findall(nodes.image)]:
        if picture["uri"].endswith("pictures/model.svg"):
            picture.parent.replace(picture, nodes.raw("", drawing(app, docname, picture.get("alt", "")), format="html"))


def drawing(app: Sphinx, docname: str, alt: str) -> str:
    """Return the drawing of the model with links of the site."""

    def lead(found: re.Match[str]) -> str:
        return f'href="{sources.uri(app, docname, f"site:{found[1]}/{found[2]}")}"'

    text = re.sub(r'href="[./]*(tutorials|derivations)/([\w-]+)\.\w+"', lead, DRAWING.read_text(encoding="utf-8"))
    return text.replace(' role="group"', f' role="group" aria-label="{sources.escape(alt)}"', 1)


def link_code(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Make links of the numbers of equations in comments and docstrings, and of the exercises that code checks."""
    if doctree is not None and pagename.startswith(("derivations/", "tutorials/")):
        known = {int(number) for number in re.findall(r'id="eq-(\d+)"', context["body"])}
        body = COMMENT.sub(lambda found: sources.link_numbers(found[0], known, ""), context["body"])
        context["body"] = STRING.sub(lambda found: name_exercise(app, pagename, *found.groups()), body)
    elif doctree is not None and pagename == "api/ops":
        parts = re.split(r'(?=<section id="[a-z-]+">)', context["body"])
        context["body"] = "".join(link_operation(app, pagename, part) for part in parts)


def name_exercise(app: Sphinx, pagename: str, quote: str, name: str) -> str:
    """Return a string of code, as a link if it is the name of an exercise."""
    page = sources.uri(app, pagename, f"site:{graph.EXERCISES}#{name}")
    return f'{quote}<a href="{page}">{name}</a>{quote}' if name in EXERCISES else f"{quote}{name}{quote}"


def link_operation(app: Sphinx, pagename: str, part: str) -> str:
    """Make links of the numbers of equations in the section of the API that is about an operation."""
    name = found[1] if (found := re.match(r'<section id="([a-z-]+)">', part)) else ""
    if name not in graph.derivations():
        return part
    page, known = sources.uri(app, pagename, f"site:derivations/{name}"), graph.equations(graph.derivations()[name])
    return re.sub(r">[^<>]+<", lambda text: sources.link_numbers(text[0], known, page), part)


def show_sources(app: Sphinx, config: Any) -> None:
    """Lead the API's [source] to the pages of the source files."""
    config.linkcode_resolve = sources.linkcode_resolve


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the steps."""
    app.setup_extension("sphinx.ext.linkcode")
    app.connect("config-inited", show_sources)
    app.connect("source-read", rewrite)
    app.connect("doctree-read", number_equations)
    app.connect("doctree-resolved", resolve)
    app.connect("html-page-context", link_code)
    app.connect("html-collect-pages", sources.collect)
    app.add_js_file("graph.js", loading_method="defer")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
