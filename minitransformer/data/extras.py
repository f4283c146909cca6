"""Packages that only some people need: each comes with an extra of this package."""

from __future__ import annotations

__all__ = ["MissingExtraError"]


class MissingExtraError(ImportError):
    """A package is not installed that comes with an extra of this one.

    Parameters
    ----------
    what : str
        What needs it, as the beginning of a sentence.
    package : str
        The package.
    extra : str
        The extra that brings it.
    """

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(
            f"{what} needs the package {package}, which is not installed; "
            f'install it with `pip install "minitransformer[{extra}]"`',
            name=package,
        )
