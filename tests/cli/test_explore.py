"""The command that opens a trained model in the browser, or saves a sentence."""

import io
import re
import socket
import threading
import urllib.request
import webbrowser
from contextlib import redirect_stderr, redirect_stdout

import pytest
from toml_cases import cases_from_toml

from minitransformer.apps.cli import explore, main
from minitransformer.apps.explorer import Explorer

SIZES = ["--d-model", "8", "--n-heads", "2", "--n-layers", "1", "--d-ff", "8", "--steps", "1", "--evaluate-every", "1"]
DATA = ["--batch-tokens", "64", "--train-pairs", "20", "--held-out", "4"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explore") / "copy"
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        for name in ("draw_curves", "draw_attention"):
            patch.setattr(f"minitransformer.apps.cli.progress.{name}", lambda *_: None)
        assert main(["train", "copy", *SIZES, *DATA, "--out", str(folder)]) == 0
    return str(folder)


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
    pages = []

    def look(server):
        address = re.search(r"http://127\.0\.0\.1:\d+/\S+/", capsys.readouterr().out)[0]
        assert address == server.address
        pages.append(urllib.request.urlopen(address).read())

    stop_at_once(monkeypatch, look)
    assert main(["explore", run, "12", "--no-browser"]) == 0
    assert b"minitransformer" in pages[0]
    assert capsys.readouterr().out == "\nThe explorer has stopped.\n"


def test_the_browser_opens_at_the_text(run, monkeypatch):
    opened, done = [], threading.Event()
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", lambda address: (opened.append(address), done.set()))
    stop_at_once(monkeypatch, lambda server: done.wait(10))
    assert main(["explore", run, "12"]) == 0
    assert opened[0].endswith("/#text=12")


@pytest.mark.parametrize("failure", [webbrowser.Error("none"), OSError("gone"), ValueError("no quote"), None])
def test_without_a_browser_the_address_is_enough(monkeypatch, capsys, failure):
    def fail(address):
        if failure:
            raise failure
        return False

    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", fail)
    explore._open_browser("http://127.0.0.1:1/x/")
    assert capsys.readouterr().out == "No browser could be opened; open the address yourself.\n"


@cases_from_toml
def test_what_is_wrong_is_said_before_a_server_starts(run, tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    assert main(["explore", run, *arguments]) == 2
    assert said in capsys.readouterr().err


def test_no_run(tmp_path, capsys):
    assert main(["explore", str(tmp_path / "none")]) == 2
    assert "none" in capsys.readouterr().err


def test_a_port_in_use_is_named(run, capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main(["explore", run, "--port", str(port), "--no-browser"]) == 2
    assert f"port {port} cannot be used" in capsys.readouterr().err


def test_a_sentence_is_saved(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("minitransformer.apps.explorer.reading.MORE_THAN_SOURCE", 0)
    monkeypatch.setattr("minitransformer.apps.explorer.saved._gradients", lambda *_, **options: [])
    page = tmp_path / "new" / "page.html"
    assert main(["explore", run, "--save", str(page)]) == 0
    out = capsys.readouterr().out
    assert out.endswith(" MB); open it in a browser\n")
    assert 'id="saved"' in page.read_text(encoding="utf-8")
    monkeypatch.setattr("minitransformer.apps.explorer.saved.MOST_PARAMETERS", 20)
    assert main(["explore", run, "--save", str(page)]) == 0
    assert "more than 20 parameters" in capsys.readouterr().out
