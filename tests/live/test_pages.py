"""The exercises' pages in Chromium, with the network blocked and the runtime from a folder.

The verdicts are compared with those of this Python. Without playwright, Chromium or the runtime, these tests are
skipped and say so.
"""

import functools
import http.server
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import browser_runtime
import pytest

from minitransformer.apps.learn import bank, find, judge_in_child
from minitransformer.apps.learn.bank import SOURCES
from minitransformer.apps.learn.language import speaking
from minitransformer.apps.learn.solutions import edit, read_mistakes

pytestmark = pytest.mark.numpy_only("the pages compute with NumPy")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
ROOT = Path(__file__).parents[2]
BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
BOOT = 90_000
"""How long Python may take to load on a busy machine, in milliseconds."""
LOOP = "def backward(x, y, d_z):\n    while True:\n        pass\n"


@pytest.fixture(scope="session")
def runtime():
    try:
        return browser_runtime.runtime()
    except (browser_runtime.CannotFetch, OSError) as error:
        pytest.skip(f"the browser's Python cannot be had: {error}")


@pytest.fixture(scope="session")
def browser():
    if BROWSER is None:
        pytest.skip("no Chromium is installed")
    rules = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu", rules])
        yield started
        started.close()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Print nothing."""


@pytest.fixture(scope="session")
def pages(runtime, tmp_path_factory):
    out = tmp_path_factory.mktemp("live")
    subprocess.run([sys.executable, ROOT / "docs" / "live.py", out, "--runtime", runtime], check=True)
    return out


@pytest.fixture(scope="session")
def site(pages):
    """The address of the pages, which a server on this machine sends."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=pages)) as server:
        server.handle_error = lambda *_: None  # pages that are left no longer wait for their files
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="session")
def failures():
    """What pages ask for from elsewhere or in vain, and the errors of their scripts."""
    return []


@pytest.fixture(scope="module")
def tab(browser, site, failures):
    """One tab, in which Python is loaded."""
    opened = open_tab(browser, failures, site)
    opened.goto(f"{site}/product-rule.html")
    opened.evaluate("minitransformer.ready")
    yield opened
    opened.context.close()


@pytest.fixture(autouse=True)
def nothing_fails(failures):
    yield
    found = failures.copy()
    failures.clear()
    assert found == []


def open_tab(browser, failures, site, **options):
    opened = browser.new_context(viewport={"width": 390, "height": 844}, **options).new_page()
    opened.set_default_timeout(BOOT)
    opened.on("request", lambda request: request.url.startswith((site, "data:")) or failures.append(request.url))
    opened.on("pageerror", lambda error: failures.append(f"script failed: {error}"))
    return opened


def wrong_answer(exercise):
    """Return the solution with the first of its likely mistakes; if none are listed, one that returns nothing."""
    mistakes = read_mistakes((SOURCES / exercise.file).with_name("mistakes.toml")).get(exercise.name)
    if not mistakes:
        return exercise.solution + "".join(f"\n{name} = lambda *_: None" for name in exercise.asks_for)
    return edit(exercise.solution, mistakes[0]["old"], mistakes[0]["new"], exercise.name)


def verdict_here(tmp_path, name, code, language="en"):
    """Return the text that a terminal shows."""
    exercise = find(name)
    path = tmp_path / exercise.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(code, encoding="utf-8")
    with speaking(language):
        return judge_in_child(exercise, path).format(name)


def check(tab, name, code):
    return tab.evaluate("question => minitransformer.check(...question)", [name, code])


@pytest.mark.parametrize("exercise", bank(), ids=lambda exercise: exercise.name)
def test_a_right_and_a_wrong_answer_get_the_words_of_a_terminal(tab, tmp_path, exercise):
    right, wrong = (check(tab, exercise.name, code) for code in (exercise.solution, wrong_answer(exercise)))
    assert right.startswith(f"{exercise.name}: right.")
    assert not wrong.startswith(f"{exercise.name}: right.")
    assert right == verdict_here(tmp_path, exercise.name, exercise.solution)
    assert wrong == verdict_here(tmp_path, exercise.name, wrong_answer(exercise))


@pytest.mark.parametrize(
    "code", [find("product-rule").text, "def backward(x, y, d_z):\n    return 1 / 0, None", "import sys\nsys.exit(3)"]
)
def test_code_that_is_open_or_fails_gets_the_words_of_a_terminal(tab, tmp_path, code):
    assert check(tab, "product-rule", code) == verdict_here(tmp_path, "product-rule", code)


def test_run_returns_what_is_printed(tab):
    code = "import minitransformer as mt\nprint(mt.ops.softmax([0.0, 0.0]).numpy())\n1 / 0"
    text = tab.evaluate("code => minitransformer.run(code)", code)
    assert text.startswith("[0.5 0.5]\n")
    assert text.endswith("ZeroDivisionError: division by zero\n")
    assert 'File "code", line 3' in text
    assert "engine.py" not in text


@pytest.mark.parametrize("operation", ["linear", "feed_forward"])
def test_gradients_without_blas(tab, operation):
    code = f"""
import minitransformer as mt
from minitransformer.arrays import products
from minitransformer.testing import examples, prove
for example in examples(mt.ops.{operation}):
    prove(mt.ops.{operation}, example.inputs, **example.options)
print(products.WITHOUT_BLAS)
"""
    assert tab.evaluate("code => minitransformer.run(code)", code) == "True\n"


def test_an_exercise_that_is_not_there_is_refused(tab):
    found = tab.evaluate('minitransformer.check("soft-max-backward", "").catch(error => error.message)')
    assert "softmax-backward" in found


def test_an_endless_loop_is_stopped_by_the_button_and_by_the_limit(tab):
    tab.fill("#code", LOOP)
    tab.click("#check")
    tab.click("#stop")
    tab.wait_for_selector("#check:enabled")
    assert tab.inner_text("#verdict") == "Your code was stopped."
    # nobody stops this one; meanwhile the page's timers go on
    tab.click("#check")
    late = tab.evaluate(
        """async () => {
            let latest = 0, before = performance.now();
            while (!document.querySelector("#stop").disabled) {
                await new Promise((resolve) => setTimeout(resolve, 20));
                latest = Math.max(latest, performance.now() - before);
                before = performance.now();
            }
            return latest;
        }"""
    )
    assert late < 5000
    assert "10 s" in tab.inner_text("#verdict")
    assert "endless loop" in tab.inner_text("#verdict")
    # a check that still waits for Python can be stopped as well
    tab.fill("#code", LOOP)
    for _ in range(2):
        tab.click("#check")
        tab.click("#stop")
        tab.wait_for_selector("#check:enabled")
    assert check(tab, "product-rule", find("product-rule").solution).startswith("product-rule: right.")


@pytest.mark.parametrize(
    ("code", "said"),
    {
        "import os\nos._exit(3)": "Your code ended Python.",
        "def f(x):\n    return f(x)\n\nf(0)": "RecursionError",
        "x = [0] * (2**30 - 1)": "MemoryError",
        "x = input()": "EOFError",
    }.items(),
)
def test_python_answers_whatever_code_has_done(tab, code, said):
    assert said in check(tab, "product-rule", code)
    assert said in tab.evaluate("code => minitransformer.run(code)", code)
    assert check(tab, "product-rule", find("product-rule").solution).startswith("product-rule: right.")


def test_what_an_answer_prints_is_shown(tab):
    tab.fill("#code", "print('9' * 10**7)\nprint('<b>end')")
    tab.click("#check")
    tab.wait_for_selector("#check:enabled")
    assert tab.inner_text("#output").endswith("9\n<b>end\n")
    assert len(tab.inner_text("#output")) < 10**5


def test_a_reload_keeps_what_was_typed(tab):
    tab.fill("#code", "")
    tab.type("#code", "mine")
    tab.reload()
    assert tab.input_value("#code") == "mine"
    tab.evaluate("localStorage.clear()")
    tab.reload()
    assert tab.input_value("#code") == find("product-rule").text


@pytest.mark.parametrize(
    "fault",
    [
        "Storage.prototype.setItem = () => { throw new DOMException('', 'QuotaExceededError') }",
        "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('', 'SecurityError') }})",
    ],
    ids=["full", "blocked"],
)
def test_a_storage_that_is_full_or_blocked_is_said(browser, site, failures, fault):
    tab = open_tab(browser, failures, site)
    tab.add_init_script(fault)
    tab.goto(f"{site}/product-rule.html")
    tab.type("#code", "a")
    assert tab.is_visible("#unsaved")
    tab.context.close()


def test_a_page_leads_from_hints_to_the_solution_and_on(browser, site, failures):
    tab = open_tab(browser, failures, site)
    tab.goto(f"{site}/index.html")
    first, second = bank()[:2]
    names = tab.eval_on_selector_all("main a", "all => all.map(a => a.getAttribute('href'))")
    assert names == [f"{one.name}.html" for one in bank()]
    tab.click("main a")
    for shown in range(len(first.hints) + 1):
        assert tab.locator("#hints li").all_inner_texts() == [*first.hints[:shown]]
        assert tab.is_enabled("#hint") == (shown < len(first.hints))
        tab.is_enabled("#hint") and tab.click("#hint")
    tab.click("#show")
    assert tab.text_content("#solution") == first.solution
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    tab.click("a[rel=next]")
    assert tab.url.endswith(f"/{second.name}.html")
    tab.context.close()


def test_korean(browser, site, failures, tmp_path):
    tab = open_tab(browser, failures, site)
    tab.goto(f"{site}/softmax-backward.html")
    tab.click("a[hreflang=ko]")
    code = wrong_answer(find("softmax-backward"))
    assert check(tab, "softmax-backward", code) == verdict_here(tmp_path, "softmax-backward", code, "ko")
    assert tab.inner_text("#check") == "채점"
    tab.context.close()


def test_a_runtime_that_cannot_be_had_is_said(browser, site, failures, tmp_path):
    tab = open_tab(browser, failures, site)
    tab.route("**/pyodide.js", lambda route: route.abort())
    tab.goto(f"{site}/product-rule.html")
    tab.wait_for_function("document.querySelector('#status').textContent.includes('could not be loaded')")
    assert tab.evaluate("minitransformer.ready.catch(() => 'failed')") == "failed"
    tab.fill("#code", find("product-rule").solution)
    tab.reload()
    assert tab.input_value("#code") == find("product-rule").solution
    tab.wait_for_selector("#check:enabled")
    tab.unroute("**/pyodide.js")
    tab.click("#check")
    tab.wait_for_function("document.querySelector('#verdict').textContent.startsWith('product-rule: right.')")
    tab.context.close()


def test_a_page_that_is_opened_as_a_file_says_what_it_needs(browser, pages, failures):
    tab = open_tab(browser, failures, pages.as_uri())
    tab.goto((pages / "product-rule.html").as_uri())
    assert "http.server" in tab.inner_text("#status")
    tab.click("#hint")
    assert tab.inner_text("#hints") == find("product-rule").hints[0]
    tab.context.close()


def test_a_wheel_of_numpy_with_another_hash_is_refused(runtime, tmp_path):
    copy = shutil.copytree(runtime, tmp_path / "runtime")
    with open(next(copy.glob("numpy*.whl")), "ab") as file:
        file.write(b"\0")
    command = [sys.executable, ROOT / "docs" / "live.py", tmp_path / "out", "--runtime", copy]
    found = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert found.returncode == 2
    assert "sha256" in found.stderr
