"""Content of an address on a server: bounded in bytes and in time, whatever the server does."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from functools import partial
from http.client import HTTPConnection, HTTPMessage, HTTPResponse, HTTPSConnection
from typing import IO, Any
from urllib.error import HTTPError
from urllib.request import (
    AbstractHTTPHandler,
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPRedirectHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    UnknownHandler,
)

_SILENCE_S = 30  # timeout of a server without an answer
_LEAST_S = 60  # in which anything may come
_SLOWEST = 50_000  # bytes per second of a line that is waited for
_CHUNK = 1 << 16


def get(address: str, most: int) -> bytes:
    """The content at an address; a ValueError if it has more than ``most`` bytes, an OSError if it does not come."""
    limit_s = _LEAST_S + most / _SLOWEST
    task = _Task(address, most)
    # A thread, because a server that sends a header byte by byte is never silent for long.
    thread = threading.Thread(target=task.work, daemon=True)
    thread.start()
    try:
        thread.join(limit_s)
    finally:
        task.stop()
    if task.content is None:
        raise task.error or TimeoutError(f"not done after {limit_s:.0f} s")
    return task.content


class _Task:
    """One download, which another thread may stop."""

    def __init__(self, address: str, most: int) -> None:
        self.content: bytes | None = None
        self.error: Exception | None = None
        self._address, self._most = address, most
        self._stopped = False
        self._connections: list[HTTPConnection] = []

    def work(self) -> None:
        try:
            self.content = self._read()
        except HTTPError as error:
            error.close()
            self.error = error
        except Exception as error:  # raised again in the thread that asked
            self.error = error

    def stop(self) -> None:
        self._stopped = True
        for connection in self._connections:
            with suppress(OSError, AttributeError):  # closed already
                connection.sock.shutdown(socket.SHUT_RDWR)

    def connect(self, kind: type[HTTPConnection], *where: Any, **how: Any) -> HTTPConnection:
        """A new connection, known here so that it can be cut."""
        self._connections.append(kind(*where, **how))
        return self._connections[-1]

    def _read(self) -> bytes:
        request = Request(self._address, headers={"User-Agent": "fedwave"})
        content = bytearray()
        with _opener(self).open(request, timeout=_SILENCE_S) as answer:
            while not self._stopped and (chunk := answer.read1(_CHUNK)):
                content += chunk
                if len(content) > self._most:
                    raise ValueError(f"it sends more than {self._most:,} bytes")
        if self._stopped:
            raise TimeoutError("stopped")
        return bytes(content)


def _opener(task: _Task) -> OpenerDirector:
    """Only http and https: a server that redirects to file:, ftp: or data: is refused."""
    opener = OpenerDirector()
    for handler in (
        ProxyHandler(),
        _Http(task),
        HTTPDefaultErrorHandler(),
        _Redirects(),
        HTTPErrorProcessor(),
        UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener


class _Http(AbstractHTTPHandler):
    def __init__(self, task: _Task) -> None:
        super().__init__()
        self._task = task

    def http_open(self, request: Request) -> HTTPResponse:
        return self.do_open(partial(self._task.connect, HTTPConnection), request)

    def https_open(self, request: Request) -> HTTPResponse:
        return self.do_open(partial(self._task.connect, HTTPSConnection), request)

    http_request = https_request = AbstractHTTPHandler.do_request_


class _Redirects(HTTPRedirectHandler):
    """Follows a redirect without the content that comes with it, which urllib would read to its end."""

    def http_error_302(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage) -> Any:
        fp.close()
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302
