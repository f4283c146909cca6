"""Draw the README's moving picture of the explorer, docs/pictures/explorer.webp, from the explorer itself.

``python docs/pictures/explorer.py RUN`` opens a run of ``minitransformer train`` in Chromium, takes the tour and keeps
a picture of each step: pointing at words, a number, its gradient, a head that is off, the training. It needs
playwright, Chromium and Pillow.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright

PICTURE = Path(__file__).with_suffix(".webp")
TEXT = "four hundred and thirty-two"
WIDTH, HEIGHT, SHOWN = 1280, 940, 900
"""The size of the window, and the width of the picture."""
READY = """() => window.explorer?.trace && !window.explorer.loading
    && !document.querySelector('section:not([hidden]) [aria-busy=true]')"""

Frame = tuple[Image.Image, int]
"""A picture, and for how many milliseconds it is shown."""


def frames(page: Page, address: str) -> Iterator[Frame]:
    """Take the tour, and yield what is to be seen."""

    def shot(milliseconds: int) -> Frame:
        page.wait_for_function(READY)
        page.wait_for_timeout(400)
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        return picture.resize((SHOWN, SHOWN * HEIGHT // WIDTH), Image.Resampling.LANCZOS), milliseconds

    page.goto(address)
    words = page.locator("#attention button.word")
    yield shot(2500)
    for number in range(min(words.count(), 5)):
        words.nth(number).hover()
        yield shot(800)
    for _ in range(2):
        step(page)
        yield shot(2500)
        page.locator("#entry").scroll_into_view_if_needed()
        yield shot(3000)
        page.evaluate("() => scrollTo(0, 0)")
    step(page)
    yield shot(1500)
    page.get_by_role("button", name="Switch off all heads").click()
    yield shot(3000)
    step(page)
    slider = page.get_by_role("slider").first
    slider.focus()
    slider.press("Home")
    yield shot(1200)
    most = int(slider.get_attribute("max") or 5)
    for _ in range(5):
        for _ in range(max(1, most // 5)):
            slider.press("ArrowRight")
        yield shot(700)
    yield shot(2000)


def step(page: Page) -> None:
    """Go to the next step of the tour."""
    page.get_by_role("button", name="Next", exact=True).click()


def explore(run: str) -> tuple[subprocess.Popen[str], str]:
    """Start the explorer; return its process and its address."""
    command = [sys.executable, "-u", "-m", "minitransformer", "explore", run, TEXT, "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    for line in server.stdout or ():
        if found := re.search(r"http://127\.0\.0\.1:\d+/\S+", line):
            return server, found[0]
    raise RuntimeError("the explorer printed no address")


def main(run: str) -> None:
    """Write the picture."""
    server, address = explore(run)
    options: dict[str, Any] = {"viewport": {"width": WIDTH, "height": HEIGHT}, "reduced_motion": "reduce"}
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        pictures, times = zip(*frames(browser.new_page(**options), address), strict=True)
        browser.close()
    server.terminate()
    first, *rest = pictures
    first.save(PICTURE, save_all=True, append_images=rest, duration=list(times), loop=0, quality=82, method=6)
    print(f"{PICTURE}: {len(pictures)} pictures, {PICTURE.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1])
