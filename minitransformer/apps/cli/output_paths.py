"""Checks of output paths, before any work starts."""

from __future__ import annotations

import argparse
from pathlib import Path

from minitransformer.apps.cli.errors import UsageError
from minitransformer.durable import check_replaceable
from minitransformer.files import reason

PICTURES = (".png", ".pdf", ".svg")
PAGES = (".html", ".htm")


def check_writable(args: argparse.Namespace, *names: str) -> None:
    """Raise a UsageError unless the files of these options, where they are given, can be written; contents stay.

    Every option but ``json`` and ``save``, which names an HTML file, names a picture.
    """
    for name in names:
        if not hasattr(args, name):
            continue
        path: Path = getattr(args, name)
        endings = PAGES if name == "save" else PICTURES
        if name != "json" and path.suffix.lower() not in endings:
            raise UsageError(f"--{name} writes {', '.join(endings)}, found {path}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if name != "json":
                check_replaceable(path)
            elif path.exists():  # it may be a device
                with path.open("ab"):
                    pass
            else:
                check_replaceable(path.resolve())
        except OSError as error:
            raise UsageError(f"--{name}: {path} cannot be written: {reason(error)}; choose another path") from error
