"""Compose the Korean tutorials, and list what is not Korean yet.

    python tutorials/korean.py

lists the texts that have no Korean and the translations that fit no English text any more: of the README, the guides,
the tutorials, the exercises, the course, messages and the explorer. Nothing fails for them: English stands in their
place. The README and a guide end with the digest of the English text that they translate; the command shows the new one.

The prose of a tutorial stands in ``ko/NAME.md``, its code once, in ``NAME.md``. A Korean source is a list of blocks, each the translation of the prose between two cells of code:

    <!-- of 1a2b3c4d -->

    The prose in Korean, with links as the English source writes them.

    <!-- code
    alt: the text alternative of the picture that the next cell draws
    # a comment, or a line of a docstring => the same in Korean
    -->

The digest is that of the English prose and of the text alternative after it. If the English text changes, its
translation no longer fits: the composed tutorial then has the English text in its place, and the command lists both,
with the new digest. Comments are optional.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from hashlib import sha256
from itertools import chain
from pathlib import Path

HERE = Path(__file__).parent
PACKAGE = HERE.parent / "minitransformer"
CATALOGUES = PACKAGE / "apps" / "learn" / "korean"
PAGE = PACKAGE / "apps" / "explorer" / "page"
DOCUMENTS = {
    HERE.parent / "README.md": HERE.parent / "README.ko.md",
    HERE.parent / "docs" / "guides" / "hangul.md": HERE.parent
    / "docs"
    / "guides"
    / "hangul.ko.md",
}
"""Documents that are translated as a whole."""
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


# ---------------------------------------------------------------------------------------------------------------------
# What is missing, and what is stale

WRITTEN = re.compile(r"about \d+ hours (?:to read and \d+ to do|per student)")
"""Times that `times.py` writes in both languages."""
TAKEN = ("Wrong", "Unsolved", "said", "fill", "label")
"""Functions that take a text for the learner."""
NOT_OF_THE_CODE = re.compile(
    r"show this help message and exit|positional arguments|options|ambiguous option: .*"  # argparse's own
    r"|\{name\}: (right|wrong|open|missing)\.|\{name\}: failed\.|(wrong|open|missing|failed): \{names\}"  # states
    r"|--weights: \{path\}: \{error\}"
)
Line = tuple[str, str]
"""A file, and what is wrong with it."""


def digest_of(document: Path) -> str:
    """Return the digest of an English document."""
    text = WRITTEN.sub("", document.read_text(encoding="utf-8"))
    return sha256(text.encode()).hexdigest()[:8]


def is_current(document: Path) -> bool:
    """Return whether the translation of a document is that of its present text."""
    translated = DOCUMENTS[document].read_text(encoding="utf-8")
    return BLOCK.findall(translated) == [digest_of(document)]


def of_documents() -> Iterator[Line]:
    """Yield the documents whose English has changed."""
    for document, translation in DOCUMENTS.items():
        if not is_current(document):
            changed = (
                f"{document.name} has changed, its digest is now {digest_of(document)}"
            )
            yield translation.name, changed


def of_tutorials() -> Iterator[Line]:
    """Yield what the translations of the tutorials lack, and what in them fits nothing."""
    for source in sorted(HERE.glob("[0-9][0-9]-*.md")):
        if (HERE / "ko" / source.name).exists():
            yield from ((f"ko/{source.name}", one) for one in korean(source.stem)[1])
        else:
            yield source.name, "not translated"


def entries(name: str) -> list[dict[str, str]]:
    """Return the entries of a catalogue; of one that is not there, none."""
    path = CATALOGUES / f"{name}.toml"
    found = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return [*chain.from_iterable(found.values())]


def of_catalogues() -> Iterator[Line]:
    """Yield the texts of exercises and course that have no entry, and the entries that are no text of theirs."""
    for name, texts in texts_of_the_course().items():
        kept = {entry["en"] for entry in entries(name)}
        for text in sorted(texts - kept):
            yield f"{name}.toml", f"not translated: {text}"
        for text in sorted(kept - texts):
            yield f"{name}.toml", f"fits nothing in the English text: {text}"


def texts_of_the_course() -> dict[str, set[str]]:
    """Return the English texts of the exercises by the folders of the chapters, of the tutorials and of the course."""
    from minitransformer.apps.learn import bank
    from minitransformer.apps.learn.course import DATA
    from minitransformer.apps.learn.solutions import SOURCES, read_mistakes

    found: dict[str, set[str]] = {}
    for one in bank():
        folder = one.file.partition("/")[0]
        texts = found.setdefault(folder, {one.chapter})
        texts |= {f"optional: {one.title}" if one.optional else one.title, *one.hints}
        parts = re.findall(r'"""((?:.|\n)+?)"""|# (.+)', one.source)
        texts |= {
            text
            for part in parts
            for text in part
            if text and "solution" not in text.partition(" in the exercise:")[0][:9]
        }
    for path in SOURCES.glob("*/mistakes.toml"):
        for mistakes in read_mistakes(path).values():
            found[path.parent.name] |= {one["says"] for one in mistakes}
    course = tomllib.loads(DATA.read_text(encoding="utf-8"))
    found["tutorials"] = {
        text
        for one in course["tutorials"].values()
        for text in (one["title"], *one["goals"])
    } | {one.tutorial.partition("#")[2].replace("-", " ") for one in bank()}
    found["course"] = {*course["texts"].values()}
    for week in course["week"]:
        lab = week["lab"]
        found["course"] |= {week["title"], lab["title"], lab["observe"]}
        found["course"] |= {*week["questions"]}
    found["course"] -= found["tutorials"]
    return found


def of_messages() -> Iterator[Line]:
    """Yield messages of the code that have no entry, and entries that no code says."""
    from minitransformer.apps.cli.parser import ARGUMENTS

    kept = {entry["en"]: " ".join(entry["en"].split()) for entry in entries("messages")}
    helps = {
        re.sub(r":\w+(?=})", "", one["help"])
        for group in ("learn", "clinic", "course")
        for one in ARGUMENTS[group].values()
    }
    for text in sorted(helps - {*kept}):
        yield "messages.toml", f"not translated: {text}"
    code = ("apps/learn/**/*.py", "apps/cli/*.py", "testing/causes.py")
    texts: dict[tuple[str, ...], bool] = {}
    for pieces, taken in texts_of_the_code(*code):
        texts[pieces] = taken or texts.get(pieces, False)
    for pieces, taken in sorted(texts.items()):
        if taken and not any(is_said(text, pieces) for text in kept.values()):
            yield "messages.toml", f"not translated: {'{...}'.join(pieces)}"
    for text, words in kept.items():
        said = any(is_said(words, pieces) for pieces in texts)
        if not said and text not in helps and not NOT_OF_THE_CODE.fullmatch(text):
            yield "messages.toml", f"fits nothing in the English text: {text}"


def texts_of_the_code(*patterns: str) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yield the texts in files, each in the pieces between what is filled in, and whether it is for a learner."""
    for path in chain.from_iterable(map(PACKAGE.glob, patterns)):
        tree, taken = ast.parse(path.read_text(encoding="utf-8")), set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in TAKEN:
                taken |= {id(one) for one in node.args}
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            said = [
                one.value if isinstance(one, ast.Constant) else None for one in parts
            ]
            text = "".join("\0" if one is None else str(one) for one in said)
            paragraphs = text.split("\n\n")
            for part in {text, *paragraphs, *text.split("\n")}:
                if len(re.findall("[a-z]", part)) > 1:
                    whole = id(node) in taken and part in paragraphs
                    yield tuple(" ".join(part.split()).split("\0")), whole


def is_said(text: str, pieces: tuple[str, ...]) -> bool:
    """Tell whether a text begins with the first piece, ends with the last, and has the others between them."""
    if len(pieces) == 1:
        return text == pieces[0]
    if not (text.startswith(pieces[0]) and text.endswith(pieces[-1])):
        return False
    place = len(pieces[0])
    for piece in pieces[1:-1]:
        if (place := text.find(piece, place)) < 0:
            return False
        place += len(piece)
    return place <= len(text) - len(pieces[-1])


def of_the_explorer() -> Iterator[Line]:
    """Yield the words of the explorer's page that have no entry, and entries that stand nowhere in its code."""
    text = r'"((?:[^"\\]|\\.)*)"'
    kept = set(
        re.findall(rf"^\s*{text}:", (PAGE / "ko.js").read_text(encoding="utf-8"), re.M)
    )
    files = [*PAGE.glob("*.js"), *PAGE.glob("*.html"), *PAGE.parent.glob("*.py")]
    code = "\n".join(
        path.read_text(encoding="utf-8") for path in files if path.name != "ko.js"
    )
    for one in sorted({*re.findall(rf"\bt\({text}", code)} - kept):
        yield "ko.js", f"not translated: {one}"
    messages = {
        pieces
        for pieces, _ in texts_of_the_code(
            "apps/**/*.py", "*.py", "tasks/*.py", "training/*.py"
        )
    }
    for one in sorted(kept):
        if one not in code and not any(is_said(one, pieces) for pieces in messages):
            yield "ko.js", f"fits nothing in the English text: {one}"


def main() -> None:
    """List what is missing and what is stale."""
    kinds = of_documents, of_tutorials, of_catalogues, of_messages, of_the_explorer
    lines = [line for kind in kinds for line in kind()]
    for file, wrong in lines:
        print(f"{file}: {' '.join(wrong.split())}")
    print(f"{len(lines)} texts are in English, or their translation fits nothing.")


if __name__ == "__main__":
    main()
