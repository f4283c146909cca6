"""What processes that train together find out about each other before they begin."""

from itertools import product
from types import SimpleNamespace

import pytest
from together import run_together
from toml_cases import cases_from_toml

from minitransformer.apps.cli import main
from minitransformer.arrays import backend, blas, device
from minitransformer.data import MissingExtraError
from minitransformer.parallel import (
    SINGLE_PROCESS,
    launched_rank,
    process_group,
    start,
)
from minitransformer.runs import Configuration, RunError
from minitransformer.tasks import build
from minitransformer.training import agreement
from minitransformer.training.agreement import (
    check_agreement,
    check_options,
    compare_processors,
    with_micro_batches,
)
from minitransformer.training.preparing import prepare


@pytest.fixture
def configuration():
    return Configuration.of_task(build("copy"), train_pairs=20, held_out=2, batch_tokens=64)


@pytest.mark.parametrize(("n", "found", "wanted"), [(1, 5, 4), (2, 0, 4), (2, None, 4), (1, "", "a"), (2, 4, None)])
def test_every_process_is_compared_with_the_first(n, found, wanted):
    def check(group):
        with pytest.raises(RunError, match=f"process {n} has another x than process 0: {found!r}, expected {wanted!r}"):
            check_agreement(group, {"x": found if group.rank == n else wanted})

    run_together(3, check)


def test_options_must_agree(configuration):
    def check(group):
        check_options(configuration, group)
        with pytest.raises(RunError, match="process 1 has another option steps than process 0: 8, expected 7"):
            check_options(configuration.changed(steps=7 + group.rank), group)

    run_together(2, check)


def test_files_may_lie_elsewhere_in_each_process(configuration):
    run_together(2, lambda group: check_options(configuration.changed(source=f"{group.rank}.tsv"), group))


def test_a_training_does_not_begin_with_different_files(tmp_path):
    for rank, name in product((0, 1), "ab"):
        (tmp_path / f"{rank}{name}.txt").write_text(f"x{rank}" * 100, encoding="utf-8")

    def check(group):
        texts = [str(tmp_path / f"{group.rank}{name}.txt") for name in "ab"]
        configuration = Configuration.of_task(build("characters"), text=texts, window=8, min_count=1)
        with pytest.raises(RunError, match="process 1 has another digest of"):
            prepare(configuration, None, group)

    run_together(2, check)


@pytest.mark.numpy_only("several processes share the cores of a CPU")
@pytest.mark.parametrize(
    ("options", "micro_batches"), [({}, 2), ({"workers": 3}, 3), ({"workers": 3, "micro_batches": 5}, 5)]
)
def test_by_default_each_process_has_a_micro_batch(configuration, options, micro_batches):
    configuration = configuration.changed(**options)
    found = run_together(2, lambda group: with_micro_batches(configuration, group).training.micro_batches)
    assert found == [micro_batches, micro_batches]


@pytest.mark.numpy_only("several processes share the cores of a CPU")
@pytest.mark.parametrize("micro_batches", [None, 6])
@pytest.mark.parametrize("workers", [None, 2])
@pytest.mark.parametrize("threads", [None, 5])
@pytest.mark.parametrize("forks", [False, True])
def test_threads_of_products_follow_from_the_shares_unless_they_are_given(
    configuration, monkeypatch, micro_batches, workers, threads, forks
):
    monkeypatch.setattr(agreement.blas, "default_threads", lambda n: 100 + n)
    monkeypatch.setattr(agreement, "default_micro_batches", lambda tokens: 3 if tokens == 64 else 0)
    for name, found in (("can_fork", lambda: forks), ("FORKS_SAFELY", forks)):
        monkeypatch.setattr(agreement, name, found)
    given = {"micro_batches": micro_batches, "workers": workers, "blas_threads": threads}
    found = with_micro_batches(configuration.changed(**given), SINGLE_PROCESS, fork=True).training
    number = micro_batches or workers or (3 if forks else 1)
    by_default = 100 + (number if forks else 1)  # where no process forks, the products have all cores
    assert (found.micro_batches, found.blas_threads, found.workers) == (number, threads or by_default, workers)


@pytest.mark.numpy_only("several processes share the cores of a CPU")
def test_a_process_that_is_not_to_fork_has_one_micro_batch(configuration, monkeypatch):
    monkeypatch.setattr(agreement, "default_micro_batches", lambda tokens: 3)
    monkeypatch.setattr(agreement, "can_fork", lambda: True)
    assert [
        with_micro_batches(configuration, SINGLE_PROCESS, fork).training.micro_batches for fork in (False, True)
    ] == [1, 3]


@cases_from_toml
def test_launchers_are_recognised(environment, rank):
    assert launched_rank(environment) == rank


@pytest.mark.parametrize("rank", ["x", "", "-1", "1.5", "²"])
def test_a_launcher_that_gives_no_rank_is_told_in_a_line(capsys, monkeypatch, rank):
    monkeypatch.setenv("PMI_SIZE", "2")
    monkeypatch.setenv("PMI_RANK", rank)
    assert main(["translate", "run", "x"]) == 2
    err = capsys.readouterr().err
    assert f"PMI_RANK is {rank!r}, expected the rank of this process" in err
    assert err.count("\n") == 1


def test_mpi_is_imported_only_where_it_is_asked_for(monkeypatch):
    def fail(name):
        raise ImportError(name)

    monkeypatch.setattr(process_group, "import_module", fail)
    assert start() is SINGLE_PROCESS
    with pytest.raises(
        MissingExtraError, match=r"^work over MPI \(mpi4py\.MPI\) needs .* mpi4py with an MPI library, .*mpi\]"
    ):
        start("mpi")


@cases_from_toml
def test_other_processors_are_told_once(kinds, words):
    notes = compare_processors(SimpleNamespace(all_gather=lambda own: kinds))
    assert [note.partition(" of the weights")[0] for note in notes] == words


def test_what_is_compared_is_what_rounds():
    notes = compare_processors(SimpleNamespace(all_gather=lambda own: [own, "another"]))
    expected = blas.kernels() if backend() == "numpy" else device()["name"]
    assert f"process 0 with {expected}" in notes[0]
