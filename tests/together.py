"""Processes that train together, as threads of one process: what MPI does, without MPI."""

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np


class Board:
    """Where the threads put what they send."""

    def __init__(self, size):
        self.size = size
        self.values = [None] * size
        self.barrier = threading.Barrier(size, timeout=60)


class Together:
    """One of several threads that call each other's methods as processes do."""

    weights = None

    def __init__(self, board, rank):
        self.board, self.rank, self.size, self.local_rank = board, rank, board.size, rank
        self.sent, self.memory = 0, np.empty(0)

    def all_gather(self, value):
        self.board.barrier.wait()
        self.board.values[self.rank] = value
        self.board.barrier.wait()
        values = list(self.board.values)
        self.board.barrier.wait()
        return values

    def broadcast(self, function):
        return self.all_gather(function() if self.rank == 0 else None)[0]

    def spread(self, function, items):
        found = self.all_gather(function(items[self.rank :: self.size]))
        return [found[i % self.size][i // self.size] for i in range(len(items))]

    def send_buffer(self, sizes, dtype):
        if self.memory.size != sum(sizes):
            self.memory = np.empty(sum(sizes), dtype)
        return self.memory

    def all_to_all(self, sent, sizes, received_sizes):
        ends = np.cumsum([0, *sizes])
        assert ends[-1] == sent.size
        self.sent += sent.nbytes
        parts = [sent[first:last].copy() for first, last in pairwise(ends)]
        received = [parts[self.rank] for parts in self.all_gather(parts)]
        assert [part.size for part in received] == list(received_sizes)
        return received

    def all_gather_into(self, values, parts):
        self.sent += values[parts[self.rank]].nbytes * (self.size - 1)
        for part, own in zip(parts, self.all_gather(values[parts[self.rank]].copy()), strict=True):
            values[part] = own

    def abort(self, status):
        self.board.barrier.abort()


def run_together(size, function):
    """Return what the function returns in each of several threads, given the thread's ranks."""
    board = Board(size)

    def run(rank):
        try:
            return function(Together(board, rank))
        except BaseException:
            board.barrier.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(run, rank) for rank in range(size)]
    errors = [future.exception() for future in futures]
    for error in sorted(filter(None, errors), key=lambda error: isinstance(error, threading.BrokenBarrierError)):
        raise error
    return [future.result() for future in futures]
