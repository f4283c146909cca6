"""What processes that train together must have in common."""

from __future__ import annotations

from importlib.metadata import version
from platform import python_version

from minitransformer.arrays import backend, blas, card
from minitransformer.tasks import Corpus
from minitransformer.training.configuration import Configuration
from minitransformer.training.provenance import digests_of
from minitransformer.training.ranks import Ranks, check_agreement
from minitransformer.training.workers import check_shares, check_workers, default_workers

__all__ = ["check_data", "check_options", "compare_processors", "with_shares"]


def with_shares(configuration: Configuration, ranks: Ranks) -> Configuration:
    """Return a configuration that says how many shares and BLAS threads there are: sums are rounded accordingly."""
    training = configuration.training
    check_workers(training.workers or 1)
    by_workers = training.workers and training.workers * ranks.size
    shares = training.shares or by_workers or max(ranks.size, default_workers(training.batch_tokens))
    check_shares(shares, ranks)
    threads = training.blas_threads or blas.default_threads(shares)
    return ranks.first(lambda: configuration.changed(shares=shares, blas_threads=threads))


def check_options(configuration: Configuration, ranks: Ranks) -> None:
    """Refuse processes with other options or packages; files may lie elsewhere in each."""
    paths = {name for name, one in configuration.declarations().items() if one.metadata.get("path")}
    options = {f"option {name}": value for name, value in configuration.flat().items() if name not in paths}
    packages = {name: version(name) for name in ("numpy", "minitransformer")}
    check_agreement(ranks, {"Python": python_version(), **packages, "backend": backend(), **options})


def compare_processors(ranks: Ranks) -> list[str]:
    """Return what is to be said if the processes run on different processors or GPUs.

    They can train together: whoever moves a weight tells all. Only the last bits are others.
    """
    first, *others = ranks.gather(blas.kind() if backend() == "numpy" else card()["name"])
    different = [(rank, kind) for rank, kind in enumerate(others, 1) if kind != first]
    if not different:
        return []
    rank, kind = different[0]
    more = f" (and {len(different) - 1} more)" if len(different) > 1 else ""
    return [
        f"process {rank}{more} computes with {kind}, process 0 with {first}: "
        "the last bits of the weights depend on which process works on which share"
    ]


def check_data(corpus: Corpus, ranks: Ranks) -> None:
    """Refuse processes with other data: each reads it itself, as it would have to be where the process is anyway."""
    if ranks.size > 1:
        check_agreement(ranks, {f"digest of {name}": digest for name, digest in digests_of(corpus).items()})
