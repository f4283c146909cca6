"""Writing a finished figure to a file."""

import math
from pathlib import Path

from matplotlib.figure import Figure

MOST_PIXELS = 40_000_000


def save(figure: Figure, path: Path | str, dpi: int) -> None:
    """Write a figure to a file, making its folder if need be.

    Parameters
    ----------
    figure : Figure
        What to write.
    path : Path or str
        Where to. The ending chooses the format; without one it is PNG.
    dpi : int
        Dots per inch. Lowered for a figure so large that it would take more than 40 million pixels.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    width, height = figure.get_size_inches()
    most = math.sqrt(MOST_PIXELS / (width * height))
    try:
        figure.savefig(path, format=path.suffix.removeprefix(".") or "png", dpi=min(dpi, most))
    except OSError as error:  # such as a full disk, which does not say where
        raise OSError(error.errno, error.strerror or f"{error}", f"{path}") from error
