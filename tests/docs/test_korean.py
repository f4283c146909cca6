"""The Korean texts have the structure, the code, the links and the numbers of the English ones, block by block.

What is missing or stale stays English; `python tutorials/korean.py` lists it, and no test fails for it.
"""

import ast
import io
import json
import re
import shutil
import tokenize
from collections import Counter
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from toml_cases import toml_table

from minitransformer.apps import learn
from minitransformer.apps.learn.language import said

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted(path.stem for path in (ROOT / "tutorials" / "ko").glob("[0-9]*.md"))
PAIRS = [("README.md", "README.ko.md"), ("docs/guides/hangul.md", "docs/guides/hangul.ko.md")]
ONLY_IN_KOREAN = {"README.ko.md": ["tutorials/ko/README.md", "docs/korean-terms.md", "docs/guides/hangul.ko.md"]}
PAIRS += [(f"tutorials/{name}.md", f"tutorials/ko/{name}.md") for name in TUTORIALS]
SPEC = spec_from_file_location("korean", ROOT / "tutorials" / "korean.py")
korean_tutorials = module_from_spec(SPEC)
SPEC.loader.exec_module(korean_tutorials)
FENCE = re.compile(r"^(```[^\n]*\n(?::[^\n]*\n)*)(.*?)^```$", re.M | re.S)
ALT = re.compile(r'(?<=alt: )"[^"]+"')
LINK = re.compile(r"\]\(([^)]+)\)")
FORMULA = re.compile(r"\$\$.*?\$\$|\$[^$]+\$|`[^`]+`", re.S)
IN_WORDS = toml_table(__file__, "IN_WORDS")
"""Numbers that English writes in words and Korean may write with digits."""


@cache
def read(name: str) -> str:
    path = ROOT / name
    if path.parent.name == "ko":
        return korean_tutorials.korean(path.stem)[0]
    return korean_tutorials.BLOCK.sub("", path.read_text(encoding="utf-8"))


def blocks(name: str) -> list[str]:
    """Return the blocks of a text; a block of code leaves its place alone, and what a picture shows."""
    text = FENCE.sub(lambda found: f"```{''.join(ALT.findall(found[1]))}", read(name).split("\n---\n", 1)[-1])
    return [block.strip() for block in re.split(r"\n\n+", text) if block.strip()]


def structure(block: str) -> list[str]:
    """Return what a block is (heading, picture, formula, prose ...), and each item of a list or cell of a table."""
    kind = re.match(r"#+ |- |\||!\[|\$\$|```|<details>|</details>|\+\+\+|\d+\. |", block)[0]
    parts = {"- ": r"^- ", "|": r"\||\n"}
    return [kind, *re.findall(parts[kind], block, re.M)] if kind in parts else [kind]


def code(name: str) -> list[tuple[str, str, int]]:
    """Return each block of code: its options, what it does, and how many comments it has."""
    found = []
    for head, body in FENCE.findall(read(name)):
        if re.match(r"```(python|\{code-cell\})", head):
            tokens = tokenize.generate_tokens(io.StringIO(body).readline)
            comments = sum(token.type == tokenize.COMMENT for token in tokens)
            found.append((ALT.sub("", head), statements(body), comments))
        else:
            found.append((head, re.sub(r"#.*", "", body), body.count("#")))
    return found


def statements(python: str) -> str:
    """Return Python without comments and without what docstrings say."""
    tree = ast.parse(python)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
            node.body[0] = ast.Expr(ast.Constant("docstring"))
    return ast.unparse(tree)


def targets(block: str, name: str) -> list[str]:
    """Return where the links of a block lead; Korean texts stand for the English ones."""
    found = []
    for target in LINK.findall(block):
        if not target.startswith("https://"):
            path = (ROOT / name).parent / re.sub(r"(?<=\.ipynb)#.*|#in-korean", "", target)  # headings differ in Korean
            target = path.resolve().relative_to(ROOT).as_posix()
        if target not in ONLY_IN_KOREAN.get(name, ()):
            found.append(target.replace("tutorials/ko/", "tutorials/").replace(".ko.md", ".md"))
    return sorted(found)


def formulas(block: str) -> Counter[str]:
    """Return the formulas of a block, without words in them, and the code in its lines, in either language."""
    return Counter(FORMULA.findall(re.sub(r"\\text\{[^}]*\}|--lang ko|\s", "", block)))


def numbers(block: str) -> Counter[float]:
    """Return the numbers that a block writes with digits, outside formulas, code and the addresses of links."""
    block = re.sub(r"(\d+)(?= and \d+ million)", r"\1 million", block.replace("분의 1", ""))
    units = {"": 1, "만": 1e4, "억": 1e8, "M": 1e6, " million": 1e6, " billion": 1e9}
    found = re.findall(
        r"(\d+(?:,\d{3})*(?:\.\d+)?)(만(?!큼)|억|M(?!B)| million| billion|)",
        FORMULA.sub("", LINK.sub("]", block)),
    )
    return Counter(float(digits.replace(",", "")) * units[unit] for digits, unit in found)


def numbers_in_words(block: str) -> Counter[float]:
    """Return the numbers that an English block writes in words."""
    words = re.findall(rf"\b({'|'.join(IN_WORDS)})\b", " ".join(block.lower().split()))
    return Counter(IN_WORDS[word] for word in words)


CURRENT = [
    pytest.param(
        *pair,
        id=pair[1],
        marks=pytest.mark.skipif(
            ROOT / pair[0] in korean_tutorials.DOCUMENTS and not korean_tutorials.is_current(ROOT / pair[0]),
            reason="translates an earlier English text: see `python tutorials/korean.py`",
        ),
    )
    for pair in PAIRS
]


@pytest.mark.parametrize(("english", "korean"), CURRENT)
class TestKorean:
    def test_the_blocks_are_the_same(self, english, korean):
        for ours, theirs in zip(blocks(korean), blocks(english), strict=True):
            assert structure(ours) == structure(theirs), f"{ours}\n\n{theirs}"

    def test_the_code_is_the_same(self, english, korean):
        assert code(korean) == code(english)

    def test_links_and_formulas_are_the_same(self, english, korean):
        for ours, theirs in zip(blocks(korean), blocks(english), strict=True):
            assert targets(ours, korean) == targets(theirs, english), f"{ours}\n\n{theirs}"
            assert formulas(ours) >= formulas(theirs), f"{ours}\n\n{theirs}"
            assert not formulas(ours).keys() - formulas(theirs), "Korean repeats a name in place of a pronoun, no more"

    def test_the_numbers_are_the_same(self, english, korean):
        for ours, theirs in zip(blocks(korean), blocks(english), strict=True):
            missing, added = numbers(theirs) - numbers(ours), numbers(ours) - numbers(theirs)
            assert not missing, f"{ours}\n\n{theirs}"
            assert added <= numbers_in_words(theirs), f"{ours}\n\n{theirs}"

    def test_emphasis_ends_where_markdown_sees_its_end(self, english, korean):
        """Markdown does not close emphasis between punctuation and a letter, which Korean particles are."""
        assert not re.findall(r"[^\w\s*]\*+[가-힣]", FENCE.sub("", read(korean)))


ENGLISH, TRANSLATION = toml_table(__file__, "TUTORIAL").values()
DIGESTS = [one for *_, one in korean_tutorials.english_blocks(ENGLISH.split("\n---\n", 1)[1]) if one]
KOREAN = TRANSLATION.replace("DIGEST", DIGESTS[0])


def test_prose_and_comments_are_put_around_the_english_code():
    text, wrong = korean_tutorials.compose(ENGLISH, KOREAN)
    english = {"# One": "# 하나", "(../docs": "(../../docs", "a line": "선", "# it": "# 그것", "# Answer": "# 답"}
    english |= {"Two, [three]": "둘, [셋]", " and [four]": "과 [넷]", "10 minutes to read, 5 to do": "읽기 10분"}
    expected = ENGLISH
    for theirs, ours in english.items():
        expected = expected.replace(theirs, ours)
    assert text == expected
    assert wrong == [f"not translated, digest {DIGESTS[1]}: Five"]


@pytest.mark.parametrize("old", ["Two,", "a line"])
def test_a_changed_english_text_takes_the_place_of_its_translation(old):
    longer = ENGLISH.replace("10 minutes", "15 minutes")  # the time is written by another program
    assert "# 하나" in korean_tutorials.compose(longer, KOREAN)[0]
    text, wrong = korean_tutorials.compose(ENGLISH.replace(old, "changed"), KOREAN)
    assert "# One" in text
    assert 'alt: "선"' not in text
    assert f"fits nothing in the English text: {DIGESTS[0]}" in wrong


def listed(capsys):
    """Return what the command lists."""
    korean_tutorials.main()
    return capsys.readouterr().out.splitlines()


def test_what_is_missing_or_stale_is_listed_and_nothing_fails(tmp_path, monkeypatch, capsys):
    before = listed(capsys)
    catalogues = shutil.copytree(korean_tutorials.CATALOGUES, tmp_path / "korean")
    monkeypatch.setattr(korean_tutorials, "CATALOGUES", catalogues)
    page = shutil.copytree(korean_tutorials.PAGE, tmp_path / "explorer" / "page")
    monkeypatch.setattr(korean_tutorials, "PAGE", page)
    english, translation = tmp_path / "README.md", tmp_path / "README.ko.md"
    english.write_text("Changed")
    translation.write_text("<!-- of 12345678 -->\n")
    monkeypatch.setattr(korean_tutorials, "DOCUMENTS", {english: translation})

    def change(path, old, new):
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1
        path.write_text(text.replace(old, new), encoding="utf-8")

    change(catalogues / "05-softmax.toml", '"from scores to weights"', '"from an earlier version"')
    change(catalogues / "messages.toml", 'en = "right."', 'en = "right in an earlier version."')
    change(page / "ko.js", '"Skip to the model"', '"Skip to a model"')
    new = {line for line in listed(capsys) if line not in before}
    assert {
        f"README.ko.md: README.md has changed, its digest is now {korean_tutorials.digest_of(english)}",
        "05-softmax.toml: not translated: from scores to weights",
        "05-softmax.toml: fits nothing in the English text: from an earlier version",
        "messages.toml: not translated: right.",
        "messages.toml: fits nothing in the English text: right in an earlier version.",
        "ko.js: fits nothing in the English text: Skip to a model",
    } <= new
    translation.write_text(f"<!-- of {korean_tutorials.digest_of(english)} -->\n")
    assert not any(line.startswith("README.ko.md") for line in listed(capsys))


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_korean_notebook_sets_its_language_and_has_verdicts_in_it(name, monkeypatch, capsys):
    notebook = json.loads((ROOT / "tutorials" / "ko" / f"{name}.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    monkeypatch.setenv("MINITRANSFORMER_LANG", "en")
    begin, found, _ = "".join(cells[0]["source"]).partition('"ko"')
    exec(begin + found, {})
    learn.compare("x", ..., 1.0)
    assert said("x: replace the `...`, then run this cell again.", "ko") in capsys.readouterr().out
    for cell in cells:
        if "mt.learn." in "".join(cell["source"]):
            lines = "".join("".join(output.get("text", [])) for output in cell["outputs"]).splitlines()
            assert [said(line, "ko") for line in lines] == lines
