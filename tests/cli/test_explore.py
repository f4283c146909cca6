"""The command that opens a trained model in the browser, or saves a sentence."""

import re
import threading
import urllib.request
import webbrowser

import pytest
from random_runs import trained

from minitransformer.apps.cli import explore, main
from minitransformer.apps.explorer import Explorer, Session, left_out
from minitransformer.apps.explorer.bundle import page_files
from minitransformer.apps.explorer.reading import Reading
from minitransformer.data import train_tokeniser
from minitransformer.runs import RunFolder, load


@pytest.fixture
def run(small_run):
    return str(small_run)


def stop_at_once(monkeypatch, during=lambda server: None):
    """Let the server answer in a thread during a function, and then get a Ctrl-C."""
    serve = Explorer.serve_forever

    def serve_for_a_while(server, poll_interval):
        thread = threading.Thread(target=serve, args=(server, 0.01))
        thread.start()
        try:
            during(server)
        finally:
            server.shutdown()
            thread.join()
        raise KeyboardInterrupt

    monkeypatch.setattr(Explorer, "serve_forever", serve_for_a_while)


def test_the_address_is_printed_and_ctrl_c_ends_it(run, monkeypatch, capsys):
    pages, threads, limit = [], [], explore.blas.threads
    monkeypatch.setattr(explore.blas, "threads", lambda n: threads.append(n) or limit(n))

    def look(server):
        out, err = capsys.readouterr()
        assert (err, f" {server.address}#text=12\n" in out) == ("", True)
        pages.append(urllib.request.urlopen(server.address).read())

    stop_at_once(monkeypatch, look)
    assert main(["explore", run, "12", "--no-browser"]) == 0
    assert (pages, threads) == ([page_files()["index.html"]], [1])
    assert capsys.readouterr().err == ""


def test_the_browser_opens_at_the_text(run, monkeypatch):
    opened, done = [], threading.Event()
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", lambda address: (opened.append(address), done.set()))
    stop_at_once(monkeypatch, lambda server: done.wait(10))
    assert main(["explore", run, "12"]) == 0
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\S+/#text=12", opened[0])


@pytest.mark.parametrize("failure", [webbrowser.Error("none"), OSError("gone"), ValueError("no quote"), None])
def test_without_a_browser_the_address_is_enough(monkeypatch, capsys, failure):
    def fail(address):
        if failure:
            raise failure
        return False

    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", fail)
    explore._open_browser("http://127.0.0.1:1/x/")
    assert capsys.readouterr().out
    monkeypatch.setattr(webbrowser, "open", lambda address: True)
    explore._open_browser("http://127.0.0.1:1/x/")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["1x2"], "'x' at position 2"), (["1", "2"], "' ' at position 2"), (["1" * 200], "201 .* 128"),
     (["--save", "page.png"], "--save .*page.png"), (["1x2", "--save", "x.html"], "'x' at position 2")],
    ids=str,
)  # fmt: skip
def test_what_is_wrong_is_said_before_a_server_starts(run, tmp_path, monkeypatch, refused, arguments, words):
    monkeypatch.chdir(tmp_path)
    assert re.search(words, refused("explore", run, *arguments))
    assert not any(tmp_path.iterdir())


def test_a_port_in_use_is_named(run, monkeypatch, capsys):
    tried = []

    def bind(server):
        tried.append(server.server_address[1])
        raise OSError(1, "in use")

    monkeypatch.setattr(Explorer, "server_bind", bind)
    assert main(["explore", run, "--port", "8642", "--no-browser"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.match("minitransformer explore: .*8642.* in use", err)
    assert main(["explore", run, "--no-browser"]) == 2
    assert tried == [8642, *range(8642, 8662), 0]


def test_a_sentence_is_saved(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("minitransformer.decoding.search.MORE_THAN_SOURCE", 0)
    monkeypatch.setattr("minitransformer.apps.explorer.saved._gradients", lambda *_, **options: [])
    page = tmp_path / "new" / "page.html"
    session = Session(load(run), RunFolder(run))
    for given, most in ([], 10_000_000), (["12"], 20):
        monkeypatch.setattr("minitransformer.apps.explorer.saved.MOST_PARAMETERS", most)
        assert main(["explore", run, *given, "--save", str(page)]) == 0
        text = given[0] if given else session.model()["examples"][0]
        out, err = capsys.readouterr()
        lines = out.splitlines()
        assert (err, lines[0]) == ("", f"{text}  ->  {session.translate({'text': text})['text']}")
        assert f" {page} ({page.stat().st_size / 1e6:.1f} MB)" in lines[1]
        assert lines[2:] == ([left_out(session)] if given else [])
    assert 'id="saved"' in page.read_text(encoding="utf-8")


def test_what_a_saved_text_is_read_as_is_printed(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("minitransformer.apps.explorer.saved._gradients", lambda *_, **options: [])
    monkeypatch.setattr("minitransformer.tasks.task.Task.other_words", lambda task, text: "one two")
    assert main(["explore", run, "12", "--save", str(tmp_path / "page.html")]) == 0
    assert "the text is read as: one two" in capsys.readouterr().out.splitlines()


def test_a_run_without_held_out_texts_needs_a_text(run, tmp_path, monkeypatch, refused):
    monkeypatch.setattr(Reading, "examples", lambda reading: [])
    assert "give a text" in refused("explore", run, "--save", tmp_path / "page.html")


@pytest.mark.parametrize("command", ["translate", "attention", "explore", "explore --save page.html"])
def test_a_text_from_the_command_line_that_is_no_utf_8_is_read(tmp_path, monkeypatch, command):
    """Each byte that is none is half a surrogate pair."""
    monkeypatch.chdir(tmp_path)
    trained(tmp_path / "run", source=train_tokeniser("words", ["a b c"], min_count=1))
    stop_at_once(monkeypatch)
    name, *options = command.split()
    options += ["--no-browser"] * (command == "explore")
    assert main([name, "run", "a \udce9", *options]) == 0
