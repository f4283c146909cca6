"""Files that somebody else wrote: read whole, or refused with their name and what was found."""

import os
import socket

import pytest

from minitransformer.files import FileError, read_file, read_json, read_toml, require_regular_file

DEEP = 200_000
DIGITS = "9" * 5001

BAD_JSON = {
    "nothing": (b"", "Expecting value: line 1"),
    "half": (b'{"a": ', "Expecting value: line 1"),
    "nested lists": (b"[" * DEEP, "it is nested too deeply"),
    "nested lists, closed": (b"[" * DEEP + b"]" * DEEP, "it is nested too deeply"),
    "nested tables": (b'{"a":' * DEEP + b"1" + b"}" * DEEP, "it is nested too deeply"),
    "a number of 5,001 digits": (DIGITS.encode(), "Exceeds the limit .* digits"),
    "half a surrogate pair": (b'["\\ud800"]', r"found '\\ud800', half a surrogate pair, expected Unicode text"),
    "half a surrogate pair as a name": (b'{"\\udc00": 1}', r"found '\\udc00', half a surrogate pair"),
    "not UTF-8": (b'"\xff"', "can't decode byte 0xff in position 1"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "can't decode byte 0xff in position 0"),
}
BAD_TOML = {
    "half": (b"a = ", "Invalid value"),
    "nested lists": (b"a = " + b"[" * DEEP, "it is nested too deeply"),
    "nested tables": (b"a = " + b"{a=" * DEEP, "it is nested too deeply"),
    "a number of 5,001 digits": (b"a = " + DIGITS.encode(), "Exceeds the limit .* digits"),
    "half a surrogate pair": (b'a = "\\ud800"', "Unicode scalar value"),
    "not UTF-8": (b'a = "\xff"', "can't decode byte 0xff in position 5"),
}


@pytest.mark.parametrize(("content", "why"), BAD_JSON.values(), ids=BAD_JSON)
def test_what_is_not_json_is_refused(tmp_path, content, why):
    (tmp_path / "bad.json").write_bytes(content)
    with pytest.raises(FileError, match=rf"bad\.json .*{why}") as error:
        read_json(tmp_path / "bad.json")
    assert len(str(error.value)) < 500


@pytest.mark.parametrize(("content", "why"), BAD_TOML.values(), ids=BAD_TOML)
def test_what_is_not_toml_is_refused(tmp_path, content, why):
    (tmp_path / "bad.toml").write_bytes(content)
    with pytest.raises(FileError, match=rf"bad\.toml .*{why}"):
        read_toml(tmp_path / "bad.toml")


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    path = tmp_path / "file"
    path.write_bytes('\ufeff{"a": ["é", 1]}'.encode())
    assert read_json(path) == {"a": ["é", 1]}
    path.write_bytes('\ufeffa = "é"'.encode())
    assert read_toml(path) == {"a": "é"}


def special_file(path, kind):
    """Put something at a path that is no regular file."""
    if kind == "a folder":
        path.mkdir()
    elif kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    else:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(path))


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
@pytest.mark.parametrize("kind", ["a folder", "a pipe", "a device", "a socket"])
def test_what_is_no_regular_file_is_not_opened(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)  # the path of a socket may not be long
    path = tmp_path.relative_to(tmp_path) / "special"
    special_file(path, kind)
    for read in (read_file, read_json, read_toml, require_regular_file):
        with pytest.raises(FileError, match=f"special .*{kind}"):
            read(path)


def test_what_is_missing_or_too_large_or_impossible_is_refused(tmp_path):
    path = tmp_path / "file"
    with pytest.raises(FileError, match=r"there is no file .*file"):
        read_file(path)
    path.write_bytes(b"12345")
    assert read_file(path, largest=5) == read_file(path, largest=None) == b"12345"
    with pytest.raises(FileError, match=r"file .*\b5 .*\b4"):
        read_file(path, largest=4)
    for name in ("a\0b", "x" * 5000):
        with pytest.raises(FileError, match=name[0]):
            read_file(name)
