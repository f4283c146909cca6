"""Options: what a class declares is all that checks, changes and describes them."""

import math
import re
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, dataclass, field, fields
from typing import ClassVar, get_args

import pytest

from minitransformer.decoding import SamplingOptions, SearchOptions
from minitransformer.nn import ModelOptions
from minitransformer.options import OptionError, Options, option
from minitransformer.runs import Configuration
from minitransformer.runs.options import TrainingOptions
from minitransformer.tasks import DataOptions


@dataclass(frozen=True, kw_only=True)
class Inner(Options):
    size: int = option(3, "a size", at_least=1)
    rate: float = option(0.5, "a rate", above=0, below=1)
    kind: bool | str = option(True, choices=(True, "half"))


@dataclass(frozen=True, kw_only=True)
class Outer(Options):
    owner: ClassVar[str] = "Outer"

    name: str
    limit: float | None = option(None, "a limit", above=0)
    words: Mapping[str, str] = field(default_factory=dict)
    inner: Inner = field(default_factory=Inner)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"size": 0}, "size must be at least 1, found 0"),
        ({"size": 1.0}, r"size must be a whole number, found 1\.0"),
        ({"size": True}, "size must be a whole number, found True"),
        ({"size": None}, "size must be a whole number, found None"),
        ({"rate": 0}, "rate must be above 0 and below 1, found 0"),
        ({"rate": 1.0}, r"rate must be above 0 and below 1, found 1\.0"),
        ({"rate": math.nan}, "rate must be above 0 and below 1 and finite, found nan"),
        ({"size": 10**400}, "size must be at least 1 and finite, found 10000"),
        ({"size": 2**63}, "size must be at least 1 and at most 9223372036854775807, found 9223372036854775808"),
        ({"rate": "fast"}, "rate must be a number, found 'fast'"),
        ({"kind": 1}, "kind must be one of True, half, found 1"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(changes, words):
    for make in (lambda: Inner(**changes), lambda: Inner().changed(**changes), lambda: Inner.check(changes)):
        with pytest.raises(OptionError, match=words) as error:
            make()
        assert error.value.names == tuple(changes)


def test_options_with_parts_are_flat_outside():
    options = Outer(name="x")
    assert options.flat() == {"name": "x", "limit": None, "words": {}, "size": 3, "rate": 0.5, "kind": True}
    other = options.changed(size=4, limit=2, words={"a": "b"})
    assert (other.inner, other.limit, other.name) == (Inner(size=4), 2, "x")
    assert options == Outer(name="x")
    with pytest.raises(OptionError, match="Outer: there is no option 'sise'; is 'size' meant"):
        options.changed(sise=3)
    with pytest.raises(OptionError, match="Outer: limit must be above 0, found -1"):
        options.changed(limit=-1)
    with pytest.raises(OptionError, match="words must be a table of texts"):
        options.changed(words={"a": 1})
    with pytest.raises(FrozenInstanceError):
        options.name = "y"


def test_no_two_options_of_a_training_run_share_a_name():
    parts = ("model", "training", "data", "search")
    names = [one.name for part in parts for one in fields(getattr(Configuration(task="copy"), part))]
    own = [one for one in fields(Configuration) if one.metadata.get("option") is not False]
    names += [one.name for one in own if one.name not in parts]
    assert len(names) == len(set(names)) == len(Configuration.declarations())


KINDS = ModelOptions, TrainingOptions, DataOptions, SearchOptions, SamplingOptions
EVERY = [pytest.param(kind, name, id=f"{kind.__name__}.{name}") for kind in KINDS for name in kind.declarations()]


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_an_option_has_a_possible_default_and_says_what_it_is(kind, name):
    declared = kind.declarations()[name]
    kind.check({name: next(one.default for one in fields(kind) if one.name == name)})
    assert declared.metadata["help"]
    assert re.search(rf"^{name} : ", kind.__doc__, re.MULTILINE)


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_an_option_takes_the_ends_of_its_range_and_refuses_what_is_beyond_by_name(kind, name):
    declared, wrong, right = kind.declarations()[name], [object()], []
    limits, types = declared.metadata, get_args(declared.kind) or (declared.kind,)
    is_whole = int in types
    for limit, beyond in (("at_least", -1), ("at_most", 1)):
        if (end := limits[limit]) is not None and math.isfinite(end):
            right.append(end)
            wrong.append(end + beyond if is_whole else math.nextafter(end, beyond * math.inf))
    for limit, inside in (("above", 1), ("below", -1)):
        if (end := limits[limit]) is not None:
            right.append(math.nextafter(end, inside * math.inf))
            wrong.append(end)
    if {int, float} & {*types}:
        wrong += [True, "3", math.nan, math.inf, *([1.5] if is_whole else [])]
    if choices := limits["choices"]:
        right += choices
        wrong += ["another", 1, None]
    wrong += [None] if type(None) not in types else []
    for value in right:
        kind.check({name: value})
    for value in wrong:
        with pytest.raises(OptionError, match=name) as error:
            kind.check({name: value})
        assert error.value.names == (name,)
        assert repr(value)[:100] in f"{error.value}"
        assert all(str(choice) in f"{error.value}" for choice in choices)


@pytest.mark.parametrize("kind", KINDS)
def test_options_come_back_from_a_flat_table_without_those_that_earlier_versions_lack(kind):
    flat = kind().flat()
    assert kind.from_flat(flat) == kind()
    added = {name for name, one in kind.declarations().items() if one.metadata["added"]}
    assert kind.from_flat({name: value for name, value in flat.items() if name not in added}) == kind()
    for name in flat.keys() - added:
        with pytest.raises(OptionError, match=name):
            kind.from_flat({one: value for one, value in flat.items() if one != name})
