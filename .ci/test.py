"""Install the package with what its tests need into this Python, and run the tests.

``lowest`` installs the lowest versions that setup.cfg accepts, ``newest`` the newest.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Install and test."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", choices=("lowest", "newest"))
    parser.add_argument("options", nargs=argparse.REMAINDER, help="options and tests for pytest; by default all tests")
    args = parser.parse_args()
    python = [sys.executable, "-m"]
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder) / "constraints.txt"
        with constraints.open("wb") as file:
            if args.versions == "lowest":
                subprocess.run([sys.executable, ROOT / ".ci" / "lowest"], stdout=file, check=True)
        install = [*python, "pip", "install", "--upgrade", "--constraint", str(constraints), "-e", ".[test]"]
        subprocess.run(install, cwd=ROOT, check=True)
    # The package names the encoding of every file; the tests do not, and Windows would take cp1252.
    environment = os.environ | {"PYTHONUTF8": "1"}
    sys.exit(subprocess.run([*python, "pytest", *(args.options or ["--all"])], cwd=ROOT, env=environment).returncode)


if __name__ == "__main__":
    main()
