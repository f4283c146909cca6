"""Install the package with what its tests need into this Python, and run the tests.

``lowest`` installs the lowest versions that setup.cfg accepts, ``newest`` the newest.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = ("pronunciation", "scores", "test", "text")


def lowest() -> Iterator[str]:
    """Yield the lowest accepted version of each direct dependency."""
    settings = ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    lines = [settings["options"]["install_requires"], *(settings["options.extras_require"][name] for name in EXTRAS)]
    yield from (line.replace(">=", "==") for line in "\n".join(lines).split() if ">=" in line)


def main() -> None:
    """Install and test."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", choices=("lowest", "newest"))
    parser.add_argument("options", nargs=argparse.REMAINDER, help="options and tests for pytest; by default all tests")
    args = parser.parse_args()
    python = [sys.executable, "-m"]
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder) / "constraints.txt"
        constraints.write_text("\n".join(lowest()) if args.versions == "lowest" else "", encoding="utf-8")
        install = [*python, "pip", "install", "--upgrade", "--constraint", str(constraints), "-e", ".[test]"]
        subprocess.run(install, cwd=ROOT, check=True)
    sys.exit(subprocess.run([*python, "pytest", *args.options], cwd=ROOT).returncode)


if __name__ == "__main__":
    main()
