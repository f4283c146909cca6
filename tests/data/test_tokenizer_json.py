"""A ``tokenizer.json`` that the package tokenizers cannot use: refused, whatever the package raises."""

import json
import pickle
import sys
from types import SimpleNamespace

import decoder_folders
import pytest

from minitransformer.apps.cli import main
from minitransformer.apps.explorer.body import RequestError
from minitransformer.apps.explorer.session import Session
from minitransformer.apps.interop import READERS, write_run
from minitransformer.data import TokenizerError, TokenizerJson, Vocabulary, read_tokenizer
from minitransformer.files import FileError
from minitransformer.runs import RunFolder, load


class PanicException(BaseException):
    """What Rust's panics are in Python: no Exception, and of a module that cannot be imported."""


class Broken(decoder_folders.Tokenizer):
    """A tokenizer that raises an error where its file says so, and otherwise reads words."""

    def __init__(self, text):
        super().__init__(text)
        self._fail("from_str")

    def __reduce__(self):
        return Broken, (json.dumps(self.file),)

    def _fail(self, where):
        if error := self.file.get(where):
            raise {"Exception": Exception, "PanicException": PanicException}[error](f"it failed in {where}")

    def encode(self, text, add_special_tokens=True):
        text.encode()  # as the package does
        if self.file.get("where", "c") in text:
            self._fail("encode")
        return super().encode(text, add_special_tokens)

    def decode(self, ids, skip_special_tokens=True):
        self._fail("decode")
        return " ".join(map(self.id_to_token, ids))


@pytest.fixture(autouse=True)
def package(monkeypatch):
    found = SimpleNamespace(Tokenizer=SimpleNamespace(from_str=Broken))
    monkeypatch.setitem(sys.modules, "tokenizers", found)


def text_of(**changes):
    return json.dumps(decoder_folders.tokenizer_json(begins=False) | changes)


def imported(folder, **changes):
    """Return a run that continues texts, as `import` writes it, with changes of its ``tokenizer.json``."""
    there = decoder_folders.write_folder(folder / "there", "gpt2", False)
    (there / "tokenizer.json").write_text(text_of(**changes))
    return write_run(READERS["huggingface"](there), folder / "run").path


ERRORS = pytest.mark.parametrize("error", ["Exception", "PanicException"])


@ERRORS
def test_whatever_the_package_raises_is_a_refusal(error):
    with pytest.raises(TokenizerError, match=r"this is no tokenizer\.json: it failed in from_str"):
        read_tokenizer(text_of(from_str=error))
    vocabulary = Vocabulary(["<unk>", *decoder_folders.WORDS])
    tokens = TokenizerJson(text_of(encode=error, decode=error), vocabulary, [None] * 4)
    with pytest.raises(TokenizerError, match="it failed in encode"):
        tokens.encode("a c")
    with pytest.raises(TokenizerError, match="it failed in decode"):
        tokens.decode([4, 5])


@ERRORS
def test_a_tokeniser_goes_to_other_processes(error):
    vocabulary = Vocabulary(["<unk>", *decoder_folders.WORDS])
    tokens = TokenizerJson(text_of(encode=error), vocabulary, [None] * 4)
    copied = pickle.loads(pickle.dumps(tokens))
    assert copied.encode("a b") == tokens.encode("a b")
    with pytest.raises(TokenizerError, match="it failed in encode"):
        copied.encode("a c")


def test_ctrl_c_stays_what_it_is(monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Broken, "encode", interrupt)
    with pytest.raises(KeyboardInterrupt):
        read_tokenizer(text_of()).encode("a")


@ERRORS
@pytest.mark.parametrize("where", ["from_str", "encode"])
def test_import_names_the_file(tmp_path, error, where):
    with pytest.raises(FileError, match=r"there.tokenizer\.json: .*it failed in"):
        imported(tmp_path, **{where: error, "where": "a"})


@ERRORS
@pytest.mark.parametrize(("where", "text"), [("encode", "a c"), ("decode", "a")])
def test_write_says_it_in_a_line(tmp_path, capsys, error, where, text):
    run = imported(tmp_path, **{where: error})
    assert main(["write", str(run), text, "--length", "3"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"it failed in {where}" in line


@ERRORS
def test_the_explorer_answers_that_a_text_cannot_be_read(tmp_path, error):
    run = imported(tmp_path, encode=error)
    session = Session(load(run), RunFolder(run))
    with pytest.raises(RequestError, match="it failed in encode"):
        session.answer("trace", {"text": "a c"})
    session.answer("trace", {"text": "a"})


def test_half_a_surrogate_pair_is_read_as_a_replacement_character(tmp_path, capsys):
    """A terminal gives it for a byte that is no UTF-8."""
    run = imported(tmp_path)
    for text in ("a \udce9", "\ud800"):
        assert main(["write", str(run), text, "--length", "3"]) in (0, 2)  # 2 if it is unknown
        assert "Traceback" not in capsys.readouterr().err
    tokens = TokenizerJson(text_of(), Vocabulary(["<unk>", *decoder_folders.WORDS]), [None] * 4)
    assert tokens.encode("a \udce9 b") == tokens.encode("a \N{REPLACEMENT CHARACTER} b")
