"""The calls of MPI, on a stand-in for mpi4py whose processes are threads; tests/mpi has the real one."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest
from together import run_together

from minitransformer.parallel import MPI, SINGLE_PROCESS, process_group

pytestmark = pytest.mark.numpy_only("the processes here are threads, which share the one GPU")
HERE = threading.local()
KINDS = {}


class World:
    """The communicator of one thread, with the methods of mpi4py."""

    def __init__(self, together):
        self.together, self.rank, self.size = together, together.rank, together.size
        self.allgather = together.all_gather

    def Split_type(self, kind):
        return self

    def bcast(self, value):
        values = self.allgather(value)
        assert values[1:] == [None] * (self.size - 1)
        return values[0]

    def Alltoallv(self, sent, received):
        values, sizes, starts, _ = sent
        parts = [values[start : start + size].copy() for start, size in zip(starts, sizes, strict=True)]
        values, sizes, starts, _ = received
        for theirs, start, size in zip(self.allgather(parts), starts, sizes, strict=True):
            values[start : start + size] = theirs[self.rank]

    def Allgatherv(self, sent, received):
        values, sizes, starts, _ = received
        places = [slice(start, start + size) for start, size in zip(starts, sizes, strict=True)]
        for place, part in zip(places, self.allgather(values[places[self.rank]].copy()), strict=True):
            values[place] = part


@pytest.fixture
def together(monkeypatch):
    """Return what calls a function with the MPI of each of several threads."""

    def module(name):
        assert name == "mpi4py.MPI"
        return SimpleNamespace(
            COMM_WORLD=HERE.world,
            COMM_TYPE_SHARED=0,
            INFO_ENV=KINDS,
            IN_PLACE=None,
            _typedict={"d": "double", "f": "float"},
        )

    monkeypatch.setattr(process_group, "import_module", module)

    def run(size, function):
        def begin(together):
            HERE.world = World(together)
            return function(MPI())

        return run_together(size, begin)

    return run


def test_the_first_process_calls_the_function(together):
    called = []
    assert together(3, lambda group: group.broadcast(lambda: called.append(group.rank) or 7)) == [7, 7, 7]
    assert called == [0]


def test_one_process_is_alone_and_memory_for_one_type_is_not_for_another(together):
    assert together(1, lambda _: process_group.start("mpi")) == [SINGLE_PROCESS]

    def exchange(group):
        return [group.all_to_all(np.full(2, 0.1, kind), [1, 1], [1, 1])[0].dtype for kind in ("f4", "f8", "f4")]

    assert together(2, exchange) == [["float32", "float64", "float32"]] * 2


@pytest.mark.parametrize("n", [0, 1, 5])
def test_values_come_in_the_order_of_the_items(together, n):
    items = list(range(n))
    squares = [item**2 for item in items]
    assert together(3, lambda group: group.spread(lambda some: [item**2 for item in some], items)) == [squares] * 3


def test_each_process_receives_its_parts_in_the_order_of_their_ranks(together):
    """Process i sends i, i + 10 ... to the others: to process j as many as j + 1 numbers."""

    def exchange(group):
        sizes = [to + 1 for to in range(group.size)]
        sent = np.repeat([group.rank + 10.0 * to for to in range(group.size)], sizes)
        return np.concatenate(group.all_to_all(sent, sizes, [group.rank + 1] * group.size)).tolist()

    assert together(3, exchange) == [[0, 1, 2], [10, 10, 11, 11, 12, 12], [20] * 3 + [21] * 3 + [22] * 3]


def test_all_processes_have_all_parts(together):
    parts = [slice(0, 2), slice(2, 2), slice(2, 5)]

    def share_out(group):
        values = np.full(5, 99.0)
        values[parts[group.rank]] = group.rank
        group.all_gather_into(values, parts)
        return values.tolist()

    assert together(3, share_out) == [[0, 0, 2, 2, 2]] * 3


def test_mpi_reads_the_memory_of_gpus_only_where_its_library_says_so(together, monkeypatch):
    reads = []
    for kinds in (None, "", "mpi,system", "cuda", "system,cuda:device,mpi"):
        monkeypatch.setitem(KINDS, "mpi_memory_alloc_kinds", kinds)
        reads += together(1, lambda group: group._reads_gpus)
    assert reads == [False, False, False, True, True]
