"""Print how many lines there are of everything: Python, and what is not Python. Nothing fails on them.

python tests/lines.py                  # the tree as it is
python tests/lines.py --since v1.0     # beside what it was at a commit
"""

import argparse
import subprocess
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PARTS = {"minitransformer": 2, "tests": 2, "docs": 1, "tutorials": 1}
"""The folders of which a table has rows of their own, and how many names of a path make a row."""
KINDS = {".py": "Python", ".js": "scripts", ".css": "scripts", ".html": "scripts", ".cu": "scripts", ".cuh": "scripts"}
KINDS |= {".md": "pages", ".ipynb": "notebooks"}
LEFT_OUT = {".png", ".webp", ".pdf", ".svg", ".ico"}


def git(*arguments: str) -> str:
    """Return what a command of git prints."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True, encoding="utf-8").stdout


def row_of(path: Path) -> str:
    """Return the row of the table that a file belongs to."""
    depth = PARTS.get(path.parts[0], 1)
    return "/".join(path.parent.parts[:depth]) or "top level"


def count(commit: str = "") -> Counter[tuple[str, str]]:
    """Return lines by row and kind, of the tree or of a commit."""
    found: Counter[tuple[str, str]] = Counter()
    listed = ["ls-tree", "-r", "--name-only", commit] if commit else ["ls-files", "-co", "--exclude-standard"]
    for name in git(*listed).splitlines():
        path = Path(name)
        if path.suffix in LEFT_OUT or not (commit or (ROOT / path).is_file()):
            continue
        text = git("show", f"{commit}:{name}") if commit else (ROOT / path).read_text(encoding="utf-8")
        found[row_of(path), KINDS.get(path.suffix, "data")] += len(text.splitlines())
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--since", default="", help="a commit: print the difference too")
    since = parser.parse_args().since
    now, before = count(), count(since) if since else Counter()
    kinds = ["Python", "data", "scripts", "pages", "notebooks"]
    rows = sorted({row for row, _ in now | before})
    totals = {name: {row for row in rows if row.partition("/")[0] == name} for name in PARTS} | {"all": {*rows}}
    print(f"{'':32}" + "".join(f"{kind:>18}" for kind in kinds))
    for name, members in [*((row, {row}) for row in rows), *totals.items()]:
        cells = []
        for kind in kinds:
            lines, earlier = (sum(table[row, kind] for row in members) for table in (now, before))
            cells.append(f"{lines:,}" + (f" ({lines - earlier:+,})" if since and lines != earlier else ""))
        print(f"{name:32}" + "".join(f"{cell:>18}" for cell in cells))


if __name__ == "__main__":
    main()
