"""The built site in a real browser, with the network blocked.

Build it first: ``sphinx-build -W -b html docs docs/_build/html``. Without it, or without playwright and Chromium, these
tests are skipped and say so.
"""

import html
import re
import shutil
import tomllib
from os.path import normpath
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from toml_cases import toml_table

ROOT = Path(__file__).parents[2]
SITE = ROOT / "docs" / "_build" / "html"
PAGES = sorted(path for path in SITE.rglob("*.html") if "_modules" not in path.parts and "_static" not in path.parts)
BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
WIDTHS = {390: "dark", 820: "light", 1440: "dark"}
"""The widths of a phone, a tablet and a laptop, in pixels, each with a colour scheme."""
GENERATED = ("search", "genindex", "py-modindex")
SEARCHES = tomllib.loads((ROOT / "docs" / "search.toml").read_text(encoding="utf-8"))

STICKING_OUT = toml_table(__file__, "STICKING_OUT")
"""The parts of the text that reach over the right edge and are in no box that scrolls."""

SCROLLING = toml_table(__file__, "SCROLLING")
"""The code and the equations that are wider than their box."""

WRONG_TABLES = toml_table(__file__, "WRONG_TABLES")
"""The tables that are cut off, or are stacked but do not say what their cells are."""

WRONG_LIGHT = toml_table(__file__, "WRONG_LIGHT")
"""The pictures that are light in dark mode, or dark in light mode."""

PROSE = toml_table(__file__, "PROSE")
"""The text without code, and without mathematics that is rendered."""
UNRENDERED = re.compile(r"\\\(|\\\[|\$[^$\n]+\$|\\(frac|sum|bar|begin)")

pytestmark = pytest.mark.skipif(
    not PAGES, reason="the site is not built: sphinx-build -W -b html docs docs/_build/html"
)


ATTRIBUTE = r'([^\s"=<>/]+)="([^"]*)"'
TAG = re.compile(rf"<(\w+)((?:\s+{ATTRIBUTE}|\s+[^\s\"=<>/]+)+)\s*/?>")
SCRIPT = re.compile(r"(<script\b[^>]*>).*?</script>|<!--.*?-->", re.DOTALL)


class References:
    """What a page refers to, and the anchors that it has; Sphinx writes tags so regularly that patterns find them."""

    def __init__(self, page: Path) -> None:
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.pictures: list[dict[str, str]] = []
        self.tags: dict[str, str] = {}
        for found in TAG.finditer(SCRIPT.sub(r"\1", page.read_text(encoding="utf-8"))):
            self.add(found[1], {key: html.unescape(value) for key, value in re.findall(ATTRIBUTE, found[2])})

    def add(self, tag: str, values: dict[str, str]) -> None:
        self.anchors.update(values[key] for key in ("id", "name") if values.get(key))
        if tag == "meta" and (key := values.get("name") or values.get("property")):
            self.tags[key] = values.get("content", "")
        if tag in ("a", "img", "link", "script"):
            self.links.add(values.get("href") or values.get("src", ""))
        if tag == "img":
            self.pictures.append(values)


@pytest.fixture(scope="module")
def references() -> dict[Path, References]:
    return {page: References(page) for page in SITE.rglob("*.html")}


@pytest.fixture(scope="module")
def tab():
    """One tab of a browser for all pages, with the network blocked."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if BROWSER is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        yield browser.new_context(offline=True).new_page()
        browser.close()


@pytest.fixture
def failures(tab):
    """What a page asks for in vain, and the errors of its scripts."""
    found: list[str] = []
    listeners = {
        "request": lambda request: request.url.startswith(("file:", "data:", "blob:")) or found.append(request.url),
        "requestfailed": lambda request: found.append(f"not loaded: {request.url}"),
        "pageerror": lambda error: found.append(f"script failed: {error}"),
    }
    for event, listener in listeners.items():
        tab.on(event, listener)
    yield found
    for event, listener in listeners.items():
        tab.remove_listener(event, listener)


def name(page: Path) -> str:
    return page.relative_to(SITE).as_posix()


def test_the_parts_are_all_there():
    found = {name(page) for page in PAGES}
    sources = [path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts]
    expected = {path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in sources}
    expected |= {f"tutorials/{path.stem}.html" for path in (ROOT / "tutorials").glob("*.ipynb")}
    assert expected <= found, f"missing: {sorted(expected - found)}"


def test_every_link_leads_somewhere(references):
    broken = []
    for page, found in references.items():
        for link in found.links:
            if not link or link.startswith(("https://", "http://", "mailto:", "data:")):
                continue
            path, anchor = urldefrag(link)
            target = Path(normpath(page.parent / unquote(path.partition("?")[0]))) if path else page
            if target not in references and not target.exists():
                broken.append(f"{name(page)}: {link}")
            elif anchor and target in references and unquote(anchor) not in references[target].anchors:
                broken.append(f"{name(page)}: no {anchor} in {name(target)}")
    assert not broken, "\n".join(broken)


def test_nothing_is_loaded_from_elsewhere(references):
    for page in references:
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"""<(script|link|img)[^>]+(src|href)=["'](https?:)?//""", text), name(page)


def test_every_picture_is_described(references):
    """The text says what is to be seen: it is no file name, and has five words or more."""
    silent = [
        f"{name(page)}: {picture.get('src')}: {picture.get('alt')}"
        for page, found in references.items()
        if "_modules" not in page.parts
        for picture in found.pictures
        if "_images" in (picture.get("src") or "") and not is_description(picture.get("alt") or "")
    ]
    assert not silent, "\n".join(silent)


def is_description(text):
    return len(text.split()) >= 5 and not re.search(r"\.(png|svg|jpg)\b|_images/", text)


def test_every_document_tells_other_sites_what_it_is(references):
    descriptions = []
    for page in PAGES:
        if page.stem not in GENERATED and page.parent != SITE / "explorer":
            tags = references[page].tags
            assert 20 <= len(tags.get("description", "")) <= 200, (name(page), tags)
            assert {"og:title", "og:description", "og:image", "og:image:alt", "og:type"} <= tags.keys(), name(page)
            assert tags["og:image"].startswith("https://") or (page.parent / tags["og:image"]).exists(), name(page)
            assert any(link.endswith("favicon.svg") for link in references[page].links), name(page)
            descriptions.append(tags["description"])
    assert len(descriptions) == len(set(descriptions)) > 50


@pytest.fixture(scope="module")
def search(tab):
    tab.goto((SITE / "search.html").as_uri())
    tab.wait_for_function("() => Search.hasIndex()")
    return lambda text: tab.evaluate("text => Search._performSearch(...Search._parseQuery(text)).at(-1)?.[0]", text)


@pytest.mark.parametrize("phrase", SEARCHES)
def test_a_search_finds_the_right_document_first(search, phrase):
    assert search(phrase) == SEARCHES[phrase]


@pytest.mark.parametrize("page", PAGES, ids=[*map(name, PAGES)])
def test_a_page_in_the_browser(tab, failures, page):
    """Loading takes seconds, because mathematics is rendered then. So each page is loaded once, for all questions."""
    for width, scheme in WIDTHS.items():
        tab.set_viewport_size({"width": width, "height": 900})
        tab.emulate_media(color_scheme=scheme)
        if width == min(WIDTHS):
            tab.goto(page.as_uri(), wait_until="load")
            tab.evaluate("() => window.MathJax && MathJax.startup ? MathJax.startup.promise : null")
        nothing_is_cut_off(tab)
        assert width == min(WIDTHS) or not tab.evaluate(SCROLLING)
        assert not tab.evaluate(WRONG_LIGHT, scheme == "dark")
    mathematics_is_rendered(tab)
    pictures_are_shown(tab)
    assert not failures


def nothing_is_cut_off(tab):
    """Nothing sticks out at the side: what is too wide scrolls in a box of its own, and tables are stacked."""
    tab.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert tab.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 1
    assert not tab.evaluate(STICKING_OUT)
    assert not tab.evaluate(WRONG_TABLES)


def mathematics_is_rendered(tab):
    formulas = tab.locator(".math").count()
    assert tab.locator("mjx-container").count() >= formulas
    bad = tab.locator("mjx-merror, mjx-container [style*='color: red']")  # syntax; a macro that does not exist
    assert bad.count() == 0, bad.first.inner_text()
    assert not UNRENDERED.search(tab.evaluate(PROSE)), "mathematics is left unrendered"


def pictures_are_shown(tab):
    assert not tab.evaluate("() => [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)")
