"""The public names of a package, which its ``__init__`` writes once: it imports each name ``as`` itself."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any


def public_names(namespace: Mapping[str, Any], *more: str) -> list[str]:
    """Return the names of a package for its ``__all__``, which ``help`` and ``import *`` read.

    Parameters
    ----------
    namespace : mapping
        ``globals()`` of the package. Modules are left out, as is what comes from another library.
    *more : str
        Names that are loaded when they are first used, or are types of another library.
    """
    ours = __name__.partition(".")[0]
    found = {
        name
        for name, value in namespace.items()
        if name[0] != "_" and value is not public_names and not isinstance(value, ModuleType)
        if getattr(value, "__module__", ours).startswith(ours)
    }
    return sorted({*found, *more})
