import bz2
import gzip
import lzma
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitransformer.data import (
    KnownFile,
    LeftOut,
    TextError,
    comparable,
    normalise_text,
    published,
    read_lines,
    read_multi30k,
    read_parallel,
    references,
    remarks,
)

# characters that some programs take for the end of a line
INSIDE = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg"


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


@pytest.mark.parametrize("name", ["text", "text.gz"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("closed", [False, True])
def test_lines_of_any_kind_of_file(tmp_path, name, packed, mark, end, closed):
    lines = ["ein Hund", "", f" zwei \t {INSIDE} ", "größer", "\ufeffinside"]
    data = mark + (end.join(lines) + end * closed).encode("utf-8")
    path = write(tmp_path / name, gzip.compress(data) if packed else data)
    assert read_lines(path) == read_lines(f"{path}") == lines


def test_an_empty_last_line_is_a_line_if_it_is_ended(tmp_path):
    assert read_lines(write(tmp_path / "a", "x\n\n")) == ["x", ""]
    assert read_lines(write(tmp_path / "b", "\n")) == [""]


def test_only_one_return_belongs_to_the_end_of_a_line(tmp_path):
    assert read_lines(write(tmp_path / "a", "x\r\r\ny\rz\r")) == ["x\r", "y\rz"]


@pytest.fixture(scope="module")
def lines_file(tmp_path_factory):
    return tmp_path_factory.mktemp("text") / "lines"


@given(st.lists(st.text().filter(lambda line: not {*"\n\0"} & {*line} and not line.endswith("\r")), min_size=1))
def test_every_line_comes_back(lines_file, lines):
    path = write(lines_file, "\n".join(["first", *lines]) + "\n")
    assert read_lines(path) == ["first", *lines]


def test_two_files(tmp_path):
    source = write(tmp_path / "en.gz", gzip.compress(b"a dog\n\n \t \na cat\r\nno\n"))
    target = write(tmp_path / "de", "ein  Hund\nnichts\n\n\u3000\neine\tKatze")
    text = read_parallel(source, target)
    assert text.pairs == [("a dog", "ein Hund"), ("no", "eine Katze")]
    assert text.left_out == LeftOut(5, {"an empty source": 1, "an empty target": 1, "both sides empty": 1})
    assert text.left_out.count == 3
    assert str(text.left_out) == (
        "5 pairs, 3 left out: 1 with an empty source, 1 with an empty target, 1 with both sides empty"
    )


def test_one_file(tmp_path):
    text = read_parallel(write(tmp_path / "pairs.tsv", f"a dog\tein Hund\r\n\n\tnichts\n  \nx\t{INSIDE}\n"))
    assert text.pairs == [("a dog", "ein Hund"), ("x", normalise_text(INSIDE))]
    assert text.left_out.reasons == {"an empty source": 1, "an empty target": 0, "both sides empty": 2}

    # half a surrogate pair is no character
    with pytest.raises(TextError, match=r"half, line 2: the byte 0xED"):
        read_lines(write(tmp_path / "half", b"\xef\xbb\xbfa\n\xed\xa0\x80"))


def test_files_that_are_not_there_or_hold_nothing(tmp_path):
    there = write(tmp_path / "there", "x\n")
    with pytest.raises(TextError, match="absent"):
        read_parallel(there, tmp_path / "absent")
    with pytest.raises(TextError, match=r"nothing is empty, expected lines of text"):
        read_parallel(write(tmp_path / "nothing", ""), there)
    with pytest.raises(TextError, match="is empty"):
        read_lines(write(tmp_path / "mark", b"\xef\xbb\xbf"))
    with pytest.raises(TextError, match="is empty"):
        read_lines(write(tmp_path / "packed.gz", gzip.compress(b"")))
    with pytest.raises(TextError, match=r"folder|cannot read"):
        read_lines(tmp_path)
    with pytest.raises(TextError, match=r"cannot read x{300}: .*long"):
        read_lines("x" * 300)
    with pytest.raises(TextError, match=r"blank and .*there: no pair has text on both sides"):
        read_parallel(write(tmp_path / "blank", " \n"), there)
    with pytest.raises(TextError, match=r"blank: no pair has text on both sides"):
        read_parallel(tmp_path / "blank")


TEXTS = {
    "English": "a dog barks\n",
    "French": "où est l’été ?\r\n",
    "Russian": "собака лает на кота\n",
    "Thai": "หมาเห่าแมวแล้วช้างก็มา\nช\n ช",
    "Hindi": "कुत्ता भौंकता है\n",
    "Arabic": "الكلب ينبح\n",
    "Chinese": "狗在叫 猫\n",
    "Korean": "개가 짖는다\n",
}


@pytest.mark.parametrize("encoding", ["UTF-16", "UTF-16LE", "UTF-16BE", "UTF-32", "UTF-32LE", "UTF-32BE"])
@pytest.mark.parametrize("language", TEXTS)
def test_other_encodings_of_unicode_are_named(tmp_path, language, encoding):
    data = (TEXTS[language] * 20).encode(encoding)
    for name, packed in (("plain", data), ("packed", gzip.compress(data))):
        path = write(tmp_path / name, packed)
        with pytest.raises(TextError, match=f"iconv -f {encoding} "):
            read_parallel(path, path)


@pytest.mark.parametrize(("data", "told"), [
    (lzma.compress(b"a\tb\n"), "xz -d"), (bz2.compress(b"a\tb\n"), "bzip2 -d"), (b"\x28\xb5\x2f\xfd  ", "zstd -d"),
    (b"PK\x03\x04  ", "zip"), (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n", "git lfs pull"),
])  # fmt: skip
def test_other_files_are_named(tmp_path, data, told):
    with pytest.raises(TextError, match=told):
        read_parallel(write(tmp_path / "text", data))


def test_a_byte_that_no_text_has_is_refused(tmp_path):
    random = np.random.default_rng(1)
    kinds = {
        "a text": b"the cat\tle chat\n" + b"a \0dog\tun chien\n" * 50,
        "tar": b"a\n" + b"a.tsv" + bytes(95) + b"0000644\0" + b"a dog\tun chien\n" * 50,
        "lzma": lzma.compress(random.bytes(3000), format=lzma.FORMAT_ALONE),
        "lz4": b"\x04\x22\x4d\x18\x64\x40\xa7" + random.bytes(2000).replace(b"\0", b"\xff"),
        "doc": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + b">\0\x03\0" + "a document ".encode("UTF-16LE") * 9,
        "pdf": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n" + random.bytes(3000),
    }
    for name, data in kinds.items():
        with pytest.raises(TextError, match=r", line \d+: found the byte 0x.*no text") as error:
            read_lines(write(tmp_path / name, data))
        assert "iconv" not in str(error.value), name
    with pytest.raises(TextError, match=r"a text, line 2: found the byte 0x00.*tr -d '\\000'"):
        read_lines(tmp_path / "a text")


def test_three_columns(tmp_path):
    with pytest.raises(TextError, match=r"line 2: found 2 tabs.*cut -f1,2 .* first and second.*cut -f2,3 "):
        read_parallel(write(tmp_path / "text", "a\tb\nc\td\te\n"))
    with pytest.raises(TextError, match=r"line 1: found no tabs.*CSV"):
        read_parallel(write(tmp_path / "text", "a,b\nc,d\n"))


@pytest.mark.parametrize(("pairs", "told"), [
    ([("fr", "wol")], "'fr' and 'wol'"), ([("English", "German")], "'English' and 'German'"),
    ([("Non.", "Déet.")], None), ([("cat sat", "chat assis")], None),
    ([('"a ""b"" c"', "d e"), ("a", '"b c"')], "2 pairs"), ([('say "no"', '"')], None),
    ([("source text", "target text")], "'source text'"), ([("id", "English sentence")], "'English sentence'"),
    ([('"a, b', "d e"), ("a", 'b c"')], "2 pairs"), ([('"No", he said', 'say "no"')], None),
])  # fmt: skip
def test_headers_and_quotes_are_pointed_out(pairs, told):
    rest = [(f"the cat {i}", f"le chat {i}") for i in range(60)]
    found = remarks([*pairs, *rest])
    assert len(found) == (told is not None)
    assert told is None or told in found[0]
    assert not any("header" in note for note in remarks([*pairs, *(("cat", "chat"),) * 60]))


def test_damaged_gzip(tmp_path):
    whole = gzip.compress(b"a dog\n" * 100)
    for number, data in enumerate((whole[:-9], whole[:12] + b"\xff\xff" + whole[14:], whole[:-8] + b"12345678")):
        with pytest.raises(TextError, match=r"is a damaged gzip file .* again"):
            read_lines(write(tmp_path / f"{number}.gz", data))


def test_references():
    pairs = [("b", "2"), ("a", "1"), ("b", "3"), ("b", "2"), ("a", "0")]
    grouped = references(pairs)
    assert grouped == {"b": ["2", "3"], "a": ["1", "0"]}
    assert list(grouped) == ["b", "a"]


def test_what_is_evened_out():
    assert normalise_text(" ein\u00a0 Hu\tnd\r\n") == "ein Hu nd"
    assert normalise_text("e\u0301tat") == "état"
    assert normalise_text("a▁b") == "a b"
    assert normalise_text("a\ud800b") == "a\ufffdb"
    # what can be seen stays, compatible or not
    assert normalise_text("ﬁ ½ Ａ … „x“ İ ß") == "ﬁ ½ Ａ … „x“ İ ß"


@given(st.text(st.characters(codec=None, exclude_categories=[])))
def test_evening_out_twice_changes_nothing(text):
    once = normalise_text(text)
    assert normalise_text(once) == once
    once.encode("utf-8")


@pytest.mark.parametrize("number", [
    0xAD, 0x34F, 0x61C, 0x180E, 0x200B, 0x200E, 0x200F, 0x202A, 0x202E, 0x2060, 0x2064, 0x2069, 0x3164, 0xFEFF, 0xE0001,
])  # fmt: skip
def test_what_cannot_be_seen_is_not_compared(number):
    for text in (f"ca{chr(number)}t", f"{chr(number)}cat", f" cat {chr(number)} "):
        assert comparable(text) == "cat"
    assert comparable(f"e{chr(number)}\u0301") == "é"


def test_what_may_be_seen_is_compared():
    for text in (
        "नि\u200dक",
        "می\u200cخواهم",
        "❤\ufe0f",
        "葛\U000e0100",
        "\u1820\u180b",
        "🏴\U000e0067\U000e007f",
        "a b",
        *(f"a{kept}b" for kept in ("\ufe0f", "\u200d", "\U000e0061", "\u2800", "\x01", "\x80", "\ufff9")),
    ):
        assert comparable(text) == text
    assert comparable(" e\u0301\u00a0 a") == "é a"


@given(st.text(st.characters(codec=None, exclude_categories=[])))
def test_comparing_twice_changes_nothing(text):
    assert comparable(comparable(text)) == comparable(normalise_text(text)) == comparable(text)


def test_known_files(tmp_path):
    content = b"eins\nzwei\n"
    known = KnownFile("numbers.de", 2, sha256(content).hexdigest(), "somewhere")
    with pytest.raises(TextError, match=r"neither numbers\.de nor numbers\.de\.gz in .*; .* from somewhere"):
        known.read(tmp_path)
    write(tmp_path / "numbers.de.gz", gzip.compress(content, mtime=7))
    assert known.read(tmp_path) == ["eins", "zwei"]
    write(tmp_path / "numbers.de", content)
    assert known.read(f"{tmp_path}") == ["eins", "zwei"]
    write(tmp_path / "numbers.de", b"eins\nZwei\n")
    with pytest.raises(
        TextError,
        match=r"numbers\.de is not the published file: found lines: 2,.*expected lines: 2,.*download it again",
    ):
        known.read(tmp_path)
    write(tmp_path / "numbers.de", b"eins\n")
    with pytest.raises(TextError, match="found lines: 1,"):
        known.read(tmp_path)


def test_multi30k(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"no part 'dev'; the parts are train, val, test_2016_flickr"):
        read_multi30k(tmp_path, "dev")
    with pytest.raises(TextError, match=r"neither val\.lc\.norm\.tok\.en nor .*multi30k/dataset"):
        read_multi30k(tmp_path, "val")
    files = {}
    for language, content in (("en", b"a dog\n"), ("de", b"ein hund\n")):
        write(tmp_path / f"made-up.{language}", content)
        files[language] = KnownFile(f"made-up.{language}", 1, sha256(content).hexdigest(), "here")
    monkeypatch.setitem(published.MULTI30K, "val", files)
    assert read_multi30k(tmp_path, "val") == [("a dog", "ein hund")]
