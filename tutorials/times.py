"""How long the tutorials take, computed from their texts.

    python tutorials/times.py

writes the times wherever they are stated: at the heads of the tutorials, in their index, in the plan of the course and in
the README. The plan also repeats titles and goals, in English and Korean, and in Korean the headings to which exercises
lead. Reading and doing are apart: the rule is `minutes` of `minitransformer.apps.learn.course`. Words include
formulas and folded answers in words. Folded code, and code that only draws, do not count.
"""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from minitransformer.apps.learn import bank
from minitransformer.apps.learn.course import minutes

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import korean  # noqa: E402

DOCS = HERE.parent / "docs"
PLAN = HERE.parent / "minitransformer" / "apps" / "learn" / "course.toml"
KOREAN_PLAN = PLAN.with_name("korean") / "tutorials.toml"
KOREAN_START = """\
# 튜토리얼의 제목과 목표, 연습 문제가 가리키는 소제목. `python tutorials/times.py`가 영어와 한국어 튜토리얼에서 옮겨 쓴다.
"""
SOURCES = sorted(HERE.glob("[0-9][0-9]-*.md"))
COURSE = [source for source in SOURCES if source.name < "19"]
"""The tutorials of the series. The others, "Going deeper", are outside its hours and the plan of the course."""
CODE = re.compile(
    r"^```\{code-cell\} ipython3\n(?P<options>(?::[^\n]*\n)*)\n?(?P<code>.*?)^```$",
    re.M | re.S,
)
ANSWER = re.compile(r"^mt\.learn\.(?:check|compare)\b", re.M)
CHECK = re.compile(r'mt\.learn\.check\("([^"]+)"')
GOALS = r"\*\*(?:After this tutorial you can|이 튜토리얼을 마치면 다음을 할 수 있습니다)\*\*"
HEAD = r"(?<=\*\*Time:\*\*\s)\d+ minutes to read, \d+ to do"
KOREAN_HEAD = r"(?<=\*\*시간:\*\*\s)읽기 \d+분, 풀기 \d+분"


@dataclass(frozen=True)
class Piece:
    """A cell of code, or a piece of prose: it ends at a cell, at a heading or at `+++`."""

    text: str
    kind: str
    """``prose``, ``open`` or ``folded``."""
    drawing: bool = False
    """Code that only draws: its input is folded."""

    @property
    def level(self) -> int:
        """How many # the heading has that it begins with."""
        heading = re.match(r"#+ ", self.text) if self.kind == "prose" else None
        return len(heading[0]) - 1 if heading else 0


@cache
def pieces(tutorial: Path) -> tuple[Piece, ...]:
    """Return the cells and the prose of a tutorial in order."""
    return tuple(cut(read(tutorial).split("\n---\n", 1)[1]))


def cut(text: str) -> Iterator[Piece]:
    """Yield the pieces of a text."""
    end = 0
    for found in [*CODE.finditer(text), None]:
        prose = text[end : found.start()] if found else text[end:]
        for part in re.split(r"^\+\+\+$|^(?=#+ )", prose, flags=re.M):
            if part.strip():
                yield Piece(part.strip(), "prose")
        if found:
            end = found.end()
            kind = "folded" if "hide-cell" in found["options"] else "open"
            yield Piece(found["code"], kind, drawing="hide-input" in found["options"])


def read(path: Path) -> str:
    """Return the text of a file."""
    return path.read_text(encoding="utf-8")


def words(tutorial: Path) -> int:
    """Return how many words of prose a tutorial has."""
    prose = [piece.text for piece in pieces(tutorial) if piece.kind == "prose"]
    return sum(len(text.split()) for text in prose)


def code(tutorial: Path) -> str:
    """Return the code that is read."""
    return "".join(
        piece.text
        for piece in pieces(tutorial)
        if piece.kind == "open" and not piece.drawing
    )


def time(tutorial: Path) -> tuple[int, int]:
    """Return the minutes of reading and of doing, in steps of five."""
    lines = sum(bool(line.strip()) for line in code(tutorial).splitlines())
    both = minutes(words(tutorial), lines, len(ANSWER.findall(code(tutorial))))
    return tuple(max(5, 5 * round(one / 5)) for one in both)


def asks(tutorial: Path) -> list[str]:
    """Return the exercises that the cells of a tutorial check."""
    return CHECK.findall(code(tutorial))


def describe(tutorial: Path) -> str:
    """Return what the plan of the course says of a tutorial."""
    reading, doing = time(tutorial)
    names = "".join(f'  "{name}",\n' for name in asks(tutorial))
    title, *goals = map(quote, head(read(tutorial)))
    listed = "".join(f"  {goal},\n" for goal in goals)
    return (
        f"title = {title}\nreading = {reading}\n"
        f"doing = {doing}\ncells = [{names and chr(10)}{names}]\ngoals = [\n{listed}]\n"
    )


def head(text: str) -> list[str]:
    """Return the title and the goals of a tutorial; English terms in Korean ones are left out."""
    found = re.search(rf"^{GOALS}\n\n((?:[- ] .*\n)+)", text, re.M)[1]
    lines = [re.search("^# (.*)$", text, re.M)[1]]
    lines += re.split("^- ", found, flags=re.M)[1:]
    plain = (re.sub(r"(?<=[가-힣]) ?\([a-z -]+\)", "", line) for line in lines)
    return [" ".join(line.split()).rstrip(";.") for line in plain]


def sections(source: Path) -> list[tuple[str, str]]:
    """Return the headings of a tutorial to which exercises lead, in their words, with the Korean ones."""
    pairs = zip(
        *(
            re.findall("^## (.*)$", text, re.M)
            for text in (read(source), korean.korean(source.stem)[0])
        ),
        strict=True,
    )
    places = {exercise.tutorial for exercise in bank()}
    found = {re.sub(r"[^\w -]", "", english).lower(): one for english, one in pairs}
    return [
        (english.replace("-", " "), ours.replace("`", ""))
        for english, ours in found.items()
        if f"{source.stem}#{english.replace(' ', '-')}" in places
    ]


def quote(text: str) -> str:
    """Return a text as TOML writes it."""
    return json.dumps(text, ensure_ascii=False)


def korean_row(source: Path, both: str, title: str, goal: str) -> str:
    """Return the row of the Korean index: it has the English words where there is no translation."""
    place, translation = "../", HERE / "ko" / source.name
    if translation.exists():
        place, (title, goal, *_) = "", head(read(translation))
    notebook = source.with_suffix(".ipynb").name
    return (
        f"| {int(source.name[:2])} | [{title}]({place}{notebook}) | {goal} | {both} |\n"
    )


def stated() -> dict[Path, str]:
    """Return the texts that state a time, as they should be."""
    texts: dict[Path, str] = {}

    def put(path: Path, pattern: str, said: str) -> None:
        text = texts.get(path) or read(path)
        texts[path], times = re.subn(pattern, lambda _: said, text, flags=re.M)
        if times != 1:
            raise ValueError(f"{path}: found {pattern} {times} times, expected it once")

    rows: dict[bool, list[str]] = {True: [], False: []}
    korean_rows: dict[bool, list[str]] = {True: [], False: []}
    for source in SOURCES:
        reading, doing = time(source)
        put(source, HEAD, f"{reading} minutes to read, {doing} to do")
        if (translation := HERE / "ko" / source.name).exists():
            put(translation, KOREAN_HEAD, f"읽기 {reading}분, 풀기 {doing}분")
        entry = rf"(?<=\[tutorials\.{source.stem}\]\n)(?:.+\n)*"
        if source in COURSE:
            put(PLAN, entry, describe(source))
        title, goal, *_ = head(read(source))
        notebook = source.with_suffix(".ipynb").name
        link = f"[{title}](../../tutorials/{notebook})"
        number = int(source.name[:2])
        row = f"| {number} | {link} | {goal} | {reading} + {doing} |\n"
        rows[source in COURSE].append(row)
        korean_rows[source in COURSE].append(
            korean_row(source, f"{reading} + {doing}", title, goal)
        )
    heads = [
        pair
        for source in COURSE
        for pair in [
            *zip(head(read(source)), head(korean.korean(source.stem)[0]), strict=True),
            *sections(source),
        ]
    ]
    texts[KOREAN_PLAN] = KOREAN_START + "".join(
        f"\n[[text]]\nen = {quote(english)}\nko = {quote(ours)}\n"
        for english, ours in dict(heads).items()
        if ours != english  # what is not translated yet
    )
    index, korean_index = DOCS / "tutorials" / "index.md", HERE / "ko" / "README.md"
    for path, table in (index, rows), (korean_index, korean_rows):
        put(path, r"(?:^\| (?:\d|1[0-8]) .*\n)+", "".join(table[True]))
        put(path, r"(?:^\| (?:19|2\d) .*\n)+", "".join(table[False]))
    reading, doing = (
        round(sum(one) / 60) for one in zip(*map(time, COURSE), strict=True)
    )
    for path in (HERE.parent / "README.md", DOCS / "tutorials" / "index.md"):
        said = f"about {reading} hours to read and {doing} to do"
        put(path, r"about \d+ hours to read and \d+ to do", said)
    said = f"읽는 데 약 {reading}시간, 푸는 데 약 {doing}시간"
    for path in (HERE.parent / "README.ko.md", korean_index):
        put(path, r"읽는 데 약 \d+시간, 푸는 데 약 \d+시간", said)
    return texts


def main() -> None:
    """Write the times; the sums of the course follow from the plan, so they are right the second time."""
    for path, text in stated().items():
        path.write_text(text, encoding="utf-8", newline="\n")
    for source in SOURCES:
        print("{:4} {:4}".format(*time(source)), source.stem)


if __name__ == "__main__":
    main()
