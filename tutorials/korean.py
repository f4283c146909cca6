"""Compose the Korean tutorials: their prose stands in ``ko/NAME.md``, their code once, in ``NAME.md``.

A Korean source is a list of blocks, each the translation of the prose between two cells of code:

    <!-- of 1a2b3c4d -->

    The prose in Korean, with links as the English source writes them.

    <!-- code
    alt: the text alternative of the picture that the next cell draws
    # a comment, or a line of a docstring => the same in Korean
    -->

The digest is that of the English prose and of the text alternative after it. If the English text changes, its
translation no longer fits: the composed tutorial then has the English text in its place, and `render.py --korean` lists
both, with the new digest. Comments are optional.
"""

import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

HERE = Path(__file__).parent
CODE = re.compile(r"^```\{code-cell\}.*?^```$", re.M | re.S)
ALT = re.compile(r'(?<=alt: ").*(?="\}\})')
TIMES = re.compile(r"\d+ minutes to read, \d+ to do")
BLOCK = re.compile(r"^<!-- of (\w{8}) -->$", re.M)
TABLE = re.compile(r"^<!-- code\b(.*?)-->$", re.M | re.S)
ROW = re.compile(r"^(.+?) => (.+)$|^(alt): (.+)$", re.M)
LINK = re.compile(r"\]\((?!https:|#)((\d\d-[\w-]+)\.)?")
ANSWER = {"# Answer": "# 답"}


def english_blocks(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the prose of an English source block by block, each with the cell of code that follows, and its digest."""
    end = 0
    for found in [*CODE.finditer(text), None]:
        prose, code = (
            (text[end : found.start()], found[0]) if found else (text[end:], "")
        )
        end = found.end() if found else end
        alt = ALT.search(code)
        said = f"{TIMES.sub('', prose).strip()}\n{alt[0] if alt else ''}".strip()
        yield prose, code, sha256(said.encode()).hexdigest()[:8] if said else ""


def compose(english: str, korean: str) -> tuple[str, list[str]]:
    """Return a Korean tutorial with its code, and what is missing or no longer fits."""
    head, body = english.split("\n---\n", 1)
    texts = BLOCK.split(korean)
    translated = dict(zip(texts[1::2], texts[2::2], strict=True))
    rows = [
        row.groups() for table in TABLE.findall(korean) for row in ROW.finditer(table)
    ]
    words = {theirs: ours for theirs, ours, _, _ in rows if theirs}
    parts, wrong, unused = [], [], {*translated, *words}
    for prose, code, digest in english_blocks(body):
        ours = translated.get(digest, prose)
        unused.discard(digest)
        if digest and digest not in translated:
            wrong.append(
                f"not translated, digest {digest}: {' '.join(prose.split())[:60]}"
            )
        for theirs in words:
            if theirs in code:
                unused.discard(theirs)
        alt = re.search(r"^alt: (.*)$", ours, re.M)
        code = ALT.sub(lambda found, alt=alt: alt[1] if alt else found[0], code)
        for theirs, said in (words | ANSWER).items():
            code = re.sub(
                rf"(?<!\w){re.escape(theirs)}(?![\w ])", lambda _, said=said: said, code
            )
        parts += [
            f"\n\n{lead(TABLE.sub('', ours).strip())}\n\n".replace("\n\n\n\n", "\n\n"),
            code,
        ]
    wrong += [f"fits nothing in the English text: {one}" for one in sorted(unused)]
    return f"{head}\n---{''.join(parts).rstrip()}\n", wrong


def lead(prose: str) -> str:
    """Return prose whose links lead on from the folder of translations, to a translation where there is one."""

    def target(found: re.Match[str]) -> str:
        here = found[2] and (HERE / "ko" / f"{found[2]}.md").exists()
        return found[0] if here else f"](../{found[1] or ''}"

    return LINK.sub(target, prose)


def korean(name: str) -> tuple[str, list[str]]:
    """Return the Korean tutorial of a name, and what is missing or no longer fits."""
    texts = [
        (HERE / folder / f"{name}.md").read_text(encoding="utf-8")
        for folder in (".", "ko")
    ]
    return compose(*texts)
