"""The defaults, ranges, uses and descriptions of options, for tables of them."""

from dataclasses import fields

USES = ("common", "path", "flag", "added", "editable")
SIGNS = {"at_least": ">=", "above": ">", "at_most": "<=", "below": "<"}


def ranges_of(kind):
    """Return the default, the range or the choices, the uses and the help of each option of a class."""
    found = {}
    for one in fields(kind):
        limits = [f"{sign} {one.metadata[name]}" for name, sign in SIGNS.items() if one.metadata[name] is not None]
        uses = " ".join(name for name in USES if one.metadata[name])
        found[one.name] = [one.default, list(one.metadata["choices"]) or " ".join(limits), uses, one.metadata["help"]]
    return found
