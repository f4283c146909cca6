"""Optional packages, each installed by an extra of this package."""

from __future__ import annotations


class MissingExtraError(ImportError):
    """An optional package is not installed; the message names the extra that installs it.

    Parameters
    ----------
    what : str
        What needs it: the beginning of the message.
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
