"""The files that code hosts, package indexes and people look for: complete, true, and of one version."""

import configparser
import re
import runpy
import subprocess
from pathlib import Path

import pytest
from toml_cases import cases_from_toml

import minitransformer as mt

ROOT = Path(__file__).parents[2]
HOST = ROOT / ".github"
WORKFLOWS = sorted((HOST / "workflows").glob("*.yml"))
LINK = re.compile(r"\]\((?!https?://)([^)#]+)[^)]*\)")


def read(path):
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def settings():
    found = configparser.ConfigParser()
    found.read(ROOT / "setup.cfg", encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def package():
    return runpy.run_path(f"{ROOT / '.ci' / 'package.py'}")


def test_the_version_is_the_same_everywhere(settings):
    assert settings["metadata"]["version"] == "attr: minitransformer.__version__"
    citation = read(ROOT / "CITATION.cff")
    assert re.search(r"^version: (.*)$", citation, re.M)[1] == mt.__version__
    headings = re.findall(r"^## (.*)$", read(ROOT / "CHANGELOG.md"), re.M)
    released = [heading.split()[0] for heading in headings if heading != "Unreleased"]
    assert headings.index("Unreleased") == 0 if "Unreleased" in headings else released[0] == mt.__version__
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\)", heading) for heading in headings[1:])


def test_the_classifiers_are_the_versions_that_are_tested(settings):
    classified = re.findall(r"Python :: (3\.\d+)", settings["metadata"]["classifiers"])
    tested = re.findall(r'"(3\.\d+)"', re.search(r"python: \[(.*)\]", read(HOST / "workflows" / "tests.yml"))[1])
    assert set(classified) <= set(tested)
    assert settings["options"]["python_requires"] == f">={classified[0]}"


def test_every_extra_is_described(settings):
    rows = re.findall(r"^\| (`.*?) \|", read(ROOT / "docs" / "install.md").partition("## Extras")[2], re.M)
    described = "".join(rows)
    assert {*settings["options.extras_require"]} <= {*re.findall(r"`(\w+)`", described)}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_step_of_a_workflow_is_a_script_of_the_repository(path):
    commands = re.findall(r"^ +(?:- )?run: (.*)$", read(path), re.M)
    assert commands
    for command in commands:
        script = ROOT / next(word for word in command.split() if word != "python")
        assert script.is_relative_to(ROOT / ".ci"), command
        assert script.exists(), command
        assert command.startswith("python ") == (script.suffix == ".py"), command


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_named_by_their_commits(path):
    for action in re.findall(r"uses: (.*)$", read(path), re.M):
        # The documentation of this one asks for its branch: only the newest release knows the index of today.
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+(\.\d+)*|pypa/gh-action-pypi-publish@release/v1", action)


def test_the_manifest_names_what_is_there():
    manifest = read(ROOT / "MANIFEST.in")
    for line in manifest.splitlines():
        kind, *names = line.split()
        if kind in ("graft", "include"):
            assert all((ROOT / name).exists() for name in names), line
    texts = {path.name for path in ROOT.glob("*.md")} | {"CITATION.cff"}
    assert texts - {"README.md"} <= set(manifest.split())  # which is always in


@cases_from_toml
def test_links_on_a_package_index_are_absolute_or_plain_text(package, repository, site, shown):
    text = "See [guides](docs/x.md#top) (docs/x.md) and [code](docs). ![A map](docs/map.svg)\n"
    fixed = "[the paper](https://arxiv.org/abs/1706.03762) [below](#tests)\n```python\nf = [x](y)\n```\n"
    changed = package["index_text"](text + fixed, package["Addresses"](repository, site, "0ab"))
    assert changed == f"{shown}\n{fixed}"


@pytest.mark.parametrize("addresses", [("", ""), ("https://host/us/it", "https://site/")])
def test_the_text_on_a_package_index_has_no_relative_link(package, addresses):
    changed = package["index_text"](read(ROOT / "README.md"), package["Addresses"](*addresses, "0ab"))
    prose = re.sub(r"^```.*?^```$", "", changed, flags=re.M | re.S)
    assert not LINK.findall(prose)
    assert "src=" not in prose
    assert "href=" not in prose


def test_the_export_has_the_addresses(package, tmp_path, monkeypatch):
    if subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True).returncode:
        pytest.skip("this is no clone")
    package["export"](tmp_path, package["Addresses"]("https://host/us/it", "", "HEAD"))
    changed = configparser.ConfigParser()
    changed.read(tmp_path / "setup.cfg", encoding="utf-8")
    assert "Source = https://host/us/it" in changed["metadata"]["project_urls"]
    shown = tmp_path / changed["metadata"]["long_description"].removeprefix("file: ")
    assert "https://host/us/it/blob/HEAD/docs/" in read(shown)


@pytest.mark.parametrize(("tag", "right"), [("v" + mt.__version__, True), ("v99.0.0", False), ("", True)])
def test_a_tag_of_another_version_is_refused(package, monkeypatch, tmp_path, tag, right):
    monkeypatch.setenv("RELEASE_TAG", tag)
    (tmp_path / "CHANGELOG.md").write_text(f"## {mt.__version__} (2026-01-01)\n", encoding="utf-8")
    monkeypatch.setitem(package["check_tag"].__globals__, "ROOT", tmp_path)
    if right:
        package["check_tag"](mt.__version__)
    else:
        with pytest.raises(SystemExit, match=r"expected v\d"):
            package["check_tag"](mt.__version__)
