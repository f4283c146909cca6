"""Run the tutorials, and keep their two forms in step.

Each tutorial is written as ``NAME.md``, the reviewed source. ``NAME.ipynb`` holds the same cells with their outputs and
pictures, and is written by this program alone:

    python tutorials/render.py                   # run all of them, write the notebooks
    python tutorials/render.py 04                # the one whose name begins so
    python tutorials/render.py --check           # run them, write nothing, fail if the two forms differ
    python tutorials/render.py --jobs 1          # one after another; otherwise as many at a time as there are cores
    python tutorials/render.py --korean          # run nothing; compose the Korean notebooks, list what is missing

Every tutorial runs from a clean kernel in the folder of tutorials. It fails if a cell raises or if it takes too long.
A translation, ``ko/NAME.md``, holds prose alone (``korean.py``): its notebook has the code and outputs of the English one,
sets the language, and has the verdicts on answers in Korean.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from itertools import chain
from pathlib import Path

import jupytext
import korean
import nbformat
from jupyter_client import KernelManager
from nbclient import NotebookClient

from minitransformer.apps.learn.language import said

# The arrays are small: threads gain nothing, and on a busy machine they wait for one another. Kernels inherit this.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["MINITRANSFORMER_RECORD"] = (
    "0"  # what a learner has solved beside the notebooks changes no output
)

if hasattr(
    KernelManager, "transport_encryption"
):  # without it, each kernel of later versions prints a warning
    KernelManager.transport_encryption.default_value = "auto"

HERE = Path(__file__).parent
LIMIT = 120
"""Seconds that a tutorial may take with two cores to itself; beside others it may take so many times longer."""
FOLDED: dict[str, tuple[dict[str, bool], str, str]] = {
    "hide-cell": (
        {"source_hidden": True, "outputs_hidden": True},
        "Answer, in code",
        "답(코드)",
    ),
    "hide-input": ({"source_hidden": True}, "How this is drawn", "그림을 그리는 코드"),
}
"""The tags of cells that the site folds: what Jupyter needs to fold them too, what the site calls them, in Korean too."""


SPEAK_KOREAN = """import os

os.environ["MINITRANSFORMER_LANG"] = "ko"  # 답에 대한 판정이 한국어로 나옵니다
"""
"""The beginning of the code of a Korean notebook."""


def read(source: Path) -> nbformat.NotebookNode:
    """Return the cells of a source, without outputs; what changes from one machine to another is left out."""
    in_korean = source.parent.name == "ko"
    text = source.read_text(encoding="utf-8")
    notebook = jupytext.reads(
        korean.korean(source.stem)[0] if in_korean else text, fmt="md:myst"
    )
    if in_korean or (HERE / "ko" / source.name).exists():
        link = "[English](../{})" if in_korean else "[한국어](ko/{})"
        title, _, rest = notebook.cells[0].source.partition("\n")
        link = link.format(source.with_suffix(".ipynb").name)
        notebook.cells[0].source = f"{title}\n\n{link}\n{rest}"
    if in_korean:
        first = next(cell for cell in notebook.cells if cell.cell_type == "code")
        first.source = f"{SPEAK_KOREAN}\n{first.source}"
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
        cell["metadata"].pop("lines_to_next_cell", None)
        for tag in FOLDED.keys() & set(cell["metadata"].get("tags", ())):
            cell["metadata"]["jupyter"], *prompts = FOLDED[tag]
            prompt = prompts[in_korean]
            cell["metadata"].setdefault("mystnb", {}).update(
                code_prompt_show=prompt, code_prompt_hide=prompt
            )
    notebook.metadata = {
        "kernelspec": notebook.metadata["kernelspec"],
        "language_info": {"name": "python"},
    }
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


async def run(notebook: nbformat.NotebookNode) -> float:
    """Fill in the outputs; return the seconds that it took."""
    start = time.perf_counter()
    client = NotebookClient(
        notebook,
        timeout=5 * LIMIT,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": HERE}},
    )
    await client.async_execute()
    notebook.metadata["language_info"] = {"name": "python"}
    return time.perf_counter() - start


def translate(source: Path, outputs_of: Path) -> nbformat.NotebookNode:
    """Return the notebook of a translation, with the outputs of the notebook that it translates, verdicts in Korean."""
    notebook, original = read(source), nbformat.read(outputs_of, as_version=4)
    for cell, theirs in zip(notebook.cells, original.cells, strict=True):
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = theirs.outputs, theirs.execution_count
            for output in cell.outputs if "mt.learn." in cell.source else ():
                if output.output_type == "stream":
                    lines = output.text.split("\n")
                    output.text = "\n".join(said(line, "ko") for line in lines)
    return notebook


def render_korean(beginning: str) -> None:
    """Write the Korean notebooks and print what is missing in them."""
    for original in sources(beginning):
        source, target = HERE / "ko" / original.name, original.with_suffix(".ipynb")
        if not source.exists():
            print(f"{original.stem}: not translated")
            continue
        for complaint in korean.korean(original.stem)[1]:
            print(f"ko/{source.name}: {complaint}")
        nbformat.write(translate(source, target), source.with_suffix(".ipynb"))


def cells(notebook: nbformat.NotebookNode) -> list[tuple[str, str, dict]]:
    """Return kind, text and metadata of every cell."""
    return [(cell.cell_type, cell.source, cell.metadata) for cell in notebook.cells]


def paired(source: Path) -> bool:
    """Tell whether the notebook beside a source has the same cells, and the outputs of a whole run in order."""
    target = source.with_suffix(".ipynb")
    if not target.exists():
        return False
    notebook = nbformat.read(target, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    in_order = [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    return in_order and cells(notebook) == cells(read(source))


def in_step(source: Path, outputs_of: Path) -> bool:
    """Tell whether the notebook beside a translation has its cells, and the outputs of the English notebook."""
    target = source.with_suffix(".ipynb")
    if not (target.exists() and outputs_of.exists()):
        return False
    return nbformat.read(target, as_version=4) == translate(source, outputs_of)


def sources(beginning: str = "") -> list[Path]:
    """Return the tutorials in reading order."""
    return sorted(
        path for path in HERE.glob("[0-9][0-9]-*.md") if path.name.startswith(beginning)
    )


async def render(source: Path, check: bool, limit: int) -> list[str]:
    """Run a tutorial and write its notebook and its translation's, or only check them; return what is wrong."""
    wrong = []
    target, translations = (
        source.with_suffix(".ipynb"),
        [*HERE.glob(f"ko/{source.name}")],
    )
    if check:
        outdated = [source] * (not paired(source))
        outdated += [one for one in translations if not in_step(one, target)]
        wrong += [
            f"{one.relative_to(HERE).with_suffix('.ipynb')} is not what {one.name} says; run python tutorials/render.py"
            for one in outdated
        ]
    notebook = read(source)
    seconds = await run(notebook)
    print(f"{source.stem}: {seconds:.1f} s", flush=True)
    if seconds > limit:
        wrong.append(f"{source.stem} took {seconds:.0f} s, expected at most {limit} s")
    if not check:
        nbformat.write(notebook, target)
        for one in translations:
            nbformat.write(translate(one, target), one.with_suffix(".ipynb"))
    return wrong


async def render_all(chosen: list[Path], check: bool, jobs: int) -> list[str]:
    """Render some tutorials at a time; return what is wrong."""
    free = asyncio.Semaphore(jobs)

    async def render_next(source: Path) -> list[str]:
        async with free:
            return await render(source, check, LIMIT * jobs)

    # The later ones take longer. They start first, and the short ones fill the gaps at the end.
    return list(
        chain.from_iterable(await asyncio.gather(*map(render_next, reversed(chosen))))
    )


def main() -> int:
    """Run what the command line asks for; return 1 if something is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "beginning", nargs="?", default="", help="only tutorials whose name begins so"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; fail if source and notebook differ",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count(),
        help="how many run at a time (default: all cores)",
    )
    parser.add_argument(
        "--korean",
        action="store_true",
        help="run nothing; write the Korean notebooks, list missing translations",
    )
    arguments = parser.parse_args()
    chosen = sources(arguments.beginning)
    if not chosen:
        parser.error(
            f"no tutorial begins with {arguments.beginning!r}; there are {[p.stem for p in sources()]}"
        )
    if arguments.jobs < 1:
        parser.error(f"--jobs: expected a positive number, found {arguments.jobs}")
    if arguments.korean:
        render_korean(arguments.beginning)
        return 0
    wrong = asyncio.run(render_all(chosen, arguments.check, arguments.jobs))
    for complaint in wrong:
        print(complaint)
    return min(len(wrong), 1)


if __name__ == "__main__":
    sys.exit(main())
