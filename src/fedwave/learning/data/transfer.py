"""Content of an address on a server: bounded in bytes and in time, whatever the server does."""

from __future__ import annotations

import threading
from http.client import HTTPMessage, HTTPResponse
from typing import IO, Any
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
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
    """The content at an address; refused with a ValueError or an OSError if it has more than ``most`` bytes."""
    limit_s = _LEAST_S + most / _SLOWEST
    results: list[bytes | BaseException] = []
    stop = threading.Event()

    def work() -> None:
        try:
            results.append(_read(address, most, stop))
        except BaseException as error:  # raised again below, in the thread that asked
            results.append(error)

    # A thread, because a server that sends a header byte by byte is silent for no read of the socket.
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(limit_s)
    stop.set()
    if not results:
        raise TimeoutError(f"not done after {limit_s:.0f} s")
    if isinstance(results[0], BaseException):
        raise results[0]
    return results[0]


def _read(address: str, most: int, stop: threading.Event) -> bytes:
    request = Request(address, headers={"User-Agent": "fedwave"})
    content = bytearray()
    answer: HTTPResponse
    with _opener().open(request, timeout=_SILENCE_S) as answer:
        while not stop.is_set() and (chunk := answer.read(_CHUNK)):
            content += chunk
            if len(content) > most:
                raise ValueError(f"it sends more than {most:,} bytes")
    return bytes(content)


def _opener() -> OpenerDirector:
    """Only http and https: a server that redirects to file:, ftp: or data: is refused."""
    opener = OpenerDirector()
    for handler in (
        ProxyHandler(), HTTPHandler(), HTTPSHandler(), HTTPDefaultErrorHandler(), _Redirects(), HTTPErrorProcessor(),
        UnknownHandler(),
    ):  # fmt: skip
        opener.add_handler(handler)
    return opener


class _Redirects(HTTPRedirectHandler):
    """Follows a redirect without the content that comes with it, which urllib would read to its end."""

    def http_error_302(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage
    ) -> Any:
        vars(fp)["read"] = lambda *_: b""
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302
