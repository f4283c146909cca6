"""The files of the page, and all of them in one file.

Browsers refuse to load JavaScript modules from a file on disk. A saved page therefore holds all modules in one script:
each becomes a function that returns its exports. Only the few forms of ``import`` and ``export`` that the page uses are
supported; any other form is refused.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from importlib.resources import files

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
"""The kinds of files of the page: media types by file suffix."""

_NAMES = r"\{(?P<names>[^}]*)\}"
_IMPORT = re.compile(rf'^import\s+(?:(?:{_NAMES}|\*\s+as\s+(?P<whole>\w+))\s+from\s+)?"\./(?P<file>[\w.-]+)";?', re.M)
_DYNAMIC = re.compile(r'\bimport\("\./(?P<file>[\w.-]+)"\)')
_EXPORT = re.compile(r"^export\s+(?P<kind>(?:async\s+)?function\*?|class|const|let)\s+(?P<name>\w+)", re.M)
_EXPORT_LIST = re.compile(rf"^export\s+{_NAMES};?", re.M)
_OTHER = re.compile(r"^(?:import|export)\b.*|\bimport\s*\(.*|\bimport\.meta\b.*", re.M)


def page_files() -> dict[str, bytes]:
    """Return the files of the page by name."""
    folder = files("minitransformer.apps.explorer") / "page"
    found = sorted(folder.iterdir(), key=lambda file: file.name)
    return {file.name: file.read_bytes() for file in found if file.name.rpartition(".")[2] in TYPES}


def single_page(page: Mapping[str, bytes], scripts: Mapping[str, str], beside: bool = False) -> str:
    """Return the page as one HTML text that refers to no other file.

    Parameters
    ----------
    page : mapping of str to bytes
        Its files; ``index.html`` links the styles and the first module.
    scripts : mapping of str to str
        Elements with data to add: the attributes of each ``<script>`` and its text.
    beside : bool
        Whether the page may load scripts that lie beside it.

    Raises
    ------
    ValueError
        If a file has a form that is not expected.
    """
    text = {name: data.decode("utf-8") for name, data in page.items()}
    html = text["index.html"]
    hashes: dict[str, list[str]] = {"style": [], "script": []}

    def inline(element: str, attributes: str, content: str) -> str:
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        hashes[element].append(f"'sha256-{digest}'")
        return f"<{element}{attributes}>{content}</{element}>"

    def style(match: re.Match[str]) -> str:
        return inline("style", "", text.get(match[1], ""))

    def script(match: re.Match[str]) -> str:
        data = "".join(f"<script {attributes}>{content}</script>\n" for attributes, content in scripts.items())
        return data + inline("script", ' type="module"', bundle(text, match[1]).replace("</script", "<\\/script"))

    html = re.sub(r'<link rel="stylesheet" href="([\w.-]+)">', style, html)
    html, n = re.subn(r'<script type="module" src="([\w.-]+)"></script>', script, html)
    if n != 1:
        raise ValueError(f"index.html: found {n} scripts, expected one: a module with src")
    allowed = " ".join(hashes["script"]) + (" 'self' file:" if beside else "")
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src {' '.join(hashes['style'])}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return html.replace(
        '<meta charset="utf-8">',
        f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">',
        1,
    )


def bundle(page: Mapping[str, str], first: str) -> str:
    """Return modules as one script.

    Parameters
    ----------
    page : mapping of str to str
        The modules by file name, beside other files.
    first : str
        The module to run; those that it imports run before it, each once.

    Raises
    ------
    ValueError
        If a module is missing, has another form of import or export, or modules have an import cycle.
    """
    needs: dict[str, list[str]] = {}
    open_files = [first]
    while open_files:
        name = open_files.pop()
        if name not in needs:
            found = (match["file"] for kind in (_IMPORT, _DYNAMIC) for match in kind.finditer(_read(page, name)))
            needs[name] = sorted(set(found))
            open_files += needs[name]
    try:
        order = TopologicalSorter(needs).static_order()
        return "\n".join(_function(name, page[name]) for name in order)
    except CycleError as error:
        raise ValueError(f"the modules have an import cycle: {' -> '.join(error.args[1])}") from error


def _read(page: Mapping[str, str], name: str) -> str:
    if name not in page:
        raise ValueError(f"the module {name} is missing")
    return page[name]


def _variable(file: str) -> str:
    return "module_" + re.sub(r"\W", "_", file)


def _function(name: str, source: str) -> str:
    """Return a module as a function that runs at once and returns what it exports."""
    exports: list[str] = []

    def bind(match: re.Match[str]) -> str:
        module = _variable(match["file"])
        if match["whole"]:
            return f"const {match['whole']} = {module};"
        return f"const {{{_pairs(match['names'], ': ')}}} = {module};" if match["names"] else ""

    def note(match: re.Match[str]) -> str:
        exports.append(match["name"])
        return f"{match['kind']} {match['name']}"

    def note_list(match: re.Match[str]) -> str:
        pairs = (one.split() for one in match["names"].split(",") if one.strip())
        exports.extend(pair[0] if len(pair) == 1 else f"{pair[2]}: {pair[0]}" for pair in pairs)
        return ""

    body = _IMPORT.sub(bind, source)
    body = _DYNAMIC.sub(lambda match: f"Promise.resolve({_variable(match['file'])})", body)
    body = _EXPORT_LIST.sub(note_list, _EXPORT.sub(note, body))
    if other := _OTHER.search(body):
        raise ValueError(
            f"{name}: found {other[0][:60]!r}, expected import {{...}} from, import * as ... from, and export before a "
            "function, class, const or list"
        )
    return f"const {_variable(name)} = await (async () => {{\n{body}\nreturn {{ {', '.join(exports)} }};\n}})();"


def _pairs(names: str, between: str) -> str:
    """Return the names of an import as those of a destructuring: ``a, b as c`` becomes ``a, b: c``."""
    return ", ".join(between.join(re.split(r"\s+as\s+", one.strip())) for one in names.split(",") if one.strip())
