"""Checks that processes that train together have the same options, packages and data."""

from __future__ import annotations

from collections.abc import Mapping
from platform import python_version

from minitransformer.arrays import backend, blas, device
from minitransformer.gradients import check_micro_batches, check_workers, default_micro_batches
from minitransformer.parallel import FORKS_SAFELY, ProcessGroup, can_fork
from minitransformer.runs.configuration import Configuration
from minitransformer.runs.errors import RunError
from minitransformer.runs.provenance import digests_of
from minitransformer.tasks import Corpus, TextCorpus


def with_micro_batches(configuration: Configuration, group: ProcessGroup, fork: bool = False) -> Configuration:
    """Return a configuration with numbers of micro-batches and BLAS threads: the rounding of sums depends on both.

    A process that works alone takes the whole batch as one micro-batch, whose matrix products use all cores.
    """
    training = configuration.training
    check_workers(training.workers or 1)
    several = group.size > 1 or (fork and can_fork())
    by_default = training.workers or (default_micro_batches(training.batch_tokens) if several else 1)
    micro_batches = training.micro_batches or max(group.size, by_default)
    check_micro_batches(micro_batches, group)
    threads = training.blas_threads or blas.default_threads(micro_batches if FORKS_SAFELY or group.size > 1 else 1)
    micro_batches, threads = group.broadcast(lambda: (micro_batches, threads))
    return configuration.changed(micro_batches=micro_batches, blas_threads=threads)


def check_agreement(group: ProcessGroup, values: Mapping[str, object]) -> None:
    """Refuse processes that do not agree.

    Parameters
    ----------
    group : ProcessGroup
        The processes.
    values : mapping
        The values that must be equal in all processes, by names for the message.

    Raises
    ------
    RunError
        In all processes, if one has another value than the first process.
    """
    expected, *others = group.all_gather(dict(values))
    for rank, found in enumerate(others, 1):
        for name in expected:
            if found[name] != expected[name]:
                raise RunError(
                    f"process {rank} has another {name} than process 0: {found[name]!r}, expected {expected[name]!r}; "
                    "start every process with the same options, data and packages"
                )


def check_options(configuration: Configuration, group: ProcessGroup) -> None:
    """Refuse processes whose options or packages differ; the paths of files may differ."""
    if group.size == 1:
        return
    from importlib.metadata import version  # slow

    paths = {name for name, one in configuration.declarations().items() if one.metadata.get("path")}
    options = {f"option {name}": value for name, value in configuration.flat().items() if name not in paths}
    packages = {name: version(name) for name in ("numpy", "minitransformer")}
    check_agreement(group, {"Python": python_version(), **packages, "backend": backend(), **options})


def compare_processors(group: ProcessGroup) -> list[str]:
    """Return a note if the processes run on different processors or GPUs, otherwise an empty string.

    They can train together, because each weight is updated by one process and sent to all; only the last bits differ.
    """
    first, *others = group.all_gather(blas.kind() if backend() == "numpy" else device()["name"])
    different = [(rank, kind) for rank, kind in enumerate(others, 1) if kind != first]
    if not different:
        return []
    rank, kind = different[0]
    more = f" (and {len(different) - 1} more)" if len(different) > 1 else ""
    return [
        f"process {rank}{more} computes with {kind}, process 0 with {first}: "
        "the last bits of the weights depend on which process works on which micro-batch"
    ]


def check_data(corpus: Corpus | TextCorpus, group: ProcessGroup) -> None:
    """Refuse processes whose data differ; each process reads the data itself."""
    if group.size > 1:
        check_agreement(group, {f"digest of {name}": digest for name, digest in digests_of(corpus).items()})
