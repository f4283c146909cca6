"""The lists of faults fit the code: each can be planted, and names tests that exist."""

from collections import Counter

from faults.plant import ROOT, read_faults

from minitransformer.apps.learn.solutions import edit


def test_every_fault_can_be_planted_and_is_listed_once():
    texts, planted = {}, {}
    for fault in read_faults():
        text = texts.setdefault(fault["file"], (ROOT / fault["file"]).read_text("utf-8"))
        wrong = edit(text, fault["old"], fault["new"], f"{fault['name']}: {fault['file']}")
        assert wrong != text, fault["name"]
        assert planted.setdefault((fault["file"], wrong), fault["name"]) == fault["name"]
        assert fault["tests"], fault["name"]
        for test in fault["tests"]:
            assert (ROOT / test.partition("::")[0]).exists(), f"{fault['name']}: {test}"


def test_every_fault_has_a_name_of_its_own():
    names = Counter((fault["file"], fault["name"]) for fault in read_faults())
    assert [name for name, times in names.items() if times > 1] == []
