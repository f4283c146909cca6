"""The page in one file: modules as functions, in the order in which they need each other."""

import base64
import hashlib
import re
import shutil
import subprocess

import pytest
from toml_cases import cases_from_toml, toml_table

from minitransformer.apps.explorer.bundle import bundle, page_files, single_page

MODULES = toml_table(__file__, "MODULES")


def test_each_module_that_is_needed_is_in_the_script_once_in_whatever_order_they_are_given():
    script = bundle(MODULES, "app.js")
    assert [script.count(text) for text in ("base = 21", "yield hidden", "nobody")] == [1, 1, 0]
    assert bundle(dict(reversed(MODULES.items())), "app.js") == script


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_script_does_what_the_modules_do():
    command = ["node", "--input-type=module", "-"]
    found = subprocess.run(command, input=bundle(MODULES, "app.js"), capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == ["42 b 5", "3 3 1"]


@cases_from_toml
def test_other_forms_are_refused(changes, named):
    with pytest.raises(ValueError, match=re.escape(named)):
        bundle(MODULES | changes, "app.js")


PAGE = {
    "index.html": b'<!doctype html><meta charset="utf-8">\n<link rel="stylesheet" href="style.css">\n'
    b'<script type="module" src="app.js"></script>\n',
    "style.css": b"p { color: red }",
    "app.js": b'console.log("</script>");\n',
}


def test_the_policy_allows_what_the_file_holds_and_nothing_else():
    data = {'type="application/json" id="saved"': "{}", 'id="more"': "1"}
    script = bundle({name: text.decode() for name, text in PAGE.items()}, "app.js").replace("</script", "<\\/script")
    style, app = (
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in (PAGE["style.css"].decode(), script)
    )
    for beside, files in ((False, ""), (True, " 'self' file:")):
        policy = f"default-src 'none'; script-src {app}{files}; style-src {style}; img-src data:; base-uri 'none'; "
        assert single_page(PAGE, data, beside) == (
            '<!doctype html><meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" '
            f"content=\"{policy}form-action 'none'\">\n<style>p {{ color: red }}</style>\n"
            '<script type="application/json" id="saved">{}</script>\n<script id="more">1</script>\n'
            f'<script type="module">{script}</script>\n'
        )


@pytest.mark.parametrize(("html", "n"), [(b"<p>", 0), (2 * PAGE["index.html"], 2)])
def test_a_page_without_its_one_script_is_refused(html, n):
    with pytest.raises(ValueError, match=f"found {n} scripts"):
        single_page(PAGE | {"index.html": html}, {})


def test_the_page_is_small_and_can_be_one_file():
    page = page_files()
    assert sum(map(len, page.values())) < 500_000
    html = single_page(page, {})
    assert not re.search(r'\b(?:src|href)="(?!#|data:)', html.partition("<script")[0])
