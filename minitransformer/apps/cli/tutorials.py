"""Open the tutorials in JupyterLab.

They are copied to my-tutorials/ in your clone of the repository first. Existing copies are not
changed; delete one to start it again. If your exercises or MINITRANSFORMER_LANG are in Korean, the
Korean notebook opens.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from minitransformer.apps.cli.errors import UsageError
from minitransformer.apps.cli.options import refusing
from minitransformer.apps.learn import Book, find_folder
from minitransformer.apps.learn.language import language

CLONE = Path(__file__).parents[3]
"""The clone of the repository that this package is in, unless it was installed as a wheel."""

OFFLINE = (
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.news_url=None",
    "--LabApp.extension_manager=readonly",
    "--LanguageServerManager.autodetect=False",
)
"""Options that keep JupyterLab from asking servers for newer versions, news and extensions, and from running npm to
look for language servers."""


def run(args: argparse.Namespace) -> int:
    """Copy the notebooks that are not there yet, and run JupyterLab until Ctrl-C."""
    notebooks = sorted((CLONE / "tutorials").glob("[0-9][0-9]-*.ipynb"))
    if not notebooks:
        raise UsageError(
            f"there are no tutorials in {CLONE}. They are not part of the installed package: clone the repository "
            'and run `python -m pip install -e ".[tutorials]"` in the clone'
        )
    numbers = [int(notebook.name[:2]) for notebook in notebooks]
    if args.number not in numbers:
        raise UsageError(f"found no tutorial {args.number}, expected one of {', '.join(map(str, numbers))}")
    with refusing(args):
        spoken = Book.language_of(find_folder()) or language()
    if find_spec("jupyterlab") is None:
        raise UsageError(f'JupyterLab is not installed. Run `python -m pip install -e "{CLONE}[tutorials]"`')
    folder = CLONE / "my-tutorials"
    # Notebooks import the other Python files; ko/ holds the Korean ones.
    others = [path for path in notebooks[0].parent.glob("*.py") if path.stem not in ("korean", "render", "times")]
    others += sorted(notebooks[0].parent.glob("ko/[0-9][0-9]-*.ipynb"))
    copy_missing([*notebooks, *others], folder)
    chosen = notebooks[numbers.index(args.number)].name
    if (CLONE / "tutorials" / (translated := f"{spoken}/{chosen}")).is_file():
        chosen = translated
    print(f"Your copies of the tutorials are in {folder}. JupyterLab opens {chosen}. Ctrl-C stops it.", flush=True)
    options = [
        f"--ServerApp.root_dir={CLONE}",  # links lead out of the folder
        f"--LabApp.default_url=/lab/tree/{folder.name}/{chosen}",
        "--JupyterApp.answer_yes=True",  # to the question of Ctrl-C
        "--ServerApp.allow_root=True",  # in a container everybody is root
        *OFFLINE,
        *["--no-browser"] * args.no_browser,
    ]
    return wait_for(subprocess.Popen([sys.executable, "-m", "jupyterlab", *options]))


def copy_missing(files: list[Path], folder: Path) -> None:
    """Copy the files that the folder lacks; beside ``tutorials/``, links of notebooks to sources and pictures work."""
    places = {file: folder / file.relative_to(CLONE / "tutorials") for file in files}
    copies = {file: copy for file, copy in places.items() if not copy.exists()}
    for file, copy in copies.items():
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    notebooks = [copy for copy in copies.values() if copy.suffix == ".ipynb"]
    if notebooks:  # JupyterLab shows no SVG picture of a notebook that it does not trust
        subprocess.run([sys.executable, "-m", "jupyter", "trust", *notebooks], capture_output=True, check=False)


def wait_for(process: subprocess.Popen[bytes]) -> int:
    """Return the status of a process when it ends; Ctrl-C reaches the process too, which then stops its kernels."""
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue
