"""What belongs together: equations, lines of code, exercises, wrong gradients, tests and sections of tutorials.

Everything is read from the sources: nothing is built, and no list is kept by hand besides the places of the core.
``links.py`` turns the graph into links of the site. A target is written ``site:DOCUMENT#ANCHOR`` or
``source:FILE#ANCHOR``, with paths from docs/ and from the root of the repository.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from minitransformer.apps.learn import Exercise, bank

ROOT = Path(__file__).parents[2]
OPS, TESTS, GALLERY_CODE = "minitransformer/ops", "tests/ops", "tests/gallery"
GALLERY, EXERCISES = "gallery-of-wrong-gradients", "guides/exercises"
ONE_FILE = "tutorials/transformer.py"

sys.path.insert(0, str(ROOT / GALLERY_CODE))
from gallery_page import anchor  # noqa: E402
from gallery_page import code as entry_code  # noqa: E402
from gallery_page import derivation as entry_derivation  # noqa: E402
from gallery_page import heading as entry_heading  # noqa: E402, F401
from gallery_page import source as entry_source  # noqa: E402
from wrong_core import CORE  # noqa: E402
from wrong_entry import Entry  # noqa: E402
from wrong_operations import OPERATIONS  # noqa: E402

NUMBER = re.compile(r"(?<![\w)\]])\((\d+)\)(?![^\W가-힣])")
"""The number of an equation, as prose and comments cite it; a Korean particle may follow."""
TAG = re.compile(r"(?P<before>quad|&|\\;|^)\s*\((?P<number>\d+)\)(?=[\s\\]*$)", re.MULTILINE)
"""The number of an equation, as a display formula has it at the end of a line."""
PAPER = re.compile(r"[Ee]quations? *$")
EQUATIONS = {
    "cross-entropy": {"smoothed-targets": 2, "ignored-targets": 4, "cross-entropy-forward": 7}
    | dict.fromkeys(("cross-entropy-backward", "label-smoothing-backward"), 12),
    "dropout": {"dropout-forward": 4, "dropout-backward": 10},
    "elementary-rules": {"product-rule": 6, "tanh-from-its-output": 22, "sum-along-an-axis": 32, "unbroadcast": 45},
    "embedding": {"repeated-ids": 5},
    "feed-forward": {"relu-and-its-corner": 9, "feed-forward-backward": 10},
    "grouped-query-attention": {"grouped-heads-backward": 5},
    "layer-norm": {"layer-norm-forward": 6, "gain-and-bias-gradients": 15, "centring-backward": 19}
    | {"layer-norm-backward": 21},
    "linear": {"matmul-backward": 7, "linear-backward": 7, "one-weight-for-a-batch": 8, "add-with-broadcasting": 9},
    "log-softmax": {"log-sum-exp": 5},
    "low-rank-linear": {"low-rank-adaptation": 7},
    "masking": {"mask-before-softmax": 1, "causal-mask": 3, "padding-mask": 4},
    "multi-head-attention": {"split-heads": 2, "merge-heads": 4, "self-attention-backward": 17},
    "positions": {"sinusoidal-positions": 2},
    "rms-norm": {"rms-norm-forward": 4, "rms-norm-backward": 12},
    "rotary": {"rotary-forward": 2, "rotary-backward": 9, "find-the-wrong-positions": 6},
    "scaled-dot-product-attention": {"scaled-scores": 1, "attention-forward": 3, "weights-and-values-backward": 11}
    | {"queries-and-keys-backward": 13},
    "softmax": {"softmax-forward": 1, "softmax-of-large-scores": 2, "softmax-backward": 10, "scores-backward": 10},
    "swiglu": {"swiglu-backward": 8},
}
"""The equation of a derivation that an exercise asks for, where it is one."""
FENCE = re.compile(r"^(`{3,}|:{3,}).*?^\1", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Section:
    """A section of a tutorial."""

    tutorial: str
    """The name of the file, without its suffix."""
    anchor: str
    title: str
    text: str
    """Its Markdown, up to the next heading of any level."""

    @property
    def target(self) -> str:
        """Where it is on the site."""
        return f"site:tutorials/{self.tutorial}#{self.anchor}"


def is_of_the_paper(text: str, start: int) -> bool:
    """Tell whether the number at a place in a text is that of the paper's equation: "equation (1) of the paper"."""
    sentence = re.split(r"(?<=[.!?:;])\s", text[start:], maxsplit=1)[0] + text[max(0, start - 80) : start]
    return bool(PAPER.search(text[:start]) and re.search(r"paper|section|Vaswani|Attention Is All", sentence))


def slug(title: str) -> str:
    """Return the anchor that a heading has, as GitHub and MyST make it."""
    return re.sub(r"[^\w\- ]", "", title.replace("`", "").strip().lower()).replace(" ", "-")


@cache
def tutorials() -> tuple[Section, ...]:
    """Return the sections of all tutorials in reading order."""
    return tuple(section for path in sorted((ROOT / "tutorials").glob("[0-9][0-9]-*.md")) for section in sections(path))


def sections(path: Path) -> Iterator[Section]:
    """Yield the sections of a tutorial. A line of code that begins with # is no heading."""
    text = path.read_text(encoding="utf-8")
    plain = FENCE.sub(lambda match: re.sub(r"^#", " ", match[0], flags=re.MULTILINE), text)
    heads = [*re.finditer(r"^(#{1,4}) +(.*)$", plain, re.MULTILINE)]
    for head, after in zip(heads, [*heads[1:], None], strict=True):
        yield Section(path.stem, slug(head[2]), head[2], text[head.end() : after.start() if after else len(text)])


@cache
def derivations() -> dict[str, Path]:
    """Return the derivations by their names: those of the operations, and that of the elementary rules."""
    files = [path for path in (ROOT / OPS).glob("[a-z]*.py") if path.stem != "heads"]  # shared by two operations
    names = [path.stem.replace("_", "-") for path in files]
    return {name: ROOT / "docs" / "derivations" / f"{name}.md" for name in sorted([*names, "elementary-rules"])}


@cache
def equations(document: Path) -> frozenset[int]:
    """Return the numbers of the equations of a derivation or tutorial."""
    text = FENCE.sub("", document.read_text(encoding="utf-8"))
    blocks = re.findall(r"^\$\$\n(.*?)^\$\$$", text, re.MULTILINE | re.DOTALL)
    found = {int(tag["number"]) for block in blocks for tag in TAG.finditer(block)}
    return frozenset(found | {int(n) for n in re.findall(r"\. \((\d+)\)$", text, re.MULTILINE)})  # those in words


def derivation_title(name: str) -> str:
    """Return the title of a derivation."""
    found = re.search(r"^# (.+)$", derivations()[name].read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else name


def source_of(derivation: str) -> str:
    """Return the file of the operation that a derivation is about, or of the elementary rules."""
    path = f"{OPS}/{derivation.replace('-', '_')}.py"
    return path if (ROOT / path).exists() else "minitransformer/autograd/rules.py"


def derivation_of(path: str) -> str | None:
    """Return the derivation that belongs to a source file: an operation, the core or their tests."""
    name = Path(path).stem.removeprefix("test_").replace("_", "-")
    if path.startswith("minitransformer/autograd/"):
        return "elementary-rules"
    return name if path.startswith((OPS, TESTS, "tests/autograd")) and name in derivations() else None


@cache
def cited_lines(path: str) -> dict[int, tuple[int, ...]]:
    """Return the lines of a source file whose comments and docstrings name each equation of its derivation."""
    derivation = derivation_of(path)
    if derivation is None or not path.startswith("minitransformer/"):
        return {}
    known, found = equations(derivations()[derivation]), {}
    for line, text in prose_of((ROOT / path).read_text(encoding="utf-8")):
        for match in NUMBER.finditer(text):
            if int(match[1]) in known and not PAPER.search(text[: match.start()]):
                found.setdefault(int(match[1]), dict[int, None]())[line] = None
    return {number: tuple(lines) for number, lines in sorted(found.items())}


def prose_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of the docstrings and comments of Python code, each with its number."""
    previous = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_docstring = token.type == tokenize.STRING and previous in (tokenize.NEWLINE, tokenize.INDENT)
        if token.type == tokenize.COMMENT or is_docstring:
            yield from enumerate(token.string.splitlines(), token.start[0])
        if token.type not in (tokenize.NL, tokenize.COMMENT):
            previous = token.type


def lines_of(path: str) -> list[str]:
    """Return the lines of a source file."""
    return (ROOT / path).read_text(encoding="utf-8").splitlines()


@cache
def definitions(path: str) -> dict[int, str]:
    """Return the names that a file defines at its top level, and methods as CLASS.METHOD, by their first lines.

    A file of the gallery has an address for each of its mistakes as well.
    """
    if path.endswith(".toml"):
        return {line: anchor(name) for line, name in entry_lines(path).items()}
    begins = re.compile(r"(add\w*|OPERATIONS\.append|    Entry)\(")
    starts = [0, *(at for at, line in enumerate(lines_of(path), 1) if begins.match(line))]
    found = {max(at for at in starts if at <= line): anchor(name) for line, name in entry_lines(path).items()}
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.lineno] = node.name
            if isinstance(node, ast.ClassDef):
                methods = (part for part in node.body if isinstance(part, ast.FunctionDef))
                found |= {method.lineno: f"{node.name}.{method.name}" for method in methods}
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.lineno, node.targets[0].id)
    return found


# ---------------------------------------------------------------------------------------------------------------------
# Wrong gradients, exercises, tests


def entries() -> tuple[Entry, ...]:
    """Return the gallery of wrong gradients."""
    return (*OPERATIONS, *CORE)


@cache
def entry_lines(path: str) -> dict[int, str]:
    """Return the names of the mistakes that a file of the gallery enters, by their lines."""
    lines = lines_of(path) if path.startswith(GALLERY_CODE) else []
    begins = re.compile(r'(?:.*\bname=|\[)"([^"]+: [^"]+)"[],)]')
    return {at: found[1] for at, line in enumerate(lines, 1) if (found := begins.match(line))}


def mistakes_of(exercise: Exercise) -> list[Entry]:
    """Return the wrong gradients that an exercise is about."""
    return [entry for entry in entries() if entry.card.exercise == exercise.name]


def derivation_for(exercise: Exercise) -> tuple[str, int]:
    """Return the derivation of an exercise, or nothing, and the equation that it asks for, or 0."""
    for name, numbers in EQUATIONS.items():
        if exercise.name in numbers:
            return name, numbers[exercise.name]
    return exercise.derivation, 0


def exercises_of(derivation: str) -> list[Exercise]:
    """Return the exercises that belong to a derivation."""
    return [exercise for exercise in bank() if derivation_for(exercise)[0] == derivation]


def in_one_file(derivation: str) -> list[str]:
    """Return the functions of the Transformer in one file that a derivation is about."""
    others = {"scaled-dot-product-attention": ["attention"], "masking": ["softmax"]}
    others["multi-head-attention"] = ["split", "merge", "multi_head_attention"]
    names = others.get(derivation, [derivation.replace("-", "_")])
    return [function for function in definitions(ONE_FILE).values() if function.removesuffix("_backward") in names]


@cache
def tests_of(derivation: str) -> tuple[str, ...]:
    """Return the test files of an operation: its own, or those that call it, and the properties that all must have."""
    name = derivation.replace("-", "_")
    if derivation == "elementary-rules":
        return ("tests/autograd/test_elementary_rules.py", "tests/autograd/test_random_graphs.py")
    own = ROOT / TESTS / f"test_{name}.py"
    others = (path for path in sorted((ROOT / TESTS).glob("test_*.py")) if calls(path, name))
    found = [own] if own.exists() else list(others)
    return (*(path.relative_to(ROOT).as_posix() for path in found), f"{TESTS}/test_properties.py")


def calls(path: Path, operation: str) -> bool:
    """Tell whether a test file is about an operation: it calls it by its name."""
    text = path.read_text(encoding="utf-8")
    return path.stem not in ("test_properties", "test_refusals") and bool(re.search(rf"\b{operation}\(", text))


def readers_of(derivation: str) -> list[Section]:
    """Return the sections of tutorials that link to a derivation; a tutorial's list of what to read next comes last."""
    found = [section for section in tutorials() if f"derivations/{derivation}.md" in section.text]
    first: dict[str, Section] = {}
    for section in found:
        first.setdefault(section.tutorial, section)
    return [section for section in found if section.title != "Next" or first[section.tutorial] is section]


def title_of(section: Section) -> str:
    """Return how a link to a section reads."""
    whole = next(other.title for other in tutorials() if other.tutorial == section.tutorial)
    return f"{int(section.tutorial[:2])}. {whole if section.title in ('Next', 'Summary') else section.title}"


# ---------------------------------------------------------------------------------------------------------------------
# Markdown


def link(text: str, target: str) -> str:
    """Return a link."""
    return f"[{text}]({target})"


def to_exercise(exercise: Exercise) -> str:
    """Return a link to an exercise."""
    return link(f"`{exercise.name}`", f"site:{EXERCISES}#{exercise.name}")


def to_entry(entry: Entry) -> str:
    """Return a link to a wrong gradient."""
    return link(entry.name, f"site:{GALLERY}#{anchor(entry.name)}")


def to_file(path: str, at: str = "") -> str:
    """Return a link to a source file, or to a name in it."""
    short = path.removeprefix("minitransformer/")
    return link(f"`{short}`", f"source:{path}" + (f"#{at}" if at else ""))


def to_section(section: Section) -> str:
    """Return a link to a section of a tutorial."""
    return link(title_of(section), section.target)


def items(rows: Iterable[tuple[str, Iterable[str]]]) -> str:
    """Return a list of links for each row that has any."""
    return "".join(f"- **{name}:** {', '.join(links)}\n" for name, found in rows if (links := [*found]))


def back_links(derivation: str) -> str:
    """Return what links to a derivation, as its last section."""
    path = source_of(derivation)
    lines = (
        f"({number}): line{'s' * (len(at) > 1)} " + " and ".join(link(str(n), f"source:{path}#L-{n}") for n in at)
        for number, at in cited_lines(path).items()
    )
    return "\n\n## Linked from here\n\n" + items((
        ("Code", [to_file(path)]),
        ("Equations in the code", lines),
        ("The Transformer in one file", (link(f"`{at}`", f"source:{ONE_FILE}#{at}") for at in in_one_file(derivation))),
        ("Tutorials", map(to_section, readers_of(derivation))),
        ("Exercises", (to_exercise(one) + equation_of(one) for one in exercises_of(derivation))),
        ("Wrong gradients", (to_entry(entry) for entry in entries() if entry_derivation(entry) == derivation)),
        ("Tests", map(to_file, tests_of(derivation))),
    ))  # fmt: skip


def equation_of(exercise: Exercise) -> str:
    """Return the number of the equation that an exercise asks for, in brackets; the site makes a link of it."""
    return f" ({number})" if (number := derivation_for(exercise)[1]) else ""


def exercise_list() -> str:
    """Return the list of all exercises: a heading for each, so that it has an address of its own."""
    parts, chapter = ["\n\n## All exercises\n"], ""
    for exercise in bank():
        if exercise.chapter != chapter:
            chapter = exercise.chapter
            parts.append(f"\n### {chapter}\n")
        parts.append(f"\n#### `{exercise.name}`\n\n{sentence(exercise.title)}\n\n{exercise_links(exercise)}")
    return "".join(parts)


def sentence(title: str) -> str:
    """Return a title as a sentence."""
    return title[0].upper() + title[1:] + "." * (title[-1] not in ".?!")


def exercise_links(exercise: Exercise) -> str:
    """Return what belongs to an exercise."""
    tutorial, _, heading = exercise.tutorial.partition("#")
    titles = [section.title for section in tutorials() if (section.tutorial, section.anchor) == (tutorial, heading)]
    taught = f"{int(tutorial[:2])}. {(titles or [heading])[0]}"
    derivation, equation = derivation_for(exercise)
    name = derivation and derivation_title(derivation) + f", equation ({equation})" * bool(equation)
    target = f"site:derivations/{derivation}" + f"#eq-{equation}" * bool(equation)
    rows = (
        ("Tutorial", [link(taught, f"site:tutorials/{exercise.tutorial}")]),
        ("Derivation", [link(name, target)] if derivation else []),
        ("Code", [to_file(source_of(derivation))] if derivation else []),
        ("Wrong gradients", map(to_entry, mistakes_of(exercise))),
    )
    return " · ".join(f"{name}: {', '.join(links)}" for name, found in rows if (links := [*found])) + "\n"


def related(path: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield what belongs to a source file, as rows of texts and targets."""
    derivation = derivation_of(path)
    mistakes = [entry for entry in entries() if entry_source(entry) == path]
    is_test = path.startswith("tests/")
    if path == ONE_FILE:
        about = [name for name in derivations() if in_one_file(name)]
    elif is_test and derivation is None:
        about = [name for name in derivations() if path in tests_of(name)]
    else:
        about = [derivation] if derivation else []
    yield "Derivation", [(derivation_title(name), f"site:derivations/{name}") for name in about]
    if is_test or path == ONE_FILE:
        yield "Code", [(source_of(name), f"source:{source_of(name)}") for name in about]
    elif derivation and path == source_of(derivation):
        yield "Tutorials", [(title_of(section), section.target) for section in readers_of(derivation)]
        yield "In one file", [(name, f"source:{ONE_FILE}#{name}") for name in in_one_file(derivation)]
        yield "Exercises", [(e.name, f"site:{EXERCISES}#{e.name}") for e in exercises_of(derivation)]
    if not is_test:
        yield "Wrong gradients", [(entry.name, f"site:{GALLERY}#{anchor(entry.name)}") for entry in mistakes]
    if derivation and path == source_of(derivation):
        yield "Tests", [(test, f"source:{test}") for test in tests_of(derivation)]


def pages() -> set[str]:
    """Return the source files that the graph itself leads to."""
    known: set[Any] = {source_of(name) for name in derivations()} | {entry_source(entry) for entry in entries()}
    known |= {test for name in derivations() for test in tests_of(name)} | {ONE_FILE}
    return known | {entry_code(entry) for entry in entries()} | {f"{GALLERY_CODE}/test_gallery.py"}


def parts() -> Iterator[Path]:
    """Yield the files that the graph is made from."""
    yield from sorted((ROOT / "tutorials").glob("[0-9][0-9]-*.md"))
    yield from sorted((ROOT / "minitransformer/apps/learn/exercises").glob("*/chapter.toml"))
    yield from (ROOT / path for path in sorted(pages()))
