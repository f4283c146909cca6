"""The explorer on the front page of the built site, with the network blocked."""

import re
import shutil
from pathlib import Path

import pytest

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
FOLDER = SITE / "explorer"
BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
MOST_BYTES = 15_000_000
READY = "() => window.explorer?.trace && !window.explorer.loading"

pytestmark = pytest.mark.skipif(
    not FOLDER.exists(), reason="the site is not built: sphinx-build -W -b html docs docs/_build/html"
)


def test_the_files_are_small_enough_to_download():
    assert sum(path.stat().st_size for path in FOLDER.rglob("*")) < MOST_BYTES


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_front_page_opens_with_sentences_to_choose_from(scheme):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if BROWSER is None:
        pytest.skip("no Chromium is installed")
    wrong = []
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_context(offline=True, color_scheme=scheme, reduced_motion="reduce").new_page()
        tab.on(
            "request", lambda request: request.url.startswith(("file:", "data:", "blob:")) or wrong.append(request.url)
        )
        tab.on("pageerror", lambda error: wrong.append(f"{error}"))
        tab.on("console", lambda message: message.type == "error" and wrong.append(message.text))
        tab.goto((SITE / "index.html").as_uri())
        frame = tab.frame(url=re.compile("explorer/index.html"))
        frame.wait_for_function(READY)
        assert frame.evaluate("() => document.documentElement.dataset.theme") == scheme
        choice = frame.get_by_role("combobox", name="Examples")
        sentences = choice.locator("option").all_inner_texts()[1:]
        assert 28 <= len(sentences) <= 40
        frame.get_by_role("textbox", name="Text").wait_for()
        for sentence in (sentences[-1], sentences[5]):
            choice.select_option(sentence)
            frame.wait_for_function("text => window.explorer.state.text === text", arg=sentence)
            frame.wait_for_function(READY)
            tokens = frame.get_by_role("list", name=re.compile("^Tokens of the translation"))
            assert tokens.locator(":scope > li").count() > 1
        browser.close()
    assert not wrong
