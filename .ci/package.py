"""Build the last commit as a source archive and a wheel in dist/, check both, and try them in fresh environments.

The package is built from an export of the commit, so that no other file of the folder gets in. A package index shows
README.md, but has no other file of the repository: in the built package, links and pictures lead to REPOSITORY_ADDRESS.
Without an address, links become plain text and pictures their descriptions.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
INDEX_TEXT = ".ci/index.md"
"""What a package index shows; written into the export only."""
FENCE = re.compile(r"^(```.*?^```$)", re.M | re.S)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?://|#)([^)\s]+)\)")
CHECK = """
import numpy as np
from minitransformer.testing import check
print(check(np.tanh, backward=lambda x, d_y: d_y * (1 - np.tanh(x) ** 2), inputs=[np.linspace(-1, 1, 5)]))
"""
COMMANDS = (
    ["minitransformer", "--version"],
    ["minitransformer", "train", "copy", "--steps", "20", "--out", "run"],
    ["minitransformer", "translate", "run", "31415"],
    ["minitransformer", "evaluate", "run"],
    ["minitransformer", "attention", "run", "31415"],
    ["minitransformer", "explore", "run", "31415", "--save", "explorer.html"],
    ["minitransformer", "gradcheck", "softmax"],
    ["minitransformer", "learn", "list"],
    ["minitransformer", "learn", "clinic"],
    ["minitransformer", "course"],
    ["python", "-c", CHECK],
)
"""What runs with nothing but the installed wheel, in an empty folder."""


class Addresses:
    """Where the files of the repository are on the web.

    Parameters
    ----------
    repository, site : str
        The addresses of the repository and of the published site; empty if there is none.
    commit : str
        The commit of the files.
    """

    def __init__(self, repository: str, site: str, commit: str) -> None:
        self.repository, self.site, self.commit = repository.rstrip("/"), site.rstrip("/"), commit

    def of(self, path: str, picture: bool = False) -> str | None:
        """Return the address of a file or folder, or None if it has none."""
        path, _, anchor = path.partition("#")
        if self.site and path.startswith("docs/") and path.endswith(".md"):
            address = f"{self.site}/{path.removeprefix('docs/').removesuffix('.md')}.html"
        elif self.repository:
            kind = "raw" if picture else "tree" if (ROOT / path).is_dir() else "blob"
            address = f"{self.repository}/{kind}/{self.commit}/{path}"
        else:
            return None
        return f"{address}#{anchor}" if anchor else address

    def project_urls(self) -> dict[str, str]:
        """Return the addresses that the package's metadata names."""
        found = {"Documentation": f"{self.site}/"} if self.site else {}
        if self.repository:
            found["Source"] = self.repository
            found["Changelog"] = f"{self.repository}/blob/{self.commit}/CHANGELOG.md"
            found["Issues"] = f"{self.repository}/issues"
        return found


def index_text(readme: str, addresses: Addresses) -> str:
    """Return README.md as a package index can show it: without relative links."""

    def absolute(link: re.Match[str]) -> str:
        mark, text, target = link.groups()
        if address := addresses.of(target, picture=bool(mark)):
            return f"{mark}[{text}]({address})"
        return f"*{text}*" if mark else text

    parts = FENCE.split(readme)
    return "".join(part if part.startswith("```") else LINK.sub(absolute, part) for part in parts)


def export(folder: Path, addresses: Addresses) -> None:
    """Write the files of the commit into a folder, with the text and the addresses for a package index."""
    archive = subprocess.run(["git", "archive", addresses.commit], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    folder.mkdir(exist_ok=True)
    subprocess.run(["tar", "-xf", "-", "-C", folder], input=archive, check=True)
    readme = (folder / "README.md").read_text(encoding="utf-8")
    (folder / INDEX_TEXT).write_text(index_text(readme, addresses), encoding="utf-8")
    settings = (folder / "setup.cfg").read_text(encoding="utf-8")
    changed = settings.replace("file: README.md", f"file: {INDEX_TEXT}")
    if changed == settings:
        raise SystemExit("setup.cfg: found no `long_description = file: README.md`")
    if urls := addresses.project_urls():
        lines = "".join(f"\n    {name} = {address}" for name, address in urls.items())
        changed = changed.replace("\nlong_description =", f"\nproject_urls ={lines}\nlong_description =")
    (folder / "setup.cfg").write_text(changed, encoding="utf-8")


class Environment:
    """A fresh virtual environment.

    Parameters
    ----------
    folder : Path
        Its folder.
    """

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=True)
        self.folder = folder.resolve() / ("Scripts" if os.name == "nt" else "bin")

    def run(self, command: Sequence[str | Path], cwd: Path = ROOT) -> None:
        """Run a program of the environment; a failure ends this script."""
        name, *rest = map(str, command)
        print("+", name, *rest, flush=True)
        paths = os.pathsep.join([str(self.folder), os.environ["PATH"]])
        variables = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
        subprocess.run([self.folder / name, *rest], cwd=cwd, check=True, env=variables | {"PATH": paths})


def check_tag(version: str) -> None:
    """End this script if it builds a release whose tag or changelog names another version."""
    if tag := os.environ.get("RELEASE_TAG"):
        changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
        if tag != f"v{version}" or not re.search(rf"^## {re.escape(version)}\b", changes, re.M):
            raise SystemExit(f"the tag {tag}: expected v{version}, and a heading `## {version}` in CHANGELOG.md")


def main() -> None:
    """Build, check, try."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder of the two files")
    parser.add_argument("--test", nargs=argparse.REMAINDER, help="run pytest, with these arguments, in the archive")
    args = parser.parse_args()
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    addresses = Addresses(os.environ.get("REPOSITORY_ADDRESS", ""), os.environ.get("SITE_ADDRESS", ""), commit)
    out = args.out.resolve()
    if out.is_dir() and any(out.iterdir()):
        raise SystemExit(f"{out} is not empty; remove it first")
    version = re.search(r'^__version__ = "(.*)"$', (ROOT / "minitransformer/__init__.py").read_text("utf-8"), re.M)[1]
    check_tag(version)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        export(folder / "commit", addresses)
        tools = Environment(folder / "tools")
        tools.run(["python", "-m", "pip", "install", "--quiet", "build>=1.2", "twine>=6.1", "readme-renderer[md]"])
        tools.run(["python", "-m", "build", "--outdir", out, folder / "commit"])
        wheel, archive = out / f"minitransformer-{version}-py3-none-any.whl", out / f"minitransformer-{version}.tar.gz"
        tools.run(["twine", "check", "--strict", wheel, archive])
        user = Environment(folder / "user")
        user.run(["python", "-m", "pip", "install", "--quiet", wheel])
        (folder / "empty").mkdir()
        for command in COMMANDS:
            user.run(command, cwd=folder / "empty")
        if args.test is not None:
            subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)
            unpacked = folder / archive.name.removesuffix(".tar.gz")
            tester = Environment(folder / "tester")
            tester.run(["python", "-m", "pip", "install", "--quiet", ".[test]"], cwd=unpacked)
            tester.run(["python", "-m", "pytest", *args.test], cwd=unpacked)
    print(f"built {wheel.name} and {archive.name} in {out}")


if __name__ == "__main__":
    sys.exit(main())
