"""All that a run folder holds but the times, so that two runs can be compared to the bit."""

from pathlib import Path

import numpy as np

from minitransformer.runs import RunFolder, read_checkpoint

NO_TIMES = {"seconds": 0, "tokens_per_second": 0}


def contents(folder, but=()):
    """Return the contents of each file below a run folder by its name, of pictures the name only."""
    found = {}
    for path in Path(folder).rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_dir() or path.suffix in but:
            continue
        if path.suffix == ".safetensors":
            checkpoint = read_checkpoint(path)
            found[name] = {**checkpoint._asdict(), "path": None, "state": checkpoint.state | NO_TIMES}
        elif path.suffix == ".jsonl":
            found[name] = [line | NO_TIMES for line in RunFolder(folder).measurements.read()]
        else:
            found[name] = path.read_bytes() if path.suffix != ".png" else None
    return found


def agree(one, other, but=()):
    """Check that two run folders hold the same, apart from files of some kinds."""
    np.testing.assert_equal(contents(one, but), contents(other, but))
