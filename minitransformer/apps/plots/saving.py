"""Writing a finished figure to a file."""

import io
import math
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from minitransformer.durable import write_whole

MOST_PIXELS = 40_000_000


def save(figure: Figure, path: Path | str, dpi: int = 160) -> None:
    """Write a figure to a file, and make its folder if it is missing; a symbolic link at its path is replaced.

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
    picture = io.BytesIO()
    kind = path.suffix.removeprefix(".") or "png"
    metadata = {"Date": None} if kind == "svg" else None
    with rc_context({"svg.hashsalt": "minitransformer"}):  # with it and without a date, equal figures give equal files
        figure.savefig(picture, format=kind, dpi=min(dpi, most), metadata=metadata)
    write_whole(path, picture.getvalue())
