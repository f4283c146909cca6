"""The site: how Sphinx builds it (contributing.md says with which command)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from jupyter_client import KernelManager

import minitransformer
from minitransformer.apps.explorer import Session, save
from minitransformer.arrays import blas
from minitransformer.runs import RunFolder
from minitransformer.tasks.spelling import spell

# The arrays of the derivations are small: threads gain nothing. Kernels inherit this.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

HERE = Path(__file__).parent
TUTORIALS = HERE.parent / "tutorials"
sys.path.insert(0, str(HERE / "_extensions"))

project = "minitransformer"
author = "minitransformer contributors"
project_copyright = author
version = release = minitransformer.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
    "api",
    "links",
    "page_head",
]
exclude_patterns = ["_build", "**/jupyter_execute", "**.ipynb_checkpoints"]

html_theme = "furo"
html_title = "minitransformer"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_favicon = "_static/favicon.svg"
html_baseurl = os.environ.get("SITE_ADDRESS", "")  # with a / at its end; other sites then find the picture of a link
html_show_sphinx = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "monokai"

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "attrs_inline"]
myst_heading_anchors = 4
myst_url_schemes = ["http", "https", "mailto", "ftp", "site", "source"]  # the last two: graph.py
myst_dmath_double_inline = True
copybutton_exclude = ".linenos, .gp, .go"

# Derivations are executed at each build, and a cell that raises fails it; tutorials bring the outputs of their own run.
nb_execution_mode = "cache"
nb_execution_excludepatterns = ["tutorials/*", "tutorials/ko/*"]
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_code_prompt_show = nb_code_prompt_hide = "How this is drawn"  # tutorials/render.py says the same for notebooks

if hasattr(KernelManager, "transport_encryption"):  # without it, each kernel of later versions prints a warning
    KernelManager.transport_encryption.default_value = "auto"

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False

MATHJAX_MACROS: dict[str, Any] = {}
mathjax3_config = {"chtml": {"mtextInheritFont": True}, "tex": {"macros": MATHJAX_MACROS}}

NUMBERS = (
    432, 0, 1, 2, 7, 11, 12, 13, 16, 17, 20, 21, 30, 42, 66, 77, 99, 100, 101, 217, 365, 616, 700, 808, 999, 1000, 1001,
    2017, 12_000, 70_016, 600_000,
)  # fmt: skip
"""The sentences that the explorer on the front page holds: these numbers in words."""


PLACES = {
    "docs/tutorials/": "../", "docs/": "../../", "minitransformer/": "../../../minitransformer/",
    "README.md": "../../index.md", "tutorials/ko/": "", "tutorials/t": "../../../tutorials/t",
}  # fmt: skip
"""Where the links of the Korean README lead from its place on the site, tutorials/ko/index."""


def bring_tutorials(app: Any) -> None:
    """Copy the executed tutorials and the Korean texts beside them; links out of their folder change there."""
    target = HERE / "tutorials"
    (target / "ko").mkdir(parents=True, exist_ok=True)
    for old in target.rglob("*.ipynb"):
        old.unlink()
    for folder, root in ("", "../"), ("ko/", "../../"):
        for notebook in sorted(TUTORIALS.glob(f"{folder}[0-9][0-9]-*.ipynb")):
            text = to_site(notebook.read_text(encoding="utf-8"), root, f"../{root}")
            (target / folder / notebook.name).write_text(to_site(text, f"../{root}docs/", root), encoding="utf-8")
    korean = (HERE.parent / "README.ko.md").read_text(encoding="utf-8")
    for old, new in PLACES.items():
        korean = to_site(korean, old, new)
    (target / "ko" / "index.md").write_text(korean, encoding="utf-8")
    listed = to_site((TUTORIALS / "ko" / "README.md").read_text(encoding="utf-8"), "../../docs/tutorials/", "../")
    (target / "ko" / "README.md").write_text(to_site(listed, "../../docs/", "../../"), encoding="utf-8")


def to_site(text: str, old: str, new: str) -> str:
    """Return text whose Markdown links begin otherwise."""
    return text.replace(f"]({old}", f"]({new}")


def point_links(app: Any, docname: str, source: list[str]) -> None:
    """Lead links that make sense in the repository to where the site has the same thing."""
    text = to_site(source[0], "../../tutorials/", "../tutorials/")
    source[0] = to_site(text, "../tutorials/", "../tutorials/" if "/" in docname else "tutorials/")


def write_explorer(app: Any, exception: Exception | None) -> None:
    """Write the explorer of the front page, unless what it is made of has not changed."""
    if exception is None and app.builder.format == "html":
        run, folder = numbers_run(), Path(app.outdir) / "explorer"
        package = Path(minitransformer.__file__).parent
        parts = [
            run / "best.safetensors",
            Path(__file__),
            *(path for path in package.rglob("*.*") if path.suffix != ".pyc"),
        ]
        page = folder / "index.html"
        if not page.exists() or page.stat().st_mtime < max(part.stat().st_mtime for part in parts):
            session = Session(minitransformer.load(run), RunFolder(run))
            with blas.threads(1):  # the arrays are small
                save(page, session, [spell(number, "en") for number in NUMBERS], external=True)


def numbers_run() -> Path:
    """Return the run of the README's first command; train it once if the checkout has none."""
    runs = [folder / "runs" / "numbers" for folder in (HERE.parent, HERE / "_build")]
    for run in runs:
        if (run / "best.safetensors").exists():
            return run
    command = [sys.executable, "-m", "minitransformer", "train", "numbers", "--out", str(runs[-1]), "--overwrite"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode:
        raise RuntimeError(f"the run of the front page could not be trained: {done.stderr}")
    return runs[-1]


def setup(app: Any) -> None:
    """Register what happens before pages are read."""
    # This extension only copies files at the end, but does not declare that pages may be read in parallel.
    app.extensions["sphinx-mathjax-offline"].parallel_read_safe = True
    app.connect("builder-inited", bring_tutorials)
    app.connect("source-read", point_links)
    app.connect("build-finished", write_explorer)
