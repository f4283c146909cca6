"""The defaults and ranges of options, for tables of them."""

from dataclasses import fields

SIGNS = {"at_least": ">=", "above": ">", "at_most": "<=", "below": "<"}


def ranges_of(kind):
    """Return the default and the range, or the choices, of each option of a class."""
    found = {}
    for one in fields(kind):
        limits = [f"{sign} {one.metadata[name]}" for name, sign in SIGNS.items() if one.metadata[name] is not None]
        found[one.name] = [one.default, list(one.metadata["choices"]) or " ".join(limits)]
    return found
