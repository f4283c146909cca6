"""Values of options, made from their declarations: what is declared tomorrow is drawn on that day."""

import random
from dataclasses import replace
from types import UnionType
from typing import get_args

from minitransformer.options import OptionError

EXAMPLES = {
    "freeze": ("encoder", "embeddings,decoder"), "forbidden": ([3], [4, 5]), "bleu_tokenize": ("13a", "none", "char"),
    "minutes": (0.0005, 0.001),
}  # fmt: skip
"""Values of options whose declarations do not say what is possible here: texts, lists, and minutes to wait."""


def values_of(kind, name, near=None):
    """Return values that an option may have: all choices, or some numbers in its range, near a given one.

    Options that are paths have none.
    """
    declared = kind.declarations()[name]
    types = [*get_args(declared.kind)] if isinstance(declared.kind, UnionType) else [declared.kind]
    found = [None] if type(None) in types else []
    if declared.metadata["path"]:
        return []
    if name in EXAMPLES:
        return [*found, *EXAMPLES[name]]
    if declared.metadata["choices"]:
        return [*declared.metadata["choices"]]
    if bool in types:
        return [*found, False, True]
    assert {int, float} & {*types}, f"give {name} choices or a range, or EXAMPLES in {__name__}.py a value"
    low, above = declared.metadata["at_least"], declared.metadata["above"]
    near = near if near is not None else low if low is not None else above or 0
    numbers = [near, near + 1, 2 * near] if int in types else [near, near + 0.25, 3 * near]
    return [*found, *dict.fromkeys(one for one in [low, *numbers] if one is not None and is_possible(kind, name, one))]


def is_possible(kind, name, value):
    """Return whether a value is in the range of an option."""
    try:
        kind.check({name: value})
    except OptionError:
        return False
    return True


class Draws:
    """Options that are drawn from all that are possible, with a base in place of large defaults."""

    def __init__(self, base, seed=0):
        self.base, self.rng = base, random.Random(seed)
        flat = base.flat()
        self.values = {name: values_of(type(base), name, one if is_number(one) else None) for name, one in flat.items()}

    def draw(self, **given):
        """Return options with the given values, and others that are drawn; half of them as in the base."""
        for _ in range(200):
            chosen = {
                name: self.rng.choice(values)
                for name, values in self.values.items()
                if values and name not in given and self.rng.random() < 0.5
            }
            try:
                return replace(self.base, **chosen, **given)
            except OptionError:
                continue
        raise AssertionError(f"no options have {given}: give values that go together")


def is_number(value):
    """Return whether a value is a number and not a truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)
