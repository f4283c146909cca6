"""Approved texts: what was printed when somebody read it, whole, in files. ``APPROVE=1`` before pytest writes them."""

import os


def check_approved(path, text):
    """Compare a text with the one in a file, or write it there."""
    if os.environ.get("APPROVE"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text.splitlines() == path.read_text(encoding="utf-8").splitlines()
