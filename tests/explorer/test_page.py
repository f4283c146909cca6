"""The explorer in a real browser, as a person uses it, with the network blocked.

A tiny model is trained, served by ``minitransformer explore``, and saved to a file. Without playwright and Chromium
these tests are skipped and say so.
"""

import io
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from minitransformer.apps.cli import main

HERE = Path(__file__).parent
BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
TEXT, OTHER = "4032", "71185"
TINY = [
    *("--d-model", "16", "--n-heads", "2", "--n-layers", "1", "--d-ff", "24", "--dropout", "0", "--steps", "60"),
    *("--warmup-steps", "30", "--batch-tokens", "256", "--train-pairs", "400", "--held-out", "20"),
    *("--evaluate-every", "20", "--keep", "10"),
]
DESKTOP, PHONE, WALL = 1440, 360, 2560
CROSS = "decoder.layers.0.cross_attention"
SIDEWAYS = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"

pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed"),
    pytest.mark.numpy_only("the explorer computes with NumPy"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a tiny run that kept its checkpoints."""
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    folder = tmp_path_factory.mktemp("runs") / "copy"
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        assert main(["train", "copy", *TINY, "--out", str(folder)]) == 0
    return folder


def explore(run):
    """Start the server; return its process and the address that it prints."""
    command = [sys.executable, "-u", "-m", "minitransformer", "explore", str(run), TEXT, "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    for line in server.stdout:
        if found := re.search(r"http://127\.0\.0\.1:\d+/\S+", line):
            return server, found[0]
    raise AssertionError(f"the server printed no address and ended with status {server.wait()}")


def stop(server):
    server.terminate()
    server.wait(timeout=20)
    server.stdout.close()


@pytest.fixture(scope="module")
def live(run):
    """The address of the explorer of the tiny run."""
    server, address = explore(run)
    yield address
    stop(server)


@pytest.fixture(scope="module")
def file(run, tmp_path_factory):
    """The address of a saved file."""
    path = tmp_path_factory.mktemp("saved") / "page.html"
    with redirect_stdout(io.StringIO()):
        assert main(["explore", str(run), TEXT, "--save", str(path)]) == 0
    return path.as_uri()


@pytest.fixture(scope="module")
def chromium(run):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        yield running.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])


@pytest.fixture
def visit(chromium):
    """Open an address in a window of its own; at the end, there must be no error and no request to elsewhere."""
    contexts, wrong = [], []

    def open_window(address, scheme="light", width=DESKTOP, expects_errors=False):
        offline = address.startswith("file:")
        size = {"width": width, "height": 1000}
        context = chromium.new_context(
            viewport=size, color_scheme=scheme, offline=offline, reduced_motion="reduce", accept_downloads=False
        )
        contexts.append(context)
        here = urlsplit(address)[:2]
        context.on(
            "request",
            lambda request: (
                (urlsplit(request.url)[:2] == here or request.url.startswith(("data:", "blob:")))
                or wrong.append(f"request to {request.url}")
            ),
        )
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: wrong.append(f"script: {error}"))
        if not expects_errors:
            page.on("console", lambda message: message.type == "error" and wrong.append(f"console: {message.text}"))
        page.goto(address)
        ready(page)
        return page

    yield open_window
    for context in contexts:
        context.close()
    assert not wrong


def ready(page):
    """Wait until what was asked for has come."""
    page.wait_for_function("() => window.explorer?.trace && !window.explorer.loading")
    page.wait_for_function("() => !document.querySelector('section:not([hidden]) [aria-busy=true]')")


def see(page, role, name=None, **options):
    """Return the first element with a role and a name, visible."""
    found = page.get_by_role(role, name=name, **options).first
    found.wait_for()
    return found


def tab(page, name):
    see(page, "tab", name).click()
    return page.locator(f"#{name.lower() if name != 'Change' else 'edit'}")


def block(page, name):
    """Choose a block of the picture."""
    see(page, "button", name).click()
    return page.locator("#block")


def point_at(page, shown):
    """Move the mouse over the first heat map; return what is said of the entry under it."""
    picture = shown.get_by_role("application").first
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    for share in (0.2, 0.35, 0.5):
        page.mouse.move(box["x"] + share * box["width"], box["y"] + 0.5 * box["height"])
    page.wait_for_function("() => document.querySelector('.heatmap-readout code')")
    return shown.locator(".heatmap-readout").first.inner_text()


@pytest.fixture(params=["light", "dark"])
def scheme(request):
    return request.param


# ---------------------------------------------------------------------------------------------------------------------
# The six things, live


def test_write_a_sentence_and_see_the_tree_of_beam_search(visit, live, scheme):
    page = visit(live, scheme)
    assert page.evaluate("() => document.documentElement.dataset.theme") == scheme
    see(page, "textbox", "Text").fill(OTHER)
    see(page, "button", "Translate").click()
    ready(page)
    places = see(page, "list", re.compile("^Tokens of the translation"))
    assert places.get_by_role("button", name=re.compile(r"%, chosen$")).count() >= 1
    assert places.get_by_role("button", name=re.compile(r"%; force it at position 1$")).count() >= 2
    page.get_by_label("beam").fill("3")
    assert page.get_by_label("alpha").input_value() == "0.6"
    with page.expect_request("**/translate") as asked:
        see(page, "button", "Translate").click()
    assert asked.value.post_data_json["alpha"] is None  # that of the run
    ready(page)
    tree = see(page, "tree")
    assert tree.get_by_role("treeitem").count() > 3
    table = page.get_by_text(re.compile(r"^All \d+ hypotheses as a table"))
    table.click()
    page.get_by_role("cell", name=re.compile("^dropped")).first.wait_for()  # the table is built when it is opened
    assert page.get_by_role("cell", name=re.compile("best score$")).count() == 1


def test_click_a_block_and_see_its_numbers_formula_and_lines(visit, live, scheme):
    page = visit(live, scheme)
    shown = block(page, re.compile("^Decoder layer 1, Cross-attention, 1 by"))
    shown.locator("math").first.wait_for()
    assert "multi_head_attention" in shown.inner_text()
    assert "def forward(" in shown.inner_text()
    assert re.fullmatch(r"\[0, \d+(, \d+)*\] −?\d.*", point_at(page, shown))
    source = see(shown, "list", "Source")
    value = source.get_by_role("button").first
    value.click()
    see(shown, "heading", re.compile(f"^{re.escape(value.inner_text())}"))
    assert source.locator("li.lit").count() == 1
    attention = tab(page, "Attention")
    see(page, "application", re.compile("^Matrix of weights")).wait_for()
    switches = attention.get_by_role("switch", name=re.compile("^Decoder: cross-attention, layer 1, head"))
    switches.first.wait_for()
    assert switches.count() == 2
    assert attention.locator("svg path.weight-line").count() > 0


def test_turn_it_round_walk_the_graph_and_compare_an_entry(visit, live, scheme):
    page = visit(live, scheme)
    see(page, "button", "Backward").click()
    see(page, "combobox", "Differentiate").select_option("difference")
    ready(page)
    shown = block(page, re.compile("^Decoder layer 1, Feed-forward, norm of the gradient"))
    shown.locator("math").first.wait_for()
    assert "def backward(" in shown.inner_text()
    assert "d_" in shown.inner_text()
    walk = tab(page, "Walk")
    before = walk.inner_text()
    see(walk, "button", "Step forward").click()
    page.wait_for_function("text => document.getElementById('walk').innerText !== text", arg=before)
    entry = page.get_by_label("One entry")
    entry.get_by_label("Tensor").fill("decoder.layers.0.feed_forward.b2")
    entry.get_by_label("Index").fill("3")
    see(entry, "button", "Compare").click()
    entry.get_by_role("term").get_by_text("relative error").wait_for()
    numbers = dict(
        zip(entry.locator("dt").all_inner_texts(), map(read, entry.locator("dd").all_inner_texts()), strict=True)
    )
    assert abs(numbers["gradient"] - numbers["central difference"]) < 1e-5
    assert see(entry, "img", re.compile("^Error over the step size"))


def read(text):
    """Return a number as the page writes it."""
    return float(text.replace("−", "-"))


def test_change_an_attention_weight_and_switch_off_a_head(visit, live, scheme):
    page = visit(live, scheme)
    change = tab(page, "Change")
    see(change, "combobox", re.compile("^Change")).select_option("set_weight")
    see(change, "combobox", re.compile("^Attention")).select_option(f"{CROSS}/multi_head_attention")
    see(change, "textbox", re.compile("^Value")).fill("0.9")
    see(change, "button", "Apply").click()
    page.wait_for_function("() => window.explorer.trace?.prediction && !window.explorer.loading")
    outcome = see(change, "region", "First-order prediction")
    assert "Predicted by the gradient" in outcome.inner_text()
    see(change, "region", "What is written, before and now").wait_for()
    see(change, "combobox", re.compile("^Change")).select_option("head_off")
    see(change, "button", "Apply").click()
    ready(page)
    page.wait_for_function("() => window.explorer.state.edits.length === 2 && window.explorer.trace.prediction")
    change.get_by_role("list", name="Active changes").get_by_text("is off").wait_for()
    see(change, "combobox", re.compile("^Change")).select_option("temperature")
    see(change, "textbox", re.compile("^Value")).fill("0")
    see(change, "button", "Apply").click()
    assert "Nothing has changed" in see(change, "alert").inner_text()
    assert page.evaluate("() => window.explorer.state.edits.length") == 2
    see(change, "button", "Reset").click()
    change.get_by_text("Nothing is changed.").wait_for()


def test_force_a_token_and_decode_on(visit, live, scheme):
    page = visit(live, scheme)
    see(page, "button", re.compile(r"%; force it at position 1$")).click()
    ready(page)
    see(page, "button", "Release 1 forced token").click()
    ready(page)
    assert not page.get_by_role("button", name=re.compile("^Release")).count()


def test_watch_it_learn(visit, live, scheme):
    page = visit(live, scheme)
    training = tab(page, "Training")
    slider = see(training, "slider", "Checkpoint")
    page.wait_for_function("() => document.querySelector('#training .weights-picture')")
    slider.focus()
    slider.press("Home")
    assert slider.get_attribute("aria-valuetext") == "step 0"
    slider.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "step 3"
    assert int(slider.get_attribute("max")) >= 20  # points of a training of 60 steps, of which few are checkpoints
    loss = page.evaluate("() => explorer.trace.objective.value").__round__(3)
    assert f"the mean of the weights over the last steps, with a loss of {loss}" in training.inner_text()
    assert see(training, "img", re.compile("^Norms of the weights over the steps"))


# ---------------------------------------------------------------------------------------------------------------------
# The same from a file, without Python


def test_a_saved_file_needs_no_server(visit, file, scheme):
    page = visit(file, scheme)
    see(page, "list", re.compile("^Tokens of the translation"))
    shown = block(page, re.compile("^Encoder layer 1, Self-attention, 1 by"))
    shown.locator("math").first.wait_for()
    assert "def forward(" in shown.inner_text()
    assert re.fullmatch(r"\[0, \d+(, \d+)*\] −?\d.*", point_at(page, shown))
    tab(page, "Attention")
    see(page, "application", re.compile("^Matrix of weights"))
    see(page, "button", "Backward").click()
    shown = tab(page, "Block")
    page.wait_for_function("() => document.querySelector('#block').innerText.includes('def backward(')")
    walk = tab(page, "Walk")
    see(walk, "button", "Step forward").click()
    change = tab(page, "Change")
    assert "minitransformer explore" in change.inner_text()


def test_a_later_model_is_drawn_as_it_is(visit, run, tmp_path):
    later = ["--norm", "rms", "--activation", "swiglu", "--positions", "rotary", "--n-kv-heads", "1", "--steps", "2"]
    folder, path = tmp_path / "later", tmp_path / "page.html"
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        assert main(["train", "copy", *TINY, *later, "--out", str(folder)]) == 0
        assert main(["explore", str(folder), TEXT, "--save", str(path)]) == 0
    page = visit(path.as_uri())
    model = page.get_by_role("group", name=re.compile("^The model's blocks"))
    assert page.get_by_text("RMSNorm · 2 heads, 1 of keys and values · rotary positions").count() == 1
    assert not model.get_by_role("button", name=re.compile("Positions|Add & norm")).count()
    assert model.get_by_role("button", name=re.compile("Add, 1 by")).count() == 5
    shown = block(page, re.compile("^Encoder layer 1, Self-attention, 1 by"))
    shown.locator("math").first.wait_for()
    see(shown, "button", "rotary").click()
    assert "cos" in shown.locator("math").first.text_content()
    shown = block(page, re.compile("^Source Embedding"))
    see(shown, "button", "multiply").click()
    shown.locator("math").first.wait_for()
    assert "PE" not in shown.locator("math").first.text_content()  # no positions are added
    attention = tab(page, "Attention")
    heads = attention.get_by_role("button", name=re.compile("^Encoder: self-attention, layer 1, head"))
    heads.first.wait_for()
    assert heads.count() == 2


def test_a_decoder_alone_is_drawn_without_an_encoder(visit, tmp_path):
    text, folder, path = tmp_path / "a.py", tmp_path / "run", tmp_path / "page.html"
    text.write_text("".join(f"x{i} = {i} + y\n" for i in range(40)), encoding="utf-8")
    small = [
        "--steps",
        "2",
        "--warmup-steps",
        "1",
        "--evaluate-every",
        "2",
        "--window",
        "16",
        "--batch-tokens",
        "64",
        "--text",
        str(text),
        "--out",
        str(folder),
    ]
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        assert main(["train", "characters", *TINY[:10], *small]) == 0
        assert main(["explore", str(folder), "x1 =", "--save", str(path)]) == 0
    page = visit(path.as_uri())
    assert see(page, "heading", "Text")
    assert page.get_by_role("textbox", name="Text").input_value() == "x1 ="
    model = page.get_by_role("group", name=re.compile("^The model's blocks"))
    assert not model.get_by_role("button", name=re.compile("Encoder|Source|Cross")).count()
    assert model.get_by_role("button", name=re.compile("Masked self-attention")).count() == 1
    see(page, "list", "Tokens of the text, each with its best alternatives")
    shown = block(page, re.compile("^Decoder layer 1, Add, 1 by|^Decoder layer 1, Add & norm, 1 by"))
    shown.locator("math").first.wait_for()
    attention = tab(page, "Attention")
    heads = attention.get_by_role("button", name=re.compile(", layer 1, head"))
    heads.first.wait_for()
    assert heads.count() == 2
    see(page, "button", "Backward").click()
    tab(page, "Walk")
    tab(page, "Training")


def test_a_saved_file_of_a_large_model_says_what_it_holds(visit, run, tmp_path, monkeypatch):
    monkeypatch.setattr("minitransformer.apps.explorer.saved.MOST_PARAMETERS", 20)
    monkeypatch.setattr("minitransformer.apps.explorer.saved.MOST_ENTRIES", 10)
    with redirect_stdout(io.StringIO()):
        assert main(["explore", str(run), TEXT, "--save", str(tmp_path / "page.html")]) == 0
    address = (tmp_path / "page.html").as_uri()
    page = visit(f"{address}#block={CROSS}.w_out&entry={CROSS}.w_out@3,12")
    assert "first 10 rows and columns" in page.locator("#translate").inner_text()
    page.get_by_text("in this file: 10 of 16 rows and 10 of 16 columns").wait_for()

    def go(*keys):
        for key in keys:
            page.locator("#block").get_by_role("application").first.press(key)
        return page.locator("#block .heatmap-readout").inner_text()

    assert re.fullmatch(r"\[1, 9\] −?\d.*", go("ArrowDown", "ArrowDown", "End", "ArrowRight"))
    page.locator("#entry dd", has_text="–").first.wait_for()
    page = visit(f"{address}#block=target_embedding&value=source_embedding.table")
    page.get_by_text(re.compile(r"in this file: \d+ of \d+ rows and 10 of 16 columns")).wait_for()
    row = re.match(r"\[(\d+), 0\] −?\d\S* (\S+)", go(*["ArrowDown"] * 6))
    vocabulary = page.evaluate("() => explorer.model.source_vocabulary")
    assert vocabulary[int(row[1])] == row[2]


@pytest.mark.parametrize("saved", [False, True])
def test_the_page_speaks_korean_and_turns_to_english(visit, live, file, saved):
    address, _, text = (file if saved else live).partition("#")
    page = visit(f"{address}?lang=ko#{text}")
    assert page.locator("html").get_attribute("lang") == "ko"
    see(page, "tab", "어텐션")
    see(page, "heading", "모델")
    assert page.evaluate(SIDEWAYS) <= 0
    with page.expect_navigation():
        see(page, "button", "English").click()
    ready(page)
    see(page, "tab", "Attention")


def test_a_link_leads_to_a_block(visit, file):
    page = visit(f"{file}#block={CROSS}&side=backward")
    assert see(page, "button", "Backward").get_attribute("aria-pressed") == "true"
    page.wait_for_function("() => document.querySelector('#block').innerText.includes('def backward(')")
    assert "cross" in page.locator("#block").inner_text().lower()


# ---------------------------------------------------------------------------------------------------------------------
# Everywhere


@pytest.mark.parametrize("width", [PHONE, 768, WALL])
def test_nothing_scrolls_sideways(visit, live, width):
    page = visit(live, width=width)
    for name in ("Block", "Attention", "Walk", "Change", "Training"):
        tab(page, name)
        ready(page)
        assert page.evaluate(SIDEWAYS) <= 0, name
    see(page, "button", "Backward").click()
    tab(page, "Block")
    ready(page)
    assert page.evaluate(SIDEWAYS) <= 0


@pytest.mark.parametrize("view", ["tour=1", f"tour=3&block={CROSS}", "view=walk&side=backward&walk=9", "view=training"])
def test_every_text_can_be_read(visit, live, scheme, view):
    page = visit(live)
    page.evaluate("step => explorer.set({edits: [{kind: 'head_off', step, head: 0}]})", f"{CROSS}/multi_head_attention")
    page.evaluate("hash => { location.hash += `&${hash}`; }", view)
    page.wait_for_timeout(400)
    ready(page)
    assert page.evaluate((HERE / "page_contrast.js").read_text("utf-8")) == []
    levels = [
        int(tag[1]) for tag in page.evaluate("() => [...document.querySelectorAll('h1,h2,h3,h4')].map(h => h.tagName)")
    ]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert not page.locator("html[aria-pressed]").count()


def test_the_keyboard_is_enough(visit, live):
    page = visit(live)
    see(page, "textbox", "Text").focus()
    page.keyboard.press("Control+a")
    page.keyboard.type(OTHER)
    page.keyboard.press("Enter")
    page.wait_for_function(
        "text => window.explorer.translation?.source && window.explorer.state.text === text", arg=OTHER
    )
    ready(page)
    reach(page, "button", re.compile("Embedding|Attention|Feed|attention"))
    page.keyboard.press("ArrowUp")
    chosen = page.evaluate("() => document.activeElement.getAttribute('aria-label')")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "label => document.querySelector('[aria-pressed=true].block')?.getAttribute('aria-label') === label", arg=chosen
    )
    reach(page, "application", re.compile("Arrow keys move"))
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.get_by_label("One entry").get_by_role("term").get_by_text("relative error").wait_for()


def reach(page, role, name):
    """Press Tab until an element of the role and name has the focus."""
    for _ in range(120):
        page.keyboard.press("Tab")
        label = page.evaluate(
            "role => { const e = document.activeElement; const own = e.getAttribute('role') ?? e.tagName.toLowerCase();"
            " return own === role ? e.getAttribute('aria-label') ?? e.textContent : ''; }",
            role,
        )
        if name.search(label or ""):
            return
    raise AssertionError(f"Tab does not lead to a {role} {name.pattern}")


def test_a_stopped_server_is_named_and_what_is_there_stays(visit, run):
    server, address = explore(run)
    page = visit(address, expects_errors=True)
    stop(server)
    see(page, "textbox", "Text").fill(OTHER)
    see(page, "button", "Translate").click()
    page.get_by_text("The server has stopped").first.wait_for()
    shown = block(page, re.compile("^Encoder layer 1, Self-attention, 1 by"))
    assert "multi_head_attention" in shown.inner_text()
    assert see(page, "list", re.compile("^Tokens of the translation"))


def test_a_sentence_that_cannot_be_read_is_refused_by_name(visit, live):
    page = visit(live, expects_errors=True)
    see(page, "textbox", "Text").fill("4x1")
    see(page, "button", "Translate").click()
    page.wait_for_function("() => !window.explorer.loading")
    assert "x" in see(page, "alert").inner_text() or "<unk>" in page.locator("#translate").inner_text()


# ---------------------------------------------------------------------------------------------------------------------
# The tour


@pytest.mark.parametrize("saved", [False, True])
def test_the_tour_leads_through_five_steps(visit, live, file, saved):
    page = visit(file if saved else live)
    tour = page.get_by_role("region", name="Tour")
    see(tour, "heading", re.compile("look at")).wait_for()
    assert page.locator("#attention .word.lit:not(.source)").count() == 1
    assert page.locator("#attention .word.source.lit").count() >= 1
    see(tour, "button", "Next").click()
    see(page.locator("#block"), "heading", re.compile("^weights")).wait_for()
    see(tour, "button", "Next").click()
    checked = page.get_by_label("One entry").get_by_role("term").get_by_text("relative error")
    checked.wait_for()
    see(tour, "button", "Next").click()
    if not saved:
        see(tour, "button", "Switch off all heads").click()
        page.get_by_text("Before the change").wait_for()
        drawn = see(page, "button", re.compile("^Decoder layer 1, Cross-attention, all heads off"))
        assert "off" in drawn.get_attribute("class").split()
        pairs = page.get_by_role("region", name="Probability of each token, before and now")
        pairs.wait_for()
        assert pairs.get_by_role("listitem").count() == page.evaluate("() => explorer.unchanged.tokens.length")
        head = see(page, "switch", "Head 1", exact=True)
        head.click()
        ready(page)
        assert page.evaluate("() => explorer.state.edits.length") == 1
    else:
        assert "minitransformer explore" in tour.inner_text()
    see(tour, "button", "Next").click()
    see(page, "slider", "Checkpoint").wait_for()
    assert page.evaluate("() => [explorer.state.tour, explorer.state.edits.length].join()") == "5,0"
    see(tour, "button", "End the tour").click()
    see(page, "button", "Tour", exact=True).wait_for()
    page.goto("about:blank")
    page.goto(f"{(file if saved else live).partition('#')[0]}#tour=3")
    ready(page)
    checked.wait_for()
    assert page.evaluate("() => explorer.state.side") == "backward"
