"""The source files on the site: highlighted, each line and each name with an address, and what belongs to the file."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Collection, Iterator
from functools import cache, partial
from html import escape
from pathlib import Path
from typing import Any

import graph
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer, TOMLLexer
from sphinx.application import Sphinx

__all__ = ["collect", "escape", "link_numbers", "linkcode_resolve", "uri"]

PROSE = re.compile(r'(<span class="(?:c1|sd)">)([^<]*)')
REPOSITORY_LINK = re.compile(r"\]\((?:\.\./)*((?:minitransformer|tests|docs)/[\w/.-]+\.py)(?:#[^()\s]*)?\)")


def page_of(path: str) -> str:
    """Return the page of a source file."""
    return f"_modules/{path.removesuffix('.py')}"


def files() -> set[str]:
    """Return the files that have a page: the package, and what the graph or a document links to."""
    package = (path for path in (graph.ROOT / "minitransformer").rglob("*.py") if "exercises" not in path.parts)
    scripts = (graph.ROOT / "tutorials").glob("*.py")
    found = {path.relative_to(graph.ROOT).as_posix() for path in (*package, *scripts)} | graph.pages()
    documents = [*(graph.ROOT / "docs").glob("[!_]*/*.md"), *(graph.ROOT / "docs").glob("*.md")]
    for document in (*documents, *(graph.ROOT / "tutorials").glob("*.md")):
        found |= {str(link) for link in REPOSITORY_LINK.findall(document.read_text(encoding="utf-8"))}
    return {path for path in found if (graph.ROOT / path).is_file()}


def collect(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the pages of the source files: those of the graph always, others if they are older than their file."""

    @cache
    def navigation(depth: int, **options: Any) -> str:
        """Return the links to all documents, made once for each depth of a page: they depend on nothing else."""
        return str(app.builder._get_local_toctree("/".join("_" * (depth + 1)), **options))

    for path in sorted(files()):
        page, about = page_of(path), [row for row in graph.related(path) if row[1]]
        html = Path(app.outdir, f"{page}.html")
        if about or not html.exists() or html.stat().st_mtime < (graph.ROOT / path).stat().st_mtime:
            toctree = partial(navigation, page.count("/"))
            yield page, {"title": path, "body": body(app, page, path, about), "toctree": toctree}, "page.html"


def uri(app: Sphinx, page: str, target: str) -> str:
    """Return the address of a target of the graph, as seen from a page."""
    scheme, _, rest = target.partition(":")
    place, _, at = rest.partition("#")
    return app.builder.get_relative_uri(page, page_of(place) if scheme == "source" else place) + f"#{at}" * bool(at)


def body(app: Sphinx, page: str, path: str, about: list[tuple[str, list[tuple[str, str]]]]) -> str:
    """Return the HTML of a source file: what belongs to it, then its lines."""
    rows = ""
    for name, found in about:
        links = ", ".join(f'<a href="{uri(app, page, target)}">{escape(text)}</a>' for text, target in found)
        rows += f"<dt>{name}</dt><dd>{links}</dd>"
    head = f'<dl class="source-links">{rows}</dl>' * bool(rows)
    code = f'<div class="highlight source"><pre>{lines(path, partial(uri, app, page))}</pre></div>'
    return f'<h1 class="source-title">{escape(path)}</h1>{head}{code}'


def lines(path: str, uri: Callable[[str], str]) -> str:
    """Return the lines of a source file, each with its number and its address."""
    text = (graph.ROOT / path).read_text(encoding="utf-8")
    lexer = TOMLLexer if path.endswith(".toml") else PythonLexer
    shown = highlight(text, lexer(stripnl=False), HtmlFormatter(nowrap=True)).split("\n")
    names, mistakes = graph.definitions(path), graph.entry_lines(path)
    derivation = graph.derivation_of(path)
    numbers = graph.cited_lines(path)
    equations = uri(f"site:derivations/{derivation}") if derivation else ""
    width = len(str(len(shown)))
    parts = []
    for at, line in enumerate(shown[:-1], 1):
        here = {number for number, places in numbers.items() if at in places}
        line = PROSE.sub(lambda found: found[1] + link_numbers(found[2], here, equations), line)  # noqa: B023
        if at in mistakes:
            target, name = uri(f"site:{graph.GALLERY}#{graph.anchor(mistakes[at])}"), escape(mistakes[at], quote=False)
            line = line.replace(name, f'<a href="{target}">{name}</a>', 1)
        named = f'<span id="{names[at]}"></span>' if at in names else ""
        parts.append(f'{named}<a class="linenos" id="L-{at}" href="#L-{at}">{at:>{width}}</a> {line}\n')
    return "".join(parts)


def link_numbers(text: str, known: Collection[int], page: str) -> str:
    """Make links of the numbers of equations in a comment or docstring."""

    def lead(found: re.Match[str]) -> str:
        if int(found[1]) not in known or graph.PAPER.search(text[: found.start()]):
            return found[0]
        return f'<a href="{page}#eq-{found[1]}">{found[0]}</a>'

    return graph.NUMBER.sub(lead, text)


def linkcode_resolve(domain: str, info: dict[str, str]) -> str | None:
    """Return where the source of an object of the API is, for sphinx.ext.linkcode."""
    found: Any = importlib.import_module(info["module"])
    for name in info["fullname"].split("."):
        found = getattr(found, name, None)
    found = inspect.unwrap(found) if callable(found) else found
    try:
        file = Path(inspect.getsourcefile(found) or "").resolve()
        line = inspect.getsourcelines(found)[1]
    except (OSError, TypeError):
        return None
    return f"source:{file.relative_to(graph.ROOT).as_posix()}#L-{line}" if file.is_relative_to(graph.ROOT) else None
