"""Attributes that are replaced inside a block: in all threads or in one, in blocks that end in any order."""

from contextlib import suppress
from threading import Thread
from types import SimpleNamespace

import pytest

from minitransformer.override import in_use, install, override, override_in_this_thread


def one():
    return 1


@pytest.fixture
def owner():
    return SimpleNamespace(function=one, other=one)


def in_another_thread(function):
    seen = []
    thread = Thread(target=lambda: seen.append(function()))
    thread.start()
    thread.join()
    return seen[0]


def test_the_latest_value_counts_until_its_block_ends(owner):
    with override(owner, function=lambda: 2, other=lambda: 3):
        with suppress(ZeroDivisionError), override(owner, function=lambda: 4):
            assert (owner.function(), owner.other()) == (4, 3)
            raise ZeroDivisionError
        assert (owner.function(), owner.other()) == (2, 3)
        assert in_another_thread(lambda: owner.function()) == 2
    assert owner.function is owner.other is one


def test_what_is_unknown_is_refused(owner):
    with pytest.raises(AttributeError, match="functoin"), override(owner, function=lambda: 2, functoin=lambda: 2):
        pass
    assert vars(owner) == {"function": one, "other": one}


def test_other_threads_do_not_see_an_override_of_this_one(owner):
    def two():
        return 2

    with override_in_this_thread(owner, function=two):
        assert (owner.function(), in_another_thread(lambda: owner.function())) == (2, 1)
        assert in_use(owner.function) is two
        assert in_another_thread(lambda: in_use(owner.function)) is one
        with override(owner, function=lambda: 3):
            assert (owner.function(), in_another_thread(lambda: owner.function())) == (3, 3)
        assert (owner.function(), in_another_thread(lambda: owner.function())) == (2, 1)
    assert owner.function is in_use(owner.function) is one


def test_an_override_may_call_what_it_replaces(owner):
    for depth in range(3):
        inner = owner.function
        block = override_in_this_thread(owner, function=lambda inner=inner: 10 + inner())
        block.__enter__()
        assert owner.function() == 10 * (depth + 1) + 1


def test_a_method_is_replaced_by_a_function():
    class Owner:
        def method(self, x):
            return self, x

    owner = Owner()
    for replace in (override, override_in_this_thread):
        with replace(Owner, method=lambda self, x: (x, self)):
            assert owner.method(1) == (1, owner)
    assert owner.method(1) == (owner, 1)


@pytest.mark.parametrize("replace", [override, override_in_this_thread])
def test_blocks_may_end_in_any_order(owner, replace):
    first, second = (replace(owner, function=lambda n=n: n) for n in (2, 3))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert owner.function() == 3
    second.__exit__(None, None, None)
    assert owner.function is one


def test_what_is_installed_waits_for_the_end_of_a_block(owner):
    def installed():
        return 5

    with override(owner, function=lambda: 2):
        install(owner, function=installed)
        assert owner.function() == 2
    assert owner.function is installed
    install(owner, function=one)
    assert owner.function is one


@pytest.mark.parametrize("replace", [override, override_in_this_thread])
def test_what_an_owner_inherits_is_inherited_again(replace):
    class Base:
        def method(self):
            return 1

        @staticmethod
        def static(x):
            return x

        @classmethod
        def kind(cls):
            return cls

    class Owner(Base):
        pass

    instance = Owner()
    for owner, name in ((Owner, "method"), (instance, "method"), (Base, "static")):
        with replace(owner, **{name: lambda *_: 2}):
            assert getattr(owner, name)(instance) == 2
    assert vars(instance) == {}
    assert "method" not in vars(Owner)
    assert instance.static(3) == 3
    with replace(Base, kind=lambda: 5):
        assert Base.kind() == 5
        if replace is override_in_this_thread:
            assert in_another_thread(lambda: Base.kind()) is Base
    assert Owner.kind() is Owner
    with replace(Base, method=lambda self: 4):
        assert instance.method() == 4
