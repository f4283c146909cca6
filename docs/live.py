"""Write the exercises as pages that check answers in the browser: python docs/live.py OUT [--runtime FOLDER].

The engine runs in the page, on Pyodide: Python and NumPy compiled for browsers. Pyodide comes from its public address,
or from a folder, which is copied beside the pages. The pages need a web server, such as ``python -m http.server``.
"""

from __future__ import annotations

import argparse
import hashlib
import html
import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from string import Template

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the package that is documented here, not an installed one

from minitransformer.apps.learn import bank  # noqa: E402
from minitransformer.apps.learn.bank import Exercise  # noqa: E402
from minitransformer.apps.learn.language import LANGUAGES, said, say_source  # noqa: E402

SOURCES = Path(__file__).with_suffix("")
ADDRESS = "https://cdn.jsdelivr.net/pyodide/v0.27.7/full/"
"""Where Pyodide's own distribution is published, with the version that the pages are tested with."""
RUNTIME = ("pyodide.js", "pyodide.asm.js", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
"""The files of the runtime; its lock file names NumPy's."""
ASSETS = ("worker.js", "engine.js", "page.js", "page.css", "engine.py")
PACKAGE = ("minitransformer", "setup.cfg", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in")
"""What the wheel is built from."""
SECONDS = 10
"""When code is stopped."""
WORDS: dict[str, dict[str, str]] = tomllib.loads((SOURCES / "words.toml").read_text(encoding="utf-8"))
"""The words of the pages in each language; those that are missing in one are English."""


class RuntimeFolderError(Exception):
    """A folder is not a runtime; the message says what is missing."""


def copy_runtime(folder: Path, target: Path) -> None:
    """Copy a runtime's files and NumPy's wheel.

    Raises
    ------
    RuntimeFolderError
        If a file is missing, or NumPy's wheel is not the one that the lock file names.
    """
    if missing := [name for name in RUNTIME if not (folder / name).is_file()]:
        raise RuntimeFolderError(f"{folder} lacks {', '.join(missing)}; expected the files of Pyodide 0.27.7")
    numpy = json.loads((folder / "pyodide-lock.json").read_text(encoding="utf-8"))["packages"]["numpy"]
    wheel = folder / numpy["file_name"]
    if not wheel.is_file():
        raise RuntimeFolderError(f"{folder} lacks {wheel.name}, which pyodide-lock.json names")
    if (found := hashlib.sha256(wheel.read_bytes()).hexdigest()) != numpy["sha256"]:
        raise RuntimeFolderError(f"{wheel} has the sha256 {found}, expected {numpy['sha256']}, from pyodide-lock.json")
    target.mkdir(parents=True, exist_ok=True)
    for name in (*RUNTIME, wheel.name):
        shutil.copyfile(folder / name, target / name)


def build_wheel(target: Path) -> str:
    """Build a wheel of the package as it is now; return its file name."""
    with tempfile.TemporaryDirectory() as place:
        source, built = Path(place, "source"), Path(place, "wheel")
        source.mkdir()
        for name in PACKAGE:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copyfile(ROOT / name, source / name)
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(built), str(source)]
        subprocess.run(command, check=True)
        [wheel] = built.glob("*.whl")
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(wheel, target / wheel.name)
    return wheel.name


def write(out: Path, runtime: str = ADDRESS) -> None:
    """Write the pages in all languages, the wheel, and the runtime if it comes from a folder."""
    live = out / "live"
    address = runtime if runtime.endswith("/") else f"{runtime}/"
    if not runtime.startswith(("https://", "http://")):
        copy_runtime(Path(runtime), live / "runtime")
        address = "runtime/"  # as seen from the worker
    settings = {"runtime": address, "wheel": build_wheel(live), "seconds": SECONDS}
    for name in ASSETS:
        shutil.copyfile(SOURCES / name, live / name)
    for language in LANGUAGES:
        write_pages(out if language == "en" else out / language, language, settings)


def write_pages(folder: Path, language: str, settings: Mapping[str, object]) -> None:
    """Write the index and the page of each exercise in one language."""
    folder.mkdir(parents=True, exist_ok=True)
    root = "" if language == "en" else "../"
    words = WORDS["en"] | WORDS[language]
    words["late"] = said(words["late"].format(**settings), language)  # the message of a terminal
    shared = {**settings, "language": language, "root": root, "words": words}
    pages = Template((SOURCES / "page.html").read_text(encoding="utf-8"))

    def page(name: str, title: str, body: str, more: Mapping[str, object] = {}) -> None:
        other = "ko" if language == "en" else "en"
        text = pages.substitute(
            language=language,
            root=root,
            title=html.escape(title),
            body=body,
            other=other,
            other_page=f"{root or 'ko/'}{name}.html",
            other_name=WORDS[other]["name"],
            all=words["all"],
            # a "</script>" in the text of an exercise must not end the element
            settings=json.dumps({**shared, **more}, ensure_ascii=False).replace("<", "\\u003c"),
        )
        (folder / f"{name}.html").write_text(text, encoding="utf-8")

    exercises = bank()
    page("index", words["title"], index(exercises, words, language))
    for before, exercise, after in zip((None, *exercises), exercises, (*exercises[1:], None), strict=False):
        more = {
            "name": exercise.name,
            "start": say_source(exercise.text, language),
            "hints": [said(hint, language) for hint in exercise.hints],
            "solution": say_source(exercise.solution, language),
        }
        page(exercise.name, said(exercise.title, language), body(exercise, before, after, words, language), more)


def index(exercises: Sequence[Exercise], words: Mapping[str, str], language: str) -> str:
    """Return the list of the exercises, chapter by chapter."""
    parts = [f"<h1>{words['title']}</h1>", f"<p>{words['about']}</p>", '<p id="status" role="status"></p>']
    for chapter, members in groupby(exercises, lambda exercise: exercise.chapter):
        parts += [f"<h2>{html.escape(said(chapter, language))}</h2>", "<ul>"]
        for one in members:
            title = said(f"optional: {one.title}" if one.optional else one.title, language)
            parts.append(f'<li><a href="{one.name}.html"><code>{one.name}</code></a> {html.escape(title)}</li>')
        parts.append("</ul>")
    return "\n".join(parts)


def body(
    exercise: Exercise, before: Exercise | None, after: Exercise | None, words: Mapping[str, str], language: str
) -> str:
    """Return the part of a page that shows an exercise."""
    task = say_source(exercise.text, language).split('"""')[1]
    links = [
        f'<a rel="{rel}" href="{one.name}.html">{words[rel]}: {html.escape(said(one.title, language))}</a>'
        for rel, one in (("prev", before), ("next", after))
        if one
    ]
    return Template((SOURCES / "exercise.html").read_text(encoding="utf-8")).substitute(
        words,
        chapter=html.escape(said(exercise.chapter, language)),
        title=html.escape(said(exercise.title, language)),
        name=exercise.name,
        task=html.escape(task.strip()),
        links="\n".join(links),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder of the pages")
    parser.add_argument(
        "--runtime", default=ADDRESS, metavar="FOLDER_OR_ADDRESS", help="where Pyodide 0.27.7 is; default: %(default)s"
    )
    options = parser.parse_args()
    try:
        write(options.out, options.runtime)
    except RuntimeFolderError as error:
        parser.error(str(error))
