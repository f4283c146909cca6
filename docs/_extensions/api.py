"""How docstrings are shown: operations first, under the names that a user writes."""

from __future__ import annotations

import re
import textwrap
from typing import Any

from sphinx import addnodes

import minitransformer
from minitransformer.autograd import Operation

LONGEST = 92
"""How many characters fit into a block; longer ones get less space before the number of the equation."""
SECTION = """
## {title}

The algebra: [{page}](../derivations/{page}.md)

```{{eval-rst}}
.. autofunction:: minitransformer.ops.{module}
```

The source file, with its two passes on arrays and the same function in elementary operations:

```{{eval-rst}}
.. automodule:: minitransformer.ops.{module}
   :no-index:

.. autofunction:: minitransformer.ops.{module}.forward
.. autofunction:: minitransformer.ops.{module}.backward
.. autofunction:: minitransformer.ops.{module}.reference
```
"""


def list_operations(app: Any, docname: str, source: list[str]) -> None:
    """Add a section for each operation to their page, in the order of its table."""
    if docname == "api/ops":
        table, heading, rest = source[0].partition("## Positions")
        parts = []
        for name in sorted(minitransformer.ops.registry, key=lambda name: table.index(f"`{name}`")):
            title, page = name.replace("_", " ").capitalize(), name.replace("_", "-")
            parts.append(SECTION.format(module=name, title=title, page=page))
        source[0] = "".join([table, *parts, f"\n{heading}", rest])


def change_docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Keep the formulas of an operation's module, show what a call returns, and list parameters only once."""
    if what == "module" and name.startswith("minitransformer.ops.") and lines:
        lines[:] = as_set("\n".join(lines))
    elif isinstance(obj, Operation):
        lines[:] = without(lines, "saved : ")
    elif name.startswith("minitransformer.ops.") and name.endswith(".forward"):
        lines[1:] = ["", "It takes what the operation takes. It returns the value, and what ``backward`` needs."]


def as_set(docstring: str) -> list[str]:
    """Return reStructuredText in which paragraphs flow, and formulas and tables stand as they were set by hand."""
    found: list[str] = []
    for block in re.split(r"\n\n+", docstring.strip("\n")):
        lines = block.split("\n")
        if block[0] != " " and not re.search(r"\S {3,}\S|====", block):
            found += [*map(escape, lines), ""]
        else:
            lines = textwrap.dedent(block).split("\n")
            wide = max(0, max(map(len, lines)) - LONGEST)
            narrow = (re.sub(rf" {{{wide}}}(?=\(\d+\))", "", line) for line in lines)
            found += [".. code-block:: text", "", *(f"   {line}" for line in narrow), ""]
    return found


def escape(line: str) -> str:
    """Keep a line from being read as markup; names in backticks are code."""
    plain = re.sub(r"([*_|\\])(?=(?:[^`]*`[^`]*`)*[^`]*$)", r"\\\1", line.replace("``", "`"))
    return plain.replace("`", "``")


def without(lines: list[str], entry: str) -> list[str]:
    """Leave out an entry of a numpydoc section, with the indented lines below it."""
    kept, inside = [], False
    for line in lines:
        inside = line.startswith(entry) or (inside and line.startswith(" "))
        if not inside:
            kept.append(line)
    return kept


def shorten_names(app: Any, doctree: Any) -> None:
    """Show ``mt.nn.Transformer`` and ``mt.Tensor``, as a user writes them."""
    for node in doctree.findall(addnodes.desc_addname):
        name = node.astext().replace("minitransformer.autograd.", "mt.").replace("minitransformer.", "mt.")
        node[:] = [addnodes.desc_sig_name(name, name)]


def setup(app: Any) -> dict[str, bool]:
    """Register what changes sources, docstrings and names."""
    app.connect("source-read", list_operations)
    app.connect("autodoc-process-docstring", change_docstring, priority=400)
    app.connect("doctree-read", shorten_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
