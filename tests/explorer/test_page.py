"""The explorer in a real browser, as a person uses it, with the network blocked.

A tiny model is trained, served by ``minitransformer explore``, and saved to a file. Without playwright and Chromium
these tests are skipped and say so. What the modules compute without a document is in ``test_page_modules.py``.
"""

import io
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
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
CROSS, FEED = "decoder.layers.0.cross_attention", "decoder.layers.0.feed_forward"
STEP = f"{CROSS}/multi_head_attention"
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

    def open_window(address, scheme="light", width=1440, expects_errors=False, tour=False):
        offline = address.startswith("file:")
        size = {"width": width, "height": 1000}
        context = chromium.new_context(
            viewport=size, color_scheme=scheme, offline=offline, reduced_motion="reduce", accept_downloads=False
        )
        contexts.append(context)
        if not tour:  # it was left before
            context.add_init_script(
                "try { localStorage.setItem('explorer-tour-left', 'yes'); } catch { /* a file may not */ }"
            )
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


def choose(page, **choices):
    """Choose what a person could, and wait for what follows."""
    page.evaluate("choices => { explorer.set(choices); }", choices)
    page.wait_for_timeout(50)  # views are drawn with the next frame
    ready(page)


def numbers_of(shown):
    """Return numbers as the page writes them."""
    return [float(text.replace("−", "-")) for text in shown.all_inner_texts()]


def entry_under_the_mouse(page, shown):
    """Return the index and the value that the first heat map shows of the entry in its middle."""
    picture = shown.locator(".heatmap-frame canvas").first
    picture.scroll_into_view_if_needed()
    picture.hover()
    shown.locator(".heatmap-readout code").first.wait_for()
    index, value = re.match(r"\[([\d, ]+)\] (−?\S+)", shown.locator(".heatmap-readout").first.inner_text()).groups()
    return [int(i) for i in index.split(", ")], float(value.replace("−", "-"))


# ---------------------------------------------------------------------------------------------------------------------
# Live


def test_the_start_shows_the_translation_with_alternatives_and_the_model(visit, live):
    page = visit(live)
    tokens = page.evaluate("() => explorer.translation.tokens")
    places = page.locator("#translate .place")
    assert places.count() == len(tokens)
    assert [place.locator(".chance-text").count() for place in places.all()] == [
        len({one["id"], *(other["id"] for other in one["alternatives"])}) for one in tokens
    ]
    assert page.locator("#sentence").input_value() == TEXT
    assert page.locator("#figure [role=button]").count() > 10


def test_a_beam_search_is_a_tree_and_a_table(visit, live):
    page = visit(live)
    page.locator("input[name=beam]").fill("3")
    with page.expect_request("**/translate") as asked:
        page.locator("#sentence").press("Enter")
    assert asked.value.post_data_json["alpha"] is None  # that of the run
    ready(page)
    nodes = page.evaluate("() => explorer.translation.tree.nodes.length")
    assert page.locator("[role=treeitem]").count() == nodes > 3
    page.locator("#translate details summary").last.click()
    rows = page.locator("#translate details tbody tr")
    rows.first.wait_for()
    assert rows.count() == nodes - 1
    page.locator(".beam-tree [data-id]").nth(1).click()
    assert page.locator(".beam-tree [aria-selected=true]").get_attribute("data-id") == "1"


def test_a_block_shows_its_numbers_its_formula_and_its_lines(visit, live):
    page = visit(live)
    page.get_by_role("button", name=re.compile("^Decoder layer 1, Cross-attention")).first.click()
    shown = page.locator("#block")
    shown.locator("math").first.wait_for()
    assert page.evaluate("() => explorer.state.block") == CROSS
    assert "def forward(" in shown.inner_text()
    lines = shown.get_by_role("list", name="Source")
    lines.get_by_role("button").first.click()
    assert lines.locator("li.lit").count() == 1
    key = f"{STEP}:scaled_dot_product_attention.weights"
    choose(page, value=key)
    (batch, head, *at), value = entry_under_the_mouse(page, shown)
    window = {"at": [batch, head], "rows": [at[0], at[0] + 1], "columns": [at[1], at[1] + 1]}
    held = page.evaluate("async (asked) => (await explorer.tensor(...asked)).values[0]", [key, window])
    assert value == pytest.approx(held, rel=1e-3)


@pytest.mark.parametrize(("side", "order"), [("forward", "trace.steps"), ("backward", "trace.walk")])
def test_the_graph_is_walked_forward_and_backward(visit, live, side, order):
    page = visit(live)
    page.locator(f"button[data-side={side}]").click()
    page.locator("#tab-walk").click()
    ready(page)
    keys = page.evaluate(f"() => explorer.{order}.map(({{key}}) => key)")
    items = page.locator("#walk .walk-list li")
    assert items.count() == len(keys)
    for n in range(2):
        current = page.locator("#walk .walk-list li.current .walk-key").inner_text()
        assert current == keys[n].replace(".layers.", ".").removeprefix("/")
        page.locator("#walk .walk-controls button").nth(2).click()
        page.wait_for_function("n => document.querySelectorAll('#walk .walk-list li.done').length === n", arg=n + 1)
    choose(page, walk=len(keys) - 1)
    assert page.locator("#walk .walk-list li.done").count() == len(keys) - 1
    assert page.locator("#figure .current").count() <= 1


def test_heads_of_attention_are_pictures_and_switches(visit, live):
    page = visit(live)
    pictures = page.locator("#attention button.head-picture")
    assert pictures.count() == 2
    assert page.locator("#attention .head-button").count() == 6  # of three attentions
    pictures.first.click()
    page.wait_for_function("() => explorer.trace?.prediction && !explorer.loading")
    assert page.evaluate("() => explorer.state.edits") == [{"kind": "head_off", "step": STEP, "head": 0}]
    assert pictures.first.get_attribute("aria-checked") == "false"
    page.locator("#attention .word").first.hover()
    assert page.locator("#attention .word.lit:not(.source)").count() == 1


def test_a_change_is_predicted_computed_refused_and_undone(visit, live):
    page = visit(live)
    page.locator("#tab-edit").click()
    form = page.locator(".edit-form")
    form.locator("[name=kind]").select_option("set_entry")
    form.locator("[name=key]").fill(f"{FEED}.w1")
    form.locator("[name=index]").fill("1, 2")
    form.locator("[name=value]").fill("0,5")
    form.locator("[type=submit]").click()
    page.wait_for_function("() => explorer.trace?.prediction && !explorer.loading")
    assert page.evaluate("() => explorer.state.edits") == [
        {"kind": "set_entry", "key": f"{FEED}.w1", "index": [1, 2], "value": 0.5}
    ]
    page.locator("#edit .outcome dd").first.wait_for()
    prediction = page.evaluate("() => explorer.trace.prediction")
    shown = numbers_of(page.locator("#edit .outcome dl dd"))
    assert shown == pytest.approx([prediction[name] for name in ("before", "first_order", "after")], rel=1e-3)
    form.locator("[name=kind]").select_option("temperature")
    form.locator("[name=value]").fill("0")
    form.locator("[type=submit]").click()
    assert "temperature 0" in page.locator("#edit .refusal").inner_text()
    assert page.evaluate("() => explorer.state.edits.length") == 1
    page.locator("#edit .line-up button").last.click()
    page.wait_for_function("() => !explorer.state.edits.length")


def test_an_objective_is_chosen_and_an_entry_compared_with_a_difference(visit, live):
    page = visit(live)
    page.locator("button[data-side=backward]").click()
    page.locator("#objective select").first.select_option("difference")
    ready(page)
    objective = page.evaluate("() => explorer.trace.objective")
    assert objective["kind"] == "difference"
    assert objective["token"] != objective["other"]
    entry = page.locator("#entry")
    entry.locator("input").nth(0).fill(f"{FEED}.b2")
    entry.locator("input").nth(1).fill("3")
    entry.locator("[type=submit]").click()
    entry.locator("dd").first.wait_for()
    _, gradient, estimate, error = numbers_of(entry.locator("dd"))
    assert gradient == pytest.approx(estimate, abs=1e-5)
    assert error < 1e-3
    assert entry.locator("svg circle").count() >= 5


def test_another_sentence_a_forced_token_and_one_that_cannot_be_read(visit, live):
    page = visit(live, expects_errors=True)
    page.locator("#sentence").fill(OTHER)
    page.locator("#sentence").press("Enter")
    page.wait_for_function("text => explorer.state.text === text", arg=OTHER)
    ready(page)
    forced = page.locator("#translate .place").first.locator("button[aria-label*=position]").first
    forced.click()
    ready(page)
    assert page.evaluate("() => explorer.state.prefix.length") == 1
    assert page.locator("#translate .place.forced").count() == 1
    page.locator("#sentence").fill("4x1")
    page.locator("#sentence").press("Enter")
    page.wait_for_function("() => !explorer.loading")
    assert "x" in page.locator("#banner").inner_text() or "<unk>" in page.locator("#translate").inner_text()
    for text in ("", "  "):
        page.locator("#sentence").fill(text)
        page.locator("#translate button[type=submit]").click()
        page.wait_for_function("() => !explorer.state.text")
        assert page.locator("#banner").inner_text() == "the text is empty, expected a sentence to translate"
    page.locator("#sentence").fill(OTHER)
    page.locator("#sentence").press("Enter")
    ready(page)
    assert page.locator("#banner").is_hidden()


def test_an_answer_that_has_been_overtaken_changes_nothing(visit, live):
    page = visit(live)
    waiting = []
    page.route(
        "**/translate",
        lambda route: waiting.append(route) if route.request.post_data_json["text"] == OTHER else route.continue_(),
    )
    page.evaluate("text => { explorer.set({text}); }", OTHER)
    page.wait_for_timeout(100)
    page.evaluate("text => { explorer.set({text}); }", "77")
    ready(page)
    before = page.locator("#translate").inner_text()
    waiting[0].continue_()
    page.wait_for_timeout(300)
    assert len(waiting) == 1
    assert page.locator("#translate").inner_text() == before
    assert page.evaluate("() => explorer.translation.source.length") == 3
    page.evaluate("text => { explorer.set({text}); explorer.set({text: ''}); }", OTHER)
    assert not page.evaluate("() => explorer.loading")


def test_training_is_watched_checkpoint_by_checkpoint(visit, live):
    page = visit(live)
    page.locator("#tab-training").click()
    slider = page.locator("#training input[type=range]")
    page.wait_for_function("() => document.querySelector('#training .weights-picture')")
    slider.press("Home")
    assert "0" in slider.get_attribute("aria-valuetext")
    slider.press("ArrowRight")
    assert "3" in slider.get_attribute("aria-valuetext")
    assert int(slider.get_attribute("max")) >= 20  # points of a training of 60 steps, of which few are checkpoints
    assert page.locator("#training svg.chart").count() >= 2


# Choices of each kind, and those that an address could lose among them: nothing, 0, and signs that separate.
CHOICES = {
    "text": "a & b = c#%20+", "beam": 2, "alpha": 0, "prefix": [4, 0, 5], "target": [5, 2], "checkpoint": 0,
    "side": "backward", "tour": 3, "head": 0, "word": 0, "walk": 7, "block": "/linear", "view": "training",
    "objective": {"kind": "difference", "position": 0, "token": 4, "other": 0}, "value": "a@b,c",
    "edits": [{"kind": "set_entry", "key": "a&b", "index": [0, 1], "value": -0.5}],
    "entry": {"key": f"d:{STEP}", "index": [0, 1, 2, 0]},
}  # fmt: skip
RESTORE = """choices => {
    explorer.load = () => undefined;
    const start = {...explorer.state, view: "attention"}, lost = [];
    for (const choice of [...Object.entries(choices).map(([name, value]) => ({[name]: value})), choices]) {
        explorer.set({...start, ...choice});
        const {hash} = location;
        explorer.set(start);
        location.hash = hash;
        window.dispatchEvent(new Event("hashchange"));
        if (JSON.stringify(explorer.state) !== JSON.stringify({...start, ...choice})) lost.push(hash);
    }
    return [Object.keys(start).sort(), lost];
}"""


def test_an_address_leads_back_to_what_was_chosen(visit, live):
    page = visit(live)
    choose(page, block=CROSS, side="backward", edits=[{"kind": "head_off", "step": STEP, "head": 1}])
    page = visit(page.url, expects_errors=True)  # of what the choices below ask for
    assert page.evaluate("() => [explorer.state.block, explorer.state.side, explorer.state.edits.length]") == [
        CROSS,
        "backward",
        1,
    ]
    assert page.locator("button[data-side=backward]").get_attribute("aria-pressed") == "true"
    assert page.evaluate(RESTORE, CHOICES) == [sorted(CHOICES), []]


def test_a_stopped_server_is_named_and_what_is_there_stays(visit, run):
    server, address = explore(run)
    page = visit(address, expects_errors=True)
    stop(server)
    page.locator("#sentence").fill(OTHER)
    page.locator("#sentence").press("Enter")
    page.locator("#banner.stopped").wait_for()
    assert "minitransformer explore" in page.locator("#banner").inner_text()
    assert page.locator("#translate .place").count()


# ---------------------------------------------------------------------------------------------------------------------
# From a file


def test_a_saved_file_needs_no_server(visit, file):
    page = visit(file)
    choose(page, block="encoder.layers.0.self_attention", view="block")
    page.locator("#block math").first.wait_for()
    assert "def forward(" in page.locator("#block").inner_text()
    page.locator("button[data-side=backward]").click()
    page.wait_for_function("() => document.querySelector('#block').innerText.includes('def backward(')")
    choose(page, view="walk", walk=3)
    assert page.locator("#walk .walk-list li.done").count() == 3
    choose(page, view="edit")
    assert "minitransformer explore" in page.locator("#edit").inner_text()


LATER = ["--norm", "rms", "--activation", "swiglu", "--positions", "rotary", "--n-kv-heads", "1", "--steps", "2"]
TEXTS = ["--steps", "2", "--warmup-steps", "1", "--evaluate-every", "2", "--window", "16", "--batch-tokens", "64"]


@pytest.mark.parametrize("alone", [False, True], ids=["later parts", "a decoder alone"])
def test_other_models_are_drawn_as_they_are(visit, tmp_path, alone):
    text, folder, path = tmp_path / "a.py", tmp_path / "run", tmp_path / "page.html"
    text.write_text("".join(f"x{i} = {i} + y\n" for i in range(40)), encoding="utf-8")
    given = ["characters", *TINY[:10], *TEXTS, "--text", str(text)] if alone else ["copy", *TINY, *LATER]
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        assert main(["train", *given, "--out", str(folder)]) == 0
        assert main(["explore", str(folder), "x1 =" if alone else TEXT, "--save", str(path)]) == 0
    page = visit(path.as_uri())
    blocks = [one.get_attribute("aria-label") for one in page.locator("#figure [role=button]").all()]
    encoder = [name for name in blocks if "Encoder" in name or "Cross" in name or "Source" in name]
    assert bool(encoder) != alone
    assert not any("Positions" in name for name in blocks) or alone  # rotary ones are added nowhere
    assert page.locator("#attention .head-button").count() == (2 if alone else 6)
    assert bool(page.evaluate("() => explorer.translation.source.length")) != alone
    for step in page.evaluate("() => explorer.trace.steps.filter(({place}) => place).map(({key}) => key)")[:12]:
        choose(page, block=step, view="block")
        assert page.locator("#block math").count()


# ---------------------------------------------------------------------------------------------------------------------
# For everybody


def test_the_page_speaks_korean_and_turns_to_english(visit, live):
    address, _, text = live.partition("#")
    page = visit(f"{address}?lang=ko#{text}")
    assert page.locator("html").get_attribute("lang") == "ko"
    korean = page.locator("#tab-attention").inner_text()
    with page.expect_navigation():
        page.locator("#language").click()
    ready(page)
    assert page.locator("html").get_attribute("lang") == "en"
    assert page.locator("#tab-attention").inner_text() != korean


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_contrast(visit, live, scheme):
    page = visit(live, scheme)
    assert page.evaluate("() => document.documentElement.dataset.theme") == scheme
    for choices in ({"tour": 1}, {"tour": 0, "view": "walk", "side": "backward", "walk": 9}, {"view": "training"}):
        choose(page, edits=[{"kind": "head_off", "step": STEP, "head": 0}], **choices)
        page.wait_for_timeout(400)
        assert page.evaluate((HERE / "page_contrast.js").read_text("utf-8")) == []


@pytest.mark.parametrize("width", [360, 2560])
def test_nothing_scrolls_sideways(visit, live, width):
    page = visit(live, width=width)
    for side in ("forward", "backward"):
        for name in ("block", "attention", "walk", "edit", "training"):
            choose(page, side=side, view=name, block=CROSS)
            assert page.evaluate(SIDEWAYS) <= 0, name


def test_the_keyboard_is_enough(visit, live):
    page = visit(live)
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    reach(page, "#figure .block")
    page.keyboard.press("ArrowUp")
    chosen = page.evaluate("() => document.activeElement.getAttribute('aria-label')")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "label => document.querySelector('[aria-pressed=true].block')?.getAttribute('aria-label') === label", arg=chosen
    )
    reach(page, ".heatmap-frame")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.locator("#entry dd").first.wait_for()


def reach(page, selector):
    """Press Tab until such an element has the focus."""
    for _ in range(120):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"Tab does not lead to {selector}")


@pytest.mark.parametrize("saved", [False, True])
def test_the_tour_leads_through_five_steps(visit, live, file, saved):
    page = visit(file if saved else live, tour=True)
    views = []
    for n in range(1, 6):
        page.wait_for_function("n => explorer.state.tour === n", arg=n)
        page.locator("#tour .primary").wait_for()
        ready(page)
        views.append(page.evaluate("() => explorer.state.view"))
        if n == 3:
            page.locator("#entry dd").first.wait_for()
        if n == 4 and not saved:
            page.locator("#tour button:visible").first.click()
            page.wait_for_function("() => explorer.state.edits.length === 2 && explorer.trace?.prediction")
            assert page.locator("#figure .block.off").count() == 1
        page.locator("#tour .primary").click()
    assert views == ["attention", "block", "block", "attention", "training"]
    page.wait_for_function("() => explorer.state.tour === 0")
    assert page.evaluate("() => explorer.state.edits.length") == 0
