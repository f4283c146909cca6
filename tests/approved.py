"""Approved texts: what was printed when somebody read it, whole, in a file beside the test; there are few of them."""

import os


def check_approved(path, text):
    """Compare a text with the approved one; with ``APPROVE=1``, write one that differs, and fail all the same."""
    approved = path.read_text(encoding="utf-8") if path.exists() else ""
    differs = text.splitlines() != approved.splitlines()
    if differs and os.environ.get("APPROVE") == "1":
        path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
        raise AssertionError(f"wrote {path.name}: read the difference (git diff), then run again without APPROVE")
    assert text.splitlines() == approved.splitlines(), f"if this text of {path.name} is right, run with APPROVE=1"
