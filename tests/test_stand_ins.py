"""Functions for which others stand in: by condition, in one thread, in blocks that end in any order."""

from threading import Thread

from minitransformer import stand_ins
from minitransformer.stand_ins import in_this_thread, in_use, reference, replaceable, stand_in, standing_in


def one():
    return 1


def test_a_stand_in_is_used_where_its_condition_holds():
    function, allowed = replaceable(one), []
    stand_in(function, lambda: 2, when=lambda: bool(allowed))
    assert function() == 1
    allowed.append(True)
    assert function() == 2
    with standing_in({function: lambda: 3}):
        assert function() == 3
    assert function() == 2


def test_where_the_condition_of_the_latest_fails_an_earlier_one_is_used():
    function = replaceable(one)
    with standing_in({function: lambda: 2}), standing_in({function: lambda: 3}, when=lambda: False):
        assert function() == in_use(function)() == 2


def test_other_threads_do_not_see_a_stand_in_of_this_one():
    function, seen = replaceable(one), []
    with standing_in({function: lambda: 2}, when=in_this_thread()):
        thread = Thread(target=lambda: seen.append(function()))
        thread.start()
        thread.join()
        assert (function(), seen) == (2, [1])


def test_blocks_may_end_in_any_order():
    function = replaceable(one)
    first, second = (standing_in({function: lambda n=n: n}) for n in (2, 3))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert function() == 3
    second.__exit__(None, None, None)
    assert in_use(function) is reference(function)


def test_what_is_loaded_later_is_loaded_once(monkeypatch):
    monkeypatch.setattr(stand_ins, "_LATER", [])
    calls = []
    stand_ins.load_later(lambda: (calls.append("kernels"), stand_ins.load()))
    stand_ins.load()
    stand_ins.load()
    assert calls == ["kernels"]
