"""How docstrings are shown: operations first, under the names that a user writes."""

from __future__ import annotations

from typing import Any

from sphinx import addnodes

import minitransformer
from minitransformer.autograd import Operation

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
.. autofunction:: minitransformer.ops.{module}.composed
```
"""


def list_operations(app: Any, docname: str, source: list[str]) -> None:
    """Add a section for each operation to their page."""
    if docname == "api/ops":
        for name in minitransformer.ops.registry:
            title, page = name.replace("_", " ").capitalize(), name.replace("_", "-")
            source[0] += SECTION.format(module=name, title=title, page=page)


def change_docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Keep an operation's module as it was set by hand, show what a call returns, and tell parameters only once."""
    if what == "module" and name.startswith("minitransformer.ops.") and lines:
        lines[:] = [".. code-block:: text", "", *(f"   {line}" for line in lines), ""]
    elif isinstance(obj, Operation):
        lines[:] = without(lines, "saved : ")
    elif name.startswith("minitransformer.ops.") and name.endswith(".forward"):
        lines[:] = [
            lines[0],
            "",
            "It takes what the operation takes and returns the value and what ``backward`` needs.",
        ]


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
