"""Serve the explorer over HTTP, for this host only.

The server listens on 127.0.0.1. Every address contains a secret token. Requests that name another host (DNS
rebinding), come from another origin, have a body, are too long or ask for anything except the few answers below are
refused. No request names a file, so path traversal is not possible.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from .._version import __version__
from ..errors import FastAnchorsError, one_line
from .live import Session

__all__ = ["ExplorerServer"]

_LONGEST = 2048  # characters of a request's path and query
_HEADERS = 16384  # characters of all its headers
_SECONDS = 5.0  # for a client to send its whole request, and for each read or write
_AT_ONCE = 32  # incomplete requests at a time; one more closes the oldest
_SITES = ("same-origin", "none")  # accepted origins of a request, as stated by the browser


class _Refused(Exception):
    """A request that is refused, with its HTTP status."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class ExplorerServer(ThreadingHTTPServer):
    """Serves one session at ``address``; :meth:`serve_forever` runs until :meth:`shutdown` or Ctrl-C.

    Parameters
    ----------
    session : Session
        Answers the requests.
    k, rule
        Number of anchors and rule that the page shows first.
    port : int
        Port number; 0 for any free one.
    """

    daemon_threads = True
    request_queue_size = 32

    def __init__(self, session: Session, *, k: int, rule: str, port: int = 0) -> None:
        self.session, self.first = session, (k, rule)
        self.token = secrets.token_urlsafe(24)
        self._waiting: OrderedDict[socket.socket, float] = (
            OrderedDict()
        )  # connections without a complete request, and their deadlines
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def address(self) -> str:
        """The address to open, with the token."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"

    @property
    def hosts(self) -> tuple[str, str]:
        """The accepted names of this host."""
        port = "" if self.server_port == 80 else f":{self.server_port}"  # browsers leave the usual port out
        return f"127.0.0.1{port}", f"localhost{port}"

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._waiting[request] = time.monotonic() + _SECONDS
            if len(self._waiting) > _AT_ONCE:
                _disconnect(self._waiting.popitem(last=False)[0])
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Close connections whose request is not complete in time, even if it still sends bytes."""
        now = time.monotonic()
        with self._lock:
            for request in [each for each, until in self._waiting.items() if until < now]:
                del self._waiting[request]
                _disconnect(request)

    def request_complete(self, request: Any) -> None:
        """Remove the time limit of a connection: its request has arrived, or it was closed."""
        with self._lock:
            self._waiting.pop(request, None)

    def shutdown_request(self, request: Any) -> None:
        self.request_complete(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of clients that disconnected."""


def _disconnect(request: socket.socket) -> None:
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: ExplorerServer
    timeout = _SECONDS
    server_version, sys_version = f"fastanchors/{__version__}", ""

    def do_GET(self) -> None:
        self.server.request_complete(self.connection)
        try:
            self._check()
            kind, text = self._answer(self.path)
            self._send(HTTPStatus.OK, kind, text)
        except _Refused as refused:
            self._send_error(refused.status, str(refused))
        except FastAnchorsError as error:
            self._send_error(HTTPStatus.BAD_REQUEST, one_line(str(error), 300))
        except (ConnectionError, TimeoutError):  # another answer would be taken for the rest of this one
            self.close_connection = True
        except Exception as error:
            self._send_error(HTTPStatus.INTERNAL_SERVER_ERROR, one_line(f"{type(error).__name__}: {error}", 300))

    def _check(self) -> None:
        """Refuse requests that do not come from the page or from this user."""
        if len(self.path) > _LONGEST:
            raise _Refused(HTTPStatus.REQUEST_URI_TOO_LONG, "the address is too long")
        if sum(len(name) + len(value) for name, value in self.headers.items()) > _HEADERS:
            raise _Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too long")
        if set(self.headers.get_all("Content-Length", [])) - {"0"} or "Transfer-Encoding" in self.headers:
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "a request must not have a body")
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or hosts[0] not in self.server.hosts:
            raise _Refused(HTTPStatus.FORBIDDEN, "this server answers as 127.0.0.1 only")
        if set(self.headers.get_all("Origin", [])) - {f"http://{hosts[0]}"}:
            raise _Refused(HTTPStatus.FORBIDDEN, "requests of other origins are refused")
        if set(self.headers.get_all("Sec-Fetch-Site", [])) - set(_SITES):
            raise _Refused(HTTPStatus.FORBIDDEN, "requests of other sites are refused")

    def _answer(self, path: str) -> tuple[str, str]:
        """Type and text of the answer; the path must be a token and a name from a fixed list."""
        address = urlsplit(path)
        token, _, name = address.path.removeprefix("/").partition("/")
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode()):
            raise _Refused(HTTPStatus.FORBIDDEN, "the address needs the token that was printed at the start")
        if address.scheme or address.netloc or not address.path.startswith(f"/{token}/"):
            raise _Refused(HTTPStatus.NOT_FOUND, "not found")
        if name == "":
            return "text/html", self.server.session.page(*self.server.first)
        if name not in _ANSWERS:
            raise _Refused(HTTPStatus.NOT_FOUND, "not found")
        try:
            values = dict(parse_qsl(address.query, max_num_fields=8, errors="strict"))
        except ValueError:
            raise _Refused(HTTPStatus.BAD_REQUEST, "the request cannot be parsed") from None
        found = _ANSWERS[name](self.server.session, values)
        return "application/json", json.dumps(found, allow_nan=False, separators=(",", ":"))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer errors that the base class detects: other methods, malformed requests."""
        self._send_error(
            HTTPStatus(code), "only GET requests are answered" if code == 501 else "the request is malformed"
        )

    def _send_error(self, status: HTTPStatus, reason: str) -> None:
        self._send(status, "application/json", json.dumps({"error": reason}))

    def _send(self, status: HTTPStatus, kind: str, text: str) -> None:
        content = text.encode("utf-8", "replace")
        self.send_response(status)
        for name, value in (
            ("Content-Type", f"{kind}; charset=utf-8"),
            ("Content-Length", str(len(content))),
            ("Cache-Control", "no-store"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Connection", "close"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged: the page sends two a second."""


def _whole(values: Mapping[str, str], name: str) -> int:
    text = values.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise _Refused(HTTPStatus.BAD_REQUEST, f"{name} must be a whole number")
    return int(text)


_ANSWERS: dict[str, Callable[[Session, Mapping[str, str]], dict[str, Any]]] = {
    "state": lambda session, values: {"revision": session.revision()},
    "seek": lambda session, values: session.seek(_whole(values, "k"), values.get("rule", "")),
    "stability": lambda session, values: session.stability(_whole(values, "k"), values.get("rule", "")),
    "row": lambda session, values: session.row(_whole(values, "index"), _whole(values, "k"), values.get("rule", "")),
    "find": lambda session, values: session.find(values.get("q", "")),
}
