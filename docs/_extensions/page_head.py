"""What search engines, other sites and the site's own search see of a document."""

from __future__ import annotations

import tomllib
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

LONGEST = 160
"""How many characters of a description search engines show."""
PICTURE = "_static/card.png"
PICTURE_ALT = "Cross-attention of a small trained model: it follows the diagonal and crosses at the end"
PHRASES = tomllib.loads((Path(__file__).parents[1] / "search.toml").read_text(encoding="utf-8"))
"""What people search for, and the document that must come first."""


class AddPhrases(SphinxTransform):
    """Add the phrases of a document to the index, from where the search takes what comes first."""

    default_priority = 800  # before Sphinx reads the index entries

    def apply(self, **kwargs: Any) -> None:
        phrases = [phrase for phrase, name in PHRASES.items() if name == self.env.docname]
        section = next(self.document.findall(nodes.section), None)
        if phrases and section is not None:
            entries = [("single", phrase, section["ids"][0], "main", None) for phrase in phrases]
            section.insert(1, addnodes.index(entries=entries))


def describe(doctree: nodes.document) -> str:
    """Return the first paragraph of prose, shortened; formulas cannot be shown in a description."""
    for paragraph in doctree.findall(nodes.paragraph):
        text = " ".join(paragraph.astext().split())
        in_prose = isinstance(paragraph.parent, nodes.section)
        if in_prose and len(text) > 50 and next(paragraph.findall(nodes.math), None) is None:
            return text if len(text) <= LONGEST else f"{text[:LONGEST].rpartition(' ')[0]} ..."
    return ""


def add_tags(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Add a description, unless the document has one, and what other sites show of a link."""
    if doctree is None:
        return
    if pagename.startswith("tutorials/ko/") or pagename.endswith(".ko"):
        context["language"] = "ko"
    given = [node["content"] for node in doctree.findall(nodes.meta) if node.get("name") == "description"]
    title = app.env.titles[pagename].astext()
    description = (given or [describe(doctree)])[0] or f"{title}: {app.config.html_title}"
    address = app.config.html_baseurl
    tags = {
        "og:title": title,
        "og:description": description,
        "og:site_name": app.config.html_title,
        "og:type": "article",
        "og:image": address + PICTURE if address else context["pathto"](PICTURE, 1),
        "og:image:alt": PICTURE_ALT,
        "twitter:card": "summary_large_image",
    }
    if not given:
        context["metatags"] += f'<meta name="description" content="{escape(description)}">\n'
    context["metatags"] += "".join(f'<meta property="{key}" content="{escape(text)}">\n' for key, text in tags.items())


def setup(app: Any) -> dict[str, bool]:
    """Register the transform and the tags."""
    app.add_transform(AddPhrases)
    app.connect("html-page-context", add_tags)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
