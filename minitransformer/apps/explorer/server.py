"""The server of the explorer: one trained model, for the browser of the person who started it.

The server listens on 127.0.0.1. Every path begins with a random token. A request must name this machine in its Host
header, so that no other site's name can lead here, and a POST must come from this page. Only the files of the page can
be read; they are in memory, and no path of the file system is looked up.
"""

from __future__ import annotations

import hmac
import io
import json
import secrets
import sys
import threading
import traceback
from collections import OrderedDict
from contextlib import nullcontext, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR, socket
from time import monotonic
from typing import Any

from minitransformer.apps.explorer.body import RequestError
from minitransformer.apps.explorer.bundle import TYPES, page_files
from minitransformer.apps.explorer.limits import TimeLimitError, time_limit
from minitransformer.apps.explorer.session import REQUESTS, Session
from minitransformer.files import reason

HOST = "127.0.0.1"
FIRST_PORT = 8642
N_PORTS = 20
WEB_PORT = 80
"""The port that addresses need not name."""
MOST_BYTES = 1_000_000
"""The longest body of a request."""
SECONDS = 60.0
"""The longest time that a request may use the model."""
PATIENCE = 10.0
"""How long a request waits for the model while another request uses it, in seconds."""
MOST_CONNECTIONS = 32
PLACE_SECONDS = 1.0
"""How long a new connection waits for the place of one that is closed for it."""
LOOK_UPS = ("model", "sources", "formulas", "tensor")
"""The requests that do not run the model. They do not wait for those that do."""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class PortError(OSError):
    """A port cannot be used; the message says what to do."""


class Explorer(ThreadingHTTPServer):
    """A server that answers for a session; ``serve_forever`` runs it.

    Parameters
    ----------
    session : Session
        The trained model.
    port : int, optional
        The port; by default the first free one from 8642.

    Raises
    ------
    PortError
        If the port cannot be used.
    """

    daemon_threads = True
    allow_reuse_address = sys.platform != "win32"  # there it would let two servers share a port
    request_queue_size = 2 * MOST_CONNECTIONS

    def __init__(self, session: Session, port: int | None = None) -> None:
        self.session = session
        self.token = secrets.token_urlsafe(24)
        self.page = page_files()
        self.busy = threading.Lock()
        self.connections = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self.waiting: OrderedDict[socket, None] = OrderedDict()
        """The connections whose next request has not been read yet; the one that has waited longest comes first."""
        ports = [port] if port is not None else [*range(FIRST_PORT, FIRST_PORT + N_PORTS), 0]
        for place, number in enumerate(ports):
            try:
                super().__init__((HOST, number), _Handler)
                break
            except (OSError, OverflowError) as error:
                if place == len(ports) - 1:
                    raise PortError(
                        f"port {number} cannot be used: {reason(error)}; choose another one, or leave the port out"
                    ) from error
        self.hosts = _hosts(self.server_port)

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    def server_bind(self) -> None:
        """Bind the socket, without the look-up of a name that ``http.server`` does."""
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = HOST, self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread of its own.

        If there are too many, close the one that has waited longest for its request; if none waits, close the new one.
        """
        if not self.connections.acquire(blocking=False):
            with suppress(KeyError, OSError):
                self.waiting.popitem(last=False)[0].shutdown(SHUT_RDWR)  # its thread ends, and leaves its place
            if not self.connections.acquire(timeout=PLACE_SECONDS):
                self.shutdown_request(request)
                return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # the system refuses another thread
            self.connections.release()
            self.shutdown_request(request)
        except BaseException:
            self.connections.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a connection, and make its place free."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.waiting.pop(request, None)
            self.connections.release()

    def handle_error(self, request: socket | tuple[bytes, socket], client_address: Any) -> None:
        """Ignore connections that a browser has closed."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    def answer(self, name: str, body: bytes) -> tuple[int, bytes]:
        """Return the status and the JSON text that answer a request."""
        try:
            status, value = self._compute(name, body)
            return status, _encode(value)
        except (ValueError, RecursionError) as error:
            return 500, _encode({"error": f"{name}: the answer cannot be written as JSON: {error}"})

    def _compute(self, name: str, body: bytes) -> tuple[int, dict[str, Any]]:
        try:
            value = json.loads(body, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            return 400, {"error": f"{name}: the body cannot be read as JSON: {error}; expected an object"}
        computes = name not in LOOK_UPS
        if computes and not self.busy.acquire(timeout=PATIENCE):
            return 503, {"error": f"{name}: the model is busy with another request; try again"}
        try:
            with time_limit(SECONDS) if computes else nullcontext():
                return 200, self.session.answer(name, value)
        except RequestError as error:
            return 400, {"error": f"{error}"}
        except TimeLimitError as error:
            return 400, {"error": f"{name}: {error}; choose a shorter text or a smaller beam"}
        except RecursionError:
            return 400, {"error": f"{name}: the body is nested too deeply; expected an object with few levels"}
        except MemoryError:
            return 400, {"error": f"{name}: the memory is full; choose a shorter text"}
        except Exception as error:
            traceback.print_exc()
            return 500, {"error": f"{name}: {type(error).__name__}: {error}"}
        finally:
            if computes:
                self.busy.release()


class _TimelyReader(io.RawIOBase):
    """Reads from a socket until a time limit, however little comes at a time."""

    def __init__(self, connection: socket, seconds: float) -> None:
        self.connection, self.seconds = connection, seconds
        self.start()

    def start(self) -> None:
        """Begin the time limit again."""
        self.end = monotonic() + self.seconds

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what has come; raise a TimeoutError when the time is over."""
        self.connection.settimeout(max(self.end - monotonic(), 1e-3))
        try:
            return self.connection.recv_into(buffer)
        finally:
            self.connection.settimeout(self.seconds)


class _Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    server: Explorer
    protocol_version = "HTTP/1.1"
    server_version = "minitransformer"
    sys_version = ""
    timeout = 30
    wbufsize = -1
    disable_nagle_algorithm = True
    error_content_type = "text/plain; charset=utf-8"
    error_message_format = "%(message)s\n"

    def setup(self) -> None:
        """Let what is read be in time: one byte now and then would hold a connection for ever."""
        super().setup()
        self.rfile.close()
        self.incoming = _TimelyReader(self.connection, self.timeout)
        self.rfile = io.BufferedReader(self.incoming)

    def handle_one_request(self) -> None:
        """Answer a request that is read within the time limit."""
        self.incoming.start()
        self.server.waiting[self.connection] = None
        super().handle_one_request()

    def do_GET(self) -> None:
        """Send a file of the page."""
        if (name := self._name()) is None:
            return
        data = self.server.page.get(name or "index.html")
        if data is None:
            self._refuse(404, f"there is no {name[:100]!r}")
        else:
            self._send(200, data, TYPES[(name or "index.html").rpartition(".")[2]])

    do_HEAD = do_GET

    def do_POST(self) -> None:
        """Answer a request."""
        self.close_connection = True  # unless the whole body is read
        if (name := self._name()) is None:
            return
        own = {f"http://{host}" for host in self.server.hosts}
        if (
            not own.issuperset(self.headers.get_all("Origin", []))
            or self.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin"
        ):
            return self._refuse(403, "this request comes from another site")
        if name not in REQUESTS:
            return self._refuse(404, f"there is no request {name[:100]!r}; there are {', '.join(REQUESTS)}")
        if self.headers.get_content_type() != "application/json":
            return self._refuse(415, "expected the Content-Type application/json")
        length, *others = self.headers.get_all("Content-Length", [""])
        if others or not (length.isascii() and length.isdigit()) or self.headers.get("Transfer-Encoding"):
            return self._refuse(411, "expected one Content-Length")
        if len(length) > 12 or int(length) > MOST_BYTES:
            self._discard(int(length) if len(length) <= 12 else 0)
            return self._refuse(413, f"the request has {length[:20]} bytes, expected at most {MOST_BYTES:,}")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            return None
        self.close_connection = self.headers.get("Connection", "").lower() == "close"
        self.server.waiting.pop(self.connection, None)
        status, answer = self.server.answer(name, body)
        return self._send(status, answer, "application/json")

    def _discard(self, length: int) -> None:
        """Read a body that is too long, within reason: a browser reads the answer only after it has sent all of it."""
        left = min(length, 16 * MOST_BYTES)
        while left and (data := self.rfile.read1(min(left, 65_536))):
            left -= len(data)

    def _name(self) -> str | None:
        """Return what follows the token in the path; None if the request has been refused."""
        _, token, *rest = [*self.path.partition("?")[0].split("/", 2), ""]
        if self.headers.get_all("Host") not in [[host] for host in self.server.hosts]:
            self._refuse(403, "this server answers only to the name under which it was opened")
        elif not hmac.compare_digest(token.encode(errors="replace"), self.server.token.encode()):
            self._refuse(403, "the address lacks its token; open the address that `minitransformer explore` printed")
        else:
            return rest[0]
        return None

    def _refuse(self, status: int, message: str) -> None:
        self._send(status, _encode({"error": message}), "application/json")

    def _send(self, status: int, data: bytes, kind: str) -> None:
        self.server.waiting.pop(self.connection, None)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", f"{len(data)}")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def end_headers(self) -> None:
        """Add the headers of every answer, refusals of ``http.server`` included."""
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: each line would contain the address, and so the token."""


def _hosts(port: int) -> set[str]:
    """Return what a browser names as the host: it leaves the port of the web out."""
    return {name if port == WEB_PORT else f"{name}:{port}" for name in (HOST, "localhost")}


def _encode(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer, allow_nan=False, separators=(",", ":")).encode("ascii")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"found {name}, expected a finite number")
