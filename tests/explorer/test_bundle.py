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


def test_each_module_comes_once_after_those_that_it_needs():
    script = bundle(MODULES, "app.js")
    order = re.findall(r"const module_(\w+)_js = ", script)
    assert sorted(order) == ["a", "app", "b", "late"]
    assert order.index("b") < order.index("a") < order.index("app")
    assert not re.search(r"^(import|export)\b", script, re.M)
    assert bundle(dict(reversed(MODULES.items())), "app.js") == script


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_script_does_what_the_modules_do():
    command = ["node", "--input-type=module", "-"]
    found = subprocess.run(command, input=bundle(MODULES, "app.js"), capture_output=True, text=True, check=True)
    assert found.stdout.split("\n")[0] == "42 b 5"


@cases_from_toml
def test_other_forms_are_refused(changes, said):
    with pytest.raises(ValueError, match=r"module|found") as caught:
        bundle(MODULES | changes, "app.js")
    assert said in str(caught.value)


PAGE = {
    "index.html": b'<!doctype html><meta charset="utf-8">\n<link rel="stylesheet" href="style.css">\n'
    b'<script type="module" src="app.js"></script>\n',
    "style.css": b"p { color: red }",
    "app.js": b'console.log("</script>");\n',
}


def test_the_policy_allows_what_the_file_holds_and_nothing_else():
    html = single_page(PAGE, {'type="application/json" id="saved"': "{}"})
    script = re.search(r'<script type="module">(.*?)</script>', html, re.S)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', html)[1]
    assert f"script-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy
    assert "file:" not in policy
    assert "file:" in single_page(PAGE, {}, beside=True)
    assert "<style>p { color: red }</style>" in html
    assert '<script type="application/json" id="saved">{}</script>' in html
    assert "<\\/script>" in script


def test_a_page_without_its_script_is_refused():
    with pytest.raises(ValueError, match=r"index\.html: found 0 scripts"):
        single_page(PAGE | {"index.html": b"<p>"}, {})


def test_the_page_is_small_and_can_be_one_file():
    page = page_files()
    assert sum(map(len, page.values())) < 500_000
    html = single_page(page, {})
    assert not re.search(r'\b(?:src|href)="(?!#|data:)', html.partition("<script")[0])
