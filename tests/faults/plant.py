"""Plant faults in the package, one at a time, and see whether its tests notice.

mutmut cannot see some of the code: lambdas, CUDA kernels, what runs at import. And it changes operators, not meanings:
it never lets tokenisers learn from held-out text. The faults here are chosen by hand. Each file of this folder lists
those of some packages:

    [[fault]]
    name = "what is wrong, in a sentence"
    file = "minitransformer/..."
    old = "text that occurs once in the file"
    new = "what stands there instead"
    tests = ["tests/..."]
    equivalent = "why no test can notice"   # only where that is so

    python tests/faults/plant.py                     # all of them; two at a time
    python tests/faults/plant.py training kernels    # those whose file or name contains a word
    python tests/faults/plant.py --whole training    # survivors meet the whole suite too

A fault is killed if the tests that are named, those of its own package, fail. The exit status is 1 if one survives.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from minitransformer.apps.learn.solutions import edit

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NEEDED = (
    "minitransformer",
    "tests",
    "docs",
    "tutorials",
    ".binder",
    "README.md",
    "setup.cfg",
    "pyproject.toml",
    ".ruff.toml",
)
SECONDS = 600
"""How long the tests of one fault may take; a fault that makes them hang is killed too."""


def read_faults() -> list[dict[str, Any]]:
    """Return the faults of all lists."""
    return [fault for path in sorted(HERE.glob("*.toml")) for fault in tomllib.loads(path.read_text("utf-8"))["fault"]]


def plant(fault: dict[str, Any], root: Path) -> str:
    """Write the fault into a tree; return the text that its file had."""
    path = root / fault["file"]
    text = path.read_text("utf-8")
    path.write_text(edit(text, fault["old"], fault["new"], f"{fault['name']}: {fault['file']}"), "utf-8")
    return text


def passes(tests: list[str], root: Path) -> bool:
    """Tell whether tests pass in a tree."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider", *tests]
    # programs that the tests start find the tree too, wherever they run
    own = {"PYTHONPATH": str(root), "HYPOTHESIS_PROFILE": "mutation", "PYTHONDONTWRITEBYTECODE": "1"}
    environment = os.environ | own
    try:
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def main() -> int:
    """Plant what the command line asks for; return 1 if something survives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only faults whose file or name contains one of these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many are tried side by side")
    parser.add_argument("--whole", action="store_true", help="try the whole suite on those that survive")
    arguments = parser.parse_args()
    words = arguments.words or [""]
    faults = [fault for fault in read_faults() if any(word in fault["file"] + fault["name"] for word in words)]
    faults = [fault for fault in faults if "equivalent" not in fault]
    # a shell lets programs in its background ignore Ctrl-C, which some tests are about
    signal.signal(signal.SIGINT, signal.default_int_handler)

    with tempfile.TemporaryDirectory() as folder:
        trees: SimpleQueue[Path] = SimpleQueue()
        for job in range(arguments.jobs):
            tree = Path(folder, f"tree-{job}")
            for name in NEEDED:
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
                tree.mkdir(exist_ok=True)
                copy(ROOT / name, tree / name)
            trees.put(tree)

        def survives(fault: dict[str, Any]) -> bool:
            tree = trees.get()
            try:
                text = plant(fault, tree)
                try:
                    alive = passes(fault["tests"], tree) and not (arguments.whole and not passes(["tests"], tree))
                finally:
                    (tree / fault["file"]).write_text(text, "utf-8")
            finally:
                trees.put(tree)
            print(f"{'SURVIVES' if alive else 'killed  '}  {fault['file']}: {fault['name']}", flush=True)
            return alive

        sound = sorted({test for fault in faults for test in fault["tests"]})
        tree = trees.get()
        if not passes(sound, tree):
            print(f"these tests fail without a fault: {' '.join(sound)}", file=sys.stderr)
            return 2
        trees.put(tree)
        with ThreadPoolExecutor(arguments.jobs) as pool:
            alive = list(pool.map(survives, faults))

    planted, survivors = (
        Counter(fault["file"].split("/")[1].removesuffix(".py") for fault in chosen)
        for chosen in (faults, [fault for fault, survived in zip(faults, alive, strict=True) if survived])
    )
    for package, number in sorted(planted.items()):
        print(f"{package:12} {number - survivors[package]:4} of {number} killed")
    return int(any(alive))


if __name__ == "__main__":
    sys.exit(main())
