"""The server: who may ask, what can be read, and what is refused."""

import http.client
import json
import socket
import threading
from contextlib import ExitStack, contextmanager, suppress
from time import sleep

import pytest
from toml_cases import cases_from_toml, toml_table

from minitransformer.apps.explorer import Explorer, PortError, RequestError
from minitransformer.apps.explorer import server as module
from minitransformer.apps.explorer.limits import TimeLimitError
from minitransformer.apps.explorer.session import REQUESTS

ERRORS = {
    "refuse": RequestError("trace: found a, expected b"),
    "late": TimeLimitError("it took too long"),
    "fail": TypeError("oh"),
    "full": MemoryError(),
    "deep": RecursionError("maximum recursion depth exceeded"),
    "lack": KeyError("oh"),
}


class Talking:
    """Stands in for a session."""

    def __init__(self):
        self.asked = []
        self.entered, self.leave = threading.Event(), threading.Event()

    def answer(self, name, body):
        self.asked.append((name, body))
        if body.get("do") in ERRORS:
            raise ERRORS[body["do"]]
        if body.get("do") == "wait":
            self.entered.set()
            assert self.leave.wait(10)
        return {"x": float("nan")} if body.get("do") == "nan" else {"name": name}


@contextmanager
def serving(session):
    with Explorer(session, 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def talking():
    return Talking()


@pytest.fixture
def server(talking):
    with serving(talking) as server:
        yield server


def ask(server, path, body=None, method=None, **headers):
    """Return the status, the headers and the text of an answer; {} stands for the token in the path."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    try:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        given = {} if body is None else {"Content-Type": "application/json"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method or ("POST" if body is not None else "GET"), path.format(server.token), data, given)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def exchange(server, line, headers, body):
    """Return the lines of a whole answer but its date: the status, its headers in order of their names, its body."""
    given = {"Host": "127.0.0.1:{port}", "Content-Type": "application/json", "Content-Length": f"{len(body)}"} | headers
    lines = [
        f"{name}: {one}"
        for name, value in given.items()
        if value is not None
        for one in (value if isinstance(value, list) else [value])
    ]
    asked = "\r\n".join([line, *lines, "", ""]).format(token=server.token, port=server.server_port)
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as connection:
        connection.sendall((asked + body).encode("latin-1"))
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(65_536), b"")).decode()
    head, _, text = answer.partition("\r\n\r\n")
    status, *found = head.split("\r\n")
    return [status, *sorted(one for one in found if not one.startswith("Date: ")), text]


@cases_from_toml
def test_whole_answers(server, talking, capfd, line, headers, body, n_asked, status, kind, closes, said):
    """Status, headers and body: a file of the page by its name, a text as it is, an error with the words in a list."""
    found = exchange(server, f"{line} HTTP/1.1", headers, body if isinstance(body, str) else body[0] * body[1])
    assert found[0].startswith(f"HTTP/1.1 {status} ")
    if isinstance(said, list):
        answer = json.loads(found[-1])
        assert answer.keys() == {"error"}
        assert all(word in answer["error"] for word in said)
        assert len(answer["error"]) < 200
        whole = found[-1]
    else:
        whole = server.page[said].decode() if said in server.page else said
        assert found[-1] == ("" if line.startswith("HEAD") else whole)
    own = {"Content-Type": kind, "Content-Length": len(whole.encode())} | ({"Connection": "close"} if closes else {})
    assert found[1:-1] == sorted(f"{name}: {value}" for name, value in (toml_table(__file__, "HEADERS") | own).items())
    assert len(talking.asked) == n_asked
    out, err = capfd.readouterr()
    assert (out, "Traceback" in err) == ("", status == 500 and '"nan"' not in body)


def test_errors_of_a_connection_are_told_unless_a_browser_causes_them(server, capfd):
    for error, said in ((ConnectionResetError(), False), (TimeoutError(), False), (OSError("full"), True)):
        try:
            raise error
        except OSError:
            server.handle_error(None, ("127.0.0.1", 1))
        assert ("OSError: full" in capfd.readouterr().err) == said


def test_one_request_at_a_time_uses_the_model(server, talking, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 0.01)
    first = threading.Thread(target=ask, args=(server, "/{}/trace", {"do": "wait"}))
    first.start()
    assert talking.entered.wait(10)
    status, _, text = ask(server, "/{}/translate", {})
    assert (status, "busy" in text) == (503, True)
    assert ask(server, "/{}/tensor", {})[0] == 200  # runs no model
    assert ask(server, "/{}/")[0] == 200
    talking.leave.set()
    first.join()
    assert ask(server, "/{}/translate", {})[0] == 200


def test_only_requests_that_run_the_model_have_a_time_limit_and_run_alone(talking, monkeypatch):
    limits, alone = [], []

    @contextmanager
    def limit(seconds):
        limits.append(seconds)
        yield

    monkeypatch.setattr(module, "time_limit", limit)
    with serving(talking) as server:
        monkeypatch.setattr(talking, "answer", lambda name, body: alone.append(server.busy.locked()) or {})
        for name in REQUESTS:
            assert ask(server, f"/{{}}/{name}", {})[0] == 200
            runs = name in ("translate", "trace", "difference", "training")
            assert (limits, alone) == ([module.SECONDS] * runs, [runs]), name
            limits.clear()
            alone.clear()
    assert module.SECONDS == 60


def test_too_many_connections_are_closed(talking, monkeypatch):
    """Only those whose request is answered at the time count."""
    monkeypatch.setattr(module, "MOST_CONNECTIONS", 1)
    monkeypatch.setattr(module, "PLACE_SECONDS", 0.01)
    with serving(talking) as server:
        statuses = []
        first = threading.Thread(target=lambda: statuses.append(ask(server, "/{}/trace", {"do": "wait"})[0]))
        first.start()
        assert talking.entered.wait(10)
        with pytest.raises((ConnectionError, http.client.BadStatusLine)):
            ask(server, "/{}/")
        talking.leave.set()
        first.join()
        assert statuses == [200]


BEGUN = {
    "nothing": "",
    "half of the headers": "GET / HTTP/1.1\r\nHost: {host}\r\n",
    "half of the body": "POST /{token}/model HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    "Content-Length: 99\r\n\r\n{{",
}


@pytest.mark.parametrize("begun", BEGUN)
def test_connections_that_ask_nothing_make_room(talking, begun):
    with serving(talking) as server, ExitStack() as stack:
        host = f"127.0.0.1:{server.server_port}"
        text = BEGUN[begun].format(token=server.token, host=host).encode()
        for _ in range(2 * module.MOST_CONNECTIONS):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.server_port)))
            with suppress(ConnectionError):
                connection.sendall(text)
        used = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
        for _ in range(3):  # it was used last, so it is not the one that makes room
            used.request("GET", f"/{server.token}/")
            assert used.getresponse().read()
            first = used.sock
            assert ask(server, "/{}/")[0] == 200
        used.request("GET", f"/{server.token}/")
        assert used.getresponse().status == 200
        assert used.sock is first
        used.close()


def test_a_request_that_trickles_in_is_cut_off(talking, monkeypatch):
    monkeypatch.setattr(module._Handler, "timeout", 0.05)
    with serving(talking) as server, socket.create_connection(("127.0.0.1", server.server_port), 10) as slow:
        with suppress(ConnectionError):
            for _ in range(100):
                slow.sendall(b"GET")
                slow.settimeout(0.01)
                with suppress(TimeoutError):
                    assert slow.recv(1) == b""
                    return
        pytest.fail("the connection is still open")


def test_a_closed_connection_leaves_its_place_free(talking, monkeypatch):
    monkeypatch.setattr(module, "MOST_CONNECTIONS", 1)
    with serving(talking) as server:
        assert ask(server, "/{}/")[0] == 200
        assert server.connections.acquire(timeout=10)


def test_a_thread_that_cannot_be_started_leaves_its_place_free(talking, monkeypatch, capsys, few_threads):
    monkeypatch.setattr(module, "MOST_CONNECTIONS", 1)
    with serving(talking) as server:
        start = threading.Thread.start
        few_threads(0)
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            ask(server, "/{}/")
        monkeypatch.setattr(threading.Thread, "start", start)
        assert server.connections.acquire(timeout=10)
    assert "Traceback" not in capsys.readouterr().err


def test_a_connection_is_used_again_and_each_request_has_its_own_time(server, talking, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(module, "monotonic", lambda: clock[0])
    monkeypatch.setattr(talking, "answer", lambda name, body: clock.append(clock.pop() + 20) or {"name": name})
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    for _ in range(3):  # 30 seconds are too few for all
        connection.request("POST", f"/{server.token}/model", b"{}", {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert json.loads(answer.read()) == {"name": "model"}
        assert answer.headers["Connection"] != "close"
        sleep(0.05)  # a connection whose time is over would be closed by now
    connection.close()


def test_a_second_server_finds_another_port(talking):
    with Explorer(talking) as first, Explorer(talking) as second:
        assert first.server_port != second.server_port
        assert first.token != second.token
        assert first.address == f"http://127.0.0.1:{first.server_port}/{first.token}/"


@pytest.mark.parametrize(("error", "why"), [(OSError(1, "in use"), "in use"), (OverflowError("too high"), "too high")])
@pytest.mark.parametrize(("port", "tried"), [(5, [5]), (0, [0]), (None, [*range(8642, 8662), 0])])
def test_a_port_that_cannot_be_used_is_named(talking, monkeypatch, port, tried, error, why):
    """Without one, each of twenty is tried, and then any."""
    asked = []

    def bind(server):
        asked.append(server.server_address)
        raise error

    monkeypatch.setattr(Explorer, "server_bind", bind)
    with pytest.raises(PortError) as caught:
        Explorer(talking, port)
    assert f"port {tried[-1]} " in str(caught.value)
    assert why in str(caught.value)
    assert asked == [("127.0.0.1", one) for one in tried]


def test_a_body_may_be_as_long_as_is_said(server, monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 40)
    assert [ask(server, "/{}/model", b"{}".ljust(n))[0] for n in (39, 40, 41)] == [200, 200, 413]
